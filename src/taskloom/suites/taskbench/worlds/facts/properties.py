"""The factual atoms of TaskBench500, and the corresponding ids and IRIs.

Names are the paper's labels with underscores, and `.inv` after a relation inverts it. The paper
uses 33 relations, six of them also inverted, and 15 predicates. Five of the predicates ask for a
value of `instance_of`, the others for a value of one of the relations. Any other property can be
used by its id (`P26`, `P26.inv`).

An id is the part after Wikidata's entity prefix (`Q84`), or otherwise the whole IRI. Names are
inserted into a query only by `iri_term`, `property_term` and `text_term`, so that a malicious name
cannot end a term and inject something else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from taskloom.core.errors import InputError, nearest

INSTANCE_OF = "P31"
SUBCLASS_OF = "P279"
OCCUPATION = "P106"

CLASS_PROPERTIES = (INSTANCE_OF, OCCUPATION)
"""Properties whose values are classes, so that subclasses count: a film actor is an actor. Values
of other properties, such as places of birth, are not kinds of each other.
"""

ROOT = "Q35120"
"""Wikidata's "entity", the superclass of all classes. If no path leads there, the graph does not
state what kind of thing a class is.
"""

PROPERTIES: dict[str, str] = {
    "child": "P40",
    "continent": "P30",
    "country": "P17",
    "country_of_citizenship": "P27",
    "country_of_origin": "P495",
    "creator": "P170",
    "developer": "P178",
    "diplomatic_relation": "P530",
    "father": "P22",
    "genre": "P136",
    "has_part": "P527",
    "head_of_state": "P35",
    "influenced_by": "P737",
    "languages_spoken_written_or_signed": "P1412",
    "location": "P276",
    "manufacturer": "P176",
    "member_of_political_party": "P102",
    "member_of_sports_team": "P54",
    "mother": "P25",
    "named_after": "P138",
    "native_language": "P103",
    "occupation": OCCUPATION,
    "official_language": "P37",
    "original_language_of_film_or_TV_show": "P364",
    "owned_by": "P127",
    "performer": "P175",
    "place_of_birth": "P19",
    "place_of_death": "P20",
    "position_held": "P39",
    "position_played_on_team": "P413",
    "record_label": "P264",
    "sex_or_gender": "P21",
    "subclass_of": SUBCLASS_OF,
}
"""Wikidata's property of every relation."""

INVERSES = ("child", "creator", "father", "head_of_state", "location", "mother")
"""Relations that the paper also uses in the inverse direction."""


@dataclass(frozen=True, slots=True)
class FactPredicate:
    """The condition of a predicate: this object is among the values of this property or, for
    classes, a subclass of such a value.
    """

    prop: str
    object: str
    label: str


PREDICATES: dict[str, FactPredicate] = {
    "is_instance_human": FactPredicate(INSTANCE_OF, "Q5", "human"),
    "is_instance_film": FactPredicate(INSTANCE_OF, "Q11424", "film"),
    "is_instance_book": FactPredicate(INSTANCE_OF, "Q571", "book"),
    "is_instance_city": FactPredicate(INSTANCE_OF, "Q515", "city"),
    "is_instance_taxon": FactPredicate(INSTANCE_OF, "Q16521", "taxon"),
    "is_occupation_actor": FactPredicate(OCCUPATION, "Q33999", "actor"),
    "is_occupation_politician": FactPredicate(OCCUPATION, "Q82955", "politician"),
    "is_occupation_writer": FactPredicate(OCCUPATION, "Q36180", "writer"),
    "is_occupation_journalist": FactPredicate(OCCUPATION, "Q1930187", "journalist"),
    "is_occupation_teacher": FactPredicate(OCCUPATION, "Q37226", "teacher"),
    "is_occupation_composer": FactPredicate(OCCUPATION, "Q36834", "composer"),
    "is_birthplace_london": FactPredicate("P19", "Q84", "London"),
    "is_birthplace_nyc": FactPredicate("P19", "Q60", "New York City"),
    "is_birthplace_la": FactPredicate("P19", "Q65", "Los Angeles"),
    "is_birthplace_buenosaires": FactPredicate("P19", "Q1486", "Buenos Aires"),
}
"""The paper's 15 factual predicates."""

RELATIONS: tuple[str, ...] = tuple(sorted([*PROPERTIES, *(f"{name}.inv" for name in INVERSES)]))
"""Names of the paper's 39 factual relations."""

_PROPERTY_ID = re.compile(r"P[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class Direction:
    """A property and the direction in which it is read."""

    prop: str
    inverse: bool = False

    @property
    def flipped(self) -> Direction:
        """The same property in the other direction."""
        return Direction(self.prop, not self.inverse)


def direction(name: str) -> Direction:
    """Return the property and direction for a relation's name, e.g. `father`, `father.inv` or
    `P26`.
    """
    stem = name.removesuffix(".inv")
    if _PROPERTY_ID.fullmatch(stem):
        return Direction(stem, stem != name)
    if stem == "instance_of":
        return Direction(INSTANCE_OF, stem != name)
    if stem in PROPERTIES:
        return Direction(PROPERTIES[stem], stem != name)
    if name in PREDICATES:
        raise InputError(
            f"'{name}' is a predicate (yes or no), not a relation: use it as a predicate"
        )
    raise InputError(f"no factual relation is called '{name}'; {nearest(name, RELATIONS)}")


def asked(name: str) -> FactPredicate:
    """Return the condition of the predicate with that name."""
    if name in PREDICATES:
        return PREDICATES[name]
    if name in RELATIONS:
        raise InputError(
            f"'{name}' is a relation (its values are entities), not a predicate: use it as a "
            "relation"
        )
    raise InputError(f"no factual predicate is called '{name}'; {nearest(name, PREDICATES)}")


ENTITY = "http://www.wikidata.org/entity/"
PROPERTY = "http://www.wikidata.org/prop/direct/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"

ALL_LANGUAGES = "mul"
"""Wikidata's tag for labels that apply to all languages, used if an entity has none in the
requested language.
"""

NAMELESS = "/.well-known/genid/"
"""Part of the IRIs that RDF 1.1 assigns to blank nodes. In Wikidata these are values that exist but
are unknown.
"""

_SHORT = re.compile(r"[A-Z][1-9][0-9]*")
_ANY_PROPERTY_ID = re.compile(r"P[1-9][0-9]*")
_SAFE_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\\x7f-\x9f\ud800-\udfff]+")
"""IRIs that SPARQL's grammar allows between angle brackets, without control characters and with a
scheme.
"""
_LANGUAGE = re.compile(r"[a-z]{2,8}(-[a-z0-9]{1,8})*")
_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def to_id(iri: str) -> str:
    """Return the id for an IRI."""
    short = iri.removeprefix(ENTITY)
    return short if short != iri and _SHORT.fullmatch(short) else iri


def is_entity(iri: str) -> bool:
    """True if an IRI names an entity, rather than a value that is only known to exist."""
    return NAMELESS not in iri


def is_id(text: str) -> bool:
    """True if a text may be the id of an entity."""
    return bool(_SHORT.fullmatch(text) or _SAFE_IRI.fullmatch(text))


def to_iri(id: str) -> str:
    """Return the IRI for an id."""
    iri = ENTITY + id if _SHORT.fullmatch(id) else id
    if not _SAFE_IRI.fullmatch(iri):
        raise InputError(
            f"{id[:80]!r} is not an entity: an id looks like 'Q84', an IRI like '{ENTITY}Q84'"
        )
    return iri


def iri_term(id: str) -> str:
    """Write an entity as a term of a query."""
    return f"<{to_iri(id)}>"


def property_term(property: str) -> str:
    """Write a property as a term of a query."""
    if not _ANY_PROPERTY_ID.fullmatch(property):
        raise InputError(f"{property[:80]!r} is not a property: an id looks like 'P22'")
    return f"<{PROPERTY}{property}>"


def text_term(text: str) -> str:
    """Write a text as a quoted term of a query. Control characters, and everything that could end
    the term, are escaped.
    """
    out = []
    for c in text:
        if c in _ESCAPED:
            out.append(_ESCAPED[c])
        elif 0xD800 <= ord(c) <= 0xDFFF or c == "\0":
            raise InputError(
                f"{text[:80]!r} contains a character that is not allowed in texts (half of a "
                "surrogate pair, or zero)"
            )
        elif ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or c in "\u2028\u2029\ufffe\uffff":
            out.append(f"\\u{ord(c):04X}")
        else:
            out.append(c)
    return '"' + "".join(out) + '"'


def check_language(language: str) -> str:
    """Check that a language tag is safe in a query, and return it."""
    if not _LANGUAGE.fullmatch(language):
        raise InputError(f"{language[:40]!r} is not a language tag: write 'en', 'es', 'pt-br'")
    return language
