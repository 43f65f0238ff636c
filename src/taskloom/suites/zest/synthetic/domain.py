"""The parts of a domain: attributes of its entities, with the clauses that state them and the
questions that ask for them.

A domain is one YAML file (`../domains/parks.yaml`), which `domain_files.py` reads into these
dataclasses: pydantic checks a file against the types of their fields. The same clauses are the
generator's templates and the grammar of the independent reader, so a clause must say one thing and
say it unmistakably.

Place-holders: `{E}` the entity (name, pronoun or "the park"), `{N}` a record's name, `{V}` the
value, `{W}` what a rule implies, `{this}` the entity in a question ("this national park"). Clauses
have no full stop; the entity or record may stand anywhere in them.
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
# and a sufficient number of values.

WORD_LISTS = Path(__file__).parents[1] / "word_lists.yaml"
"""Lists that several domains share, by name."""

MOST_COMBINED = 10_000
"""Maximum number of values that `combine:` may expand to, because every one becomes part of the
reader's patterns.
"""


@dataclass(frozen=True, slots=True)
class ClauseCheck:
    """Checks that a clause of a passage names each place-holder once, no other, and has no full
    stop.
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
    """Checks that a question or a part of one names each place-holder, and no other."""

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
            f"{text!r} cannot be a value or a name: a reader could not tell where it ends, or what"
            " it says"
        )
    return text


def _unit(text: str) -> str:
    if re.search(r"\d", text):
        raise ValueError(f"{text!r} cannot be a unit: a reader could not tell it from its number")
    return text


Unit = Annotated[str, AfterValidator(_unit)]


def _words(given: Any) -> Any:
    """Expand the name of a shared list, or `combine: [[Ada, Bruno], [Ashdown, Farrow]]` (every
    pair, joined by a blank).
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
        """Validate a list of words."""
        if len(set(words)) < max(self.count, len(words)):
            raise ValueError(
                f"must have {self.count} values or more, and none twice: passages need that many"
            )
        return words


LARGEST = 10**15
"""Maximum number in a passage. Larger ranges have more values than Python can count."""

Filled = Annotated[str, Bound(min_length=1)]
Phrases = Annotated[tuple[Filled, ...], BeforeValidator(_phrases), Bound(min_length=1)]
"""Ways to say the same in a question; one may be written without a list."""
Name = Annotated[str, AfterValidator(_name)]
Word = Annotated[Filled, AfterValidator(_word)]
Words = Annotated[tuple[Word, ...], Bound(min_length=1)]
Pair = Annotated[tuple[Word, ...], BeforeValidator(_words), AfterValidator(CountCheck(2))]
"""Values of an attribute for which a passage may need a second one, to make an answer "no"."""
Five = Annotated[tuple[Word, ...], BeforeValidator(_words), AfterValidator(CountCheck(5))]
"""Values of an attribute for which a passage may need five: three members, the one in question, and
one that is denied.
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
"""Phrases with a place for the value."""
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
        low: Smallest value.
        high: Largest value.
        step: Distance between neighbouring values.
        says: Clauses that state it.
        asks: Questions for the value.
        unit: Written after the number; may be empty.
        more: Yes/no questions whether it is above {V}.
        less: The same below {V}, wording by wording as little changed as possible.
        commas: True to write thousands separators, as for all numbers except years.
        kin: The attribute whose questions differ least, for semantic flips.
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
        """Value as written in passages and answers."""
        number = f"{value:,}" if self.commas else str(value)
        return f"{number} {self.unit}" if self.unit else number

    def thresholds(self, count: int) -> list[int]:
        """Up to `count` evenly spaced values between the ends: thresholds of yes/no questions."""
        return _inner_values(self.low, self.high, self.step, count)


@dataclass(frozen=True, slots=True)
class Text:
    """One of some words or names: a region, a founder, a colour. `confirm` asks whether it is
    {V}.
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
    """Several items, such as animals, tunes or trades. `denies` states that one is absent; `has`
    asks for one.
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
    """A property that holds (`affirms`) or does not hold (`denies`)."""

    name: Name
    affirms: Annotated[tuple[OfEntity, ...], AtLeastOne]
    denies: Annotated[tuple[OfEntity, ...], AtLeastOne]
    asks: Annotated[tuple[Ask, ...], AtLeastOne]
    kin: str = ""
    type: Literal["flag"] = "flag"


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a record: comparative and superlative forms make its questions.

    Attributes:
        more: After the verb, before a number: "Which trails are {more} 5 miles?"; or with {V}:
            "more than {V} long".
        less: The same in the other direction, phrase by phrase.
        most: The superlative: "the {most} trail", or what follows the noun: "with the greatest
            length".
        least: The opposite one, phrase by phrase.
        how: Questions for the number, where {X} is the one that has the most or least: "How long is
            {X}?".
        column: Its key in structured answers.
        verb: is, was, has, or does: "Does any camp {more} 8 sites?" with more="have more than".
        each: How an output structure asks for it: "how many sites do they have"; by default "what
            is their {column}".
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
        """Value as written in passages and answers."""
        return f"{value:,} {self.unit}" if self.unit else f"{value:,}"

    def thresholds(self, count: int) -> list[int]:
        """Up to `count` evenly spaced values between the ends, as thresholds of questions."""
        return _inner_values(self.low, self.high, self.step, count)


def _inner_values(low: int, high: int, step: int, count: int) -> list[int]:
    steps = (high - low) // step
    values = {low + step * round(steps * (i + 1) / (count + 1)) for i in range(count)}
    return sorted(values - {low, high})


@dataclass(frozen=True, slots=True)
class Quality:
    """A property of a record: one of some values. `verb` and `being` make "Which trails are
    {being}?"; see `Measure`.
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
    """A record's yes or no: after its verb the two kinds of phrases are also its question forms;
    see `Measure` and `Flag`.
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
    """Checks that steps reach the largest value, and that there are enough values."""

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
                f"steps of {part.step} from {part.low} do not reach {part.high}; end at a value"
                " that they reach"
            )
        return part


Field = Measure | Quality | Feature

# The key `type` in a file selects one of them. Three records in a passage need three different
# values of a measure.
_AnyField = Annotated[
    Annotated[Measure, AfterValidator(StepsCheck(3))] | Quality | Feature,
    Discriminator("type"),
]


@dataclass(frozen=True, slots=True)
class Records:
    """Things that belong to an entity and have names and fields of their own: trails, litters,
    laws, fairs.

    Attributes:
        name: One word, in programs.
        one: The noun, e.g. "trail".
        many: Its plural.
        where: How a question ties them to the entity: "in {this}".
        heads: First parts of names.
        tails: Last parts of names.
        says: Clauses that introduce {N} as belonging to {E}.
        column: The key of the name in structured answers.
        fields: What is stated about each.
        asks: Questions for all of them, beside "What are the trails in this park?"; those of two
            records go in pairs.
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
    """A general statement: every entity with the value {V} of `when` has `then`. Together with the
    fact about {V} it implies another fact.

    When `then` is a flag, `affirms` and `denies` state the two outcomes; when it is a number or a
    text, `says` states the outcome {W}.
    """

    when: Filled
    then: Filled
    affirms: tuple[OfValue, ...] = ()
    denies: tuple[OfValue, ...] = ()
    says: tuple[OfOutcome, ...] = ()


Attribute = Number | Text | Members | Flag

# A number needs another value, for a "no".
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
"""Each pronoun as an object and as an owner."""

VERBS = {
    "is": ("is", "are"),
    "was": ("was", "were"),
    "has": ("has", "have"),
    "does": ("does", "do"),
}
"""Verbs of questions about fields, for one record and for several."""

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
"""Openers that may precede a sentence of any domain without changing its meaning."""


@dataclass(frozen=True)
class Domain:
    """A kind of entity, and everything that passages may state and tasks may ask about it.

    Attributes:
        name: The trait `domain`.
        noun: "national park": questions say "this national park", passages "the park" by `short`.
        short: The noun that passages use for an entity already named.
        pronoun: it, she, he or they (with singular verbs only "it", "she", "he" are right).
        heads: First parts of entity names.
        tails: Last parts.
        opens: Clauses that introduce the entity without a fact about it.
        aside: What may follow another entity's name, e.g. "another park of the same district".
        fillers: Whole sentences without any fact.
        attributes: What is known of entities.
        records: What belongs to them.
        rules: General statements.
        article: What stands before names in a sentence: "the" for dog breeds, nothing for towns.
        openers: What may stand before a sentence without changing it: "A leaflet of [1950..2019]
            says that".
        closers: What may follow one: ", as a survey of [1950..2019] confirms".

    In opens, fillers, openers and closers `[two|three]` stands for one of some words, and
    `[10..90]` for a number.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # also for the parts inside

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
        """Cached wordings of programs: a draw asks for those of the same few hundred programs
        thousands of times.
        """
        return {}

    @property
    def this(self) -> str:
        """The entity as named in a question."""
        return f"this {self.noun}"

    @property
    def objective(self) -> str:
        """Pronoun as an object."""
        return PRONOUNS[self.pronoun][0]

    @property
    def possessive(self) -> str:
        """Pronoun as an owner."""
        return PRONOUNS[self.pronoun][1]

    @property
    def relative(self) -> str:
        """Relative pronoun for the entities."""
        return "which" if self.pronoun == "it" else "who"

    def named(self, name: str) -> str:
        """Put the article in front of a name."""
        return f"{self.article} {name}" if self.article else name


def full_name(head: str, tail: str) -> str:
    """Join the two parts of a name; a tail that begins with a hyphen is part of the first word
    ("Ash" + "-borne Green").
    """
    return head + tail[1:] if tail.startswith("-") else f"{head} {tail}"
