"""Why the official and the corrected judgement of an instance may differ: one name for each peculiarity of the script."""

from __future__ import annotations

from typing import Any

from taskloom.suites.zest.evaluation import corrected, official
from taskloom.suites.zest.evaluation.official import Answer, Judged
from taskloom.suites.zest.task_files import parse_structure

FLAGS: dict[str, str] = {
    "undefined": "the public script dies on this pair",
    "na_spelling": "an n/a with other punctuation or spacing, or an empty prediction, counts as an answer",
    "mixed_alternatives": "annotators disagree about n/a, and only the first alternative decides",
    "random_draw": "one element of a predicted list is drawn at random",
    "json_for_plain_gold": "JSON where a plain answer is wanted",
    "unparsed_structure": "a structure is wanted and the prediction is not a JSON list of objects",
    "na_structure": "n/a for a structure counts as a wrong answer for each key",
    "dict_order": "objects are matched greedily, and three or more may be put in the inverse order",
    "missing_dicts": "the values of missing objects count as wrong answers, not as missing ones",
    "extra_dicts": "superfluous objects cost nothing",
    "key_order": "keys are compared by position",
    "keys": "missing keys count as wrong answers, superfluous keys cost nothing",
    "unicode": "look-alike characters (dashes, quotation marks, full-width letters) and invisible ones make a different word",
    "rounding": "a score on the border of two hundredths is rounded by its binary error",
}
"""Flag and what it means, for reports."""

ROUNDING = 0.0101
"""Two judgements that differ by no more than a hundredth for each entry may differ by rounding alone."""


def effect(judged: Judged) -> tuple[float, int, int]:
    """Compute what an instance adds to its task: the sum of true-positive scores, predicted positives, gold positives."""
    gained = sum(score for bucket, score in judged.entries if bucket == "tp")
    predicted = sum(bucket in ("tp", "fp") for bucket, _ in judged.entries)
    positive = sum(bucket in ("tp", "fn") for bucket, _ in judged.entries)
    return gained, predicted, positive


def differ(one: Judged | None, other: Judged) -> bool:
    """Return whether two judgements change the task's F1 differently."""
    if one is None or one.entries == other.entries:
        return one is None  # most instances are judged alike, and counting takes long
    (gained, *counts), (other_gained, *other_counts) = effect(one), effect(other)
    return counts != other_counts or abs(gained - other_gained) > 1e-9


def flags(gold: Answer, prediction: str, by_script: Judged | None, by_paper: Judged) -> tuple[str, ...]:
    """List the peculiarities that act on an instance whose two judgements differ; empty when they agree."""
    if not differ(by_script, by_paper):
        return ()
    names = [] if by_script is not None else ["undefined"]
    structure = parse_structure(gold) if isinstance(gold, str) and "}" in gold else None
    if structure is None:
        names += _plain_flags(gold, prediction)
    else:
        names += _structure_flags(structure, prediction)
    texts = [prediction, *([gold] if isinstance(gold, str) else gold)]
    if any(corrected.fold(t) != t for t in texts):
        names.append("unicode")
    if by_script is not None and _close(by_script, by_paper):
        names.append("rounding")
    return tuple(names)


def _close(one: Judged, other: Judged) -> bool:
    (gained, *counts), (other_gained, *other_counts) = effect(one), effect(other)
    return counts == other_counts and abs(gained - other_gained) <= ROUNDING * len(one.entries)


def _plain_flags(gold: Answer, prediction: str) -> list[str]:
    payload = corrected.parsed(prediction)
    names = []
    wanted = [gold] if isinstance(gold, str) else gold
    if any(corrected.says_na(t) != official.says_na(t) for t in [prediction, *wanted]):
        names.append("na_spelling")
    if not isinstance(payload, str):
        names.append("json_for_plain_gold")
        if isinstance(payload, list) and len(payload) > 1:
            names.append("random_draw")
    return names + (["mixed_alternatives"] if _mixed(wanted) else [])


def _mixed(alternatives: Any) -> bool:
    return len({corrected.says_na(str(a)) for a in alternatives}) == 2


def _structure_flags(gold: list[dict[str, Any]], prediction: str) -> list[str]:
    parsed = corrected.parsed(prediction)
    names = ["mixed_alternatives"] if any(isinstance(v, list) and _mixed(v) for d in gold for v in d.values()) else []
    if isinstance(parsed, str):
        return [*names, "na_structure" if corrected.says_na(parsed) else "unparsed_structure"]
    if not isinstance(parsed, list) or not all(isinstance(d, dict) for d in parsed):
        return [*names, "unparsed_structure"]
    predicted: list[dict[str, Any]] = parsed
    if len(gold) != len(predicted):
        names.append("missing_dicts" if len(gold) > len(predicted) else "extra_dicts")
    if max(len(gold), len(predicted)) > 1:
        names.append("dict_order")
    key_sets = {frozenset(d) for d in gold} | {frozenset(d) for d in predicted}
    orders = {tuple(d) for d in gold} | {tuple(d) for d in predicted}
    if len(orders) > len(key_sets):
        names.append("key_order")
    if len(key_sets) > 1:
        names.append("keys")
    values = [v for d in predicted for v in d.values()]
    if any(isinstance(v, list) for v in values):
        names.append("random_draw")
    texts = [t for d in [*gold, *predicted] for v in d.values() for t in (v if isinstance(v, list) else [v])]
    if any(isinstance(t, str) and corrected.says_na(t) != official.says_na(t) for t in texts):
        names.append("na_spelling")
    if any(isinstance(v, str) and not isinstance(corrected.parsed(v), str) for v in values):
        names.append("json_for_plain_gold")
    return names
