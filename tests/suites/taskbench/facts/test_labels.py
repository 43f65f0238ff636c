"""Labels: collisions merged or dropped, and counted."""

from __future__ import annotations

from collections import Counter

from taskloom.core.plan import Source
from taskloom.suites.taskbench.worlds.facts.fact_world import TableWorld
from taskloom.suites.taskbench.worlds.facts.invented_facts import WorldKnobs, synthetic_world
from taskloom.suites.taskbench.worlds.facts.labels import Counted, name_predicate, name_relation
from taskloom.suites.taskbench.worlds.facts.rdf import RdfWorld
from taskloom.suites.taskbench.worlds.facts.relation import Predicate, Relation

LABELS = {
    "p1": "Paris",
    "p2": "Paris",
    "f": "France",
    "u": "United States",
    "n": "Nice",
    "f2": "France",
    "t": "Troy",
    "p3": "Troy",
}
COUNTRY = Relation({"p1": ["f"], "p2": ["u"], "n": ["f", "f2"], "x": ["f"], "t": ["nameless"]})


def world() -> TableWorld:
    return TableWorld(lambda _: [], LABELS.items, lambda: (Source("test", ""),))


def test_merged() -> None:
    named = name_relation(world(), COUNTRY)
    assert named.answers == {"Nice": ("France",), "Paris": ("France", "United States")}
    assert named.entities == {"Nice": ("n",), "Paris": ("p1", "p2")}
    assert named.counted == Counted(unlabelled=2, ambiguous=1, merged=1, answers=1)


def test_dropped() -> None:
    named = name_relation(world(), COUNTRY, "drop")
    assert named.answers == {"Nice": ("France",)}
    assert named.counted == Counted(unlabelled=2, ambiguous=1, merged=0, answers=1)
    # Troy has one entity with a country and one without: a reader could mean either, so it is
    # dropped, and merging keeps it.
    troy = Relation({"t": ["f"]})
    assert name_relation(world(), troy, "drop").answers == {}
    assert name_relation(world(), troy, "merge").answers == {"Troy": ("France",)}


def test_predicates() -> None:
    truth = Predicate({"p1": True, "p2": False, "n": False, "x": True})
    assert name_predicate(world(), truth).truth == {"Nice": False, "Paris": True}
    assert name_predicate(world(), truth, "drop").truth == {"Nice": False}
    assert name_predicate(world(), truth).counted == Counted(
        unlabelled=1, ambiguous=1, merged=1, answers=0
    )


def test_every_namesake_is_counted() -> None:
    there = synthetic_world(WorldKnobs(people=600, ambiguity=0.3))
    born = there.relation("place_of_birth")
    merged = name_relation(there, born)
    labels = Counter(there.label(x) for x in born)
    assert merged.counted.ambiguous == sum(n > 1 for n in labels.values())
    assert merged.counted.merged == sum(n - 1 for n in labels.values())
    assert len(merged.answers) == len(labels)
    dropped = name_relation(there, born, "drop")
    everyone = Counter(there._labels.values())
    assert set(dropped.answers) == {str(label) for label in labels if everyone[str(label)] == 1}


def test_collisions_of_the_real_subset(real: RdfWorld) -> None:
    """One label in forty-three is shared: the number that the documentation gives."""
    counts = Counter(real._labels.values())
    shared = sum(n for n in counts.values() if n > 1)
    assert 15 < len(real._labels) / shared < 17
