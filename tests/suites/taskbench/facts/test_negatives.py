"""Half true, half false, and the false ones of the same type."""

from __future__ import annotations

from collections import Counter

import pytest

from taskloom.core.seeding import Key
from taskloom.suites.taskbench.worlds.facts.fact_functions import balanced, same_type_negatives
from taskloom.suites.taskbench.worlds.facts.fact_world import TableWorld
from taskloom.suites.taskbench.worlds.facts.invented_facts import WorldKnobs, synthetic_world
from taskloom.suites.taskbench.worlds.facts.properties import PREDICATES
from taskloom.suites.taskbench.worlds.facts.rdf import RdfWorld
from taskloom.suites.taskbench.worlds.facts.relation import Predicate, Relation
from taskloom.suites.taskbench.worlds.facts.set_operators import land, lnot

KEY = Key("negatives")


@pytest.fixture(scope="module")
def invented() -> TableWorld:
    return synthetic_world(WorldKnobs(people=2_000))


def of_classes(instance_of: dict[str, list[str]], subclass_of: dict[str, list[str]]) -> TableWorld:
    tables = {"P31": Relation(instance_of), "P279": Relation(subclass_of)}
    return TableWorld(lambda p: tables.get(p, Relation({})).pairs(), list, tuple)


@pytest.mark.parametrize(
    "name",
    [
        n if i % 8 == 4 else pytest.param(n, marks=pytest.mark.slow)
        for i, n in enumerate(PREDICATES)
    ],
)
def test_balanced_on_the_real_subset(name: str, real: RdfWorld) -> None:
    predicate = real.predicate(name)
    drawn = balanced(real, predicate, 200, KEY)
    true = sum(drawn.values())
    assert true == len(drawn) - true == min(100, len(predicate.positives))
    assert all(predicate[x] == value for x, value in drawn.items())


def test_the_draw_is_keyed(invented: TableWorld) -> None:
    predicate = invented.predicate("is_instance_book")
    drawn = list(balanced(invented, predicate, 200, KEY).items())
    assert drawn == list(balanced(invented, predicate, 200, KEY).items())
    assert drawn != list(balanced(invented, predicate, 200, Key("other")).items())


def test_types_follow_the_true_ones(real: RdfWorld) -> None:
    """On the real subset every third person with an occupation has no class: the false ones must be
    as mixed.
    """
    actor = real.predicate("is_occupation_actor")
    human = real.relation("instance_of")
    drawn = balanced(real, actor, 1_000, KEY)
    shares = [
        Counter("Q5" in human.get(x, ()) for x, true in drawn.items() if true == side)[True]
        for side in (True, False)
    ]
    assert abs(shares[0] - shares[1]) <= 5


def test_near_things_first(real: RdfWorld, invented: TableWorld) -> None:
    film = invented.predicate("is_instance_film")
    false = [x for x, true in balanced(invented, film, 100, KEY).items() if not true]
    works = ("book", "album", "song", "game", "painting")
    assert all(x.split(":")[2] in works for x in false)
    # Animated films and short films are films.
    film = real.predicate("is_instance_film")
    exact = {x for x, classes in real.relation("instance_of").items() if "Q11424" in classes}
    assert len(film.positives) - len(exact) == 406


def test_subclasses_are_true() -> None:
    world = of_classes(
        {
            "f1": ["film"],
            "f2": ["film"],
            "s1": ["silent"],
            "s2": ["mute"],
            "b1": ["book"],
            "b2": ["book"],
            "r": ["river"],
        },
        {
            "silent": ["film"],
            "mute": ["silent"],
            "film": ["work", "silent"],
            "book": ["work"],
            "work": ["Q35120"],
            "river": ["place"],
            "place": ["Q35120"],
        },
    )
    film = world.matching("instance_of", "film")
    assert film.classes == ("film",)
    assert set(film.positives) == {"f1", "f2", "s1", "s2"}
    drawn = balanced(world, film, 4, KEY)
    assert {x for x, true in drawn.items() if not true} == {"b1", "b2"}
    assert set(same_type_negatives(world, film, ["f1"], 10, KEY)) == {"b1", "b2", "r"}
    turned = balanced(world, lnot(film), 10, KEY)
    assert {x for x, true in turned.items() if true} == {"b1", "b2", "r"}


def test_what_is_lacking_is_made_up() -> None:
    world = of_classes({"a": ["c"], "b": ["c"], "d": ["e"], "g": ["h"]}, {})
    jobs = Relation({"a": ["x"], "b": ["x"], "d": ["y"], "g": ["y"], "i": ["y"]})
    drawn = balanced(world, Predicate.matching(jobs, "x"), 4, KEY)
    assert sum(drawn.values()) == 2
    assert len(drawn) == 4
    assert balanced(world, Predicate.matching(jobs, "z"), 4, KEY) == {}
    assert len(balanced(world, Predicate.matching(jobs, "x"), 3, KEY)) == 3


def test_compositions(invented: TableWorld) -> None:
    both = land(
        invented.predicate("is_occupation_actor"), invented.predicate("is_birthplace_london")
    )
    drawn = balanced(invented, both, 60, KEY)
    assert sum(drawn.values()) == 30 == len(drawn) / 2
