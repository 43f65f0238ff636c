"""A server that misbehaves: what passes is survived, what stays is said in one sentence, and
nothing that arrived is lost.
"""

from __future__ import annotations

import gzip
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from taskloom.core import http
from taskloom.core.errors import InputError, TaskloomError
from taskloom.suites.taskbench.worlds.facts import sparql
from taskloom.suites.taskbench.worlds.facts.query_world import EndpointWorld
from taskloom.suites.taskbench.worlds.facts.rdf import RdfWorld
from taskloom.suites.taskbench.worlds.facts.sparql import (
    Manners,
    Overloaded,
    SparqlClient,
    SparqlError,
)

from .servers import Faulty, Oxigraph, serving

FAST = Manners(rate=1e6, tries=4, timeout=0.5, backoff=0.01)

TRIPLES = """\
<http://www.wikidata.org/entity/Q1> <http://www.wikidata.org/prop/direct/P22> <http://www.wikidata.org/entity/Q2> .
<http://www.wikidata.org/entity/Q3> <http://www.wikidata.org/prop/direct/P22> <http://www.wikidata.org/entity/Q2> .
<http://www.wikidata.org/entity/Q3> <http://www.wikidata.org/prop/direct/P22> "1955" .
<http://www.wikidata.org/entity/Q3> <http://www.wikidata.org/prop/direct/P22> _:unknown .
<http://www.wikidata.org/entity/Q4> <http://www.wikidata.org/prop/direct/P22> <http://www.wikidata.org/.well-known/genid/1f> .
<http://www.wikidata.org/entity/Q1> <http://www.w3.org/2000/01/rdf-schema#label> "Zoë"@en .
<http://www.wikidata.org/entity/Q1> <http://www.w3.org/2000/01/rdf-schema#label> "Zoé"@fr .
<http://www.wikidata.org/entity/Q2> <http://www.w3.org/2000/01/rdf-schema#label> "Äpfel"@en .
<http://www.wikidata.org/entity/Q4> <http://www.w3.org/2000/01/rdf-schema#label> "Dan"@mul .
<http://www.wikidata.org/entity/Q2> <http://www.w3.org/2000/01/rdf-schema#label> "Dan"@mul .
"""


@pytest.fixture
def good(tmp_path: Path) -> Oxigraph:
    path = tmp_path / "small.nt.gz"
    path.write_bytes(gzip.compress(TRIPLES.encode()))
    return Oxigraph(RdfWorld(path).store)


def world(url: str, tmp_path: Path, manners: Manners = FAST) -> EndpointWorld:
    return EndpointWorld(url, manners=manners, cache=tmp_path / "answers-here")


PASSING = [
    "429",
    "500",
    "502",
    "503",
    "504",
    "hang",
    "drip",
    "truncated",
    "half-a-page",
    "stack-trace",
    "incomplete",
    "silent",
    "broken-chunk",
]


@pytest.mark.parametrize("fault", PASSING)
def test_what_passes_is_survived(fault: str, good: Oxigraph, tmp_path: Path) -> None:
    with serving(Faulty(good, [fault])) as url:
        there = world(url, tmp_path)
        assert dict(there.relation("father")) == {"Q1": ("Q2",), "Q3": ("Q2",)}
        assert there.labels(["Q1", "Q2", "Q3"]) == {"Q1": "Zoë", "Q2": "Äpfel"}


STAYING = [
    ("429", SparqlError, "status 429"),
    ("404", SparqlError, "refuses the request with status 404 .*: busy or broken"),
    ("500", Overloaded, "status 500"),
    ("hang", Overloaded, "no whole answer within 0.5 seconds"),
    ("drip", Overloaded, "no whole answer within 0.5 seconds"),
    ("html", SparqlError, "web page"),
    ("html-as-json", SparqlError, "web page"),
    ("truncated", Overloaded, "sent [0-9]+ of [0-9]+ bytes"),
    ("half-a-page", Overloaded, "broke off its answer after [0-9]+ bytes"),
    ("incomplete", Overloaded, "incomplete"),
    ("silent", Overloaded, "broke off its answer"),
    ("broken-chunk", Overloaded, "broke off its answer"),
    ("other-json", SparqlError, "not SPARQL results"),
    ("numbers", SparqlError, "values are not text"),
    ("moved", SparqlError, "has moved to http://127.0.0.1:9/elsewhere"),
    ("retry-after-an-hour", SparqlError, "asks to wait 3600 seconds .after one try"),
]


@pytest.mark.parametrize(("fault", "kind", "says"), STAYING)
def test_what_stays_is_said_in_one_sentence(
    fault: str, kind: type[TaskloomError], says: str, good: Oxigraph, tmp_path: Path
) -> None:
    with serving(Faulty(good, [fault] * 40)) as url:
        with pytest.raises(kind, match=says) as caught:
            SparqlClient(url, FAST).select("SELECT ?x ?y WHERE { ?x ?p ?y }", ("x", "y"))
        assert url in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not list(tmp_path.rglob("*.part"))


def test_unknown_values_and_labels_for_all_languages(good: Oxigraph, tmp_path: Path) -> None:
    with serving(good) as url:
        whole = world(url, tmp_path)
        assert whole.labels(["Q1", "Q2", "Q3", "Q4"]) == {"Q1": "Zoë", "Q2": "Äpfel", "Q4": "Dan"}
        assert (whole.ids("Dan"), whole.ids("Zoé")) == (("Q4",), ())
        sample = EndpointWorld(url, inputs=5, manners=FAST, cache=tmp_path)
        assert (
            dict(whole.relation("father"))
            == dict(sample.relation("father"))
            == {
                "Q1": ("Q2",),
                "Q3": ("Q2",),
            }
        )
        assert sample.relation("father").of("Q4") == ()
        assert list(sample.relation("father.inv")) == ["Q2"]


def test_an_endless_answer_is_not_read_to_its_end(
    good: Oxigraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparql, "LARGEST", 100)
    with serving(good) as url, pytest.raises(Overloaded, match="sent more than"):
        SparqlClient(url, FAST).select("SELECT ?x ?y WHERE { ?x ?p ?y }", ("x", "y"))


def test_wrong_encoding_is_found_out(good: Oxigraph, tmp_path: Path) -> None:
    with serving(Faulty(good, ["latin-1"])) as url, pytest.raises(SparqlError, match="not UTF-8"):
        world(url, tmp_path).labels(["Q1"])


def test_down(tmp_path: Path) -> None:
    with serving(lambda handler, query: None) as url:
        pass
    with pytest.raises(SparqlError, match=r"cannot be reached .*after 4 tries"):
        world(url, tmp_path).relation("father")


def test_the_server_sets_the_pause(good: Oxigraph, tmp_path: Path) -> None:
    server = Faulty(good, ["retry-after"])
    with serving(server) as url:
        world(url, tmp_path).relation("father")
    assert server.times[1] - server.times[0] >= 0.99


def test_the_rate_is_kept(good: Oxigraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that moves only when somebody sleeps: a server sees requests late or early, as the
    machine pleases.
    """
    now, begun = 100.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    post = SparqlClient._post

    def noted(self: SparqlClient, query: str) -> bytes:
        begun.append(now)
        return post(self, query)

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: now)
    monkeypatch.setattr(http, "time", clock)
    monkeypatch.setattr(SparqlClient, "_post", noted)
    with serving(Faulty(good, [])) as url:
        there = world(url, tmp_path, Manners(rate=20))
        for name in ("father", "mother", "child", "genre", "creator"):
            there.relation(name)
    assert len(begun) >= 5
    assert [later - earlier for earlier, later in pairwise(begun)] == pytest.approx(
        [1 / 20] * (len(begun) - 1)
    )


def test_a_cut_download_goes_on_where_it_was(data: Path, tmp_path: Path) -> None:
    """The server dies after two pages; the next run asks only for what is missing, and ends with
    the same rows.
    """
    # A page whose answer is late on a busy machine would be asked for again, and counted.
    patient = replace(FAST, timeout=60.0)
    tree = RdfWorld(data / "wikidata" / "royal92.nt.gz", keep="memory")
    server = Faulty(Oxigraph(tree.store), ["none", "none", "403"])
    with serving(server) as url:
        first = EndpointWorld(url, manners=patient, page=1_000, cache=tmp_path)
        with pytest.raises(SparqlError, match="403"):
            first.relation("child")
        second = EndpointWorld(url, manners=patient, page=1_000, cache=tmp_path)
        assert second.relation("child") == tree.relation("child")
        assert second.queries == 2  # Four pages in all (3,724 pairs), two of which had arrived.


def test_a_server_that_manages_only_little_is_asked_for_less(data: Path, tmp_path: Path) -> None:
    from http.server import BaseHTTPRequestHandler

    from .servers import send

    tree = RdfWorld(data / "wikidata" / "royal92.nt.gz", keep="memory")
    good = Oxigraph(tree.store)

    def weak(handler: BaseHTTPRequestHandler, query: str) -> None:
        too_much = (
            int(query.rsplit(" ", 1)[1]) > 2_000
            if "VALUES" not in query
            else query.count("<http://example") > 60
        )
        if too_much:
            send(handler, b"timeout", "text/plain", 504)
        else:
            good(handler, query)

    with serving(weak) as url:
        whole = EndpointWorld(url, manners=FAST, cache=tmp_path / "whole")
        assert whole.relation("child") == tree.relation("child")
        people = list(tree.relation("child"))[:150]
        before = whole.queries
        assert whole.labels(people) == tree.labels(people)
        assert (
            whole.queries - before == 3 + 2 * 3 + 4
        )  # 150 thrice in vain, 75 twice thrice in vain, then four times 37 or 38.


@pytest.mark.parametrize(
    "url",
    [
        "",
        "query.wikidata.org/sparql",
        "file:///etc/passwd",
        "ftp://x.example/",
        "http://",
        "http://a b/",
        "http://x:y/",
        "http://u:p@x/",
    ],
)
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(InputError):
        SparqlClient(url)


def test_settings_that_are_refused(tmp_path: Path) -> None:
    for bad in ({"rate": 0.0}, {"tries": 0}, {"timeout": 0.0}, {"contact": "me\r\nX-Evil: 1"}):
        with pytest.raises(InputError):
            Manners(**bad)
    for bad in ({"inputs": 0}, {"page": 1}, {"batch": 0}, {"language": 'en"'}):
        with pytest.raises(InputError):
            EndpointWorld("http://127.0.0.1:9/", cache=tmp_path, **bad)
