"""Findings in sentences: what a reader should know before looking at figures and tables, each number with its interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from taskloom.experiments.result_table import probability

Row = Mapping[str, Any]

WORDS = {"iid": "items like those of training (iid)", "ood": "held-out items (ood)"}
"""What the usual splits are; others are called by their names."""

MOST = 24
"""Sentences of one kind; the tables have the rest."""

CONSTANT = frozenset({"majority"})
"""Learners that give every input the same answer: their gaps say how often that answer is right, nothing of generalization."""

SUCCESS = 0.95
"""The score that counts as having learned a task, where the reader names no other."""


def mean_with_interval(row: Row) -> str:
    """Format a mean with half the width of its interval, or with its ends where it is lopsided.

    >>> mean_with_interval({"mean": 0.94, "low": 0.90, "high": 0.98}), mean_with_interval({"mean": 1.0, "low": 0.97, "high": 1.0})
    ('0.940 ± 0.040', '1.000 (0.970 to 1.000)')
    """
    mean, low, high = row["mean"], row["low"], row["high"]
    if low is None or math.isnan(low):
        return f"{mean:.3f}"
    above, below = high - mean, mean - low
    if abs(above - below) <= 0.1 * max(above, below, 1e-9):
        return f"{mean:.3f} ± {(high - low) / 2:.3f}"
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"


def score_sentences(
    rows: Sequence[Row],
    seed_scores: Mapping[tuple[str, str, str], Sequence[float]],
    guesses: Mapping[tuple[str, str], float],
    threshold: float,
) -> list[str]:
    """Say how each learner did on each recipe, the lowest split first: that is where generalization breaks.

    Args:
        rows: Means with intervals by recipe, learner and split.
        seed_scores: The score of every seed, by recipe, learner and split.
        guesses: The score of guessing, by recipe and split.
        threshold: The score that counts as success.
    """
    sentences = []
    for recipe, learner in dict.fromkeys((row["recipe"], row["learner"]) for row in rows):
        own = sorted((r for r in rows if (r["recipe"], r["learner"]) == (recipe, learner)), key=lambda r: r["mean"])
        parts = [
            _part(row, seed_scores.get((recipe, learner, row["split"]), ()), guesses, threshold) for row in own[:4]
        ]
        more = f"; {len(own) - 4} more splits are in the table" if len(own) > 4 else ""
        sentences.append(f"{learner} on {recipe}: {'; '.join(parts)}{more}.")
    return sentences[:MOST]


def _part(row: Row, seeds: Sequence[float], guesses: Mapping[tuple[str, str], float], threshold: float) -> str:
    text = _place(row)
    guess = guesses.get((row["recipe"], row["split"]))
    if guess is not None and not math.isnan(row["low"]) and row["low"] <= guess <= row["high"]:
        text += f", indistinguishable from guessing the most frequent answer ({guess:.3f})"
    if len(seeds) > 1:
        text += f", {sum(score > threshold for score in seeds)} of {len(seeds)} seeds above {threshold:g}"
    return text


def gap_sentence(rows: Sequence[Row]) -> str:
    """Return the headline: the largest fall from iid to ood that the intervals show, or that they show none.

    A constant answer cannot generalize, so such learners are not looked at. Without both kinds of splits it is the best score.
    """
    pairs = _iid_ood_pairs(rows)
    if not pairs:
        top = max(rows, key=lambda r: r["mean"])
        return f"{top['learner']} reaches {mean_with_interval(top)} on {top['recipe']}, {top['split']}."
    falls = [(iid, ood) for iid, ood in pairs if ood["high"] < iid["low"]]
    if falls:
        iid, ood = max(falls, key=lambda pair: pair[0]["mean"] - pair[1]["mean"])
        return f"{iid['learner']} falls from {_place(iid)} to {_place(ood)} of {iid['recipe']}."
    rises = [(iid, ood) for iid, ood in pairs if iid["high"] < ood["low"]]
    if rises:
        iid, ood = max(rises, key=lambda pair: pair[1]["mean"] - pair[0]["mean"])
        return f"No fall is shown; {iid['learner']} is higher on ood: {_place(ood)}, {_place(iid)} of {iid['recipe']}."
    iid, ood = max(pairs, key=lambda pair: pair[0]["mean"])
    why = "there are no intervals" if any(math.isnan(r["low"]) for pair in pairs for r in pair) else "intervals overlap"
    return (
        f"No difference between iid and ood is shown ({why}): {iid['learner']} has {_place(iid)} and {_place(ood)} "
        f"of {iid['recipe']}."
    )


def _iid_ood_pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Pair the score on iid with that on every split of held-out items, for learners that look at the input."""
    reference = {(r["recipe"], r["learner"]): r for r in rows if r["split"] == "iid"}
    return [
        (reference[row["recipe"], row["learner"]], row)
        for row in rows
        if (row["recipe"], row["learner"]) in reference
        and (row["split"] == "ood" or row["split"].startswith("ood-"))
        and row["learner"].partition(" ")[0] not in CONSTANT
    ]


def _place(row: Row) -> str:
    return f"{mean_with_interval(row)} on {WORDS.get(row['split'], row['split'])}"


def comparison_sentences(rows: Iterable[Row]) -> list[str]:
    """Say which learner is better, and where the runs do not tell."""
    shown, open_ = [], []
    for row in sorted(rows, key=lambda r: r["corrected_p"]):
        where = f"on {row['recipe']}, {row['split']}"
        p = probability(row["corrected_p"])
        sign = "p" if p.startswith("<") else "p ="
        if row["corrected_p"] < 0.05:
            better, worse = (row["second"], row["first"]) if row["difference"] > 0 else (row["first"], row["second"])
            low, high = sorted((abs(row["low"]), abs(row["high"])))
            size = (
                f"{abs(row['difference']):.3f} ({low:.3f} to {high:.3f})"
                if not math.isnan(low)
                else f"{abs(row['difference']):.3f}"
            )
            shown.append(f"{better} is better than {worse} by {size} {where} (corrected {sign} {p}).")
        else:
            open_.append(f"{row['first']} and {row['second']} {where}")
    sentences = shown[:MOST]
    if open_:
        names = "; ".join(open_[:6]) + (f" and {len(open_) - 6} more pairs" if len(open_) > 6 else "")
        sentences.append(f"No difference is shown between {names}.")
    return sentences
