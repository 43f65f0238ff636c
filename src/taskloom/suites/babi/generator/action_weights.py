"""What may happen in a story, with weights."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from taskloom.seeding import Random


class ActionWeights:
    """What may happen, with weights: events and constructs, and what each construct may be said of."""

    __slots__ = ("conj", "coref", "indef", "negate", "weights")

    def __init__(
        self,
        weights: Mapping[str, float],
        coref: Mapping[str, float],
        conj: Mapping[str, float],
        negate: Mapping[str, float],
        indef: Mapping[str, float],
    ) -> None:
        self.weights = _cumulative(weights)
        self.coref = _cumulative(coref)
        self.conj = _cumulative(conj)
        self.negate = _cumulative(negate)
        self.indef = _cumulative(indef)

    def said_of(self, name: str, rng: Random) -> str:
        """What a NEGATE or INDEF sentence is about: where somebody is (MOVE), or what they do; MOVE for all else."""
        table = self.negate if name == "NEGATE" else self.indef if name == "INDEF" else ()
        return "MOVE" if not table else table[0][0] if len(table) == 1 else self.draw(rng, table)

    def draw(self, rng: Random, among: tuple[tuple[str, float], ...] | None = None) -> str:
        """One of them, by weight."""
        table = self.weights if among is None else among
        at = rng.random() * table[-1][1]
        for name, upto in table:
            if at < upto:
                return name
        return table[-1][0]


def _cumulative(weights: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    kept = [(name, weight) for name, weight in weights.items() if weight > 0]
    return tuple(zip((n for n, _ in kept), accumulate(w for _, w in kept), strict=True))
