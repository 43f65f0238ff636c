"""Worlds built from a dump: the same facts, tasks and answers as the dump itself, in one pass."""

from __future__ import annotations

import bz2
import gzip
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest

from taskloom.core.errors import DataError, InputError
from taskloom.recipe import read
from taskloom.suites.taskbench.worlds.facts import FactWorld, open_world
from taskloom.suites.taskbench.worlds.facts.dump import IdSet, build_world, unescaped
from taskloom.suites.taskbench.worlds.facts.invented_facts import WorldKnobs, synthetic_world
from taskloom.suites.taskbench.worlds.facts.rdf import write_ntriples

pytest.importorskip("pyoxigraph")

ENTITY = "http://www.wikidata.org/entity/"
DIRECT = "http://www.wikidata.org/prop/direct/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
NOISE = "".join(
    f'<{ENTITY}Q{n}> <{DIRECT}P999> <{ENTITY}Q7> .\n<{ENTITY}Q{n}> <{LABEL}> "Nom"@fr .\n'
    for n in range(1, 2_000)
)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An invented world as N-Triples, among lines that no task needs."""
    folder = tmp_path_factory.mktemp("dump")
    write_ntriples(synthetic_world(WorldKnobs(people=300)), folder / "facts.nt")
    text = (folder / "facts.nt").read_text(encoding="utf-8")
    (folder / "facts.nt").write_text(NOISE + text + NOISE, encoding="utf-8")
    return folder / "facts.nt"


def everything(world: FactWorld) -> tuple[object, ...]:
    """All relations, predicates and the labels of all that they mention."""
    relations = {name: dict(world.relation(name)) for name in (*world.relations(), "P31")}
    mentioned = {x for rows in relations.values() for x in rows}
    mentioned |= {y for rows in relations.values() for ys in rows.values() for y in ys}
    predicates = {name: dict(world.predicate(name)) for name in world.predicates()}
    return relations, predicates, world.labels(mentioned)


@pytest.mark.parametrize("chunk", [1_000, 1 << 20])
def test_a_built_world_has_the_facts_of_its_dump(dump: Path, tmp_path: Path, chunk: int) -> None:
    manifest = build_world(dump, tmp_path / "world", chunk=chunk)
    assert everything(open_world(str(tmp_path / "world"))) == everything(open_world(str(dump)))
    assert manifest["triples"] == dump.read_bytes().count(b"\n")
    labels = sum(f"{LABEL}>" in line and "@en" in line for line in dump.open(encoding="utf-8"))
    assert manifest["labels"] == labels


def test_samples_are_those_of_the_dump(dump: Path, tmp_path: Path) -> None:
    build_world(dump, tmp_path / "world")
    built = open_world(f"{tmp_path / 'world'}#inputs=20")
    direct = open_world(f"{dump}#inputs=20")
    assert everything(built) == everything(direct)
    father = built.relation("father")
    assert father.partial
    assert len(father) == 20
    names = set(built.labels(father.outputs()).values())
    assert built.namesakes(names) == direct.namesakes(names)
    other = next(x for x in open_world(str(dump)).relation("father") if x not in father)
    assert father.of(other) == open_world(str(dump)).relation("father")[other]


def test_every_compression_gives_the_same_world(dump: Path, tmp_path: Path) -> None:
    content = dump.read_bytes()
    (tmp_path / "a.nt.gz").write_bytes(gzip.compress(content))
    (tmp_path / "a.nt.bz2").write_bytes(bz2.compress(content))
    (tmp_path / "a.nt.zst").write_bytes(pa.compress(content, "zstd", asbytes=True))
    digests = {
        build_world(tmp_path / f"a.nt.{end}", tmp_path / end)["digest"]
        for end in ("gz", "bz2", "zst")
    }
    assert digests == {build_world(dump, tmp_path / "plain")["digest"]}


def test_a_dump_may_come_through_a_pipe(
    dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(dump.read_bytes())))
    piped = build_world("-", tmp_path / "piped")
    assert piped["facts"] == build_world(dump, tmp_path / "world")["facts"]


def test_tasks_and_answers_are_those_of_the_dump(dump: Path, tmp_path: Path) -> None:
    build_world(dump, tmp_path / "world")
    changes = ["minimum=20", "few_shot=null"]
    rows = []
    for place in (dump, tmp_path / "world"):
        plan = read("taskbench/chain(occupation, father)", [*changes, f"facts={place}"]).plan(0)
        split = plan.split("train")
        made = split.rows(0, split.n)
        assert isinstance(made, pa.Table)
        rows.append(made.select(["input", "targets"]).to_pylist())
    assert rows[0] == rows[1]
    assert rows[0]


def test_what_is_odd_in_a_dump(tmp_path: Path) -> None:
    lines = [
        f"<{ENTITY}Q1> <{DIRECT}P22> <{ENTITY}Q2> .",
        f"<{ENTITY}Q1> <{DIRECT}P22> <{ENTITY}Q2> .",
        f"<{ENTITY}Q1> <{DIRECT}P22> <http://www.wikidata.org/.well-known/genid/9> .",
        f'<{ENTITY}Q1> <{DIRECT}P569> "1900-01-01" .',
        f"<{ENTITY}Q3>\t<{DIRECT}P22> <http://example.org/caf\\u00E9>.",
        f'<{ENTITY}Q1> <{LABEL}> "Ann \\"A\\" Lee"@en .',
        f'<{ENTITY}Q1> <{LABEL}> "Ann"@mul .',
        f'<{ENTITY}Q2> <{LABEL}> "Bob"@mul .',
        f'<{ENTITY}Q2> <{LABEL}> " "@en .',
        f'<{ENTITY}Q9> <{LABEL}> "mentioned by no fact"@en .',
    ]
    (tmp_path / "odd.nt").write_text("\n".join(lines) + "\n")
    build_world(tmp_path / "odd.nt", tmp_path / "world")
    world, direct = open_world(str(tmp_path / "world")), open_world(str(tmp_path / "odd.nt"))
    assert dict(world.relation("father")) == {"Q1": ("Q2",), "Q3": ("http://example.org/café",)}
    assert dict(direct.relation("father")) == dict(world.relation("father"))
    names = {"Q1": 'Ann "A" Lee', "Q2": "Bob"}
    assert world.labels(["Q1", "Q2", "Q3", "Q9"]) == names
    assert direct.labels(["Q1", "Q2", "Q3"]) == names
    with pytest.raises(InputError, match="P26"):
        world.relation("P26")


def test_bad_dumps_leave_nothing_behind(dump: Path, tmp_path: Path) -> None:
    (tmp_path / "none.nt").write_text(NOISE)
    (tmp_path / "cut.nt.gz").write_bytes(gzip.compress(dump.read_bytes())[:-100])
    for name, fault in (("none.nt", "no fact"), ("cut.nt.gz", "cut off"), ("absent.nt", "no file")):
        with pytest.raises(DataError, match=fault):
            build_world(tmp_path / name, tmp_path / "world")
    left = {path.name for path in tmp_path.iterdir()} - {"cache"}
    assert left == {"cut.nt.gz", "none.nt"}
    build_world(dump, tmp_path / "world")
    with pytest.raises(DataError, match="already exists"):
        build_world(dump, tmp_path / "world")
    (tmp_path / "world" / "world.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(DataError, match="build the world again"):
        open_world(str(tmp_path / "world"))


def test_a_set_of_ids_is_exact() -> None:
    ids = IdSet()
    ids.add(pa.chunked_array([["Q7", "Q1000003", "P31", "http://example.org/x"]]))
    asked = pa.chunked_array([["Q7", "Q8", "Q1000003", "Q99999999", "P31", "P7"]])
    assert ids.has(asked).tolist() == [True, False, True, False, True, False]


def test_escapes_of_n_triples() -> None:
    assert unescaped(r"a\tb \U0001F600 \\n") == "a\tb 😀 \\n"
