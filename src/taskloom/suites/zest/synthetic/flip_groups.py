"""The base programs of a domain, in groups that are closed under semantic flips (above 5,000 acres, below 5,000 acres)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from taskloom.seeding import Random
from taskloom.suites.zest.synthetic.domain import Domain, Feature, Flag, Measure, Members, Number, Records, Text
from taskloom.suites.zest.synthetic.programs import Program

Flip = Literal["direction", "value", "attribute"]
"""direction: more or less, first or last, with or without. value: another value. attribute: a kindred attribute."""

THRESHOLDS = 4
"""Numbers that yes/no questions about one attribute compare with."""
RECORD_THRESHOLDS = 6
CELLS = 4
"""Groups made of the values of one attribute at most: a list of 96 founders must not crowd out the rest."""


@dataclass(frozen=True, slots=True)
class FlipGroup:
    """Programs that are flips of one another; the first is the base task."""

    domain: Domain
    programs: tuple[Program, ...]

    def flips(self, allowed: tuple[Flip, ...]) -> list[Program]:
        """Return the programs that differ from the base task in one allowed respect."""
        return [p for p in self.programs[1:] if flip_of(self.programs[0], p) in allowed]


def flip_of(one: Program, other: Program) -> Flip | None:
    """Return in which respect two programs differ; None when in none, or in more than one."""
    if one.op != other.op:
        opposed = one.args == other.args and frozenset((one.op, other.op)) in OPPOSITES
        return "direction" if opposed else None
    if one.args[0] != other.args[0]:
        return "attribute" if one.args[1:] == other.args[1:] else None
    if one.args == other.args:
        return None
    return "direction" if {one.args[-1], other.args[-1]} == {"yes", "no"} else "value"


OPPOSITES = frozenset(
    frozenset(pair)
    for pair in (("more", "less"), ("over", "under"), ("any_over", "any_under"), ("most", "least"), ("top", "bottom"))
)


def groups(domain: Domain, rng: Random, plenty: int = 1) -> list[FlipGroup]:
    """Build the flip-closed groups of a domain, and draw the base program of each; the numbers and values of one attribute
    make `plenty` times the usual number of groups."""
    families: list[list[Program]] = []
    seen: set[str] = set()
    for a in domain.attributes:
        ask = "members" if isinstance(a, Members) else "flag" if isinstance(a, Flag) else "value"
        if a.name not in seen:
            seen |= {a.name, a.kin}
            families.append([Program(ask, (name,)) for name in (a.name, a.kin) if name])
        if isinstance(a, Number) and a.more:
            families += _compared(("more", "less"), (a.name,), a.thresholds(2 * THRESHOLDS * plenty))
        elif isinstance(a, Text | Members) and (a.has if isinstance(a, Members) else a.confirm):
            op = "has" if isinstance(a, Members) else "is"
            families += _cells([Program(op, (a.name, v)) for v in a.values], rng, plenty)
    names = [Program("names", (r.name,)) for r in domain.records]
    families += [names[i : i + 2] for i in range(0, len(names), 2)]
    for r in domain.records:
        families += _of_records(r, rng, plenty)
    return [FlipGroup(domain, tuple(rng.sample(programs, len(programs)))) for programs in families]


def _compared(ops: tuple[str, str], at: tuple[str, ...], thresholds: list[int]) -> list[list[Program]]:
    """Group programs by two neighbouring thresholds and both directions: a base task, its opposite, and another number."""
    pairs = [thresholds[i : i + 2] for i in range(0, len(thresholds) - 1, 2)]
    return [[Program(op, (*at, t)) for t in pair for op in ops] for pair in pairs]


def _cells(programs: list[Program], rng: Random, plenty: int) -> list[list[Program]]:
    """Group yes/no programs in threes, since there are plenty, so that a base task may have two flips; the others in twos."""
    mixed = rng.sample(programs, len(programs))
    size = 3 if programs[0].yes_no else 2
    return [mixed[i : i + size] for i in range(0, len(mixed), size)][: CELLS * plenty]


def _of_records(records: Records, rng: Random, plenty: int) -> list[list[Program]]:
    families: list[list[Program]] = []
    for f in records.fields:
        at = (records.name, f.name)
        if isinstance(f, Measure):
            families += [[Program("most", at), Program("least", at)], [Program("top", at), Program("bottom", at)]]
            for ops in (("over", "under"), ("any_over", "any_under")):
                families += _compared(ops, at, f.thresholds(2 * RECORD_THRESHOLDS * plenty))
        elif isinstance(f, Feature):
            families += [[Program(op, (*at, v)) for v in ("yes", "no")] for op in ("where", "any")]
        else:
            for op in ("where", "any"):
                families += _cells([Program(op, (*at, v)) for v in f.values], rng, plenty)
    return families
