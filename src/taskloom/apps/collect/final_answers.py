"""The final answer of an item from what its annotators answered (section 4.4 of the paper).

Yes/no: the majority. Spans: "the answer that was the subset of the other answers, preferring
shorter responses over longer responses". The paper does not say what happens where no answer is a
subset of the others, nor with n/a; here an answer counts where more than half of the annotators
support it, and everything else goes to an adjudicator.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from taskloom.apps.collect.records import NA, AnswerFormat
from taskloom.suites.zest.evaluation.spans import normalise
from taskloom.suites.zest.task_files import parse_structure


def resolve(values: Sequence[str], format: AnswerFormat) -> str | None:
    """Return the final answer, or None where an adjudicator must decide.

    >>> resolve(["yes", "no", "yes"], "yes/no")
    'yes'
    >>> resolve(["the Blue Lake", "Blue Lake", "Lake"], "span")
    'Lake'
    >>> resolve(["n/a", "Blue Lake", "Red Rock"], "span") is None
    True
    """
    if not values:
        return None
    if format == "yes/no":
        return _majority(values)
    na = sum(v == NA for v in values)
    if 2 * na > len(values):
        return NA
    if format == "span":
        return _shortest_subset(values)
    return _structure(values)


def _majority(values: Sequence[str]) -> str | None:
    value, count = Counter(values).most_common(1)[0]
    return value if 2 * count > len(values) else None


def span_words(value: str) -> frozenset[str]:
    """Return the normalised words of an answer's spans."""
    return frozenset(word for part in value.split("|") for word in normalise(part).split())


def _shortest_subset(values: Sequence[str]) -> str | None:
    """Return the shortest answer whose words are contained in more than half of the answers, its
    own included.

    An answer of articles and punctuation alone has no words in the evaluation's sense; only the
    same text supports it.
    """
    bags = [(v, span_words(v)) for v in values if v != NA]
    supported = []
    for value, words in bags:
        if words:
            support = sum(words <= other for _, other in bags)
        else:
            support = sum(value == text for text, _ in bags)
        if 2 * support > len(values):
            supported.append((len(words), len(value), value))
    return min(supported)[2] if supported else None


def _structure(values: Sequence[str]) -> str | None:
    """Return the objects that more than half of the annotators name, if everybody's attributes can
    be settled for them.

    The main objects must be the same for more than half of the annotators; each value is then
    settled among those like a span.
    """
    parsed = [rows for v in values if v != NA and (rows := parse_structure(v))]
    by_objects: dict[frozenset[str], list[list[dict[str, str]]]] = {}
    for rows in parsed:
        names = frozenset(_object_name(row) for row in rows)
        by_objects.setdefault(names, []).append(rows)
    group = max(by_objects.values(), key=len, default=[])
    if 2 * len(group) <= len(values):
        return None
    all_rows = [row for rows in group for row in rows]
    result = []
    for first in group[0]:
        same = [row for row in all_rows if _object_name(row) == _object_name(first)]
        settled = {key: _settled([row[key] for row in same]) for key in first}
        if any(value is None for value in settled.values()):
            return None
        result.append(settled)
    return json.dumps(result, ensure_ascii=False)


def _object_name(row: dict[str, str]) -> str:
    """The normalised main object of a row, which is its first value."""
    return normalise(next(iter(row.values())))


def _settled(values: Sequence[str]) -> str | None:
    if set(values) <= {"yes", "no", NA}:
        return _majority(values)
    na = sum(v == NA for v in values)
    if 2 * na > len(values):
        return NA
    return _shortest_subset(values)
