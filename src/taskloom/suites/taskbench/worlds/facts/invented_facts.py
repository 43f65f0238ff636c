"""An invented world with the catalog's relations. It can be as large as needed, and no model has
read its facts before.

People live in families over several generations, surrounded by places, works, organisations,
languages and classes. Everything is drawn by a keyed generator, so a world depends only on its
settings. Only things named in the catalog's predicates (human, actor, London ...) and the common
nouns for occupations and positions keep their real names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

from taskloom.core.errors import InputError
from taskloom.core.plan import Source
from taskloom.core.seeding import Key, Random
from taskloom.suites.taskbench.worlds.facts.fact_world import TableWorld
from taskloom.suites.taskbench.worlds.facts.labels import survey
from taskloom.suites.taskbench.worlds.facts.properties import (
    INSTANCE_OF,
    PREDICATES,
    PROPERTIES,
    ROOT,
    SUBCLASS_OF,
)
from taskloom.suites.taskbench.worlds.words.invented_words import Names

# The schema of an invented world: kinds of entities, how many there are of each, and which
# relations connect which kinds
#
# Domains and ranges follow Wikidata's use of each property, so that every composition of the
# catalog has inputs. For example, people are owners, creators, performers, developers and
# namesakes, because the catalog asks for their parents, parties and teams.

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
"""Class of each kind: its id, its label, and the kind of which it is a subclass."""

SEXES = (("Q6581097", "male"), ("Q6581072", "female"))

NAMED_BY: dict[str, tuple[str, ...]] = {
    "city": ("Q84", "Q60", "Q65", "Q1486"),
    "occupation": ("Q33999", "Q82955", "Q36180", "Q1930187", "Q37226", "Q36834"),
}
"""Entities that the catalog's predicates ask for. Their labels are in `properties`."""

ANCHORED = 0.75
"""Probability of choosing each of these values. At the default density,
`land(actor, born in Buenos Aires)` is then true for 1 person in 40.
"""

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
        for office in (
            "finance",
            "justice",
            "trade",
            "education",
            "the harbour",
            "the treasury",
            "agriculture",
            "war",
        )
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
"""Number of entities of each kind per person."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A relation of the catalog from one kind of entity to others.

    Attributes:
        relation: Name of the relation.
        domain: Kind of its inputs.
        ranges: Kinds of its outputs, or `man` or `woman`. A kind that is listed twice is drawn
            twice as often.
        share: Share of the inputs that have the relation, before the density is applied.
        many: True if an input may have several values.
        mutual: True if the relation always holds in both directions.
    """

    relation: str
    domain: str
    ranges: tuple[str, ...]
    share: float = 1.0
    many: bool = False
    mutual: bool = False


FACTS: tuple[Fact, ...] = (
    # People. Their families are generated separately.
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
    # Invented beings have parents and a creator, so that unions of these relations have common
    # inputs.
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


VERSION = 2
"""Version of the worlds. Raise it whenever the same settings give a different world."""

MOTHERS_NAMES = 0.27
"""Number of children with the mother's family name per child with the father's. In the Wikidata
subset, 13.7 % of mothers and 51.3 % of fathers share the last word of their child's name
(benchmarks/taskbench_facts.py).
"""

GROWTH = 4
"""Maximum number of sizes that `roomy_world` tries. Two are usually enough."""


@dataclass(frozen=True, slots=True)
class WorldKnobs:
    """Settings of an invented world.

    Attributes:
        people: Number of people. The numbers of other entities are proportional to it.
        generations: Number of generations of each family.
        density: Share of the possible facts that are known.
        ambiguity: Share of entities that have the same name as another entity of their kind.
        values: Mean number of values for relations that may have several (languages, occupations,
            genres ...).
        seed: Seed of the world.
        surnames: Share of children with their father's family name. Others have their mother's name
            or a new one.
    """

    people: int = 6_000
    generations: int = 6
    density: float = 0.8
    ambiguity: float = 0.0
    values: float = 1.5
    seed: int = 0
    surnames: float = 0.58

    def __post_init__(self) -> None:
        if self.generations < 2 or self.people < 20 * self.generations:
            raise InputError(
                f"a synthetic world needs at least 2 generations of 20 people, not {self.people} "
                f"people in {self.generations} generations"
            )
        if not (
            0 < self.density <= 1
            and 0 <= self.ambiguity < 1
            and 1 <= self.values <= 5
            and 0 <= self.surnames <= 1
        ):
            raise InputError(
                "a synthetic world needs a density above 0 and at most 1, an ambiguity of at "
                "least 0 and below 1, surnames from 0 to 1, and 1 to 5 values"
            )


@lru_cache(maxsize=4)
def _built(knobs: WorldKnobs) -> _WorldBuilder:
    """Build the facts of a world. Recipes in the same process share them, because they never
    change.
    """
    return _WorldBuilder(knobs)


def synthetic_world(knobs: WorldKnobs | None = None) -> TableWorld:
    """Build the invented world with these settings."""
    knobs = knobs or WorldKnobs()
    builder = _built(knobs)
    digest = Key(
        "synthetic facts", VERSION, *(f"{k}={v!r}" for k, v in sorted(asdict(knobs).items()))
    ).digest.hex()
    source = Source("synthetic world", digest)
    return TableWorld(
        lambda p: builder.pairs.get(p, {}), lambda: builder.labels.items(), lambda: (source,)
    )


def roomy_world(
    tasks: Iterable[str], examples: int, knobs: WorldKnobs | None = None
) -> tuple[TableWorld, WorldKnobs]:
    """Build a world that is large enough for every task to have at least `examples` examples.

    For a predicate, half of these examples are true and half are false.

    Args:
        tasks: Expressions of the tasks.
        examples: Minimum number of examples per task.
        knobs: Initial settings, of which only `people` is changed.

    Returns:
        The world and its settings.
    """
    tasks = list(tasks)
    knobs = knobs or WorldKnobs()
    for _ in range(GROWTH):
        world = synthetic_world(knobs)
        thinnest = min(survey(world, tasks, examples), key=lambda size: size.room, default=None)
        if thinnest is None or thinnest.room >= examples:
            return world, knobs
        tried, name, room = knobs.people, thinnest.task, thinnest.room
        # The number of examples grows with the number of people. Add a tenth to the proportional
        # estimate, but never grow more than tenfold, because the estimate may be based on few
        # examples.
        knobs = replace(
            knobs, people=min(10 * tried, 20 + tried * 11 * examples // (10 * max(1, room)))
        )
    raise InputError(
        f"even with {tried:,} people, '{name}' allows only {room} of {examples} examples: raise "
        "the density, or start with more people"
    )


class _WorldBuilder:
    """Builds a world: first the entities of each kind, then families, then all other facts."""

    def __init__(self, knobs: WorldKnobs) -> None:
        self.knobs = knobs
        self.key = Key("synthetic facts", VERSION, knobs.seed)
        self.names = Names(self.key.child("names"))
        self.labels: dict[str, str] = {}
        self.pairs: dict[str, dict[tuple[str, str], None]] = {}
        self.kinds: dict[str, list[str]] = {}
        self.sexes: dict[str, list[str]] = {"man": [], "woman": []}
        self._classes()
        self._people()
        for kind, share in SHARES.items():
            self._entities(kind, max(2, round(share * knobs.people)))
        self._confuse()
        for fact in FACTS:
            self._add_facts(fact)
        self._languages()

    def put(self, prop: str, x: str, y: str) -> None:
        self.pairs.setdefault(prop, {})[(x, y)] = None

    def _classes(self) -> None:
        """Add everything with a fixed name: classes, sexes, and values that predicates ask for."""
        for kind, (iri, label, parent) in CLASSES.items():
            self.labels[iri] = label
            if parent:
                self.put(SUBCLASS_OF, iri, CLASSES[parent][0])
            self.kinds.setdefault(kind, [])
        for what in PREDICATES.values():
            self.labels[what.object] = what.label
        for iri, label in SEXES:
            self.labels[iri] = label
        for kind, names in NAMED_BY.items():
            self.kinds[kind] = list(names)
            for name in names:
                self._describe(name, kind)
        for kind, nouns in NOUNS.items():
            for noun in nouns:
                self._new(kind, noun)
        for occupation in self.kinds["occupation"]:
            # Without a superclass, it would be unknown whether an entity is not an actor.
            self.put(SUBCLASS_OF, occupation, CLASSES["occupation"][0])

    def _describe(self, id: str, kind: str) -> None:
        self.put(INSTANCE_OF, id, CLASSES[kind][0])

    def _new(self, kind: str, label: str) -> str:
        id = f"urn:taskloom:{kind}:{len(self.kinds[kind])}"
        self.labels[id] = label
        self.kinds[kind].append(id)
        self._describe(id, kind)
        return id

    def _people(self) -> None:
        """Add people by generations: couples and their children."""
        knobs = self.knobs
        parents: list[tuple[str, str]] = []
        family_of: dict[str, str] = {}
        for generation in range(knobs.generations):
            rng = self.key.random("generation", generation)
            women: list[str] = []
            men: list[str] = []
            size, rest = divmod(knobs.people, knobs.generations)
            if generation < rest:
                size += 1
            for i in range(size):
                female = i % 2 == 0
                couple = parents[int(len(parents) * rng.random())] if parents else None
                family = self._family(rng, [family_of[parent] for parent in couple or ()])
                x = self._new("human", self.names.person(female, family))
                family_of[x] = family
                self.put(PROPERTIES["sex_or_gender"], x, SEXES[female][0])
                (women if female else men).append(x)
                for parent, prop in zip(couple or (), ("father", "mother"), strict=False):
                    if rng.random() < knobs.density:
                        self.put(PROPERTIES[prop], x, parent)
                        self.put(PROPERTIES["child"], parent, x)
            self.sexes["man"] += men
            self.sexes["woman"] += women
            rng.shuffle(men)
            parents = list(zip(men, women, strict=False))

    def _family(self, rng: Random, parents: list[str]) -> str:
        """Draw a family name: the father's, the mother's, or an unused one."""
        surnames = self.knobs.surnames
        draw = rng.random()
        for family, share in zip(parents, (surnames, MOTHERS_NAMES * surnames), strict=False):
            if draw < share:
                return family
            draw -= share
        return self.names.word()

    def _entities(self, kind: str, n: int) -> None:
        rng = self.key.random("entities", kind)
        forms = _FORMS.get(kind, ("{}",))
        for i in range(n):
            id = self._new(kind, rng.choice(forms).format(self.names.word()))
            if kind in ("genre", "ware"):
                # Classes form a tree: each is below an earlier class, or below its kind.
                above = CLASSES[kind][0]
                if i and rng.random() < 0.8:
                    above = self.kinds[kind][int(i * rng.random())]
                self.put(SUBCLASS_OF, id, above)

    def _confuse(self) -> None:
        """Give some entities the name of an earlier one of their kind."""
        for kind, ids in self.kinds.items():
            if kind in NOUNS or not self.knobs.ambiguity:
                continue
            rng = self.key.random("ambiguity", kind)
            own = [id for id in ids if id.startswith("urn:")]
            for i in range(1, len(own)):
                other = own[int(i * rng.random())]
                if rng.random() < self.knobs.ambiguity:
                    self.labels[own[i]] = self.labels[other]

    def _add_facts(self, fact: Fact) -> None:
        """Draw the facts for one line of the schema."""
        rng = self.key.random("fact", fact.relation, fact.domain)
        prop = PROPERTIES[fact.relation]
        ranges = [self.sexes.get(kind) or self.kinds[kind] for kind in fact.ranges]
        many = (self.knobs.values - 1) / self.knobs.values if fact.many else 0.0
        for x in self.kinds[fact.domain]:
            if rng.random() >= fact.share * self.knobs.density:
                continue
            while True:
                y = self._pick(rng, ranges, fact.ranges)
                if y != x:
                    self.put(prop, x, y)
                    if fact.mutual:
                        self.put(prop, y, x)
                if rng.random() >= many:
                    break

    def _pick(self, rng: Random, ranges: list[list[str]], kinds: tuple[str, ...]) -> str:
        """Draw an entity. The first entities of a kind are drawn more often, and values that
        predicates ask for most often.
        """
        which = int(len(ranges) * rng.random())
        fixed = NAMED_BY.get(kinds[which], ())
        if fixed and rng.random() < ANCHORED:
            return rng.choice(fixed)
        return ranges[which][int(len(ranges[which]) * rng.random() ** 1.5)]

    def _languages(self) -> None:
        """Add languages: most citizens of a country have its language as their native language, and
        speak it.
        """
        citizens = self.pairs.get(PROPERTIES["country_of_citizenship"], {})
        official: dict[str, str] = {}
        for country, spoken in self.pairs.get(PROPERTIES["official_language"], {}):
            official.setdefault(country, spoken)
        for x, country in citizens:
            rng = self.key.random("language", x, country)
            language = official.get(country)
            if language and rng.random() < self.knobs.density:
                self.put(PROPERTIES["native_language"], x, language)
                self.put(PROPERTIES["languages_spoken_written_or_signed"], x, language)


_FORMS: dict[str, tuple[str, ...]] = {
    "fictional": ("{} the Bold", "{} the Grey", "Captain {}", "Little {}", "Old {}"),
    "film": ("The {} Road", "Night in {}", "{} Rising", "A Letter to {}", "The Last {}"),
    "book": ("A History of {}", "The {} Papers", "Notes from {}", "The House of {}", "{}: A Life"),
    "album": ("{} Sessions", "Live at {}", "Songs for {}"),
    "song": ("{} Blues", "Oh {}", "Goodbye {}", "The {} Waltz"),
    "game": ("{} Quest", "Legends of {}", "{} Racing", "Empire of {}"),
    "painting": ("View of {}", "Lady of {}", "{} at Dusk", "Still Life with {}"),
    "product": ("{} One", "{} Mark II", "{} S", "{} Classic"),
    "company": ("{} Works", "{} & Sons", "{} Group", "{} Industries"),
    "team": ("{} United", "{} Rovers", "{} Athletic", "Real {}"),
    "party": ("{} Party", "{} Union", "{} Alliance"),
    "label": ("{} Records", "{} Sound", "{} Tapes"),
    "language": ("{}ish", "{}ese", "Old {}", "{}an"),
    "taxon": ("{} minor", "{} major", "{} vulgaris", "{} montana"),
    "museum": ("{} Museum", "{} Gallery", "{} Hall"),
}
