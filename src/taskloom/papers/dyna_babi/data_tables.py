"""Tables 1 and 2 of Dyna-bAbI: the twelve tasks and the paper's splits, by what they have and how long they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taskloom.analysis.finding import Finding
from taskloom.analysis.published_numbers import published
from taskloom.analysis.settings import NumberSetting
from taskloom.analysis.study import study
from taskloom.analysis.verdict import Judgement, judge_number
from taskloom.experiments.result_table import ResultTable
from taskloom.papers.dyna_babi.concept_sets import PaperConcepts, judge_concepts, task_concepts
from taskloom.papers.dyna_babi.story_samples import StorySample, first_split, sample
from taskloom.suites.babi.fields import PARTS

TASKS = PARTS["T12"]

SPLITS = (
    "concat-T2", "concat-T7", "concat-T7-trimmed", "inject-T7", "diverse-T7", "concat-T12", "concat-T12-trimmed",
    "inject-T12", "diverse-T12", "mix-T2", "mix-T7", "mix-T12",
)  # fmt: skip
"""The recipes of Table 2 in its order; the trimmed ones are what the paper's T5 was trained on (its section A.1.2)."""

SAMPLES = {"quick": 6_000, "full": 60_000}
"""Examples of a split that are generated at most: a minute or two of one core for all splits at full scale."""

TOLERANCES = {"quick": 0.1, "full": 0.03}
"""Differences of a mean that count as none, as a share of it: about three standard errors of the splits that vary most. Stories
have several questions, and long and short ones differ much: over five seeds the mean length of inject(T7) has a standard error of
2.4 % for 12,000 examples, that of task 5 one of 1.1 % for 9,000."""

COLUMNS = ("examples", "length", "support", "minimal")


@study(
    "dyna-babi/table1",
    describe="The 12 bAbI tasks of Dyna-bAbI: events, constructs, questions, lengths and supports",
    place="Dyna-bAbI, Table 1",
    from_recipes=True,
)
def table1(scale: str, *, examples: NumberSetting = 0) -> Finding:
    """Count the training splits of the twelve tasks.

    Args:
        scale: How many examples are generated.
        examples: At most so many of each task instead; 0: as many as the scale has.
    """
    rows, judgements = [], []
    for task in TASKS:
        concepts = task_concepts(task)
        sampled = sample(str(task), examples or SAMPLES[scale])
        rows.append({"task": task, **concepts.cells(), **_means(sampled)})
        judgements.append(judge_concepts(task, concepts))
        judgements += _judged(sampled, "Table 1", f"task {task}", scale, task=task)
    return Finding(
        "Dyna-bAbI Table 1",
        f"Training splits of babi/1 to babi/13 ({_sizes(rows)}, seed 0): concepts that the recipe lists, mean sentences "
        "before a question, mean supporting facts. POSS is GRAB and DROP.",
        ResultTable(("task", *PaperConcepts.COLUMNS, *COLUMNS), rows),
        judgements=tuple(judgements),
        notes=(
            _rule(scale),
            "The support of tasks 7 and 8 is what bAbI cites, every sentence by which something came into a person's hands or left "
            "them; the minimal one, which proves the answer, is smaller.",
            "Stories of task 6 have things that are taken and left, here as in the published files of bAbI 1.0; the paper lists "
            "MOVE alone.",
            "The weights of events in tasks 3, 5, 7 and 8 were chosen so that these lengths result: their agreement is no "
            "independent evidence.",
        ),
    )


@study(
    "dyna-babi/table2",
    describe="The splits of Dyna-bAbI: sizes, mean lengths and mean supports",
    place="Dyna-bAbI, Table 2",
    from_recipes=True,
)
def table2(scale: str, *, examples: NumberSetting = 0) -> Finding:
    """Count the paper's splits.

    Args:
        scale: How many examples are generated.
        examples: At most so many of each split instead; 0: as many as the scale has.
    """
    rows: list[dict[str, object]] = []
    judgements: list[Judgement] = []
    for name in SPLITS:
        sampled = sample(name, examples or SAMPLES[scale])
        rows.append({"split": name, "size": sampled.size, **_means(sampled)})
        whole = name.removesuffix("-trimmed")
        judgements += _judged(sampled, "Table 2", name, scale, split=whole)
        judgements.append(_judged_size(name, sampled.size) if name == whole else _judged_trim(name, sampled.size))
    return Finding(
        "Dyna-bAbI Table 2",
        f"First split of each recipe ({_sizes(rows)}, seed 0, in the proportions of the whole split): its size, mean sentences "
        "before a question, mean supporting facts.",
        ResultTable(("split", "size", *COLUMNS), rows),
        judgements=tuple(judgements),
        notes=(
            _rule(scale),
            "The paper has one row for concat and concat-trimmed: its sizes are those of concat, and no data with 9,000 questions "
            "of each task have its mean lengths. With 7,415 questions of task 3, as its T5 was trained (section A.1.2), they "
            "result (docs/suites/babi.md has the arithmetic).",
            "Sizes, and the shares of tasks in inject, are set in the recipes by the paper; mean lengths and supports follow from "
            "the generator.",
        ),
    )


def _means(sampled: StorySample) -> dict[str, float]:
    return {name: getattr(sampled, name) for name in COLUMNS}


def _judged(sampled: StorySample, place: str, claim: str, scale: str, **of: object) -> Iterator[Judgement]:
    for what in ("length", "support"):
        (number,) = published("dyna-babi", place, what=what, **of)
        tolerance = TOLERANCES[scale] * number.value
        yield judge_number(getattr(sampled, what), number, claim=f"{claim}: {what}", tolerance=tolerance)


def _judged_size(name: str, size: int) -> Judgement:
    (number,) = published("dyna-babi", "Table 2", split=name, what="size")
    return judge_number(size, number, claim=f"{name}: size")


def _judged_trim(name: str, size: int) -> Judgement:
    """Judge how many training questions a trimmed split lacks."""
    (number,) = published("dyna-babi", "section A.1.2", what="trimmed")
    whole = first_split(name.removesuffix("-trimmed")).n
    return judge_number(whole - size, number, claim=f"{name}: questions left out")


def _sizes(rows: Sequence[dict[str, object]]) -> str:
    sizes = [int(str(row["examples"])) for row in rows]
    return (
        f"{min(sizes):,} to {max(sizes):,} examples each" if min(sizes) < max(sizes) else f"{sizes[0]:,} examples each"
    )


def _rule(scale: str) -> str:
    return f"A mean agrees where it is within {100 * TOLERANCES[scale]:.0f} % of the published one, about three standard errors."
