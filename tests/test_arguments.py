"""Whatever a person passes to the public functions, they get a result or one sentence that names
the parameter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import taskloom as tl
from taskloom.core.files import path_of
from taskloom.recipe import read

NOT_PATHS: list[Any] = [0, 3.5, b"data", ["data"], {"a": 1}, None, "\0"]


@pytest.mark.parametrize("value", NOT_PATHS, ids=repr)
def test_what_is_no_path_gets_a_sentence(value: Any) -> None:
    with pytest.raises(tl.TaskloomError, match="a path must be text"):
        path_of(value)


@pytest.mark.parametrize(
    "call", [tl.load, tl.verify, tl.audit, tl.runs, tl.report], ids=lambda call: call.__name__
)
def test_functions_of_folders_refuse_a_number(call: Any) -> None:
    with pytest.raises(tl.TaskloomError, match="not 7"):
        call(7)


def test_a_seed_in_the_place_of_the_folder_gets_a_sentence() -> None:
    with pytest.raises(tl.TaskloomError, match=r"a path must be text.*not 0"):
        tl.make("ctl/length", 0)  # type: ignore[arg-type]


def test_no_changes_may_be_spelled_none() -> None:
    assert tl.make("ctl/length", set=None).digest == tl.make("ctl/length").digest
    assert tl.apply("ctl/A", "a 1", set=None) == tl.apply("ctl/A", "a 1")


def test_values_that_are_nested_too_deeply_get_a_sentence() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    endless: list[Any] = []
    endless.append(endless)
    for value in (deep, endless, {"n": deep}):
        with pytest.raises(tl.TaskloomError, match="nested too deeply; at most 100 levels"):
            tl.make("ctl/length", set={"tables": value})


@pytest.mark.parametrize(
    "changes", [0, 3.5, True, len], ids=["whole", "decimal", "true", "function"]
)
def test_changes_of_another_kind_get_a_sentence(changes: Any) -> None:
    with pytest.raises(tl.TaskloomError, match=r"set .*fields with values"):
        tl.make("ctl/length", set=changes)


@pytest.mark.parametrize("engine", [None, 0, ["ray"], {}], ids=repr)
def test_an_engine_that_is_no_text_gets_a_sentence(engine: Any) -> None:
    with pytest.raises(tl.TaskloomError, match="engine"):
        tl.make("ctl/length", engine=engine)


@pytest.mark.parametrize("name", [None, 0, [], {}], ids=repr)
def test_a_study_that_is_no_text_gets_a_sentence(name: Any) -> None:
    with pytest.raises(tl.TaskloomError, match="name"):
        tl.reproduce(name)


@pytest.mark.parametrize("n", [None, 2.5, "two", [1]], ids=repr)
def test_show_takes_whole_numbers(n: Any) -> None:
    with pytest.raises(tl.TaskloomError, match="n must be a whole number"):
        tl.show("ctl/length", n=n)


def test_show_takes_numbers_of_other_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    tl.show("ctl/length", n=np.int64(1))  # type: ignore[arg-type]
    assert "train 0" in capsys.readouterr().out


def test_show_names_the_parameter_of_a_start_beyond_the_split() -> None:
    with pytest.raises(tl.TaskloomError, match="start must be below") as refusal:
        tl.show("ctl/length", start=10**9)
    assert "--start" not in str(refusal.value)
    with pytest.raises(tl.TaskloomError, match="start must be at least 0"):
        tl.show("ctl/length", start=-1)
    with pytest.raises(tl.TaskloomError, match="n must be at least 0"):
        tl.show("ctl/length", n=-1)


@pytest.mark.parametrize("text", ["x" * 256, "ä" * 128, "/".join(["y" * 200] * 21)])
def test_a_path_that_is_too_long_is_one_sentence(text: str) -> None:
    for open_it in (tl.load, tl.runs, tl.verify, tl.audit, tl.run):
        with pytest.raises(tl.TaskloomError, match="too long for a path"):
            open_it(text)
    for recipe, field in (("taskbench/father", "facts"), ("babi/concat-T2", "source")):
        with pytest.raises(tl.TaskloomError, match="too long for a path"):
            read(recipe, {field: text}).plan(0)
    assert path_of("x" * 255).name == "x" * 255


def test_the_number_of_examples_shown_is_bounded() -> None:
    with pytest.raises(tl.TaskloomError, match="10,000"):
        tl.show("ctl/A-independent", n=10**9)
