"""Reading datasets: ours with the tools of the field, other people's with ours."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import taskloom as tl
from taskloom.core.errors import DataError, TaskloomError

SMALL = ["splits.train.n=2500"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("data") / "A"
    tl.make("ctl/A-independent", out, set=SMALL, shard_rows=1000, jsonl=True)
    return out


def test_plain_readers_agree(folder: Path) -> None:
    wanted = [(e.input, e.target) for e in tl.load(folder)["train"]]
    arrow = pq.read_table(folder / "train").to_pylist()
    assert [(r["input"], r["targets"][0]) for r in arrow] == wanted
    frame = pd.read_parquet(folder / "train")
    assert list(frame["input"]) == [i for i, _ in wanted]
    assert frame["traits"][0]["length"] == len(frame["input"][0].split()) - 1
    polar = pl.read_parquet(folder / "train" / "*.parquet")
    assert polar["input"].to_list() == [i for i, _ in wanted]
    assert polar.unnest("traits").group_by("length").len().height == 6
    lines = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    assert [(r["input"], r["targets"][0]) for r in lines] == wanted


def test_hugging_face_datasets(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import load_dataset

    files = {"train": str(folder / "train" / "*.parquet"), "ood": str(folder / "ood" / "*.parquet")}
    loaded = load_dataset("parquet", data_files=files, cache_dir=str(tmp_path))
    assert loaded["train"].num_rows == 2500
    assert loaded["ood"][0]["targets"] == list(tl.load(folder)["ood"][0].targets)
    whole = load_dataset(str(folder), cache_dir=str(tmp_path))
    assert set(whole) == {"train", "iid", "ood", "any", "pairs", "all_pairs"}
    assert whole["all_pairs"].num_rows == 8192


def test_examples_come_back_as_they_were(folder: Path) -> None:
    data = tl.load(folder)
    memory = tl.make("ctl/A-independent", set=SMALL)
    assert data.digest == memory.digest
    assert list(data["ood"]) == list(memory["ood"])
    assert data["ood"][-1] == list(memory["ood"])[-1]
    assert len(data["ood"]) == 1000
    assert "ood" in data
    with pytest.raises(IndexError, match="1000 examples"):
        data["ood"][1000]
    with pytest.raises(DataError, match="no split 'odd'; did you mean 'ood'"):
        data["odd"]


def test_the_manifest_is_whole(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["recipe"]["variant"] == "A"
    assert manifest["recipe"]["splits"]["train"] == {"n": 2500}
    assert manifest["seed"] == 0
    assert manifest["scorer"] == "exact"
    assert set(manifest["versions"]) == {"taskloom", "python", "numpy", "pyarrow"}
    counts = manifest["splits"]["train"]["counts"]
    assert counts["task"] == {"ctl/A": 2500}
    assert sum(counts["length"].values()) == 2500
    assert counts["functions"] == "many"
    assert counts["seen"] == {"true": 2500}


def foreign(folder: Path, **splits: list[dict[str, object]]) -> Path:
    folder.mkdir()
    for name, rows in splits.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return folder


def test_other_peoples_data(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"input": "a", "target": "b"}, {"input": "c", "target": 3}]
    data = tl.load(
        foreign(tmp_path / "x", train=[{"input": "a", "targets": ["b", "d"]}], test=[rows[0]])
    )
    assert data["train"][0].targets == ("b", "d")
    assert data["test"][0].target == "b"
    frame = pd.DataFrame([{"input": "a", "targets": "b"}])
    (tmp_path / "y").mkdir()
    frame.to_parquet(tmp_path / "y" / "test.parquet")
    assert tl.load(tmp_path / "y")["test"][0].target == "b"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"input": "a", "target": "b"}\n{"inp', "x.jsonl:2"),
        ("[1]\n", "not a JSON object"),
        ('{"input": "a", "target": null}\n', "at least one target"),
        ('{"input": "a", "targets": []}\n', "at least one target"),
        ('{"input": null, "target": "b"}\n', "needs an 'input'"),
        ('{"input": "a", "targets": [["b"]]}\n', "a column is not what it should be"),
        ('{"question": "a"}\n', "needs the columns"),
        ('{"input": "a", "target": "b"}\n{"input": ["a"], "target": 3}\n', "different shapes"),
    ],
)
def test_bad_foreign_files(tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(DataError) as caught:
        tl.load(tmp_path)
    assert word in str(caught.value)


def test_other_peoples_slips(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_bytes(b'{"input": "caf\xe9", "target": "b"}\n')
    with pytest.raises(DataError, match="jsonl:1 is not UTF-8"):
        tl.load(tmp_path)
    (tmp_path / "train.jsonl").write_text('\n{"input": "a", "target": "b"}\n\n')
    assert len(tl.load(tmp_path)["train"]) == 1
    pd.DataFrame([{"input": "a", "targets": "b"}]).to_parquet(tmp_path / "train.parquet")
    with pytest.raises(DataError, match="two sources for the split 'train'"):
        tl.load(tmp_path)


def test_an_unfinished_dataset_is_said_to_be_one(tmp_path: Path) -> None:
    tl.make("ctl/A-independent", tmp_path / "d", set=SMALL)
    (tmp_path / "d" / "manifest.json").unlink()
    with pytest.raises(DataError, match="unfinished"):
        tl.audit(tmp_path / "d")


def test_no_dataset_at_all(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds neither"):
        tl.load(tmp_path)
    with pytest.raises(DataError, match="no dataset folder"):
        tl.load(tmp_path / "none")
    (tmp_path / "manifest.json").write_text(
        '{"format": 99, "recipe": {}, "recipe_digest": "", "seed": 0, "digest": "", "splits": {}}'
    )
    with pytest.raises(DataError, match="format 99"):
        tl.load(tmp_path)


EDITS: list[tuple[list[str], object]] = [
    (["splits"], {}),
    (["splits"], []),
    (["splits", "train"], 5),
    (["splits", "train", "n"], True),
    (["splits", "train", "n"], -1),
    (["splits", "train", "n"], "5"),
    (["splits", "train", "role"], ["train"]),
    (["splits", "train", "digest"], 5),
    (["splits", "train", "shards"], 5),
    (["splits", "train", "shards"], [5]),
    (["splits", "train", "shards"], [{"file": "../../x.parquet", "rows": 1}]),
    (["splits", "train", "shards"], [{"file": "train/../../x.parquet", "rows": 1}]),
    (["splits", "train", "shards"], [{"file": 5, "rows": 1}]),
    (["splits", "train", "shards"], [{"file": "train/00000.parquet", "rows": None}]),
    (["sources"], [1]),
    (["describe"], {"a": 1}),
    (["scorer"], 5),
    (["tasks_by"], None),
    (["seed"], True),
    (["recipe"], "ctl/A"),
    (["format"], {}),
]


@pytest.mark.parametrize(("place", "value"), EDITS)
def test_an_edited_manifest_is_refused_with_one_sentence(
    place: list[str], value: object, folder: Path, tmp_path: Path
) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    here = manifest
    for step in place[:-1]:
        here = here[step]
    here[place[-1]] = value
    (tmp_path / "edited").mkdir()
    (tmp_path / "edited" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"make the dataset again$") as caught:
        tl.load(tmp_path / "edited")
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"format": ' * 100_000, "null", "[]", "5", '{"format": 1']
)
def test_a_manifest_that_is_no_mapping_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DataError, match="is not a Taskloom manifest"):
        tl.load(tmp_path)


def test_a_dataset_without_a_split_is_not_made() -> None:
    with pytest.raises(TaskloomError, match=r"splits: .*at least one"):
        tl.make(Path(__file__).parents[2] / "examples" / "reverse.py", set=["splits={}"])


def test_a_column_of_a_type_that_no_dataset_has_is_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    tl.make("ctl/A", folder, set=["splits.train.n=40", "splits.iid.n=5", "splits.ood.n=5"])
    shard = next((folder / "iid").glob("*.parquet"))
    table = pq.read_table(shard)
    place = table.column_names.index("input")
    pq.write_table(table.set_column(place, "input", table.column("input").cast(pa.binary())), shard)
    with pytest.raises(DataError, match="has binary in 'input'"):
        tl.verify(folder)


def test_a_folder_that_was_made_anew_does_not_answer_for_the_dataset_that_was_loaded(
    tmp_path: Path,
) -> None:
    small = {"splits.train.n": 1500}
    tl.make("ctl/A-independent", tmp_path / "d", set=small, seed=1, shard_rows=1000)
    loaded = tl.load(tmp_path / "d")
    train = loaded["train"]
    other = tl.make(
        "ctl/A-independent", tmp_path / "d", set=small, seed=2, shard_rows=1000, force=True
    )
    assert loaded["train"] is train, "what was read stays"
    with pytest.raises(DataError, match=r"split 'iid' are of another dataset.*load it again"):
        _ = loaded["iid"]
    assert len(other["iid"]) == 1000


def test_a_file_of_another_seed_is_not_taken_for_a_part_of_the_split(tmp_path: Path) -> None:
    for seed in (1, 2):
        tl.make(
            "ctl/A-independent",
            tmp_path / str(seed),
            set={"splits.train.n": 2000},
            seed=seed,
            shard_rows=1000,
        )
    (tmp_path / "2/train/00001.parquet").replace(tmp_path / "1/train/00001.parquet")
    with pytest.raises(DataError, match="split 'train' are of another dataset"):
        _ = tl.load(tmp_path / "1")["train"]


@pytest.mark.parametrize("name", ["manifest.json", "iid/00000.parquet"])
def test_a_pipe_in_place_of_a_file_is_refused(tmp_path: Path, name: str) -> None:
    tl.make("ctl/A-independent", tmp_path, set=["splits={train: {n: 300}, iid: {n: 5}}"])
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="is a pipe"):
        tl.verify(tmp_path)
    with pytest.raises(DataError, match="is a pipe"):
        tl.load(tmp_path).table("iid")


def test_a_split_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("input,target\na,b\n")
    os.mkfifo(tmp_path / "test.csv")
    with pytest.raises(DataError, match="is a pipe"):
        tl.load(tmp_path)


def test_a_small_file_of_very_many_rows_is_refused(tmp_path: Path) -> None:
    part = pa.table({"input": pa.array(["a"] * 1_000_000), "target": pa.array(["b"] * 1_000_000)})
    file = tmp_path / "test.parquet"
    with pq.ParquetWriter(file, part.schema) as writer:
        for _ in range(51):
            writer.write_table(part)
    assert file.stat().st_size < 1_000_000
    with pytest.raises(DataError, match=r"test\.parquet has 51,000,000 rows"):
        tl.load(tmp_path)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_number_of_columns_has_a_limit(tmp_path: Path, kind: str) -> None:
    row = {"input": "a", "target": "b", **{f"c{number}": 1 for number in range(1_000)}}
    if kind == "csv":
        text = "\n".join(",".join(map(str, part)) for part in (row, row.values()))
    else:
        text = json.dumps(row)
    (tmp_path / f"test.{kind}").write_text(text + "\n")
    with pytest.raises(DataError, match=r"1,002 columns"):
        tl.load(tmp_path)
