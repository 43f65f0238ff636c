"""Sentences of a report; their words are in sentences.j2."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from taskloom.analysis.report.page import Sentences
from taskloom.analysis.report.run_numbers import Row
from taskloom.experiments.result_table import p_text, probability

MOST = 24
"""Maximum sentences of one kind; the tables have the rest."""

MOST_SPLITS = 4
"""Maximum splits in a sentence."""

MOST_PAIRS_NAMED = 6
"""Maximum pairs of learners without a difference that are named."""

ALPHA = 0.05
"""Significance level of comparisons."""

CONSTANT = frozenset({"majority"})
"""Learners that give every input the same answer: their gaps say how often that answer is right,
nothing of generalization.
"""


def mean_with_interval(row: Row) -> str:
    """Format a mean with half the width of its interval, or with its ends if it is lopsided.

    >>> mean_with_interval({"mean": 0.94, "low": 0.90, "high": 0.98})
    '0.940 ± 0.040'
    >>> mean_with_interval({"mean": 1.0, "low": 0.97, "high": 1.0})
    '1.000 (0.970 to 1.000)'
    """
    mean, low, high = row["mean"], row["low"], row["high"]
    if low is None or math.isnan(low):
        return f"{mean:.3f}"
    above, below = high - mean, mean - low
    if abs(above - below) <= 0.1 * max(above, below, 1e-9):
        return f"{mean:.3f} ± {(high - low) / 2:.3f}"
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"


say = Sentences(
    "taskloom.analysis.report", mean=mean_with_interval, p=p_text, probability=probability
)


def score_sentences(
    rows: Sequence[Row],
    seed_scores: Mapping[tuple[str, str, str], Sequence[float]],
    guesses: Mapping[tuple[str, str], float],
    threshold: float,
) -> list[str]:
    """Say how each learner did on each recipe, the lowest split first: that is where generalization
    breaks.

    Args:
        rows: Means with intervals by recipe, learner and split.
        seed_scores: The score of every seed, by recipe, learner and split.
        guesses: The score of guessing, by recipe and split.
        threshold: The score that counts as success.
    """
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        cells.setdefault((row["recipe"], row["learner"]), []).append(row)
    sentences = []
    for (recipe, learner), own in list(cells.items())[:MOST]:
        lowest = sorted(own, key=lambda row: row["mean"])[:MOST_SPLITS]
        parts = []
        for row in lowest:
            seeds = seed_scores.get((recipe, learner, row["split"]), ())
            parts.append(_part(row, seeds, guesses.get((recipe, row["split"])), threshold))
        sentences.append(
            say(
                "scores",
                learner=learner,
                recipe=recipe,
                parts=parts,
                more=len(own) - len(lowest),
                threshold=threshold,
            )
        )
    return sentences


def _part(
    row: Row, seeds: Sequence[float], guess: float | None, threshold: float
) -> dict[str, Any]:
    """The facts on one split; a score of guessing that the interval excludes is left out."""
    known = guess is not None and not math.isnan(row["low"])
    if not known or guess is None or not row["low"] <= guess <= row["high"]:
        guess = None
    above = sum(score > threshold for score in seeds)
    return {"row": row, "guess": guess, "seeds": len(seeds), "above": above}


LOOSE = 0.9
"""Share of answers in form below which a score may measure the form."""


FEWEST = 10
"""Minimum examples of a value that is named as the best or the worst."""


def form_sentences(rows: Sequence[Row]) -> list[str]:
    """Warn of scores of chat models that may be a matter of form."""
    known = [row for row in rows if row.get("in_form") is not None]
    loose = [row for row in known if row["in_form"] < LOOSE]
    return [say("form", row=row) for row in loose[:MOST]]


def weakness_sentences(
    by_trait: Mapping[str, Sequence[Row]], words: Mapping[str, str]
) -> list[str]:
    """Say where each learner fails: the trait whose values divide its scores most, if the intervals
    of the best and the worst value do not overlap.

    Args:
        by_trait: Means with intervals by recipe, learner, split and the trait.
        words: What traits are, in a few words.
    """
    cells: dict[tuple[str, str, str], list[tuple[float, str, Row, Row]]] = {}
    for name, rows in by_trait.items():
        groups: dict[tuple[str, str, str], list[Row]] = {}
        for row in rows:
            groups.setdefault((row["recipe"], row["learner"], row["split"]), []).append(row)
        for cell, own in groups.items():
            ends = [row for row in own if row["n"] >= FEWEST]
            if len(ends) < 2:
                continue
            low, high = (pick(ends, key=lambda row: row["mean"]) for pick in (min, max))
            if low["high"] < high["low"]:
                cells.setdefault(cell, []).append((_explained(own), name, low, high))
    sentences = []
    for found in list(cells.values())[:MOST]:
        _, name, low, high = max(found, key=lambda one: one[0])
        what = f"{name} ({words[name]})" if name in words else name
        sentences.append(say("weakness", what=what, name=name, low=low, high=high))
    return sentences


def _explained(rows: Sequence[Row]) -> float:
    """Share of the variance of right and wrong answers that lies between groups of items, adjusted
    for the number of groups (epsilon squared): many values explain something by chance.
    """
    items = sum(row["n"] for row in rows)
    mean = sum(row["n"] * row["mean"] for row in rows) / items
    between = sum(row["n"] * (row["mean"] - mean) ** 2 for row in rows) / items
    share = between / (mean * (1 - mean)) if 0 < mean < 1 else 0.0
    return float(1 - (1 - share) * (items - 1) / max(1, items - len(rows)))


def has_gap(rows: Sequence[Row]) -> bool:
    """True if some learner has scores on iid and on held-out items."""
    return bool(_iid_ood_pairs(rows))


def gap_sentence(rows: Sequence[Row]) -> str:
    """The headline: the largest fall from iid to ood that the intervals show, or that they show
    none.

    A constant answer cannot generalize, so such learners are not looked at. Without both kinds of
    splits it is the best score.
    """
    pairs = _iid_ood_pairs(rows)
    if not pairs:
        return say("best", top=max(rows, key=lambda row: row["mean"]))
    falls = [(iid, ood) for iid, ood in pairs if ood["high"] < iid["low"]]
    if falls:
        iid, ood = max(falls, key=lambda pair: pair[0]["mean"] - pair[1]["mean"])
        return say("falls", iid=iid, ood=ood)
    rises = [(iid, ood) for iid, ood in pairs if iid["high"] < ood["low"]]
    if rises:
        iid, ood = max(rises, key=lambda pair: pair[1]["mean"] - pair[0]["mean"])
        return say("rises", iid=iid, ood=ood)
    iid, ood = max(pairs, key=lambda pair: pair[0]["mean"])
    known = not any(math.isnan(row["low"]) for pair in pairs for row in pair)
    return say("no_gap", iid=iid, ood=ood, intervals=known)


def _iid_ood_pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Pair the score on iid with that on every split of held-out items, for learners that look at
    the input.
    """
    reference = {(r["recipe"], r["learner"]): r for r in rows if r["split"] == "iid"}
    pairs = []
    for row in rows:
        iid = reference.get((row["recipe"], row["learner"]))
        held_out = row["split"] == "ood" or row["split"].startswith("ood-")
        constant = row["learner"].partition(" ")[0] in CONSTANT
        if iid is not None and held_out and not constant:
            pairs.append((iid, row))
    return pairs


def comparison_sentences(rows: Iterable[Row]) -> list[str]:
    """Which learner is better, and the pairs whose difference is inconclusive."""
    ordered = sorted(rows, key=lambda row: row["corrected_p"])
    shown = [_better(row) for row in ordered if row["corrected_p"] < ALPHA][:MOST]
    undecided = [row for row in ordered if not row["corrected_p"] < ALPHA]
    if undecided:
        named = undecided[:MOST_PAIRS_NAMED]
        shown.append(say("undecided", rows=named, more=len(undecided) - len(named)))
    return shown


def _better(row: Row) -> str:
    winner, loser = row["first"], row["second"]
    if row["difference"] > 0:
        winner, loser = loser, winner
    ends = sorted((abs(row["low"]), abs(row["high"])))
    return say(
        "better",
        winner=winner,
        loser=loser,
        size=abs(row["difference"]),
        interval=None if math.isnan(ends[0]) else ends,
        row=row,
    )
