"""Recipes that name an endpoint, as a user runs them: made, verified, resumed, and every fault in
one sentence with status 2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from taskloom.cli import app
from taskloom.data import dataset
from taskloom.suites.taskbench.worlds.facts import open_world
from taskloom.suites.taskbench.worlds.facts.properties import ENTITY, LABEL, PROPERTY
from taskloom.suites.taskbench.worlds.facts.rdf import RdfWorld, write_ntriples

from .servers import Faulty, Oxigraph, send, serving

FUNCTIONS = [
    "father",
    "chain(occupation, father)",
    "land(is_occupation_actor, is_birthplace_la)",
    "map(union(father, mother))",
]
MANNERS = "rate=1000000&tries=2&timeout=2&backoff=0.01"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("world") / "world.nt.gz"
    write_ntriples(open_world("synthetic#people=600&seed=2"), path)
    return path


@pytest.fixture(scope="module")
def store(file: Path) -> Any:
    return RdfWorld(file, keep="memory").store


@pytest.fixture
def server(store: Any) -> Iterator[tuple[str, Oxigraph]]:
    answering = Oxigraph(store)
    with serving(answering) as url:
        yield url, answering


def recipe(tmp_path: Path, facts: str, functions: list[str] = FUNCTIONS, minimum: int = 1) -> str:
    path = tmp_path / "mine.yaml"
    lines = [
        "suite: taskbench",
        f"functions: {json.dumps(functions)}",
        f"facts: {json.dumps(facts)}",
    ]
    lines += [f"minimum: {minimum}", "sequences: {n: 60}", "few_shot: null", "pairs: published"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def pairs(folder: Path) -> set[tuple[str, str, tuple[str, ...]]]:
    """All word examples of a dataset, whatever the split."""
    data = dataset.load(folder)
    found = (e for split in ("train", "dev", "test") for e in data[split])
    return {(e.task, e.input, tuple(sorted(e.targets))) for e in found if e.traits["length"] == 1}


def sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said on standard error: one sentence, no traceback."""
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("train: ")]
    assert len(said) == 1, said
    assert said[0].startswith("taskloom: ")
    return said[0]


def test_an_endpoint_gives_the_dataset_of_its_file(
    server: tuple[str, Oxigraph], file: Path, tmp_path: Path
) -> None:
    url, answering = server
    there = recipe(tmp_path, f"{url}#{MANNERS}")
    assert app.run(["make", there, "-o", str(tmp_path / "a")]) == 0
    asked = len(answering.queries)
    assert 0 < asked < 60
    assert app.run(["verify", str(tmp_path / "a"), "--all"]) == 0
    assert len(answering.queries) < 2 * asked
    assert app.run(["audit", str(tmp_path / "a")]) == 0
    here = recipe(tmp_path, str(file))
    assert app.run(["make", here, "-o", str(tmp_path / "b")]) == 0
    words = {p for p in pairs(tmp_path / "a") if "land" not in p[0]}
    assert words == {p for p in pairs(tmp_path / "b") if "land" not in p[0]}
    assert len(words) > 300
    # All that was asked is on disk: the same dataset again, and by two processes, sends nothing
    # more.
    again = recipe(tmp_path, f"{url}#{MANNERS}")
    asked = len(answering.queries)
    assert app.run(["make", again, "-o", str(tmp_path / "c")]) == 0
    assert (
        app.run(
            ["make", again, "-o", str(tmp_path / "d"), "--workers", "2", "--shard-rows", "1000"]
        )
        == 0
    )
    assert len(answering.queries) == asked
    assert len({dataset.load(tmp_path / n).digest for n in "acd"}) == 1


def test_a_sample_of_an_endpoint(server: tuple[str, Oxigraph], tmp_path: Path) -> None:
    url, _ = server
    functions = [
        "father",
        "father.inv",
        FUNCTIONS[2],
        "chain(synonyms[eng], label, occupation)",
        "is{occupation=baker}",
    ]
    there = recipe(tmp_path, f"{url}#inputs=30&{MANNERS}", functions)
    assert app.run(["make", there, "-o", str(tmp_path / "a")]) == 0
    assert app.run(["verify", str(tmp_path / "a"), "--all"]) == 0
    assert {task for task, _, _ in pairs(tmp_path / "a")} >= {
        "taskbench/father",
        "taskbench/is{occupation=baker}",
    }


FAULTS = [
    ("html", "web page"),
    ("half-a-page", "broke off its answer"),
    ("hang", "no whole answer within"),
    ("drip", "no whole answer within"),
    ("503", "status 503"),
    ("latin-1", "not UTF-8"),
    ("other-json", "not SPARQL results"),
]


@pytest.mark.parametrize(("fault", "says"), FAULTS)
def test_faults_are_one_sentence(
    fault: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyoxigraph as ox

    small = ox.Store()
    small.load(
        f'<{ENTITY}Q1> <{PROPERTY}P22> <{ENTITY}Q2> .\n<{ENTITY}Q1> <{LABEL}> "Zoë"@en .\n'.encode(),
        ox.RdfFormat.N_TRIPLES,
    )
    with serving(Faulty(Oxigraph(small), ["none"] * (fault == "latin-1") + [fault] * 90)) as url:
        there = recipe(tmp_path, f"{url}#rate=1000000&tries=2&timeout=0.4&backoff=0.01", ["father"])
        assert app.run(["make", there, "-o", str(tmp_path / "a")]) == 2
    said = sentence(capsys)
    assert says in said
    assert url in said
    assert not (tmp_path / "a").exists()


def test_a_server_that_is_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = recipe(tmp_path, "http://127.0.0.1:9/sparql#tries=2&backoff=0.01", ["father"])
    assert app.run(["make", there, "-o", str(tmp_path / "a")]) == 2
    assert "127.0.0.1:9" in sentence(capsys)


def test_a_download_that_broke_off_goes_on(
    store: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = Oxigraph(store)
    healthy = 4

    def reply(handler: BaseHTTPRequestHandler, query: str) -> None:
        if len(good.queries) < healthy:
            good(handler, query)
        else:
            send(handler, b"gone", "text/plain", 503)

    with serving(reply) as url:
        there = recipe(tmp_path, f"{url}#page=400&{MANNERS}")
        assert app.run(["make", there, "-o", str(tmp_path / "a")]) == 2
        assert "503" in sentence(capsys)
        first = list(good.queries)
        assert len(first) == healthy
        healthy = 10**6
        assert app.run(["make", there, "-o", str(tmp_path / "a")]) == 0
        # Not one question was asked twice.
        assert len(set(good.queries)) == len(good.queries)
        assert app.run(["verify", str(tmp_path / "a")]) == 0
    # Without the server and its answers nothing is proved, and nothing is called wrong.
    capsys.readouterr()
    monkeypatch.setenv("TASKLOOM_CACHE", str(tmp_path / "empty"))
    assert app.run(["verify", str(tmp_path / "a")]) == 2
    assert url in sentence(capsys)


ODD = [
    'a "quoted" name',
    "back\\slash",
    "[bold]x[/bold]",
    "pipe | bar",
    "tab\tbed",
    "{} ?x <y> $z",
    "愛 ü 🜁",
    "# hash",
    "' OR 1=1 --",
]


def test_odd_labels_and_hostile_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pyoxigraph as ox

    odd = ox.Store()
    for i, label in enumerate(ODD):
        one, other = (ox.NamedNode(f"{ENTITY}Q{k}") for k in (i + 1, (i + 1) % len(ODD) + 1))
        odd.add(ox.Quad(one, ox.NamedNode(LABEL), ox.Literal(label, language="en")))
        odd.add(ox.Quad(one, ox.NamedNode(f"{PROPERTY}P22"), other))
    answering = Oxigraph(odd)
    with serving(answering) as url:
        there = recipe(tmp_path, f"{url}#{MANNERS}", ["father", "map(father)"])
        assert app.run(["make", there, "-o", str(tmp_path / "a")]) == 0
        assert app.run(["verify", str(tmp_path / "a"), "--all"]) == 0
        assert {x for _, x, _ in pairs(tmp_path / "a")} == set(ODD)
        for label in ODD:
            capsys.readouterr()
            asked = [
                "apply",
                "taskbench/father",
                label,
                "--set",
                f"facts={url}#{MANNERS}",
                "--json",
            ]
            assert app.run(asked) == 0
            assert json.loads(capsys.readouterr().out)["targets"] == [
                ODD[(ODD.index(label) + 1) % len(ODD)]
            ]
        for hostile in ('" } ; DROP ALL #', "Q1> ?p ?o } #", "\\u0022 } #", "nobody"):
            assert (
                app.run(["apply", "taskbench/father", hostile, "--set", f"facts={url}#{MANNERS}"])
                == 2
            )
            sentence(capsys)
    assert len(odd) == 2 * len(ODD)
