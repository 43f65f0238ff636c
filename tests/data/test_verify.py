from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import taskloom as tl
from taskloom.cli.app import run
from taskloom.core import shards
from taskloom.core.errors import DataError, InputError
from taskloom.core.plan import Plan
from taskloom.core.registry import SUITES, TASKS
from taskloom.data import dataset
from taskloom.data.verify import NAMED, _chosen, _chosen_rows, _Proof
from taskloom.recipe import read


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tl.make("ctl/A-independent", tmp_path / "d", set=["splits={train: {n: 1500}, iid: {n: 100}}"])
    return tmp_path / "d"


def test_all_is_well(folder: Path) -> None:
    found = tl.verify(folder, every=True)
    assert (found.rows, found.answers, found.wrong, found.method) == (
        1600,
        1600,
        (),
        "second solver",
    )
    assert tl.verify(folder).answers == 1100


def tamper(folder: Path, split: str, row: int, column: str, value: object) -> None:
    """Change one value and make every digest fit again, as a careful forger would."""
    path = folder / split / "00000.parquet"
    stamp = shards.read_stamp(path)
    assert stamp is not None
    table = shards.read(path)
    rows = table.to_pylist()
    rows[row][column] = value
    _store(folder, split, path, pa.Table.from_pylist(rows, schema=table.schema), stamp)


def _store(folder: Path, split: str, path: Path, changed: pa.Table, stamp: shards.Stamp) -> None:
    """Write a changed shard and make the digests of the manifest fit."""
    shards.write(path, changed, stamp.recipe, stamp.seed, split, stamp.start)
    manifest = json.loads((folder / "manifest.json").read_text())
    entry = manifest["splits"][split]
    entry["digest"] = dataset.split_digest(shards.block_digests(changed))
    manifest["digest"] = dataset.content_digest(manifest["splits"])
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_a_wrong_answer_is_found_though_all_digests_fit(folder: Path) -> None:
    right = tl.load(folder)["train"][1234].target
    tamper(folder, "train", 1234, "targets", ["0" if right != "0" else "1"])
    found = tl.verify(folder, every=True)
    assert [(w.split, w.index, w.solved) for w in found.wrong] == [("train", 1234, (right,))]


@pytest.mark.parametrize("sample", [1500, 40])
def test_rows_of_several_shards_are_checked_under_their_own_numbers(
    tmp_path: Path, sample: int
) -> None:
    data = tl.make(
        "ctl/A-independent", tmp_path / "d", set=["splits={train: {n: 2500}}"], shard_rows=1000
    )
    chosen = _chosen(data, "train", sample == 1500, sample)
    proof = _Proof(replace(data.recipe.plan(0), check=lambda example: ("?",)))
    for rows, table in _chosen_rows(data, "train", chosen, tmp_path / "d"):
        proof.check("train", rows, table)
    inputs = data.table("train").column("input").to_pylist()
    assert [(w.index, w.input) for w in proof.wrong] == [(i, inputs[i]) for i in chosen.tolist()]
    assert len(proof.wrong) == proof.remade == (2500 if sample == 1500 else 40)
    assert proof.differing == 0


def test_an_unreadable_input_is_a_wrong_answer_not_a_crash(folder: Path) -> None:
    tamper(folder, "iid", 5, "input", "what?")
    found = tl.verify(folder)
    assert [w.index for w in found.wrong] == [5]
    assert "no answer" in found.wrong[0].solved[0]


STEPS = shards.schema({}).field("derivation").type
MALFORMED: dict[str, tuple[str, pa.Array | None]] = {
    "no input column": ("input", None),
    "no task column": ("task", None),
    "numbers as inputs": ("input", pa.array(range(100))),
    "missing inputs": ("input", pa.nulls(100, pa.string())),
    "large texts": ("input", pa.array(["a"] * 100, pa.large_string())),
    "one text as answers": ("targets", pa.array(["a"] * 100)),
    "missing answers": ("targets", pa.array([[None]] * 100, pa.list_(pa.string()))),
    "no answers": ("targets", pa.array([[]] * 100, pa.list_(pa.string()))),
    "texts as indexes": ("index", pa.array(["1"] * 100)),
    "missing steps": ("derivation", pa.array([[None]] * 100, STEPS)),
    "a step from nowhere": (
        "derivation",
        pa.array([[{"rule": "a", "value": "b", "of": [9]}]] * 100, STEPS),
    ),
    "lists as traits": ("traits", pa.array([{"length": [1]}] * 100)),
}
"""A column, and what a forger puts in its place; None removes it."""


@pytest.mark.parametrize("name", MALFORMED)
def test_a_forged_shard_of_another_form_is_refused_by_every_reader(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    column, values = MALFORMED[name]
    path = folder / "iid" / "00000.parquet"
    stamp = shards.read_stamp(path)
    assert stamp is not None
    table = shards.read(path)
    forged = table.drop_columns([column])
    if values is not None:
        forged = table.set_column(table.column_names.index(column), column, values)
    manifest = json.loads((folder / "manifest.json").read_text())
    blocks = ["0" * 32] if name == "large texts" else shards.block_digests(forged)
    payload = {**asdict(stamp), "blocks": blocks}
    pq.write_table(forged.replace_schema_metadata({shards.METADATA: json.dumps(payload)}), path)
    manifest["splits"]["iid"]["digest"] = dataset.split_digest(blocks)
    manifest["digest"] = dataset.content_digest(manifest["splits"])
    (folder / "manifest.json").write_text(json.dumps(manifest))
    for command in (["verify"], ["show", "--split", "iid"], ["audit"]):
        assert run([command[0], str(folder), *command[1:]]) == 2
        said = capsys.readouterr().err
        assert "00000.parquet" in said
        assert column.removesuffix("s") in said


def test_tampering_without_new_digests(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["digest"] = "0" * 32
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="does not follow"):
        tl.verify(folder)


@pytest.mark.parametrize(("key", "value"), [("scorer", "any-of"), ("role", "test")])
def test_edited_words_of_the_manifest(folder: Path, key: str, value: str) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (manifest["splits"]["train"] if key == "role" else manifest)[key] = value
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="it was edited"):
        tl.verify(folder)


def test_a_stranger_among_the_shards(folder: Path) -> None:
    (folder / "train" / "00009.parquet").write_bytes(
        (folder / "train" / "00000.parquet").read_bytes()
    )
    with pytest.raises(DataError, match="does not know"):
        tl.verify(folder)


def test_an_edited_recipe(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["recipe"]["table_seed"] = 5
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="it was edited"):
        tl.verify(folder)


def test_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no manifest"):
        tl.verify(tmp_path)


def test_a_source_that_is_no_longer_what_it_was_is_named(tmp_path: Path) -> None:
    tl.make("taskbench/father", tmp_path / "d", set={"facts": "synthetic#people=300"})
    manifest = json.loads((tmp_path / "d/manifest.json").read_text())
    manifest["sources"] = {"synthetic world": "0" * 64}
    (tmp_path / "d/manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(
        DataError, match="but synthetic world has changed since the dataset was made; bring it back"
    ):
        tl.verify(tmp_path / "d")


def test_rows_without_a_second_solver_are_made_again_and_each_is_judged_alone(
    tmp_path: Path,
) -> None:
    (tmp_path / "t.py").write_text(
        "import taskloom as tl\n@tl.task('a/b', describe='d')\ndef f(rng: tl.Random) -> tl.Example:"
        " return tl.Example(str(rng.random()), str(rng.random()))\n"
    )
    data = tl.make(tmp_path / "t.py", set=["splits={train: {n: 1200}}"])
    plan = read(tmp_path / "t.py", ["splits={train: {n: 1200}}"]).plan(0)
    table = data.table("train")
    rows = np.array([*range(1100), 1150, 1151], dtype=np.int64)  # a long run, and a few rows apart
    stored = table.take(pa.array(rows))

    def wrong_in(plan: Plan, stored: pa.Table) -> dict[int, tuple[str, ...]]:
        proof = _Proof(plan)
        proof.check("train", rows, stored)
        assert proof.answers == proof.remade == len(rows)
        assert proof.differing == len(proof.wrong)
        return {wrong.index: wrong.solved for wrong in proof.wrong}

    assert wrong_in(plan, stored) == {}
    whole = plan.split("train").rows

    def failing(start: int, stop: int) -> Iterable[tl.Example] | pa.Table:
        if start <= 1050 < stop:
            raise InputError("this row is gone")
        return whole(start, stop)

    broken = replace(plan, splits=tuple(replace(split, rows=failing) for split in plan.splits))
    gone = {1050: ("no answer: this row is gone",)}
    assert wrong_in(broken, stored) == gone
    swapped = pa.concat_tables([table.slice(1, 1), stored.slice(1)])
    first = data["train"][0].input
    assert wrong_in(broken, swapped) == {0: (f"another input: {first}",), **gone}


def test_a_dataset_of_an_earlier_version_has_its_bytes_checked(tmp_path: Path) -> None:
    tl.make("babi/1", tmp_path / "d", set={"splits": {"train": {"n": 20}}})
    path = tmp_path / "d" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["recipe"]["version"] = 1
    path.write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="it was edited"):
        tl.verify(tmp_path / "d")
    assert len(tl.load(tmp_path / "d")["train"]) == 20


def test_answers_of_another_suite_version_are_proved_and_rows_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = SUITES.find("babi")
    assert suite is not None
    with monkeypatch.context() as earlier:
        earlier.setattr(suite, "version", suite.version - 1)
        tl.make("babi/1", tmp_path / "d", set={"splits": {"train": {"n": 20}}})
    right = tl.load(tmp_path / "d")["train"][3].target
    found = tl.verify(tmp_path / "d")
    assert (found.ok, found.answers, found.remade) == (True, 20, 0)
    assert f"version {suite.version - 1} of 'babi'" in found.unproved
    tamper(tmp_path / "d", "train", 3, "targets", ["nowhere"])
    found = tl.verify(tmp_path / "d")
    assert [(w.index, w.solved) for w in found.wrong] == [(3, (right,))]
    assert not found.ok


RECIPES: dict[str, tuple[str, dict[str, object]]] = {
    "ctl": ("ctl/A-independent", {"splits": {"train": {"n": 300}, "iid": {"n": 60}}}),
    "babi": ("babi/mix-T7", {"splits": {"mix": {"n": 60}}}),
    "taskbench": ("taskbench/father", {"facts": "synthetic#people=300"}),
    "zest": (
        "zest/synthetic",
        {"tasks.train": 12, "tasks.dev": 0, "tasks.test": 0, "passages": 2},
    ),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One small dataset of each suite, in folders that tests copy."""
    folder = tmp_path_factory.mktemp("made")
    for suite, (name, changes) in RECIPES.items():
        tl.make(name, folder / suite, changes=changes)
    return {suite: folder / suite for suite in RECIPES}


@pytest.mark.parametrize("suite", RECIPES)
def test_every_altered_column_of_every_suite_is_found_and_named(
    made: dict[str, Path], suite: str, tmp_path: Path
) -> None:
    shutil.copytree(made[suite], tmp_path / "d")
    split = tl.load(made[suite]).splits[0]
    rows = tl.load(made[suite]).table(split).to_pylist()
    traits = dict(rows[3]["traits"])
    trait = next(name for name, value in traits.items() if value is not None)
    other = traits[trait]
    traits[trait] = f"{other}x" if isinstance(other, str) else type(other)(not other)
    step = {"rule": "guess", "value": "", "of": None}
    altered = {
        (3, "traits", f"traits.{trait}"): traits,
        (5, "derivation", "derivation"): [*(rows[5]["derivation"] or []), step],
        (7, "key", "key"): "another key",
        (9, "index", "index"): 8,
        (11, "task", "task"): "another task",
        (13, "question", "question"): "Another question?",
        (15, "targets", "targets"): [*rows[15]["targets"], "another answer"],
        (17, "input", "input"): rows[17]["input"] + " ",
    }
    for (row, column, _), value in altered.items():
        tamper(tmp_path / "d", split, row, column, value)
    for every in (True, False):
        found = tl.verify(tmp_path / "d", every=every)
        assert not found.ok
        assert {d.index: d.columns for d in found.differences} == {
            row: (name,) for row, _, name in altered
        }
        assert found.columns == {name: 1 for _, _, name in altered}
        assert found.differing == len(altered)
    assert tl.verify(made[suite], every=True).ok


def test_the_order_of_answers_is_part_of_the_proof(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(
        "import taskloom as tl\n"
        "def solve(text): return ['a', 'b']\n"
        "@tl.task('a/order', describe='d', solve=solve)\n"
        "def f(rng: tl.Random) -> tl.Example: return tl.Example(str(rng.random()), ['a', 'b'])\n"
    )
    tl.make(tmp_path / "t.py", tmp_path / "d", changes={"splits": {"train": {"n": 30}}})
    tamper(tmp_path / "d", "train", 4, "targets", ["b", "a"])
    found = tl.verify(tmp_path / "d", task=tmp_path / "t.py")
    assert found.wrong == ()
    assert [(d.index, d.stored, d.made) for d in found.differences] == [
        (4, {"targets": ["b", "a"]}, {"targets": ["a", "b"]})
    ]


def test_planted_repeated_and_swapped_rows_are_found_and_traced(folder: Path) -> None:
    train = tl.load(folder).table("train").to_pylist()
    iid = tl.load(folder).table("iid").to_pylist()

    def put(index: int, row: dict[str, object]) -> None:
        for column, value in row.items():
            if column != "index":
                tamper(folder, "iid", index, column, value)

    put(2, train[700])  # planted
    put(10, iid[11])  # repeated
    put(20, iid[21])  # swapped
    put(21, iid[20])
    found = tl.verify(folder, every=True)
    assert found.wrong == ()
    notes = {d.index: d.note for d in found.differences}
    missing = "the row that belongs here is missing"
    assert notes == {
        2: f"the input is that of train 700; {missing}",
        10: f"the input is that of iid 11; {missing}",
        20: "the input is that of iid 21",
        21: "the input is that of iid 20",
    }


def test_many_differing_rows_are_counted_and_the_first_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "iid" / "00000.parquet"
    stamp, table = shards.read_stamp(path), shards.read(path)
    assert stamp is not None
    keys = pa.array([f"key {i}" for i in range(100)])
    changed = table.set_column(table.column_names.index("key"), "key", keys)
    _store(folder, "iid", path, changed, stamp)
    found = tl.verify(folder, every=True)
    assert (found.differing, found.columns) == (100, {"key": 100})
    assert [d.index for d in found.differences] == list(range(NAMED))
    assert run(["verify", str(folder), "--all"]) == 1
    shown = capsys.readouterr().out
    assert "100 differ (key in 100)" in shown
    assert f"and {100 - NAMED} more" in shown
    assert run(["verify", str(folder), "--all", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["columns"] == {"key": 100}


def test_a_dropped_column_and_a_column_too_many_differ_in_every_row(folder: Path) -> None:
    path = folder / "iid" / "00000.parquet"
    stamp, table = shards.read_stamp(path), shards.read(path)
    assert stamp is not None
    traits = [f"traits.{field.name}" for field in table.schema.field("traits").type]
    changed = table.drop_columns(["traits"]).append_column("extra", pa.nulls(100, pa.string()))
    _store(folder, "iid", path, changed, stamp)
    assert tl.verify(folder).columns == dict.fromkeys([*traits, "extra"], 100)


def test_a_described_dataset_is_proved(tmp_path: Path) -> None:
    changes = {"splits": {"train": {"n": 300}}, "described": {"level": "instruction"}}
    tl.make("ctl/A-independent", tmp_path / "d", changes=changes)
    found = tl.verify(tmp_path / "d", every=True)
    assert (found.ok, found.remade) == (True, 300)


def test_what_cannot_be_proved_is_stated(tmp_path: Path) -> None:
    """A task whose file is not given: its bytes are right, nothing else is known."""
    (tmp_path / "t.py").write_text(
        "import taskloom as tl\n@tl.task('a/unproved', describe='d')\n"
        "def f(rng: tl.Random) -> tl.Example: return tl.Example(str(rng.random()), 'a')\n"
    )
    tl.make(tmp_path / "t.py", tmp_path / "d", changes={"splits": {"train": {"n": 30}}})
    TASKS.forget(TASKS._origin["a/unproved"])
    found = tl.verify(tmp_path / "d")
    assert (found.rows, found.answers, found.remade) == (30, 0, 0)
    assert "no row was made again" in " ".join(found.lines())
    assert tl.verify(tmp_path / "d", task=tmp_path / "t.py").remade == 30


def test_what_the_manifest_says_of_the_rows_is_proved_too(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["splits"]["iid"]["counts"]["length"]["3"] += 1
    manifest["facts"] = {name: value + 0.5 for name, value in manifest["facts"].items()}
    manifest |= {"tasks_by": "length", "warnings": ["all is lost"]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    found = tl.verify(folder, every=True)
    assert not found.ok
    said = [line.split(" is ")[0].removeprefix("the manifest's ") for line in found.misstated]
    assert sorted(said) == ["facts", "splits.iid.counts", "tasks_by", "warnings"]


def test_other_lines_beside_the_shards_are_found(tmp_path: Path) -> None:
    sizes = ["splits={train: {n: 1500}, iid: {n: 100}}"]
    tl.make("ctl/A-independent", tmp_path, set=sizes, jsonl=True)
    assert tl.verify(tmp_path, every=True).ok
    path = tmp_path / "iid.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    for forged in (lines[:-1], [*lines, lines[0]], [lines[1], lines[0], *lines[2:]]):
        path.write_text("".join(forged))
        assert any("iid.jsonl" in line for line in tl.verify(tmp_path, every=True).misstated)
