"""Judge a pair of gold answer and prediction as the paper describes (section 5.1 and appendix D),
without the script's faults.

Every (key, value) pair that is not NA counts: towards recall in the gold answer, towards precision
in the prediction. Objects are matched optimally and keys by name. A value's score is weighted by
the F1 of its key. All arithmetic uses integers or fractions, so that the order of instances, list
items, objects, keys or alternatives cannot change even the last bit of a score.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import lcm
from typing import Any, Literal

from taskloom.suites.zest.evaluation.official import Answer, Entry, Judged
from taskloom.suites.zest.evaluation.spans import CACHED_LENGTH, Bag, bag, best_pairs
from taskloom.suites.zest.task_files import is_structure, parse_structure

_NA = re.compile(r"""\s*|[\s.,;:!?"'`()_-]*n\s*/?\s*a[\s.,;:!?"'`()_-]*""", re.IGNORECASE)
_ALIKE = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("‘’‚′", "'"),
        **dict.fromkeys("“”„″", '"'),
        "∕": "/",
        "⁄": "/",
    }
    | dict.fromkeys("\ufeff\u200b\u200c\u200d\u2060\u00ad", "")
)

Spans = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnswerValue:
    """A value of an answer: its alternatives, each a list of spans, and whether NA is one of
    them.
    """

    ways: tuple[Spans, ...]
    na: bool

    @property
    def positive(self) -> bool:
        """True if some alternative is not NA."""
        return bool(self.ways)


NA = AnswerValue((), True)


def fold(text: str) -> str:
    """Replace Unicode look-alikes (full-width letters, dashes, quotation marks, slashes) and remove
    invisible characters.
    """
    return (
        text
        if text.isascii()
        else unicodedata.normalize("NFKC", text.translate(_ALIKE)).translate(_ALIKE)
    )


def says_na(text: str) -> bool:
    """True if a text is empty or n/a, regardless of case and punctuation."""
    return len(text) < 100 and _says_na(text)


@lru_cache(maxsize=1 << 15)
def _says_na(text: str) -> bool:
    return _NA.fullmatch(fold(text)) is not None


def judge(gold: Answer, prediction: str) -> Judged:
    """Score one instance. Every prediction has a score."""
    structure = parse_structure(gold) if isinstance(gold, str) and "}" in gold else None
    if structure is not None:
        return _judge_structure(structure, prediction)
    wanted = _gold_value([gold] if isinstance(gold, str) else gold)
    return _judged([_entry(wanted, _predicted_value(parsed(prediction)), 100)])


def _judged(entries: list[Entry]) -> Judged:
    """Build a judgement whose score is the F1 of its entries."""
    if len(entries) == 1 and entries[0][0] == "tp":
        return Judged(round(entries[0][1] * 10_000) / 10_000, tuple(entries))
    gained = sum(round(score * 10_000) for bucket, score in entries if bucket == "tp")
    predicted = sum(bucket in ("tp", "fp") for bucket, _ in entries)
    positive = sum(bucket in ("tp", "fn") for bucket, _ in entries)
    if predicted + positive == 0:
        return Judged(1.0, tuple(entries))
    # 2PR / (P + R) with P = gained / predicted and R = gained / positive.
    return Judged(2 * gained / 10_000 / (predicted + positive), tuple(entries))


def _entry(gold: AnswerValue, predicted: AnswerValue, key_cents: int) -> Entry:
    if not predicted.positive:
        return ("tn", 1.0) if gold.na else ("fn", 0.0)
    if not gold.positive:
        return "fp", 0.0
    return "tp", key_cents * _cents(gold, predicted) / 10_000


def _gold_value(alternatives: Sequence[str]) -> AnswerValue:
    ways = tuple(tuple(fold(a).split("|")) for a in alternatives if not says_na(a))
    return AnswerValue(ways, len(ways) < len(alternatives))


def parsed(prediction: str) -> Any:
    """Parse a prediction that looks like a JSON list or object. Other predictions are returned
    unchanged.
    """
    if prediction.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(prediction)
        except (ValueError, RecursionError):
            return prediction
    return prediction


def _predicted_value(value: Any) -> AnswerValue:
    """Parse a predicted value. A list counts as a list of spans. An object instead of a text is
    wrong unless all its values are NA.
    """
    if value is None or value != value:
        return NA
    if isinstance(value, str):
        return NA if says_na(value) else AnswerValue((tuple(fold(value).split("|")),), False)
    if isinstance(value, list):
        spans: list[str] = []
        for item in value:
            for way in _predicted_value(item).ways:
                spans += way
        return AnswerValue((tuple(spans),), False) if spans else NA
    if isinstance(value, dict) and not any(_predicted_value(v).positive for v in value.values()):
        return NA
    return AnswerValue(((json.dumps(value),),), False)


def _cents(gold: AnswerValue, predicted: AnswerValue) -> int:
    return max(_list_cents(way, predicted.ways[0]) for way in gold.ways)


def _list_cents(gold: Spans, predicted: Spans) -> int:
    short = sum(map(len, gold)) + sum(map(len, predicted)) < CACHED_LENGTH
    return _list_cents_cached(gold, predicted) if short else _list_cents_fresh(gold, predicted)


def _list_cents_fresh(gold: Spans, predicted: Spans) -> int:
    """Compute the mean word F1 under the best alignment, divided by the longer list, in hundredths.
    Halves are rounded to even.
    """
    if len(gold) == 1 and len(predicted) == 1:
        return _hundredths(*_word_f1(bag(gold[0]), bag(predicted[0])))
    gold_bags, predicted_bags = [bag(g) for g in gold], [bag(s) for s in predicted]
    parts = [[_word_f1(g, s) for s in predicted_bags] for g in gold_bags]
    common = lcm(*{below for row in parts for _, below in row})
    weights = [[above * (common // below) for above, below in row] for row in parts]
    total = sum(weights[row][column] for row, column in best_pairs(weights))
    return _hundredths(total, common * max(len(gold), len(predicted)))


def _hundredths(part: int, whole: int) -> int:
    """Return part / whole in hundredths, with halves rounded to even. Equal to
    `round(Fraction(100 * part, whole))` but ten times as fast.
    """
    cents, rest = divmod(100 * part, whole)
    return cents + (2 * rest > whole or (2 * rest == whole and cents % 2 == 1))


_list_cents_cached = lru_cache(maxsize=1 << 15)(_list_cents_fresh)


def _word_f1(gold: tuple[Bag, Bag], predicted: tuple[Bag, Bag]) -> tuple[int, int]:
    """Return the word F1 as a fraction: twice the number of shared words over the total. It is 0 if
    the gold span has numbers and none is shared.
    """
    if gold[1] and not gold[1] & predicted[1]:
        return 0, 1
    size = len(gold[0]) + len(predicted[0])
    return (2 * len(gold[0] & predicted[0]), size) if size else (1, 1)


def _judge_structure(gold: list[dict[str, Any]], prediction: str) -> Judged:
    wanted = [_gold_object(one) for one in gold]
    payload = parsed(prediction)
    if isinstance(payload, str) and not says_na(payload):
        return _judged(_unreadable(wanted))
    items = payload if isinstance(payload, list) else [payload]
    objects = [item for item in items if isinstance(item, dict)]
    predicted = [{key: _predicted_value(value) for key, value in one.items()} for one in objects]
    strays = [_predicted_value(item) for item in items if not isinstance(item, dict)]
    entries, unmatched = _matched(wanted, predicted)
    return _judged(entries + _superfluous(unmatched) + _superfluous(strays))


def _gold_object(gold: dict[str, Any]) -> dict[str, AnswerValue]:
    """Parse the values of a gold object. A value is a text, a list of alternative texts, or any
    other JSON value, which is converted to text.
    """
    values = {}
    for key, given in gold.items():
        value = given if isinstance(given, str | list) and given else json.dumps(given)
        values[key] = _gold_value(
            [value] if isinstance(value, str) else [str(text) for text in value]
        )
    return values


def _unreadable(wanted: Sequence[dict[str, AnswerValue]]) -> list[Entry]:
    """Return the entries for a prediction that is not JSON although a structure is expected.

    Deserialization failures are errors (section 5.2): the model gave an answer, but no part of it
    counts as correct.
    """
    values = [value for one in wanted for value in one.values()]
    return [("tp" if value.positive and not value.na else "fp", 0.0) for value in values]


def _matched(
    wanted: Sequence[dict[str, AnswerValue]], predicted: Sequence[dict[str, AnswerValue]]
) -> tuple[list[Entry], list[AnswerValue]]:
    """Match objects optimally. Return the entries of the gold objects, and the values of unmatched
    predicted objects.
    """
    matches = [[_match(gold, given) for given in predicted] for gold in wanted]
    pairs = dict(best_pairs([[match.weight for match in row] for row in matches]))
    entries: list[Entry] = []
    for row, gold in enumerate(wanted):
        if row in pairs:
            entries += matches[row][pairs[row]].entries
        else:
            entries += [_entry(value, NA, 0) for value in gold.values()]
    taken = set(pairs.values())
    left = [given for column, given in enumerate(predicted) if column not in taken]
    return entries, [value for given in left for value in given.values()]


def _superfluous(values: Sequence[AnswerValue]) -> list[Entry]:
    """Return one false positive for each superfluous answer."""
    return [("fp", 0.0) for value in values if value.positive]


@dataclass(frozen=True, slots=True)
class _Match:
    """A match of two objects: its value and its entries."""

    weight: int
    entries: list[Entry]


_STEP = 1 << 40
"""A number greater than any sum of values. Multiplying the more important criterion by it gives a
lexicographic order in integers.
"""


def _match(gold: dict[str, AnswerValue], predicted: dict[str, AnswerValue]) -> _Match:
    """Match keys by name. The best match has the largest total key F1. Ties are broken by the
    scores, then by giving the fewest answers where NA would be accepted.
    """
    gold_items, predicted_items = list(gold.items()), list(predicted.items())
    keys = [
        [_list_cents((_key(g),), (_key(s),)) for s, _ in predicted_items] for g, _ in gold_items
    ]
    cells = [
        [_entry(g, s, keys[i][j]) for j, (_, s) in enumerate(predicted_items)]
        for i, (_, g) in enumerate(gold_items)
    ]
    worth = [
        [_worth(cells[i][j], g.na) if keys[i][j] else 0 for j in range(len(predicted_items))]
        for i, (_, g) in enumerate(gold_items)
    ]
    weights = [
        [keys[i][j] * _STEP + worth[i][j] for j in range(len(predicted_items))]
        for i in range(len(gold_items))
    ]
    pairs = dict(best_pairs(weights))
    # Keys without a shared word do not match: both remain unmatched.
    pairs = {i: j for i, j in pairs.items() if keys[i][j] > 0}
    entries = [
        cells[i][pairs[i]] if i in pairs else _entry(g, NA, 0)
        for i, (_, g) in enumerate(gold_items)
    ]
    taken = set(pairs.values())
    # A predicted answer is a false positive if it is paired with a gold NA or if it is unmatched.
    entries += [
        ("fp", 0.0) for j, (_, s) in enumerate(predicted_items) if j not in taken and s.positive
    ]
    return _Match(sum(worth[i][j] for i, j in pairs.items()), entries)


def _worth(entry: Entry, na_would_do: bool) -> int:
    """Rank a pair by its gain. Ties are broken by preferring pairs that give no answer where NA
    would be accepted.
    """
    return (round(entry[1] * 10_000) << 8) - na_would_do if entry[0] == "tp" else 0


def _key(key: str) -> str:
    return fold(key.replace("_", " "))


# Categories of mistakes: those of the paper's Table 6, plus malformed JSON.

Mistake = Literal["recall", "precision", "partial", "malformed", "other"]

MISTAKES: dict[Mistake, str] = {
    "recall": "said n/a although there is an answer",
    "precision": "gave an answer where n/a is right",
    "partial": "gave only some members of a list or structure",
    "malformed": "gave no readable JSON although a structure is expected",
    "other": "gave a wrong answer",
}


def mistake(gold: Answer, prediction: str, judged: Judged) -> Mistake | None:
    """Return the category of a mistake, or None if the instance is completely right.

    An answer is partial if some member of a gold list, or some value of a structure, is right and
    another one is missing or wrong. A single span that partly overlaps counts as "other", as in the
    paper's table.
    """
    right = [
        bucket == "tn" or (bucket == "tp" and score >= 1.0) for bucket, score in judged.entries
    ]
    if all(right):
        return None
    buckets = {bucket for bucket, _ in judged.entries}
    structure = isinstance(gold, str) and is_structure(gold)
    if structure and says_na(prediction):
        if buckets & {"tp", "fn"}:
            return "recall"
    elif structure and not isinstance(parsed(prediction), list | dict):
        return "malformed"
    if "tp" not in buckets:
        # Some entry is not a true negative, so it is either a false negative or a false positive.
        return "recall" if "fn" in buckets else "precision"
    gained = any(bucket == "tp" and score > 0.0 for bucket, score in judged.entries)
    return "partial" if gained and (structure or _is_listed(gold)) else "other"


def _is_listed(gold: Answer) -> bool:
    alternatives = [gold] if isinstance(gold, str) else gold
    return any("|" in text for text in alternatives)
