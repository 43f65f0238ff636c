"""The texts and numbers of a domain file, as types that pydantic checks: place-holders, names, words, enough values.

`domain.py` declares its fields with them, and says what each field means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt

from taskloom.core.errors import RecipeError, nearest
from taskloom.recipe.yaml_files import load

WORD_LISTS = Path(__file__).parents[1] / "word_lists.yaml"
"""Lists that several domains share, by name."""

MOST_COMBINED = 10_000
"""Values that `combine:` may stand for; every one becomes a part of the reader's patterns."""


@dataclass(frozen=True, slots=True)
class ClauseCheck:
    """Checks that a clause of a passage names each place-holder once, no other, and has no full stop."""

    needed: tuple[str, ...]

    def __call__(self, text: str) -> str:
        """Return the clause, or raise what is wrong with it."""
        _check_braces(text, self.needed)
        for holder in self.needed:
            if text.count(holder) != 1:
                raise ValueError(f"the clause {text!r} must contain {holder} exactly once")
        if re.search(r"\.( |$)", text):
            raise ValueError(f"the clause {text!r} has a full stop; sentences are made of clauses")
        return text


@dataclass(frozen=True, slots=True)
class QuestionCheck:
    """Checks that a question or a part of one names each place-holder, and no other."""

    needed: tuple[str, ...]

    def __call__(self, text: str) -> str:
        """Return the question, or raise what is wrong with it."""
        _check_braces(text, self.needed)
        for holder in self.needed:
            if holder not in text:
                raise ValueError(f"the question {text!r} must contain {holder}")
        return text


def _phrases(given: Any) -> Any:
    """Take one phrase for a list of one."""
    return [given] if isinstance(given, str) else given


def _check_braces(text: str, needed: tuple[str, ...]) -> None:
    if re.search(r"[{}]", re.sub("|".join(map(re.escape, needed)), "", text)):
        raise ValueError(f"{text!r} has a brace that is not part of {' or '.join(needed)}")


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", text):
        raise ValueError(
            "a name is one word of small letters, digits and _, since programs are written with it"
        )
    return text


def _word(text: str) -> str:
    if (
        re.search(r"\. |[|{}]", text)
        or text != text.strip()
        or text.lower() in ("yes", "no", "n/a")
    ):
        raise ValueError(
            f"{text!r} cannot be a value or a name: a reader could not tell where it ends, or what it says"
        )
    return text


def _words(given: Any) -> Any:
    """Expand the name of a shared list, or `combine: [[Ada, Bruno], [Ashdown, Farrow]]` (every pair, joined by a blank)."""
    if isinstance(given, str):
        shared = _shared_lists()
        if given not in shared:
            raise ValueError(
                f"there is no word list '{given}'; {nearest(given, shared)}, or write a list of words"
            )
        return shared[given]
    if isinstance(given, dict):
        lists = given.get("combine")
        if (
            set(given) != {"combine"}
            or not isinstance(lists, list)
            or not all(_is_words(words) for words in lists)
        ):
            raise ValueError(
                "write a list of words, the name of a word list, or combine: with lists of words"
            )
        if prod(map(len, lists)) > MOST_COMBINED:
            raise ValueError(
                f"combine: stands for more than {MOST_COMBINED:,} values; write shorter lists"
            )
        return [" ".join(words) for words in product(*lists)]
    return given


def _is_words(words: Any) -> bool:
    return isinstance(words, list) and bool(words) and all(isinstance(word, str) for word in words)


@cache
def _shared_lists() -> dict[str, list[str]]:
    return {name: _words(given) for name, given in load(WORD_LISTS, RecipeError).items()}


@dataclass(frozen=True, slots=True)
class CountCheck:
    """Checks that a list has some number of words, and none twice."""

    count: int

    def __call__(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return the words, or raise what is wrong with them."""
        if len(set(words)) < max(self.count, len(words)):
            raise ValueError(
                f"must have {self.count} values or more, and none twice: passages need that many"
            )
        return words


Filled = Annotated[str, Field(min_length=1)]
Phrases = Annotated[tuple[Filled, ...], BeforeValidator(_phrases), Field(min_length=1)]
"""Ways to say the same in a question; one may be written without a list."""
Name = Annotated[str, AfterValidator(_name)]
Word = Annotated[Filled, AfterValidator(_word)]
Words = Annotated[tuple[Word, ...], Field(min_length=1)]
Pair = Annotated[tuple[Word, ...], BeforeValidator(_words), AfterValidator(CountCheck(2))]
"""Values of which a passage may need another one, for a "no"."""
Five = Annotated[tuple[Word, ...], BeforeValidator(_words), AfterValidator(CountCheck(5))]
"""Values of which a passage may need five: three members, the one that is asked for, and one that is denied."""

OfEntity = Annotated[str, AfterValidator(ClauseCheck(("{E}",)))]
OfEntityValue = Annotated[str, AfterValidator(ClauseCheck(("{E}", "{V}")))]
OfEntityRecord = Annotated[str, AfterValidator(ClauseCheck(("{E}", "{N}")))]
OfRecord = Annotated[str, AfterValidator(ClauseCheck(("{N}",)))]
OfRecordValue = Annotated[str, AfterValidator(ClauseCheck(("{N}", "{V}")))]
OfValue = Annotated[str, AfterValidator(ClauseCheck(("{V}",)))]
OfOutcome = Annotated[str, AfterValidator(ClauseCheck(("{V}", "{W}")))]
Ask = Annotated[str, AfterValidator(QuestionCheck(("{this}",)))]
AskValue = Annotated[str, AfterValidator(QuestionCheck(("{this}", "{V}")))]
AskExtreme = Annotated[str, AfterValidator(QuestionCheck(("{X}",)))]
HasValue = Annotated[str, AfterValidator(QuestionCheck(("{V}",)))]

AtLeastOne = Field(min_length=1)
ValuePhrases = Annotated[tuple[HasValue, ...], BeforeValidator(_phrases), AtLeastOne]
"""Phrases with a place for the value."""
Verb = Literal["is", "was", "has", "does"]


def _no_bool(given: Any) -> Any:
    """Refuse true and false for numbers."""
    if isinstance(given, bool):
        raise ValueError(f"write a number, not {str(given).lower()}")
    return given


Whole = Annotated[StrictInt, BeforeValidator(_no_bool)]
"""A whole number; YAML reads an unquoted `yes` as true, which Python takes for 1."""
