"""The parts of a domain: attributes of its entities, with clauses that state them and questions
that ask for them.

A domain is a YAML file (`../domains/parks.yaml`), which `domain_files.py` reads into these
dataclasses. Pydantic checks the file against the types of their fields. The same clauses are the
generator's templates and the grammar of the independent reader, so a clause must state one thing
unambiguously.

Placeholders: `{E}` is the entity (name, pronoun or "the park"), `{N}` a record's name, `{V}` the
value, `{W}` the outcome of a rule, `{this}` the entity in a question ("this national park").
Clauses have no full stop. The entity or record may appear anywhere in them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    StrictBool,
    StrictInt,
)
from pydantic import Field as Bound

from taskloom.core.errors import RecipeError, nearest
from taskloom.recipe.yaml_files import load

# Types of the texts and numbers in a domain file, which pydantic checks: placeholders, names, words
# and sufficient numbers of values

WORD_LISTS = Path(__file__).parents[1] / "word_lists.yaml"
"""Lists that several domains share, by name."""

MOST_COMBINED = 10_000
"""Maximum number of values that `combine:` may expand to, because each value becomes part of the
reader's patterns.
"""


@dataclass(frozen=True, slots=True)
class ClauseCheck:
    """Checks that a clause of a passage contains each placeholder once and no others, and has no
    full stop.
    """

    needed: tuple[str, ...]

    def __call__(self, text: str) -> str:
        """Validate a clause."""
        _check_braces(text, self.needed)
        for holder in self.needed:
            if text.count(holder) != 1:
                raise ValueError(f"the clause {text!r} must contain {holder} exactly once")
        if re.search(r"\.( |$)", text):
            raise ValueError(f"the clause {text!r} has a full stop; sentences are made of clauses")
        return text


@dataclass(frozen=True, slots=True)
class QuestionCheck:
    """Checks that a question, or part of one, contains each placeholder and no others."""

    needed: tuple[str, ...]

    def __call__(self, text: str) -> str:
        """Validate a question."""
        _check_braces(text, self.needed)
        for holder in self.needed:
            if holder not in text:
                raise ValueError(f"the question {text!r} must contain {holder}")
        return text


def _phrases(given: Any) -> Any:
    """Wrap a single phrase in a list."""
    return [given] if isinstance(given, str) else given


def _check_braces(text: str, needed: tuple[str, ...]) -> None:
    if re.search(r"[{}]", re.sub("|".join(map(re.escape, needed)), "", text)):
        raise ValueError(f"{text!r} has a brace that is not part of {' or '.join(needed)}")


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", text):
        raise ValueError(
            "a name must be one word of lower-case letters, digits and _, because programs use it"
        )
    return text


def _word(text: str) -> str:
    if (
        re.search(r"\. |[|{}]", text)
        or text != text.strip()
        or text.lower() in ("yes", "no", "n/a")
    ):
        raise ValueError(
            f"{text!r} cannot be a value or a name, because a reader could not tell where it ends "
            "or what it means"
        )
    return text


def _unit(text: str) -> str:
    if re.search(r"\d", text):
        raise ValueError(
            f"{text!r} cannot be a unit, because a reader could not separate it from its number"
        )
    return text


Unit = Annotated[str, AfterValidator(_unit)]


def _words(given: Any) -> Any:
    """Expand the name of a shared list, or `combine: [[Ada, Bruno], [Ashdown, Farrow]]`, which
    joins every pair by a space.
    """
    if isinstance(given, str):
        shared = _shared_lists()
        if given not in shared:
            raise ValueError(
                f"there is no word list '{given}'; {nearest(given, shared)}, or write a list of"
                " words"
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
                f"combine: expands to more than {MOST_COMBINED:,} values; write shorter lists"
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
    """Checks that a list has enough words and no duplicates."""

    count: int

    def __call__(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Validate a list of words."""
        if len(set(words)) < max(self.count, len(words)):
            raise ValueError(
                f"must have at least {self.count} values without duplicates, because passages "
                "need that many"
            )
        return words


LARGEST = 10**15
"""Maximum number in a passage. Python cannot count the values of larger ranges."""

Filled = Annotated[str, Bound(min_length=1)]
Phrases = Annotated[tuple[Filled, ...], BeforeValidator(_phrases), Bound(min_length=1)]
"""Alternative phrases for a question. A single phrase may be written without a list."""
Name = Annotated[str, AfterValidator(_name)]
Word = Annotated[Filled, AfterValidator(_word)]
Words = Annotated[tuple[Word, ...], Bound(min_length=1)]
Pair = Annotated[tuple[Word, ...], BeforeValidator(_words), AfterValidator(CountCheck(2))]
"""Values of an attribute for which a passage may need a second value, to make an answer "no"."""
Five = Annotated[tuple[Word, ...], BeforeValidator(_words), AfterValidator(CountCheck(5))]
"""Values of an attribute for which a passage may need five values: three members, the one asked
for, and one that is denied.
"""

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

AtLeastOne = Bound(min_length=1)
ValuePhrases = Annotated[tuple[HasValue, ...], BeforeValidator(_phrases), AtLeastOne]
"""Phrases with a placeholder for the value."""
Verb = Literal["is", "was", "has", "does"]


def _no_bool(given: Any) -> Any:
    """Reject booleans for numbers."""
    if isinstance(given, bool):
        raise ValueError(f"write a number, not {str(given).lower()}")
    return given


Whole = Annotated[StrictInt, BeforeValidator(_no_bool)]
"""An integer. YAML reads an unquoted `yes` as true, which Python would accept as 1."""


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number with a unit: an area, a year, a price.

    Attributes:
        name: The name in programs, one word.
        low: Minimum value.
        high: Maximum value.
        step: Difference between adjacent values.
        says: Clauses that state the value.
        asks: Questions for the value.
        unit: Unit written after the number; may be empty.
        more: Yes/no questions whether the value is above {V}.
        less: The corresponding questions for values below {V}, each as similar as possible to the
            one in `more`.
        commas: True to write thousands separators, as for all numbers except years.
        kin: The attribute with the most similar questions, for semantic flips.
    """

    name: Name
    low: Annotated[Whole, Bound(ge=0)]
    high: Annotated[Whole, Bound(le=LARGEST)]
    step: Annotated[Whole, Bound(ge=1)]
    says: Annotated[tuple[OfEntityValue, ...], AtLeastOne]
    asks: Annotated[tuple[Ask, ...], AtLeastOne]
    unit: Unit = ""
    more: tuple[AskValue, ...] = ()
    less: tuple[AskValue, ...] = ()
    commas: StrictBool = True
    kin: str = ""
    type: Literal["number"] = "number"

    def text(self, value: int) -> str:
        """Format a value as in passages and answers."""
        number = f"{value:,}" if self.commas else str(value)
        return f"{number} {self.unit}" if self.unit else number

    def thresholds(self, count: int) -> list[int]:
        """Return up to `count` evenly spaced values between the ends, as thresholds for yes/no
        questions.
        """
        return _inner_values(self.low, self.high, self.step, count)


@dataclass(frozen=True, slots=True)
class Text:
    """A word or name from a list, such as a region, a founder or a colour. `confirm` asks whether
    it is {V}.
    """

    name: Name
    values: Pair
    says: Annotated[tuple[OfEntityValue, ...], AtLeastOne]
    asks: Annotated[tuple[Ask, ...], AtLeastOne]
    confirm: tuple[AskValue, ...] = ()
    kin: str = ""
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Members:
    """Several items, such as animals, tunes or trades. `denies` states that one is absent, and
    `has` asks for one.
    """

    name: Name
    values: Five
    says: Annotated[tuple[OfEntityValue, ...], AtLeastOne]
    denies: Annotated[tuple[OfEntityValue, ...], AtLeastOne]
    asks: Annotated[tuple[Ask, ...], AtLeastOne]
    has: tuple[AskValue, ...] = ()
    kin: str = ""
    type: Literal["members"] = "members"


@dataclass(frozen=True, slots=True)
class Flag:
    """A property that is true (`affirms`) or false (`denies`)."""

    name: Name
    affirms: Annotated[tuple[OfEntity, ...], AtLeastOne]
    denies: Annotated[tuple[OfEntity, ...], AtLeastOne]
    asks: Annotated[tuple[Ask, ...], AtLeastOne]
    kin: str = ""
    type: Literal["flag"] = "flag"


@dataclass(frozen=True, slots=True)
class Measure:
    """A number that belongs to a record. Its questions use comparative and superlative forms.

    Attributes:
        more: Comparative between the verb and a number, as in "Which trails are {more} 5 miles?",
            or with {V}, as in "more than {V} long".
        less: Comparatives for the opposite direction, in the same order.
        most: Superlative, as in "the {most} trail", or a phrase after the noun, such as "with the
            greatest length".
        least: Superlatives for the opposite direction, in the same order.
        how: Questions for the number, where {X} is the record with the highest or lowest value, as
            in "How long is {X}?".
        column: Key of the value in structured answers.
        verb: is, was, has or does, as in "Does any camp {more} 8 sites?" with more="have more
            than".
        each: How an output structure asks for the value, such as "how many sites do they have".
            Default: "what is their {column}".
    """

    name: Name
    low: Annotated[Whole, Bound(ge=0)]
    high: Annotated[Whole, Bound(le=LARGEST)]
    step: Annotated[Whole, Bound(ge=1)]
    says: Annotated[tuple[OfRecordValue, ...], AtLeastOne]
    more: Phrases
    less: Phrases
    most: Phrases
    least: Phrases
    how: Annotated[tuple[AskExtreme, ...], AtLeastOne]
    column: Filled
    unit: Unit = ""
    verb: Verb = "is"
    each: str = ""
    type: Literal["measure"] = "measure"

    def text(self, value: int) -> str:
        """Format a value as in passages and answers."""
        return f"{value:,} {self.unit}" if self.unit else f"{value:,}"

    def thresholds(self, count: int) -> list[int]:
        """Return up to `count` evenly spaced values between the ends, as thresholds for
        questions.
        """
        return _inner_values(self.low, self.high, self.step, count)


def _inner_values(low: int, high: int, step: int, count: int) -> list[int]:
    steps = (high - low) // step
    values = {low + step * round(steps * (i + 1) / (count + 1)) for i in range(count)}
    return sorted(values - {low, high})


@dataclass(frozen=True, slots=True)
class Quality:
    """A property of a record with one of several values. `verb` and `being` form questions such as
    "Which trails are {being}?"; see `Measure`.
    """

    name: Name
    values: Pair
    says: Annotated[tuple[OfRecordValue, ...], AtLeastOne]
    being: ValuePhrases
    column: Filled
    verb: Verb = "is"
    each: str = ""
    type: Literal["quality"] = "quality"


@dataclass(frozen=True, slots=True)
class Feature:
    """A yes/no property of a record. Its phrases are also its question forms after the verb; see
    `Measure` and `Flag`.
    """

    name: Name
    affirms: Annotated[tuple[OfRecord, ...], AtLeastOne]
    denies: Annotated[tuple[OfRecord, ...], AtLeastOne]
    being: Phrases
    not_being: Phrases
    column: Filled
    verb: Verb = "is"
    each: str = ""
    type: Literal["feature"] = "feature"


N = TypeVar("N", Number, Measure)


@dataclass(frozen=True, slots=True)
class StepsCheck:
    """Checks that steps reach the maximum value, and that there are enough values."""

    least: int

    def __call__(self, part: N) -> N:
        """Validate a number or measure."""
        if len(range(part.low, part.high + 1, part.step)) < self.least:
            raise ValueError(
                f"there are fewer than {self.least} values from {part.low} to {part.high} in steps"
                f" of {part.step}"
            )
        if (part.high - part.low) % part.step:
            raise ValueError(
                f"steps of {part.step} from {part.low} do not reach {part.high}; choose an end "
                "that they reach"
            )
        return part


Field = Measure | Quality | Feature

# In a file, the key `type` selects one of these. Three records in a passage need three distinct
# values of a measure.
_AnyField = Annotated[
    Annotated[Measure, AfterValidator(StepsCheck(3))] | Quality | Feature,
    Discriminator("type"),
]


@dataclass(frozen=True, slots=True)
class Records:
    """Things that belong to an entity and have their own names and fields, such as trails, litters,
    laws or fairs.

    Attributes:
        name: The name in programs, one word.
        one: The noun, e.g. "trail".
        many: The plural noun.
        where: How a question relates the records to the entity, such as "in {this}".
        heads: First parts of the records' names.
        tails: Last parts of the records' names.
        says: Clauses that introduce {N} as belonging to {E}.
        column: The key of the name in structured answers.
        fields: Fields that each record has.
        asks: Questions for all records, in addition to "What are the trails in this park?". Two
            kinds of records whose tasks are flips of each other need the same number of questions.
    """

    name: Name
    one: Filled
    many: Filled
    where: Ask
    heads: Words
    tails: Words
    says: Annotated[tuple[OfEntityRecord, ...], AtLeastOne]
    column: Filled
    fields: Annotated[tuple[_AnyField, ...], AtLeastOne]
    asks: tuple[Ask, ...] = ()

    def field(self, name: str) -> Field:
        """The field with this name."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Rule:
    """A general statement: every entity whose attribute `when` has the value {V} also has `then`.
    Together with the fact about {V} it implies another fact.

    If `then` is a flag, `affirms` and `denies` state its two outcomes. If it is a number or a text,
    `says` states the outcome {W}.
    """

    when: Filled
    then: Filled
    affirms: tuple[OfValue, ...] = ()
    denies: tuple[OfValue, ...] = ()
    says: tuple[OfOutcome, ...] = ()


Attribute = Number | Text | Members | Flag

# A number must have a second value, so that an answer can be "no".
_AnyAttribute = Annotated[
    Annotated[Number, AfterValidator(StepsCheck(2))] | Text | Members | Flag,
    Discriminator("type"),
]

Pronoun = Literal["it", "she", "he", "they"]
PRONOUNS = {
    "it": ("it", "its"),
    "she": ("her", "her"),
    "he": ("him", "his"),
    "they": ("them", "their"),
}
"""Objective and possessive form of each pronoun."""

VERBS = {
    "is": ("is", "are"),
    "was": ("was", "were"),
    "has": ("has", "have"),
    "does": ("does", "do"),
}
"""Singular and plural of the verbs in questions about fields."""

OPENERS = (
    "By all accounts, ",
    "According to the handbook, ",
    "As the records show, ",
    "It is well known that ",
    "In addition, ",
    "Moreover, ",
    "Besides, ",
    "Notably, ",
    "Furthermore, ",
    "What is more, ",
    "Beyond that, ",
    "As it happens, ",
    "By common consent, ",
    "According to the archive, ",
    "According to most sources, ",
    "As guidebooks point out, ",
    "As is often mentioned, ",
    "As local papers have reported, ",
    "It should be added that ",
    "It is worth knowing that ",
    "One should also know that ",
)
"""Openers that can precede a sentence of any domain without changing its meaning."""


@dataclass(frozen=True)
class Domain:
    """A kind of entity, with everything that passages may state and tasks may ask about it.

    Attributes:
        name: Name of the domain, which is also the trait `domain`.
        noun: Noun for the entity in questions, such as "national park" in "this national park".
        short: Noun for an entity that a passage has already named, such as "park".
        pronoun: it, she, he or they. Verbs are singular, so only it, she and he are grammatical.
        heads: First parts of entity names.
        tails: Last parts of entity names.
        opens: Clauses that introduce the entity without a fact about it.
        aside: Apposition after another entity's name, such as "another park of the same district".
        fillers: Whole sentences that state no fact.
        attributes: Attributes of the entities.
        records: Kinds of records that belong to entities.
        rules: General statements.
        article: Article before names in a sentence: "the" for dog breeds, nothing for towns.
        openers: Phrases that can precede a sentence without changing its meaning, such as "A
            leaflet of [1950..2019] says that".
        closers: Phrases that can follow a sentence, such as ", as a survey of [1950..2019]
            confirms".

    In opens, fillers, openers and closers, `[two|three]` is replaced by one of the words, and
    `[10..90]` by a number in this range.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # applies to nested parts, too

    name: Name
    noun: Filled
    short: Filled
    pronoun: Pronoun
    heads: Words
    tails: Words
    opens: Annotated[tuple[OfEntity, ...], AtLeastOne]
    aside: Phrases
    fillers: Annotated[tuple[Filled, ...], AtLeastOne]
    attributes: tuple[_AnyAttribute, ...] = ()
    records: tuple[Records, ...] = ()
    rules: tuple[Rule, ...] = ()
    article: str = ""
    openers: tuple[Filled, ...] = ()
    closers: tuple[Filled, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Attribute]:
        """Attributes by name."""
        return {a.name: a for a in self.attributes}

    @cached_property
    def records_by_name(self) -> dict[str, Records]:
        """Records by name."""
        return {r.name: r for r in self.records}

    @cached_property
    def atoms(self) -> frozenset[str]:
        """Names that programs may use: attributes, records and their fields."""
        return frozenset(
            {
                *self.by_name,
                *self.records_by_name,
                *(f.name for r in self.records for f in r.fields),
            }
        )

    @cached_property
    def worded(self) -> dict[object, list[list[str]]]:
        """Cached wordings of programs. A draw needs those of the same few hundred programs
        thousands of times.
        """
        return {}

    @property
    def this(self) -> str:
        """The entity as named in a question."""
        return f"this {self.noun}"

    @property
    def objective(self) -> str:
        """Objective form of the pronoun."""
        return PRONOUNS[self.pronoun][0]

    @property
    def possessive(self) -> str:
        """Possessive form of the pronoun."""
        return PRONOUNS[self.pronoun][1]

    @property
    def relative(self) -> str:
        """Relative pronoun for the entities."""
        return "which" if self.pronoun == "it" else "who"

    def named(self, name: str) -> str:
        """Put the article in front of a name."""
        return f"{self.article} {name}" if self.article else name


def full_name(head: str, tail: str) -> str:
    """Join the two parts of a name. A tail that begins with a hyphen is joined without a space
    ("Ash" + "-borne Green").
    """
    return head + tail[1:] if tail.startswith("-") else f"{head} {tail}"
