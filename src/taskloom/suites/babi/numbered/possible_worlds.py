"""The second solver enumerates possible worlds. It shares no code with the main solvers.

A task defines the variables of a world, the values that each may have, and the rules that the text
imposes. An answer is entailed if it holds in every world that obeys the rules, and open if two
worlds differ. The search is exponential by design, because it is meant for small stories in tests
and for `taskloom verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taskloom.suites.babi.numbered.task import UNKNOWN

World = Mapping[Any, Any]


FEW = 6
"""Maximum number of variables for which plain search is faster than pruning values first."""


@dataclass(frozen=True, slots=True)
class WorldRule:
    """A condition on a few variables of a world, tested as soon as all of them have values."""

    on: tuple[Hashable, ...]
    holds: Callable[..., bool]


def worlds(domains: Mapping[Any, Sequence[Any]], rules: Sequence[WorldRule]) -> Iterator[World]:
    """Yield every assignment of values to variables that obeys every rule."""
    if len(domains) > FEW:
        domains = _prune(domains, rules)
    order = _order(domains, rules)
    place = {variable: i for i, variable in enumerate(order)}
    due: list[list[WorldRule]] = [[] for _ in order]
    for rule in rules:
        due[max(place[v] for v in rule.on)].append(rule)
    chosen: dict[Any, Any] = {}

    def extend(i: int) -> Iterator[World]:
        if i == len(order):
            yield dict(chosen)
            return
        variable = order[i]
        for value in domains[variable]:
            chosen[variable] = value
            if all(rule.holds(*(chosen[v] for v in rule.on)) for rule in due[i]):
                yield from extend(i + 1)
        chosen.pop(variable, None)

    yield from extend(0)


def satisfiable(domains: Mapping[Any, Sequence[Any]], rules: Sequence[WorldRule]) -> bool:
    """True if at least one world obeys every rule."""
    return next(worlds(domains, rules), None) is not None


def entailed(answers: Iterable[str]) -> tuple[str, ...]:
    """Return the answer shared by all worlds, or `unknown` if they differ or there are none."""
    distinct = set(answers)
    return tuple(distinct) if len(distinct) == 1 else (UNKNOWN,)


def _prune(
    domains: Mapping[Any, Sequence[Any]], rules: Sequence[WorldRule]
) -> dict[Any, list[Any]]:
    """Repeatedly remove values ruled out by rules on one or two variables, until nothing changes.

    No world is lost, and stories with twelve variables become as fast as those with four.
    """
    left = {variable: list(values) for variable, values in domains.items()}
    changed = True
    while changed:
        changed = False
        for rule in rules:
            if len(rule.on) > 2:
                continue
            for i, variable in enumerate(rule.on):
                others = left[rule.on[1 - i]] if len(rule.on) == 2 else [None]
                kept = [
                    v for v in left[variable] if any(_holds(rule, i, v, other) for other in others)
                ]
                changed |= len(kept) < len(left[variable])
                left[variable] = kept
    return left


def _holds(rule: WorldRule, i: int, value: Any, other: Any) -> bool:
    if len(rule.on) == 1:
        return rule.holds(value)
    return rule.holds(value, other) if i == 0 else rule.holds(other, value)


def _order(domains: Mapping[Any, Sequence[Any]], rules: Sequence[WorldRule]) -> list[Any]:
    """Order variables so that rules apply early: the next variable is the one with the most rules
    shared with those already chosen.
    """
    left = list(domains)
    chosen: list[Any] = []
    ties = dict.fromkeys(left, 0)
    while left:
        best = max(left, key=lambda v: (ties[v], -len(domains[v])))
        left.remove(best)
        chosen.append(best)
        for rule in rules:
            if best in rule.on:
                for other in rule.on:
                    ties[other] += 1
    return chosen
