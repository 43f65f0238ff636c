"""The splits that a cell answers: those of its own data, of other recipes, and of somebody's own files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from taskloom.core.errors import RecipeError, nearest
from taskloom.experiments.spec.cell_data import CellData, RecipeMix, read_recipes
from taskloom.experiments.spec.experiment import ExperimentError
from taskloom.experiments.spec.own_data import is_own_data

ONLY = "only"
"""The key of a block under `evaluate` that names some splits of its recipe; all test splits without it."""


@dataclass(frozen=True, slots=True)
class EvaluatedSplit:
    """A split that a cell answers.

    Attributes:
        name: What tables call it: the split, or `RECIPE:SPLIT` where a recipe has to be named.
        data: The data that it belongs to.
        split: Its name there.
        limit: The most of its examples that are answered; 0: all.
    """

    name: str
    data: CellData
    split: str
    limit: int = 0

    @property
    def identity(self) -> list[str]:
        """Return what the digest of a run says of it."""
        names = [self.name] if self.name == self.split else [self.name, self.split]
        return [*names, self.data.key, *([f"limit {self.limit}"] if self.limit else [])]


class SplitFinder:
    """Finds evaluated splits by what an experiment calls them; other recipes are read once."""

    def __init__(self) -> None:
        self._others: dict[str, CellData] = {}

    def find(
        self, data: CellData | RecipeMix, evaluate: Sequence[str | dict[str, Any]]
    ) -> tuple[EvaluatedSplit, ...]:
        """Return the splits to answer, by name; all test splits, and those of `tested_by`, where `evaluate` is empty."""
        own = {one.name: one for one in _own(data)}
        wanted: Sequence[str | dict[str, Any]] = evaluate or _by_default(data, own)
        tests: list[EvaluatedSplit] = []
        others: list[EvaluatedSplit] = []
        for block in wanted:
            matching = [one for one in own.values() if block in (one.name, one.split)]
            tests += matching
            others += [] if matching else self._other(block, data, own)
        tests += _named(others, tests)
        if not tests:
            raise ExperimentError(
                f"{data.name} has no test split; say what to answer: evaluate: [{', '.join(own)}]"
            )
        for name, times in Counter(one.name for one in tests).items():
            if times > 1:
                raise ExperimentError(
                    f"{data.name} would be evaluated on two splits called '{name}'; name the splits you want"
                )
        return tuple(sorted(tests, key=lambda one: one.name))

    def _other(
        self,
        block: str | dict[str, Any],
        data: CellData | RecipeMix,
        own: dict[str, EvaluatedSplit],
    ) -> Iterator[EvaluatedSplit]:
        """Yield the splits of another recipe, or of files."""
        only = block.get(ONLY) if isinstance(block, dict) else None
        plain = {k: v for k, v in block.items() if k != ONLY} if isinstance(block, dict) else block
        try:
            other = self._read(plain)
        except RecipeError as error:
            name, colon, split = plain.rpartition(":") if isinstance(plain, str) else ("", "", "")
            if not colon or not name or name.endswith(":"):
                raise _unknown(block, data, own) from error
            try:
                other, only = self._read(name), [split]
            except RecipeError:
                raise _unknown(block, data, own) from error
        splits = {s.name: s for s in other.plan.splits}
        names = (
            [only]
            if isinstance(only, str)
            else only or [s.name for s in splits.values() if s.role == "test"]
        )
        for name in names:
            if name not in splits:
                raise ExperimentError(
                    f"evaluate: {other.name} has no split '{name}'; {nearest(str(name), splits)}"
                )
            yield EvaluatedSplit(name, other, name)

    def _read(self, block: str | dict[str, Any]) -> CellData:
        known = str(block)
        if known not in self._others:
            [other] = read_recipes(block, {})
            # What is written by its name alone keeps the seed that its recipe names.
            bare = isinstance(block, str) and not is_own_data(block)
            self._others[known] = (
                CellData(other.recipe, other.recipe.seed, {"recipe": block}) if bare else other
            )
        return self._others[known]


def _own(data: CellData | RecipeMix) -> list[EvaluatedSplit]:
    """Return all splits of what is learned from; those of a mix are named with their recipe."""
    if isinstance(data, CellData):
        return [EvaluatedSplit(s.name, data, s.name) for s in data.plan.splits]
    pairs = zip(data.labels, data.parts, strict=True)
    return [
        EvaluatedSplit(f"{label}:{s.name}", part, s.name)
        for label, part in pairs
        for s in part.plan.splits
    ]


def _by_default(data: CellData | RecipeMix, own: dict[str, EvaluatedSplit]) -> list[str]:
    tests = [name for name, one in own.items() if one.data.plan.split(one.split).role == "test"]
    tested_by = [getattr(part.recipe.fields, "tested_by", None) for part in data.parts]
    return [*tests, *dict.fromkeys(str(name) for name in tested_by if name)]


def _named(others: Sequence[EvaluatedSplit], own: Sequence[EvaluatedSplit]) -> list[EvaluatedSplit]:
    """Name the recipe of every foreign split whose name another split has."""
    taken = Counter([*(one.name for one in own), *(one.split for one in others)])
    return [
        EvaluatedSplit(f"{one.data.name}:{one.split}", one.data, one.split)
        if taken[one.split] > 1
        else one
        for one in others
    ]


def _unknown(
    block: str | dict[str, Any], data: CellData | RecipeMix, own: dict[str, EvaluatedSplit]
) -> ExperimentError:
    name = block if isinstance(block, str) else str(block.get("recipe", block))
    return ExperimentError(
        f"evaluate: {data.name} has no split '{name}'; {nearest(name, own)} (or a recipe whose test splits are answered)"
    )


def spell(
    tests: Sequence[EvaluatedSplit], data: CellData | RecipeMix
) -> list[str | dict[str, Any]]:
    """Return splits as an experiment spells them under `evaluate`."""
    spelt: list[str | dict[str, Any]] = [one.name for one in tests if one.data in data.parts]
    others: dict[str, list[EvaluatedSplit]] = {}
    for one in tests:
        if one.data not in data.parts:
            others.setdefault(one.data.key, []).append(one)
    for group in others.values():
        other = group[0].data
        names = [one.split for one in group]
        whole = sorted(names) == sorted(s.name for s in other.plan.splits if s.role == "test")
        if whole and list(other.block) == ["recipe"]:
            spelt.append(str(other.block["recipe"]))
        else:
            spelt.append({**other.block, **({} if whole else {ONLY: names})})
    return spelt
