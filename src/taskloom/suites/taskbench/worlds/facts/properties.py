"""The factual atoms of TaskBench500: names, Wikidata properties, and the objects of the predicates.

Names are the paper's labels with underscores; `.inv` after a relation turns it round. The paper
uses 33 relations, six of them also turned round, and 15 predicates, most of which ask for a value
of these relations and five for one of `instance_of`. Any other property is reached by its id
(`P26`, `P26.inv`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from taskloom.core.errors import InputError, nearest

INSTANCE_OF = "P31"
SUBCLASS_OF = "P279"
OCCUPATION = "P106"

CLASS_PROPERTIES = (INSTANCE_OF, OCCUPATION)
"""Properties whose values are classes: a film actor is an actor. Places of birth are not kinds of
one another.
"""

ROOT = "Q35120"
"""Wikidata's "entity", which is above all classes. If no path leads there, the graph does not state
what kind of thing a class is.
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
"""The relations that the paper also uses turned round."""


@dataclass(frozen=True, slots=True)
class FactPredicate:
    """The question of a predicate: is this object among the values of this property or, for
    classes, a kind of one?
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
"""The names of the paper's 39 factual relations."""

_PROPERTY_ID = re.compile(r"P[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class Direction:
    """A property and which way it is read."""

    prop: str
    inverse: bool = False

    @property
    def flipped(self) -> Direction:
        """The same property in the other direction."""
        return Direction(self.prop, not self.inverse)


def direction(name: str) -> Direction:
    """Return the property behind a relation's name, e.g. `father`, `father.inv`, `P26`."""
    stem = name.removesuffix(".inv")
    if _PROPERTY_ID.fullmatch(stem):
        return Direction(stem, stem != name)
    if stem == "instance_of":
        return Direction(INSTANCE_OF, stem != name)
    if stem in PROPERTIES:
        return Direction(PROPERTIES[stem], stem != name)
    if name in PREDICATES:
        raise InputError(
            f"'{name}' is a predicate (yes or no), not a relation: ask for it as a predicate"
        )
    raise InputError(f"no factual relation is called '{name}'; {nearest(name, RELATIONS)}")


def asked(name: str) -> FactPredicate:
    """Question of the predicate with that name."""
    if name in PREDICATES:
        return PREDICATES[name]
    if name in RELATIONS:
        raise InputError(
            f"'{name}' is a relation (it gives entities), not a predicate: ask for it as a relation"
        )
    raise InputError(f"no factual predicate is called '{name}'; {nearest(name, PREDICATES)}")
