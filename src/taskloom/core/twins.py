"""Twins: companion splits that contain one variant of every item of a test split.

Row i of `ood-flip` is row i of `ood` with an edit that changes the answer, and row i of `ood-keep`
is row i with an edit that must not change it. An item without such a variant is copied unchanged,
with an empty trait `edit`, and its pair is excluded from twin scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal, get_args

import pyarrow as pa

from taskloom.core import shards
from taskloom.core.descriptions import with_trait
from taskloom.core.errors import RecipeError, nearest
from taskloom.core.example import Example
from taskloom.core.plan import Plan, Split, Variant
from taskloom.core.seeding import Key

TwinKind = Literal["flip", "keep"]

TWIN_KINDS: tuple[TwinKind, ...] = get_args(TwinKind)

TRAITS: dict[str, type] = {"edit": str, "before": str, "after": str}
"""Traits of twins: name of the edit (empty if the item has no such variant), and the text before
and after it.
"""

EVERY_TEST = "*"
"""Wildcard for all test splits."""

DESCRIBE = {
    "flip": "the items of {split}, each with an edit that changes the answer",
    "keep": "the items of {split}, each with an edit that must not change the answer",
}


def companion(split: str, kind: TwinKind) -> str:
    """Return the name of the split that contains the twins of a split.

    >>> companion("ood", "flip")
    'ood-flip'
    """
    return f"{split}-{kind}"


def with_twins(plan: Plan, wanted: Mapping[str, tuple[TwinKind, ...]]) -> Plan:
    """Return the plan with companion splits.

    Args:
        plan: The plan of the recipe without twins.
        wanted: Kinds of twins for each split. `EVERY_TEST` stands for all test splits.

    Raises:
        RecipeError: If the recipe has no variants, or no such test split.
    """
    if plan.variants is None:
        raise RecipeError("twins: this recipe has no variants of its examples; leave 'twins' out")
    tests = [split.name for split in plan.splits if split.role == "test"]
    for name in wanted:
        if name != EVERY_TEST and name not in tests:
            raise RecipeError(f"twins: there is no test split '{name}'; {nearest(name, tests)}")
    names = {split.name for split in plan.splits}
    splits: list[Split] = []
    for split in plan.splits:
        splits.append(replace(split, rows=partial(_plain_rows, plan, split)))
        kinds = wanted.get(split.name, ())
        if split.role == "test" and not kinds:
            kinds = wanted.get(EVERY_TEST, ())
        for kind in kinds:
            name = companion(split.name, kind)
            if name in names:
                raise RecipeError(f"twins: there is already a split '{name}'; rename it")
            splits.append(
                replace(
                    split,
                    name=name,
                    rows=partial(_twin_rows, plan, split, kind),
                    # An edited item may equal a training item.
                    role="probe",
                    twin_of=split.name,
                    describe=DESCRIBE[kind].format(split=split.name),
                )
            )
    return replace(plan, splits=tuple(splits), traits={**plan.traits, **TRAITS})


def _plain_rows(plan: Plan, split: Split, start: int, stop: int) -> Iterable[Example] | pa.Table:
    """Return the rows of an ordinary split, without the traits of twins."""
    rows = split.rows(start, stop)
    if isinstance(rows, pa.Table):
        for trait in TRAITS:
            rows = with_trait(rows, trait, pa.nulls(len(rows), pa.string()))
    return rows


def _twin_rows(
    plan: Plan, split: Split, kind: TwinKind, start: int, stop: int
) -> Iterator[Example]:
    table = shards.to_table(split.rows(start, stop), start, plan.traits)
    for example in shards.to_examples(table):
        twin = choose_twin(plan, example, kind)
        if twin is None:
            yield replace(example, traits={**example.traits, **dict.fromkeys(TRAITS, "")})
        else:
            edit = {"edit": twin.edit, "before": twin.before, "after": twin.after}
            yield replace(twin.example, traits={**twin.example.traits, **edit})


def choose_twin(plan: Plan, example: Example, kind: TwinKind) -> Variant | None:
    """Choose a variant of a kind: first an edit, all with equal probability, then a variant with
    that edit.

    The choice depends only on the plan and the item. None if the item has no such variant.
    """
    assert plan.variants is not None
    by_edit: dict[str, list[Variant]] = {}
    for variant in plan.variants(example):
        if variant.kind == kind:
            by_edit.setdefault(variant.edit, []).append(variant)
    if not by_edit:
        return None
    rng = Key("twins", kind, example.input).random()
    return rng.choice(by_edit[rng.choice(list(by_edit))])
