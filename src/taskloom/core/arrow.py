"""Builds Arrow arrays from buffers, for the per-row work of `make`, `show` and `verify`.

`pa.array`, `pa.scalar` and `to_numpy` import pandas if it is installed, even for values unrelated
to it. This import takes 0.25 s of CPU, half as long as all of `taskloom show`. `Array.from_buffers`
is public and avoids it. Only start-up gets faster, not conversion: for 100,000 strings, `column`
takes 8 ms and `pa.array` 3 ms; for 100,000 derivation steps, 58 ms and 13 ms. Suites that generate
whole arrays (`numbers`, `repeated`) do not convert any Python values.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_BYTES = 2**31 - 1
"""Maximum bytes of string data in one array, because offsets are int32."""


class _OddValueError(ValueError):
    """Values that the buffer builders here do not handle."""


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert Python values to an Arrow array, as `pa.array` does. Unusual values fall back to
    `pa.array`.
    """
    try:
        return _column(values, kind)
    except _OddValueError:
        return pa.array(values, kind)


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Build an array from buffers by its Arrow type.

    Raises:
        _OddValueError: If the values do not have the Python type that the builder expects.
    """
    types = set(map(type, values))
    missing = type(None) in types
    types.discard(type(None))
    if pa.types.is_string(kind) and types <= {str}:
        return _optional_strings(values) if missing else strings(values)
    if pa.types.is_list(kind) and types <= {list, tuple}:
        return _lists(values, kind, missing)
    if pa.types.is_map(kind) and types <= {list} and not missing:
        return _maps(values, kind)
    if pa.types.is_struct(kind) and types <= {dict} and not missing:
        return _structs(values, kind)
    if _is_plain(types, kind):
        return _plain(values, kind, missing)
    raise _OddValueError(f"not all values have the type {kind}")


def _lists(values: Sequence[Any], kind: pa.DataType, missing: bool) -> pa.Array:
    validity = None
    if missing:
        validity = _validity(values)
        values = [value or () for value in values]
    items = _column(list(chain.from_iterable(values)), kind.value_type)
    offsets = pa.py_buffer(_ends(values))
    return pa.Array.from_buffers(kind, len(values), [validity, offsets], children=[items])


def _maps(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    pairs = list(chain.from_iterable(values))
    keys = _column([key for key, _ in pairs], kind.key_type)
    items = _column([item for _, item in pairs], kind.item_type)
    return pa.MapArray.from_arrays(numbers(_ends(values)), keys, items)


def _structs(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    children = [_column([value.get(field.name) for value in values], field.type) for field in kind]
    return pa.Array.from_buffers(kind, len(values), [None], children=children)


def _is_plain(types: set[type], kind: pa.DataType) -> bool:
    """True if the values are numbers or booleans that the Arrow type can hold."""
    return any(types <= {python} and test(kind) for python, test in PLAIN)


def _plain(values: Sequence[Any], kind: pa.DataType, missing: bool) -> pa.Array:
    validity = None
    if missing:
        validity = _validity(values)
        # Missing values may have any number, because the validity bits hide them.
        values = [0 if value is None else value for value in values]
    return pa.Array.from_buffers(kind, len(values), [validity, _buffer(_array(values, kind))])


PLAIN = ((int, pa.types.is_integer), (float, pa.types.is_floating), (bool, pa.types.is_boolean))
"""Python's number and boolean types, each with a test for Arrow types that can hold its values."""


def _array(values: Sequence[Any], kind: pa.DataType) -> NDArray[Any]:
    try:
        return np.array(values, dtype=_numpy_type(kind))
    except OverflowError as error:
        raise _OddValueError(str(error)) from error


def _numpy_type(kind: pa.DataType) -> np.dtype[Any]:
    """Return NumPy's type for a number or boolean type. Arrow's own `to_pandas_dtype` fails without
    pandas in pyarrow 22 and older.
    """
    if pa.types.is_boolean(kind):
        return np.dtype(np.bool_)
    if pa.types.is_floating(kind):
        return np.dtype(f"f{kind.bit_width // 8}")
    sign = "u" if pa.types.is_unsigned_integer(kind) else "i"
    return np.dtype(f"{sign}{kind.bit_width // 8}")


def _validity(values: Sequence[Any]) -> pa.Buffer:
    """Build the validity bitmap: a bit is 1 unless its value is None."""
    present = np.fromiter(
        (value is not None for value in values), dtype=np.bool_, count=len(values)
    )
    return _buffer(present)


def _ends(values: Sequence[Any]) -> NDArray[np.int32]:
    """Return the offsets of the concatenated values: 0, followed by the end of each value."""
    ends = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, values), dtype=np.int64, count=len(values)), out=ends[1:])
    if ends[-1] > MOST_BYTES:
        raise _OddValueError("the texts of one array must not exceed 2 GB")
    return ends.astype(np.int32)


def _buffer(values: NDArray[Any]) -> pa.Buffer:
    if values.dtype == np.bool_:
        values = np.packbits(values, bitorder="little")
    return pa.py_buffer(np.ascontiguousarray(values))


def numbers(values: NDArray[Any]) -> pa.Array:
    """Convert numbers or booleans to an Arrow array."""
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype), len(values), [None, _buffer(values)]
    )


def array_of(values: pa.Array) -> NDArray[Any]:
    """Return the numbers or booleans of an Arrow array without missing values."""
    raw, start, stop = values.buffers()[1] or b"", values.offset, values.offset + len(values)
    if pa.types.is_boolean(values.type):
        # Copy only the bytes of these values, not the whole buffer of the array that they are
        # sliced from.
        first = start // 8
        bits = np.unpackbits(
            np.frombuffer(raw, dtype=np.uint8)[first : (stop + 7) // 8], bitorder="little"
        )
        return bits[start - 8 * first : stop - 8 * first].astype(np.bool_)
    return np.frombuffer(raw, dtype=_numpy_type(values.type))[start:stop]


def whole_array(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return the numbers of a column as one NumPy array, with NaN for missing values."""
    parts = [np.zeros(0, dtype=_numpy_type(column.type))] if not column.num_chunks else []
    for chunk in column.chunks:
        values = array_of(chunk)
        parts.append(
            np.where(array_of(chunk.is_valid()), values, np.nan) if chunk.null_count else values
        )
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def strings(texts: Sequence[str]) -> pa.Array:
    """Convert strings to an Arrow array."""
    joined = "".join(texts)
    if joined.isascii():  # only ASCII, so texts need not be encoded one by one
        return pa.StringArray.from_buffers(
            len(texts), pa.py_buffer(_ends(texts)), pa.py_buffer(joined.encode())
        )
    raw = [text.encode() for text in texts]
    return pa.StringArray.from_buffers(
        len(raw), pa.py_buffer(_ends(raw)), pa.py_buffer(b"".join(raw))
    )


def _optional_strings(texts: Sequence[str | None]) -> pa.Array:
    plain = strings([text or "" for text in texts])
    return pa.Array.from_buffers(plain.type, len(texts), [_validity(texts), *plain.buffers()[1:]])


_HELD: dict[int, tuple[Sequence[str], pa.Array]] = {}


def held(texts: Sequence[str]) -> pa.Array:
    """Convert strings to an Arrow array once and cache it by identity. The cache keeps the list
    alive, so that its id is not reused.
    """
    entry = _HELD.get(id(texts))
    if entry is None:
        if len(_HELD) > 64:
            _HELD.clear()
        entry = _HELD[id(texts)] = (texts, strings(texts))
    return entry[1]


def even(values: pa.Array, size: int, rows: int) -> pa.Array:
    """Build lists of equal length."""
    return pa.ListArray.from_arrays(numbers(np.arange(rows + 1, dtype=np.int32) * size), values)


def repeated(value: str | None, kind: pa.DataType, n: int) -> pa.Array:
    """Build an array of n equal strings, or of n missing values."""
    return pa.nulls(n, kind) if value is None else pa.repeat(strings([value])[0], n)


def firsts(lists: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the first item of each list."""
    import pyarrow.compute as pc

    return pc.list_element(lists, numbers(np.zeros(1, np.int64))[0])
