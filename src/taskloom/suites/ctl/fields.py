"""The fields of a CTL recipe: every setting of the paper and of its public code, with the paper's defaults."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from taskloom.recipe import Fields

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
"""The splits that each variant has, in the order in which they are made."""

PROBES = ("cross-unseen-symbols", "unseen-pairs", "pairs", "all-pairs")
"""Splits that enumerate two-function expressions for analyses; they may repeat what another split has."""


class CtlSplit(Fields):
    """Size of one split: a number, or `every` for a split that enumerates its space."""

    n: Count


class CtlFields(Fields):
    """Fields of a CTL recipe."""

    variant: Variant = Field(
        description="Which compositions are seen: A alternating, R repeating, S staged, length productivity"
    )
    symbols: int = Field(8, ge=2, le=10_000, description="Number of symbols")
    functions: int = Field(32, ge=1, le=10_000, description="Number of functions")
    groups: int = Field(2, ge=1, description="Groups of A and R; paths of S (2)")
    min_length: int = Field(2, ge=1, description="Fewest functions in a drawn expression")
    max_length: int = Field(6, ge=1, le=64, description="Most functions in a training expression")
    include_singles: bool = Field(
        True, description="Put every single application into training (the paper, for A and R)"
    )
    include_pairs: bool = Field(False, description="Put every two-function expression into training (the reference)")
    fill: float = Field(
        0.5, gt=0, le=1, description="Largest share of the expressions of a length that training may take"
    )
    symbols_per_chain: int = Field(
        1,
        ge=1,
        description="A and R: number of start symbols that every drawn chain of functions comes with; 1 draws freely, the public "
        "code arrives at nearly all symbols on a machine with many cores",
    )
    overlap: int = Field(16, ge=0, description="S: functions shared by both paths")
    shared_symbols: int = Field(6, ge=0, description="S: symbols on which a shared function is seen after both paths")
    imbalance: int = Field(0, ge=0, description="S: unshared symbols moved from path b to path a")
    allowed: dict[str, dict[str, list[int]]] | None = Field(
        None,
        description="S: symbols per shared function and stage-1 group, instead of drawn ones: {f: {a1: [...], b1: [...]}}",
    )
    new_functions: int = Field(0, ge=0, description="length: functions seen only alone in training")
    deeper: int = Field(
        3, ge=1, description="length: number of functions by which the longest test expression exceeds max_length"
    )
    reserved: int = Field(200, ge=0, description="length: chains per length kept out of training (at most a quarter)")
    order: Literal["right-to-left", "left-to-right"] = Field(
        "right-to-left", description="Where the outermost function is written"
    )
    table_seed: int = Field(0, description="Seed of the function tables and of the shared symbols")
    tables: dict[str, list[Annotated[int, Field(strict=True)]]] | None = Field(
        None, description="Given function tables: name to list of images"
    )
    splits: dict[str, CtlSplit] = Field(default_factory=dict, description="Sizes by split; a missing split is not made")

    @model_validator(mode="after")
    def _agree(self) -> CtlFields:
        if self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} is larger than max_length {self.max_length}")
        if self.variant == "S" and self.groups != 2:
            raise ValueError(f"groups: variant S has 2 paths, not {self.groups}")
        if self.symbols_per_chain > 1 and self.variant not in ("A", "R"):
            raise ValueError(f"symbols_per_chain: only for variants A and R, not {self.variant}")
        known = SPLITS[self.variant]
        for name in self.splits:
            if name not in known:
                raise ValueError(f"splits: variant {self.variant} has no split '{name}'; it has {', '.join(known)}")
        if "train" not in self.splits:
            raise ValueError("splits: a CTL recipe needs the split 'train'")
        for name, split in self.splits.items():
            if split.n == "every" and name not in PROBES:
                raise ValueError(f"splits.{name}: n must be a number; 'every' is for {', '.join(PROBES)}")
        return self
