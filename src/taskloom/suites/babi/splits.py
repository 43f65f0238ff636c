"""Which split a story belongs to: by keyed hashes of what it tells, so that any row can be made without the others.

The structure of how a story begins (its first sentences, with names and places numbered) belongs to training or to test by a
hash which is the same for every recipe: no test story of one recipe has the structure of a training story of another.
Within a recipe the splits of one side share that side out. Stories with several questions begin too short for that
(two sentences of going somewhere have three structures), so they are divided by the words of their opening, and by
structure once they are long enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from taskloom.plan import Role
from taskloom.seeding import Key
from taskloom.suites.babi.generator.examples import signature
from taskloom.suites.babi.story.events import Event

Belongs = Callable[[str], bool]
"""Whether a text that stands for a story belongs to a split."""

SIDES = Key("babi", "signatures")
"""The key of the division into training and test structures; a constant, so that it holds across recipes and seeds."""

BEGINNING = 10
"""How many sentences decide by their structure; the paper's test stories are no shorter."""


@dataclass(frozen=True, slots=True)
class SplitRule:
    """What makes a story one of a split.

    Attributes:
        opening: Whether the words of a growing story's first sentences belong there.
        structure: Whether the structure of a beginning does.
    """

    opening: Belongs
    structure: Belongs

    def has(self, events: Sequence[Event]) -> bool:
        """Whether a story with these events belongs there by its structure."""
        return self.structure(signature(events[:BEGINNING]))


def role_of(split: str) -> Role:
    """Training splits are those called train; everything else is tested on."""
    return "train" if split.split("-")[0] == "train" else "test"


def structures(names: Sequence[str]) -> dict[str, Belongs]:
    """For each split, whether a structure belongs to it: training has the lower half of the hashes, all others share the upper."""
    found: dict[str, Belongs] = {}
    for role, low in (("train", 0.0), ("test", 0.5)):
        mine = [name for name in names if role_of(name) == role]
        for i, name in enumerate(mine):
            found[name] = _between(low + 0.5 * i / len(mine), low + 0.5 * (i + 1) / len(mine))
    return found


def _between(low: float, high: float) -> Belongs:
    return lambda structure: low <= SIDES.unit(structure) < high


def homes(sizes: Mapping[str, int], key: Key) -> dict[str, SplitRule]:
    """For each split, what its growing stories are like: openings share the hashes in proportion to the sizes."""
    opening, structure = key.child("openings").share(sizes), structures(list(sizes))
    return {name: SplitRule(opening[name], structure[name]) for name in sizes}
