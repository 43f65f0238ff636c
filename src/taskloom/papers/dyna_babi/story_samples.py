"""Stories of the paper's recipes, counted: lengths, supports, and what is in a support."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from taskloom.core.example import Example
from taskloom.core.plan import Split
from taskloom.recipe import read
from taskloom.suites.babi.fields import BabiFields

SEED = 0
"""The tables are of one draw; lengths of tasks 3, 5, 7 and 8 were set on it (docs/papers/dyna-babi.md)."""


@dataclass(frozen=True, slots=True)
class StorySample:
    """Mean length and support of the examples of a split.

    Attributes:
        recipe: The recipe.
        examples: How many were generated.
        size: How many the split has.
        length: Mean sentences before the question.
        support: Mean size of the official support.
        minimal: Mean size of the minimal support.
    """

    recipe: str
    examples: int
    size: int
    length: float
    support: float
    minimal: float


def fields_of(name: str) -> BabiFields:
    """Return the fields of a recipe of stories: `5`, `mix-T7`."""
    fields = read(f"babi/{name}").fields
    assert isinstance(fields, BabiFields)
    return fields


def first_split(name: str, most: int | None = None) -> Split:
    """Return the first split of a recipe, with at most so many examples in the same proportions."""
    split = read(f"babi/{name}").plan(SEED).splits[0]
    if most is None or split.n <= most:
        return split
    return read(f"babi/{name}", [f"splits.{split.name}.n={most}"]).plan(SEED).splits[0]


def examples_of(name: str, most: int | None = None) -> Iterator[Example]:
    """Yield the examples of a recipe's first split, at most so many."""
    split = first_split(name, most)
    yield from split.rows(0, split.n)


def sample(name: str, most: int | None = None) -> StorySample:
    """Generate at most so many examples of a recipe's first split and count them."""
    return counted(f"babi/{name}", first_split(name).n, examples_of(name, most))


def counted(recipe: str, size: int, examples: Iterable[Example]) -> StorySample:
    """Return the means of examples.

    Args:
        recipe: Where they come from.
        size: How many the whole split has.
        examples: Those to count.
    """
    n = length = support = minimal = 0
    for example in examples:
        n += 1
        length += int(example.traits["sentences"])
        support += int(example.traits["support"])
        minimal += int(example.traits["minimal"])
    return StorySample(recipe, n, size, length / n, support / n, minimal / n)


def support_has(example: Example, concept: str) -> bool:
    """Return whether a concept is in the support of an example."""
    return concept in str(example.traits["composition"]).split("+")
