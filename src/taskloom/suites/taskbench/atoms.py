"""Atoms: the functions that the language knows by name, with their types, families and English
phrases.

A new atom is a function with a decorator:

    @atom("initial[eng]", one="the first letter of {x}")
    def initial(word: str) -> set[str]:
        return {word[0]}

A function that returns `bool` is a predicate. Any other function is a relation from a text to a set
of texts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, get_type_hints

from taskloom.core.errors import TaskloomError
from taskloom.suites.taskbench.language.types import Type

F = TypeVar("F", bound=Callable[[str], Any])

LANGUAGES = {"eng": "English", "spa": "Spanish"}


@dataclass(frozen=True, slots=True)
class Known:
    """Everything known about an atom before any world is loaded.

    Attributes:
        name: Its name in our notation.
        type: Types of its input and output.
        family: `lexical`, `random`, `factual`, or `own` for atoms added by users.
        one: English for one value, with {x} for the argument: "an antonym of {x}". For predicates a
            verb phrase: "can be a noun".
        many: English for all values: "the antonyms of {x}". For predicates the negation: "cannot be
            a noun".
        define: One sentence that explains it to a reader unfamiliar with the term.
        paper: Its name in the paper.
        reference: Its name in the reference's notation.
        fact: For factual predicates, the relation and the value (a Wikidata id).
        wikidata: For factual relations, the Wikidata property.
        function: For added atoms, the function.
    """

    name: str
    type: Type
    family: str
    one: str
    many: str
    define: str = ""
    paper: str = ""
    reference: str = ""
    fact: tuple[str, str] | None = None
    wikidata: str = ""
    function: Callable[[str], Any] | None = None


_ADDED: dict[str, Known] = {}


def atom(
    name: str, *, one: str, many: str = "", define: str = "", gives: str = ""
) -> Callable[[F], F]:
    """Register a function from a text to a set of texts (or to a truth value) as an atom.

    Args:
        name: Name of the atom, with the language of its input in brackets: `rhymes[eng]`,
            `initial[eng->spa]`. Without brackets, the input is the label of an entity.
        one: English for one value, with {x} for the argument; for predicates a verb phrase ("is
            short").
        many: English for all values; for predicates the negation ("is not short").
        define: One sentence that explains it.
        gives: Kind of its values, if it is not in the brackets: `word[eng]`, `word[spa]` or
            `entity`.
    """

    def record(function: F) -> F:
        match = re.fullmatch(r"([^\W\d]\w*)(?:\[(\w+)(?:->(\w+))?\])?", name)
        if match is None:
            raise TaskloomError(f"'{name}' is not a valid name for an atom; write e.g. rhymes[eng]")
        for code in filter(None, match.groups()[1:]):
            if code not in LANGUAGES:
                raise TaskloomError(
                    f"the atom '{name}': there is no word list for '{code}'; languages: "
                    f"{', '.join(LANGUAGES)}"
                )
        _refuse_taken(name, function.__module__)
        source = f"word[{match[2]}]" if match[2] else "entity"
        if get_type_hints(function).get("return") is bool:
            kind = Type("predicate", source)
        else:
            kind = Type("relation", source, gives or (f"word[{match[3]}]" if match[3] else source))
        _ADDED[name] = Known(
            name,
            kind,
            "own",
            one,
            many or (f"not: {one}" if kind.form == "predicate" else one),
            define,
            name,
            name,
            function=function,
        )
        opened = sys.modules.get("taskloom.suites.taskbench.worlds.words")
        if opened is not None:
            # Cached words may have values of an earlier atom with this name.
            opened.open_words.cache_clear()
        return function

    return record


def _refuse_taken(name: str, module: str) -> None:
    """Raise an error if the name is taken, because otherwise one of the two functions would
    silently replace the other.
    """
    there = _ADDED.get(name)
    if there is None and canonical(name) is not None:
        raise TaskloomError(
            f"there is already an atom '{name}' ({canonical(name)}); choose another name"
        )
    if there is not None and there.function is not None and there.function.__module__ != module:
        raise TaskloomError(
            f"the atom '{name}' is defined twice: in {there.function.__module__} and in {module};"
            " rename one"
        )


def added() -> dict[str, Known]:
    """Atoms added with `@atom`."""
    return _ADDED


_LEXICAL = {
    "synonyms": (
        "a synonym",
        "the synonyms",
        "A synonym of a word is another word that shares one of its meanings.",
    ),
    "antonyms": (
        "an antonym",
        "the antonyms",
        "An antonym of a word means the opposite of one of its meanings.",
    ),
    "hyponyms": (
        "a hyponym",
        "the hyponyms",
        (
            "A hyponym of a word names a more special kind of what the word means, at any depth"
            " (oak is a hyponym of plant)."
        ),
    ),
    "hypernyms": (
        "a hypernym",
        "the hypernyms",
        (
            "A hypernym of a word names a more general kind of what the word means, at any depth"
            " (plant is a hypernym of oak)."
        ),
    ),
    "entailments": (
        "an entailment",
        "the entailments",
        (
            "An entailment of a verb is something that one necessarily does when doing it (snoring"
            " entails sleeping)."
        ),
    ),
}

_POS = {"noun": "noun", "verb": "verb", "adjective": "adj", "adverb": "adv"}
_SENTIMENT = {"positive": "pos", "negative": "neg", "neutral": "none"}

_RELATIONS = """
child|P40|a child of {x}|the children of {x}
child.inv||a parent of {x}|the parents of {x}
continent|P30|a continent of {x}|the continents of {x}
country|P17|a country of {x}|the countries of {x}
country of citizenship|P27|a country of which {x} is a citizen|the countries of which {x} is a citizen
country of origin|P495|a country of origin of {x}|the countries of origin of {x}
creator|P170|a creator of {x}|the creators of {x}
creator.inv||a creation of {x}|the creations of {x}
developer|P178|a developer of {x}|the developers of {x}
diplomatic relation|P530|a diplomatic partner of {x}|the diplomatic partners of {x}
father|P22|the father of {x}|the father of {x}
father.inv||a child fathered by {x}|the children fathered by {x}
genre|P136|a genre of {x}|the genres of {x}
has part|P527|a part of {x}|the parts of {x}
head of state|P35|a head of state of {x}|the heads of state of {x}
head of state.inv||a country headed by {x}|the countries headed by {x}
influenced by|P737|an influence on {x}|the influences on {x}
instance of|P31|a class of {x}|the classes of {x}
languages spoken written or signed|P1412|a language of {x}|the languages of {x}
location|P276|a location of {x}|the locations of {x}
location.inv||a thing located at {x}|the things located at {x}
manufacturer|P176|a manufacturer of {x}|the manufacturers of {x}
member of political party|P102|a political party of {x}|the political parties of {x}
member of sports team|P54|a sports team of {x}|the sports teams of {x}
mother|P25|the mother of {x}|the mother of {x}
mother.inv||a child borne by {x}|the children borne by {x}
named after|P138|a namesake of {x}|the namesakes of {x}
native language|P103|a native language of {x}|the native languages of {x}
occupation|P106|an occupation of {x}|the occupations of {x}
official language|P37|an official language of {x}|the official languages of {x}
original language of film or TV show|P364|an original language of {x}|the original languages of {x}
owned by|P127|an owner of {x}|the owners of {x}
performer|P175|a performer of {x}|the performers of {x}
place of birth|P19|the place of birth of {x}|the place of birth of {x}
place of death|P20|the place of death of {x}|the place of death of {x}
position held|P39|a position held by {x}|the positions held by {x}
position played on team|P413|a playing position of {x}|the playing positions of {x}
record label|P264|a record label of {x}|the record labels of {x}
sex or gender|P21|the sex or gender of {x}|the sex or gender of {x}
subclass of|P279|a broader class of {x}|the broader classes of {x}
"""

_FACTS = """
instance|instance_of|human|Q5|a human
instance|instance_of|film|Q11424|a film
instance|instance_of|book|Q571|a book
instance|instance_of|city|Q515|a city
instance|instance_of|taxon|Q16521|a taxon
occupation|occupation|actor|Q33999|an actor by occupation
occupation|occupation|politician|Q82955|a politician by occupation
occupation|occupation|writer|Q36180|a writer by occupation
occupation|occupation|journalist|Q1930187|a journalist by occupation
occupation|occupation|teacher|Q37226|a teacher by occupation
occupation|occupation|composer|Q36834|a composer by occupation
birthplace|place_of_birth|london|Q84|born in London
birthplace|place_of_birth|nyc|Q60|born in New York City
birthplace|place_of_birth|la|Q65|born in Los Angeles
birthplace|place_of_birth|buenosaires|Q1486|born in Buenos Aires
"""


def slug(name: str) -> str:
    """Convert a label to a name: spaces and hyphens become underscores."""
    return re.sub(r"[\s-]+", "_", name.strip())


def _lexical() -> Iterable[Known]:
    for code, language in LANGUAGES.items():
        kind = f"word[{code}]"
        for stem, (one, many, define) in _LEXICAL.items():
            name = f"{stem}[{code}]"
            if code != "eng":
                # "an antonym" becomes "a Spanish antonym", whatever letter the noun begins with.
                noun = one.partition(" ")[2]
                one = f"a {language} {noun}"
                many = many.replace("the ", f"the {language} ")
            yield Known(
                name,
                Type("relation", kind, kind),
                "lexical",
                one=one + " of {x}",
                many=many + " of {x}",
                define=define,
                paper=name,
                reference=name,
            )
        for stem, short in _POS.items():
            article = "an" if stem[0] == "a" else "a"
            yield Known(
                f"is_pos_{stem}[{code}]",
                Type("predicate", kind),
                "lexical",
                one=f"can be {article} {stem}",
                many=f"cannot be {article} {stem}",
                define=f"A word can be {article} {stem} if a dictionary lists it as one.",
                paper=f"is-POS-{stem}[{code}]",
                reference=f"is{{POS={short}}}[{code}]",
            )
    for source, target in (("eng", "spa"), ("spa", "eng")):
        name = f"translate[{source}->{target}]"
        language = LANGUAGES[target]
        article = "an" if target == "eng" else "a"
        yield Known(
            name,
            Type("relation", f"word[{source}]", f"word[{target}]"),
            "lexical",
            one=f"{article} {language} translation of {{x}}",
            many=f"the {language} translations of {{x}}",
            define=f"A translation has one of the word's meanings in {language}.",
            paper=name,
            reference=name,
        )
    for stem, short in _SENTIMENT.items():
        yield Known(
            f"is_sentiment_{stem}[eng]",
            Type("predicate", "word[eng]"),
            "lexical",
            one=f"has a {stem} meaning",
            many=f"has no {stem} meaning",
            define=(
                f"A word has a {stem} meaning if people feel {stem} about one of the things it"
                " means."
            ),
            paper=f"is-sentiment-{stem}[eng]",
            reference=f"is{{sentiment={short}}}[eng]",
        )


def _factual() -> Iterable[Known]:
    entities = Type("relation", "entity", "entity")
    for line in _RELATIONS.strip().splitlines():
        label, property_id, one, many = line.split("|")
        yield Known(
            slug(label),
            entities,
            "factual",
            one=one,
            many=many,
            paper=label,
            reference=label,
            wikidata=property_id,
        )
    for line in _FACTS.strip().splitlines():
        group, relation, stem, value, phrase = line.split("|")
        label = relation.replace("_", " ")
        yield Known(
            f"is_{group}_{stem}",
            Type("predicate", "entity"),
            "factual",
            one=f"is {phrase}",
            many=f"is not {phrase}",
            paper=f"is-{group}-{stem}",
            reference=f"is{{{label}={value}}}",
            fact=(relation, value),
        )
    yield Known(
        "label",
        Type("relation", "entity", "word[eng]"),
        "factual",
        one="the name of {x}",
        many="the name of {x}",
        define="The name of a thing, taken as an English word.",
        paper="label",
        reference="label",
    )


@lru_cache(maxsize=1)
def _fixed() -> dict[str, Known]:
    return {known.name: known for known in (*_lexical(), *_factual())}


@lru_cache(maxsize=1)
def _spellings() -> dict[str, str]:
    """Map every normalised spelling (the paper's, the reference's and ours) to our name."""
    spellings: dict[str, str] = {}
    for name, known in _fixed().items():
        for spelling in (name, known.paper, known.reference):
            spellings[fold(spelling)] = name
    for relation in ("instance_of", "occupation", "place_of_birth"):
        for known in _fixed().values():
            if known.fact and known.fact[0] == relation:
                # is{occupation=actor} is accepted with the word from our own name as well as with
                # the Wikidata id.
                spellings[fold(f"is{{{relation}={known.name.split('_', 2)[2]}}}")] = known.name
    return spellings


def fold(name: str) -> str:
    """Normalise a spelling: ignore case, spaces, hyphens and underscores."""
    return re.sub(r"[\s_-]+(?!>)", "", name.casefold())


def canonical(spelling: str) -> str | None:
    """Return our name for an atom in any of its spellings, or None."""
    if spelling in _ADDED:
        return spelling
    folded = fold(spelling)
    # Try exact spellings first, because normalisation turns the minus sign of a seed into a hyphen.
    random = re.fullmatch(
        r"random(?:[\s_-]*seed[\s_]*)?\{?\s*([0-9]{1,9})\s*\}?\s*\[(\w+)\]",
        spelling.strip().casefold(),
    )
    if random and random[2] in LANGUAGES:
        return f"random{int(random[1])}[{random[2]}]"
    if re.fullmatch(r"p[1-9]\d{0,6}", folded):
        by_property = {known.wikidata: known.name for known in _fixed().values() if known.wikidata}
        return by_property.get(folded.upper(), folded.upper())
    return _spellings().get(folded)


def find(spelling: str) -> str | None:
    """Return our name for an atom, including atoms added by installed packages (entry-point group
    `taskloom`).
    """
    name = canonical(spelling)
    if name is None:
        from taskloom.core.registry import load_entry_points

        load_entry_points()
        name = canonical(spelling)
    return name


def known(name: str) -> Known | None:
    """Return the definition of the atom with this name, or None."""
    if name in _ADDED:
        return _ADDED[name]
    random = re.fullmatch(r"random(\d+)\[(\w+)\]", name)
    if random and random[2] in LANGUAGES:
        kind = f"word[{random[2]}]"
        phrase = f"the word that secret list {random[1]} pairs with {{x}}"
        define = (
            f"Secret list {random[1]} pairs every word with a word chosen by chance; it can only be"
            " learnt from examples."
        )
        return Known(
            name,
            Type("relation", kind, kind),
            "random",
            one=phrase,
            many=phrase,
            define=define,
            paper=f"random-seed{random[1]}[{random[2]}]",
            reference=f"random{{{random[1]}}}[{random[2]}]",
        )
    if re.fullmatch(r"P[1-9]\d*", name):
        return Known(
            name,
            Type("relation", "entity", "entity"),
            "factual",
            one=f"a value of Wikidata property {name} for {{x}}",
            many=f"the values of Wikidata property {name} for {{x}}",
            paper=name,
            reference=name,
            wikidata=name,
        )
    entry = _fixed().get(name)
    return None if entry is None or name.endswith(".inv") else entry


def phrases(name: str) -> tuple[str, str]:
    """Return the English for one value and for all values of an atom. For a predicate, return the
    positive and the negative claim.
    """
    entry = known(name)
    assert entry is not None
    return entry.one, entry.many


def inverse_phrases(name: str) -> tuple[str, str] | None:
    """Return the English for the inverse of an atom, for one value and for all values, if it has
    its own wording.
    """
    entry = _fixed().get(f"{name}.inv")
    return (entry.one, entry.many) if entry else None


def signature(name: str) -> Type | None:
    """Return the type of an atom, or None."""
    entry = known(name)
    return entry.type if entry else None


def names() -> list[str]:
    """List the names of all atoms. Of the infinitely many `random0[eng]`, `random1[eng]`, …, only
    the paper's four are included.
    """
    fixed = [name for name in _fixed() if not name.endswith(".inv")]
    return sorted({*fixed, *_ADDED, *(f"random{k}[eng]" for k in range(4))})


def factual_names() -> list[str]:
    """List the names of the factual atoms, including the inverses that the paper lists
    separately.
    """
    return sorted(name for name, known in _fixed().items() if known.family == "factual")


def call(known: Known, text: str) -> set[str]:
    """Return the values of an added atom for a text, with underscores. For a predicate, return
    `true` or `false`.
    """
    assert known.function is not None
    argument = text.replace("_", " ")
    try:
        result = known.function(argument)
        if known.type.form == "relation" and not isinstance(result, str):
            result = list(result)
    except (Exception, SystemExit) as error:
        raise TaskloomError(
            f"the atom '{known.name}' raised {type(error).__name__} for '{argument}': {error}"
        ) from error
    if known.type.form == "predicate":
        if not isinstance(result, bool):
            raise TaskloomError(
                f"the atom '{known.name}' returned {result!r} for '{argument}'; a predicate must "
                "return True or False"
            )
        return {"true" if result else "false"}
    if isinstance(result, str) or not all(
        isinstance(value, str) and value.strip() for value in result
    ):
        raise TaskloomError(
            f"the atom '{known.name}' returned {result!r} for '{argument}'; a relation must "
            "return a set of non-empty texts"
        )
    return {" ".join(value.split()).replace(" ", "_") for value in result}
