"""Arrow arrays by their buffers: `pa.array` would import pandas, where that is installed (0.4 seconds)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray


def numbers(values: NDArray[Any]) -> pa.Array:
    """Convert numbers to an Arrow array."""
    kinds = {"int32": pa.int32(), "int64": pa.int64(), "float64": pa.float64()}
    contiguous = np.ascontiguousarray(values)
    return pa.Array.from_buffers(kinds[contiguous.dtype.name], len(contiguous), [None, pa.py_buffer(contiguous)])


def strings(texts: Sequence[str]) -> pa.Array:
    """Convert texts to an Arrow array."""
    raw = [text.encode() for text in texts]
    ends = np.zeros(len(raw) + 1, dtype=np.int32)
    np.cumsum(np.fromiter(map(len, raw), dtype=np.int64, count=len(raw)), out=ends[1:])
    return pa.StringArray.from_buffers(len(raw), pa.py_buffer(ends), pa.py_buffer(b"".join(raw)))


_HELD: dict[int, tuple[Sequence[str], pa.Array]] = {}


def held(texts: Sequence[str]) -> pa.Array:
    """Convert texts to an Arrow array, once; the list is kept so that its identity stays its own."""
    entry = _HELD.get(id(texts))
    if entry is None:
        if len(_HELD) > 64:
            _HELD.clear()
        entry = _HELD[id(texts)] = (texts, strings(texts))
    return entry[1]


def even(values: pa.Array, size: int, rows: int) -> pa.Array:
    """Lists of equal length."""
    return pa.ListArray.from_arrays(numbers(np.arange(rows + 1, dtype=np.int32) * size), values)


def repeated(value: str | None, kind: pa.DataType, n: int) -> pa.Array:
    """Return one text, or nothing, n times."""
    return pa.nulls(n, kind) if value is None else pa.repeat(strings([value])[0], n)
