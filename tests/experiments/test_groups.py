"""Groups of scores by one sort, and their estimates many at a time, equal those found one by
one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.experiments import groups as grouping
from taskloom.experiments.groups import SortedScores, sort_scores
from taskloom.experiments.statistics import over_binary_items, over_items, two_way, two_way_tables

ROW = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([1, 2, 10]),
    st.integers(0, 2),
    st.sampled_from([0, 1, 5, 2**61]),
    st.sampled_from([0.0, 0.5, 1.0, float("nan")]),
)


def chunked(values: list[Any], kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


def sorted_rows(rows: list[Any]) -> SortedScores:
    word, number, run, item, score = (
        (list(column) for column in zip(*rows, strict=True)) if rows else [[]] * 5
    )
    keys = [chunked(word, pa.string()), chunked(number, pa.int64())]
    runs = chunked(run, pa.int64())
    return sort_scores(keys, runs, chunked(item, pa.int64()), runs, chunked(score, pa.float64()))


@given(st.lists(ROW, max_size=40))
def test_groups_are_those_of_a_dictionary(rows: list[Any]) -> None:
    expected: dict[Any, dict[int, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    for word, number, run, item, score in rows:
        if score == score:
            expected[word, number][run].append((item, score))
    result = {
        group.values: {
            run: list(zip(items.tolist(), scores.tolist(), strict=True))
            for run, items, scores in zip(group.runs, group.items, group.scores, strict=True)
        }
        for group in sorted_rows(rows)
    }
    assert list(result) == sorted(expected, key=lambda key: (key[0] is None, key[0] or "", key[1]))
    for values, runs in expected.items():
        assert list(result[values]) == sorted(runs)
        assert result[values] == {
            run: sorted(scores, key=lambda pair: pair[0]) for run, scores in runs.items()
        }


@given(st.lists(ROW, max_size=40), st.sampled_from([1, 1 << 20]))
def test_tables_are_the_groups_whose_runs_answered_the_same_items(
    rows: list[Any], together: int
) -> None:
    scores = sorted_rows(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "TOGETHER", together)
        tables = {
            number: (tuple(runs), table.tolist())
            for numbers, of_runs, of_scores in scores.tables()
            for number, runs, table in zip(
                numbers.tolist(), of_runs.tolist(), of_scores, strict=True
            )
        }
    crossed = {number: group for number, group in enumerate(scores) if group.crossed}
    assert tables == {
        n: (group.runs, [list(run) for run in group.scores]) for n, group in crossed.items()
    }


@given(st.integers(2, 4), st.integers(2, 5), st.integers(0, 2**32), st.sampled_from([1, 3, 1000]))
def test_estimates_of_many_tables_are_those_of_each(
    seeds: int, items: int, seed: int, values: int
) -> None:
    tables = np.random.default_rng(seed).integers(0, values + 1, (5, seeds, items)) / values
    tables[0] = tables[0, 0, 0]  # all alike
    tables[1] *= 3  # no shares
    assert [str(e) for e in two_way_tables(tables)] == [str(two_way(table)) for table in tables]
    assert two_way_tables(tables) == [two_way(table) for table in tables]


@given(st.integers(1, 9), st.integers(0, 2**32), st.sampled_from([0.0, 0.3, 1.0]))
def test_estimates_of_many_runs_are_those_of_each(items: int, seed: int, share: float) -> None:
    scores = (np.random.default_rng(seed).random((4, items)) < share).astype(float)
    assert over_binary_items(scores) == [over_items(run) for run in scores]
