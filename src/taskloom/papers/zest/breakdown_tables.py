"""Tables 2, 5 and 6 of ZEST.

Table 2 compares `zest/synthetic`, which replaces the crowd-sourced data, with the paper's
statistics. Table 5 has scores with only the question or only the passage as input, and Table 6 the
types of errors that a model makes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from taskloom.analysis.finding import Finding
from taskloom.analysis.paper_table import PaperTable, TableCell, seeds_caption, wide_table
from taskloom.analysis.published_numbers import published
from taskloom.analysis.study import check_split, study
from taskloom.analysis.verdict import judge_number
from taskloom.core.example import Example
from taskloom.core.plan import Plan
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.table import Runs
from taskloom.papers.zest.competence_tables import TABLE3, beside, measured, notes_of
from taskloom.papers.zest.directions import ClaimedDirection, directions_finding
from taskloom.papers.zest.experiments import (
    KEPT_TRAITS,
    PARTS,
    description_experiments,
    table_experiments,
)
from taskloom.papers.zest.runs import (
    SCORES,
    SPLITS,
    DescriptionRuns,
    Measure,
    above_constant,
    constant_runs,
    description_runs,
    overall,
    percent,
    tasks_of,
)
from taskloom.recipe import read
from taskloom.suites.zest.evaluation.corrected import MISTAKES
from taskloom.suites.zest.evaluation.score_report import Mode, ScoreReport
from taskloom.suites.zest.fields import context
from taskloom.suites.zest.task_files import (
    PAPER_NAMES,
    Statistics,
    ZestTask,
    is_structure,
    statistics,
    task_of,
)

NAMES = {
    "both": "full data",
    "question": "question only",
    "context": "context only",
    "none": "nothing",
}
"""Names of the table's rows. A constant answer needs no input."""


NOT_NA = "answers that are not n/a"

TABLE5 = replace(TABLE3, place="Table 5", name="table5", title="ZEST Table 5")


@study(
    "zest/table5",
    describe="Scores with the question alone and with the passage alone, on dev",
    place="ZEST, Table 5",
    experiment=description_experiments(PARTS),
    traits=KEPT_TRAITS,
)
def table5(runs: Runs, *, mode: Mode = "official", split: str = "dev") -> list[Finding]:
    """Compute Table 5 on a split.

    Args:
        runs: The runs.
        mode: `official`: as the public script evaluates; `corrected`: without its faults.
        split: The split that was answered.
    """
    groups = [
        group
        for group in description_runs(runs, PARTS, mode, totals=True)
        if split in group.reports
    ]
    check_split(runs, split)
    constants = constant_runs(groups, mode)
    constants = [constant for constant in constants if split in constant.reports]
    cells = [cell for group in [*groups, *constants] for cell in _cells(group, split)]
    wide = wide_table(cells, ("model", "input", "seeds", NOT_NA), "score", beside)
    finding = TABLE5.finding(
        cells,
        table=ResultTable(("model", "input", "seeds", *SCORES.values(), NOT_NA), list(wide)),
        text=(
            f"Scores on {split} in percent, mean ± standard deviation over seeds, of models trained"
            " on such inputs; in brackets the paper's, of T5-11B on dev. Constant answers are to"
            " the same tasks."
        ),
        caption=(
            f"Scores on {tasks_of(groups, split)} with all of the input, with half of it, and of"
            f" constant answers. {seeds_caption(len(group.reports[split]) for group in groups)};"
            " diamonds are the paper's numbers."
        ),
        notes=(*notes_of(groups), *_missing(groups)),
    )
    directions = [
        *_directions(groups, split),
        *above_constant(_questions(groups), constants, [split]),
    ]
    return [finding, directions_finding(directions)] if directions else [finding]


def _cells(group: DescriptionRuns, split: str) -> Iterator[TableCell]:
    constant = group.part == "none"
    row = {
        "model": group.model,
        "input": NAMES[group.part],
        "seeds": "" if constant else len(group.reports[split]),
        NOT_NA: percent(group.answered[split].values()),
    }
    for score, head in SCORES.items():
        labels = {"name": group.model if constant else NAMES[group.part], "score": head}
        words = {"input": group.part, "what": score}
        claim = f"{group.model}, {NAMES[group.part]}: {head}"
        yield measured(
            TABLE5, group, split, overall(score), labels, of=words, claim=claim, further=row
        )


def _directions(groups: list[DescriptionRuns], split: str) -> Iterator[ClaimedDirection]:
    """Yield the directions from each half of the input to the whole input."""
    for whole in (group for group in groups if group.part == "both"):
        for half in (
            group for group in groups if group.part != "both" and group.model == whole.model
        ):
            for score, head in SCORES.items():
                theirs = [
                    published("zest", "Table 5", input=g.part, what=score)[0].value
                    for g in (whole, half)
                ]
                higher, lower = (g.values(split, overall(score)) for g in (whole, half))
                claim = f"{split}: {NAMES['both']} above {NAMES[half.part]}, {head}"
                yield ClaimedDirection(
                    claim, whole.model, theirs[0] - theirs[1], higher, lower, paired=False
                )


def _questions(groups: list[DescriptionRuns]) -> list[DescriptionRuns]:
    """Select the runs on the question only, and add that to their names. Table 3 compares runs on the
    whole input with constants.
    """
    return [
        replace(group, model=f"{group.model}, question only")
        for group in groups
        if group.part == "question"
    ]


def _missing(groups: list[DescriptionRuns]) -> list[str]:
    lacking = [NAMES[part] for part in PARTS if part not in {group.part for group in groups}]
    return [f"There are no runs of: {', '.join(lacking)}."] if lacking else []


CATEGORIES = {
    "recall": ("recall",),
    "precision": ("precision",),
    "partial": ("partial",),
    "other": ("malformed", "other"),
}
"""The table's categories in terms of ours. The paper counts malformed JSON among the other
errors.
"""

LOOKED_AT = 100
"""Number of errors that the paper's authors categorised."""


TABLE6 = PaperTable(
    paper="zest",
    place="Table 6",
    name="table6",
    title="ZEST Table 6",
    columns=("name", "model", "mean", "low", "high", "seeds", "published"),
    axes={"place": "name", "series": "model", "xlabel": "share of errors"},
)


def share(category: str) -> Measure:
    """Function that returns a category's share of all errors."""

    def measure(report: ScoreReport) -> float | None:
        errors = sum(report.mistakes.values())
        return (
            sum(report.mistakes[kind] for kind in CATEGORIES[category]) / errors if errors else None
        )

    return measure


def unreadable(report: ScoreReport) -> float | None:
    """Share of requested structures that were answered with invalid JSON."""
    wanted = set()
    for score in report.tasks:
        for place, instance in enumerate(score.task.instances):
            if isinstance(instance.answer, str) and is_structure(instance.answer):
                wanted.add((score.task.id, place))
    broken = sum((i.task, i.index) in wanted and i.mistake == "malformed" for i in report.instances)
    return broken / len(wanted) if wanted else None


@study(
    "zest/table6",
    describe="Categories of errors: n/a for an answer, an answer for n/a, parts of a list, others",
    place="ZEST, Table 6 and section 5.3",
    experiment=table_experiments("table6"),
    traits=KEPT_TRAITS,
)
def table6(runs: Runs, *, mode: Mode = "official", split: str = "") -> Finding:
    """Compute Table 6 on a split.

    Args:
        runs: The runs.
        mode: `official`: as the public script evaluates; `corrected`: without its faults.
        split: The split that was answered; test by default, or dev where no run answered test.
    """
    groups = description_runs(runs, mode=mode)
    check_split(runs, split)
    shown = split or next(
        (s for s in reversed(SPLITS) if any(s in g.reports for g in groups)), "dev"
    )
    groups = [group for group in groups if shown in group.reports]
    cells = [cell for group in groups for cell in _error_cells(group, shown)]
    rows = [{**cell.further, "share of errors": beside(cell)} for cell in cells]
    return TABLE6.finding(
        cells,
        table=ResultTable(("model", "error", "what", "share of errors", "errors"), rows),
        text=(
            f"Errors on {shown} by category, in percent of all errors, mean ± standard deviation"
            " over seeds; in brackets the paper's."
        ),
        caption=(
            f"Categories of errors, as shares of all errors on {tasks_of(groups, shown)}."
            f" {{intervals}}; diamonds are the paper's shares of {LOOKED_AT} errors that its"
            " authors looked at."
        ),
        notes=(*notes_of(groups), *_structure_notes(groups, shown)),
    )


def _error_cells(group: DescriptionRuns, split: str) -> Iterator[TableCell]:
    for category, kinds in CATEGORIES.items():
        reports = group.reports[split].values()
        values = group.values(split, share(category))
        row = {
            "model": group.model,
            "error": category,
            "what": "; or ".join(MISTAKES[kind] for kind in kinds),  # type: ignore[index]
            "errors": sum(report.mistakes[kind] for report in reports for kind in kinds),
        }
        yield measured(
            TABLE6,
            group,
            split,
            share(category),
            {"name": category, "model": group.model},
            of={"category": category} if values else {},
            claim=f"{group.model}, {split}: {category}",
            share_of=LOOKED_AT,
            further=row,
        )


def unasked(group: DescriptionRuns, split: str) -> float | None:
    """Share of JSON among the answers to questions that ask for no structure, over all seeds. None
    if every question asks for one.
    """
    asked = [is_structure(example.target) for example in group.examples.get(split, ())]
    texts = group.predicted.get(split, {}).values()
    given = []
    for by_seed in texts:
        for text, structure in zip(by_seed, asked, strict=True):
            if not structure:
                given.append(is_structure(text))
    return sum(given) / len(given) if given else None


def _structure_notes(groups: Sequence[DescriptionRuns], split: str) -> list[str]:
    shares = {group.model: unasked(group, split) for group in groups}
    without = [
        f"{model}: {100 * value:.3f} % of the answers to other questions are JSON structures (the"
        " paper's model: 0.008 %)."
        for model, value in shares.items()
        if value is not None
    ]
    return without + [
        f"{group.model}: {percent(group.values(split, unreadable))} % of the structures that are"
        " asked for are answered by something that is not JSON (the paper's model: 1.5 % on test)."
        for group in groups
        if group.values(split, unreadable)
    ]


RECIPE = "zest/synthetic"

SEED = 0

ROWS = {
    "pairs": "(task, passage) pairs",
    "passage_words": "mean words of a passage",
    "tasks": "tasks",
    "task_words": "mean words of a task's description",
    "na": "share of n/a",
    "classification": "share of classification",
}
"""The rows of the table, by attribute of `Statistics`."""

WORDED = ("passage_words", "task_words")
"""Rows that follow from the wording. The other rows are set by fields of the recipe."""

TOLERANCE = 0.05
"""Maximum relative difference in word counts that counts as agreement. The length of descriptions
varies by about this much between seeds (docs/suites/zest.md).
"""


def tasks_in(examples: Iterable[Example]) -> list[ZestTask]:
    """Tasks of consecutive examples, each with the passages of these examples only."""
    tasks = [task_of(list(own)) for _, own in groupby(examples, key=attrgetter("task"))]
    return [
        replace(t, instances=tuple(replace(i, context=context(i.context)) for i in t.instances))
        for t in tasks
    ]


def split_statistics(plan: Plan) -> dict[str, Statistics]:
    """Statistics of each split of a plan."""
    return {split.name: statistics(tasks_in(split.rows(0, split.n))) for split in plan.splits}


@study(
    "zest/table2",
    describe="Statistics of zest/synthetic beside those of ZEST",
    place="ZEST, Table 2",
    from_recipes=True,
)
def table2(scale: str) -> Finding:
    """Compute statistics of the whole of `zest/synthetic`, which takes seconds at every scale."""
    return table2_finding(split_statistics(read(RECIPE).plan(SEED)))


def _share(formats: Mapping[str, int], name: str) -> float:
    """Share of tasks with an output format. The paper calls structures `mixed`."""
    structures = {"mixed": "structure"}
    return formats.get(structures.get(name, name), 0) / max(1, sum(formats.values()))


def table2_finding(splits: dict[str, Statistics]) -> Finding:
    """Build a finding with statistics of train, dev and test."""
    rows, judgements = [], []
    for name, label in ROWS.items():
        values = {split: getattr(row, name) for split, row in splits.items()}
        rows.append({"statistic": label, **values})
        for split, value in values.items():
            (number,) = published("zest", "Table 2", split=split, what=name)
            tolerance = TOLERANCE * number.value if name in WORDED else 0.0
            judgements.append(
                judge_number(value, number, claim=f"{split}: {label}", tolerance=tolerance)
            )
    whole = Counter[str]()
    for row in splits.values():
        whole.update(row.formats)
    for number in published("zest", "section 4.4", what="format"):
        name = number.of["format"]
        shares = {split: _share(row.formats, name) for split, row in splits.items()}
        rows.append({"statistic": f"share of tasks: {name}", **shares})
        judgements.append(
            judge_number(
                _share(whole, name),
                number,
                claim=f"all tasks: share of {name}",
                tolerance=TOLERANCE,
            )
        )
    return Finding(
        "ZEST Table 2",
        f"{RECIPE} (seed {SEED}) beside the crowd-sourced data of the paper.",
        ResultTable(("statistic", *splits), rows),
        judgements=tuple(judgements),
        notes=(
            (
                "Numbers of tasks, the share of n/a and the share of classification are set in the"
                " recipe by this table, so that they must agree; the words follow from the"
                " generator. Words agree within 5 %."
            ),
            (
                "The recipe has 20 passages for every task; the paper's training split has six"
                " pairs more than that."
            ),
        ),
    )


def _examples(split: str, most: int) -> list[Example]:
    own = next(one for one in read(RECIPE).plan(SEED).splits if one.name == split)
    return list(own.rows(0, min(most, own.n)))


def _row(example: Example) -> dict[str, Any]:
    return {
        "question": example.question,
        "passage": context(example.input),
        "answer": example.target,
    }


@study(
    "zest/table1",
    describe="An instance of each kind of generalization",
    place="ZEST, Table 1",
    from_recipes=True,
)
def table1(scale: str) -> Finding:
    """Show a base task of dev and the tasks derived from it, each with its shortest instance."""
    tasks: dict[str, list[Example]] = {}
    for example in _examples("dev", 10**9):
        tasks.setdefault(example.task, []).append(example)
    families: dict[str, dict[str, Example]] = {}
    for name, examples in tasks.items():
        shown = min(examples, key=lambda e: (e.target == "n/a", len(e.input)))
        for base in str(shown.traits["derives_from"]).split() or [name]:
            kinds = families.setdefault(base, {})
            kinds.setdefault(str(shown.traits["generalization_type"]), shown)
    most = max(len(kinds) for kinds in families.values())
    family = min(
        (kinds for kinds in families.values() if len(kinds) == most),
        key=lambda kinds: sum(len(e.input) for e in kinds.values()),
    )
    return Finding(
        "ZEST Table 1",
        f"A base task of {RECIPE} (dev, seed {SEED}) and a task of each kind that is derived from"
        " it, each with a short passage that answers it.",
        ResultTable(
            ("generalization", "question", "passage", "answer"),
            [
                {"generalization": name, **_row(family[kind])}
                for kind, name in PAPER_NAMES.items()
                if kind in family
            ],
        ),
        notes=("The paper's instances are crowd-sourced; zest/real reads them from its files.",),
    )


@study(
    "zest/figure1",
    describe="What a system is given: descriptions in training, new descriptions at test",
    place="ZEST, Figure 1",
    from_recipes=True,
)
def figure1(scale: str) -> Finding:
    """Show an instance of a training task next to an instance of a new task."""
    rows = [{"split": split, **_row(_examples(split, 1)[0])} for split in ("train", "test")]
    return Finding(
        "ZEST Figure 1",
        "The paper's figure is a drawing: a system learns from tasks with their descriptions, and"
        " answers tasks of which it has only read the description. Here is an instance of each.",
        ResultTable(("split", "question", "passage", "answer"), rows),
    )
