"""The YAML form of a domain, as pydantic models: known keys, types, place-holders, enough values.

Each form becomes the dataclass of `domain.py` that `PARTS` names; the dataclass says what each key means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, model_validator

from taskloom.core.errors import RecipeError, nearest
from taskloom.recipe import Fields
from taskloom.recipe.yaml_files import load
from taskloom.suites.zest.synthetic import domain as parts

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
        raise ValueError("a name is one word of small letters, digits and _, since programs are written with it")
    return text


def _word(text: str) -> str:
    if re.search(r"\. |[|{}]", text) or text != text.strip() or text.lower() in ("yes", "no", "n/a"):
        raise ValueError(
            f"{text!r} cannot be a value or a name: a reader could not tell where it ends, or what it says"
        )
    return text


def _words(given: Any) -> Any:
    """Expand the name of a shared list, or `combine: [[Ada, Bruno], [Ashdown, Farrow]]` (every pair, joined by a blank)."""
    if isinstance(given, str):
        shared = _shared_lists()
        if given not in shared:
            raise ValueError(f"there is no word list '{given}'; {nearest(given, shared)}, or write a list of words")
        return shared[given]
    if isinstance(given, dict):
        lists = given.get("combine")
        if set(given) != {"combine"} or not isinstance(lists, list) or not all(_is_words(words) for words in lists):
            raise ValueError("write a list of words, the name of a word list, or combine: with lists of words")
        if prod(map(len, lists)) > MOST_COMBINED:
            raise ValueError(f"combine: stands for more than {MOST_COMBINED:,} values; write shorter lists")
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
            raise ValueError(f"must have {self.count} values or more, and none twice: passages need that many")
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
Verb = Literal["is", "was", "has", "does"]


class _Steps(Fields):
    """Values from `low` to `high` in steps."""

    low: StrictInt = Field(ge=0, description="passages have no negative numbers")
    high: StrictInt
    step: Annotated[StrictInt, Field(ge=1)]
    unit: str = ""

    def _check_steps(self, least: int) -> None:
        if len(range(self.low, self.high + 1, self.step)) < least:
            raise ValueError(
                f"there are fewer than {least} values from {self.low} to {self.high} in steps of {self.step}"
            )
        if (self.high - self.low) % self.step:
            raise ValueError(
                f"steps of {self.step} from {self.low} do not reach {self.high}; end at a value that they reach"
            )


class NumberForm(_Steps):
    """A `domain.Number` in a file."""

    type: Literal["number"]
    name: Name
    says: tuple[OfEntityValue, ...] = AtLeastOne
    asks: tuple[Ask, ...] = AtLeastOne
    more: tuple[AskValue, ...] = ()
    less: tuple[AskValue, ...] = ()
    commas: StrictBool = True
    kin: str = ""

    @model_validator(mode="after")
    def _enough(self) -> NumberForm:
        self._check_steps(2)  # another value, for a "no"
        return self


class TextForm(Fields):
    """A `domain.Text` in a file."""

    type: Literal["text"]
    name: Name
    values: Pair
    says: tuple[OfEntityValue, ...] = AtLeastOne
    asks: tuple[Ask, ...] = AtLeastOne
    confirm: tuple[AskValue, ...] = ()
    kin: str = ""


class MembersForm(Fields):
    """A `domain.Members` in a file."""

    type: Literal["members"]
    name: Name
    values: Five
    says: tuple[OfEntityValue, ...] = AtLeastOne
    denies: tuple[OfEntityValue, ...] = AtLeastOne
    asks: tuple[Ask, ...] = AtLeastOne
    has: tuple[AskValue, ...] = ()
    kin: str = ""


class FlagForm(Fields):
    """A `domain.Flag` in a file."""

    type: Literal["flag"]
    name: Name
    affirms: tuple[OfEntity, ...] = AtLeastOne
    denies: tuple[OfEntity, ...] = AtLeastOne
    asks: tuple[Ask, ...] = AtLeastOne
    kin: str = ""


class MeasureForm(_Steps):
    """A `domain.Measure` in a file."""

    type: Literal["measure"]
    name: Name
    says: tuple[OfRecordValue, ...] = AtLeastOne
    more: Phrases
    less: Phrases
    most: Phrases
    least: Phrases
    how: tuple[AskExtreme, ...] = AtLeastOne
    column: Filled
    verb: Verb = "is"
    each: str = ""

    @model_validator(mode="after")
    def _enough(self) -> MeasureForm:
        self._check_steps(3)  # three records of a passage differ
        return self


class QualityForm(Fields):
    """A `domain.Quality` in a file."""

    type: Literal["quality"]
    name: Name
    values: Pair
    says: tuple[OfRecordValue, ...] = AtLeastOne
    being: Annotated[tuple[HasValue, ...], BeforeValidator(_phrases), AtLeastOne]
    column: Filled
    verb: Verb = "is"
    each: str = ""


class FeatureForm(Fields):
    """A `domain.Feature` in a file."""

    type: Literal["feature"]
    name: Name
    affirms: tuple[OfRecord, ...] = AtLeastOne
    denies: tuple[OfRecord, ...] = AtLeastOne
    being: Phrases
    not_being: Phrases
    column: Filled
    verb: Verb = "is"
    each: str = ""


class RecordsForm(Fields):
    """A `domain.Records` in a file."""

    name: Name
    one: Filled
    many: Filled
    where: Ask
    heads: Words
    tails: Words
    says: tuple[OfEntityRecord, ...] = AtLeastOne
    column: Filled
    fields: tuple[Annotated[MeasureForm | QualityForm | FeatureForm, Field(discriminator="type")], ...] = AtLeastOne
    asks: tuple[Ask, ...] = ()


class RuleForm(Fields):
    """A `domain.Rule` in a file."""

    when: Filled
    then: Filled
    affirms: tuple[OfValue, ...] = ()
    denies: tuple[OfValue, ...] = ()
    says: tuple[OfOutcome, ...] = ()


class DomainForm(Fields):
    """A `domain.Domain` in a file."""

    name: Name
    noun: Filled
    short: Filled
    pronoun: Literal["it", "she", "he", "they"]
    heads: Words
    tails: Words
    opens: tuple[OfEntity, ...] = AtLeastOne
    aside: Phrases
    fillers: tuple[Filled, ...] = AtLeastOne
    attributes: tuple[Annotated[NumberForm | TextForm | MembersForm | FlagForm, Field(discriminator="type")], ...] = ()
    records: tuple[RecordsForm, ...] = ()
    rules: tuple[RuleForm, ...] = ()
    article: str = ""
    openers: tuple[Filled, ...] = ()
    closers: tuple[Filled, ...] = ()


PARTS: dict[type[Fields], type] = {
    NumberForm: parts.Number,
    TextForm: parts.Text,
    MembersForm: parts.Members,
    FlagForm: parts.Flag,
    MeasureForm: parts.Measure,
    QualityForm: parts.Quality,
    FeatureForm: parts.Feature,
    RecordsForm: parts.Records,
    RuleForm: parts.Rule,
    DomainForm: parts.Domain,
}
"""Each form, and the dataclass that it becomes."""

TYPES: dict[str, type[Fields]] = {
    "number": NumberForm,
    "text": TextForm,
    "members": MembersForm,
    "flag": FlagForm,
    "measure": MeasureForm,
    "quality": QualityForm,
    "feature": FeatureForm,
}
"""The forms that a part chooses by its key `type`: four of attributes, three of a record's fields."""
