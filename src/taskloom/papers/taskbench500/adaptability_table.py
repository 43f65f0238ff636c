"""Table 1 of TaskBench500: generalisation by type of task and procedure, and by family."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from taskloom.analysis.finding import Finding, PaperClaim, claim_findings, difference_claim
from taskloom.analysis.paper_table import PaperTable, TableCell, count_of, table_of, wide_table
from taskloom.analysis.study import study
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import over_task_differences, over_tasks
from taskloom.experiments.table import Runs
from taskloom.papers.taskbench500.experiments import composition_experiments
from taskloom.papers.taskbench500.runs import (
    Adaptation,
    generalising,
    model_notes,
    procedures,
)

TABLE = PaperTable(
    paper="taskbench500",
    place="Table 1",
    unit="tasks",
    name="table1",
    title="TaskBench500 Table 1",
    text=(
        "Mean over tasks ± standard error over tasks, with the number of tasks. Words count as"
        " right where any acceptable answer is given, sequences by the share of right positions."
    ),
    caption=(
        "Generalisation by kind of task and procedure: means over tasks ({range} tasks each) with"
        " 95 % intervals (t over tasks); diamonds are the paper's means. F: all training data, 32:"
        " 32 examples; FT: fine-tuning, PT: prompt tuning."
    ),
    axes={
        "place": "procedure",
        "series": "kind",
        "panel": "kind",
        "shared": False,
        "xlabel": "accuracy",
    },
)

ATOMIC, WORDS, SEQUENCES = "atomic", "word-level composition", "sequential composition"
SEPARATED = "sequential composition (+separators)"
KINDS = (ATOMIC, WORDS, SEQUENCES, SEPARATED)
"""Columns of the table. In the paper's table, sequences have no separators."""


@dataclass(frozen=True, slots=True)
class TaskScores:
    """The tasks of one kind under one procedure, with their scores."""

    procedure: str
    kind: str
    chosen: tuple[Adaptation, ...]

    @property
    def scores(self) -> list[float]:
        """One score per task."""
        return scores_of(self.chosen)


def scores_of(chosen: Iterable[Adaptation]) -> list[float]:
    """Return one score per task. Adaptations without a generalisation score are left out."""
    return [score for one in chosen if (score := one.adaptability) is not None]


def kind_of(one: Adaptation) -> str:
    """Column of Table 1 that a task belongs to."""
    if one.composition == "atomic":
        return ATOMIC
    if one.composition in ("map", "filter", "map_filter"):
        return SEPARATED if one.separators else SEQUENCES
    return WORDS


def cells(chosen: Sequence[Adaptation]) -> list[TaskScores]:
    """Return the cells of the table that have tasks, ordered by procedure."""
    table = []
    for procedure in procedures(chosen):
        for kind in KINDS:
            own = tuple(a for a in chosen if a.procedure == procedure and kind_of(a) == kind)
            if own:
                table.append(TaskScores(procedure, kind, own))
    return table


@study(
    "taskbench500/table1",
    describe=(
        "Adaptability to atomic and composed tasks by fine-tuning and prompt tuning, on all data"
        " and on 32 examples"
    ),
    place="TaskBench500, Table 1",
    experiment=composition_experiments,
)
def table1(runs: Runs) -> list[Finding]:
    """Compute the mean generalisation over tasks of each kind under each procedure."""
    chosen = generalising(runs)
    table = cells(chosen)
    main = TABLE.finding(
        [_table_cell(cell) for cell in table],
        table=kind_table(table),
        notes=(*model_notes(chosen), *_notes(chosen)),
    )
    by_family = Finding(
        "TaskBench500 Table 1 by family",
        "The same by the family of the tasks' atoms; random relations cannot be generalised, only"
        " memorised.",
        family_table(chosen),
    )
    claims = claim_findings("TaskBench500 Table 1", _claims(table), CLAIM_RULE)
    return [main, by_family, *_constant_findings(table), *claims]


def _constant_findings(table: Sequence[TaskScores]) -> list[Finding]:
    """Compare scores with the best constant answers. Returns no findings if no `majority` runs are
    stored.
    """
    rows = []
    for cell in table:
        excesses = [one.excess for one in cell.chosen if one.excess is not None]
        if len(excesses) < 2 or len(excesses) < len(cell.chosen):
            continue
        difference = over_task_differences(excesses, [one.parts for one in cell.chosen])
        mean = statistics.fmean(cell.scores)
        above = sum(excess > 0 for excess in excesses)
        rows.append(
            {
                "procedure": cell.procedure,
                "kind": cell.kind,
                "tasks": len(excesses),
                "mean": f"{mean:.3f}",
                "best constant": f"{mean - difference.mean:.3f}",
                "difference": signed(difference.mean, difference.low, difference.high),
                "tasks above the constant": f"{above} of {len(excesses)}",
            }
        )
    if not rows:
        return []
    text = (
        "Beside the best constant answer: the one that is acceptable to most training inputs,"
        " scored on the same tests. For sequences it is one item, repeated. Unit of analysis:"
        " tasks. Intervals (95 %) of the difference are over atomic parts, or over tasks if that is"
        " wider."
    )
    return [Finding("TaskBench500 Table 1 beside the best constant answer", text, table_of(rows))]


def shown(scores: Sequence[float]) -> str:
    """Format the mean ± standard error with the number of tasks, or a dash if there are no
    tasks.
    """
    if not scores:
        return "–"
    spread = f" ± {over_tasks(scores).se:.3f}" if len(scores) > 1 else ""
    return f"{statistics.fmean(scores):.3f}{spread} ({len(scores)})"


def signed(value: float, low: float, high: float) -> str:
    """Format a difference with its interval and signs. A missing interval is left out.

    >>> signed(-0.0581, -0.2, 0.084), signed(0.1, math.nan, math.nan)
    ('-0.058 [-0.200, +0.084]', '+0.100')
    """
    shown = f"{round(value, 3) + 0.0:+.3f}"
    if math.isnan(low):
        return shown
    return f"{shown} [{round(low, 3) + 0.0:+.3f}, {round(high, 3) + 0.0:+.3f}]"


def kind_table(table: Sequence[TaskScores]) -> ResultTable:
    """Build the table in the paper's layout, with a row for each procedure and a column for each
    task type.
    """
    chosen: dict[str, list[Adaptation]] = {}
    for cell in table:
        chosen.setdefault(cell.kind, []).extend(cell.chosen)
    measured = [_table_cell(cell) for cell in table]
    rows = list(wide_table(measured, ("procedure",), "kind", lambda cell: shown(cell.by_unit)))
    constants = {kind: constant_cell(own) for kind, own in chosen.items()}
    if set(constants.values()) != {"–"}:
        rows.append({"procedure": "best constant", **constants})
    return ResultTable(("procedure", *(kind for kind in KINDS if kind in chosen)), rows)


def constant_cell(chosen: Sequence[Adaptation]) -> str:
    """Format the mean score of the best constant answers over tasks, or a dash unless it is known
    for all of them.
    """
    known = {one.task: one.constant for one in chosen}
    constants = [constant for constant in known.values() if constant is not None]
    if not constants or len(constants) < len(known):
        return "–"
    return shown(constants)


def family_table(chosen: Sequence[Adaptation]) -> ResultTable:
    """Build a table with a row for each task type and family, and a column for each procedure."""
    names = procedures(chosen)
    rows = []
    for kind in KINDS:
        of_kind = [one for one in chosen if kind_of(one) == kind]
        for family in sorted({one.family for one in of_kind}):
            own = [one for one in of_kind if one.family == family]
            row = {"kind": kind, "family": family, "best constant": constant_cell(own)}
            for procedure in names:
                row[procedure] = shown(scores_of(o for o in own if o.procedure == procedure))
            rows.append(row)
    return ResultTable(("kind", "family", *names, "best constant"), rows)


def _table_cell(cell: TaskScores) -> TableCell:
    labels = {"procedure": cell.procedure, "kind": cell.kind}
    claim = f"{cell.procedure}, {cell.kind}: mean over tasks"
    first = cell.chosen[0]
    return TABLE.cell(
        labels, cell.scores, first.conditions, claim=claim, extra=method_difference(first)
    )


def method_difference(one: Adaptation) -> Iterator[str]:
    """Yield a note if a run uses another method than the paper."""
    if one.learner == "lora":
        yield "LoRA (paper: all weights)"


ALIKE = 0.05
"""Maximum difference between means that counts as comparable: the paper calls 0.469 and 0.426
comparable.
"""

CLAIM_RULE = (
    "A claim that one is better holds if the whole 95 % interval of the difference, over the same"
    f" tasks, is above 0; that the two are comparable, if it is within ± {ALIKE:g}. Composed tasks"
    " share atomic parts: the interval is that over parts, by the jackknife, if this is the wider."
    " The p-value must also be at most 0.05 after Holm's correction for all claims of this table."
    " Otherwise the outcome is inconclusive."
)

CLAIMS = (
    ("F", ATOMIC, "full data: the two are comparable on atomic tasks", "Table 1", ALIKE),
    (
        "F",
        WORDS,
        "full data: fine-tuning generalises better than prompt tuning to composed words",
        "section 6",
        0.0,
    ),
    (
        "F",
        SEQUENCES,
        "full data: fine-tuning generalises better than prompt tuning to sequences",
        "section 6",
        0.0,
    ),
    ("32", ATOMIC, "32 examples: the two are comparable on atomic tasks", "section 6", ALIKE),
    ("32", WORDS, "32 examples: the two are comparable on composed words", "section 6", ALIKE),
    ("32", SEQUENCES, "32 examples: the two are comparable on sequences", "section 6", ALIKE),
)
"""The paper's claims about fine-tuning and prompt tuning: data, column, claim, section, and the
maximum difference at which the two count as comparable.
"""


def _claims(table: Iterable[TaskScores]) -> Iterator[PaperClaim]:
    """Yield the paper's claims about the table, on the tasks that both procedures of a comparison
    have.
    """
    by_place = {(cell.procedure, cell.kind): cell for cell in table}
    for shots, kind, text, place, within in CLAIMS:
        fine, prompt = by_place.get((f"{shots}FT", kind)), by_place.get((f"{shots}PT", kind))
        if fine and prompt:
            more, less, parts = paired_scores(fine.chosen, prompt.chosen)
            measure = f"{fine.procedure} − {prompt.procedure}, mean over {len(more)} tasks"
            if within:
                measure += f", within ± {within:g}"
            yield difference_claim(
                text, place, measure, more, less, paired=True, within=within, parts=parts
            )


def paired_scores(
    some: Sequence[Adaptation], others: Sequence[Adaptation]
) -> tuple[list[float], list[float], list[tuple[str, ...]]]:
    """Scores in both groups of the tasks that the two groups share, and each task's parts."""
    known = {one.task: one.adaptability for one in others}
    pairs = [(one.adaptability, known.get(one.task), one.parts) for one in some]
    both = [(a, b, parts) for a, b, parts in pairs if a is not None and b is not None]
    return [a for a, _, _ in both], [b for _, b, _ in both], [parts for _, _, parts in both]


def _notes(chosen: Sequence[Adaptation]) -> Iterator[str]:
    seeds = count_of((len(one.runs) for one in chosen), "seed")
    yield f"Each task's score is the mean over {seeds}; intervals are over tasks."
    yield (
        "The paper's ± is taken for the standard error over tasks, which its Table 3 fits; it does"
        " not say so."
    )
