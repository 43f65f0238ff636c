"""Published numbers: data files, one a paper, each number with its place in the paper.

A paper's folder is `papers/<paper>/`, or a package of another distribution, which names it under the
entry-point group `taskloom`. Its `published.yaml` has the paper's title, its tables and figures
(`places`) and its numbers:

    numbers:
      - {place: Table 1, of: {model: bilstm, variant: A, split: ood}, value: 0.95, sd: 0.03, n: 25}

`of` says what the number is of, in the words that studies look it up by. `sd` and `n` are the
standard deviation over, and the number of, trainings; without them the number is taken for one
training. `decimals` is how the paper rounds (2 by default). `margin` is the difference that still
counts as agreement, for numbers on a scale of their own. Conditions that many numbers share stand
once, under `conditions: {all: …, GROUP: …}`; a number names its groups by `under: GROUP`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from taskloom.core.errors import TaskloomError, nearest
from taskloom.core.registry import paper_folders
from taskloom.recipe.yaml_files import parse

NUMBERS = "published.yaml"
"""File with the published numbers in the folder of a paper."""

MARGIN = 0.05
"""Difference of two accuracies that still counts as agreement. No claim of the papers rests on five
points of a hundred.
"""

WIDE_MARGIN, WIDE_SPREAD = 0.10, 0.15
"""Margin for numbers whose published standard deviation between trainings is above the second
number.

The mean of 25 trainings with a standard deviation of 0.27 is itself known only to ± 0.11.
"""


@dataclass(frozen=True, slots=True)
class PublishedNumber:
    """A number of a paper.

    Attributes:
        paper: The paper's name: `dyna-babi`.
        place: Where the paper has it: `Table 1`, `section 4.1`.
        of: What it is of.
        value: The number.
        sd: Standard deviation over trainings; None if the paper gives none. With `n` 1, the
            standard error of the number.
        n: Number of trainings that it is the mean of.
        decimals: Number of decimals in the paper.
        own_margin: Margin of agreement on the number's own scale, if it is no accuracy (slopes).
        conditions: Settings under which it was measured: `learner.steps: 80000`, `recipe.functions:
            32`.
        essential: Conditions that must agree for a comparison of numbers to mean anything.
    """

    paper: str
    place: str
    of: Mapping[str, Any]
    value: float
    sd: float | None = None
    n: int = 1
    decimals: int = 2
    own_margin: float | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    essential: tuple[str, ...] = ()

    @property
    def rounding(self) -> float:
        """Half a unit of the last decimal that the paper gives."""
        return 0.5 * 10.0**-self.decimals

    @property
    def margin(self) -> float:
        """Largest difference that counts as agreement."""
        if self.own_margin is not None:
            return self.own_margin
        if self.sd is not None and self.sd > WIDE_SPREAD:
            return WIDE_MARGIN
        return MARGIN

    @property
    def name(self) -> str:
        """What the number is of, as text."""
        return ", ".join(str(value) for value in self.of.values())

    def __str__(self) -> str:
        spread = "" if self.sd is None else f" ± {self.sd:.{max(0, self.decimals)}f}"
        return f"{self.value:,.{max(0, self.decimals)}f}{spread}"


@dataclass(frozen=True, slots=True)
class PaperPlace:
    """A table or figure of a paper, whether a study of it exists or not.

    Attributes:
        study: The name of its study.
        paper: The paper's title in short.
        place: `Table 1`.
        shows: What it shows.
        needs: What reproducing it takes: no training, networks from scratch, a pretrained model.
    """

    study: str
    paper: str
    place: str
    shows: str
    needs: str


@dataclass(frozen=True, slots=True)
class PaperData:
    """Contents of a paper's data file.

    Attributes:
        name: The paper's name: `dyna-babi`.
        paper: The paper's title in short.
        places: Its tables and figures, and our own questions about it.
        numbers: Its numbers.
    """

    name: str
    paper: str
    places: tuple[PaperPlace, ...]
    numbers: tuple[PublishedNumber, ...]


def _files() -> dict[str, Path]:
    """The data files of all papers, by the papers' names."""
    files: dict[str, Path] = {}
    for package, folder in paper_folders().items():
        # A folder is a Python package, so its name has underscores where the paper's name has
        # hyphens.
        name = package.rpartition(".")[2].replace("_", "-")
        file = folder / NUMBERS
        if not file.is_file():
            continue
        if name in files:
            raise TaskloomError(
                f"two packages have published numbers of '{name}': {files[name]} and {file};"
                " uninstall one, or rename its package"
            )
        files[name] = file
    return files


def paper_names() -> list[str]:
    """The papers that have a data file, in this package or in one that an entry point names."""
    return sorted(_files())


def paper(name: str) -> PaperData:
    """Read the data file of a paper."""
    files = _files()
    if name not in files:
        raise TaskloomError(f"there are no published numbers of '{name}'; {nearest(name, files)}")
    return _read(name, files[name])


@cache
def _read(name: str, file: Path) -> PaperData:
    data = parse(file.read_text(encoding="utf-8"))
    title = data["paper"]
    places = tuple(PaperPlace(paper=title, **place) for place in data["places"])
    shared, essential = data.get("conditions", {}), tuple(data.get("essential", ()))
    numbers = tuple(_number(name, row, shared, essential) for row in data.get("numbers", ()))
    return PaperData(name, title, places, numbers)


def published(name: str, place: str | None = None, **of: Any) -> list[PublishedNumber]:
    """Numbers of a paper, optionally of one place and of what the keywords select.

    Args:
        name: The paper's name: `dyna-babi`.
        place: Only these: `Table 1`.
        **of: Only numbers of this: `model="bilstm"`.
    """
    numbers = [n for n in paper(name).numbers if place in (None, n.place)]
    return [n for n in numbers if all(n.of.get(key) == value for key, value in of.items())]


def _number(
    name: str, row: Mapping[str, Any], shared: Mapping[str, Any], essential: tuple[str, ...]
) -> PublishedNumber:
    """Build a number with the conditions that it shares with others: those for `all`, and those of
    the groups it is `under`.
    """
    own = dict(row)
    own_margin = own.pop("margin", None)
    groups = str(own.pop("under", "")).split()
    common = {k: v for group in ("all", *groups) for k, v in shared.get(group, {}).items()}
    conditions = {**common, **own.pop("conditions", {})}
    return PublishedNumber(
        paper=name, essential=essential, conditions=conditions, own_margin=own_margin, **own
    )
