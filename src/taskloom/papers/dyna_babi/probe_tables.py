"""Probes of Dyna-bAbI: one question in two phrasings, "Is Mary in the park?" and "Where is Mary?"
(Table 10 and Figure 4), and places that only follow from two indefinite sentences together (Figure
8 and appendix A.7).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskloom.analysis.finding import Finding
from taskloom.analysis.paper_table import QUESTIONS, PaperTable, TableCell
from taskloom.analysis.published_numbers import published
from taskloom.analysis.study import NumberSetting, StudyError, study
from taskloom.analysis.verdict import Judgement
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import Comparison
from taskloom.experiments.table import Runs
from taskloom.papers.dyna_babi.experiments import probe_experiments
from taskloom.papers.dyna_babi.runs import (
    TRAITS,
    Kept,
    StoryTrainings,
    compare_scores,
    gap_text,
    passes_note,
    story_trainings,
    support_size,
)
from taskloom.recipe import read

RECIPES = {"yes-no": "babi/phrasing-T12", "where-P": "babi/phrasing-T12-where"}
"""Recipes of the two phrasings. Their stories are identical row by row."""

SIZES = {"1": (1, 1), "2": (2, 2), "3": (3, 3), "4+": (4, 99), "all": (0, 99)}
"""Rows of the figure, by the number of supporting facts."""


TABLE10 = PaperTable(
    paper="dyna-babi",
    place="Table 10",
    unit=QUESTIONS,
    name="table10",
    title="Dyna-bAbI Table 10",
    text=(
        "How many pairs of one question in two phrasings are right in both, in one, in neither;"
        " means over seeds."
    ),
    caption=(
        "Accuracy on the same questions in two phrasings, by number of supporting facts; the right"
        " answer of yes-no is always yes. {intervals}."
    ),
    columns=("trained", "phrasing", "support", "mean", "low", "high", "n", "seeds"),
    axes={
        "place": "support",
        "series": "phrasing",
        "panel": "trained",
        "ylabel": "supporting facts",
    },
)

PAIRS = (
    (
        "Pairs are of the same story and the same fact (babi/phrasing-T12 and"
        " babi/phrasing-T12-where, row by row)."
    ),
    (
        "A model that answers every yes-no question by yes is right in all of them: 446 of 446 says"
        " nothing without the accuracy on other yes-no questions (Figure 3)."
    ),
)


@study(
    "dyna-babi/table10",
    describe=(
        "One question in two phrasings, yes-no and where-P, of the same stories: right in both, in"
        " one, in neither"
    ),
    place="Dyna-bAbI, Table 10",
    experiment=probe_experiments,
    traits=TRAITS,
)
def table10(runs: Runs) -> list[Finding]:
    """Count the question pairs that are answered correctly in both phrasings, in one, or in
    neither.
    """
    groups = paired_trainings(runs)
    rows, gaps = [], []
    judgements: list[Judgement] = []
    for group in groups:
        yes_no, where = pair_scores(group)
        rows += list(_confusion(group, yes_no, where))
        result = phrasing_gap(yes_no, where)
        difference = gap_text((result.difference, result.low, result.high))
        means = {"where-P": result.b, "yes-no": result.a}
        gaps.append({"trained": group.name, **means, "difference": difference})
        judgements += TABLE10.judgements(_outcomes(group, yes_no, where))
    main = TABLE10.finding(
        [cell for group in groups for cell in _phrasing_cells(group)],
        table=ResultTable(("trained", "yes-no", "where-P right", "where-P wrong"), rows),
        notes=(*PAIRS, *passes_note(groups), *([] if judgements else [_published_shares()])),
    )
    return [
        replace(main, judgements=tuple(judgements)),
        Finding(
            "Dyna-bAbI Table 10: differences",
            "Accuracy as where-P less that as yes-no, with its 95 % interval over seeds and pairs,"
            " with one seed over pairs alone.",
            ResultTable(("trained", "where-P", "yes-no", "difference"), gaps),
        ),
    ]


def _published_shares() -> str:
    """The paper's table as text, shown with runs of models that are not in the paper."""
    numbers = published("dyna-babi", "Table 10")
    shares = ", ".join(f"{number.of['what']} {number.value:.3f}" for number in numbers)
    return f"The paper's Table 10 is of T5 after diverse(T12), as shares of 446 pairs: {shares}."


def paired_trainings(runs: Runs) -> list[StoryTrainings]:
    """Return the trainings that answered both phrasings. Raises an error if there are none."""
    splits = [f"{recipe}:pairs" for recipe in RECIPES.values()]
    groups = [g for g in story_trainings(runs) if all(g.split(split) == split for split in splits)]
    if not groups:
        raise StudyError(
            f"{runs.path} has no runs that answered both phrasings; run some with "
            f"evaluate: [{', '.join(RECIPES.values())}]"
        )
    return groups


def pair_scores(group: StoryTrainings) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores [seeds, pairs] for the yes-no and the where-P phrasing."""
    yes_no, where = (group.answers(f"{recipe}:pairs") for recipe in RECIPES.values())
    if [item["index"] for item in yes_no.items] != [item["index"] for item in where.items]:
        raise StudyError(
            f"{group.runs.path}: {group.name} answered different questions in the two phrasings"
        )
    return yes_no.scores, where.scores


def phrasing_gap(yes_no: NDArray[np.float64], where: NDArray[np.float64]) -> Comparison:
    """Compare where-P with yes-no on the same questions."""
    return compare_scores(yes_no, where)


def _confusion(
    group: StoryTrainings, yes_no: NDArray[np.float64], where: NDArray[np.float64]
) -> Iterator[dict[str, Any]]:
    for name, value in (("right", 1.0), ("wrong", 0.0)):
        right, wrong = (
            float(((yes_no == value) & (where == other)).sum(axis=1).mean()) for other in (1.0, 0.0)
        )
        row = {"trained": group.name, "yes-no": name}
        yield {**row, "where-P right": _count(right), "where-P wrong": _count(wrong)}


def _count(mean: float) -> str:
    """A count, or a mean of counts to one decimal."""
    return f"{mean:.1f}".removesuffix(".0")


def _phrasing_cells(group: StoryTrainings) -> Iterator[TableCell]:
    for phrasing, recipe in RECIPES.items():
        answers = group.answers(f"{recipe}:pairs")
        for size, (low, high) in SIZES.items():
            kept = [low <= support_size(item) <= high for item in answers.items]
            labels = {"trained": group.name, "phrasing": phrasing, "support": size}
            yield TABLE10.cell(labels, answers.scores[:, kept], group.conditions, of={})


def _outcomes(
    group: StoryTrainings, yes_no: NDArray[np.float64], where: NDArray[np.float64]
) -> Iterator[TableCell]:
    """Yield the shares of pairs that the paper reports, for trainings on the paper's training
    set.
    """
    if (group.paper_model, group.data, group.part) != ("t5", "diverse", "T12"):
        return
    shares = {
        "both right": (yes_no == 1) & (where == 1),
        "only yes-no right": (yes_no == 1) & (where == 0),
        "only where-P right": (yes_no == 0) & (where == 1),
        "neither right": (yes_no == 0) & (where == 0),
    }
    for what, hits in shares.items():
        claim = f"{group.name}: share of pairs, {what}"
        yield TABLE10.cell({"what": what}, hits, group.conditions, claim=claim)


@study(
    "dyna-babi/figure4",
    describe=(
        "A story whose question a model answers in the where-P phrasing and not in the yes-no"
        " phrasing"
    ),
    place="Dyna-bAbI, Figure 4",
    experiment=probe_experiments,
    traits=TRAITS,
)
def figure4(runs: Runs, *, example: NumberSetting = 0) -> Finding:
    """Show a pair that is answered correctly as where-P and wrongly as yes-no.

    Args:
        runs: The runs.
        example: Index of the pair. Pairs with the most supporting facts come first.
    """
    groups = paired_trainings(runs)
    for group in [*(g for g in groups if g.data == "diverse"), *groups]:
        pairs = sensitive_pairs(group)
        if pairs:
            if example >= len(pairs):
                raise StudyError(
                    f"example is {example}; {group.name} has {len(pairs)} such pairs, counted"
                    " from 0"
                )
            return _shown_pair(group, pairs, example)
    return Finding(
        "Dyna-bAbI Figure 4",
        f"No pair of {', '.join(g.name for g in groups)} is right as where-P and wrong as yes-no.",
        ResultTable(("line", "text", "support"), []),
    )


def sensitive_pairs(group: StoryTrainings) -> list[int]:
    """Indices of the pairs that the first seed answers correctly as where-P and wrongly as yes-no,
    starting with the most supporting facts.
    """
    yes_no, where = pair_scores(group)
    items = group.answers(f"{RECIPES['yes-no']}:pairs").items
    places = [p for p in range(len(items)) if where[0, p] == 1 and yes_no[0, p] < 1]
    return sorted(places, key=lambda p: (-support_size(items[p]), p))


def _shown_pair(group: StoryTrainings, pairs: Sequence[int], which: int) -> Finding:
    place = pairs[which]
    rows: list[dict[str, Any]] = []
    answered = {}
    for phrasing, recipe in RECIPES.items():
        answers = group.answers(f"{recipe}:pairs")
        index = int(answers.items[place]["index"])
        (item,) = (
            read(recipe).plan(0).split("pairs").rows(index, index + 1)
        )  # a smaller split is a prefix of a larger one
        answered[phrasing] = (item, answers.predictions[0][place])
    total = len(group.answers(f"{RECIPES['yes-no']}:pairs").items)
    item = answered["yes-no"][0]
    lines = [
        f"{text}."
        for text in item.input.removesuffix(item.question).strip().rstrip(".").split(". ")
    ]
    support = {int(line) for line in str(item.traits["support_lines"]).split()}
    for number, text in enumerate(lines, 1):
        rows.append({"line": number, "text": text, "support": "•" if number in support else ""})
    for phrasing, (question, prediction) in answered.items():
        outcome = "right" if prediction in question.targets else f"wrong: {question.targets[0]}"
        text = f"{question.question} – {prediction} ({outcome})"
        rows.append({"line": len(rows) + 1, "text": text, "support": phrasing})
    return Finding(
        "Dyna-bAbI Figure 4",
        f"A pair of {group.name}, seed {group.seeds[0]}, that is right as where-P and wrong as"
        f" yes-no, as {len(pairs)} of {total} pairs are. Dots mark the supporting facts.",
        ResultTable(("line", "text", "support"), rows),
    )


DISJUNCTIONS = "babi/double-disjunctions"

ENDING = "probe"

KINDS = {
    "double": "double disjunction (answer: yes)",
    "single": "one indefinite sentence (answer: maybe)",
}
"""Groups of the recipe: the cases studied in the paper, and the control."""

ANSWERS = ("yes", "maybe", "no")


FIGURE8 = PaperTable(
    paper="dyna-babi",
    place="appendix A.7",
    unit=QUESTIONS,
    name="figure8",
    title="Dyna-bAbI Figure 8",
    caption=(
        "Share of each answer to double disjunctions, whose right answer is yes, and to questions"
        " about one indefinite sentence, whose right answer is maybe. {intervals}."
    ),
    columns=("trained", "question", "answered", "mean", "low", "high", "n", "seeds", "right"),
    axes={
        "place": "question",
        "series": "answered",
        "panel": "trained",
        "xlabel": "share of answers",
    },
    notes=(
        (
            "The paper gives no numbers for these questions, only words: accuracy 'close to zero'"
            " (section 4.2.1), 'invariably answers maybe' (appendix A.7); they are taken as 0.0 and"
            " 1.0."
        ),
    ),
)


@study(
    "dyna-babi/figure8",
    describe=(
        "Answers to questions whose place follows from two indefinite sentences together (double"
        " disjunctions)"
    ),
    place="Dyna-bAbI, Figure 8",
    experiment=probe_experiments,
    traits=TRAITS,
)
def figure8(runs: Runs) -> Finding:
    """Count the answers to double disjunctions, and to one indefinite sentence as a control."""
    groups = [g for g in story_trainings(runs) if g.split(ENDING)]
    if not groups:
        raise StudyError(
            f"{runs.path} has no runs that answered {DISJUNCTIONS}; run some with evaluate:"
            f" [{DISJUNCTIONS}]"
        )
    cells = [cell for group in groups for cell in answer_shares(group)]
    points = FIGURE8.points(cells)
    main = FIGURE8.finding(cells, table=ResultTable(points.columns[:-1], list(points)))
    return replace(main, notes=(*_example(), *main.notes, *passes_note(groups)))


def _of_group(kind: str) -> Kept:
    return lambda item: item.get("group") == kind


def answer_shares(group: StoryTrainings) -> Iterator[TableCell]:
    """Yield the share of each answer for each question type. Answers other than yes, maybe and no
    are counted together.
    """
    answers = group.answers(ENDING)
    by_paper = (group.paper_model, group.data, group.part) == ("t5", "diverse", "T12")
    for kind, label in KINDS.items():
        places = answers.places(_of_group(kind))
        for answer in (*ANSWERS, "other") if places else ():
            hits = [
                [float(_kind_of(seed[p]) == answer) for p in places] for seed in answers.predictions
            ]
            if answer not in ANSWERS and not np.any(hits):
                continue
            yield FIGURE8.cell(
                {"trained": group.name, "question": label, "answered": answer},
                np.array(hits),
                group.conditions,
                of={"what": f"answered {answer}"} if by_paper and kind == "double" else {},
                claim=f"{group.name}: double disjunctions answered by {answer}",
                further={"right": f"(answer: {answer})" in label},
            )


def _kind_of(prediction: str | None) -> str:
    text = str(prediction or "").strip().lower()
    return text if text in ANSWERS else "other"


def _example() -> Iterator[str]:
    """Yield the lines of an example, for readers who are not familiar with double disjunctions."""
    for example in read(DISJUNCTIONS).plan(0).split(ENDING).rows(0, 6):
        if example.traits["group"] == "double":
            lines = example.input.removesuffix(example.question).strip().rstrip(".").split(". ")
            facts = " ".join(
                f"{lines[int(n) - 1]}." for n in str(example.traits["support_lines"]).split()
            )
            yield (
                f"For example (supporting facts alone): {facts} {example.question}"
                f" {example.targets[0]}."
            )
            return
