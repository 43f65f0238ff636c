"""Figure 8 and appendix A.7 of Dyna-bAbI: places that follow from two indefinite sentences together."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.published_numbers import published
from taskloom.analysis.seed_scores import seeds_and_items_caption
from taskloom.analysis.study import StudyError, study
from taskloom.analysis.verdict import Judgement
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.table import Runs
from taskloom.papers.dyna_babi.small_stories import probe_experiments
from taskloom.papers.dyna_babi.story_runs import (
    TRAITS,
    StoryTrainings,
    estimate,
    judged,
    passes_note,
    point,
    story_trainings,
)
from taskloom.recipe import read

RECIPE = "babi/double-disjunctions"

ENDING = "probe"

KINDS = {
    "double": "double disjunction (answer: yes)",
    "single": "one indefinite sentence (answer: maybe)",
}
"""Groups of the recipe: what the paper looks at, and the control."""

ANSWERS = ("yes", "maybe", "no")


@study(
    "dyna-babi/figure8",
    describe="Answers to questions whose place follows from two indefinite sentences together (double disjunctions)",
    place="Dyna-bAbI, Figure 8",
    experiment=probe_experiments,
    traits=TRAITS,
)
def figure8(runs: Runs) -> Finding:
    """Count what is answered to double disjunctions, and to one indefinite sentence as a control."""
    groups = [g for g in story_trainings(runs) if g.split(ENDING)]
    if not groups:
        raise StudyError(
            f"{runs.path} has no runs that answered {RECIPE}; run some with evaluate: [{RECIPE}]"
        )
    rows = [row for group in groups for row in answer_shares(group)]
    columns = ("trained", "question", "answered", "mean", "low", "high", "n", "seeds")
    data = ResultTable(columns, rows)
    drawn = ResultTable((*columns, "right"), [{**row, "right": _right(row)} for row in rows])
    caption = (
        "Share of each answer to double disjunctions, whose right answer is yes, and to questions about one indefinite sentence, "
        f"whose right answer is maybe. "
        f"{seeds_and_items_caption((r['seeds'] for r in rows), (r['n'] for r in rows))}."
    )
    plot = partial(
        figures.intervals,
        place="question",
        series="answered",
        panel="trained",
        xlabel="share of answers",
    )
    return Finding(
        "Dyna-bAbI Figure 8",
        "",
        data,
        (StudyFigure("figure8", caption, drawn, plot),),
        tuple(j for g in groups for j in _judgements(g)),
        (
            *_example(),
            "The paper gives no numbers for these questions, only words: accuracy 'close to zero' (section 4.2.1), 'invariably "
            "answers maybe' (appendix A.7); they are taken as 0.0 and 1.0.",
            *passes_note(groups),
        ),
    )


def answer_shares(group: StoryTrainings) -> Iterator[dict[str, Any]]:
    """Yield the share of each answer to each kind of question; answers other than yes, maybe and no are one."""
    answers = group.answers(ENDING)
    for kind, label in KINDS.items():
        places = answers.places(lambda item, kind=kind: item.get("group") == kind)  # type: ignore[misc]
        if not places:
            continue
        for answer in (*ANSWERS, "other"):
            hits = [
                [float(_kind_of(seed[p]) == answer) for p in places] for seed in answers.predictions
            ]
            estimated = estimate(np.array(hits))
            assert estimated is not None
            if answer in ANSWERS or estimated.mean:
                yield {
                    "trained": group.name,
                    "question": label,
                    "answered": answer,
                    **point(estimated),
                }


def _kind_of(prediction: str | None) -> str:
    text = str(prediction or "").strip().lower()
    return text if text in ANSWERS else "other"


def _right(row: dict[str, Any]) -> bool:
    return f"(answer: {row['answered']})" in row["question"]


def _shares(group: StoryTrainings, kind: str) -> dict[str, list[float]]:
    """Return for each answer its share among the questions of a kind, seed by seed."""
    answers = group.answers(ENDING)
    places = answers.places(lambda item: item.get("group") == kind)
    if not places:
        return {}
    return {
        answer: [
            sum(_kind_of(seed[p]) == answer for p in places) / len(places)
            for seed in answers.predictions
        ]
        for answer in ANSWERS
    }


def _judgements(group: StoryTrainings) -> Iterator[Judgement]:
    if (group.paper_model, group.data, group.part) != ("t5", "diverse", "T12"):
        return
    shares = _shares(group, "double")
    for answer in ("yes", "maybe") if shares else ():
        for number in published("dyna-babi", "appendix A.7", what=f"answered {answer}"):
            yield judged(
                group,
                shares[answer],
                number,
                f"{group.name}: double disjunctions answered by {answer}",
            )


def _example() -> Iterator[str]:
    """Yield an example of the probe, for readers who do not know what a double disjunction is."""
    for example in read(RECIPE).plan(0).split(ENDING).rows(0, 6):
        if example.traits["group"] == "double":
            lines = example.input.removesuffix(example.question).strip().rstrip(".").split(". ")
            facts = " ".join(
                f"{lines[int(n) - 1]}." for n in str(example.traits["support_lines"]).split()
            )
            yield f"For example (supporting facts alone): {facts} {example.question} {example.targets[0]}."
            return
