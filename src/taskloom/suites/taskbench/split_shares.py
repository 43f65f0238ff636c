"""Assignment of content to splits: a fixed slot for each split name, and shares that do not affect
other splits.

Every word (or name, or sequence) has a keyed hash. The hash assigns the word to the slot of one
held-out split, and determines the minimum share at which that split includes it. So a held-out
split depends only on its name and its own share, and a smaller share is a subset of a larger one.
Training takes the remaining words, beginning with those that a held-out split would include last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from taskloom.core.seeding import Key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    U64 = NDArray[np.uint64]
    Mask = NDArray[np.bool_]

PARTS = 16
"""Number of equal parts into which all words are divided. Slots consist of such parts."""

TEST, DEV, OTHERS = (0, 8), (8, 12), ((12, 13), (13, 14), (14, 15), (15, 16))
"""Sixteenths in each slot. `test` can have up to half of all words, `dev` a quarter, and four
splits with other names a sixteenth each.
"""

DEV_NAMES = ("dev", "val", "valid", "validation")

USUAL = 0.1
"""Share of dev and of test in the paper. Words that they include at this share count as tested,
whether or not a recipe has both splits.
"""

RESERVED = DEV[1]
"""Number of sixteenths of dev and test together."""

EARLY = 0.125
"""Half of all words have at least this claim (`Places.claim`). Training takes these words first, and
few-shot sets are drawn from them.
"""

_SLOT = Key("taskbench", "slot").hash64("word")
_ROUNDING = 1e-9


@dataclass(frozen=True)
class SplitShares:
    """Shares of content by split.

    Attributes:
        weights: Share of all words for each split, including `train`. The shares add up to at most
            1.

    >>> SplitShares({"train": 0.8, "dev": 0.1, "test": 0.1}).least
    0.0
    >>> SplitShares({"train": 0.5, "test": 0.1}).least
    0.125
    """

    weights: Mapping[str, float]

    @cached_property
    def slots(self) -> dict[str, tuple[int, int]]:
        """Range of sixteenths for each held-out split. It is determined by the split's name. If
        another split already uses it, the next free range is taken.

        Raises:
            ValueError: If there are more splits than slots, or a share is larger than its slot.
        """
        slots: dict[str, tuple[int, int]] = {}
        for name, share in self.weights.items():
            if name == "train":
                continue
            first = Key("taskbench", "slot").hash64(name) % len(OTHERS)
            wanted = []
            if name == "test":
                wanted = [TEST]
            elif name in DEV_NAMES:
                wanted = [DEV]
            wanted += OTHERS[first:] + OTHERS[:first]
            free = [slot for slot in wanted if slot not in slots.values()]
            if not free:
                raise ValueError(
                    f"the split '{name}' is one too many: there can be four besides train, dev "
                    "and test"
                )
            room = (free[0][1] - free[0][0]) / PARTS
            if share > room + _ROUNDING:
                raise ValueError(
                    f"{name} can have at most {room:g} of the words (test 0.5, dev 0.25, other"
                    f" names 0.0625), not {share:g}"
                )
            slots[name] = free[0]
        return slots

    def check(self) -> None:
        """Raise a ValueError if the shares exceed their slots or the total."""
        total = sum(self.weights.values())
        if total > 1 + _ROUNDING:
            raise ValueError(
                f"shares are parts of all words and must add up to at most 1, not {total:g}; "
                "lower train"
            )
        _ = self.slots

    @cached_property
    def least(self) -> float:
        """Minimum rank of unclaimed words used for training."""
        claimed = {slot: self.weights[name] for name, slot in self.slots.items()}
        # Intervals of ranks whose lengths are shares of words. Each is given by its end and the
        # rank up to which it is claimed.
        stretches: list[tuple[float, float]] = []
        for low, high in (TEST, DEV, *OTHERS):
            room, claim = (high - low) / PARTS, claimed.get((low, high), 0.0)
            if high <= RESERVED:
                stretches.append((USUAL - 1, min(claim, USUAL) - 1))
                claim = max(claim, USUAL)
            stretches.append((room, claim))
        wanted = self.weights["train"] - _ROUNDING
        corners = {-1.0, 0.0, USUAL, *(number for stretch in stretches for number in stretch)}
        for corner in sorted(corners, reverse=True):
            mass = sum(max(0.0, end - max(start, corner)) for end, start in stretches)
            if mass >= wanted:
                open_stretches = sum(start <= corner < end for end, start in stretches)
                return round(corner + (mass - self.weights["train"]) / max(1, open_stretches), 12)
        return -1.0

    def member(self, hashes: U64, split: str) -> Mask:
        """Return a mask of the hashes that belong to the split."""
        where = place(hashes)
        if split != "train":
            return self._claims(split, where)
        unclaimed: Mask = where.rank >= self.least
        for name in self.slots:
            unclaimed &= ~self._claims(name, where)
        return unclaimed

    def tested(self, hashes: U64) -> Mask:
        """Return a mask of the hashes that belong to a held-out split, or would belong to dev or
        test at its usual share.
        """
        where = place(hashes)
        mask: Mask = (where.rank < 0) & ~self.member(hashes, "train")
        for name in self.slots:
            mask |= self._claims(name, where)
        return mask

    def _claims(self, name: str, where: Places) -> Mask:
        low, high = self.slots[name]
        mask: Mask = (where.part >= low) & (where.part < high) & (where.claim < self.weights[name])
        return mask


class Places(NamedTuple):
    """Position of content in the order in which splits claim it.

    Attributes:
        part: The sixteenth to which it belongs.
        claim: The share from which the split of that slot includes it.
        rank: Training takes the highest ranks first. The rank is the claim. For content that dev
            and test include at their usual shares it is the claim minus 1, so this content comes
            last, and shares of dev and test up to the usual ones do not affect training.
    """

    part: NDArray[np.uint8]
    claim: NDArray[np.float64]
    rank: NDArray[np.float64]


def place(hashes: U64) -> Places:
    """Return the positions of content with these hashes."""
    import numpy as np

    from taskloom.suites.taskbench.worlds.random_relations import mix_all

    part = (mix_all(hashes ^ np.uint64(_SLOT)) >> np.uint64(60)).astype(np.uint8)
    room = np.empty(PARTS)
    for low, high in (TEST, DEV, *OTHERS):
        room[low:high] = (high - low) / PARTS
    claim = (hashes >> np.uint64(11)).astype(np.float64) / float(1 << 53) * room[part]
    return Places(part, claim, np.where((part < RESERVED) & (claim < USUAL), claim - 1, claim))
