"""The packaged panel, and panels that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskloom.analysis.profile.panel import PanelError, packaged_panel, read_panel
from taskloom.analysis.profile.profile import planned, read_model
from taskloom.experiments.spec import cells
from taskloom.recipe import read


def test_the_packaged_panel_has_every_suite_axis_and_way() -> None:
    panel = packaged_panel()
    assert len(panel.recipes) >= 40
    assert {one.recipe.partition("/")[0] for one in panel.recipes.values()} == {
        "ctl",
        "babi",
        "taskbench",
        "zest",
    }
    axes = {"unseen compositions", "depth", "length", "support size", "paraphrase", "edits"}
    assert {contrast.axis for contrast in panel.contrasts} == axes | {"contamination"}
    assert {way for one in panel.recipes.values() for way in one.ways} == {
        "zero-shot",
        "few-shot",
        "described",
    }
    assert all(panel.ways_of(contrast) for contrast in panel.contrasts)


PANEL = """
version: 1
recipes:
  one: {recipe: babi/1, splits: [test], ways: [zero-shot]}
contrasts:
  - {axis: depth, name: x, easy: "one:test", hard: "HARD"}
"""


@pytest.mark.parametrize(
    ("hard", "sentence"),
    [
        ("ona:test", "did you mean 'one'"),
        ("one:tset", "one has no split 'tset'; did you mean 'test'"),
    ],
)
def test_a_contrast_names_conditions_that_exist(hard: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "panel.yaml"
    path.write_text(PANEL.replace("HARD", hard))
    with pytest.raises(PanelError, match=sentence):
        read_panel(path)


def test_zest_has_as_many_tasks_of_each_kind_as_the_panel_asks_for() -> None:
    for name, recipe in packaged_panel().recipes.items():
        if name.startswith("zest-"):
            assert read(recipe.recipe, recipe.set).plan().split("test").n == 200


@pytest.mark.slow
def test_every_recipe_of_the_panel_can_be_run() -> None:
    table = [cell for one in planned(read_model("smollm2"), True) for cell in cells.expand(one)]
    assert len(table) >= 90
    wanted = {name for one in packaged_panel().recipes.values() for name in one.split_names}
    assert {test.name for cell in table for test in cell.tests} == wanted
