"""JSONL by columns has the bytes of `json.dumps` row by row."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.core import shards
from taskloom.data.export import json_lines

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ['"', "\\n", "a\nb\t", "\x00\x1f", "é\u2028😀"]
)
STEPS = st.lists(
    st.fixed_dictionaries(
        {
            "rule": TEXTS,
            "value": st.none() | TEXTS,
            "of": st.none() | st.lists(st.integers(0, 9), max_size=3),
        }
    ),
    max_size=3,
)
ROW = st.fixed_dictionaries(
    {
        "index": st.integers(-(2**63), 2**63 - 1),
        "task": TEXTS,
        "input": TEXTS,
        "targets": st.none() | st.lists(st.none() | TEXTS, max_size=3),
        "question": st.none() | TEXTS,
        "key": st.none() | TEXTS,
        "derivation": st.none() | STEPS,
        "traits": (
            st.none()
            | st.fixed_dictionaries(
                {
                    "n": st.none() | st.integers(-9, 9),
                    "x": st.none() | st.floats(),
                    "b": st.none() | st.booleans(),
                    "s": TEXTS,
                }
            )
        ),
    }
)
SCHEMA = shards.schema({"n": int, "x": float, "b": bool, "s": str})


def by_rows(table: pa.Table) -> bytes:
    """Write the rows one by one, which is what the columns must give."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()).encode()


@given(st.lists(ROW, max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_any_rows_have_the_bytes_of_json_dumps(
    rows: list[dict[str, Any]], start: int, size: int
) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    for part in (table, table.slice(start, size), pa.concat_tables([table.slice(start), table])):
        assert b"".join(json_lines(part)) == by_rows(part)


@pytest.mark.parametrize(
    "columns", [{'quo"te\n': [1]}, {"a": [{}, {}]}, {"a": [[[1], []], None]}, {"a": [None]}]
)
def test_odd_columns_have_the_bytes_of_json_dumps(columns: dict[str, list[Any]]) -> None:
    table = pa.table(columns)
    assert b"".join(json_lines(table)) == by_rows(table)
