"""Files that come from elsewhere: datasets (manifest and shards), predictions, run stores."""

from __future__ import annotations

import csv
import io
import json
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from hypothesis import strategies as st

import taskloom as tl
from taskloom.core import shards
from taskloom.core.predictions import predictions_for
from taskloom.data import dataset, load
from taskloom.data.competence import score_dataset
from taskloom.data.verify import verify
from taskloom.experiments.rescore import verify_runs
from taskloom.suites.zest.evaluation import score
from taskloom.suites.zest.task_files import tasks_from
from tests.fuzz.engine import Refuted, Verdict, target
from tests.fuzz.strategies import (
    ODD_TEXTS,
    as_text,
    mutated_bytes,
    mutated_json,
    mutated_text,
    odd_values,
)

SMALL = ["symbols=4", "functions=6", "max_length=3", "splits={train: {n: 40}, iid: {n: 5}}"]


@cache
def _dataset() -> Path:
    folder = Path(mkdtemp(prefix="taskloom-fuzz-base-"))
    tl.make("ctl/A-independent", folder / "data", set=SMALL)
    return folder / "data"


def _copied(folder: Path) -> Path:
    """Return a copy of the dataset whose own files are the originals, whatever an earlier input
    did.
    """
    place = folder / "data"
    shutil.copytree(_dataset(), place, dirs_exist_ok=True)
    return place


def _manifest() -> Any:
    manifest = json.loads((_dataset() / "manifest.json").read_text())
    evil = {
        **manifest,
        "recipe": {
            **manifest["recipe"],
            "name": "evil.py::x",
            "suite": "evil.py",
            "code": {"evil.py": "0" * 32},
        },
    }
    return [manifest, evil]


def _read_all(place: Path) -> None:
    data = load(place)
    for split in data.splits:
        list(data[split])


@target(
    "manifests",
    st.deferred(
        lambda: st.one_of(
            mutated_json(_manifest()).map(json.dumps),
            mutated_text([json.dumps(_manifest()[0])], ['"', "{", "[", "9"]),
        )
    ),
    weight=6,
    cost=8,
    warm=lambda: _dataset(),
)
def manifests(text: str, folder: Path) -> Verdict:
    """Load and verify a dataset whose manifest was edited; code that lies beside it never runs."""
    place = _copied(folder)
    (place / "evil.py").write_text("raise SystemExit('code from data')\n")
    (place / "manifest.json").write_bytes(as_text(text))
    _read_all(place)
    verification = verify(place, sample=2)
    return "checked" if verification.answers else "accepted"


@target(
    "parquet",
    st.deferred(
        lambda: mutated_bytes([next((_dataset() / "train").glob("*.parquet")).read_bytes()])
    ),
    weight=6,
    cost=5,
    warm=lambda: _dataset(),
)
def parquet(data: str, folder: Path) -> Verdict:
    """Verify a dataset one of whose shards was damaged: what is accepted has the rows that its
    digest says.
    """
    place = _copied(folder)
    shard = next((place / "train").glob("*.parquet"))
    shard.write_bytes(data.encode("latin-1", "replace"))
    verification = verify(place, sample=2)
    if verification.wrong:
        raise Refuted("a damaged shard passed its digest and has wrong answers")
    return "checked"


@target(
    "foreign",
    st.deferred(lambda: st.tuples(st.sampled_from(["test.jsonl", "test.parquet"]), _foreign())),
    weight=16,
    cost=2,
)
def foreign(given: tuple[str, str], folder: Path) -> Verdict:
    """Load files that somebody else wrote."""
    name, data = given
    place = folder / "theirs"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    (place / name).write_bytes(
        data.encode("latin-1", "replace") if name.endswith("parquet") else as_text(data)
    )
    _read_all(place)
    return "accepted"


def _foreign() -> st.SearchStrategy[str]:
    rows: list[dict[str, Any]] = [
        {"input": "a", "target": "b"},
        {
            "input": "c",
            "targets": ["d"],
            "traits": {"n": 1},
            "derivation": [{"rule": "x", "value": "y", "of": [0]}],
        },
    ]
    lines = mutated_json(rows).map(lambda row: json.dumps(row) + "\n" + json.dumps(rows[0]))
    return st.one_of(
        lines,
        mutated_text([json.dumps(row) for row in rows], ["{", "}", ",", "null", "\n"]),
        mutated_bytes([_table(rows[:1])]),
    )


def _table(rows: list[dict[str, Any]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


# Own tables

HEADS = ["input", "target", "size", "kind", "Index", "index ", "id", "task", "targets", "split"]
CELLS = [
    "",
    "a",
    "b",
    "1",
    "2.5",
    "-0",
    "1e999",
    "nan",
    "true",
    "2001-01-01",
    "x" * 200,
    '["a"]',
    "{}",
    *ODD_TEXTS,
]


@st.composite
def own_tables(draw: st.DrawFn) -> list[str]:
    """Draw the CSV files of two splits: they share columns, but not the types of their cells."""
    files = []
    for _ in ("train", "test"):
        more = draw(st.lists(st.sampled_from(HEADS[2:]), max_size=4))
        heads = ["input", "target", *more]
        file = io.StringIO()
        writer = csv.writer(file, delimiter=draw(st.sampled_from(",,,;\t")))
        writer.writerow(heads)
        # Each column has cells of a few kinds, so that most columns have a type.
        kinds = [draw(st.lists(st.sampled_from(CELLS), min_size=1, max_size=3)) for _ in heads]
        for _ in range(draw(st.integers(0, 6))):
            writer.writerow([draw(st.sampled_from(cells)) for cells in kinds])
        files.append(file.getvalue())
    return files


@target("tables", own_tables(), weight=8, cost=8)
def tables(texts: list[str], folder: Path) -> Verdict:
    """Read and audit the CSV files of two splits that somebody else wrote."""
    place = folder / "own"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, text in zip(("train", "test"), texts, strict=True):
        (place / f"{name}.csv").write_bytes(as_text(text))
    _read_all(place)
    tl.audit(place)
    return "accepted"


# Altered rows


@cache
def _loaded() -> tl.Dataset:
    return load(_dataset())


@st.composite
def altered_cells(draw: st.DrawFn) -> list[list[Any]]:
    """Draw rows of a split, a column of each, and the value that is put there."""
    rows = st.integers(0, 4)
    columns = st.sampled_from(
        ["input", "targets", "traits", "derivation", "question", "key", "task", "index"]
    )
    values = st.one_of(odd_values, st.lists(st.sampled_from(ODD_TEXTS), max_size=3), rows)
    return draw(st.lists(st.tuples(rows, columns, values).map(list), min_size=1, max_size=4))


@target("alterations", altered_cells(), weight=6, cost=10, warm=lambda: _dataset(), siblings=0)
def alterations(cells: list[list[Any]], folder: Path) -> Verdict:
    """Alter cells of a dataset and compute its digests again: `verify` names every altered row."""
    data = load(_dataset())
    before = data.table("iid").to_pylist()
    rows = [dict(row) for row in before]
    for at, column, value in cells:
        row = rows[at % len(rows)]
        if column == "traits":
            name = sorted(row["traits"])[at % len(row["traits"])]
            row["traits"] = {**row["traits"], name: value}
        else:
            row[column] = value
    try:
        table = pa.Table.from_pylist(rows, schema=data.table("iid").schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, UnicodeError):
        return "refused"  # no shard can hold such a value
    after = table.to_pylist()
    verification = verify(with_rows(data, "iid", table), every=True)
    altered = [one != other for one, other in zip(after, before, strict=True)]
    if verification.differing != sum(altered):
        raise Refuted(f"{sum(altered)} rows were altered, {verification.differing} found")
    return "checked"


def with_rows(data: tl.Dataset, split: str, table: pa.Table) -> tl.Dataset:
    """Return a dataset with other rows in a split, and digests that fit them."""
    entry = {**data.manifest["splits"][split]}
    entry["digest"] = dataset.split_digest(shards.block_digests(table))
    splits = {**data.manifest["splits"], split: entry}
    manifest = {**data.manifest, "splits": splits, "digest": dataset.content_digest(splits)}
    return tl.Dataset(manifest, {**data.tables, split: table})


# Predictions

GOLD = tasks_from(
    [
        {
            "id": "b",
            "question": "What is it?",
            "type": {"generalization_type": "normal", "derives_from": [], "domain": "owls"},
            "examples": [{"context": "c", "answer": a} for a in ("owl", "n/a", '[{"a": "x"}]')],
        }
    ]
)
RECORDS = [{"id": i, "prediction": text} for i, text in enumerate(["owl", "n/a", "yes", "3", "0"])]
JSONL = "".join(json.dumps(r) + "\n" for r in RECORDS)
CSV = "id,prediction\n" + "".join(f"{r['id']},{r['prediction']}\n" for r in RECORDS)
prediction_files = st.one_of(
    st.tuples(
        st.sampled_from(["p.txt", "p.jsonl", "p.csv", "p.tsv", "p"]),
        mutated_text(
            [JSONL, CSV, "owl\nn/a\n0\n1\n2\n", '"a"\n[{"a": "x"}]\n'],
            ["\n", ",", '"', "{", "}", "id", "prediction", "split", "\t"],
        ),
    ),
    st.tuples(
        st.sampled_from(["p.jsonl", "p.txt"]),
        mutated_json([RECORDS]).map(
            lambda rows: (
                "\n".join(json.dumps(r) for r in rows)
                if isinstance(rows, list)
                else json.dumps(rows)
            )
        ),
    ),
    st.tuples(st.sampled_from(["p.parquet", "p.bin"]), mutated_bytes([_table(RECORDS)])),
)


@target("predictions", prediction_files, weight=14, cost=3, warm=lambda: _loaded())
def predictions(given: tuple[str, str], folder: Path) -> Verdict:
    """Score a file of predictions in the ways that there are; ids decide, not the order of
    lines.
    """
    name, text = given
    path = folder / name
    path.write_bytes(
        text.encode("latin-1", "replace") if name.endswith(("parquet", "bin")) else as_text(text)
    )
    problems = []
    for attempt in (
        lambda: score_dataset(_loaded(), "iid", path),
        lambda: score(GOLD, path, "corrected"),
        lambda: score(GOLD, path, "official"),
    ):
        try:
            attempt()
        except tl.TaskloomError as error:
            problems.append(error)
    if len(problems) == 3:
        raise problems[0]
    predictions_for(path, 5)
    return "accepted"


# Run stores


@cache
def _runs() -> Path:
    store = Path(mkdtemp(prefix="taskloom-fuzz-runs-")) / "runs"
    recipe = {
        "recipe": "ctl/A-independent",
        "set": {
            "symbols": 4,
            "functions": 6,
            "max_length": 3,
            "splits": {"train": {"n": 40}, "iid": {"n": 5}},
        },
    }
    tl.run(recipes=[recipe], learners=["majority"], seeds=2, store=store, workers=1)
    return store


@cache
def _run_files() -> list[str]:
    return sorted(
        str(p.relative_to(_runs()))
        for p in _runs().rglob("*")
        if p.is_file()
        and p.stat().st_size < 100_000
        and "data" not in p.relative_to(_runs()).parts[:1]
    )


@st.composite
def damaged_runs(draw: st.DrawFn) -> tuple[str, str]:
    """Draw a file of a run store and what becomes of it."""
    name = draw(st.sampled_from(_run_files()))
    raw = (_runs() / name).read_bytes()
    if name.endswith(".json"):
        return name, draw(
            st.one_of(
                mutated_json([json.loads(raw)]).map(json.dumps),
                mutated_text([raw.decode()], ['"', "{", "[", "9", "nan"]),
            )
        )
    if name.endswith(".yaml"):
        return name, draw(
            st.one_of(
                mutated_json([yaml.safe_load(raw)]).map(yaml.safe_dump),
                mutated_text([raw.decode()], ["- ", ": ", "[", "{", "&a", "*a", "!!python/x "]),
            )
        )
    return name, draw(mutated_bytes([raw]))


@target("runs", st.deferred(damaged_runs), weight=4, cost=8, warm=lambda: _run_files())
def runs(given: tuple[str, str], folder: Path) -> Verdict:
    """Read, count and verify a run store one of whose files was edited."""
    name, text = given
    store = folder / "runs"
    if not store.exists():
        shutil.copytree(_runs(), store)
    path = store / name
    path.write_bytes(
        as_text(text) if name.endswith((".json", ".yaml")) else text.encode("latin-1", "replace")
    )
    try:
        frame = tl.runs(store)
        frame.accuracy(by=["task"], split="iid")
        frame.predictions()
        frame.curves()
        verify_runs(store)
    finally:
        path.write_bytes((_runs() / name).read_bytes())
    return "accepted"
