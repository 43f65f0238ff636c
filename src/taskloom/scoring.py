"""Scorers that several suites share: typed objects that score a prediction and explain themselves to people.

A scorer is a frozen dataclass with `score(prediction, example) -> float` in [0, 1] and `explain(prediction, example)
-> str`. Its settings are its fields, so its `repr` rebuilds it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from taskloom.errors import TaskloomError, nearest
from taskloom.example import Example

_NUMBER_WORDS = [
    "none",
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
]
_NUMBERS: dict[str, int] = {word: max(0, i - 1) for i, word in enumerate(_NUMBER_WORDS)} | {"no": 0}
_TENS = {
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
    "twenty": 20,
}


ROUNDING = 1e-12
"""How far below a threshold a score still counts as equal to it: a mean of exactly 0.9 may come out as 0.8999999999999999."""


def competence_at(scores: Sequence[float], threshold: float, rounding: float = ROUNDING) -> float:
    """Return C@T, the share of tasks whose score is at least T percent.

    Args:
        scores: One score in [0, 1] per task; at least one.
        threshold: T, in percent. A score that equals it counts (Weller et al. 2020, section 2.3: competent if the metric >= c).
        rounding: How far below T a score still counts as equal; 0 compares floats as they are.

    >>> competence_at([0.9, 0.75, 0.5, 1.0], 90)
    0.5
    """
    border = threshold / 100 - rounding
    return sum(score >= border for score in scores) / len(scores)


@runtime_checkable
class Scorer(Protocol):
    """What every scorer can do."""

    @property
    def name(self) -> str:
        """The name that recipes and the command line use."""

    def score(self, prediction: str, example: Example) -> float:
        """How right the prediction is, from 0 to 1."""

    def explain(self, prediction: str, example: Example) -> str:
        """One sentence that says why."""


def tidy(text: str) -> str:
    """Text as answers are compared: one Unicode form, one case, single blanks, no full stop at the end."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).removesuffix(".").rstrip()


def items(text: str) -> list[str]:
    """The items of a list answer: separated by commas or semicolons, or by blanks where there are none."""
    pieces = re.split(r"[,;\n]|\band\b", text) if re.search(r"[,;\n]|\band\b", text) else text.split()
    return [t for t in (tidy(p) for p in pieces) if t]


def number(text: str) -> int | None:
    """The whole number that a text says, in digits or in English words up to ninety-nine; None if it says none."""
    word = tidy(text)
    if re.fullmatch(r"[-+]?\d+", word):
        return int(word)
    if word in _NUMBERS:
        return _NUMBERS[word]
    tens, _, unit = word.replace("-", " ").partition(" ")
    if tens in _TENS:
        if not unit:
            return _TENS[tens]
        rest = _NUMBERS.get(unit, 0)
        return _TENS[tens] + rest if 1 <= rest <= 9 else None
    return None


@dataclass(frozen=True, slots=True)
class Exact:
    """Right when the prediction is the official target, character by character (outer white space aside)."""

    name: str = "exact"

    def score(self, prediction: str, example: Example) -> float:
        """1 if equal to the official target, else 0."""
        return float(prediction.strip() == example.target.strip())

    def explain(self, prediction: str, example: Example) -> str:
        """Says what was wanted."""
        verdict = "equals" if self.score(prediction, example) else "is not"
        return f"'{prediction.strip()}' {verdict} the target '{example.target}'"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Right when the prediction is one of the acceptable targets, in any case and spacing."""

    name: str = "any-of"

    def score(self, prediction: str, example: Example) -> float:
        """1 if any target matches, else 0."""
        return float(tidy(prediction) in {tidy(t) for t in example.targets})

    def explain(self, prediction: str, example: Example) -> str:
        """Says how many answers would have been right."""
        verdict = "is among" if self.score(prediction, example) else "is not among"
        shown = ", ".join(example.targets[:5]) + (", …" if len(example.targets) > 5 else "")
        return f"'{prediction.strip()}' {verdict} the {len(example.targets)} acceptable answers ({shown})"


@dataclass(frozen=True, slots=True)
class SetOf:
    """Compares the items of a list in any order; a repeated item counts once. `partial` gives the F1 of the two sets."""

    name: str = "set"
    partial: bool = False

    def score(self, prediction: str, example: Example) -> float:
        """1 for equal sets; else 0, or the F1 overlap when `partial`. The best target counts."""
        said = set(items(prediction))
        return max(self._one(said, set(items(t))) for t in example.targets)

    def _one(self, said: set[str], wanted: set[str]) -> float:
        if said == wanted:
            return 1.0
        if not self.partial or not said or not wanted:
            return 0.0
        return 2 * len(said & wanted) / (len(said) + len(wanted))

    def explain(self, prediction: str, example: Example) -> str:
        """Names the missing and the superfluous items."""
        said, wanted = set(items(prediction)), set(items(example.target))
        missing, extra = sorted(wanted - said), sorted(said - wanted)
        if not missing and not extra:
            return f"all {len(wanted)} items, and no other"
        parts = [f"missing: {', '.join(missing)}"] if missing else []
        return "; ".join(parts + ([f"superfluous: {', '.join(extra)}"] if extra else []))


@dataclass(frozen=True, slots=True)
class PerPosition:
    """The share of positions at which the words agree; a missing or superfluous word is a wrong position."""

    name: str = "per-position"

    def score(self, prediction: str, example: Example) -> float:
        """Agreeing positions over the longer length; the best target counts."""
        said = tidy(prediction).split()
        return max(self._one(said, tidy(t).split()) for t in example.targets)

    def _one(self, said: list[str], wanted: list[str]) -> float:
        longest = max(len(said), len(wanted))
        return sum(a == b for a, b in zip(said, wanted, strict=False)) / longest if longest else 1.0

    def explain(self, prediction: str, example: Example) -> str:
        """Names the first position that differs."""
        said, wanted = tidy(prediction).split(), tidy(example.target).split()
        for i in range(max(len(said), len(wanted))):
            a = said[i] if i < len(said) else "nothing"
            b = wanted[i] if i < len(wanted) else "nothing"
            if a != b:
                return f"position {i + 1}: said {a}, wanted {b}"
        return f"all {len(wanted)} positions agree"


@dataclass(frozen=True, slots=True)
class NumberWord:
    """Right when both say the same number, in digits or words: 'two', '2' and 'Two.' are one answer; so are 'none' and '0'."""

    name: str = "number-words"

    def score(self, prediction: str, example: Example) -> float:
        """1 for the same number; texts that say no number are compared as text."""
        return float(any(self._same(prediction, t) for t in example.targets))

    def _same(self, said: str, wanted: str) -> bool:
        a, b = number(said), number(wanted)
        return a == b if a is not None and b is not None else tidy(said) == tidy(wanted)

    def explain(self, prediction: str, example: Example) -> str:
        """Says both numbers."""
        a, b = number(prediction), number(example.target)
        if a is None:
            return f"'{prediction.strip()}' says no number; wanted {b if b is not None else example.target}"
        return f"said {a}, wanted {b if b is not None else example.target}"


exact = Exact()
any_of = AnyOf()
set_of = SetOf()
per_position = PerPosition()
number_words = NumberWord()

SCORERS: dict[str, Scorer] = {
    s.name: s for s in (exact, any_of, set_of, SetOf("set-f1", partial=True), per_position, number_words)
}


S = TypeVar("S", bound=Scorer)


def register(made: S) -> S:
    """Make a suite's own scorer known by its name."""
    SCORERS[made.name] = made
    return made


def scorer(name: str) -> Scorer:
    """The scorer of that name."""
    if name not in SCORERS:
        raise TaskloomError(f"no scorer is called '{name}'; {nearest(name, SCORERS)}")
    return SCORERS[name]
