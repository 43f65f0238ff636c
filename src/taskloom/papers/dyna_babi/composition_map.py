"""Figure 3 of Dyna-bAbI: accuracy by support composition, question and number of supporting facts;
seen compositions are framed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from math import isnan
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.heat_maps import heat_map
from taskloom.analysis.paper_table import count_of
from taskloom.analysis.published_numbers import recipe_of
from taskloom.analysis.study import CountSetting, StudyError, study
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.sources.score_files import USED
from taskloom.experiments.statistics import welch
from taskloom.experiments.table import Runs
from taskloom.papers.dyna_babi.experiments import map_experiments
from taskloom.papers.dyna_babi.runs import (
    MIX,
    TRAITS,
    Gap,
    Kept,
    StoryAnswers,
    StoryTrainings,
    estimate,
    everything,
    gap_text,
    kinds_gap,
    passes_note,
    point,
    spread,
    story_trainings,
    strata_gap,
    support_size,
)
from taskloom.recipe import read

PANELS: dict[str, Kept] = {
    "n ≤ 2": lambda item: support_size(item) <= 2,
    "n = 3": lambda item: support_size(item) == 3,
    "n ≥ 4": lambda item: support_size(item) >= 4,
}
"""The figure's sub-plots, by the number of supporting facts."""

NAMES = {"n ≤ 2": "two", "n = 3": "three", "n ≥ 4": "four"}
"""Suffixes of the sub-plots' file names."""

SAMPLE = 8_000
"""Maximum number of training examples to generate in order to find which compositions occur in
training. A composition that occurs once in 2,000 examples is missed with probability e^-4.
"""

Seen = frozenset[tuple[str, str]]
"""Pairs of question and composition that occur in training."""

Scores = NDArray[np.float64]


@study(
    "dyna-babi/figure3",
    describe=(
        "Accuracy on mix by support composition, question and number of supporting facts, with what"
        " training has framed"
    ),
    place="Dyna-bAbI, Figure 3",
    experiment=map_experiments,
    traits=TRAITS,
)
def figure3(
    runs: Runs,
    *,
    data: Literal["concat", "inject", "diverse"] = "diverse",
    part: Literal["", "T7", "T12"] = "",
    fewest: CountSetting = 5,
    most: CountSetting = 16,
) -> list[Finding]:
    """Draw the heat maps of every training on diverse.

    Args:
        runs: The runs.
        data: The training set.
        part: T7 or T12; all by default.
        fewest: Minimum number of questions in a cell.
        most: Maximum number of compositions in a panel. The compositions with the most questions
            are shown.
    """
    groups = [g for g in story_trainings(runs, (data,)) if g.split(MIX) and part in ("", g.part)]
    if not groups:
        raise StudyError(f"{runs.path} has no runs on babi/{data}-{part or 'T7'} that answered mix")
    return [
        composition_finding(group, group.answers(MIX), seen_in(group), fewest, most)
        for group in groups
    ]


def seen_in(group: StoryTrainings) -> Seen:
    """Find the pairs of question and composition in a training's data, using a generated sample."""
    run = group.by_seed[group.seeds[0]]
    recipe, fields = recipe_of(group.runs, run), group.runs[run].fields
    own = {
        k.partition(".")[2]: v
        for k, v in fields.items()
        if k.startswith("recipe.") and k not in USED
    }
    size = min(SAMPLE, recipe.plan(0).split("train").n)
    changes = {**own, "splits.train.n": size}
    smaller = (
        read(recipe.name, [f"{k}={json.dumps(v)}" for k, v in changes.items()])
        .plan(0)
        .split("train")
    )
    return frozenset(
        (str(e.traits["question"]), str(e.traits["composition"]))
        for e in smaller.rows(0, smaller.n)
    )


def is_seen(item: Mapping[str, Any], seen: Seen) -> bool:
    """True if training has this question type with this composition of supporting facts."""
    return (str(item.get("question")), str(item.get("composition"))) in seen


def composition_finding(
    group: StoryTrainings, answers: StoryAnswers, seen: Seen, fewest: int = 5, most: int = 16
) -> Finding:
    """Build a finding with the heat maps of a training and its accuracy on seen and unseen
    compositions.

    Args:
        group: The training.
        answers: The training's answers on mix.
        seen: Pairs of question and composition in training.
        fewest: Minimum number of questions in a cell.
        most: Maximum number of compositions in a panel.
    """
    rows = [row for panel in PANELS for row in _contrast_rows(answers, panel, seen)]
    drawn = [
        figure for panel in PANELS for figure in _panel(group, answers, panel, seen, fewest, most)
    ]
    return Finding(
        f"Dyna-bAbI Figure 3: {group.name}",
        " ".join(_sentences(group.name, answers, seen)),
        ResultTable(("facts", "training has it", "accuracy", "questions"), rows),
        tuple(drawn),
        notes=(
            (
                "Intervals are at 95 %, over seeds and questions, each of which has a story of its"
                " own, unless they are said to be over compositions (Welch)."
            ),
            *passes_note([group]),
            (
                "The paper shows these values as shades only, so there are no published numbers to"
                " compare with. Its claim: accuracy is high if training has the composition, and"
                " falls with the number of facts."
            ),
            (
                "A composition counts as seen with the question that it is asked with; the paper's"
                " frames do not say whether the question matters."
            ),
            (
                "At equal numbers of facts: the differences of the sub-plots, weighted by their"
                " questions. Supports that training has are also shorter, so that the plain"
                " difference may be due to the number of facts."
            ),
        ),
    )


def _panel(
    group: StoryTrainings, answers: StoryAnswers, panel: str, seen: Seen, fewest: int, most: int
) -> Iterator[StudyFigure]:
    """Yield the heat map for one number of facts, if any cell has enough questions."""
    cells = list(_cells(answers, panel, seen, fewest, most))
    if not cells:
        return
    columns = ("facts", "composition", "question", "mean", "low", "high", "n", "seeds", "seen")
    total, seeds = len(answers.places(PANELS[panel])), len(group.seeds)
    rare = total - sum(c["n"] for c in cells)
    caption = (
        f"Accuracy of {group.name} on the {total:,} questions of mix({group.part}) with {panel}"
        " supporting facts, by support composition (down) and question (across): mean over"
        f" {count_of([seeds], 'seed')} and {count_of((c['n'] for c in cells), 'question')} a cell"
        f" (white: fewer than {fewest}). Framed: training has this composition with this question."
        f" {f'{rare:,} questions are in rarer cells. ' if rare else ''}Intervals (95 %, over seeds"
        " and questions) are in the data."
    )
    plot = partial(
        heat_map,
        x="question",
        y="composition",
        value="mean",
        framed="seen",
        ylabel="support composition",
    )
    name = f"figure3-{group.data}-{group.part}-{NAMES[panel]}".lower()
    yield StudyFigure(name, caption, ResultTable(columns, cells), plot)


def _cells(
    answers: StoryAnswers, panel: str, seen: Seen, fewest: int, most: int
) -> Iterator[dict[str, Any]]:
    places = answers.places(PANELS[panel])
    pairs = [
        (str(answers.items[p].get("composition")), str(answers.items[p].get("question")))
        for p in places
    ]
    counts = Counter(pairs)
    sizes = Counter(composition for composition, _ in pairs)
    shown = {c for c, _ in sizes.most_common(most)}
    for (composition, question), n in sorted(counts.items()):
        if n < fewest or composition not in shown:
            continue
        own = [p for p, pair in zip(places, pairs, strict=True) if pair == (composition, question)]
        estimated = estimate(answers.scores[:, own])
        assert estimated is not None
        seen_here = (question, composition) in seen
        row = {"facts": panel, "composition": composition, "question": question, "seen": seen_here}
        yield {**row, **point(estimated)}


def _contrast_rows(answers: StoryAnswers, panel: str, seen: Seen) -> Iterator[dict[str, Any]]:
    on_seen, on_unseen = by_seen(answers, seen, PANELS[panel])
    for known, scores in ((True, on_seen), (False, on_unseen)):
        if not scores.size:
            continue
        yield {
            "facts": panel,
            "training has it": "yes" if known else "no",
            "accuracy": spread(estimate(scores)),
            "questions": scores.shape[1],
        }


def by_seen(answers: StoryAnswers, seen: Seen, kept: Kept = everything) -> tuple[Scores, Scores]:
    """Scores [seeds, questions] on seen and on unseen compositions."""
    on_seen = answers.of(lambda item: kept(item) and is_seen(item, seen))
    on_unseen = answers.of(lambda item: kept(item) and not is_seen(item, seen))
    return on_seen, on_unseen


def seen_gap(answers: StoryAnswers, seen: Seen, kept: Kept = everything) -> Gap | None:
    """Accuracy on seen minus unseen compositions, with its 95 % interval. None if there are no
    questions of one kind.

    Args:
        answers: The answers of a training.
        seen: Pairs of question and composition in training.
        kept: Predicate for the questions to include.
    """
    one, other = by_seen(answers, seen, kept)
    return kinds_gap(one, other) if one.size and other.size else None


def seen_gap_at_equal_facts(answers: StoryAnswers, seen: Seen) -> Gap | None:
    """Average the gap over panels, weighted by their numbers of questions. This controls for the
    number of facts, because supports that occur in training are also shorter.

    Returns None if fewer than two panels have both seen and unseen compositions.
    """
    panels = [by_seen(answers, seen, kept) for kept in PANELS.values()]
    strata = [(one, other) for one, other in panels if one.size and other.size]
    return strata_gap(strata) if len(strata) > 1 else None


def seen_gap_over_compositions(answers: StoryAnswers, seen: Seen) -> tuple[Gap, int, int] | None:
    """The gap over pairs of question and composition, each counted once, and the numbers of seen
    and unseen pairs.

    Questions with the same composition succeed or fail together, so a claim about compositions
    needs this unit. The interval is Welch's. Returns None if there are fewer than two seen or fewer
    than two unseen compositions.
    """
    scores: dict[tuple[str, str], list[float]] = {}
    for item, score in zip(answers.items, answers.scores.mean(axis=0).tolist(), strict=True):
        pair = (str(item.get("question")), str(item.get("composition")))
        scores.setdefault(pair, []).append(score)
    means = {pair: sum(own) / len(own) for pair, own in scores.items()}
    known = [mean for pair, mean in means.items() if pair in seen]
    unknown = [mean for pair, mean in means.items() if pair not in seen]
    if min(len(known), len(unknown)) < 2:
        return None
    result = welch(unknown, known)
    return (result.difference, result.low, result.high), len(known), len(unknown)


def facts_gap(answers: StoryAnswers, seen: Seen, known: bool) -> Gap | None:
    """Accuracy with at most two facts minus accuracy with more, on seen or on unseen
    compositions.
    """
    few = PANELS["n ≤ 2"]
    at_most_two = answers.of(lambda item: few(item) and is_seen(item, seen) == known)
    more = answers.of(lambda item: not few(item) and is_seen(item, seen) == known)
    return kinds_gap(at_most_two, more) if at_most_two.size and more.size else None


def _sentences(name: str, answers: StoryAnswers, seen: Seen) -> Iterator[str]:
    gap = seen_gap(answers, seen)
    if gap is None:
        share = sum(is_seen(item, seen) for item in answers.items)
        yield (
            f"{name}: training has the composition of {share:,} of {len(answers.items):,}"
            " questions, so that nothing can be compared."
        )
        return
    yield (
        f"{name}: on compositions that training has with the same question accuracy is"
        f" {_verdict(gap)}, {gap_text(gap)}."
    )
    over = seen_gap_over_compositions(answers, seen)
    if over is not None and not isnan(over[0][1]):
        own, known, unknown = over
        yield (
            f"Over compositions, each counting once ({known} seen, {unknown} unseen), it is"
            f" {_verdict(own)}, {gap_text(own)}."
        )
    equal = seen_gap_at_equal_facts(answers, seen)
    if equal is not None:
        yield f"At equal numbers of facts it is {_verdict(equal)}, {gap_text(equal)}."
    panels = {panel: seen_gap(answers, seen, kept) for panel, kept in PANELS.items()}
    parts = [
        f"{gap_text(own)} with {panel} facts" for panel, own in panels.items() if own is not None
    ]
    if len(parts) > 1:
        yield f"By the number of facts: {', '.join(parts)}."
    facts = {
        what: facts_gap(answers, seen, known)
        for what, known in (("has", True), ("does not have", False))
    }
    falls = [
        f"{gap_text(own)} if training {what} the composition"
        for what, own in facts.items()
        if own is not None
    ]
    if falls:
        yield f"With at most two facts accuracy is higher than with more by {', by '.join(falls)}."


def _verdict(gap: Gap) -> str:
    _, low, high = gap
    if low > 0:
        return "higher"
    return "lower" if high < 0 else "neither clearly higher nor lower (inconclusive)"
