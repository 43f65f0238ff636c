"""The best one-to-one assignment of rows to columns, for the small matrices that answers give.

The shortest augmenting path algorithm for rectangular matrices (Crouse 2016), the one behind SciPy's solver, so that ties
fall the same way as in the public script; SciPy itself is not a dependency of the core.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf


def best_pairs(weights: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Return pairs (row, column) with the largest total weight; as many pairs as the shorter side has items.

    Whole numbers stay whole numbers, so that callers who need an exact optimum can have it.

    >>> best_pairs([[1, 5], [2, 9], [7, 8]])
    [(1, 1), (2, 0)]
    """
    if not weights or not weights[0]:
        return []
    if len(weights) > len(weights[0]):
        turned = best_pairs([list(column) for column in zip(*weights, strict=True)])
        return sorted((row, column) for column, row in turned)
    n, m = len(weights), len(weights[0])
    if n == 1:
        row = weights[0]
        return [(0, max(range(m), key=row.__getitem__))]
    return _augment([[-w for w in row] for row in weights], n, m)


def _augment(costs: list[list[float]], n: int, m: int) -> list[tuple[int, int]]:
    row_price: list[float] = [0] * n
    column_price: list[float] = [0] * m
    row_of = [-1] * m
    column_of = [-1] * n
    for start in range(n):
        shortest: list[float] = [inf] * m
        path = [-1] * m
        done_rows: list[int] = []
        done_columns: list[int] = []
        open_columns = list(range(m - 1, -1, -1))
        lowest: float = 0
        row, sink = start, -1
        while sink < 0:
            done_rows.append(row)
            best, at = inf, -1
            for position, column in enumerate(open_columns):
                reduced = lowest + costs[row][column] - row_price[row] - column_price[column]
                if reduced < shortest[column]:
                    shortest[column] = reduced
                    path[column] = row
                # Among equally near columns a free one ends the search at once.
                if shortest[column] < best or (shortest[column] == best and row_of[column] < 0):
                    best, at = shortest[column], position
            lowest = best
            column = open_columns[at]
            if row_of[column] < 0:
                sink = column
            else:
                row = row_of[column]
            done_columns.append(column)
            open_columns[at] = open_columns[-1]
            open_columns.pop()
        row_price[start] += lowest
        for r in done_rows[1:]:
            row_price[r] += lowest - shortest[column_of[r]]
        for c in done_columns:
            column_price[c] -= lowest - shortest[c]
        column = sink
        while True:
            row = path[column]
            row_of[column] = row
            column_of[row], column = column, column_of[row]
            if row == start:
                break
    return list(enumerate(column_of))
