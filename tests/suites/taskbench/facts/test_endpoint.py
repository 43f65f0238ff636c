"""Answers over the wire equal those of the embedded store: whole relations, samples, labels,
predicates.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskloom.core.errors import InputError
from taskloom.suites.taskbench.worlds.facts.labels import name_predicate, name_relation
from taskloom.suites.taskbench.worlds.facts.properties import (
    LABEL,
    PREDICATES,
    RELATIONS,
    iri_term,
    property_term,
    text_term,
)
from taskloom.suites.taskbench.worlds.facts.query_world import EndpointWorld
from taskloom.suites.taskbench.worlds.facts.rdf import RdfWorld
from taskloom.suites.taskbench.worlds.facts.relation import Predicate
from taskloom.suites.taskbench.worlds.facts.set_operators import (
    chain,
    intersection,
    land,
    lnot,
    lor,
    union,
)
from taskloom.suites.taskbench.worlds.facts.sparql import Manners

from .composed import compose
from .conftest import Catalogue
from .servers import Oxigraph, serving

FAST = Manners(rate=1e6, backoff=0.01)


@pytest.fixture(scope="module")
def family(data: Path) -> RdfWorld:
    """The family tree: small enough to be fetched whole again and again."""
    return RdfWorld(data / "wikidata" / "royal92.nt.gz", keep="memory")


@pytest.fixture(scope="module")
def whole(real: RdfWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EndpointWorld]:
    with serving(Oxigraph(real.store)) as url:
        yield EndpointWorld(url, manners=FAST, cache=tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("every", [60, pytest.param(1, marks=pytest.mark.slow)])
def test_atoms_and_compositions_of_the_catalogue(
    catalogue: Catalogue, real: RdfWorld, whole: EndpointWorld, every: int
) -> None:
    for name in sorted(RELATIONS)[::every]:
        assert whole.relation(name) == real.relation(name), name
    for name in sorted(PREDICATES)[::every]:
        assert whole.predicate(name) == real.predicate(name), name
    for composition, operands in catalogue.functions()[::every]:
        if composition in ("chain", "lor"):
            assert compose(whole, composition, operands) == compose(real, composition, operands)
    # 33 properties and instance of, in pages: not one query an input.
    assert whole.queries < 120


def test_text_is_the_same(real: RdfWorld, whole: EndpointWorld) -> None:
    for name in ("mother", "head_of_state.inv", "performer"):
        for collisions in ("merge", "drop"):
            ours = name_relation(whole, whole.relation(name), collisions)
            theirs = name_relation(real, real.relation(name), collisions)
            assert ours == theirs
    some = real.predicate("is_birthplace_la").at(real.predicate("is_birthplace_la").positives)
    assert name_predicate(whole, some) == name_predicate(real, some)


@pytest.mark.parametrize(
    ("page", "cap"), [(5_000, None), (1_500, None), (5_000, 1_200), (1_000, None)]
)
def test_pages_and_silent_caps_lose_nothing(
    family: RdfWorld, tmp_path: Path, page: int, cap: int | None
) -> None:
    with serving(Oxigraph(family.store, cap)) as url:
        world = EndpointWorld(url, manners=FAST, page=page, cache=tmp_path)
        for name in ("child", "father.inv", "sex_or_gender", "place_of_death"):
            assert world.relation(name) == family.relation(name)


def test_a_server_that_repeats_its_page_is_found_out(family: RdfWorld, tmp_path: Path) -> None:
    class Deaf(Oxigraph):
        def answer(self, query: str) -> bytes:
            head, _, tail = query.partition(" FILTER(STR(?x) >")
            return super().answer(head + (" } " + tail.split("}", 1)[1] if tail else ""))

    with serving(Deaf(family.store)) as url:
        world = EndpointWorld(url, manners=FAST, page=1_000, cache=tmp_path)
        with pytest.raises(Exception, match="does not sort"):
            world.relation("child")


def test_a_sample_is_complete_at_whatever_it_is_asked(family: RdfWorld, tmp_path: Path) -> None:
    with serving(Oxigraph(family.store)) as url:
        world = EndpointWorld(url, inputs=40, manners=FAST, cache=tmp_path)
        father, mother, child = (world.relation(n) for n in ("father", "mother", "child"))
        father_, mother_, child_ = (family.relation(n) for n in ("father", "mother", "child"))
        assert len(father) == 40
        assert father.partial
        cases: list[tuple[Any, Any]] = [
            (chain(father, mother), chain(father_, mother_)),
            (union(father, mother), union(father_, mother_)),
            (union(father, child, "common"), union(father_, child_, "common")),
            (intersection(child, chain(child, child)), intersection(child_, chain(child_, child_))),
            (father.inverse(), family.relation("father.inv")),
            (chain(chain(father, father), child), chain(chain(father_, father_), child_)),
        ]
        for ours, theirs in cases:
            for x, ys in ours.items():
                assert theirs[x] == ys
            elsewhere = list(theirs)[-25:]
            assert dict(ours.at(elsewhere)) == {x: theirs[x] for x in elsewhere}
        assert father.of("Q1") == ()
        # 3,010 people, and a query for every few hundred of them.
        assert world.queries < 60


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("is_occupation_actor", "is_birthplace_la"),
        ("is_instance_book", "is_instance_taxon"),  # 4 have the class itself, 7 a kind of it
    ],
)
def test_predicates_on_a_sample(real: RdfWorld, tmp_path: Path, first: str, second: str) -> None:
    with serving(Oxigraph(real.store)) as url:
        world = EndpointWorld(url, inputs=60, manners=FAST, cache=tmp_path)
        p, q = world.predicate(first), world.predicate(second)
        real_p, real_q = real.predicate(first), real.predicate(second)
        assert sum(p.values()) >= min(60, sum(real_p.values()))
        cases: list[tuple[Predicate, Predicate]] = [
            (p, real_p),
            (lnot(p), lnot(real_p)),
            (land(p, q), land(real_p, real_q)),
            (lor(p, q), lor(real_p, real_q)),
            (lor(p, q, "either"), lor(real_p, real_q, "either")),
        ]
        for ours, theirs in cases:
            assert ours.items() <= theirs.items()
            assert len(ours) > 0
            some = list(theirs)[:30]
            assert ours.at(some) == theirs.at(some)


def test_text_of_a_sample_includes_the_namesakes(real: RdfWorld, tmp_path: Path) -> None:
    with serving(Oxigraph(real.store)) as url:
        world = EndpointWorld(url, inputs=150, manners=FAST, cache=tmp_path)
        ours = name_relation(world, world.relation("place_of_birth"))
        theirs = name_relation(real, real.relation("place_of_birth"))
        assert len(ours.answers) > 100
        assert ours.answers.items() <= theirs.answers.items()
        assert ours.entities.items() <= theirs.entities.items()


def test_what_is_on_disk_is_not_asked_again(family: RdfWorld, tmp_path: Path) -> None:
    with serving(Oxigraph(family.store)) as url:
        first = EndpointWorld(url, manners=FAST, page=1_000, cache=tmp_path)
        rows = dict(first.relation("child"))
        digest = first.sources()
        again = EndpointWorld(url, manners=FAST, page=1_000, cache=tmp_path)
        assert dict(again.relation("child")) == rows
        assert (again.queries, again.sources()) == (0, digest)
        fresh = EndpointWorld(url, manners=FAST, page=1_000, cache=tmp_path, refresh=True)
        assert dict(fresh.relation("child")) == rows
        assert (fresh.queries, fresh.sources()) == (first.queries, digest)
        [file] = (tmp_path / "answers").iterdir()
        with closing(sqlite3.connect(file)) as base, base:
            base.execute(
                "update answers set answer = substr(answer, 1, 50) where rowid = (select min(rowid)"
                " from answers)"
            )
        healed = EndpointWorld(url, manners=FAST, page=1_000, cache=tmp_path)
        assert dict(healed.relation("child")) == rows
        assert healed.queries == 1


HOSTILE = [
    '"',
    "\\",
    '\\"',
    '" } UNION { ?x ?p ?y } #',
    '"@en } ; DROP ALL #',
    "\n",
    "\r\n\t\b\f",
    "'''",
    "\u2028",
    "$x ?x <a> {}",
    "\\u0022 } #",
    "🜁 ü 愛",
    "\u0085\u009f",
    "#",
    "",
]


@pytest.fixture(scope="module")
def hostile_store() -> Any:
    import pyoxigraph as ox

    store = ox.Store()
    for i, text in enumerate(HOSTILE):
        store.add(
            ox.Quad(
                ox.NamedNode(f"http://x.example/{i}"),
                ox.NamedNode(LABEL),
                ox.Literal(text, language="en"),
            )
        )
    return store


def test_hostile_labels_are_found_and_find_nothing_else(hostile_store: Any, tmp_path: Path) -> None:
    server = Oxigraph(hostile_store)
    with serving(server) as url:
        world = EndpointWorld(url, manners=FAST, cache=tmp_path)
        for i, text in enumerate(HOSTILE):
            expected = (f"http://x.example/{i}",) if text.strip() else ()
            assert world.ids(text) == expected
            assert world.label(f"http://x.example/{i}") == (text if text.strip() else None)
        assert len(hostile_store) == len(HOSTILE)


def solutions(query: str) -> list[Any]:
    import pyoxigraph as ox

    found: Any = ox.Store().query(query)
    return list(found)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.text(max_size=30)
    | st.sampled_from(HOSTILE).flatmap(lambda h: st.text(max_size=5).map(lambda t: t + h + t))
)
def test_no_text_escapes_from_its_term(text: str) -> None:
    """The store's own parser must see one literal, equal to the text, whatever the text is."""
    try:
        term = text_term(text)
    except InputError:
        assert "\0" in text or any("\ud800" <= c <= "\udfff" for c in text)
        return
    rows = solutions(f"SELECT ?y WHERE {{ VALUES ?y {{ {term} }} }}")
    assert [row["y"].value for row in rows] == [text]


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40) | st.text(max_size=20).map(lambda t: "http://x.example/" + t))
def test_no_id_escapes_from_its_term(id: str) -> None:
    import pyoxigraph as ox

    try:
        term = iri_term(id)
    except InputError:
        return
    try:
        ox.NamedNode(term[1:-1])
    except ValueError:
        # Not every text that can stand between brackets is an IRI: the server then refuses the
        # whole query.
        return
    rows = solutions(f"SELECT ?y WHERE {{ VALUES ?y {{ {term} }} }}")
    assert [f"<{row['y'].value}>" for row in rows] == [term]


@pytest.mark.parametrize(
    "id",
    ["", "Q1> ?p ?o } #", "a b", "<", "http://x/\n", "http://x/\\u003e", "Q0", "nothing", "Q1}"],
)
def test_what_is_no_entity_is_refused(id: str) -> None:
    with pytest.raises(InputError, match="is not an entity"):
        iri_term(id)


@pytest.mark.parametrize(
    "name", ["P1> ?y } #", "father ", "P", "P01", "is_instance_human", "Father", "father.inv.inv"]
)
def test_what_is_no_relation_is_refused_without_a_query(name: str, tmp_path: Path) -> None:
    world = EndpointWorld("http://127.0.0.1:9/sparql", cache=tmp_path)
    with pytest.raises(InputError):
        world.relation(name)
    with pytest.raises(InputError, match="is not a property"):
        property_term(name)
    assert world.queries == 0
