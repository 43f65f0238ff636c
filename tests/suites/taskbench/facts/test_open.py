"""One line of text for any world."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskloom.core.errors import InputError, TaskloomError
from taskloom.suites.taskbench.worlds.facts import open_world
from taskloom.suites.taskbench.worlds.facts.invented_facts import WorldKnobs, synthetic_world
from taskloom.suites.taskbench.worlds.facts.query_world import EndpointWorld, QueryWorld
from taskloom.suites.taskbench.worlds.facts.rdf import RdfWorld


def test_each_kind(tmp_path: Path) -> None:
    small = open_world("synthetic#people=400&density=0.5&seed=3")
    assert small.sources() == synthetic_world(WorldKnobs(people=400, density=0.5, seed=3)).sources()
    path = tmp_path / "a.nt"
    path.write_bytes(b"")
    assert isinstance(open_world(str(path)), RdfWorld)
    assert isinstance(open_world(f"{tmp_path}#keep=disk&language=es"), RdfWorld)
    assert isinstance(open_world(f"{tmp_path}#inputs=5"), QueryWorld)
    there = open_world("http://127.0.0.1:9/sparql#inputs=50&rate=1.5&contact=me@x.example")
    assert isinstance(there, EndpointWorld)
    assert there.queries == 0
    assert there._client.url == "http://127.0.0.1:9/sparql"


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("", "not a source of facts"),
        ("syntetic", "not a source of facts"),
        ("synthetic#poeple=400", "did you mean 'people'"),
        ("synthetic#people=many", "must be a whole number, not 'many'"),
        ("synthetic#seed=1&seed=2", "sets 'seed' twice"),
        ("synthetic#density=2", "a synthetic world needs"),
        ("no/such/file.nt", "there is no file or folder"),
        ("http://#x=1", "no setting 'x'"),
        ("http:///sparql", "is not the address"),
        ("https://x.example/sparql#rate=fast", "must be a number"),
    ],
)
def test_what_is_wrong(where: str, says: str) -> None:
    with pytest.raises(TaskloomError, match=says):
        open_world(where)


def test_unknown_names() -> None:
    world = open_world("synthetic#people=200")
    with pytest.raises(InputError, match=r"did you mean 'father' or 'father.inv'"):
        world.relation("fahter")
    with pytest.raises(InputError, match="did you mean 'is_occupation_actor'"):
        world.predicate("is_occupation_actress")
    with pytest.raises(InputError, match="is a predicate"):
        world.relation("is_instance_human")
    with pytest.raises(InputError, match="is a relation"):
        world.predicate("father")
    assert world.relation("P22") == world.relation("father")
    assert world.relation("P22.inv") == world.relation("father.inv")
    assert len(world.relation("P9999")) == 0
