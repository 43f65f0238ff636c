"""Fields of a CTL recipe. They cover all settings of the paper and of its public code, with the
paper's defaults.
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
"""Splits of each variant, in the order in which they are generated."""

PROBES = ("cross-unseen-symbols", "unseen-pairs", "pairs", "all-pairs")
"""Splits that enumerate two-function expressions for analysis. They may overlap with other
splits.
"""


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
"""Fields that only apply to some variants."""

PAPER_TRAIN = 300_000
PAPER_TEST = 1_000
"""Sizes of the paper's splits. Each split reserves space for the others at these sizes, so changing
the size of a split within this limit does not change the rows of others.
"""


class CtlSplit(Fields):
    """Size of a split: a number, or `every` for a split that enumerates all its expressions."""

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
            "Compositions seen in training: A alternates groups, R repeats a group, S uses two "
            "stages, length tests longer chains"
        )
    )
    symbols: int = kinds.world(8, ge=2, le=10_000, description="Number of symbols")
    functions: int = kinds.world(32, ge=1, le=10_000, description="Number of functions")
    groups: int = kinds.world(
        2, ge=1, le=10_000, description="Number of groups in A and R; number of paths in S (2)"
    )
    min_length: int = kinds.draw(
        2, ge=1, description="Minimum number of functions in a drawn expression"
    )
    max_length: int = kinds.draw(
        6, ge=1, le=64, description="Maximum number of functions in a training expression"
    )
    include_singles: bool = kinds.draw(
        True, description="Add every single application to training, as the paper does for A and R"
    )
    include_pairs: bool | Literal["added"] = kinds.draw(
        False,
        description=(
            "Add every two-function expression to training. true: in place of drawn rows; added: "
            "on top of the n drawn rows, as in the public code, so that drawn pairs occur twice"
        ),
    )
    fill: float = kinds.draw(
        0.5,
        gt=0,
        le=1,
        description="Maximum share of the expressions of a length that training may use",
    )
    draw: Literal["published", "chains", "independent"] = kinds.draw(
        "independent",
        description=(
            "How training and iid are drawn. published: like the public code on a machine with "
            "many cores, with chains nested across lengths and combined with nearly all start "
            "symbols; chains: independent chains, each with all start symbols; independent: each "
            "expression independently"
        ),
    )
    processes: int = kinds.draw(
        32, ge=1, le=1_000, description="draw published: number of processes of the public code"
    )
    symbols_per_chain: int | None = kinds.draw(
        None,
        ge=1,
        description=("draw chains, A and R: number of start symbols per chain [all]"),
    )
    overlap: int = kinds.world(16, ge=0, description="S: number of functions shared by both paths")
    shared_symbols: int = kinds.world(
        6,
        ge=0,
        description="S: number of symbols on which a shared function is seen after both paths",
    )
    imbalance: int = kinds.world(
        0, ge=0, description="S: number of unshared symbols moved from path b to path a"
    )
    allowed: dict[str, dict[str, list[int]]] | None = kinds.world(
        None,
        description=(
            "S: allowed symbols by shared function and stage-1 group, instead of drawn ones: {f: "
            "{a1: [...], b1: [...]}}"
        ),
    )
    new_functions: int = kinds.world(
        0, ge=0, description="length: number of functions that training shows only on their own"
    )
    deeper: int = kinds.draw(
        3,
        ge=1,
        le=64,
        description=("length: maximum length of test expressions minus max_length"),
    )
    reserved: int = kinds.draw(
        200,
        ge=0,
        description="length: number of chains held out of training per length (at most a quarter)",
    )
    order: Literal["right-to-left", "left-to-right"] = kinds.presentation(
        "right-to-left", description="Side on which the outermost function is written"
    )
    table_seed: int = kinds.world(
        0, description="Seed for the function tables and the shared symbols"
    )
    tables: dict[str, list[Annotated[int, Field(strict=True)]]] | None = kinds.world(
        None, description="Function tables to use: name to list of images"
    )
    group_distance: Annotated[
        Literal["given", "smallest", "largest"] | Annotated[float, Field(ge=0, le=1)], LATER
    ] = kinds.world(
        "given",
        description=(
            "A, R, S: how differently the groups behave: a number from 0 to 1 (approximated as "
            "closely as possible), smallest or largest. Functions are regrouped to reach it; "
            "given keeps the groups"
        ),
    )
    splits: dict[str, CtlSplit] = kinds.draw(
        default_factory=dict,
        description="Size of each split; splits that are not listed are not generated",
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
            raise ValueError(f"draw: variant length only supports 'independent', not '{self.draw}'")
        if self.symbols_per_chain is not None and (self.draw != "chains" or self.variant == "S"):
            raise ValueError(
                "symbols_per_chain: only for draw 'chains' of variants A and R, not for draw "
                f"'{self.draw}' of {self.variant}"
            )
        self._check_variant()
        self._check_splits()
        return self

    def _check_variant(self) -> None:
        """Raise an error if a field that only applies to other variants differs from its
        default.
        """
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
            raise ValueError("splits: a CTL recipe needs a 'train' split")
        for name, split in self.splits.items():
            if split.n == "every" and name not in PROBES:
                raise ValueError(
                    f"splits.{name}: n must be a number; 'every' is only for {', '.join(PROBES)}"
                )
