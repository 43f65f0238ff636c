"""Reasons why the official and the corrected judgement of an instance may differ: one flag per
quirk of the script.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from taskloom.suites.zest.evaluation import corrected, official
from taskloom.suites.zest.evaluation.official import Answer, Judged
from taskloom.suites.zest.task_files import parse_structure

FLAGS: dict[str, str] = {
    "undefined": "the public script crashes on this pair",
    "na_spelling": (
        "an n/a with other punctuation or spacing, or an empty prediction, counts as an answer"
    ),
    "mixed_alternatives": "annotators disagree about n/a, and only the first alternative counts",
    "random_draw": "one element of a predicted list is chosen at random",
    "json_for_plain_gold": "JSON instead of a plain answer",
    "unparsed_structure": "a structure is expected, but the prediction is not a JSON list of "
    "objects",
    "na_structure": "n/a for a structure counts as a wrong answer for each key",
    "dict_order": "the script matches objects greedily, and may invert the order of three or more",
    "missing_dicts": "the values of missing objects count as wrong answers, not as missing ones",
    "extra_dicts": "superfluous objects cost nothing",
    "key_order": "keys are compared by position",
    "keys": "missing keys count as wrong answers, superfluous keys are not penalised",
    "unicode": (
        "look-alike characters (dashes, quotation marks, full-width letters) and "
        "invisible ones change the word"
    ),
    "rounding": "a score halfway between two hundredths is rounded by its floating-point error",
}
"""Meaning of each flag, for reports."""

ROUNDING = 0.0101
"""Maximum difference per entry that can be due to rounding."""


def effect(judged: Judged) -> tuple[float, int, int]:
    """Return the contribution of an instance to its task: the sum of true-positive scores, and the
    numbers of predicted and of gold positives.
    """
    gained = sum(score for bucket, score in judged.entries if bucket == "tp")
    predicted = sum(bucket in ("tp", "fp") for bucket, _ in judged.entries)
    positive = sum(bucket in ("tp", "fn") for bucket, _ in judged.entries)
    return gained, predicted, positive


def differ(one: Judged | None, other: Judged) -> bool:
    """True if two judgements change the task's F1 differently."""
    if one is None or one.entries == other.entries:
        return one is None  # shortcut for most instances, because counting is slow
    (gained, *counts), (other_gained, *other_counts) = effect(one), effect(other)
    return counts != other_counts or abs(gained - other_gained) > 1e-9


def flags(
    gold: Answer, prediction: str, by_script: Judged | None, by_paper: Judged
) -> tuple[str, ...]:
    """Return the quirks that affect an instance, or nothing if the two judgements agree."""
    if not differ(by_script, by_paper):
        return ()
    names = [] if by_script is not None else ["undefined"]
    structure = parse_structure(gold) if isinstance(gold, str) and "}" in gold else None
    if structure is None:
        names += _plain_flags(gold, prediction)
    else:
        names += _structure_flags(structure, prediction)
    alternatives = [gold] if isinstance(gold, str) else gold
    if any(corrected.fold(text) != text for text in [prediction, *alternatives]):
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
    if any(map(_spells_na, [prediction, *wanted])):
        names.append("na_spelling")
    if not isinstance(payload, str):
        names.append("json_for_plain_gold")
        if isinstance(payload, list) and len(payload) > 1:
            names.append("random_draw")
    return names + (["mixed_alternatives"] if _mixed(wanted) else [])


def _mixed(alternatives: Any) -> bool:
    return len({corrected.says_na(str(a)) for a in alternatives}) == 2


@dataclass(frozen=True)
class _Objects:
    """A gold structure, and a prediction that is also a JSON list of objects."""

    gold: list[dict[str, Any]]
    predicted: list[dict[str, Any]]

    @property
    def both(self) -> list[dict[str, Any]]:
        """All gold and predicted objects."""
        return [*self.gold, *self.predicted]

    @cached_property
    def key_sets(self) -> set[frozenset[str]]:
        """The distinct sets of keys."""
        return {frozenset(one) for one in self.both}

    @property
    def key_orders(self) -> set[tuple[str, ...]]:
        """The distinct sequences of keys. There are more sequences than sets if two objects have
        the same keys in different order.
        """
        return {tuple(one) for one in self.both}

    @property
    def predicted_values(self) -> list[Any]:
        """Values of the predicted objects."""
        return [value for one in self.predicted for value in one.values()]

    @property
    def texts(self) -> list[str]:
        """All gold and predicted texts, including those inside a list of alternatives."""
        values = [value for one in self.both for value in one.values()]
        texts: list[Any] = []
        for value in values:
            texts += value if isinstance(value, list) else [value]
        return [text for text in texts if isinstance(text, str)]


def _spells_na(text: str) -> bool:
    """True if only one of the two modes reads the text as n/a."""
    return corrected.says_na(text) != official.says_na(text)


def _holds_json(value: Any) -> bool:
    """True if a value is a text that parses as a JSON list or object."""
    return isinstance(value, str) and not isinstance(corrected.parsed(value), str)


_OBJECT_RULES: tuple[tuple[str, Callable[[_Objects], bool]], ...] = (
    ("missing_dicts", lambda pair: len(pair.gold) > len(pair.predicted)),
    ("extra_dicts", lambda pair: len(pair.gold) < len(pair.predicted)),
    ("dict_order", lambda pair: max(len(pair.gold), len(pair.predicted)) > 1),
    ("key_order", lambda pair: len(pair.key_orders) > len(pair.key_sets)),
    ("keys", lambda pair: len(pair.key_sets) > 1),
    ("random_draw", lambda pair: any(isinstance(value, list) for value in pair.predicted_values)),
    ("na_spelling", lambda pair: any(map(_spells_na, pair.texts))),
    ("json_for_plain_gold", lambda pair: any(map(_holds_json, pair.predicted_values))),
)
"""Conditions of the flags for a predicted list of objects, in the order of reports."""


def _structure_flags(gold: list[dict[str, Any]], prediction: str) -> list[str]:
    values = [value for one in gold for value in one.values()]
    lists = [value for value in values if isinstance(value, list)]
    names = ["mixed_alternatives"] if any(map(_mixed, lists)) else []
    payload = corrected.parsed(prediction)
    if isinstance(payload, str) and corrected.says_na(payload):
        return [*names, "na_structure"]
    if not isinstance(payload, list) or not all(isinstance(one, dict) for one in payload):
        return [*names, "unparsed_structure"]
    pair = _Objects(gold, payload)
    return names + [name for name, applies in _OBJECT_RULES if applies(pair)]
