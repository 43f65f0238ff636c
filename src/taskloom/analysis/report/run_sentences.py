"""Sentences of a report. Their wording is in sentences.j2."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from taskloom.analysis.report.effects import (
    ALPHA,
    SMALLEST,
    TraitEffect,
    is_reference,
    strongest_trait,
)
from taskloom.analysis.report.page import Sentences
from taskloom.analysis.report.run_numbers import Row
from taskloom.experiments.result_table import p_text, probability

MOST = 24
"""Maximum sentences of one kind. The tables have the rest."""

MOST_SPLITS = 4
"""Maximum splits in a sentence."""

MOST_PAIRS_NAMED = 3
"""Maximum number of pairs without a difference that a sentence names."""

MOST_TRAIT_SENTENCES = 4
"""Maximum findings about traits."""

FEW_VALUES = 4
"""Maximum values of a trait that a sentence lists. With more values, it gives only the best and the
worst.
"""


def mean_with_interval(row: Row) -> str:
    """Format a mean with the ends of its interval.

    >>> mean_with_interval({"mean": 0.94, "low": 0.90, "high": 0.98})
    '0.940 (0.900 to 0.980)'
    """
    mean, low, high = row["mean"], row["low"], row["high"]
    if low is None or math.isnan(low):
        return f"{mean:.3f}"
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"


def values_with_means(effect: TraitEffect) -> str:
    """Mean scores by the value of a trait: all values if there are few, otherwise the best and the
    worst.

    Numeric values keep their order. Names are sorted by score, best first.
    """
    means = effect.means
    numeric = all(is_number(value) for value in means)
    ordered = list(means) if numeric else sorted(means, key=lambda value: -means[value])
    if len(ordered) > FEW_VALUES:
        best = max(means, key=lambda value: means[value])
        ordered = (
            sorted([best, effect.worst], key=list(means).index) if numeric else [best, effect.worst]
        )
    word = "with" if numeric else "for"
    parts = [f"{means[value]:.2f} {word} {value}" for value in ordered]
    return ", ".join(parts)


def is_number(value: Any) -> bool:
    """True if a value is a finite number, or text that spells one."""
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError):
        return False


say = Sentences(
    "taskloom.analysis.report",
    mean=mean_with_interval,
    values=values_with_means,
    p=p_text,
    probability=probability,
)


def score_sentences(
    rows: Sequence[Row],
    seed_scores: Mapping[tuple[str, str, str], Sequence[float]],
    guesses_of: Callable[[str], Mapping[str, float]],
    threshold: float,
) -> list[str]:
    """State how each learner did on each recipe, with the lowest split first, because that is where
    generalization breaks.

    Args:
        rows: Means with intervals by recipe, learner and split.
        seed_scores: The score of every seed, by recipe, learner and split.
        guesses_of: Chance score on each split of a recipe.
        threshold: The score that counts as success.
    """
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        cells.setdefault((row["recipe"], row["learner"]), []).append(row)
    sentences = []
    for (recipe, learner), own in list(cells.items())[:MOST]:
        lowest = sorted(own, key=lambda row: row["mean"])[:MOST_SPLITS]
        guesses = guesses_of(recipe)
        parts = []
        for row in lowest:
            seeds = seed_scores.get((recipe, learner, row["split"]), ())
            parts.append(_part(row, seeds, guesses.get(row["split"]), threshold))
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
    """Facts about one split. Chance is omitted if the interval excludes it."""
    known = guess is not None and not math.isnan(row["low"])
    if not known or guess is None or not row["low"] <= guess <= row["high"]:
        guess = None
    above = sum(score > threshold for score in seeds)
    return {"row": row, "guess": guess, "seeds": len(seeds), "above": above}


def headline(rows: Sequence[Row], compared: Sequence[Row], traits: Sequence[TraitEffect]) -> str:
    """The strongest effect that is larger than chance, or a sentence that there is none.

    Args:
        rows: Means with intervals by recipe, learner and split.
        compared: Comparisons of learners and of settings, with corrected p-values.
        traits: Effects of traits, the largest first.
    """
    effects: list[tuple[float, str]] = []
    trait = strongest_trait(traits)
    if trait is not None:
        effects.append((trait.size, say("trait", effect=trait)))
    decided = [row for row in compared if row["corrected_p"] < ALPHA and not has_reference(row)]
    if decided:
        largest = max(decided, key=lambda row: abs(row["difference"]))
        effects.append((abs(largest["difference"]), _better(largest)))
    pairs = _iid_ood_pairs(rows)
    falls = [iid["mean"] - ood["mean"] for iid, ood in pairs if ood["high"] < iid["low"]]
    if falls:
        effects.append((max(falls), gap_sentence(rows)))
    loose = _loose(rows)
    if loose:
        # The score may be lower by this much because of answers out of form.
        worst = min(loose, key=lambda row: row["in_form"])
        effects.append((1 - worst["in_form"], say("form", row=worst)))
    effects = [effect for effect in effects if effect[0] >= SMALLEST]
    if effects:
        # Ties go to the first effect, which is a trait's, because traits best show what is hard.
        return max(effects, key=lambda effect: effect[0])[1]
    tests = len(traits) + len(compared)
    if pairs or not tests:
        return gap_sentence(rows)
    return say("no_effect", tests=tests, top=_best(rows))


def _best(rows: Sequence[Row]) -> Row:
    """Row with the highest score. References count only if nothing else was run."""
    learned = [row for row in rows if not is_reference(row["learner"])]
    return max(learned or rows, key=lambda row: row["mean"])


def has_reference(row: Row) -> bool:
    """True if one of the two compared learners does not learn."""
    return is_reference(row["first"]) or is_reference(row["second"])


def trait_sentences(effects: Sequence[TraitEffect]) -> list[str]:
    """Traits that explain most, one sentence for each recipe, learner and split."""
    best: dict[tuple[str, str, str], list[TraitEffect]] = {}
    for effect in effects:
        if effect.shown:
            group = (effect.recipe, effect.learner, effect.split)
            best.setdefault(group, []).append(effect)
    sentences = []
    for own in list(best.values())[:MOST_TRAIT_SENTENCES]:
        strongest = strongest_trait(own)
        if strongest is not None:
            sentences.append(say("trait", effect=strongest))
    return sentences


LOOSE = 0.9
"""Minimum share of answers in form. Below it, a score may measure the form."""


def form_sentences(rows: Sequence[Row]) -> list[str]:
    """Warn about chat models whose score may depend on the form of their answers."""
    return [say("form", row=row) for row in _loose(rows)[:MOST]]


def _loose(rows: Sequence[Row]) -> list[Row]:
    """Rows with too few answers in form."""
    known = [row for row in rows if row.get("in_form") is not None]
    return [row for row in known if row["in_form"] < LOOSE]


def gap_sentence(rows: Sequence[Row]) -> str:
    """The largest drop from iid to ood that the intervals show, or a sentence that there is none.

    References do not learn and are skipped. If there are no iid or no ood splits, the result is the
    best score.
    """
    pairs = _iid_ood_pairs(rows)
    if not pairs:
        return say("best", top=_best(rows))
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
    """Pairs of the score on iid and the score on each held-out split, for learners that read the
    input.
    """
    reference = {(r["recipe"], r["learner"]): r for r in rows if r["split"] == "iid"}
    pairs = []
    for row in rows:
        iid = reference.get((row["recipe"], row["learner"]))
        held_out = row["split"] == "ood" or row["split"].startswith("ood-")
        if iid is not None and held_out and not is_reference(row["learner"]):
            pairs.append((iid, row))
    return pairs


def comparison_sentences(rows: Iterable[Row]) -> list[str]:
    """State which learner is better, and which pairs are inconclusive."""
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
