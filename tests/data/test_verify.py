from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import taskloom as tl
from taskloom.core import shards
from taskloom.core.errors import DataError, InputError
from taskloom.data import dataset
from taskloom.data.verify import _check_answers, _chosen, _made_again
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
    changed = pa.Table.from_pylist(rows, schema=table.schema)
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
    mistaken = replace(data.recipe.plan(0), check=lambda example: ("?",))
    wrong = list(_check_answers(data, mistaken, "train", chosen, tmp_path / "d"))
    inputs = data.table("train").column("input").to_pylist()
    assert [(w.index, w.input) for w in wrong] == [(i, inputs[i]) for i in chosen.tolist()]
    assert len(wrong) == (2500 if sample == 1500 else 40)


def test_an_unreadable_input_is_a_wrong_answer_not_a_crash(folder: Path) -> None:
    tamper(folder, "iid", 5, "input", "what?")
    found = tl.verify(folder)
    assert [w.index for w in found.wrong] == [5]
    assert "no answer" in found.wrong[0].solved[0]


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
        "import taskloom as tl\n@tl.task('a/b', describe='d')\n"
        "def f(rng: tl.Random) -> tl.Example: return tl.Example(str(rng.random()), str(rng.random()))\n"
    )
    data = tl.make(tmp_path / "t.py", set=["splits={train: {n: 1200}}"])
    plan = read(tmp_path / "t.py", ["splits={train: {n: 1200}}"]).plan(0)
    examples = list(data["train"])
    rows = np.array([*range(1100), 1150, 1151], dtype=np.int64)  # two blocks, and a few rows apart
    stored = [examples[row] for row in rows.tolist()]
    wanted = [example.targets for example in stored]
    assert [solved for _, solved in _made_again(plan, "train", rows, stored)] == wanted
    whole = plan.split("train").rows

    def failing(start: int, stop: int) -> Iterable[tl.Example]:
        if start <= 1050 < stop:
            raise InputError("this row is gone")
        return whole(start, stop)

    broken = replace(plan, splits=tuple(replace(split, rows=failing) for split in plan.splits))
    wanted[1050] = ("no answer: this row is gone",)
    assert [solved for _, solved in _made_again(broken, "train", rows, stored)] == wanted
    wanted[0] = (f"another input: {examples[0].input}",)
    stored[0] = examples[1]
    assert [solved for _, solved in _made_again(broken, "train", rows, stored)] == wanted


def test_a_dataset_of_an_earlier_version_has_its_bytes_checked(tmp_path: Path) -> None:
    tl.make("babi/1", tmp_path / "d", set={"splits": {"train": {"n": 20}}})
    path = tmp_path / "d" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["recipe"]["version"] = 1
    path.write_text(json.dumps(manifest))
    with pytest.raises(
        DataError,
        match=r"its bytes are those of the manifest, but it was made by version 1 of 'babi', this is",
    ):
        tl.verify(tmp_path / "d")
    assert len(tl.load(tmp_path / "d")["train"]) == 20
