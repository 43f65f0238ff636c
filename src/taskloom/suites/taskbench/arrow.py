"""Arrow arrays by their buffers: `pa.array` would import pandas, where that is installed (0.4 seconds)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray


def numbers(values: NDArray[Any]) -> pa.Array:
    """Numbers as an Arrow array."""
    kinds = {"int32": pa.int32(), "int64": pa.int64(), "float64": pa.float64()}
    held = np.ascontiguousarray(values)
    return pa.Array.from_buffers(kinds[held.dtype.name], len(held), [None, pa.py_buffer(held)])


def strings(texts: Sequence[str]) -> pa.Array:
    """Texts as an Arrow array."""
    raw = [text.encode() for text in texts]
    ends = np.zeros(len(raw) + 1, dtype=np.int32)
    np.cumsum(np.fromiter(map(len, raw), dtype=np.int64, count=len(raw)), out=ends[1:])
    return pa.StringArray.from_buffers(len(raw), pa.py_buffer(ends), pa.py_buffer(b"".join(raw)))


_HELD: dict[int, tuple[Sequence[str], pa.Array]] = {}


def held(texts: Sequence[str]) -> pa.Array:
    """The texts as an Arrow array, converted once; the list is held so that its identity stays its own."""
    found = _HELD.get(id(texts))
    if found is None:
        if len(_HELD) > 64:
            _HELD.clear()
        found = _HELD[id(texts)] = (texts, strings(texts))
    return found[1]


def even(values: pa.Array, size: int, rows: int) -> pa.Array:
    """Lists of equal length."""
    return pa.ListArray.from_arrays(numbers(np.arange(rows + 1, dtype=np.int32) * size), values)


def repeated(value: str | None, kind: pa.DataType, n: int) -> pa.Array:
    """One text, or nothing, n times."""
    return pa.nulls(n, kind) if value is None else pa.repeat(strings([value])[0], n)
