"""Fields of a CTL recipe: all settings of the paper and of its public code, with the paper's
defaults.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from taskloom.core.files import LATER
from taskloom.recipe import fields as kinds
from taskloom.recipe.fields import Fields, InputParts

Variant = Literal["A", "R", "S", "length"]
Whole = Annotated[int, Field(strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)] | Literal["every"]

SPLITS: dict[str, tuple[str, ...]] = {
    "A": ("train", "iid", "ood", "all", "pairs", "all-pairs"),
    "R": ("train", "iid", "ood", "all", "self-loop", "pairs", "all-pairs"),
    "S": (
        "train",
        "iid",
        "ood",
        "all",
        "self-loop",
        "overlap",
        "cross-unseen-symbols",
        "unseen-pairs",
        "pairs",
        "all-pairs",
    ),
    "length": ("train", "iid", "valid", "ood", "new-compositions", "new-primitives"),
}
"""Splits of each variant, in the order in which they are made."""

PROBES = ("cross-unseen-symbols", "unseen-pairs", "pairs", "all-pairs")
"""Splits of all two-function expressions, for analyses. They may overlap with other splits."""


def drawn_tests(variant: str) -> tuple[str, ...]:
    """Return the test splits that are disjoint from training and iid, in the order in which they
    are drawn.
    """
    others = ("train", "iid", *PROBES)
    return tuple(name for name in SPLITS[variant] if name not in others)


OF_VARIANTS: dict[str, tuple[str, ...]] = {
    "groups": ("A", "R", "S"),
    "group_distance": ("A", "R", "S"),
    **dict.fromkeys(("overlap", "shared_symbols", "imbalance", "allowed"), ("S",)),
    **dict.fromkeys(("new_functions", "deeper", "reserved"), ("length",)),
}
"""Fields that only some variants have."""

PAPER_TRAIN = 300_000
PAPER_TEST = 1_000
"""Sizes of the paper's splits. Splits reserve room for each other at these sizes. Changing the size
of a split does not change the rows of others as long as it stays below.
"""


class CtlSplit(Fields):
    """Size of one split: a number, or `every` for a split that enumerates its space."""

    n: Count


class CtlFields(InputParts):
    """Fields of a CTL recipe."""

    foremost: ClassVar[tuple[str, ...]] = (
        "variant",
        "symbols",
        "functions",
        "groups",
        "max_length",
        "draw",
        "splits",
    )

    variant: Variant = kinds.world(
        description=(
            "Which compositions are seen: A alternating, R repeating, S staged, length productivity"
        )
    )
    symbols: int = kinds.world(8, ge=2, le=10_000, description="Number of symbols")
    functions: int = kinds.world(32, ge=1, le=10_000, description="Number of functions")
    groups: int = kinds.world(2, ge=1, le=10_000, description="Groups of A and R; paths of S (2)")
    min_length: int = kinds.draw(2, ge=1, description="Fewest functions in a drawn expression")
    max_length: int = kinds.draw(
        6, ge=1, le=64, description="Most functions in a training expression"
    )
    include_singles: bool = kinds.draw(
        True, description="Put every single application into training (the paper, for A and R)"
    )
    include_pairs: bool | Literal["added"] = kinds.draw(
        False,
        description=(
            "Put every two-function expression into training: true instead of drawn ones, added"
            " beside the n drawn rows, as the public code does, so that drawn pairs are there twice"
        ),
    )
    fill: float = kinds.draw(
        0.5,
        gt=0,
        le=1,
        description="Largest share of the expressions of a length that training may take",
    )
    draw: Literal["published", "chains", "independent"] = kinds.draw(
        "independent",
        description=(
            "How training and iid are drawn. published: as the public code on a machine with many"
            " cores, chains nested across lengths and with nearly all start symbols; chains:"
            " independent chains with all start symbols; independent: every expression on its own"
        ),
    )
    processes: int = kinds.draw(
        32, ge=1, le=1_000, description="draw published: processes of the public code"
    )
    symbols_per_chain: int | None = kinds.draw(
        None,
        ge=1,
        description=(
            "draw chains, A and R: start symbols that every chain comes with; all unless given"
        ),
    )
    overlap: int = kinds.world(16, ge=0, description="S: functions shared by both paths")
    shared_symbols: int = kinds.world(
        6, ge=0, description="S: symbols on which a shared function is seen after both paths"
    )
    imbalance: int = kinds.world(
        0, ge=0, description="S: unshared symbols moved from path b to path a"
    )
    allowed: dict[str, dict[str, list[int]]] | None = kinds.world(
        None,
        description=(
            "S: symbols per shared function and stage-1 group, instead of drawn ones: {f: {a1:"
            " [...], b1: [...]}}"
        ),
    )
    new_functions: int = kinds.world(
        0, ge=0, description="length: functions seen only alone in training"
    )
    deeper: int = kinds.draw(
        3,
        ge=1,
        le=64,
        description=(
            "length: number of functions by which the longest test expression exceeds max_length"
        ),
    )
    reserved: int = kinds.draw(
        200, ge=0, description="length: chains per length kept out of training (at most a quarter)"
    )
    order: Literal["right-to-left", "left-to-right"] = kinds.presentation(
        "right-to-left", description="Where the outermost function is written"
    )
    table_seed: int = kinds.world(
        0, description="Seed of the function tables and of the shared symbols"
    )
    tables: dict[str, list[Annotated[int, Field(strict=True)]]] | None = kinds.world(
        None, description="Given function tables: name to list of images"
    )
    group_distance: Annotated[
        Literal["given", "smallest", "largest"] | Annotated[float, Field(ge=0, le=1)], LATER
    ] = kinds.world(
        "given",
        description=(
            "A, R, S: how differently the groups act, as a number from 0 to 1 (the nearest that can"
            " be reached), smallest or largest. The functions are divided anew among the groups to"
            " reach it; given keeps the division"
        ),
    )
    splits: dict[str, CtlSplit] = kinds.draw(
        default_factory=dict, description="Sizes by split; a missing split is not made"
    )

    def divide(self, text: str, question: str) -> tuple[str, str]:
        """Split an input into the chain of functions, which is the question, and the symbol."""
        if self.order == "right-to-left":
            chain, _, symbol = text.rpartition(" ")
        else:
            symbol, _, chain = text.partition(" ")
        return chain, symbol

    @model_validator(mode="after")
    def _agree(self) -> CtlFields:
        if self.min_length > self.max_length:
            raise ValueError(
                f"min_length {self.min_length} is larger than max_length {self.max_length}"
            )
        if self.variant == "S" and self.groups != 2:
            raise ValueError(f"groups: variant S has 2 paths, not {self.groups}")
        if self.draw != "independent" and self.variant == "length":
            raise ValueError(
                f"draw: variant length has only the draw 'independent', not '{self.draw}'"
            )
        if self.symbols_per_chain is not None and (self.draw != "chains" or self.variant == "S"):
            raise ValueError(
                f"symbols_per_chain: only for draw 'chains' of variants A and R, not '{self.draw}'"
                f" of {self.variant}"
            )
        self._check_variant()
        self._check_splits()
        return self

    def _check_variant(self) -> None:
        """Reject fields of other variants, unless they have their defaults."""
        for name, variants in OF_VARIANTS.items():
            if self.variant in variants:
                continue
            default = type(self).model_fields[name].default
            if getattr(self, name) != default:
                raise ValueError(
                    f"{name}: only for variant {' or '.join(variants)}, not for {self.variant}"
                )

    def _check_splits(self) -> None:
        known = SPLITS[self.variant]
        for name in self.splits:
            if name not in known:
                raise ValueError(
                    f"splits: variant {self.variant} has no split '{name}'; it has"
                    f" {', '.join(known)}"
                )
        if "train" not in self.splits:
            raise ValueError("splits: a CTL recipe needs the split 'train'")
        for name, split in self.splits.items():
            if split.n == "every" and name not in PROBES:
                raise ValueError(
                    f"splits.{name}: n must be a number; 'every' is for {', '.join(PROBES)}"
                )
