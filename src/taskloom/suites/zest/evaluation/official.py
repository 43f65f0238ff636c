"""Judge a pair of gold answer and prediction like the public ZEST script, including its quirks.

Written from the script's observed behaviour, to reproduce published numbers. Each quirk that
changes scores has a flag in `flags.py` and is fixed in `corrected.py`. If the script would crash
there is no official score, and `Undefined` is raised.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from taskloom.core.errors import InputError
from taskloom.suites.zest.evaluation.spans import list_f1, numpy_round

Answer = str | Sequence[str]
"""A gold answer: a text, or the alternatives given by annotators. Parts of a multi-part answer are
separated by vertical bars.
"""

Dict = dict[str, Any]
"""One object of a structured answer."""

Entry = tuple[str, float]
"""A counted entry of a task: a bucket (tp, fp, fn, tn) and the overlap score."""


class Undefined(InputError):  # noqa: N818 - says what it is: there is no official score
    """The public script crashes on this pair, so it has no official score."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A judged instance: its own score, and the entries that it adds to its task."""

    score: float
    entries: tuple[Entry, ...]


def says_na(text: str) -> bool:
    """True if a text is exactly 'n/a' or 'na', in any case. The public script treats 'n/a.', ' N/A'
    and '' as answers.
    """
    return text.lower() in ("n/a", "na")


def judge(gold: Answer, prediction: str, draws: Random) -> Judged:
    """Score one instance.

    Args:
        gold: The `answer` field of the instance.
        prediction: The prediction as the script reads it from its line.
        draws: The script's random stream, seeded with 0 for each file. It selects one element of a
            predicted list.
    """
    if isinstance(gold, str) and "}" in gold:
        return _judge_structure(gold, prediction, draws)
    alternatives = [gold] if isinstance(gold, str) else list(gold)
    if not alternatives:
        raise Undefined(
            "a gold answer is an empty list; the public script needs at least one alternative"
        )
    score = _text_score(alternatives, prediction, draws)
    return Judged(score, ((_bucket(alternatives[0], prediction), score),))


def _bucket(gold: str, prediction: str) -> str:
    if _predicts_na(prediction):
        return "tn" if says_na(gold) else "fn"
    return "fp" if says_na(gold) else "tp"


def _predicts_na(prediction: str) -> bool:
    if "{" not in prediction:
        return says_na(prediction)
    try:
        # This is meant for bare NaN values, but it also changes words such as "banana".
        parsed = json.loads(prediction.replace("nan", '"n/a"'))
    except (ValueError, RecursionError):
        return False
    if not isinstance(parsed, list):
        raise Undefined(f"the prediction {_short(prediction)} is JSON but not a list of objects")
    values: list[Any] = []
    for item in parsed:
        if not isinstance(item, dict):
            raise Undefined(
                f"the prediction {_short(prediction)} is a JSON list with items that are not "
                "objects"
            )
        values += item.values()
    verdicts = [
        _value_na(value, prediction) for value in values
    ]  # check every value, because the script crashes on any bad one
    return all(verdicts)


def _value_na(value: Any, prediction: str) -> bool:
    if value is None or value != value:  # null and NaN
        return True
    if not isinstance(value, str):
        raise Undefined(
            f"the prediction {_short(prediction)} has a value that is neither a text nor null"
        )
    return value.lower() in ("n/a", "na", "nan")


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _text_score(alternatives: Sequence[str], prediction: str, draws: Random) -> float:
    if "[" in prediction:
        try:
            parsed = json.loads(prediction)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, list):
            return _span_score(alternatives, _draw(parsed, draws))
    return _span_score(alternatives, prediction)


def _draw(items: list[Any], draws: Random) -> Any:
    if not items:
        raise Undefined(
            "the prediction has an empty JSON list, from which the public script cannot choose "
            "an element"
        )
    return draws.choice(items)


def _span_score(alternatives: Sequence[str], prediction: Any) -> float:
    if not isinstance(prediction, str):
        return 0.0
    parts = prediction.split("|")
    return max(numpy_round(list_f1(alternative.split("|"), parts)) for alternative in alternatives)


def _judge_structure(gold: str, prediction: str, draws: Random) -> Judged:
    wanted = _gold_dicts(gold)
    try:
        predicted = json.loads(prediction)
    except (ValueError, RecursionError):
        predicted = None
    if not isinstance(predicted, list):
        return Judged(0.0, tuple((_bucket(_first(v), ""), 0.0) for d in wanted for v in d.values()))
    if not all(isinstance(item, dict) for item in predicted):
        raise Undefined(
            f"the prediction {_short(prediction)} is a JSON list with items that are not objects"
        )
    for item in predicted:
        _check_values(item)
    size = max(len(wanted), len(predicted))
    wanted = wanted + [{}] * (size - len(wanted))
    predicted = predicted + [{}] * (size - len(predicted))
    same = wanted == predicted
    order = _greedy_order(wanted, predicted)
    score = 0.0
    entries: list[Entry] = []
    for gold_dict, predicted_dict in zip(wanted, [predicted[i] for i in order], strict=True):
        score += _dict_score(gold_dict, predicted_dict)
        entries += _dict_entries(gold_dict, predicted_dict, draws)
    return Judged(1.0 if same else score / size, tuple(entries))


def _gold_dicts(gold: str) -> list[Dict]:
    try:
        parsed = json.loads(gold)
    except ValueError as error:
        raise Undefined(
            f"the gold answer {_short(gold)} contains a brace but is not JSON"
        ) from error
    if not isinstance(parsed, list) or not parsed or not all(isinstance(d, dict) for d in parsed):
        raise Undefined(f"the gold answer {_short(gold)} is not a list of JSON objects")
    for item in parsed:
        for key, value in item.items():
            texts = [value] if isinstance(value, str) else value
            if (
                not isinstance(texts, list)
                or not texts
                or not all(isinstance(t, str) for t in texts)
            ):
                raise Undefined(
                    f"the gold answer {_short(gold)} has a value for '{key}' that is neither a "
                    "text nor a list of texts"
                )
            if any("{" in t or "}" in t for t in [key, *texts]):
                raise Undefined(
                    f"the gold answer {_short(gold)} has a brace inside a key or a value"
                )
    return parsed


def _check_values(predicted: Any) -> None:
    for key, value in predicted.items():
        if not (isinstance(value, str | list) or value is None or value != value):
            raise Undefined(
                f"the prediction has {_short(json.dumps(value))} for '{key}', which is neither a "
                "text nor null"
            )


def _greedy_order(wanted: Sequence[Dict], predicted: Sequence[Dict]) -> list[int]:
    """For each predicted object in turn, choose the best gold object that is still free. The caller
    applies the result in the wrong direction, as the script does.
    """
    free = [i for i, d in enumerate(wanted) if d]
    # All empty gold objects are equal, so try only the first free one. A line of 10 MB may contain
    # 500,000 of them.
    empty = iter([i for i, d in enumerate(wanted) if not d])
    next_empty = next(empty, None)
    order = []
    for item in predicted:
        candidates = sorted([*free, next_empty]) if next_empty is not None else free
        best, best_score = candidates[0], -1.0
        for i in candidates:
            score = _dict_score(wanted[i], item)
            if score > best_score:
                best, best_score = i, score
            if score == 1.0:
                break
        if best == next_empty:
            next_empty = next(empty, None)
        else:
            free.remove(best)
        order.append(best)
    return order


def _dict_score(gold: Dict, predicted: Dict) -> float:
    if not gold and not predicted:
        # The mean of no spans is NaN, which never exceeds the script's starting value.
        return -1.0
    return max(
        (
            numpy_round(list_f1(wanted, spans)) if wanted and spans else 0.0
            for wanted in _combinations(gold)
            for spans in _combinations(predicted)
        ),
        default=-1.0,
    )


def _combinations(pairs: Dict) -> list[list[str]]:
    """Return the combinations of alternatives that the script tries. All branches share its stack
    of keys.
    """
    fixed = [(k, v) for k, v in pairs.items() if not isinstance(v, list)]
    stack = [(k, v) for k, v in pairs.items() if isinstance(v, list)]
    tried: list[list[str]] = []

    def branch(chosen: list[tuple[str, Any]]) -> None:
        if not stack:
            tried.append(
                [f"{k} {part}".replace("_", " ") for k, v in chosen for part in str(v).split("|")]
            )
            return
        key, alternatives = stack.pop()
        for alternative in alternatives:
            branch([*chosen, (key, alternative)])

    branch(fixed)
    return tried


def _dict_entries(gold: Dict, predicted: Dict, draws: Random) -> list[Entry]:
    pairs = list(predicted.items())
    entries: list[Entry] = []
    for position, (key, value) in enumerate(gold.items()):
        alternatives = [value] if isinstance(value, str) else value
        if position >= len(pairs):
            entries.append((_bucket(alternatives[0], ""), 0.0))
            continue
        predicted_key, predicted_value = pairs[position]
        if not isinstance(predicted_value, str | list):
            predicted_value = "n/a"  # null and NaN
        key_score = numpy_round(list_f1([key.replace("_", " ")], [predicted_key.replace("_", " ")]))
        if isinstance(predicted_value, str):
            value_score = _text_score(alternatives, predicted_value, draws)
            bucket = _bucket(alternatives[0], predicted_value)
        else:
            value_score = _span_score(alternatives, _draw(predicted_value, draws))
            bucket = _bucket(alternatives[0], "")  # a list is never NA, whatever it contains
        entries.append((bucket, key_score * value_score))
    return entries


def _first(value: Any) -> str:
    return value if isinstance(value, str) else str(value[0])
