"""The table of runs, from what their scores.json say."""

from __future__ import annotations

from typing import Any

from taskloom.experiments.record import Run, SplitScores, run_table


def test_field_columns_keep_their_kind() -> None:
    values: list[dict[str, Any]] = [
        {"a": 1, "b": "x", "c": 1},
        {"a": 2, "b": "y", "c": "z", "d": [1, 2]},
        {"a": 3, "c": 0.5},
    ]
    runs = [
        Run(str(seed), "kind", "r", "l", seed, fields, {"test": SplitScores(2, 0.5)})
        for seed, fields in enumerate(values)
    ]
    by_seed = {
        row["seed"]: row for row in run_table(runs, {"0": 1.5, "1": None, "2": None}).to_pylist()
    }
    assert [by_seed[i]["a"] for i in range(3)] == [1, 2, 3]
    assert [by_seed[i]["b"] for i in range(3)] == ["x", "y", None]
    assert [by_seed[i]["c"] for i in range(3)] == ["1", "z", "0.5"]
    assert by_seed[1]["d"] == "[1, 2]"
    assert [by_seed[i]["seconds"] for i in range(3)] == [1.5, None, None]
