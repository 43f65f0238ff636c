"""Shortcut baselines, which do not do the task: majority answer, question only, first or last word,
bag of words.

The majority answer is the constant that is acceptable most often. It need not be an official
answer. Each baseline is fitted on training and scored on every other split; a split has a shortcut
if a baseline beats the majority answer by more than ten points and by more than chance would allow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from taskloom.core.arrow import numbers
from taskloom.core.plan import Role
from taskloom.core.scoring import tidy
from taskloom.core.seeding import Key

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

FIT, SCORE = 20_000, 2_000
"""Maximum number of training rows that baselines are fitted on, and of rows scored in each split.
They are chosen by a keyed permutation.
"""
MARGIN = 0.10
BAG_OF_WORDS = "bag of words"
MANY_ANSWERS = 300
"""Number of different answers from which a bag-of-words classifier is no longer a sensible
baseline.
"""

MOST_WORDS = 20_000
"""Maximum number of words that are counted: the most frequent ones."""


@dataclass(frozen=True, slots=True)
class Shortcut:
    """The accuracy of one baseline on one split."""

    split: str
    baseline: str
    accuracy: float
    majority: float
    n: int
    flagged: bool


def shortcut_count(tried: Iterable[tuple[str, bool]]) -> str:
    """State the number of shortcuts, and whether the bag of words was not tried.

    Args:
        tried: Name of each baseline measured on a split, with True if it is a shortcut.

    >>> shortcut_count([("first word", False)])
    'no shortcut found (bag of words not tried)'
    >>> shortcut_count([("first word", False), ("bag of words", True)]), shortcut_count([("bag of words", False)])
    ('1 shortcut', '0 shortcuts')
    >>> shortcut_count([])
    'shortcuts were not looked for'
    """
    flags = list(tried)
    if not flags:
        return "shortcuts were not looked for"
    flagged = sum(flag for _, flag in flags)
    count = "1 shortcut" if flagged == 1 else f"{flagged} shortcuts"
    if any(name == BAG_OF_WORDS for name, _ in flags):
        return count
    return f"{count if flagged else 'no shortcut found'} ({BAG_OF_WORDS} not tried)"


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a split as baselines use them.

    Attributes:
        inputs: Their texts.
        questions: The questions, or None if the whole input is the question.
        official: The official answers.
        acceptable: Acceptable answers of each row, without duplicates. A prediction is right if it
            is any of them.
    """

    inputs: list[str]
    questions: list[str | None]
    official: list[str]
    acceptable: list[list[str]]


Answerer = Callable[[_Rows], list[str]]


def find_shortcuts(
    tables: Mapping[str, pa.Table], roles: Mapping[str, Role]
) -> tuple[list[Shortcut], list[str]]:
    """Measure the accuracy of each baseline. Also returns what could not be measured."""
    train = [t for name, t in tables.items() if roles[name] == "train" and t.num_rows]
    if not train:
        return [], []
    fit = _rows(pa.concat_tables([t.select(_COLUMNS) for t in train]), FIT)
    baselines, notes = _baselines(fit)
    shortcuts: list[Shortcut] = []
    for name, table in tables.items():
        if roles[name] == "train" or not table.num_rows:
            continue
        rows = _rows(table.select(_COLUMNS), SCORE)
        scores = {label: _accuracy(answer(rows), rows) for label, answer in baselines.items()}
        n, base = len(rows.inputs), scores["majority answer"]
        for label, accuracy in scores.items():
            error = sqrt(max(base * (1 - base), 1e-9) / n)
            flagged = accuracy > base + max(MARGIN, 3 * error)
            shortcuts.append(Shortcut(name, label, accuracy, base, n, flagged))
    return shortcuts, notes


_COLUMNS = ["input", "question", "targets"]


def _rows(table: pa.Table, limit: int) -> _Rows:
    if table.num_rows > limit:
        chosen = Key("audit", "shortcuts").permutation(table.num_rows)(np.arange(limit))
        table = table.take(numbers(np.sort(chosen)))
    inputs = table.column("input").to_pylist()
    stated = table.column("question").to_pylist()
    questions = [q if q else _last_line(t) for q, t in zip(stated, inputs, strict=True)]
    targets = table.column("targets").to_pylist()
    tidied: dict[str, str] = {
        answer: tidy(answer) for answer in {answer for row in targets for answer in row}
    }
    acceptable = [list(dict.fromkeys(tidied[answer] for answer in row)) for row in targets]
    return _Rows(inputs, questions, [row[0] for row in targets], acceptable)


def _last_line(text: str) -> str | None:
    """Last of several lines, which is the question in data that does not mark it."""
    lines = text.strip().splitlines()
    return lines[-1] if len(lines) > 1 else None


def _accuracy(answers: list[str], rows: _Rows) -> float:
    tidied = {answer: tidy(answer) for answer in set(answers)}
    right = [
        tidied[answer] in acceptable
        for answer, acceptable in zip(answers, rows.acceptable, strict=True)
    ]
    return sum(right) / len(right)


def _baselines(fit: _Rows) -> tuple[dict[str, Answerer], list[str]]:
    majority = Counter(
        answer for acceptable in fit.acceptable for answer in acceptable
    ).most_common(1)[0][0]
    baselines: dict[str, Answerer] = {"majority answer": lambda rows: [majority] * len(rows.inputs)}
    if any(fit.questions):
        baselines["question only"] = _by_part(fit, majority, lambda rows: rows.questions)
    baselines["first word"] = _by_part(
        fit, majority, lambda rows: [_word(t, 0) for t in rows.inputs]
    )
    baselines["last word"] = _by_part(
        fit, majority, lambda rows: [_word(t, -1) for t in rows.inputs]
    )
    notes = []
    answers = len(set(fit.official))
    if 2 <= answers <= min(MANY_ANSWERS, len(fit.inputs) // 2):
        baselines[BAG_OF_WORDS] = _bag_of_words(fit)
    else:
        notes.append(
            f"bag of words was left out: {answers:,} different answers in {len(fit.inputs):,} rows"
        )
    return baselines, notes


def _word(text: str, place: int) -> str:
    words = text.split()
    return words[place] if words else ""


def _by_part(fit: _Rows, majority: str, part: Callable[[_Rows], list[Any]]) -> Answerer:
    """Predict the most frequent answer for each value of a part of the input."""
    counted: dict[Any, Counter[str]] = defaultdict(Counter)
    for value, acceptable in zip(part(fit), fit.acceptable, strict=True):
        for answer in acceptable:
            counted[value][answer] += 1
    best = {
        value: min(counts.items(), key=lambda p: (-p[1], p[0]))[0]
        for value, counts in counted.items()
    }
    return lambda rows: [best.get(value, majority) for value in part(rows)]


def _bag_of_words(fit: _Rows) -> Answerer:
    """Predict by a logistic regression on word counts.

    The model is scikit-learn's, with the same loss, penalty and stopping. Importing that library
    takes more time than fitting.
    """
    from scipy.optimize import minimize

    # Words are not normalised, and short ones count too: in `c b A 3` every letter counts.
    met = Counter(word for text in fit.inputs for word in text.split())
    words = {word: place for place, (word, _) in enumerate(met.most_common(MOST_WORDS))}
    classes = sorted(set(fit.official))
    place_of = {answer: place for place, answer in enumerate(classes)}
    answers = np.array([place_of[answer] for answer in fit.official])
    rows = np.arange(len(answers))
    counts = _counts(fit.inputs, words)
    by_word = counts.T.tocsr()
    # With two classes, the first always scores 0.
    first = 1 if len(classes) == 2 else 0
    shape = (len(words) + 1, len(classes) - first)
    penalty = 1 / len(rows)

    def scores(counts: csr_array, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        free = counts @ weights[:-1] + weights[-1]
        return np.hstack([np.zeros((len(free), first)), free])

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = flat.reshape(shape)
        scored = scores(counts, weights)
        scored -= scored.max(axis=1, keepdims=True)
        exponentials = np.exp(scored)
        totals = exponentials.sum(axis=1, keepdims=True)
        cross_entropy = float((np.log(totals[:, 0]) - scored[rows, answers]).mean())
        errors = exponentials / totals
        errors[rows, answers] -= 1
        errors = errors[:, first:] / len(rows)
        slope = np.vstack([by_word @ errors + penalty * weights[:-1], errors.sum(axis=0)])
        return cross_entropy + penalty / 2 * float((weights[:-1] ** 2).sum()), slope.ravel()

    # Few iterations suffice for a baseline.
    options = {"maxiter": 60, "maxls": 50, "gtol": 1e-2, "ftol": 64 * np.finfo(float).eps}
    start = np.zeros(shape[0] * shape[1])
    fitted = minimize(loss, start, method="L-BFGS-B", jac=True, options=options).x.reshape(shape)

    def answer(rows: _Rows) -> list[str]:
        best = scores(_counts(rows.inputs, words), fitted).argmax(axis=1)
        return [classes[place] for place in best.tolist()]

    return answer


def _counts(texts: Sequence[str], words: Mapping[str, int]) -> csr_array:
    """Number of occurrences of each word in each text."""
    from scipy.sparse import csr_array

    places: list[int] = []
    ends = [0]
    for text in texts:
        places += [words[word] for word in text.split() if word in words]
        ends.append(len(places))
    counts = csr_array((np.ones(len(places)), places, ends), shape=(len(texts), len(words)))
    counts.sum_duplicates()
    return counts
