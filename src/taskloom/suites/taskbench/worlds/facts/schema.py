"""What an invented world consists of: kinds of entities, how many of each, and which relations hold between which kinds.

Domains and ranges follow Wikidata's use of each property, so that every composition of the catalogue has inputs: people are the
owners, creators, performers, developers and namesakes, since the catalogue asks for their parents, parties and teams.
"""

from __future__ import annotations

from dataclasses import dataclass

from taskloom.suites.taskbench.worlds.facts.properties import ROOT

CLASSES: dict[str, tuple[str, str, str]] = {
    "entity": (ROOT, "entity", ""),
    "being": ("urn:taskloom:class:being", "being", "entity"),
    "human": ("Q5", "human", "being"),
    "fictional": ("urn:taskloom:class:fictional", "fictional being", "being"),
    "taxon": ("Q16521", "taxon", "entity"),
    "work": ("urn:taskloom:class:work", "work", "entity"),
    "film": ("Q11424", "film", "work"),
    "book": ("Q571", "book", "work"),
    "album": ("urn:taskloom:class:album", "album", "work"),
    "song": ("urn:taskloom:class:song", "song", "work"),
    "game": ("urn:taskloom:class:game", "video game", "work"),
    "painting": ("urn:taskloom:class:painting", "painting", "work"),
    "place": ("urn:taskloom:class:place", "place", "entity"),
    "city": ("Q515", "city", "place"),
    "country": ("urn:taskloom:class:country", "country", "place"),
    "continent": ("urn:taskloom:class:continent", "continent", "place"),
    "museum": ("urn:taskloom:class:museum", "museum", "place"),
    "organisation": ("urn:taskloom:class:organisation", "organisation", "entity"),
    "company": ("urn:taskloom:class:company", "company", "organisation"),
    "team": ("urn:taskloom:class:team", "sports team", "organisation"),
    "party": ("urn:taskloom:class:party", "political party", "organisation"),
    "label": ("urn:taskloom:class:label", "record label", "organisation"),
    "product": ("urn:taskloom:class:product", "product", "entity"),
    "ware": ("urn:taskloom:class:ware", "kind of product", "entity"),
    "genre": ("urn:taskloom:class:genre", "genre", "entity"),
    "language": ("urn:taskloom:class:language", "language", "entity"),
    "occupation": ("urn:taskloom:class:occupation", "occupation", "entity"),
    "position": ("urn:taskloom:class:position", "position", "entity"),
    "role": ("urn:taskloom:class:role", "playing position", "entity"),
}
"""For each kind its class: id, label, and the kind that it is a subclass of."""

SEXES = (("Q6581097", "male"), ("Q6581072", "female"))

NAMED_BY: dict[str, tuple[str, ...]] = {
    "city": ("Q84", "Q60", "Q65", "Q1486"),
    "occupation": ("Q33999", "Q82955", "Q36180", "Q1930187", "Q37226", "Q36834"),
}
"""Entities that the catalogue's predicates ask for; their labels are there."""

ANCHORED = 0.75
"""How often one of those is drawn: so `land(actor, born in Buenos Aires)` holds of 1 person in 40 at the default density."""

NOUNS: dict[str, tuple[str, ...]] = {
    "occupation": (
        "baker",
        "carpenter",
        "chemist",
        "dancer",
        "diplomat",
        "engineer",
        "farmer",
        "gardener",
        "historian",
        "judge",
        "lawyer",
        "librarian",
        "mason",
        "merchant",
        "miner",
        "nurse",
        "painter",
        "philosopher",
        "physician",
        "pilot",
        "poet",
        "potter",
        "sailor",
        "sculptor",
        "shepherd",
        "singer",
        "smith",
        "surveyor",
        "tailor",
        "weaver",
    ),
    "position": tuple(
        f"{rank} of {office}"
        for rank in ("minister", "secretary", "chancellor", "warden")
        for office in ("finance", "justice", "trade", "education", "the harbour", "the treasury", "agriculture", "war")
    ),
    "role": (
        "goalkeeper",
        "sweeper",
        "centre-back",
        "full-back",
        "wing-back",
        "holding midfielder",
        "playmaker",
        "winger",
        "second striker",
        "centre-forward",
        "point guard",
        "shooting guard",
        "power forward",
        "pitcher",
        "catcher",
        "shortstop",
    ),
}

SHARES: dict[str, float] = {
    "city": 0.07,
    "country": 0.1,
    "continent": 0.002,
    "museum": 0.03,
    "company": 0.08,
    "team": 0.02,
    "party": 0.01,
    "label": 0.02,
    "language": 0.02,
    "genre": 0.03,
    "ware": 0.05,
    "fictional": 0.12,
    "film": 0.12,
    "book": 0.12,
    "album": 0.1,
    "song": 0.1,
    "game": 0.1,
    "painting": 0.1,
    "product": 0.08,
    "taxon": 0.08,
}
"""Entities of each kind for every person."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A relation of the catalogue from one kind to others.

    Attributes:
        relation: Its name.
        domain: The kind of its inputs.
        ranges: The kinds of its outputs, or `man` or `woman`; what is named twice is drawn twice as often.
        share: For which share of the inputs it is there, before the density.
        many: Whether it may have several values.
        mutual: Whether it holds both ways.
    """

    relation: str
    domain: str
    ranges: tuple[str, ...]
    share: float = 1.0
    many: bool = False
    mutual: bool = False


FACTS: tuple[Fact, ...] = (
    # People; their families are made apart.
    Fact("place_of_birth", "human", ("city",)),
    Fact("place_of_death", "human", ("city",), 0.7),
    Fact("country_of_citizenship", "human", ("country",), 1.0, many=True),
    Fact("languages_spoken_written_or_signed", "human", ("language",), 0.6, many=True),
    Fact("occupation", "human", ("occupation",), 1.0, many=True),
    Fact("member_of_political_party", "human", ("party",), 0.5, many=True),
    Fact("member_of_sports_team", "human", ("team",), 0.5, many=True),
    Fact("position_played_on_team", "human", ("role",), 0.5),
    Fact("position_held", "human", ("position",), 0.5, many=True),
    Fact("record_label", "human", ("label",), 0.5, many=True),
    Fact("genre", "human", ("genre",), 0.4, many=True),
    Fact("influenced_by", "human", ("human",), 0.6, many=True),
    Fact("named_after", "human", ("human",), 0.5),
    # Invented beings have parents and a creator, so that unions of both have inputs in common.
    Fact("creator", "fictional", ("human",)),
    Fact("father", "fictional", ("man",)),
    Fact("mother", "fictional", ("woman",)),
    Fact("named_after", "fictional", ("human",), 0.5),
    # Places.
    Fact("country", "city", ("country",)),
    Fact("continent", "country", ("continent",), 1.0),
    Fact("continent", "city", ("continent",), 0.6),
    Fact("official_language", "country", ("language",), 1.0, many=True),
    Fact("official_language", "city", ("language",), 0.4, many=True),
    Fact("head_of_state", "country", ("human",), 1.0, many=True),
    Fact("diplomatic_relation", "country", ("country",), 1.0, many=True, mutual=True),
    Fact("has_part", "country", ("city",), 0.6, many=True),
    Fact("named_after", "city", ("human",), 0.6),
    Fact("location", "museum", ("city",)),
    Fact("country", "museum", ("country",)),
    # Works.
    Fact("genre", "film", ("genre",), 1.0, many=True),
    Fact("country_of_origin", "film", ("country",), 1.0, many=True),
    Fact("original_language_of_film_or_TV_show", "film", ("language",), 1.0, many=True),
    Fact("performer", "film", ("human",), 0.4, many=True),
    Fact("genre", "book", ("genre",), 0.8, many=True),
    Fact("country_of_origin", "book", ("country",), 0.8),
    Fact("named_after", "book", ("human",), 0.3),
    Fact("performer", "song", ("human",), 1.0, many=True),
    Fact("record_label", "song", ("label",), 0.6),
    Fact("performer", "album", ("human",), 1.0),
    Fact("record_label", "album", ("label",), 0.8),
    Fact("has_part", "album", ("song",), 1.0, many=True),
    Fact("developer", "game", ("human", "human", "company"), 1.0, many=True),
    Fact("creator", "game", ("human",), 0.5),
    Fact("genre", "game", ("genre",), 0.8, many=True),
    Fact("creator", "painting", ("human",)),
    Fact("location", "painting", ("museum", "city")),
    Fact("owned_by", "painting", ("human", "human", "museum"), 0.9),
    # Organisations and things.
    Fact("country", "company", ("country",)),
    Fact("owned_by", "company", ("human", "human", "company"), 1.0, many=True),
    Fact("named_after", "company", ("human",), 0.5),
    Fact("location", "company", ("city",), 0.8),
    Fact("country", "team", ("country",)),
    Fact("owned_by", "team", ("human", "company"), 0.8),
    Fact("country", "party", ("country",)),
    Fact("manufacturer", "product", ("company",), 1.0, many=True),
    Fact("developer", "product", ("human", "human", "company"), 0.8),
    Fact("named_after", "taxon", ("human",), 0.6),
)
