"""Files of predictions: lines, records with and without ids, pipes, standard input, and what is
wrong with a file.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.cli.app import run
from taskloom.core.errors import InputError
from taskloom.core.predictions import predictions_for, some_predictions_for

Records = list[dict[str, Any]]


def read(path: Path, examples: int = 0, **options: Any) -> list[str]:
    return [prediction.text for prediction in predictions_for(path, examples, **options)]


def as_jsonl(rows: Records) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_csv(rows: Records, delimiter: str = ",") -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def as_parquet(rows: Records) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


WRITERS: dict[str, Callable[[Records], bytes]] = {
    "p.jsonl": as_jsonl,
    "p.txt": as_jsonl,
    "p.csv": as_csv,
    "p.tsv": lambda rows: as_csv(rows, "\t"),
    "table.txt": as_csv,
    "p.parquet": as_parquet,
    "parquet.bin": as_parquet,
}
"""File names and what is in them: endings that do not say it are recognised by the content."""


each_form = pytest.mark.parametrize("name", WRITERS)


def written(folder: Path, name: str, rows: Records) -> Path:
    """Write records in the form that a file name stands for."""
    path = folder / name
    path.write_bytes(WRITERS[name](rows))
    return path


def test_reading_lines(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_bytes(b'a b\r\n\n"two\\nlines"\nlast')
    assert read(path) == ["a b", "", "two\nlines", "last"]
    path.write_bytes(b"")
    assert read(path) == []


@each_form
def test_records_are_matched_by_their_ids(tmp_path: Path, name: str) -> None:
    texts = ["a, b", 'say "x"', "", "two\nlines", "ä\u2028", "{}"] * 3
    rows: Records = [{"id": i, "prediction": text, "more": 1} for i, text in enumerate(texts)]
    random.Random(0).shuffle(rows)
    assert read(written(tmp_path, name, rows), len(texts)) == texts


@each_form
@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ([0, 1, 1], "repeats the id '1'"),
        ([0, 1, 3], "has the id '3', which does not belong to any example; ids are '0' to '2'"),
        ([0, 2], "no predictions for 1 of 3 examples; the first of these has the id '1'"),
        (["a", "b", "c"], "has the id 'a', which does not belong to any example"),
    ],
)
def test_wrong_ids_are_one_sentence(tmp_path: Path, name: str, ids: list[Any], says: str) -> None:
    path = written(tmp_path, name, [{"id": i, "prediction": "x"} for i in ids])
    with pytest.raises(InputError, match=says):
        read(path, 3)


@pytest.mark.parametrize("name", [n for n in WRITERS if n != "table.txt"])
def test_records_without_ids_are_in_order(tmp_path: Path, name: str) -> None:
    assert read(written(tmp_path, name, [{"prediction": x} for x in "cab"]), 3) == ["c", "a", "b"]


@each_form
def test_only_the_rows_of_the_split_count(tmp_path: Path, name: str) -> None:
    rows: Records = [
        {"split": s, "index": i, "prediction": f"{s}{i}"} for s in ("dev", "test") for i in (1, 0)
    ]
    path = written(tmp_path, name, rows)
    assert read(path, 2, split="test") == ["test0", "test1"]
    with pytest.raises(InputError, match="did you mean 'test'"):
        read(path, 2, split="tset")
    with pytest.raises(InputError, match="several splits"):
        read(path, 2)


def test_ids_are_one_in_every_spelling_and_values_need_not_be_texts(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(
        '{"id": "2", "prediction": 3}\n\n{"id": 0.0, "prediction": true}\n{"id": 1, "prediction":'
        ' [{"a": "ä"}]}'
    )
    assert read(path, 3) == ["true", '[{"a": "ä"}]', "3"]


@each_form
@pytest.mark.parametrize("column", ["idx", "Index", "index ", " ID", "IDX"])
def test_ids_are_found_in_every_spelling_of_their_column(
    tmp_path: Path, name: str, column: str
) -> None:
    rows: Records = [{column: i, "prediction": f"p{i}"} for i in (2, 0, 1)]
    assert read(written(tmp_path, name, rows), 3) == ["p0", "p1", "p2"]


@pytest.mark.parametrize("name", [n for n in WRITERS if n != "table.txt"])
@pytest.mark.parametrize("column", ["example_id", "", "Unnamed: 0", "Doc.Index"])
def test_numbers_that_contradict_the_order_of_the_records_are_refused(
    tmp_path: Path, name: str, column: str
) -> None:
    rows: Records = [{column: i, "prediction": f"p{i}"} for i in (2, 0, 1)]
    with pytest.raises(InputError, match="a different order than the numbers in the column"):
        read(written(tmp_path, name, rows), 3)
    rows.sort(key=lambda row: int(row[column]))
    assert read(written(tmp_path, name, rows), 3) == ["p0", "p1", "p2"]


def test_numbers_of_something_else_say_nothing_about_the_order(tmp_path: Path) -> None:
    rows: Records = [{"request_id": i, "prediction": x} for i, x in ((17, "a"), (3, "b"))]
    assert read(written(tmp_path, "p.jsonl", rows), 2) == ["a", "b"]


def test_examples_may_have_names(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(as_jsonl([{"id": "t/1", "prediction": "b"}, {"id": "t/0", "prediction": "a"}]))
    assert read(path, 2, names=["t/0", "t/1"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "raw", "says"),
    [
        ("p.txt", b'{"id": 0, "answer": "a"}\n', "has records without 'prediction'"),
        ("p.txt", b'{"answer": "a"}\n', "has records without 'prediction'"),
        ("p.jsonl", b'{"id": 0, "predicton": "a"}\n', "did you mean 'predicton'"),
        ("p.jsonl", b'{"prediction": "a"}\nb\n', ":2 is not a JSON object"),
        ("p.jsonl", b"a\n", ":1 is not a JSON object"),
        ("p.jsonl", b'{"prediction": null}\n', ":1 has no 'prediction'"),
        ("p.jsonl", b'{"id": 0, "prediction": "a"}\n{"prediction": "a"}\n', ":2 has no id"),
        ("p.jsonl", b'{"prediction": "a"}\n{"id": 0, "prediction": "a"}\n', ":1 has no id"),
        ("p.jsonl", b'{"id": true, "prediction": "a"}\n', ":1 has no id"),
        (
            "p.jsonl",
            b'{"prediction": "a"}\n{"prediction": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
            ":2 is not",
        ),
        ("p.csv", b"id,answer\n0,a\n", "has records without 'prediction'"),
        ("p.csv", b"id,prediction\n0,a,b\n", ":2 has more or fewer fields"),
        ("p.csv", b"id,prediction\n0\n", ":2 has more or fewer fields"),
        ("p.csv", b'id,prediction\n0,"a"b\n', "is not a CSV file"),
        ("p.csv", b"id,prediction\n0,\xff\n", "not UTF-8 text"),
        ("p.csv", b"", "has records without 'prediction'"),
        ("p.parquet", b"PAR1", "is not a Parquet file"),
        ("p.parquet", b"a\n", "is not a Parquet file"),
        ("p.parquet", as_parquet([{"x": 1}]), "has records without 'prediction'"),
        ("p.txt", b"a\n\xff\n", "not UTF-8 text"),
        ("p.txt", b'yes\n"a\\x"\n', ":2: the line begins and ends"),
        ("p.txt", b'"', ":1: the line begins"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, name: str, raw: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(InputError, match=says) as error:
        read(tmp_path / name, 1)
    assert len(str(error.value)) < 1_000


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(InputError, match="there is no file"):
            read(path)


def test_where_answers_are_objects_a_line_may_be_one(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_text('{"a": "x"}\n{"a": "y"}\n')
    assert read(path, 2, objects=True) == ['{"a": "x"}', '{"a": "y"}']
    with pytest.raises(InputError, match="records without 'prediction'"):
        read(path, 2)


def test_a_long_field_of_a_table(tmp_path: Path) -> None:
    path, before = tmp_path / "p.csv", csv.field_size_limit()
    path.write_bytes(as_csv([{"id": 0, "prediction": "x" * 300_000}]))
    assert len(read(path, 1)[0]) == 300_000
    assert csv.field_size_limit() == before


def test_predictions_may_come_through_a_pipe() -> None:
    """As in a shell: --pred <(my-system), which names an open file of the process."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as writer:
        writer.write('{"id": 1, "prediction": "b"}\n{"id": 0, "prediction": "a"}')
    assert read(Path(f"/dev/fd/{reading}"), 2) == ["a", "b"]
    os.close(reading)


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), min_size=1, max_size=6),
    st.randoms(),
)
def test_every_form_gives_the_same_predictions(texts: list[str], rng: random.Random) -> None:
    rows: Records = [{"id": i, "prediction": text} for i, text in enumerate(texts)]
    rng.shuffle(rows)
    for write in (as_jsonl, as_csv, as_parquet):
        stdin = io.TextIOWrapper(io.BytesIO(write(rows)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", stdin)
            assert [p.text for p in predictions_for("-", len(texts))] == texts


GOLD = {
    "id": "b",
    "question": "What is it?",
    "type": {"generalization_type": "normal", "derives_from": [], "domain": "owls"},
    "examples": [{"context": "c", "answer": a} for a in ("owl", "n/a", '[{"a": "x"}]')],
}


@pytest.mark.parametrize("ids", [["0", "1", "2"], ["b/0", "b/1", "b/2"]])
@pytest.mark.parametrize("write", [as_jsonl, as_csv, as_parquet])
def test_a_suites_own_evaluation_matches_ids(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    write: Callable[[Records], bytes],
    ids: list[str],
) -> None:
    (tmp_path / "gold.jsonl").write_text(json.dumps(GOLD))
    texts = ["owl", "n/a", '[⁇"a": "x"⁇]']
    rows: Records = [{"id": i, "prediction": t} for i, t in zip(ids, texts, strict=True)][::-1]
    (tmp_path / "p").write_bytes(write(rows))
    words = [
        "score",
        "zest",
        "--gold",
        str(tmp_path / "gold.jsonl"),
        "--pred",
        str(tmp_path / "p"),
        "--json",
    ]
    for mode in ("official", "corrected"):
        assert run([*words, "--mode", mode]) == 0
        assert json.loads(capsys.readouterr().out)["instance_mean"] == 1.0
    (tmp_path / "p").write_bytes(write(rows[1:]))
    assert run(words) == 2
    assert "no predictions for 1 of 3 examples" in capsys.readouterr().err


def test_a_dataset_is_scored_from_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    rows = [{"input": f"x{i}", "target": f"y{i}"} for i in range(3)]
    (tmp_path / "data" / "test.jsonl").write_bytes(as_jsonl(rows))
    table = as_parquet([{"index": i, "prediction": f"y{i}", "split": "test"} for i in (2, 0, 1)])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(table)))
    assert run(["score", "mine", "--gold", str(tmp_path / "data"), "--pred", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == 1.0


def test_thoughts_in_a_file_of_replies_are_no_predictions(tmp_path: Path) -> None:
    replies = ["<think>garden</think>\nkitchen", "<think>the answer is kitchen", "kitchen"]
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(map(json.dumps, replies)))
    records = tmp_path / "records.jsonl"
    records.write_text("\n".join(json.dumps({"prediction": text}) for text in replies))
    for file in (lines, records):
        assert [row.text for row in predictions_for(file, 3)] == ["kitchen", "", "kitchen"]


def test_sample_files_of_lm_eval_are_records(tmp_path: Path) -> None:
    file = tmp_path / "samples_stories.jsonl"
    rows = [{"doc_id": 2, "resps": [["garden"]]}, {"doc_id": 0, "resps": [["<think>a</think>b"]]}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    numbers, found = some_predictions_for(file, 5)
    assert list(numbers) == [0, 2]
    assert [one.text for one in found] == ["b", "garden"]
