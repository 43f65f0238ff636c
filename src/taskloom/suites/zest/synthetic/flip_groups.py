"""Base programs of a domain, in groups that are closed under semantic flips (such as above 5,000
acres, below 5,000 acres).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from taskloom.core.seeding import Random
from taskloom.suites.zest.synthetic.domain import (
    Domain,
    Feature,
    Flag,
    Measure,
    Members,
    Number,
    Records,
    Text,
)
from taskloom.suites.zest.synthetic.programs import Program

Flip = Literal["direction", "value", "attribute"]
"""Kinds of flips. direction: more or less, first or last, with or without. value: another value.
attribute: the related attribute (`kin`).

Comparing with another number is not a flip, because "above 47" and "above 42" have the same answer
for nearly every passage.
"""

THRESHOLDS = 4
"""Number of thresholds in yes/no questions about one attribute."""
RECORD_THRESHOLDS = 6
CELL = 3
"""Number of values of an attribute that are flips of each other: one for the base task and two
others.
"""
CELLS = 4
"""Maximum number of groups from the values of one attribute, so that a list of 96 founders does not
dominate the other attributes.
"""


@dataclass(frozen=True, slots=True)
class FlipGroup:
    """Programs that are flips of each other. The first is the base task."""

    domain: Domain
    programs: tuple[Program, ...]

    @property
    def form(self) -> Form:
        """The facts that the programs use and how, without constants. All programs of a form belong
        to one split.

        Related attributes share a form, named after the alphabetically first one.

        "Which trails are open?" and "Is any trail open?" share a form, because one output structure
        contains both.
        """
        return min(form(program) for program in self.programs)

    def flips(self, allowed: tuple[Flip, ...]) -> list[Program]:
        """Return programs that differ from the base task in one allowed respect."""
        return [p for p in self.programs[1:] if flip_of(self.programs[0], p) in allowed]


Form = tuple[str, ...]
"""Form of a program: how it uses facts, and the names of the attributes, or of the records and
their field.
"""

WAYS = {
    "less": "more",
    "any": "where",
    "under": "over",
    "any_over": "over",
    "any_under": "over",
    "least": "most",
    "bottom": "top",
}
"""Operations that count as the same use of facts, each with the operation that represents it."""


def form(program: Program) -> Form:
    """Return the form of a base program or an output structure: operations and names, without
    numbers and values.
    """
    way = WAYS.get(program.op, program.op)
    if program.op == "pick":
        return ("pick", program.args[0], program.args[1], program.args[2], *program.args[4:])
    if program.op == "table":
        return (way, *program.args)
    return (way, *program.args[: 2 if way in ("where", "over", "most", "top") else 1])


def flip_of(one: Program, other: Program) -> Flip | None:
    """Return the single respect in which two programs differ, or None if they are equal or differ
    in several.
    """
    if one.op != other.op:
        opposed = one.args == other.args and frozenset((one.op, other.op)) in OPPOSITES
        return "direction" if opposed else None
    if one.args[0] != other.args[0]:
        return "attribute" if one.args[1:] == other.args[1:] else None
    if one.args == other.args:
        return None
    return "direction" if {one.args[-1], other.args[-1]} == {"yes", "no"} else "value"


def parts_ways(flip: Program, base: Program) -> bool:
    """True if a base task may have an answer when its flip has none. False if both depend on the
    same single fact.
    """
    return flip.args[0] != base.args[0] or flip.op in ("has", "where", "over", "under")


OPPOSITES = frozenset(
    frozenset(pair)
    for pair in (
        ("more", "less"),
        ("over", "under"),
        ("any_over", "any_under"),
        ("most", "least"),
        ("top", "bottom"),
    )
)


_ASKS: dict[type, str] = {Members: "members", Flag: "flag"}
"""Operations that ask for a whole attribute, for types where this is not `value`."""


def groups(domain: Domain, rng: Random, plenty: int = 1) -> list[FlipGroup]:
    """Build the flip-closed groups of a domain, and draw the base program of each. The numbers and
    values of an attribute give `plenty` times the usual number of groups.
    """
    families: list[list[Program]] = []
    seen: set[str] = set()
    for a in domain.attributes:
        ask = _ASKS.get(type(a), "value")
        if a.name not in seen:
            seen |= {a.name, a.kin}
            families.append([Program(ask, (name,)) for name in (a.name, a.kin) if name])
        if isinstance(a, Number) and a.more:
            families += _compared(("more", "less"), (a.name,), a.thresholds(THRESHOLDS * plenty))
        elif isinstance(a, Text | Members) and (a.has if isinstance(a, Members) else a.confirm):
            op = "has" if isinstance(a, Members) else "is"
            families += [
                [Program(op, (a.name, v)) for v in cell] for cell in _cells(a.values, rng, plenty)
            ]
    names = [Program("names", (r.name,)) for r in domain.records]
    families += [names[i : i + 2] for i in range(0, len(names), 2)]
    for r in domain.records:
        families += _of_records(r, rng, plenty)
    return [FlipGroup(domain, tuple(rng.sample(programs, len(programs)))) for programs in families]


def _compared(
    ops: tuple[str, str], at: tuple[str, ...], thresholds: list[int]
) -> list[list[Program]]:
    """Group comparisons by threshold: above it, and below it."""
    return [[Program(op, (*at, t)) for op in ops] for t in thresholds]


def _cells(values: tuple[str, ...], rng: Random, plenty: int) -> list[list[str]]:
    """Divide values into groups of three, so that a base task can have two flips."""
    mixed = rng.sample(values, len(values))
    return [mixed[i : i + CELL] for i in range(0, len(mixed), CELL)][: CELLS * plenty]


def _of_records(records: Records, rng: Random, plenty: int) -> list[list[Program]]:
    families: list[list[Program]] = []
    for f in records.fields:
        at = (records.name, f.name)
        if isinstance(f, Measure):
            families += [
                [Program("most", at), Program("least", at)],
                [Program("top", at), Program("bottom", at)],
            ]
            for ops in (("over", "under"), ("any_over", "any_under")):
                families += _compared(ops, at, f.thresholds(RECORD_THRESHOLDS * plenty))
        else:
            cells = [["yes", "no"]] if isinstance(f, Feature) else _cells(f.values, rng, plenty)
            # If there are enough values, use each for only one kind of question.
            for op, own in (("where", cells[::2]), ("any", cells[1::2] or cells)):
                families += [[Program(op, (*at, v)) for v in cell] for cell in own]
    return families
