"""The table of runs, from what their scores.json say."""

from __future__ import annotations

from typing import Any

from taskloom.experiments.score_records import record_table


def test_field_columns_keep_their_kind() -> None:
    values: list[dict[str, Any]] = [
        {"a": 1, "b": "x", "c": 1},
        {"a": 2, "b": "y", "c": "z", "d": [1, 2]},
        {"a": 3, "c": 0.5},
    ]
    records = [
        {
            "run": str(seed),
            "recipe": "r",
            "learner": "l",
            "seed": seed,
            "fields": fields,
            "splits": {"test": {"n": 2, "score": 0.5}},
        }
        for seed, fields in enumerate(values)
    ]
    by_seed = {row["seed"]: row for row in record_table(records, {"0": 1.5, "1": None, "2": None}).to_pylist()}
    assert [by_seed[i]["a"] for i in range(3)] == [1, 2, 3]
    assert [by_seed[i]["b"] for i in range(3)] == ["x", "y", None]
    assert [by_seed[i]["c"] for i in range(3)] == ["1", "z", "0.5"]
    assert by_seed[1]["d"] == "[1, 2]"
    assert [by_seed[i]["seconds"] for i in range(3)] == [1.5, None, None]
