"""What a domain is made of: attributes of its entities, with the clauses that state them and the questions that ask for them.

A domain is one file in `domains/` that defines `DOMAIN`; nothing else needs an edit. The same clauses are the generator's
templates and the grammar of the independent reader, so a clause must say one thing and say it unmistakably.

Place-holders: `{E}` the entity (name, pronoun or "the park"), `{N}` a record's name, `{V}` the value, `{W}` what a rule
implies, `{this}` the entity in a question ("this national park"). Clauses have no full stop; the entity or record may stand
anywhere in them.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from taskloom.errors import RecipeError, nearest


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number with a unit: an area, a year, a price.

    Attributes:
        name: The name in programs, one word.
        low: Smallest value.
        high: Largest value.
        step: Values are multiples of it.
        unit: Written after the number; may be empty.
        says: Clauses that state it.
        asks: Questions for the value.
        more: Yes/no questions whether it is above {V}.
        less: The same below {V}, wording by wording as little changed as possible.
        commas: Whether thousands are grouped; years are not.
        kin: The attribute whose questions differ least, for semantic flips.
    """

    name: str
    low: int
    high: int
    step: int
    unit: str
    says: tuple[str, ...]
    asks: tuple[str, ...]
    more: tuple[str, ...] = ()
    less: tuple[str, ...] = ()
    commas: bool = True
    kin: str = ""

    def text(self, value: int) -> str:
        """The value as passages and answers write it."""
        number = f"{value:,}" if self.commas else str(value)
        return f"{number} {self.unit}" if self.unit else number

    def thresholds(self, many: int) -> list[int]:
        """Round values between the ends that yes/no questions compare with."""
        steps = (self.high - self.low) // self.step
        picked = {self.low + self.step * round(steps * (i + 1) / (many + 1)) for i in range(many)}
        return sorted(picked - {self.low, self.high})


@dataclass(frozen=True, slots=True)
class Text:
    """One of some words or names: a region, a founder, a colour. `confirm` asks whether it is {V}."""

    name: str
    values: tuple[str, ...]
    says: tuple[str, ...]
    asks: tuple[str, ...]
    confirm: tuple[str, ...] = ()
    kin: str = ""


@dataclass(frozen=True, slots=True)
class Members:
    """Several of some things: animals, tunes, trades. `denies` states that one is absent; `has` asks for one."""

    name: str
    values: tuple[str, ...]
    says: tuple[str, ...]
    denies: tuple[str, ...]
    asks: tuple[str, ...]
    has: tuple[str, ...] = ()
    kin: str = ""


@dataclass(frozen=True, slots=True)
class Flag:
    """Something that is so or not so, each with its clauses."""

    name: str
    yes: tuple[str, ...]
    no: tuple[str, ...]
    asks: tuple[str, ...]
    kin: str = ""


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a record: comparative and superlative forms make its questions.

    Attributes:
        more: After the verb, before a number: "Which trails are {more} 5 miles?".
        less: The same in the other direction.
        most: The superlative: "the {most} trail".
        least: The opposite one.
        how: Questions for the number, where {X} is the one that has the most or least: "How long is {X}?".
        column: Its key in structured answers.
        verb: is, was, has, or does: "Does any camp {more} 8 sites?" with more="have more than".
        each: How an output structure asks for it: "how many sites do they have"; by default "what is their {column}".
    """

    name: str
    low: int
    high: int
    step: int
    unit: str
    says: tuple[str, ...]
    more: str
    less: str
    most: str
    least: str
    how: tuple[str, ...]
    column: str
    verb: str = "is"
    each: str = ""

    def text(self, value: int) -> str:
        """The value as passages and answers write it."""
        return f"{value:,} {self.unit}" if self.unit else f"{value:,}"

    def thresholds(self, many: int) -> list[int]:
        """Round values between the ends that questions compare with."""
        steps = (self.high - self.low) // self.step
        picked = {self.low + self.step * round(steps * (i + 1) / (many + 1)) for i in range(many)}
        return sorted(picked - {self.low, self.high})


@dataclass(frozen=True, slots=True)
class Quality:
    """A property of a record: one of some values. `verb` and `being` make "Which trails are {being}?"; see `Measure`."""

    name: str
    values: tuple[str, ...]
    says: tuple[str, ...]
    being: str
    column: str
    verb: str = "is"
    each: str = ""


@dataclass(frozen=True, slots=True)
class Feature:
    """A record's yes or no: after its verb the two phrases are also its question forms; see `Measure`."""

    name: str
    yes: tuple[str, ...]
    no: tuple[str, ...]
    being: str
    not_being: str
    column: str
    verb: str = "is"
    each: str = ""


Field = Measure | Quality | Feature


@dataclass(frozen=True, slots=True)
class Records:
    """Things that belong to an entity and have names and fields of their own: trails, litters, laws, fairs.

    Attributes:
        name: One word, in programs.
        one: The noun, e.g. "trail".
        many: Its plural.
        where: How a question ties them to the entity: "in {this}".
        heads: First parts of names.
        tails: Last parts of names.
        says: Clauses that introduce {N} as belonging to {E}.
        column: The key of the name in structured answers.
        fields: What is said of each.
        asks: Questions for all of them, beside "What are the trails in this park?"; those of two records go in pairs.
    """

    name: str
    one: str
    many: str
    where: str
    heads: tuple[str, ...]
    tails: tuple[str, ...]
    says: tuple[str, ...]
    column: str
    fields: tuple[Field, ...]
    asks: tuple[str, ...] = ()

    def field(self, name: str) -> Field:
        """The field of that name."""
        return next(f for f in self.fields if f.name == name)


@dataclass(frozen=True, slots=True)
class Rule:
    """A general statement: whoever has {V} for `when` has `then`. Together with the fact about {V} it implies another one.

    When `then` is a flag, `yes` and `no` state the two outcomes; when it is a number or a text, `says` states the outcome {W}.
    """

    when: str
    then: str
    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()
    says: tuple[str, ...] = ()


Attribute = Number | Text | Members | Flag

PRONOUNS = {"it": ("it", "its"), "she": ("her", "her"), "he": ("him", "his"), "they": ("them", "their")}
"""Each pronoun as an object and as an owner."""


@dataclass(frozen=True)
class Domain:
    """A kind of entity, and all that passages may say and tasks may ask about it.

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
    """

    name: str
    noun: str
    short: str
    pronoun: str
    heads: tuple[str, ...]
    tails: tuple[str, ...]
    opens: tuple[str, ...]
    aside: str
    fillers: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    records: tuple[Records, ...]
    rules: tuple[Rule, ...] = ()
    article: str = ""

    @cached_property
    def by_name(self) -> dict[str, Attribute]:
        """Attributes by name."""
        return {a.name: a for a in self.attributes}

    @cached_property
    def records_by_name(self) -> dict[str, Records]:
        """Records by name."""
        return {r.name: r for r in self.records}

    @property
    def this(self) -> str:
        """The entity in a question."""
        return f"this {self.noun}"

    @property
    def objective(self) -> str:
        """The pronoun where it is not the subject."""
        return PRONOUNS[self.pronoun][0]

    @property
    def possessive(self) -> str:
        """The pronoun as an owner."""
        return PRONOUNS[self.pronoun][1]

    def named(self, name: str) -> str:
        """A name with its article."""
        return f"{self.article} {name}" if self.article else name


def words(text: str) -> tuple[str, ...]:
    """Words for a list of names: words("Alder Basalt Cinder")."""
    return tuple(text.split())


def full_name(head: str, tail: str) -> str:
    """A name of two parts; a tail that begins with a hyphen is part of the first word ("Ash" + "-borne Green")."""
    return head + tail[1:] if tail.startswith("-") else f"{head} {tail}"


def names() -> list[str]:
    """The domains of this package: one module each in `domains/`."""
    package = importlib.import_module("taskloom.suites.zest.synthetic.domains")
    return sorted(m.name for m in pkgutil.iter_modules(package.__path__))


_LOADED: dict[str, tuple[str, Domain, Path]] = {}
"""Domains from files that recipes name by path, with a digest of the file, so that the reader finds them by name again."""


def find(name: str) -> Domain:
    """The domain of that name, or of that file: a path that ends in .py."""
    if name.endswith(".py"):
        return load(Path(name))[1]
    if name in _LOADED:
        return _LOADED[name][1]
    if name not in names():
        raise RecipeError(
            f"there is no domain '{name}'; {nearest(name, names())}; your own is given by its file, ./castles.py"
        )
    found: Domain = importlib.import_module(f"taskloom.suites.zest.synthetic.domains.{name}").DOMAIN
    return found


def load(path: Path) -> tuple[str, Domain]:
    """Import and check a file that defines DOMAIN; returns the digest of its bytes, too."""
    from taskloom.suites.zest.synthetic.domain_check import faults

    if not path.is_file():
        raise RecipeError(f"there is no domain file {path} (seen from the folder {Path.cwd()})")
    digest = blake2b(path.read_bytes(), digest_size=16).hexdigest()
    for known, domain, _place in _LOADED.values():
        if known == digest:
            return known, domain
    spec = importlib.util.spec_from_file_location(f"taskloom_domain_{digest}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise RecipeError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, "DOMAIN", None)
    if not isinstance(found, Domain):
        raise RecipeError(f"{path} must define DOMAIN, a taskloom.suites.zest.synthetic.domain.Domain")
    place = path.resolve()
    # The same file may be edited and loaded again, in a notebook for example.
    if found.name in names() or (found.name in _LOADED and _LOADED[found.name][2] != place):
        raise RecipeError(f"{path}: the name '{found.name}' is taken by another domain; rename yours")
    try:
        wrong = faults(found)
    except Exception as error:  # a value of a wrong type, which Python lets pass until it is used
        raise RecipeError(
            f"{path}: DOMAIN cannot be used ({type(error).__name__}: {error}); compare its values with a built-in domain's"
        ) from error
    if wrong:
        raise RecipeError(f"{path}: {wrong[0]}" + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""))
    _LOADED[found.name] = digest, found, place
    return digest, found
