"""The panel: which recipes a profile runs, in which ways a model is asked, and which conditions are
contrasted.

It is a file of the package, `panel.yaml`, with a version. Two profiles are compared only where they
were made with one version.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from taskloom.core.errors import TaskloomError, nearest
from taskloom.recipe import Fields
from taskloom.recipe.yaml_files import load, validated

FILE = Path(__file__).parent / "panel.yaml"

Way = Literal["zero-shot", "few-shot", "described"]
"""zero-shot: the input alone; few-shot: examples of training before it; described: the task's
description before it.
"""


class PanelError(TaskloomError):
    """A panel that cannot be read."""


class PanelRecipe(Fields):
    """A recipe of the panel, and how models are asked.

    Attributes:
        recipe: The recipe by name.
        set: Changes of its fields.
        splits: The splits that are answered, as an experiment spells them under `evaluate`.
        ways: How a model is asked.
        shots: Examples that few-shot prompts show.
        tokens: The most tokens of an answer.
    """

    recipe: str
    set: dict[str, Any] = Field(default_factory=dict)
    splits: list[str]
    ways: list[Way]
    shots: int = Field(4, ge=1)
    tokens: int = Field(12, ge=1)

    @property
    def split_names(self) -> list[str]:
        """Return what runs call the splits: `test` for `SUITE/NAME:test`."""
        return [split.rpartition(":")[2] for split in self.splits]


class PanelSide(Fields):
    """One condition of a contrast: a split of a recipe, or the examples of it that have some
    traits.

    Attributes:
        recipe: By its name in the panel.
        split: One of its splits.
        where: Traits with their values.
    """

    recipe: str
    split: str
    where: dict[str, str] = Field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return the condition as one text: `NAME:test`, with its traits where it has some."""
        return ":".join(
            [self.recipe, self.split, *(f"{k}={v}" for k, v in sorted(self.where.items()))]
        )


class PanelContrast(Fields):
    """Two conditions that differ in one thing.

    Attributes:
        axis: What they differ in.
        name: In words.
        easy: The condition that is measured against.
        hard: The other one.
        same: Whether both have the same items, so that they are compared item by item.
        control: Whether nothing can be known of the hard condition beforehand.
    """

    axis: str
    name: str
    easy: PanelSide
    hard: PanelSide
    same: bool = False
    control: bool = False

    @field_validator("easy", "hard", mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        """Read `NAME:SPLIT`."""
        if isinstance(value, str):
            recipe, _, split = value.partition(":")
            return {"recipe": recipe, "split": split}
        return value


class TaskPanel(Fields):
    """A panel.

    Attributes:
        version: Raised with every change.
        recipes: By name.
        contrasts: In the order of the page.
    """

    version: int
    recipes: dict[str, PanelRecipe]
    contrasts: list[PanelContrast]

    @model_validator(mode="after")
    def _known(self) -> TaskPanel:
        for contrast in self.contrasts:
            for side in (contrast.easy, contrast.hard):
                if side.recipe not in self.recipes:
                    raise ValueError(
                        f"contrasts: '{contrast.name}' names '{side.recipe}';"
                        f" {nearest(side.recipe, self.recipes)}"
                    )
                splits = self.recipes[side.recipe].split_names
                if side.split not in splits:
                    raise ValueError(
                        f"contrasts: {side.recipe} has no split '{side.split}';"
                        f" {nearest(side.split, splits)}"
                    )
        return self

    def ways_of(self, contrast: PanelContrast) -> list[Way]:
        """Return the ways in which both sides of a contrast are asked."""
        hard = self.recipes[contrast.hard.recipe].ways
        return [way for way in self.recipes[contrast.easy.recipe].ways if way in hard]

    def sides(self) -> list[PanelSide]:
        """Return every condition once: all splits, and the parts of them that contrasts name."""
        whole = [
            PanelSide(recipe=name, split=split)
            for name, one in self.recipes.items()
            for split in one.split_names
        ]
        named = [side for contrast in self.contrasts for side in (contrast.easy, contrast.hard)]
        return list({side.key: side for side in (*whole, *named)}.values())


def read_panel(path: Path = FILE) -> TaskPanel:
    """Read a panel from its file."""
    return validated(TaskPanel, load(path, PanelError), str(path), PanelError)


@cache
def packaged_panel() -> TaskPanel:
    """Return the panel of this package."""
    return read_panel()
