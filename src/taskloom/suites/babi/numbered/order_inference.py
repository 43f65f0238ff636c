"""Exact inference about orders, given statements "lower than" and "level with".

Statements are edges. `a < b` follows exactly if a chain of edges leads up from a to b and at least
one of them is strict. `a = b` follows exactly if a chain of "level" edges connects them. Without
such a chain, there is a model in which the claim is false. A chain that visits nothing twice is a
minimal support, because no proper part of it connects a and b, and every minimal support is such a
chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

MANY = 256
"""Maximum number of supports listed for an answer."""


@dataclass(frozen=True, slots=True)
class Edge:
    """`low` is lower than `high`, or level with it unless `strict`, according to sentence
    `number`.
    """

    low: str
    high: str
    strict: bool
    number: int


def chains(edges: Sequence[Edge], low: str, high: str, strict: bool) -> list[tuple[int, ...]]:
    """List all chains that prove low < high (or low = high, if not `strict`), shortest first, then
    earliest. Numbers are in order from `low` up.
    """
    up = _steps(edges if strict else [e for e in edges if not e.strict])
    near = _distances(up, high)
    proofs: list[tuple[int, ...]] = []
    for length in range(near.get(low, len(near) + 1), len(near) + 1):
        level = [c for c, proves in _walks(up, near, low, high, length) if proves or not strict]
        proofs += sorted(level, key=sorted)
        if len(proofs) >= MANY:
            break
    return proofs[:MANY]


def lengths(edges: Sequence[Edge], low: str) -> dict[tuple[str, bool], int]:
    """Compute the lengths of the shortest chains up from `low` to each other name, for strict
    (True) and for level (False) relations.
    """
    up = _steps(edges)
    far = {(low, False): 0}
    ring = [(low, False)]
    while ring:
        reached = []
        for at, strict in ring:
            for node, sure, _ in up.get(at, ()):
                reached.append((node, strict or sure))
        step = far[ring[0]] + 1
        ring = [place for place in dict.fromkeys(reached) if place not in far]
        far.update(dict.fromkeys(ring, step))
    return far


def conflict(edges: Sequence[Edge], new: Edge) -> tuple[int, ...] | None:
    """Return the sentences that a new statement contradicts, or None. The earlier statements must
    be consistent.
    """
    if new.low == new.high:
        return () if new.strict else None
    against = [
        (new.high, new.low, True),
        (new.high, new.low, False) if new.strict else (new.low, new.high, True),
    ]
    for low, high, strict in against:
        if (high, strict) in lengths(edges, low):
            return tuple(sorted(chains(edges, low, high, strict)[0]))
    return None


_Steps = dict[str, list[tuple[str, bool, int]]]


def _steps(edges: Sequence[Edge]) -> _Steps:
    up: _Steps = {}
    for edge in edges:
        up.setdefault(edge.low, []).append((edge.high, edge.strict, edge.number))
        up.setdefault(edge.high, [])
        if not edge.strict:
            up[edge.high].append((edge.low, False, edge.number))
    return up


def _distances(up: _Steps, goal: str) -> dict[str, int]:
    down: dict[str, list[str]] = {}
    for node, steps in up.items():
        for other, _, _ in steps:
            down.setdefault(other, []).append(node)
    near, ring, far = {goal: 0}, [goal], 0
    while ring:
        far += 1
        below = dict.fromkeys(chain.from_iterable(down.get(node, []) for node in ring))
        ring = [node for node in below if node not in near]
        near.update(dict.fromkeys(ring, far))
    return near


def _walks(
    up: _Steps, near: dict[str, int], low: str, high: str, length: int
) -> Iterator[tuple[tuple[int, ...], bool]]:
    def extend(
        node: str, left: int, seen: frozenset[str], proves: bool
    ) -> Iterator[tuple[tuple[int, ...], bool]]:
        if node == high:
            if left == 0:
                yield (), proves
            return
        for other, strict, number in up[node]:
            if other not in seen and near.get(other, left) < left:
                for rest, sure in extend(other, left - 1, seen | {other}, proves or strict):
                    yield (number, *rest), sure

    yield from islice(extend(low, length, frozenset({low}), False), MANY)
