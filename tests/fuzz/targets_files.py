"""Files that come from elsewhere: datasets (manifest and shards), predictions, run stores."""

from __future__ import annotations

import io
import json
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

import taskloom as tl
from taskloom.core.predictions import predictions_for
from taskloom.data import load
from taskloom.data.competence import score_dataset
from taskloom.data.verify import verify
from taskloom.experiments.rescore import verify_runs
from taskloom.suites.zest.evaluation import score
from taskloom.suites.zest.task_files import tasks_from
from tests.fuzz.engine import Refuted, Verdict, target
from tests.fuzz.strategies import as_text, mutated_bytes, mutated_json, mutated_text

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


@cache
def _loaded() -> tl.Dataset:
    return load(_dataset())


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
    return name, draw(mutated_bytes([raw]))


@target("runs", st.deferred(damaged_runs), weight=4, cost=8, warm=lambda: _run_files())
def runs(given: tuple[str, str], folder: Path) -> Verdict:
    """Read, count and verify a run store one of whose files was edited."""
    name, text = given
    store = folder / "runs"
    if not store.exists():
        shutil.copytree(_runs(), store)
    path = store / name
    path.write_bytes(as_text(text) if name.endswith(".json") else text.encode("latin-1", "replace"))
    try:
        frame = tl.runs(store)
        frame.accuracy(by=["task"], split="iid")
        frame.predictions()
        frame.curves()
        verify_runs(store)
    finally:
        path.write_bytes((_runs() / name).read_bytes())
    return "accepted"
