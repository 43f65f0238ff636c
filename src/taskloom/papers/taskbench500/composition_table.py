"""Table 3 and Figures 3 and 5 of TaskBench500: can the score of a composed task be predicted from
those of its atomic parts?

For each composition and procedure, a line is fitted over tasks: y is the generalisation of the
composed task, x the mean of its atomic parts under the same procedure. A task whose answer is often
the same is easy for any model, and so are the tasks composed of it. The primary numbers therefore
control for the best constant answer (the `majority` learner) in two ways:

- the line of the excess: the composed task's score minus that of its constant, against the mean of
  the same difference over its parts;
- the partial r² of the parts, given the constant of the composed task.

The paper's line, without this control, is reported next to them. Sequences are scored in two ways:
correctly, and like the public code, which compares the first n words with the n positions.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, PaperClaim, StudyFigure, claim_findings
from taskloom.analysis.paper_table import count_of, count_range, mean_and_se, table_of
from taskloom.analysis.published_numbers import PublishedNumber, comparable, differences, published
from taskloom.analysis.study import CountSetting, StudyError, study
from taskloom.analysis.verdict import Judgement, judge_estimate, judge_mean
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import over_task_differences
from taskloom.experiments.table import Runs
from taskloom.papers.taskbench500.adaptability_table import method_difference, signed
from taskloom.papers.taskbench500.experiments import composition_experiments
from taskloom.papers.taskbench500.runs import (
    ANSWERS,
    BEST_ON_TEST,
    CONSTANT,
    LABELS,
    Adaptation,
    generalising,
    model_notes,
    procedures,
)
from taskloom.papers.taskbench500.task_regression import (
    Regression,
    draw_regressions,
    r2_interval,
    regress,
    slope_interval,
)

PAPER, PLACE = "taskbench500", "Table 3"

SEPARATED = " (+separators)"
SEQUENCES = tuple(
    f"{word}{apart}" for word in ("map", "filter", "map_filter") for apart in ("", SEPARATED)
)
COMPOSITIONS = ("chain", "union", "intersection", "land", "lor", *SEQUENCES)
"""Compositions in the paper's order. The paper's table has neither map_filter nor filters with
separators.
"""

ENOUGH = 20
"""Minimum number of tasks for which the paper draws a line. Rows with fewer tasks have a star."""

RIGHT, COMPATIBLE = "right", "reference-compatible"
"""Ways to score sequences."""


@dataclass(frozen=True, slots=True)
class ComposedTask:
    """A composed task and its parts. They provide y and x of the regression."""

    one: Adaptation
    parts: float
    score: float
    answers: float | None
    constants: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Controlled:
    """Composed tasks of one group with the scores of constant answers. Lists have one number per
    task.

    Attributes:
        scores: Score of the composed task.
        parts: Mean score of its atomic parts.
        constants: Score of the constant answer to the composed task.
        parts_constants: Mean score of the constant answers to the parts.
        atoms: Atomic parts, which several tasks may share.
    """

    scores: list[float]
    parts: list[float]
    constants: list[float]
    parts_constants: list[float]
    atoms: list[tuple[str, ...]]

    @property
    def excesses(self) -> list[float]:
        """Score of each task minus the score of its constant."""
        return [
            score - constant for score, constant in zip(self.scores, self.constants, strict=True)
        ]

    @property
    def excess_line(self) -> Regression:
        """Line fitted to the excess of composed tasks over the mean excess of their parts."""
        across = [
            score - constant
            for score, constant in zip(self.parts, self.parts_constants, strict=True)
        ]
        return regress(across, self.excesses, parts=self.atoms)

    @property
    def beside_constant(self) -> Regression:
        """Line with the constants of the composed tasks as covariate, so that its r² is the partial
        one.
        """
        return regress(self.parts, self.scores, self.constants, parts=self.atoms)

    @property
    def constant_line(self) -> Regression:
        """Line with the constants as the only predictor."""
        return regress(self.constants, self.scores, parts=self.atoms)


@dataclass(frozen=True, slots=True)
class CompositionTasks:
    """The composed tasks of one composition under one procedure, in one way of scoring."""

    composition: str
    procedure: str
    scoring: str
    tasks: tuple[ComposedTask, ...]

    @property
    def line(self) -> Regression:
        """Line fitted to the tasks."""
        return regress(
            [t.parts for t in self.tasks], [t.score for t in self.tasks], parts=self.atoms
        )

    @property
    def atoms(self) -> list[tuple[str, ...]]:
        """The atomic parts of each task."""
        return [t.one.parts for t in self.tasks]

    def controlled(self, name: str = CONSTANT) -> Controlled | None:
        """The tasks with their constant answers of this name. None unless the constants of all
        tasks and all parts are known.
        """
        if not all(name in t.constants for t in self.tasks):
            return None
        return Controlled(
            scores=[t.score for t in self.tasks],
            parts=[t.parts for t in self.tasks],
            constants=[t.constants[name][0] for t in self.tasks],
            parts_constants=[t.constants[name][1] for t in self.tasks],
            atoms=self.atoms,
        )

    @property
    def beside_answers(self) -> Regression | None:
        """Line with the logarithm of the number of answers as covariate. None if this number is
        unknown or equal for all tasks.
        """
        known = [t for t in self.tasks if t.answers]
        sizes = [math.log(t.answers or 1) for t in known]
        if len(known) < len(self.tasks) or len(set(sizes)) < 2:
            return None
        atoms = [t.one.parts for t in known]
        return regress([t.parts for t in known], [t.score for t in known], sizes, parts=atoms)

    @property
    def star(self) -> str:
        """A star if the paper would not draw a line."""
        return "*" if len(self.tasks) < ENOUGH else ""


def composition_of(one: Adaptation) -> str:
    """The row of Table 3 that a composed task belongs to."""
    apart = one.separators and one.composition in SEQUENCES
    return one.composition + (SEPARATED if apart else "")


def composed_tasks(runs: Runs) -> tuple[list[CompositionTasks], list[Adaptation]]:
    """Return the composed tasks whose atomic parts have adaptations, and all adaptations that measure
    generalisation. Raises an error if there are no such tasks.
    """
    chosen = generalising(runs)
    atomic = {(a.procedure, a.task): a for a in chosen if a.composition == "atomic"}
    groups = []
    for composition in COMPOSITIONS:
        own = [a for a in chosen if a.composition != "atomic" and composition_of(a) == composition]
        for procedure in procedures(own):
            under = [a for a in own if a.procedure == procedure]
            for scoring in (RIGHT, COMPATIBLE):
                tasks = tuple(t for a in under if (t := _composed(a, atomic, scoring)) is not None)
                if tasks and (scoring == RIGHT or composition in SEQUENCES):
                    groups.append(CompositionTasks(composition, procedure, scoring, tasks))
    if not groups:
        raise StudyError(
            f"{runs.path} has no composed task whose atomic parts have runs under the same"
            " procedure; this study needs both, e.g. of 'taskloom reproduce taskbench500/table3'"
        )
    return groups, chosen


def _composed(
    one: Adaptation, atomic: Mapping[tuple[str, str], Adaptation], scoring: str
) -> ComposedTask | None:
    parts = [atomic[one.procedure, part] for part in one.parts if (one.procedure, part) in atomic]
    score = one.adaptability if scoring == RIGHT else one.reference_score
    if len(parts) < len(one.parts) or not parts or score is None:
        return None
    constants = {}
    for name, own in one.constants.items():
        if all(name in part.constants for part in parts):
            constants[name] = (own, statistics.fmean(part.constants[name] for part in parts))
    mean = statistics.fmean(part.adaptability or 0.0 for part in parts)
    return ComposedTask(one, mean, score, one.answers, constants)


@study(
    "taskbench500/table3",
    describe=(
        "Regression of composed on atomic adaptability beside the best constant answer, and plainly"
    ),
    place="TaskBench500, Table 3",
    experiment=composition_experiments,
    traits=(ANSWERS,),
)
def table3(runs: Runs) -> list[Finding]:
    """Fit a line for each composition and procedure: controlled for the best constant,
    uncontrolled, and controlled for the number of answers.
    """
    groups, chosen = composed_tasks(runs)
    right = [group for group in groups if group.scoring == RIGHT]
    plain = Finding(
        "TaskBench500 Table 3: plain lines",
        "Secondary: the same without the best constant, as the paper has it. y: generalisation of"
        " a composed task; x: mean generalisation of its atomic parts under the same procedure. ±"
        " is the standard error over tasks. Intervals (95 %) of slope and r² are over atomic"
        " parts. On data with capitals the public rule misses every capitalised answer; the"
        f" released data have none. * fewer than {ENOUGH} tasks.",
        line_table(groups),
        judgements=tuple(j for group in right for j in _judgements(group)),
        notes=(*model_notes(chosen), *_scoring_notes(groups)),
    )
    beside = Finding(
        "TaskBench500 Table 3 beside the number of answers",
        "The plain lines (right scoring) beside the logarithm of the mean number of acceptable"
        " answers: the slope of the parts with that held constant, and the partial r² of the"
        " parts.",
        answer_table(right),
    )
    claims = claim_findings("TaskBench500 Table 3", _claims(right))
    return [*_constant_findings(right), plain, *_other_constants(right), beside, *claims]


def _constant_findings(right: Sequence[CompositionTasks]) -> list[Finding]:
    """Compute the primary numbers. Returns no findings if no `majority` runs are stored."""
    groups = [group for group in right if group.controlled() is not None]
    if not groups:
        return []
    shown = [group for group in groups if len(group.tasks) >= ENOUGH] or list(groups)
    sizes = {group.composition: len(group.tasks) for group in shown}
    parts = {
        group.composition: len({atom for own in group.atoms for atom in own}) for group in shown
    }
    counted = ", ".join(
        f"{name} {n} tasks of {parts[name]} atomic parts" for name, n in sizes.items()
    )
    trained = {len(t.one.runs) for group in shown for t in group.tasks}
    caption = (
        "Share of the variance of composed scores (r²) that is explained by the best constant"
        " answer alone, by the atomic parts alone, and by the parts beside the constant (partial"
        f" r²). Unit of analysis: composed tasks ({counted}), {count_of(trained, 'seed')} each;"
        " 95 % intervals by the jackknife over atomic parts."
    )
    plot = partial(
        figures.intervals,
        place="procedure",
        series="explained by",
        panel="composition",
        xlabel="r²",
    )
    text = (
        "Primary numbers. Best constant: mean score of the answer that is acceptable to most"
        " training inputs, on the same tests. Excess: score minus constant. r² of excess: composed"
        " excess on the mean excess of the parts. Partial r²: of the parts beside the constant of"
        " the composed task. Unit of analysis: composed tasks; intervals (95 %) over atomic parts,"
        " which tasks share, by the jackknife that leaves out one part at a time with all its"
        f" tasks, or over tasks if that is wider. * fewer than {ENOUGH} tasks."
    )
    drawing = StudyFigure("table3", caption, _share_points(shown), plot)
    return [
        Finding(
            "TaskBench500 Table 3 beside the best constant answer",
            text,
            constant_table(groups),
            (drawing,),
        )
    ]


EXPLAINED = ("best constant", "parts", "parts beside the constant")


def _share_points(groups: Sequence[CompositionTasks]) -> ResultTable:
    rows: list[dict[str, Any]] = []
    for group in groups:
        beside = group.controlled()
        if beside is None:
            continue
        lines = (beside.constant_line, group.line, beside.beside_constant)
        for name, line in zip(EXPLAINED, lines, strict=True):
            if not math.isnan(line.r2_low):
                row = {"explained by": name, "mean": line.r2, "low": line.r2_low}
                rows.append(
                    {**_labels(group), **row, "high": line.r2_high, "tasks": len(group.tasks)}
                )
    columns = ("composition", "procedure", "explained by", "mean", "low", "high", "tasks")
    return ResultTable(columns, rows)


def _labels(group: CompositionTasks) -> dict[str, Any]:
    return {"composition": group.composition, "procedure": group.procedure}


def constant_table(groups: Sequence[CompositionTasks]) -> ResultTable:
    """Build a table with a row for each composition and procedure: scores controlled for the best
    constant answer.
    """
    controlled = [(group, group.controlled()) for group in groups]
    return table_of(
        [
            {
                **_labels(group),
                "tasks": f"{len(group.tasks)}{group.star}",
                "parts": str(len({atom for own in group.atoms for atom in own})),
                "mean": f"{statistics.fmean(beside.scores):.3f}",
                "best constant": f"{statistics.fmean(beside.constants):.3f}",
                "excess": excess_cell(beside),
                "r² of excess": r2_cell(beside.excess_line),
                "slope of excess": slope_cell(beside.excess_line),
                "partial r²": r2_cell(beside.beside_constant),
                "r² of constant": r2_cell(beside.constant_line),
                "plain r²": r2_cell(group.line),
            }
            for group, beside in controlled
            if beside is not None
        ]
    )


def _other_constants(groups: Sequence[CompositionTasks]) -> list[Finding]:
    """Compute the primary numbers with constants that were chosen in other ways. Returns no
    findings if no other constants are stored.
    """
    rows = []
    for group in groups:
        for name in (LABELS, BEST_ON_TEST):
            beside = group.controlled(name)
            if beside is None or len(group.tasks) < ENOUGH:
                continue
            rows.append(
                {
                    **_labels(group),
                    "tasks": len(group.tasks),
                    "constant": name,
                    "its score": f"{statistics.fmean(beside.constants):.3f}",
                    "excess over it": excess_cell(beside),
                    "r² of that": r2_cell(beside.excess_line),
                    "r² beside it": r2_cell(beside.beside_constant),
                }
            )
    if not rows:
        return []
    text = (
        "Sensitivity: the primary numbers with other constants (r² of that: of the excess; r²"
        " beside it: partial). Labels: most frequent training label, all that a model could count,"
        " since it sees one label of each input. Best on test: the answer that is acceptable to"
        " most tests, an upper bound that is inflated by choosing on 40 of them."
    )
    return [Finding("TaskBench500 Table 3 beside other constants", text, table_of(rows))]


def excess_cell(beside: Controlled) -> str:
    """Format the mean excess over the constant, with its interval over parts."""
    if len(beside.scores) < 2:
        return "–"
    excess = over_task_differences(beside.excesses, beside.atoms)
    return signed(excess.mean, excess.low, excess.high)


def r2_cell(line: Regression) -> str:
    """Format r² with its interval."""
    return interval(line.r2, line.r2_low, line.r2_high)


def slope_cell(line: Regression) -> str:
    """Format the slope with its interval."""
    return interval(line.slope, line.slope_low, line.slope_high)


@study(
    "taskbench500/figure3",
    describe="Composed against atomic adaptability, a line for each composition and procedure",
    place="TaskBench500, Figure 3",
    experiment=composition_experiments,
    traits=(ANSWERS,),
)
def figure3(runs: Runs, *, fewest: CountSetting = ENOUGH) -> Finding:
    """Plot the composed tasks against their parts.

    Args:
        runs: The runs.
        fewest: Compositions of fewer tasks are left out, where others have enough.
    """
    groups, chosen = composed_tasks(runs)
    right = [group for group in groups if group.scoring == RIGHT]
    drawn = [group for group in right if len(group.tasks) >= fewest] or right
    left_out = sorted({g.composition for g in right} - {g.composition for g in drawn})
    notes = (
        [f"Left out, having fewer than {fewest} tasks: {', '.join(left_out)}."] if left_out else []
    )
    return _figure("TaskBench500 Figure 3", "figure3", drawn, (*model_notes(chosen), *notes))


@study(
    "taskbench500/figure5",
    describe="Map against atomic adaptability, with and without separators",
    place="TaskBench500, Figure 5",
    experiment=composition_experiments,
    traits=(ANSWERS,),
)
def figure5(runs: Runs) -> Finding:
    """Plot the mapped tasks, with separators as in the paper and without them."""
    groups, chosen = composed_tasks(runs)
    maps = [
        g for g in groups if g.scoring == RIGHT and g.composition in ("map", "map (+separators)")
    ]
    if not maps:
        raise StudyError(
            f"{runs.path} has no runs on map(f) and on f itself; this study needs both"
        )
    by_composition: dict[str, list[CompositionTasks]] = {}
    for group in maps:
        by_composition.setdefault(group.composition, []).append(group)
    above = [_above(own) for own in by_composition.values()]
    return _figure("TaskBench500 Figure 5", "figure5", maps, (*model_notes(chosen), *above))


def _above(groups: Sequence[CompositionTasks]) -> str:
    """State how many tasks of one composition have higher scores than their parts, by procedure."""
    counts = (
        f"{sum(t.score > t.parts for t in g.tasks)} of {len(g.tasks)} ({g.procedure})"
        for g in groups
    )
    return (
        f"{groups[0].composition}: tasks that score more as sequences than as words:"
        f" {', '.join(counts)}."
    )


def _figure(
    title: str, name: str, groups: Sequence[CompositionTasks], notes: Sequence[str]
) -> Finding:
    points = [
        {
            "procedure": group.procedure,
            "composition": group.composition,
            "task": t.one.task,
            "family": t.one.family,
            "parts": " ".join(t.one.parts),
            "atomic": t.parts,
            "composed": t.score,
            "answers": t.answers,
        }
        for group in groups
        for t in group.tasks
    ]
    n = count_range(len(group.tasks) for group in groups)
    caption = (
        "Generalisation of composed tasks against the mean of their atomic parts, by procedure; a"
        f" point is a task (n = {n} for each line), lines are least squares with r² and its 95 %"
        " interval (over atomic parts) in the legend, the dotted diagonal is y = x."
    )
    return Finding(
        title,
        "A point above the diagonal is a composed task that is learned better than its parts.",
        line_table(groups),
        (StudyFigure(name, caption, table_of(points), draw_regressions),),
        notes=tuple(notes),
    )


def line_table(groups: Sequence[CompositionTasks]) -> ResultTable:
    """Build a table with a row for each composition, procedure and way of scoring."""
    rows = []
    for group in groups:
        line, number = group.line, _number(group, "r2")
        scores = [t.score for t in group.tasks]
        rows.append(
            {
                **_labels(group),
                "scoring": group.scoring,
                "tasks": f"{len(group.tasks)}{group.star}",
                "mean": mean_and_se(scores),
                "parts": f"{sum(t.parts for t in group.tasks) / len(scores):.3f}",
                "slope": slope_cell(line),
                "intercept": (
                    "–" if math.isnan(line.intercept) else f"{round(line.intercept, 3) + 0.0:+.3f}"
                ),
                "r²": r2_cell(line),
                "published r²": "–" if number is None else str(number),
            }
        )
    return table_of(rows)


def interval(value: float, low: float, high: float) -> str:
    """Format a number with its interval, or a dash if it is unknown."""
    if math.isnan(value):
        return "–"
    return f"{value:.2f}" if math.isnan(low) else f"{value:.2f} [{low:.2f}, {high:.2f}]"


def answer_table(groups: Sequence[CompositionTasks]) -> ResultTable:
    """Build a table of lines controlled for the number of answers."""
    rows = []
    for group in groups:
        beside, plain = group.beside_answers, group.line
        known = [t.answers for t in group.tasks if t.answers]
        rows.append(
            {
                **_labels(group),
                "tasks": f"{len(group.tasks)}{group.star}",
                "mean answers": f"{sum(known) / len(known):.1f}" if known else "–",
                "r² of parts": r2_cell(plain),
                "slope beside answers": "–" if beside is None else slope_cell(beside),
                "r² beside answers": "–" if beside is None else r2_cell(beside),
            }
        )
    return table_of(rows)


def _number(group: CompositionTasks, what: str) -> PublishedNumber | None:
    numbers = published(
        PAPER, PLACE, composition=group.composition, procedure=group.procedure, what=what
    )
    return numbers[0] if numbers else None


def _judgements(group: CompositionTasks) -> Iterator[Judgement]:
    first = group.tasks[0].one
    head = f"{group.composition}, {group.procedure}"
    mean, slope, r2 = (_number(group, what) for what in ("mean", "slope", "r2"))
    line, n = group.line, len(group.tasks)
    if mean is not None:
        scores = [t.score for t in group.tasks]
        yield judge_mean(scores, mean, claim=f"{head}: mean", unit="tasks", **_terms(mean, first))
    if slope is not None and r2 is not None:
        theirs = slope_interval(slope.value, r2.value, slope.n)
        ends = (line.slope_low, line.slope_high)
        yield judge_estimate(
            line.slope,
            ends,
            n,
            slope,
            theirs,
            claim=f"{head}: slope",
            unit="tasks",
            **_terms(slope, first),
        )
    if r2 is not None:
        theirs = r2_interval(r2.value, r2.n)
        ends = (line.r2_low, line.r2_high)
        yield judge_estimate(
            line.r2, ends, n, r2, theirs, claim=f"{head}: r²", unit="tasks", **_terms(r2, first)
        )


def _terms(number: PublishedNumber, one: Adaptation) -> dict[str, Any]:
    return {
        "conditions": (*differences(number, one.conditions), *method_difference(one)),
        "comparable": comparable(number, one.conditions),
    }


HALF = 0.5
"""Minimum r² (exclusive) at which the paper calls a composition compositional."""


def _claims(groups: Sequence[CompositionTasks]) -> Iterator[PaperClaim]:
    """Yield claims about the primary numbers: r² of the excess, and partial r² given the best
    constant.
    """
    for group in groups:
        text, below = _claim_text(group)
        beside = group.controlled()
        if not text or beside is None:
            continue
        for name, line in (
            ("r² of excess", beside.excess_line),
            ("partial r²", beside.beside_constant),
        ):
            measure = f"{name}, {group.procedure}, {len(group.tasks)} tasks"
            yield PaperClaim(
                text, "section 6", measure, line.r2, line.r2_low, line.r2_high, HALF, below=below
            )


def _claim_text(group: CompositionTasks) -> tuple[str, bool]:
    """Return the paper's claim about a composition, and True if it claims a small r². The text is
    empty if there is no claim.
    """
    if group.composition in ("chain", "union"):
        return f"{group.composition}: composed follows from atomic (r² > 0.5)", False
    if group.composition == "map":
        return "map without separators: composed does not follow from atomic (r² < 0.5)", True
    if group.composition == "map (+separators)":
        # Full fine-tuning with separators is the exception that the paper reports
        if group.procedure == "FFT":
            return "map with separators: composed does not follow from atomic (r² < 0.5)", True
        return "map with separators: composed follows from atomic (r² > 0.5)", False
    return "", False


def _scoring_notes(groups: Sequence[CompositionTasks]) -> Iterator[str]:
    """Yield notes on the effect of scoring sequences like the public code."""
    means: dict[str, dict[str, dict[str, float]]] = {}
    for group in groups:
        ways_of = means.setdefault(group.composition, {}).setdefault(group.procedure, {})
        ways_of[group.scoring] = sum(t.score for t in group.tasks) / len(group.tasks)
    for composition, by_procedure in means.items():
        shown = [
            f"{ways[RIGHT]:.3f} by right scoring and {ways[COMPATIBLE]:.3f} as the public code"
            f" scores ({procedure})"
            for procedure, ways in by_procedure.items()
            if {RIGHT, COMPATIBLE} <= set(ways)
        ]
        if shown:
            yield f"{composition}: on the same answers the mean is {', '.join(shown)}."
