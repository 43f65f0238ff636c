"""Tables 3, 4, 7, 8, 9 and 10 of ZEST: mean F1, C@75 and C@90, overall and by generalization type,
and the consistency of derived tasks with their base tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from taskloom.analysis.finding import Finding
from taskloom.analysis.paper_table import PaperTable, TableCell, seeds_caption, wide_table
from taskloom.analysis.published_numbers import published
from taskloom.analysis.study import study
from taskloom.core.scoring import ROUNDING
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import over_task_differences, welch
from taskloom.experiments.table import Runs
from taskloom.papers.zest.directions import ClaimedDirection, directions_finding
from taskloom.papers.zest.experiments import KEPT_TRAITS, table_experiments
from taskloom.papers.zest.runs import (
    ALWAYS_YES,
    SCORES,
    SPLITS,
    DescriptionRuns,
    Measure,
    above_constant,
    constant_runs,
    description_runs,
    of_type,
    overall,
    percent,
    tasks_of,
)
from taskloom.suites.zest.evaluation.score_report import PAIRED, Mode, ScoreReport
from taskloom.suites.zest.task_files import PAPER_NAMES

ROWS = {**PAPER_NAMES, "overall": "overall"}
"""The rows of the tables by generalization type."""

BY_TYPE = {
    "table4": "T5-11B with multi-task learning",
    "table7": "T5-11B with multi-task learning",
    "table8": "T5-11B on ZEST only",
    "table9": "BART-large on ZEST only",
    "table10": "people",
}
"""The model or person whose scores each table by type contains."""

PAPER_MODELS = {
    "bart-large": "BART-large, ZEST only",
    "t5-11b": "T5-11B, ZEST only",
    "t5-11b multi-task": "T5-11B, multi-task",
    "people": "people, estimated",
}
"""The rows of Table 3."""


def measure_of(row: str, score: str) -> Measure:
    """Measure for a row of a table."""
    return overall(score) if row == "overall" else of_type(row, score)


def beside(cell: TableCell) -> str:
    """Percentage over seeds, with the paper's number in brackets if there is one."""
    ours = percent(cell.by_unit)
    return f"{ours} ({100 * cell.number.value:.0f})" if cell.number else ours


def measured(
    table: PaperTable,
    group: DescriptionRuns,
    split: str,
    measure: Measure,
    labels: Mapping[str, Any],
    **details: Any,
) -> TableCell:
    """Build a cell from runs. It is comparable if the split has the paper's number of tasks.

    Args:
        table: The table.
        group: Our runs.
        split: The split.
        measure: The measure to report.
        labels: A value for each column that distinguishes the cells.
        **details: Arguments of `PaperTable.cell`: `of`, `claim`.
    """
    tasks, values = _other_tasks(group, split), group.values(split, measure)
    return table.cell(
        labels, values, group.conditions, extra=tasks, comparable=not tasks, **details
    )


def _other_tasks(group: DescriptionRuns, split: str) -> tuple[str, ...]:
    """A condition that differs if a split does not have the paper's number of tasks, because
    intervals are over seeds, not over tasks.
    """
    own = int(group.conditions.get(f"recipe.tasks.{split}") or 0)
    numbers = published("zest", "Table 2", split=split, what="tasks")
    return tuple(
        f"{own:,} tasks of {split} (paper: {n.value:,.0f})"
        for n in numbers
        if own and own != n.value
    )


TABLE3 = PaperTable(
    paper="zest",
    place="Table 3",
    name="table3",
    title="ZEST Table 3",
    text=(
        "Scores in percent, mean ± standard deviation over seeds; the row Overall of the tables by"
        " generalization type, each type with the same weight. Below ours are constant answers to"
        " the same tasks, then the paper's rows."
    ),
    columns=("name", "score", "mean", "low", "high", "seeds", "published"),
    axes={"place": "name", "series": "score", "xlabel": "F1, or share of tasks"},
)


@study(
    "zest/table3",
    describe="Mean F1, C@75 and C@90 over all tasks of ZEST, by model",
    place="ZEST, Table 3",
    experiment=table_experiments("table3"),
    traits=KEPT_TRAITS,
)
def table3(runs: Runs, *, mode: Mode = "official") -> list[Finding]:
    """Compute Table 3 for the runs on the whole input, together with constant answers to the same
    tasks.

    Args:
        runs: The runs.
        mode: `official`: as the public script evaluates; `corrected`: without its faults.
    """
    groups = description_runs(runs, mode=mode)
    constants = constant_runs(groups, mode)
    cells: list[TableCell] = []
    for group in [*groups, *constants]:
        # The score of a constant answer does not depend on a seed.
        seeds = "" if group in constants else None
        for split in SPLITS:
            if split in group.reports:
                cells += _overall_cells(group, split, seeds)
    table = wide_table(cells, ("model", "split", "seeds"), "score", beside)
    paper = []
    for model in PAPER_MODELS:
        for split in SPLITS:
            if published("zest", "Table 3", model=model, split=split):
                paper.append(_paper_row(model, split))
    main = TABLE3.finding(
        cells,
        table=ResultTable(table.columns, [*table, *paper]),
        caption=_caption(_over_tasks(groups), groups),
        notes=notes_of(groups),
    )
    judgements = [j for group in groups for j in TABLE3.judgements(_beside_models(group))]
    finding = replace(main, judgements=tuple(judgements))
    above = list(above_constant(groups, constants, SPLITS))
    return [finding, directions_finding(above, "Above a constant answer")] if above else [finding]


def _overall_cells(
    group: DescriptionRuns, split: str, seeds: str | None = None
) -> Iterator[TableCell]:
    counted = len(group.reports[split]) if seeds is None else seeds
    row = {"model": group.model, "split": split, "seeds": counted}
    for score, head in SCORES.items():
        labels = {"name": f"{group.model}, {split}", "score": head}
        yield measured(TABLE3, group, split, overall(score), labels, of={}, further=row)


def _beside_models(group: DescriptionRuns) -> Iterator[TableCell]:
    """Yield our scores once for each model that has such a score in the paper."""
    for split in (s for s in SPLITS if s in group.reports):
        for score, head in SCORES.items():
            values = group.values(split, overall(score))
            numbers = published("zest", "Table 3", split=split, what=score)
            for words in (number.of for number in numbers if values):
                theirs = PAPER_MODELS[str(words["model"])]
                claim = f"{group.model} beside {theirs}, {split}: {head}"
                yield measured(TABLE3, group, split, overall(score), {}, of=words, claim=claim)


def _paper_row(model: str, split: str) -> dict[str, Any]:
    row: dict[str, Any] = {"model": f"{PAPER_MODELS[model]} (paper)", "split": split, "seeds": ""}
    for score, head in SCORES.items():
        (number,) = published("zest", "Table 3", model=model, split=split, what=score)
        row[head] = f"{100 * number.value:.0f}"
    return row


def _over_tasks(groups: Sequence[DescriptionRuns]) -> str:
    splits = [split for split in SPLITS if any(split in group.reports for group in groups)]
    return (
        "Scores over all tasks, by model and split:"
        f" {', '.join(tasks_of(groups, split) for split in splits)}."
    )


def _caption(what: str, groups: Sequence[DescriptionRuns], diamonds: str = "") -> str:
    """Caption of a figure. Constant answers do not count, because they have no seeds."""
    seeds = [len(by_seed) for group in groups for by_seed in group.reports.values()]
    return f"{what} {seeds_caption(seeds)}{diamonds}."


def notes_of(groups: Sequence[DescriptionRuns]) -> Iterator[str]:
    """Yield notes on how runs were evaluated and on small numbers of seeds."""
    yield from dict.fromkeys(note for group in groups for note in group.notes)
    if any(group.by_script for group in groups):
        yield (
            "Evaluated as the public script does: the mean of paraphrases and flips is the mean of"
            " the smaller of their own F1 and their base task's, which cannot be above the base"
            " task's, and C@T counts a task where the model is competent in both (mode=corrected"
            " takes the smaller one, too, without the script's faults in structures and lists)."
        )
    if any(group.conditions.get("recipe.data") == "generated" for group in groups):
        yield (
            "The tasks are those of zest/synthetic, not the paper's: numbers of the two are not"
            " comparable, directions are."
        )


@dataclass(frozen=True, slots=True)
class Consistency:
    """Consistency of derived tasks with their base tasks, at one threshold.

    Attributes:
        both: Number of tasks in which the model is competent in the derived task and in its base
            task.
        base_only: Number in which it is competent only in the base task.
        derived_only: Number in which it is competent only in the derived task.
        neither: Number in which it is competent in neither.
    """

    both: int
    base_only: int
    derived_only: int
    neither: int

    @property
    def inconsistent(self) -> float | None:
        """Share of tasks where the model is competent in either the derived task or its base task
        but not both, among those where it is competent in at least one. None if there are no such
        tasks.
        """
        one = self.base_only + self.derived_only
        return one / (one + self.both) if one + self.both else None


def consistency(report: ScoreReport, kind: str, threshold: float = 0.75) -> Consistency:
    """Count the derived tasks of a type by whether a model is competent in them and in their base
    task.

    Args:
        report: The evaluation of a split.
        kind: `paraphrase` or `target_semantics`.
        threshold: Minimum F1 of a competent model.
    """
    # The public script compares floats exactly, so 0.75 computed as 0.7499… does not count as
    # competent.
    least = threshold - (0.0 if report.mode == "official" else ROUNDING)
    counts = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
    for own, base in derived_scores(report, kind).values():
        counts[base >= least, own >= least] += 1
    return Consistency(
        counts[True, True], counts[True, False], counts[False, True], counts[False, False]
    )


def derived_scores(report: ScoreReport, kind: str) -> dict[str, tuple[float, float]]:
    """F1 of each paraphrase or flip on its own, and of its base task, by the task's id.

    Args:
        report: The evaluation of a split.
        kind: `paraphrase` or `target_semantics`.
    """
    bases = {s.task.id: s.f1 for s in report.tasks if s.task.kind == "normal"}
    scores = {}
    for score in report.tasks:
        base = next((bases[name] for name in score.task.derives_from if name in bases), None)
        if score.task.kind == kind and base is not None:
            scores[score.task.id] = (score.f1, base)
    return scores


def by_type(runs: Runs, table: str, mode: Mode) -> list[Finding]:
    """Compute a table by generalization type with the paper's numbers, and the consistency of the
    same runs.
    """
    groups, place = description_runs(runs, mode=mode), table.replace("table", "Table ")
    constants = constant_runs(groups, mode)
    declared = replace(TABLE3, name=table, place=place, title=f"ZEST {place}")
    shown = _shown_split(groups[0])
    cells = [cell for group in groups for cell in _type_cells(declared, group)]
    always = [cell for group in constants for cell in _type_cells(declared, group, constant=True)]
    drawn = [
        *(c for c in cells if c.further["drawn"] and c.labels["score"] != SCORES["75"]),
        *_constant_points(always, shown),
    ]
    main = declared.finding(
        [cell for cell in drawn if cell.scores],
        table=wide_table([*cells, *always], ("model", "generalization"), "column", beside),
        text=(
            "Scores in percent, mean ± standard deviation over seeds; in brackets those of"
            f" {BY_TYPE[table]} in the paper. Below are constant answers to the same tasks."
        ),
        caption=_caption(
            f"Scores by generalization type on {tasks_of(groups, shown)}.",
            groups,
            "; diamonds are the paper's numbers",
        ),
        notes=notes_of(groups),
    )
    judgements = declared.judgements(cell for cell in cells if cell.scores)
    finding = replace(main, judgements=tuple(judgements))
    pairs = consistency_finding([*groups, *constants])
    return [finding, pairs, directions_finding(list(_directions(groups, place)))]


def _type_cells(
    table: PaperTable, group: DescriptionRuns, constant: bool = False
) -> Iterator[TableCell]:
    for kind, name in ROWS.items():
        for split in SPLITS:
            for score, head in SCORES.items():
                words = {"split": split, "type": kind, "what": score}
                yield measured(
                    table,
                    group,
                    split,
                    measure_of(kind, score),
                    {"name": name, "score": head},
                    of={} if constant else words,
                    claim=f"{group.model}, {split}: {name}, {head}",
                    further={
                        "model": group.model,
                        "generalization": name,
                        "column": f"{split} {head}",
                        "drawn": not constant and split == _shown_split(group),
                    },
                )


def _constant_points(always: Sequence[TableCell], split: str) -> Iterator[TableCell]:
    """Yield C@90 by type for always answering yes, for the figure."""
    for cell in always:
        model, column = cell.further["model"], cell.further["column"]
        if model.startswith(ALWAYS_YES) and column == f"{split} {SCORES['90']}":
            yield replace(cell, labels={**cell.labels, "score": f"{SCORES['90']}, {model}"})


def _directions(groups: Sequence[DescriptionRuns], place: str) -> Iterator[ClaimedDirection]:
    """Yield the paper's directions between base tasks and each derived type, and between the mean
    and competence. C@75 above C@90 is omitted, because it holds by definition.
    """
    pairs = [(("normal", "mean"), (kind, "mean")) for kind in PAPER_NAMES if kind != "normal"]
    pairs.append((("overall", "mean"), ("overall", "75")))
    for group in groups:
        split = _shown_split(group)
        for pair in pairs:
            theirs = {
                one: published("zest", place, split=split, type=one[0], what=one[1]) for one in pair
            }
            ours = {one: group.values(split, measure_of(*one)) for one in pair}
            if not all(theirs.values()) or not all(ours.values()):
                continue
            higher, lower = sorted(pair, key=lambda one: -theirs[one][0].value)
            gap = theirs[higher][0].value - theirs[lower][0].value
            if gap > 0:
                names = [f"{ROWS[row]} {SCORES[score]}" for row, score in (higher, lower)]
                claim = f"{split}: {names[0]} above {names[1]}"
                tasks = (
                    None
                    if "overall" in (higher[0], lower[0])
                    else _over_kinds(group, split, higher[0], lower[0])
                )
                built_in = higher[0] == "normal" and lower[0] in PAIRED
                scores = (ours[higher], ours[lower])
                yield ClaimedDirection(
                    claim, group.model, gap, *scores, tasks=tasks, built_in=built_in
                )
        yield from _own_directions(group, split)


def _over_kinds(
    group: DescriptionRuns, split: str, higher: str, lower: str
) -> tuple[float, float] | None:
    """Interval over tasks of the difference between the means of two types. Each task counts with
    its mean over seeds.
    """
    means = [list(_task_means(group, split, kind).values()) for kind in (higher, lower)]
    if min(len(values) for values in means) < 2:
        return None
    result = welch(means[1], means[0])
    return result.low, result.high


def _task_means(group: DescriptionRuns, split: str, kind: str) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for report in group.reports[split].values():
        for score in report.tasks:
            if score.task.kind == kind and score.paired is not None:
                values.setdefault(score.task.id, []).append(score.paired)
    return {task: fmean(own) for task, own in values.items()}


def _own_directions(group: DescriptionRuns, split: str) -> Iterator[ClaimedDirection]:
    """Yield the directions from paraphrases and flips to their base tasks, using each task's own F1
    instead of the minimum.
    """
    reports = [report for _, report in sorted(group.reports[split].items())]
    for kind in PAIRED:
        by_seed = [derived_scores(report, kind) for report in reports]
        if not all(by_seed):
            continue
        ours = [fmean(own for own, _ in scores.values()) for scores in by_seed]
        bases = [fmean(base for _, base in scores.values()) for scores in by_seed]
        gaps = [
            fmean(scores[task][1] - scores[task][0] for scores in by_seed) for task in by_seed[0]
        ]
        over = over_task_differences(gaps) if len(gaps) > 1 else None
        claim = f"{split}: base tasks above their {PLURALS[kind]}, mean of their own F1"
        tasks = (over.low, over.high) if over is not None else None
        yield ClaimedDirection(claim, group.model, None, bases, ours, tasks=tasks)


PLURALS = {"paraphrase": "paraphrases", "target_semantics": "semantic flips"}
"""Plural names of derived tasks."""


def _shown_split(group: DescriptionRuns) -> str:
    return "test" if "test" in group.reports else next(iter(group.reports))


def _own_competence(kind: str) -> Measure:
    """C@75 of derived tasks on their own, without taking the minimum with their base tasks."""
    return lambda report: report.own["type"].get(kind, {}).get("75")


def consistency_finding(groups: Sequence[DescriptionRuns]) -> Finding:
    """Report how often a model is competent in only one of a base task and its paraphrase (or
    flip).
    """
    rows = []
    for group in groups:
        for split in (s for s in SPLITS if s in group.reports):
            for kind in PAIRED:
                counts = [consistency(r, kind) for _, r in sorted(group.reports[split].items())]
                shares = [c.inconsistent for c in counts if c.inconsistent is not None]
                own = group.values(split, _own_competence(kind))
                rows.append(
                    {
                        "model": group.model,
                        "split": split,
                        "tasks": PAPER_NAMES[kind],
                        "both": sum(c.both for c in counts),
                        "base only": sum(c.base_only for c in counts),
                        "this one only": sum(c.derived_only for c in counts),
                        "neither": sum(c.neither for c in counts),
                        "inconsistent": percent(shares),
                        "C@75 alone": percent(own),
                        "C@75 with its base": percent(group.values(split, of_type(kind, "75"))),
                    }
                )
    columns = tuple(rows[0]) if rows else ("model",)
    return Finding(
        "Consistency",
        "Tasks, over all seeds, by whether the model is competent (F1 of at least 75 %) in a"
        " paraphrase or flip and in its base task. Inconsistent is the share with just one of the"
        " two, in percent of those with at least one.",
        ResultTable(columns, rows),
    )


def _register(table: str) -> Callable[..., list[Finding]]:
    place = table.replace("table", "Table ")

    @study(
        f"zest/{table}",
        describe=f"Scores by generalization type beside those of {BY_TYPE[table]}",
        place=f"ZEST, {place}",
        experiment=table_experiments(table),
        traits=KEPT_TRAITS,
    )
    def analyse(runs: Runs, *, mode: Mode = "official") -> list[Finding]:
        """Compute a table by generalization type.

        Args:
            runs: The runs.
            mode: `official`: as the public script evaluates; `corrected`: without its faults.
        """
        return by_type(runs, table, mode)

    return analyse


TABLES = {table: _register(table) for table in BY_TYPE}
