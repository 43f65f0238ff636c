"""Equal answers from a real SPARQL server and from the embedded store; started by
tests/servers/virtuoso.sh.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskloom.core.errors import InputError
from taskloom.core.seeding import Key
from taskloom.recipe import read
from taskloom.suites.taskbench.fields import TaskbenchFields
from taskloom.suites.taskbench.language import map_filter, read_typed
from taskloom.suites.taskbench.plan import functions
from taskloom.suites.taskbench.worlds.facts.fact_functions import balanced
from taskloom.suites.taskbench.worlds.facts.labels import name_predicate, name_relation
from taskloom.suites.taskbench.worlds.facts.properties import (
    PREDICATES,
    RELATIONS,
    text_term,
    to_id,
)
from taskloom.suites.taskbench.worlds.facts.query_world import EndpointWorld
from taskloom.suites.taskbench.worlds.facts.rdf import RdfWorld
from taskloom.suites.taskbench.worlds.facts.relation import Predicate, Relation
from taskloom.suites.taskbench.worlds.facts.set_operators import FactComposer
from taskloom.suites.taskbench.worlds.facts.sparql import Manners, SparqlClient, SparqlError
from taskloom.suites.taskbench.worlds.facts.task_queries import is_factual, task_query

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
    print(
        f"{whole.queries} queries for {len(RELATIONS)} relations and {len(PREDICATES)} predicates"
    )


PAGE = 2_500
"""Rows that the server gives at once, by tests/servers/virtuoso.sh."""


def within(text: str, select: str, after: str = "") -> str:
    """A task's query as a part of another one."""
    prefixes, query = task_query(*read_typed(text)).split("SELECT DISTINCT", 1)
    return f"{prefixes}SELECT {select} WHERE {{ {{ SELECT DISTINCT{query} }} {after}"


def pages(client: SparqlClient, text: str, only: str = "") -> Iterator[tuple[str, ...]]:
    """All rows of a task's query; the server is asked again from the last one on."""
    after = ""
    while True:
        query = within(text, "?x ?y", f"{only} {after} }} ORDER BY STR(?x) STR(?y) LIMIT {PAGE}")
        rows = client.select(query, ("x", "y"))
        yield from rows
        if len(rows) < PAGE:
            return
        x, y = (text_term(value) for value in rows[-1])
        after = f"FILTER(STR(?x) > {x} || (STR(?x) = {x} && STR(?y) > {y}))"


def compare_relation(client: SparqlClient, text: str, ours: Relation) -> int:
    """Compare a relation whole; return the number of its rows."""
    theirs = {(to_id(x), to_id(y)) for x, y in pages(client, text)}
    assert theirs == set(ours.pairs()), text
    return len(theirs)


def compare_predicate(client: SparqlClient, text: str, ours: Predicate, truth: str = "?y") -> int:
    """Compare the numbers of true and false, and a page of rows: paths of classes take a server
    seconds.
    """
    counts = client.select(
        within(text, f"{truth} (COUNT(*) AS ?n)", f"}} GROUP BY {truth}"), (truth[1:], "n")
    )
    wanted = {"1": len(ours.positives), "0": len(ours.negatives)}
    assert {true: int(n) for true, n in counts} == {t: n for t, n in wanted.items() if n}, text
    page = client.select(within(text, f"?x {truth}", f"}} LIMIT {PAGE}"), ("x", truth[1:]))
    assert len(page) == min(PAGE, len(ours))
    assert all(ours[to_id(x)] is (true == "1") for x, true in page), text
    return len(page)


def compare(client: SparqlClient, text: str, ours: Relation | Predicate) -> int:
    """Compare a function with what its query gives; return how many rows were compared."""
    if isinstance(ours, Predicate):
        return compare_predicate(client, text, ours)
    return compare_relation(client, text, ours)


@pytest.fixture(scope="module")
def patient() -> SparqlClient:
    assert URL
    return SparqlClient(URL, Manners(rate=1e6, timeout=320))


def test_one_query_a_task(catalogue: Catalogue, real: RdfWorld, patient: SparqlClient) -> None:
    composer = FactComposer(real)
    texts = {
        composer.function(text)[0] for text in (*catalogue.expressions, *RELATIONS, *PREDICATES)
    }
    assert {composer.function(f)[0] for f in factual_functions()} <= texts, (
        "of taskbench/500 one was left out"
    )
    compared = 0
    for text in sorted(texts):
        ours = composer.function(text)[1]
        compared += compare(patient, text, ours)
    print(f"{len(texts)} functions, each one query: {compared} rows compared")


def factual_functions() -> list[str]:
    """The factual functions of the recipe with the paper's tasks."""
    fields = read("taskbench/500").fields
    assert isinstance(fields, TaskbenchFields)
    return [f.expression.notation for f in functions(fields) if is_factual(f.expression)]


CHAINED = (
    "chain(is_birthplace_nyc, father)",
    "chain(is_occupation_actor, father)",
    "chain(lor(is_birthplace_la, is_birthplace_london), child)",
    "chain(land(is_occupation_politician, is_birthplace_nyc), mother)",
    "chain(lnot(is_birthplace_nyc), father)",
    "lnot(chain(is_birthplace_london, mother))",
    "is{place_of_birth=London}",
    "chain(is{place_of_birth=Q60}, child)",
    "chain(occupation, union(father, mother))",
    "difference(child, father.inv)",
)
"""Compositions that the paper's list lacks: predicates of what a relation gives, nested ones,
values given by their names.
"""


@pytest.mark.parametrize("text", CHAINED)
def test_a_chained_predicate_is_one_query(text: str, real: RdfWorld, patient: SparqlClient) -> None:
    ours = FactComposer(real).function(text)[1]
    assert compare(patient, text, ours) > 0


FILTERS = (
    "filter(is_birthplace_la)",
    "filter(is_occupation_actor)",
    "filter(chain(is_birthplace_nyc, father))",
    "map(father, filter(is_birthplace_london))",
    "map(union(father, mother), filter(is_occupation_politician))",
    "map(chain(place_of_birth, father), filter(lnot(is_birthplace_nyc)))",
)
"""What becomes of the items of a sequence: whether each is kept, and what it is mapped to."""


@pytest.mark.parametrize("text", FILTERS)
def test_a_filter_is_one_query(text: str, real: RdfWorld, patient: SparqlClient) -> None:
    element, predicate = map_filter(read_typed(text)[0])
    assert predicate is not None
    truth = FactComposer(real).function(predicate.notation)[1]
    assert isinstance(truth, Predicate)
    if element is None:
        assert compare_predicate(patient, text, truth, "?kept") > 100
        return
    relation = FactComposer(real).function(element.notation)[1]
    assert isinstance(relation, Relation)
    kept = {(to_id(x), to_id(y)) for x, y in pages(patient, text, "FILTER(?kept)")}
    assert kept == {(x, y) for x, y in relation.pairs() if truth.get(x)}
    dropped = patient.select(within(text, "(COUNT(*) AS ?n)", "FILTER(!?kept) }"), ("n",))
    assert int(dropped[0][0]) == len(truth.negatives)


def test_every_function_of_the_catalogue(
    catalogue: Catalogue, real: RdfWorld, whole: EndpointWorld
) -> None:
    for composition, operands in catalogue.functions():
        assert compose(whole, composition, operands) == compose(real, composition, operands)


def test_every_function_on_a_sample(
    catalogue: Catalogue, real: RdfWorld, sampled: EndpointWorld
) -> None:
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
    odd = [
        label
        for label in real.namesakes(real._ids)
        if not label.isascii() or set(label) & set("\\\"'{}<>|^`?$#")
    ]
    assert len(odd) > 1_000
    chosen = sorted(odd, key=Key("odd").hash64)[:600]
    assert sampled.namesakes(chosen) == real.namesakes(chosen)
    evil = ['" } UNION { ?x ?p ?y } #', '\\" } #', "\n", '"@en } ; DROP GRAPH <x> #']
    assert sampled.namesakes(evil) == dict.fromkeys(evil, ())


def test_negatives(real: RdfWorld, whole: EndpointWorld) -> None:
    for name in ("is_occupation_actor", "is_instance_film", "is_birthplace_nyc"):
        key = Key("negatives", name)
        assert balanced(whole, whole.predicate(name), 200, key) == balanced(
            real, real.predicate(name), 200, key
        )


def test_a_query_that_the_server_refuses(tmp_path: Path) -> None:
    assert URL
    with pytest.raises(SparqlError, match="refuses the request with status 400"):
        SparqlClient(URL, FAST).select("SELECT ?x WHERE { ?x", ("x",))
    with pytest.raises(SparqlError, match=r"web page|refuses"):
        SparqlClient(URL.replace("/sparql", "/nothing"), FAST).select(
            "SELECT ?x WHERE { ?x ?p ?y } LIMIT 1", ("x",)
        )
    with pytest.raises(InputError):
        EndpointWorld(URL, cache=tmp_path).relation("P22> ?y } #")
