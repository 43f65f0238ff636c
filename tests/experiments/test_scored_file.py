"""The copy of a run's scored columns: the same rows as in its predictions, or none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import taskloom as tl
from taskloom.experiments import kept_files, rescore, run_writer, score_cache, scored_file
from taskloom.experiments.kept_files import SCORED, SCORED_COLUMNS
from taskloom.experiments.run_files import PREDICTIONS
from taskloom.experiments.scored_file import SCORED_FILE, read_scored
from taskloom.experiments.store import Store
from tests.experiments import made_up_runs

TRAITS = [{"length": "1", "kind": "ä"}, {}, {"length": ""}]


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    """Return the predictions of one run."""
    store = Store(tmp_path / "runs", create=True)
    run = made_up_runs.write(store, {"iid": [1, 0, 0.25], "ood": [0, 1]}, traits=TRAITS, tasks=["t", "u"])
    return store.folder(run) / PREDICTIONS


def test_a_copy_has_the_rows_of_the_predictions(predictions: Path) -> None:
    copy = read_scored(str(predictions), SCORED, SCORED_COLUMNS)
    assert copy is not None
    assert copy.equals(kept_files.read_parquet(predictions, SCORED))
    assert copy.schema == SCORED_COLUMNS
    two = read_scored(str(predictions), ["score", "task"], SCORED_COLUMNS)
    assert two is not None
    assert two.equals(kept_files.read_parquet(predictions, ["score", "task"]))


def test_any_tool_that_reads_arrow_reads_it(predictions: Path) -> None:
    with pa.memory_map(str(predictions.with_name(SCORED_FILE))) as file:
        assert pa.ipc.open_stream(file).read_all()["score"].to_pylist() == [1, 0, 0.25, 0, 1]


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


DAMAGES: list[Callable[[bytes], bytes]] = [
    lambda data: b"",
    lambda data: data[:20],
    lambda data: data[:-1],
    lambda data: data + b"x",
    lambda data: b"x" * len(data),
    *(lambda data, part=part: flipped(data, len(data) * part // 10) for part in range(10)),
]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", [SCORED_FILE, PREDICTIONS])
def test_a_copy_that_does_not_go_with_its_predictions_is_as_none(
    predictions: Path, file: str, damage: Callable[[bytes], bytes]
) -> None:
    place = predictions.with_name(file)
    place.write_bytes(damage(place.read_bytes()))
    assert read_scored(str(predictions), SCORED, SCORED_COLUMNS) is None


@pytest.mark.parametrize("file", [SCORED_FILE, PREDICTIONS])
def test_a_lost_file_leaves_no_copy(predictions: Path, file: str) -> None:
    predictions.with_name(file).unlink()
    assert read_scored(str(predictions), SCORED, SCORED_COLUMNS) is None


def test_a_copy_with_other_columns_is_as_none(predictions: Path) -> None:
    other = pa.schema([*SCORED_COLUMNS, ("seconds", pa.float64())])
    assert read_scored(str(predictions), SCORED, other) is None


def test_long_predictions_have_no_copy(predictions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scored_file, "MOST_ROWS", 4)
    run_writer.copy_scored(predictions, kept_files.read_parquet(predictions), predictions.read_bytes())
    assert not predictions.with_name(SCORED_FILE).exists()


def test_questions_are_answered_alike_with_copies_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKLOOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(score_cache, "FILES", 2)
    store = Store(tmp_path / "runs", create=True)
    for seed in range(4):
        scores = {"iid": [seed / 4, 1, 0], "ood": [0.1, seed / 3, 0.7]}
        made_up_runs.write(store, scores, seed=seed, traits=TRAITS, tasks=["t", "u"])
    answers = [tl.runs(store.path).accuracy(by=by).to_dicts() for by in ((), "length", "task")]
    for copy in store.path.rglob(SCORED_FILE):
        copy.unlink()
    (file,) = (tmp_path / "cache" / "scores").iterdir()
    file.unlink()
    assert [tl.runs(store.path).accuracy(by=by).to_dicts() for by in ((), "length", "task")] == answers


def test_rescoring_writes_the_copy_again(predictions: Path) -> None:
    before = read_scored(str(predictions), ["score"], SCORED_COLUMNS)
    rescore.rescore(predictions.parents[2], "exact")
    after = read_scored(str(predictions), ["score"], SCORED_COLUMNS)
    assert before is not None
    assert after is not None
    assert after.equals(kept_files.read_parquet(predictions, ["score"]))
    assert not after.equals(before)
