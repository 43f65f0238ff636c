"""Files into stores: on disk as in memory, whole or absent, resumed after a kill, and clear about
what is wrong.
"""

from __future__ import annotations

import bz2
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from taskloom.core.errors import DataError, InputError, TaskloomError
from taskloom.core.files import cache_folder
from taskloom.suites.taskbench.worlds.facts import rdf
from taskloom.suites.taskbench.worlds.facts.labels import name_relation
from taskloom.suites.taskbench.worlds.facts.properties import RELATIONS, to_iri
from taskloom.suites.taskbench.worlds.facts.rdf import RdfWorld, disk_store, rdf_files

from .composed import compose
from .conftest import Catalogue

E = "http://www.wikidata.org/entity/"
P = "http://www.wikidata.org/prop/direct/"


def tree(n: int) -> bytes:
    """A chain of n fathers."""
    return "".join(f"<{E}Q{i}> <{P}P22> <{E}Q{i + 1}> .\n" for i in range(1, n + 1)).encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "files"
    place.mkdir()
    (place / "a.nt").write_bytes(tree(3_000))
    (place / "b.nt.gz").write_bytes(
        gzip.compress(
            b'<http://x.example/1> <http://www.w3.org/2000/01/rdf-schema#label> "one"@en .'
        )
    )
    (place / "c.nt.bz2").write_bytes(
        bz2.compress(
            b'<http://x.example/2> <http://www.w3.org/2000/01/rdf-schema#label> "two"@en .\n'
        )
    )
    (place / "notes.txt").write_text("not facts")
    return place


@pytest.mark.parametrize("files", ["royal92.nt.gz", pytest.param("", marks=pytest.mark.slow)])
def test_disk_is_memory(
    data: Path, files: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By day for the family tree, which is one file of the folder."""
    place = data / "wikidata" / files
    memory, disk = RdfWorld(place, keep="memory"), RdfWorld(place, keep="disk", cache=tmp_path)
    for name in sorted(RELATIONS):
        assert disk.relation(name) == memory.relation(name)
    assert disk.sources() == memory.sources()
    some = list(memory.relation("mother"))
    assert disk.labels(some) == memory.labels(some)
    monkeypatch.setattr(rdf, "_load", lambda *_: pytest.fail("loaded again although it is there"))
    RdfWorld(place, keep="disk", cache=tmp_path)


def test_a_folder_in_chunks(folder: Path, tmp_path: Path) -> None:
    for keep in ("memory", "disk"):
        for chunk in (20_001, 77_777, 1 << 20):
            world = RdfWorld(folder, keep=keep, chunk=chunk, cache=tmp_path / f"{keep}{chunk}")
            assert len(world.relation("father")) == 3_000
            assert world.labels(["http://x.example/1", "http://x.example/2"]) == {
                "http://x.example/1": "one",
                "http://x.example/2": "two",
            }


def test_the_digest_follows_the_content(folder: Path, tmp_path: Path) -> None:
    before = RdfWorld(folder, keep="disk", cache=tmp_path).sources()
    (folder / "a.nt").write_bytes(tree(3_001))
    world = RdfWorld(folder, keep="disk", cache=tmp_path)
    assert world.sources() != before
    assert len(world.relation("father")) == 3_001


KILLED = """
import sys, time
from pathlib import Path
from taskloom.suites.taskbench.worlds.facts import rdf
loaded = rdf._load
def slow(*args):
    loaded(*args)
    time.sleep(0.05)
rdf._load = slow
rdf.disk_store([Path(sys.argv[1])], "d" * 64, Path(sys.argv[2]), 10_000)
"""


def test_a_killed_load_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 in the middle: nothing is there under the final name, and the next load begins after
    the last whole chunk.
    """
    cache = tmp_path / "cache"
    progress = cache / "stores" / ("d" * 32 + ".part") / "progress.json"
    load = subprocess.Popen([sys.executable, "-c", KILLED, str(folder / "a.nt"), str(cache)])
    deadline = time.monotonic() + 60
    while not (progress.exists() and json.loads(progress.read_text())["done"] >= 5):
        assert time.monotonic() < deadline
        assert load.poll() is None
        time.sleep(0.005)
    load.send_signal(signal.SIGKILL)
    load.wait()
    assert not (cache / "stores" / ("d" * 32)).exists()
    done = json.loads(progress.read_text())["done"]
    loads: list[int] = []
    really = rdf._load

    def counted(store: object, name: str, first_line: int, lines: bytes, only: rdf.Only) -> None:
        loads.append(first_line)
        really(store, name, first_line, lines, only)

    monkeypatch.setattr(rdf, "_load", counted)
    store = disk_store([folder / "a.nt"], "d" * 64, cache, 10_000)
    assert len(store) == 3_000
    total = sum(1 for _ in rdf.chunks([folder / "a.nt"], 10_000))
    assert len(loads) == total - done < total - 4


def test_a_damaged_beginning_is_begun_again(folder: Path, tmp_path: Path) -> None:
    part = tmp_path / "stores" / ("d" * 32 + ".part")
    (part / "triples").mkdir(parents=True)
    (part / "triples" / "CURRENT").write_text("nonsense")
    (part / "progress.json").write_text('{"chunk": 40000, "done": 9}')
    assert len(disk_store([folder / "a.nt"], "d" * 64, tmp_path, 40_000)) == 3_000


def test_a_beginning_whose_store_is_gone(folder: Path, tmp_path: Path) -> None:
    part = tmp_path / "stores" / ("d" * 32 + ".part")
    part.mkdir(parents=True)
    (part / "progress.json").write_text('{"chunk": 40000, "done": 9}')
    assert len(disk_store([folder / "a.nt"], "d" * 64, tmp_path, 40_000)) == 3_000


def test_a_damaged_store_is_named(folder: Path, tmp_path: Path) -> None:
    disk_store([folder / "a.nt"], "d" * 64, tmp_path)
    (tmp_path / "stores" / ("d" * 32) / "triples" / "CURRENT").write_text("nonsense")
    with pytest.raises(DataError, match=r"is damaged .*remove that folder"):
        disk_store([folder / "a.nt"], "d" * 64, tmp_path)


def test_two_processes_at_once(folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from taskloom.suites.taskbench.worlds.facts.rdf import RdfWorld; from pathlib"
        " import Path\n"
    )
    code += (
        "print(len(RdfWorld(sys.argv[1], keep='disk', cache=Path(sys.argv[2]),"
        " chunk=50_000).relation('father')))"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(folder), str(tmp_path / "c")], stdout=subprocess.PIPE
        )
        for _ in range(2)
    ]
    assert [run.communicate()[0].strip() for run in runs] == [b"3000", b"3000"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.nt", tree(5) + b"<oops .\n" + tree(2), "a.nt, line 6 is not N-Triples"),
        ("a.nt", tree(2) + b"<http://x/\xff> <http://x/p> <http://x/o> .\n", "is not N-Triples"),
        ("a.nt.gz", gzip.compress(tree(2_000))[:-200], "damaged or cut off"),
        ("a.nt.gz", b"plain text", "damaged or cut off"),
        ("a.nt.bz2", bz2.compress(tree(2_000))[:-200], "damaged or cut off"),
        ("a.nt.bz2", b"plain text", "damaged or cut off"),
        ("a.ttl", b"", "does not end in .nt, .nt.gz, .nt.bz2 or .nt.zst"),
    ],
)
def test_what_is_wrong_with_a_file(name: str, content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for keep in ("memory", "disk"):
        with pytest.raises(DataError, match=says):
            RdfWorld(path, keep=keep, cache=tmp_path / "cache")
    assert not [p for p in (tmp_path / "cache").rglob("stores/*") if p.suffix == "" and p.is_dir()]


def test_lines_are_counted_over_chunks(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    path.write_bytes(tree(500) + b"wrong\n" + tree(500))
    with pytest.raises(DataError, match="line 501 "):
        RdfWorld(path, chunk=3_000)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no file or folder"):
        RdfWorld(tmp_path / "nowhere.nt")
    with pytest.raises(DataError, match=r"no file that ends in \.nt"):
        rdf_files(tmp_path)
    (tmp_path / "a.nt").write_bytes(b"")
    assert len(RdfWorld(tmp_path / "a.nt").relation("father")) == 0
    with pytest.raises(InputError, match="'memory'"):
        RdfWorld(tmp_path / "a.nt", keep="cloud")  # type: ignore[arg-type]


def test_a_cache_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    with pytest.raises(TaskloomError, match="cannot"):
        RdfWorld(folder, keep="disk", cache=blocked)
    assert len(RdfWorld(folder, keep="memory", cache=blocked).relation("father")) == 3_000


def test_odd_values_are_no_entities(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    lines = [
        f'<{E}Q1> <{P}P22> "1955" .',
        f"<{E}Q1> <{P}P22> _:b .",
        f"_:c <{P}P22> <{E}Q2> .",
        f"<{E}Q1> <{P}P22> <{E}Q2> .",
    ]
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    lines += [
        f'<{E}Q1> {label} "Z"@en .',
        f'<{E}Q1> {label} "A"@en .',
        f'<{E}Q2> {label} " "@en .',
        f'<{E}Q3> {label} "B"@de .',
    ]
    path.write_text("\n".join(lines))
    world = RdfWorld(path)
    assert dict(world.relation("father")) == {"Q1": ("Q2",)}
    assert world.labels(["Q1", "Q2", "Q3"]) == {"Q1": "A"}
    assert (world.ids("A"), world.ids("Z"), world.ids("B")) == (("Q1",), (), ())
    assert RdfWorld(path, language="de").label("Q3") == "B"


LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"


def test_unknown_values_are_no_entities(tmp_path: Path) -> None:
    """Somebody with an unknown birthplace is not thereby born outside London."""
    path = tmp_path / "a.nt"
    unknown = "<http://www.wikidata.org/.well-known/genid/0a1b>"
    path.write_text(
        f"<{E}Q1> <{P}P19> {unknown} .\n<{E}Q2> <{P}P19> <{E}Q84> .\n{unknown} <{P}P19>"
        f" <{E}Q84> .\n"
    )
    world = RdfWorld(path)
    assert dict(world.relation("place_of_birth")) == {"Q2": ("Q84",)}
    assert dict(world.predicate("is_birthplace_london")) == {"Q2": True}


def test_labels_for_all_languages_stand_in(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    labels = [
        ("Q1", "Ann", "en"),
        ("Q1", "Aaa", "mul"),
        ("Q2", "Bob", "mul"),
        ("Q3", "Cid", "fr"),
        ("Q4", " ", "en"),
        ("Q4", "Dan", "mul"),
    ]
    path.write_text(
        "".join(f'<{E}{x}> {LABEL} "{text}"@{language} .\n' for x, text, language in labels)
    )
    assert RdfWorld(path).labels(["Q1", "Q2", "Q3", "Q4"]) == {
        "Q1": "Ann",
        "Q2": "Bob",
        "Q4": "Dan",
    }
    assert RdfWorld(path).ids("Aaa") == ()


def test_only_the_catalogue(data: Path, tmp_path: Path) -> None:
    """The rest of a dump is skipped unseen, however it is spaced, and what is chosen is all
    there.
    """
    tree = data / "wikidata" / "royal92.nt.gz"
    full = RdfWorld(tree, keep="disk", cache=tmp_path)
    for keep in ("memory", "disk"):
        world = RdfWorld(tree, keep=keep, only="catalogue", cache=tmp_path)
        assert (len(full.relation("P26")) > 1_000, len(world.relation("P26"))) == (True, 0)
        assert {name: world.relation(name) for name in RELATIONS} == {
            name: full.relation(name) for name in RELATIONS
        }
        assert world._labels == full._labels
    path = tmp_path / "a.nt"
    kept = [
        f"<{E}Q1>\t<{P}P22>\t<{E}Q2>\t.",
        f"  <{E}Q1> <{P}P25><{E}Q3>. # said so",
        f'<{E}Q1> {LABEL} "a \\"@fr b"@en .',
    ]
    skipped = [
        f"<{E}Q1> <{P}P569> nonsense",
        f"<{E}Q1> <{P}P221> <{E}Q2> .",
        f'<{E}Q1> {LABEL} "un"@fr .',
        f'<{E}Q1> <{P}P22> "x" .',
    ]
    path.write_text("\n".join([*skipped, *kept]))
    world = RdfWorld(path, only="catalogue")
    assert len(world.store) == 3
    assert (world.relation("father").of("Q1"), world.relation("mother").of("Q1")) == (
        ("Q2",),
        ("Q3",),
    )
    assert world.label("Q1") == 'a "@fr b'
    with pytest.raises(InputError, match="'everything' or 'catalogue'"):
        RdfWorld(path, only="some")  # type: ignore[arg-type]
    path.write_text(f"<{E}Q1> <{P}P22> <not an IRI> .\n")
    with pytest.raises(DataError, match="a line after 1 is not N-Triples"):
        RdfWorld(path, only="catalogue")


@pytest.mark.parametrize("every", [48, pytest.param(1, marks=pytest.mark.slow)])
def test_a_sample_of_a_store(catalogue: Catalogue, real: RdfWorld, every: int) -> None:
    """Functions of the catalogue (all of them in the slow version) on a sample, without reading any
    relation whole.
    """
    world = real.sampled(100)
    assert world.sources() == real.sources()
    assert list(world.relation("father")) == sorted(real.relation("father"), key=to_iri)[:100]
    for composition, operands in catalogue.functions()[::every]:
        ours, theirs = compose(world, composition, operands), compose(real, composition, operands)
        assert ours.items() <= theirs.items(), (composition, operands)
        others = list(theirs)[:: max(1, len(theirs) // 5)]
        assert dict(ours.at(others)) == {x: theirs[x] for x in others}, (composition, operands)
    mothers = name_relation(world, world.relation("mother"))
    assert mothers.answers.items() <= name_relation(real, real.relation("mother")).answers.items()
    with pytest.raises(InputError, match="at least 1 input"):
        real.sampled(0)


def test_the_store_speaks_sparql(folder: Path) -> None:
    world = RdfWorld(folder)
    (row,) = world.query(f"SELECT (COUNT(*) AS ?n) WHERE {{ ?x <{P}P22> ?y }}")
    assert row["n"].value == "3000"
    with pytest.raises(InputError, match="cannot be read"):
        world.query("SELECT nothing")


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TASKLOOM_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder("facts") == tmp_path / ".cache" / "taskloom" / "facts"
    assert os.environ["HOME"] == str(tmp_path)
