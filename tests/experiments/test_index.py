"""The index of a store: the same answers as from the runs' own files, whatever happened to them or
to it since.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskloom as tl
from taskloom.experiments import files as run_files
from taskloom.experiments import index, rescore
from taskloom.experiments import store as run_store
from taskloom.experiments.groups import shown_traits, trait
from taskloom.experiments.index import SCORED
from taskloom.experiments.store import Store
from taskloom.experiments.table import Runs
from tests.experiments import made_up_runs

QUESTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"by": "length"},
    {"by": "task", "split": "ood"},
    {"over": "tasks"},
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Six runs of three learners, with an index on disk from two runs on."""
    monkeypatch.setenv("TASKLOOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(index, "FEW", 2)
    store = Store(tmp_path / "runs", create=True)
    traits = [{"length": "1"}, {"length": "2", "kind": "a"}, {"kind": "b"}]
    for learner in range(3):
        for seed in range(2):
            scores = {
                split: [(learner + seed + i) % 3 / 2 for i in range(5 + learner)]
                for split in ("iid", "ood")
            }
            made_up_runs.write(
                store, scores, learner=f"l{learner}", seed=seed, traits=traits, tasks=["t", "u"]
            )
    return store


def answers(path: Path) -> list[list[dict[str, Any]]]:
    return [tl.runs(path).accuracy(**question).to_dicts() for question in QUESTIONS]


def without_index(path: Path) -> list[list[dict[str, Any]]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "FEW", 1000)
        return answers(path)


def files_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the runs whose predictions or scores are read from now on, filled as they are."""
    names: list[str] = []
    read_rows, read_scores = run_files.read_parquet, Store.scores

    def noted_rows(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
        names.append(path.parent.name)
        return read_rows(path, columns)

    def noted_scores(self: Store, run: str) -> dict[str, Any]:
        names.append(run)
        return read_scores(self, run)

    monkeypatch.setattr(run_store, "read_parquet", noted_rows)
    monkeypatch.setattr(Store, "scores", noted_scores)
    return names


def test_answers_are_those_of_the_runs_own_files(store: Store) -> None:
    expected = without_index(store.path)
    assert answers(store.path) == expected  # reads the runs and writes the index
    assert len(list((store.path.parent / "cache" / "runs").iterdir())) == 1
    assert answers(store.path) == expected  # reads the index


def test_runs_read_in_parts_have_the_same_answers(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = without_index(store.path)
    monkeypatch.setattr(index, "TOGETHER", 4)
    assert answers(store.path) == expected  # writes two segments
    names = files_read(monkeypatch)
    assert answers(store.path) == expected
    assert names == []


def test_traits_of_a_selection_are_not_those_of_other_runs(store: Store) -> None:
    made_up_runs.write(
        store, {"iid": [1, 0]}, recipe="other", learner="l9", traits=[{"colour": "red"}]
    )
    runs = tl.runs(store.path)
    assert shown_traits(runs) == {"length", "kind", "colour"}
    assert shown_traits(runs.where(learner="l9")) == {"colour"}
    assert shown_traits(runs.where(learner=["l0", "l1", "l2"])) == {"length", "kind"}


def test_columns_from_the_index_and_from_the_file_are_those_of_the_file(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tl.runs(store.path).accuracy(by="length")  # writes the index
    columns = ["input", "split", "prediction", "index", "task", "score", "traits", "targets"]
    opened = tl.runs(store.path)
    opened.accuracy(by="length")  # loads it
    asked: list[Sequence[str] | None] = []
    read = run_files.read_parquet

    def noted(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
        asked.append(columns)
        return read(path, columns)

    monkeypatch.setattr(run_store, "read_parquet", noted)
    for run in opened.names:
        rows = opened.answers(run, columns)
        own = read(store.folder(run) / run_files.PREDICTIONS, columns)
        assert rows is not None
        assert rows.schema == own.schema
        assert rows.to_pylist() == own.to_pylist()
    assert asked == [["input", "prediction", "targets"]] * len(opened)


def test_another_process_reads_no_run_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    tl.runs(store.path).accuracy()
    names = files_read(monkeypatch)
    tl.runs(store.path).accuracy(by="task")
    assert names == []


def test_a_run_that_changed_is_read_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    tl.runs(store.path).accuracy()
    run = store.names()[3]
    path = store.folder(run) / run_files.PREDICTIONS
    table = run_files.read_parquet(path)
    ones = pa.array([1.0] * table.num_rows)
    path.unlink()
    pa.parquet.write_table(
        table.set_column(table.schema.get_field_index("score"), "score", ones), path
    )
    made_up_runs.write(
        store, {"iid": [1, 0, 1], "ood": [0, 0, 0]}, learner="new", traits=[{"length": "9"}]
    )
    expected = without_index(store.path)
    names = files_read(monkeypatch)
    assert Runs(Store(store.path)).accuracy().to_dicts() == expected[0]
    assert run in names
    assert len(names) == 3  # its predictions, and scores and predictions of the new run


def test_some_runs_in_another_order_and_runs_without_predictions(store: Store) -> None:
    bare = made_up_runs.write(store, {"iid": [1.0]}, learner="bare", keep=False)
    names = [*reversed(store.names())]
    assert store.scored(names, SCORED, 100)[1][names.index(bare)] == 0
    for chosen in (names, names[1:4], [names[2], names[0]], [bare]):
        many, many_counts = store.scored([*chosen, bare], SCORED, 100)
        parts = [
            table
            for run in chosen
            if (table := store.rows(run, run_files.PREDICTIONS, SCORED)) is not None
        ]
        assert many_counts.tolist() == [
            0 if run == bare else parts.pop(0).num_rows for run in [*chosen, bare]
        ]
        expected = [
            row
            for run in chosen
            for row in store.predictions([run], SCORED).select(SCORED).to_pylist()
        ]
        assert many.to_pylist() == expected


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"x" * 4000])
def test_a_damaged_index_is_made_again(store: Store, content: bytes) -> None:
    expected = answers(store.path)
    (file,) = (store.path.parent / "cache" / "runs").iterdir()
    file.write_bytes(content or file.read_bytes()[:-100])
    assert answers(store.path) == expected


def test_an_index_that_cannot_be_written_costs_only_time(store: Store) -> None:
    (store.path.parent / "cache").write_text("a file where the folder should be")
    assert answers(store.path) == without_index(store.path)


def test_a_damaged_run_is_named_as_without_an_index(store: Store) -> None:
    path = store.folder(store.names()[0]) / run_files.PREDICTIONS
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(run_files.StoreError, match=f"{path} is damaged"):
        tl.runs(store.path).accuracy()


def test_bytes_changed_anywhere_in_the_index_change_no_answer(store: Store) -> None:
    expected = answers(store.path)
    (file,) = (store.path.parent / "cache" / "runs").iterdir()
    whole = file.read_bytes()
    for place in range(0, len(whole), 997):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        assert answers(store.path) == expected


def test_rescored_runs_are_read_again(store: Store) -> None:
    before = answers(store.path)
    rescore.rescore(store.path, "exact")
    after = answers(store.path)
    assert after != before
    assert after == without_index(store.path)


def test_segments_are_joined_and_the_last_reading_of_a_run_counts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "MOST_SEGMENTS", 3)
    for score in (0.0, 0.25, 0.5, 0.75, 1.0):
        for run in store.names():
            path = store.folder(run) / run_files.PREDICTIONS
            table = run_files.read_parquet(path)
            same = pa.array([score] * table.num_rows)
            pa.parquet.write_table(
                table.set_column(table.schema.get_field_index("score"), "score", same), path
            )
        assert {row["mean"] for row in tl.runs(store.path).accuracy()} == {score}
    names: list[str] = files_read(monkeypatch)
    assert {row["mean"] for row in tl.runs(store.path).accuracy()} == {1.0}
    assert names == []


TRAITS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=3)


@given(st.lists(st.one_of(st.none(), TRAITS), max_size=12), st.integers(0, 3), st.integers(0, 3))
def test_a_trait_is_the_first_of_its_name_in_each_row(
    rows: list[list[tuple[str, str]] | None], cut: int, end: int
) -> None:
    whole = pa.array(rows, pa.map_(pa.string(), pa.string()))
    part = whole[cut : max(cut, len(rows) - end)]
    expected = [
        next((value for name, value in row or () if name == "a"), None)
        for row in rows[cut : max(cut, len(rows) - end)]
    ]
    assert trait(pa.chunked_array([part]), "a").to_pylist() == expected


def test_an_experiment_leaves_an_index_of_a_large_store(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tl.runs(store.path).accuracy()
    made_up_runs.write(
        store, {"iid": [1, 0, 1], "ood": [0, 0, 0]}, learner="new", traits=[{"length": "9"}]
    )
    monkeypatch.setattr(index, "FEW", 3)
    Store(store.path).refresh_index()
    names = files_read(monkeypatch)
    tl.runs(store.path).accuracy()
    assert names == []
