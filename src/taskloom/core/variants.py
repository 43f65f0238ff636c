"""Variants: items that differ from a given item in exactly one thing.

Suites derive the answer of any item, so they can also derive the answer of any variation of it.
A *simpler* variant has something less (a distractor, a person, a step). A *flip* is one edit that
changes the answer, a *keep* one that must not. `Plan.variants` lists the variants of an item; the
second solver (`Plan.check`) proves their answers like those of any other item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from taskloom.core.errors import DataError, InputError
from taskloom.core.example import Example

VariantKind = Literal["simpler", "flip", "keep"]

KINDS: tuple[VariantKind, ...] = get_args(VariantKind)


@dataclass(frozen=True, slots=True)
class Variant:
    """An item that differs from another one in one thing.

    Attributes:
        kind: `simpler`, `flip` (the answer changes) or `keep` (it stays).
        edit: Name of the edit, such as `another room`. It is the same for all items, so that
            failures can be grouped by it.
        example: The varied item, with its derived answer.
        before: Text of the original that the edit replaced; empty for an insertion.
        after: Text that replaced it; empty for a removal.
    """

    kind: VariantKind
    edit: str
    example: Example
    before: str = ""
    after: str = ""


Propose = Callable[[Example], Iterable[Variant]]
"""Lists candidates: variants with derived answers, of which `proved` keeps what the kind allows."""


def proved(propose: Propose, check: Callable[[Example], tuple[str, ...]] | None) -> Propose:
    """Build `Plan.variants` from a suite's candidates.

    A candidate is dropped if its text repeats another one of its kind, if it is a flip that shares an answer
    with the original or a keep that changes the answers, or if the second solver cannot read it.

    Args:
        propose: The candidates of an item, in order.
        check: The second solver; None if a task has none.
    """

    def variants(example: Example) -> Iterator[Variant]:
        met = {(kind, example.input) for kind in KINDS}
        original = set(example.targets)
        for variant in propose(example):
            varied = variant.example
            answers = set(varied.targets)
            if (variant.kind, varied.input) in met:
                continue
            if variant.kind == "flip" and answers & original:
                continue
            if variant.kind == "keep" and answers != original:
                continue
            met.add((variant.kind, varied.input))
            if check is None or _confirmed(variant, check):
                yield variant

    return variants


def _confirmed(variant: Variant, check: Callable[[Example], tuple[str, ...]]) -> bool:
    """True if the second solver gives the same answers; False if it refuses the text.

    Raises:
        DataError: The two solvers disagree, which is a bug in the suite.
    """
    varied = variant.example
    try:
        answers = check(varied)
    except InputError:
        return False
    if set(answers) != set(varied.targets):
        raise DataError(
            f"the solvers disagree about the variant {varied.input!r} ({variant.edit}):"
            f" {', '.join(varied.targets)} or {', '.join(answers)}: a bug in the suite"
        )
    return True
