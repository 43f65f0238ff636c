"""Tables 4 and 9 of Dyna-bAbI: accuracy by the number of supporting facts, of models trained on inject, diverse and concat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from taskloom.analysis import figures
from taskloom.analysis.claims import PaperClaim, claim_findings
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.published_numbers import published
from taskloom.analysis.seed_scores import seeds_and_items_caption
from taskloom.analysis.study import StudyError, study
from taskloom.analysis.verdict import Judgement
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.table import Runs
from taskloom.papers.dyna_babi.small_stories import enriched_experiments, gift_experiments
from taskloom.papers.dyna_babi.story_runs import (
    GUESSING,
    MIX,
    STORIES,
    TEST,
    TRAITS,
    Kept,
    StoryAnswers,
    StoryTrainings,
    contrast,
    estimate,
    everything,
    gap_text,
    has_gift,
    judged,
    kinds_gap,
    passes_note,
    passes_text,
    point,
    spread,
    story_trainings,
    support_size,
)

SIZES: dict[str, Kept] = {
    "1": lambda item: support_size(item) == 1,
    "2": lambda item: support_size(item) == 2,
    "3+": lambda item: support_size(item) >= 3,
    "total": everything,
}
"""The columns of Table 4."""

TESTS = {"concat": TEST, "mix": MIX}

CONCAT_GROUP = "qa"
"""Groups of the stories of concat are called qa1 to qa13; the test of diverse itself has other ones, and is not in the table."""


@study(
    "dyna-babi/table4",
    describe="Accuracy by number of supporting facts after training on concat, inject and diverse",
    place="Dyna-bAbI, Table 4",
    experiment=enriched_experiments,
    traits=TRAITS,
)
def table4(runs: Runs) -> list[Finding]:
    """Compute Table 4, with concat beside inject and diverse, and compare the training sets on the same questions of mix."""
    groups = _enriched(story_trainings(runs))
    cells = [cell for group in groups for cell in _cells(group)]
    if not cells:
        raise StudyError(
            f"{runs.path} has no answers on mix, or on the test of concat, with their supports"
        )
    rows = [_row([c for c in cells if (c["trained"], c["test"]) == key]) for key in _keys(cells)]
    columns = ("trained", "test", "support", "mean", "low", "high", "n", "seeds", "published")
    seeds, items = ([cell[name] for cell in cells] for name in ("seeds", "n"))
    intervals = seeds_and_items_caption(seeds, items)
    caption = (
        f"Accuracy by number of supporting facts. {intervals}; diamonds are the paper's numbers (T5). Training sets differ in "
        "passes over the data (see the table)."
    )
    panels = [{**c, "panel": f"tested on {c['test']}({c['part']})"} for c in cells]
    drawn = ResultTable((*columns, "panel", "training"), panels)
    plot = partial(
        figures.intervals,
        place="support",
        series="training",
        panel="panel",
        ylabel="supporting facts",
    )
    main = Finding(
        "Dyna-bAbI Table 4",
        "Accuracy with its 95 % interval over seeds and questions, by the number of supporting facts.",
        ResultTable(("trained", "passes", "test", *SIZES), rows),
        (StudyFigure("table4", caption, drawn, plot),),
        tuple(_judgements(groups)),
        (
            "Every training set gets the same number of steps here, so that a smaller one gets more passes over its data; the "
            "paper's T5 has 12 passes over each. Differences between training sets are confounded with passes.",
            STORIES,
        ),
    )
    return [main, *claim_findings("Dyna-bAbI Table 4", _claims(groups), CLAIM_RULE)]


def _enriched(groups: Sequence[StoryTrainings]) -> list[StoryTrainings]:
    """Return the trainings of models and parts that have inject or diverse as well; where there are none, all."""
    learned = [group for group in groups if group.model != GUESSING]
    enriched = {(group.model, group.part) for group in learned if group.data != "concat"}
    return [group for group in learned if (group.model, group.part) in enriched] or list(groups)


CLAIM_RULE = (
    "Differences are on the same questions of mix, with 95 % intervals over seeds and questions; with one seed on a side over "
    "questions alone, which says nothing about other trainings. The training sets of a difference have equal steps and unequal "
    "passes over their data: its direction can be read, but how much of it is due to the stories cannot."
)


def _cells(group: StoryTrainings) -> Iterator[dict[str, Any]]:
    for test, ending in TESTS.items():
        for size, scores in _by_size(group, test, ending).items():
            estimated = estimate(scores)
            if estimated is None:
                continue
            numbers = _published(group, test, size)
            yield {
                "trained": group.name,
                "passes": passes_text(group),
                "training": f"{group.model}, {group.data}",  # the same mark in all panels: each has one part
                "part": group.part,
                "test": test,
                "support": size,
                **point(estimated),
                "shown": spread(estimated),
                "published": numbers[0].value if numbers else None,
            }


def _by_size(group: StoryTrainings, test: str, ending: str) -> dict[str, np.ndarray[Any, Any]]:
    if not group.split(ending):
        return {}
    answers = group.answers(ending)
    if test == "concat" and not all(
        str(item.get("group", "")).startswith(CONCAT_GROUP) for item in answers.items
    ):
        return {}
    return {size: answers.of(kept) for size, kept in SIZES.items()}


def _keys(cells: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((cell["trained"], cell["test"]) for cell in cells))


def _row(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    shown = {cell["support"]: cell["shown"] for cell in cells}
    sizes = {size: shown.get(size, "–") for size in SIZES}
    return {name: cells[0][name] for name in ("trained", "passes", "test")} | sizes


def _published(group: StoryTrainings, test: str, size: str) -> list[Any]:
    if group.paper_model != "t5":
        return []
    return published(
        "dyna-babi", "Table 4", data=group.data, part=group.part, test=test, support=size
    )


def _judgements(groups: Sequence[StoryTrainings]) -> Iterator[Judgement]:
    for group in groups:
        for test, ending in TESTS.items():
            for size, scores in _by_size(group, test, ending).items():
                for number in _published(group, test, size):
                    if scores.size:
                        claim = f"{group.name}: on {test}, support {size}"
                        yield judged(group, scores.mean(axis=1).tolist(), number, claim)


CLAIMS = {
    ("concat", "inject"): "questions that are added (inject) improve on concat",
    ("inject", "diverse"): "diverse stories improve more than added questions",
    ("concat", "diverse"): "diverse stories improve on concat",
}
"""What the paper says of the training sets (section 4.2)."""


def _claims(groups: Sequence[StoryTrainings]) -> Iterator[PaperClaim]:
    """Yield the claims on every two training sets of one model: the difference on mix."""
    for a in groups:
        for b in groups:
            text = CLAIMS.get((a.data, b.data)) if (a.model, a.part) == (b.model, b.part) else None
            result = contrast(a, b) if text else None
            if text and result is not None:
                measure = f"{b.model}, mix({b.part}): {b.data} - {a.data}"
                trainings = min(len(a.seeds), len(b.seeds))
                interval = (result.difference, result.low, result.high)
                yield PaperClaim(
                    text, "Table 4", measure, *interval, trainings=trainings, df=result.df
                )


GIFTS: dict[tuple[int, str], Kept] = {
    (size, give): lambda item, size=size, give=give: (
        support_size(item) == size and has_gift(item) == (give == "with")
    )  # type: ignore[misc]
    for size, give in ((1, "without"), (2, "without"), (2, "with"), (3, "without"), (3, "with"))
}
"""The rows of Table 9."""


@study(
    "dyna-babi/table9-accuracy",
    describe="Accuracy on questions of mix(T7) with and without GIVE in the support, after training on concat",
    place="Dyna-bAbI, Table 9",
    experiment=gift_experiments,
    traits=TRAITS,
)
def gift_accuracy(runs: Runs) -> list[Finding]:
    """Compute the accuracies of Table 9: by the number of supporting facts and whether one of them is a gift."""
    groups = [g for g in story_trainings(runs, ("concat",)) if g.part == "T7" and g.split(MIX)]
    if not groups:
        raise StudyError(f"{runs.path} has no runs on babi/concat-T7 that answered mix(T7)")
    rows: list[dict[str, Any]] = []
    judgements: list[Judgement] = []
    gaps: list[dict[str, Any]] = []
    for group in groups:
        answers = group.answers(MIX)
        gaps += _gift_gaps(group.model, answers)
        for (size, give), kept in GIFTS.items():
            scores = answers.of(kept)
            estimated = estimate(scores)
            if estimated is None:
                continue
            what = {"model": group.paper_model, "support": size, "give": give, "what": "accuracy"}
            numbers = published("dyna-babi", "Table 9", **what) if group.paper_model else []
            kind = f"{size} fact{'s' if size > 1 else ''}, {give} GIVE"
            row = {"model": group.model, "support": kind, **point(estimated)}
            rows.append({**row, "published": numbers[0].value if numbers else None})
            for number in numbers:
                judgements.append(
                    judged(group, scores.mean(axis=1).tolist(), number, f"{group.model}: {kind}")
                )
    data = ResultTable(("model", "support", "mean", "low", "high", "n", "seeds", "published"), rows)
    caption = (
        "Accuracy on mix(T7) after training on concat(T7), by number of supporting facts and whether GIVE is among them. "
        f"{seeds_and_items_caption((r['seeds'] for r in rows), (r['n'] for r in rows))}; diamonds are the paper's."
    )
    plot = partial(figures.intervals, place="support", series="model")
    return [
        Finding(
            "Dyna-bAbI Table 9: accuracies",
            "",
            data,
            (StudyFigure("table9-accuracy", caption, data, plot),),
            tuple(judgements),
            (*_unpublished(groups), *passes_note(groups)),
        ),
        Finding(
            "Dyna-bAbI Table 9: differences",
            "Accuracy without GIVE in the support less that with it, with its 95 % interval over seeds and questions.",
            ResultTable(("model", "facts", "without GIVE", "with GIVE", "difference"), gaps),
        ),
    ]


def _unpublished(groups: Sequence[StoryTrainings]) -> Iterator[str]:
    """Yield a note on models of which the paper has no accuracies; with those that it has, where there is nothing else to see."""
    numbers = published("dyna-babi", "Table 9", what="accuracy")
    models = list(dict.fromkeys(str(number.of["model"]) for number in numbers))
    others = sorted(
        {g.model for g in groups if g.paper_model not in models and g.model != GUESSING}
    )
    if others:
        yield f"The paper's Table 9 has no accuracies of {', '.join(others)}."
    if not any(group.paper_model in models for group in groups):
        for model in models:
            own = [n for n in numbers if n.of["model"] == model]
            cells = ", ".join(f"{n.value:g} ({n.of['support']}, {n.of['give']} GIVE)" for n in own)
            yield f"The paper's accuracies of {model}, by supporting facts: {cells}."


def _gift_gaps(model: str, answers: StoryAnswers) -> Iterator[dict[str, Any]]:
    for size in (2, 3):
        without, gift = (answers.of(GIFTS[size, give]) for give in ("without", "with"))
        if without.size and gift.size:
            means = {"without GIVE": float(without.mean()), "with GIVE": float(gift.mean())}
            yield {
                "model": model,
                "facts": size,
                **means,
                "difference": gap_text(kinds_gap(without, gift)),
            }
