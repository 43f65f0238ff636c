"""Scores of many runs from one file: the same rows as from the runs' own files, whatever happened to them since."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskloom as tl
from taskloom.experiments import kept_files, run_files, score_cache
from taskloom.experiments.groups import trait
from taskloom.experiments.kept_files import SCORED
from taskloom.experiments.runs import Runs
from taskloom.experiments.store import Store
from tests.experiments import made_up_runs

QUESTIONS: tuple[dict[str, Any], ...] = ({}, {"by": "length"}, {"by": "task", "split": "ood"}, {"over": "tasks"})


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return six runs of three learners, with a cache of their own that is used from two runs on."""
    monkeypatch.setenv("TASKLOOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(score_cache, "FILES", 2)
    store = Store(tmp_path / "runs", create=True)
    traits = [{"length": "1"}, {"length": "2", "kind": "a"}, {"kind": "b"}]
    for learner in range(3):
        for seed in range(2):
            scores = {split: [(learner + seed + i) % 3 / 2 for i in range(5 + learner)] for split in ("iid", "ood")}
            made_up_runs.write(store, scores, learner=f"l{learner}", seed=seed, traits=traits, tasks=["t", "u"])
    return store


def answers(path: Path) -> list[list[dict[str, Any]]]:
    return [tl.runs(path).accuracy(**question).to_dicts() for question in QUESTIONS]


def without_cache(path: Path) -> list[list[dict[str, Any]]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score_cache, "FILES", 1000)
        return answers(path)


def files_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of runs whose predictions are read from now on."""
    names: list[str] = []
    read = kept_files.read_scored_columns

    def noted(path: str, columns: Sequence[str]) -> pa.Table:
        names.append(Path(path).parent.name)
        return read(path, columns)

    monkeypatch.setattr(kept_files, "read_scored_columns", noted)
    return names


def test_answers_are_those_of_the_runs_own_files(store: Store) -> None:
    expected = without_cache(store.path)
    assert answers(store.path) == expected  # reads the runs and writes the cache
    assert len(list((store.path.parent / "cache" / "scores").iterdir())) == 1
    assert answers(store.path) == expected  # reads the cache


def test_another_process_reads_no_run_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    tl.runs(store.path).accuracy()
    names = files_read(monkeypatch)
    tl.runs(store.path).accuracy(by="task")
    assert names == []


def test_a_run_that_changed_is_read_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    tl.runs(store.path).accuracy()
    run = store.names()[3]
    path = store.folder(run) / run_files.PREDICTIONS
    table = kept_files.read_parquet(path)
    ones = pa.array([1.0] * table.num_rows)
    path.unlink()
    pa.parquet.write_table(table.set_column(table.schema.get_field_index("score"), "score", ones), path)
    made_up_runs.write(store, {"iid": [1, 0, 1], "ood": [0, 0, 0]}, learner="new", traits=[{"length": "9"}])
    expected = without_cache(store.path)
    names = files_read(monkeypatch)
    assert Runs(Store(store.path)).accuracy().to_dicts() == expected[0]
    assert run in names
    assert len(names) == 2


def test_some_runs_in_another_order_and_runs_without_predictions(store: Store) -> None:
    bare = made_up_runs.write(store, {"iid": [1.0]}, learner="bare", keep=False)
    names = [*reversed(store.names())]
    assert store.scored_rows(names, SCORED, 100)[1][names.index(bare)] == 0
    for chosen in (names, names[1:4], [names[2], names[0]], [bare]):
        many, many_counts = store.scored_rows([*chosen, bare], SCORED, 100)
        parts = [table for run in chosen if (table := store.rows(run, run_files.PREDICTIONS, SCORED)) is not None]
        assert many_counts.tolist() == [0 if run == bare else parts.pop(0).num_rows for run in [*chosen, bare]]
        expected = [row for run in chosen for row in store.predictions([run], SCORED).select(SCORED).to_pylist()]
        assert many.to_pylist() == expected


@pytest.mark.parametrize("content", [b"", b"ARROW1\0\0", b"x" * 4000])
def test_a_damaged_cache_is_as_none(store: Store, content: bytes) -> None:
    expected = answers(store.path)
    (file,) = (store.path.parent / "cache" / "scores").iterdir()
    file.write_bytes(content or file.read_bytes()[:-100])
    assert answers(store.path) == expected


def test_a_cache_that_cannot_be_written_costs_only_time(store: Store) -> None:
    (store.path.parent / "cache").write_text("a file where the folder should be")
    assert answers(store.path) == without_cache(store.path)


def test_a_damaged_run_is_named_as_without_a_cache(store: Store) -> None:
    path = store.folder(store.names()[0]) / run_files.PREDICTIONS
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(run_files.StoreError, match=f"{path} is damaged"):
        tl.runs(store.path).accuracy()


TRAITS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=3)


@given(st.lists(st.one_of(st.none(), TRAITS), max_size=12), st.integers(0, 3), st.integers(0, 3))
def test_a_trait_is_the_first_of_its_name_in_each_row(
    rows: list[list[tuple[str, str]] | None], cut: int, end: int
) -> None:
    whole = pa.array(rows, pa.map_(pa.string(), pa.string()))
    part = whole[cut : max(cut, len(rows) - end)]
    expected = [
        next((value for name, value in row or () if name == "a"), None) for row in rows[cut : max(cut, len(rows) - end)]
    ]
    assert trait(pa.chunked_array([part]), "a").to_pylist() == expected
