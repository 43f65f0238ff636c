"""Arrow arrays by their buffers equal those that Arrow builds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.core.arrow import array_of, column, numbers
from taskloom.core.shards import STEP

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
INTEGER = st.integers(-(2**31), 2**31 - 1)
STEPS = st.lists(
    st.fixed_dictionaries(
        {"rule": TEXT, "value": TEXT, "of": st.none() | st.lists(INTEGER, max_size=3)}
    )
)
TRAITS = st.fixed_dictionaries(
    {}, optional={"a": TEXT | st.none(), "b": INTEGER, "c": st.floats(), "d": st.booleans()}
)
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), TEXT),
    (pa.int64(), INTEGER),
    (pa.int32(), INTEGER),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.float64(), INTEGER | st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.list_(pa.string()), st.lists(TEXT, max_size=3) | st.tuples(TEXT)),
    (pa.list_(STEP), STEPS),
    (
        pa.struct([("a", pa.string()), ("b", pa.int64()), ("c", pa.float64()), ("d", pa.bool_())]),
        TRAITS,
    ),
    (pa.map_(pa.string(), pa.string()), st.lists(st.tuples(TEXT, TEXT), max_size=3)),
]


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=[str(kind)[:20] for kind, _ in KINDS])
@given(data=st.data())
def test_a_column_is_what_arrow_makes_of_the_values(
    kind: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    whole, some = (
        data.draw(st.lists(values, max_size=9)),
        data.draw(st.lists(values | st.none(), max_size=9)),
    )
    for rows in (whole, some):
        made, wanted = column(rows, kind), pa.array(rows, kind)
        made.validate(full=True)
        assert made.type == wanted.type
        assert repr(made.to_pylist()) == repr(wanted.to_pylist())
        assert made.null_count == wanted.null_count


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a", 1], pa.string()),
        ([1, "x"], pa.int64()),
        ([2**40], pa.int32()),
        ([["a", 1]], pa.list_(pa.string())),
    ],
)
def test_values_that_do_not_fit_are_refused_in_arrows_words(
    values: list[Any], kind: pa.DataType
) -> None:
    with pytest.raises(pa.ArrowException) as wanted:
        pa.array(values, kind)
    with pytest.raises(type(wanted.value)) as raised:
        column(values, kind)
    assert str(raised.value) == str(wanted.value)


def test_a_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        column(["\ud800"], pa.string())


@pytest.mark.parametrize("kind", [np.bool_, np.int8, np.int32, np.int64, np.float64])
def test_numbers_go_there_and_back(kind: type) -> None:
    values: Any = (np.arange(70) % 3).astype(kind)
    for part in (values, values[::2], values[:0]):
        array = numbers(part)
        assert array.equals(pa.array(part))
        assert (array_of(array) == part).all()
    assert (array_of(numbers(values).slice(5, 40)) == values[5:45]).all()
    assert array_of(pa.array([], numbers(values).type)).size == 0
