"""A suite is an object: a subclass of `tl.Suite` with `weave`, and with whatever else it offers as
methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import taskloom as tl
from taskloom.core.registry import SUITES


class CountFields(tl.fields.Fields):
    """The fields of the tests' suite."""

    first: int = 0


def rows(first: int, start: int, stop: int) -> Iterator[tl.Example]:
    for number in range(first + start, first + stop):
        yield tl.Example(str(number), str(number + 1))


def plan_of(fields: CountFields) -> tl.Plan:
    return tl.Plan((tl.Split("test", 3, lambda start, stop: rows(fields.first, start, stop)),))


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    SUITES.forget(__name__)


def test_a_class_with_weave_is_a_suite() -> None:
    @tl.suite
    class Counting(tl.Suite):
        name = "counting"
        describe = "The next number"
        fields = CountFields

        def weave(self, fields: CountFields, key: tl.Key) -> tl.Plan:
            return plan_of(fields)

        def function(self, fields: CountFields) -> Callable[[str], tl.Answer]:
            return lambda text: tl.Answer((str(int(text) + 1),))

    data = tl.make({"suite": "counting", "first": 7})
    assert [example.target for example in data["test"]] == ["8", "9", "10"]
    assert tl.apply({"suite": "counting"}, "4").targets == ("5",)
    suite = SUITES.get("counting")
    assert isinstance(suite, Counting)
    assert suite.solve is None
    assert suite.exporters == {}


def test_a_class_without_a_name_gets_one_sentence() -> None:
    with pytest.raises(tl.TaskloomError, match=r"Nameless.*name"):

        @tl.suite
        class Nameless(tl.Suite):
            describe = "It has none"
            fields = CountFields


def test_the_old_decorator_of_a_function_works_and_names_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match=r"tl\.Suite"):

        @tl.suite("old-counting", fields=CountFields, describe="The next number", version=3)
        def weave(fields: CountFields, key: tl.Key) -> tl.Plan:
            return plan_of(fields)

    recipe = tl.Recipe({"suite": "old-counting"})  # type: ignore[arg-type]
    assert recipe.suite.version == 3
    assert len(tl.make(recipe)["test"]) == 3


def test_an_offer_that_no_suite_has_names_the_nearest() -> None:
    with (
        pytest.warns(DeprecationWarning, match="misspelt"),
        pytest.raises(tl.TaskloomError, match=r"exporter.*exporters"),
    ):
        tl.suite("misspelt", fields=CountFields, describe="", exporter={})(
            lambda fields, key: plan_of(fields)
        )
