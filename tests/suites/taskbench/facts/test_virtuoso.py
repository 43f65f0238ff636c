"""Equal answers from a real SPARQL server and from the embedded store; started by tests/servers/virtuoso.sh."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskloom.errors import InputError
from taskloom.seeding import Key
from taskloom.suites.taskbench.language import read_typed
from taskloom.suites.taskbench.worlds.facts.iri import text_term, to_id
from taskloom.suites.taskbench.worlds.facts.labels import name_predicate, name_relation
from taskloom.suites.taskbench.worlds.facts.negatives import balanced
from taskloom.suites.taskbench.worlds.facts.properties import PREDICATES, RELATIONS
from taskloom.suites.taskbench.worlds.facts.query_world import EndpointWorld
from taskloom.suites.taskbench.worlds.facts.rdf import RdfWorld
from taskloom.suites.taskbench.worlds.facts.relation import Predicate
from taskloom.suites.taskbench.worlds.facts.set_operators import FactComposer
from taskloom.suites.taskbench.worlds.facts.sparql import Manners, SparqlClient, SparqlError
from taskloom.suites.taskbench.worlds.facts.task_queries import task_query

from .composed import compose
from .conftest import Catalogue

URL = os.environ.get("TASKLOOM_SPARQL")
FAST = Manners(rate=1e6, timeout=120)

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(not URL, reason="TASKLOOM_SPARQL is not set: run tests/servers/virtuoso.sh"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> EndpointWorld:
    assert URL
    return EndpointWorld(URL, manners=FAST, cache=tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> EndpointWorld:
    assert URL
    return EndpointWorld(URL, inputs=300, manners=FAST, cache=tmp_path_factory.mktemp("sampled"))


def test_every_atom(real: RdfWorld, whole: EndpointWorld) -> None:
    for name in RELATIONS:
        assert whole.relation(name) == real.relation(name), name
    for name in PREDICATES:
        assert whole.predicate(name) == real.predicate(name), name
    print(f"{whole.queries} queries for {len(RELATIONS)} relations and {len(PREDICATES)} predicates")


PAGE = 2_500
"""Rows that the server gives at once, by tests/servers/virtuoso.sh."""


def within(text: str, select: str, after: str = "") -> str:
    """A task's query as a part of another one."""
    prefixes, query = task_query(*read_typed(text)).split("SELECT DISTINCT", 1)
    return f"{prefixes}SELECT {select} WHERE {{ {{ SELECT DISTINCT{query} }} {after}"


def pages(client: SparqlClient, text: str) -> Iterator[tuple[str, ...]]:
    """All rows of a task's query; the server is asked again from the last one on."""
    after = ""
    while True:
        query = within(text, "?x ?y", f"{after} }} ORDER BY STR(?x) STR(?y) LIMIT {PAGE}")
        rows = client.select(query, ("x", "y"))
        yield from rows
        if len(rows) < PAGE:
            return
        x, y = (text_term(value) for value in rows[-1])
        after = f"FILTER(STR(?x) > {x} || (STR(?x) = {x} && STR(?y) > {y}))"


def test_one_query_a_task(catalogue: Catalogue, real: RdfWorld) -> None:
    """Relations are compared whole. Of predicates, whose paths take a server seconds, the numbers of true and false and a page."""
    assert URL
    client, composer = SparqlClient(URL, Manners(rate=1e6, timeout=320)), FactComposer(real)
    texts = {composer.function(text)[0] for text in (*catalogue.expressions, *RELATIONS, *PREDICATES)}
    compared = 0
    for text in sorted(texts):
        ours = composer.function(text)[1]
        if not isinstance(ours, Predicate):
            theirs = {(to_id(x), to_id(y)) for x, y in pages(client, text)}
            assert theirs == set(ours.pairs()), text
            compared += len(theirs)
            continue
        counts = client.select(within(text, "?y (COUNT(*) AS ?n)", "} GROUP BY ?y"), ("y", "n"))
        wanted = {"1": len(ours.positives), "0": len(ours.negatives)}
        assert {truth: int(n) for truth, n in counts} == {t: n for t, n in wanted.items() if n}, text
        if "instance" not in text:  # Of the classes of all entities one answer takes the server most of a minute.
            page = client.select(within(text, "?x ?y", f"}} LIMIT {PAGE}"), ("x", "y"))
            assert len(page) == min(PAGE, len(ours))
            assert all(ours[to_id(x)] is (truth == "1") for x, truth in page), text
            compared += len(page)
    print(f"{len(texts)} functions, each one query: {compared} rows compared")


def test_every_function_of_the_catalogue(catalogue: Catalogue, real: RdfWorld, whole: EndpointWorld) -> None:
    for composition, operands in catalogue.functions():
        assert compose(whole, composition, operands) == compose(real, composition, operands)


def test_every_function_on_a_sample(catalogue: Catalogue, real: RdfWorld, sampled: EndpointWorld) -> None:
    """What a sample knows is what the whole knows, at its own inputs and at others."""
    for composition, operands in catalogue.functions():
        ours, theirs = compose(sampled, composition, operands), compose(real, composition, operands)
        assert ours.items() <= theirs.items(), (composition, operands)
        assert bool(ours) or not theirs or composition in ("chain", "land"), (composition, operands)
        others = list(theirs)[:: max(1, len(theirs) // 20)]
        assert dict(ours.at(others)) == {x: theirs[x] for x in others}, (composition, operands)
    print(f"{sampled.queries} queries for {len(catalogue.functions())} functions")


def test_text(catalogue: Catalogue, real: RdfWorld, whole: EndpointWorld) -> None:
    for composition, operands in catalogue.functions():
        if composition not in ("chain", "land"):
            continue
        ours, theirs = compose(whole, composition, operands), compose(real, composition, operands)
        if isinstance(ours, Predicate) or isinstance(theirs, Predicate):
            assert isinstance(ours, Predicate)
            assert isinstance(theirs, Predicate)
            assert name_predicate(whole, ours, "drop") == name_predicate(real, theirs, "drop")
        else:
            assert name_relation(whole, ours, "drop") == name_relation(real, theirs, "drop")


def test_names_with_odd_characters(real: RdfWorld, sampled: EndpointWorld) -> None:
    odd = [label for label in real.namesakes(real._ids) if not label.isascii() or set(label) & set("\\\"'{}<>|^`?$#")]
    assert len(odd) > 1_000
    chosen = sorted(odd, key=Key("odd").hash64)[:600]
    assert sampled.namesakes(chosen) == real.namesakes(chosen)
    evil = ['" } UNION { ?x ?p ?y } #', '\\" } #', "\n", '"@en } ; DROP GRAPH <x> #']
    assert sampled.namesakes(evil) == dict.fromkeys(evil, ())


def test_negatives(real: RdfWorld, whole: EndpointWorld) -> None:
    for name in ("is_occupation_actor", "is_instance_film", "is_birthplace_nyc"):
        key = Key("negatives", name)
        assert balanced(whole, whole.predicate(name), 200, key) == balanced(real, real.predicate(name), 200, key)


def test_a_query_that_the_server_refuses(tmp_path: Path) -> None:
    assert URL
    with pytest.raises(SparqlError, match="refuses the request with status 400"):
        SparqlClient(URL, FAST).select("SELECT ?x WHERE { ?x", ("x",))
    with pytest.raises(SparqlError, match=r"a page for people|refuses"):
        SparqlClient(URL.replace("/sparql", "/nothing"), FAST).select("SELECT ?x WHERE { ?x ?p ?y } LIMIT 1", ("x",))
    with pytest.raises(InputError):
        EndpointWorld(URL, cache=tmp_path).relation("P22> ?y } #")
