"""Ablations are paired: training sizes, layouts, separators and permuted labels are compared on the
same test items.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.cli.app import run as command
from taskloom.core.plan import Plan, Split
from taskloom.core.seeding import Key
from taskloom.experiments.store import Store
from taskloom.experiments.table import Runs
from taskloom.recipe.fields import Fields, draw, presentation
from tests.experiments.sweeps import SMALL, fill

PAIRED = ("McNemar (mid-p)", "paired bootstrap")


def filled(
    path: Path,
    name: str,
    fields: dict[str, Any],
    grid: dict[str, list[Any]],
    split: str,
    **more: Any,
) -> Store:
    block = {"recipe": name, "set": fields, "grid": grid}
    outcome = fill(
        {"recipes": [block], "learners": ["nearest-neighbour"], "evaluate": [split], **more}, path
    )
    assert not outcome.state.failed
    return outcome.store


def columns(store: Store, column: str, *names: str) -> dict[Any, list[tuple[Any, ...]]]:
    """Columns of the predictions, by the value of a field; tasks in order."""
    rows: dict[Any, list[tuple[Any, ...]]] = {}
    for row in sorted(Runs(store).table.to_pylist(), key=lambda row: str(row.get("recipe.task"))):
        table = store.predictions([row["run"]], names)
        rows.setdefault(row[column], []).extend(
            zip(*(map(str, table[n].to_pylist()) for n in names), strict=True)
        )
    return rows


def compared(
    store: Store, a: str, b: str, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert command(["compare", str(store.path), a, b, "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


def test_a_learning_curve_over_five_training_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = [100, 150, 200, 300, 400]
    store = filled(tmp_path / "runs", "ctl/A", SMALL, {"splits.train.n": sizes}, "ood")
    answered = columns(store, "recipe.splits.train.n", "index", "input")
    assert list(answered) == sizes
    assert all(rows == answered[400] for rows in answered.values())
    for size in sizes[:-1]:
        name = "recipe.splits.train.n"
        [row] = compared(store, f"{name}={size}", f"{name}=400", capsys)
        assert (row["test"], row["items"]) == ("McNemar (mid-p)", 40)


def test_four_layouts_of_the_same_passages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layouts = ["t5", "bart", "reference-t5", "reference-bart"]
    few = {"tasks": {"train": 12, "dev": 24, "test": 0}, "passages": 2}
    store = filled(tmp_path / "runs", "zest/synthetic", few, {"layout": layouts}, "dev")
    items = columns(store, "recipe.layout", "index", "task", "targets", "traits")
    assert sorted(items) == sorted(layouts)
    assert all(rows == items["t5"] for rows in items.values())
    inputs = columns(store, "recipe.layout", "input")
    assert len({tuple(rows) for rows in inputs.values()}) >= 2  # written differently
    for layout in layouts[1:]:
        [row] = compared(store, "layout=t5", f"layout={layout}", capsys)
        assert row["test"] in PAIRED
        assert row["items"] == 48


def test_other_items_are_not_paired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = {"tasks": {"train": 12, "dev": 24, "test": 0}, "passages": 2}
    block = {"recipe": "zest/synthetic", "set": few}
    plain = {"learners": ["majority"], "evaluate": ["dev"]}
    fill(
        {"recipes": [{**block, "seed": 0, "set": {**few, "layout": "t5"}}], **plain},
        tmp_path / "runs",
    )
    fill(
        {"recipes": [{**block, "seed": 1, "set": {**few, "layout": "bart"}}], **plain},
        tmp_path / "runs",
    )
    assert command(["compare", str(tmp_path / "runs"), "layout=t5", "layout=bart"]) == 2
    assert "answered different items" in capsys.readouterr().err


class LoudFields(Fields):
    first: int = draw(0)
    loud: bool = presentation(False)


def count_up(fields: LoudFields, key: Key) -> Plan:
    """Numbers from `first` on: all items are alike in task, answer and traits."""

    def rows(start: int, stop: int) -> list[tl.Example]:
        texts = [f"is {fields.first + index} a number" for index in range(start, stop)]
        return [tl.Example(text.upper() if fields.loud else text, "yes") for text in texts]

    return Plan((Split("train", 3, rows, "train"), Split("test", 3, rows)))


def test_items_that_are_alike_but_for_their_text_are_not_paired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tl.suite("loud", describe="numbers", fields=LoudFields)(count_up)
    blocks = [
        {"suite": "loud", "name": name, "first": first, "loud": loud}
        for name, first, loud in (("quiet", 0, False), ("loud", 0, True), ("others", 1, True))
    ]
    store = fill({"recipes": blocks, "learners": ["majority"]}, tmp_path / "runs").store
    [row] = compared(store, "recipe=quiet", "recipe=loud", capsys)
    assert row["items"] == 3
    assert command(["compare", str(store.path), "recipe=quiet", "recipe=others"]) == 2
    assert "answered different items" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("function", "field", "values"),
    [
        ("map(antonyms[eng])", "sequences.separators", [False, True]),
        ("antonyms[eng]", "labels", ["true", "permuted"]),
    ],
)
def test_separators_and_permuted_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], function: str, field: str, values: list[Any]
) -> None:
    few = {"functions": [function], "sequences.n": 100, "few_shot": None, "answers": False}
    store = filled(
        tmp_path / "runs", "taskbench/english", few, {field: values}, "test", learners=["majority"]
    )
    column = f"recipe.{field}"
    same = columns(store, column, "index", "task", *(["input"] if field == "labels" else []))
    assert same[values[0]] == same[values[1]]
    sides = [f"{column}={str(value).lower()}" for value in values]
    [row] = compared(store, sides[0], sides[1], capsys)
    assert row["test"] in PAIRED
    assert row["items"] == len(same[values[0]])
