"""Splits in memory: read once, sliced, batched, as a frame; the same examples as row by row."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskloom as tl
from taskloom.core import shards
from taskloom.core.errors import DataError
from taskloom.data import Examples, example_sequence

TEXT = st.text(max_size=5)
STEPS = st.builds(tl.Step, TEXT, TEXT, st.none() | st.tuples(st.integers(0, 3)) | st.just(()))
EXAMPLES = st.builds(
    lambda text, targets, number, key, steps: tl.Example(
        text, targets, {"number": number, "word": text}, key=key, derivation=steps, task="t"
    ),
    TEXT,
    st.lists(TEXT, min_size=1, max_size=3),
    st.integers(-5, 5),
    TEXT,
    st.lists(STEPS, max_size=3),
)


@given(st.lists(EXAMPLES, max_size=5), st.integers(0, 3))
def test_a_table_gives_back_the_examples_that_it_was_made_of(
    rows: list[tl.Example], skip: int
) -> None:
    table = shards.to_table(rows, 0, {"number": int, "word": str}).slice(skip)
    assert list(shards.to_examples(table)) == rows[skip:]


def data(folder: Path | None = None) -> tl.Dataset:
    return tl.make("babi/1", folder, set={"splits": {"train": {"n": 30}, "test": {"n": 7}}})


def test_a_split_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data(tmp_path / "d")
    loaded = tl.load(tmp_path / "d")
    read: list[Path] = []
    original = shards.read_stamped
    monkeypatch.setattr(shards, "read_stamped", lambda path: read.append(path) or original(path))  # type: ignore[func-returns-value]
    assert loaded["train"] is loaded["train"]
    assert loaded["train"][3] == loaded["train"][3]
    assert loaded.table("train") is loaded["train"].table
    assert len(read) == 1


def test_indices_slices_and_iteration_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example_sequence, "BLOCK", 4)
    monkeypatch.setattr(example_sequence, "KEPT", 2)
    rows = data()["train"]
    every = list(rows)
    assert [rows[i] for i in range(len(rows))] == every
    assert [rows[i] for i in (29, 3, 17, -1)] == [every[i] for i in (29, 3, 17, -1)]
    assert len(rows._decoded.blocks) <= 2
    for part in (
        slice(2, 5),
        slice(None, None, -1),
        slice(25, 90),
        slice(5, 2),
        slice(None, None, 7),
    ):
        assert list(rows[part]) == every[part]
    with pytest.raises(IndexError, match="has 30 examples; 30 is not one of them"):
        rows[30]


@pytest.mark.parametrize("most", [30, 29])
def test_a_split_that_is_read_at_random_is_kept_whole(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    for name, size in {"BLOCK": 4, "KEPT": 2, "GLANCES": 3, "MOST_KEPT": most}.items():
        monkeypatch.setattr(example_sequence, name, size)
    rows = data()["train"]
    every, order = list(rows), [(7 * i + 5) % 30 for i in range(30)]
    assert [rows[i] for i in order[:3]] == [every[i] for i in order[:3]]
    assert not rows._decoded.blocks, "a look here and there decodes nothing else"
    for _ in range(2):
        assert [rows[i] for i in order] == [every[i] for i in order]
    assert len(rows._decoded.blocks) == (8 if most == 30 else 0)
    for beyond in (30, -31):
        with pytest.raises(IndexError, match=f"has 30 examples; {beyond} is not one of them"):
            rows[beyond]


def test_a_dataset_is_a_mapping_of_splits() -> None:
    d = data()
    assert (len(d), list(d), "test" in d) == (2, ["train", "test"], True)
    assert {name: len(rows) for name, rows in d.items()} == {"train": 30, "test": 7}
    assert repr(d["test"]) == "<Examples 'test' of babi/1: 7 rows>"
    with pytest.raises(DataError, match=r"looked up by name, e.g. data\['train'\], not 0"):
        d[0]  # type: ignore[index]


def test_batches_are_columns_in_order() -> None:
    rows = data()["train"]
    batches = list(rows.batches(8, ("input", "target", "targets", "support")))
    assert [len(b["input"]) for b in batches] == [8, 8, 8, 6]
    assert [t for b in batches for t in b["input"]] == [e.input for e in rows]
    assert [t for b in batches for t in b["target"]] == [e.target for e in rows]
    assert [tuple(t) for b in batches for t in b["targets"]] == [e.targets for e in rows]
    assert [t for b in batches for t in b["support"]] == [e.traits["support"] for e in rows]
    assert list(next(rows.batches(3, "input"))) == ["input"]
    with pytest.raises(DataError, match="no column 'suport'"):
        next(rows.batches(3, "suport"))
    with pytest.raises(DataError, match="at least 1, not 0"):
        next(rows.batches(0))


def test_frames_have_a_column_for_each_trait() -> None:
    frame = data().to_pandas()
    assert list(frame["split"].unique()) == ["train", "test"]
    assert {"input", "target", "support", "question"} <= set(frame.columns)
    assert len(frame) == 37


def test_a_text_that_is_not_utf8_is_a_data_error() -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")]
    )
    table = pa.table({"input": bad, "targets": pa.array([["x"]], pa.list_(pa.string()))})
    with pytest.raises(DataError, match="not UTF-8"):
        list(Examples(table))


def test_what_is_missing_in_a_row_is_empty_in_its_example() -> None:
    columns = {
        "input": pa.array(["a", "b", "c"]),
        "targets": pa.array([["x"], None, ["y", "z"]], pa.list_(pa.string())),
        "key": pa.array([None, "k", None], pa.string()),
        "question": pa.nulls(3, pa.string()),
        "derivation": pa.array(
            [None, [{"rule": "r", "value": "v", "of": [0]}], []], pa.list_(shards.STEP)
        ),
        "traits": pa.array([{"n": 1, "s": None}, {"n": 2, "s": "t"}, {"n": None, "s": None}]),
    }
    first, second, third = Examples(pa.table(columns))
    assert (first, third) == (tl.Example("a", "x", {"n": 1}), tl.Example("c", ("y", "z"), {}))
    assert second == tl.Example(
        "b", (), {"n": 2, "s": "t"}, key="k", derivation=(tl.Step("r", "v", (0,)),)
    )


def test_a_name_is_no_number_of_an_example() -> None:
    with pytest.raises(
        TypeError,
        match=r"looked up by number or slice, e.g. examples\[0\] .* not 'a'; columns are in",
    ):
        data()["test"]["a"]  # type: ignore[call-overload]


def test_a_notebook_numbers_the_rows_of_a_slice_as_the_split_does() -> None:
    def numbers(examples: Examples) -> list[str]:
        return re.findall(r'<tr><td style="text-align:right">(\d+)</td>', examples._repr_html_())

    train = data()["train"]
    assert numbers(train) == [str(i) for i in range(10)]
    assert numbers(train[5:8]) == ["5", "6", "7"]
    assert numbers(train[20::4][1:]) == ["24", "28"]


def test_batches_import_no_pandas(tmp_path: Path) -> None:
    tl.make("babi/1", tmp_path / "d", changes={"splits": {"train": {"n": 20}}})
    code = (
        "import sys, taskloom as tl\n"
        "batch = next(tl.load(sys.argv[1])['train'].batches(5))\n"
        "assert len(batch['target']) == 5\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "d")], check=True)
