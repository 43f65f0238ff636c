"""Examples of a predicate, half true and half false, where the false ones are of the same type as
the true ones.

Without that a model learns to tell people from rivers instead of actors from other people. The
published reference takes any entity that has another value, and its predicate tasks are decided by
the majority answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from taskloom.core.seeding import Key
from taskloom.suites.taskbench.worlds.facts.fact_world import FactWorld
from taskloom.suites.taskbench.worlds.facts.properties import INSTANCE_OF, SUBCLASS_OF
from taskloom.suites.taskbench.worlds.facts.relation import Predicate


def balanced(world: FactWorld, predicate: Predicate, n: int, key: Key) -> dict[str, bool]:
    """Draw about n entities with their truth, as many true as false (one more false where n is
    odd), in a keyed order.

    Fewer where the world has fewer of either side.

    Args:
        world: Where the types come from.
        predicate: What is asked.
        n: How many entities are wanted in all.
        key: Which of them are drawn.
    """
    true = _shuffled(predicate.positives, key.child("true"))[: n // 2]
    false = same_type_negatives(world, predicate, true, len(true) + n % 2, key.child("false"))
    chosen = true[: len(false)] + false
    return {x: predicate[x] for x in _shuffled(chosen, key.child("order"))}


def same_type_negatives(
    world: FactWorld, predicate: Predicate, true: Iterable[str], n: int, key: Key
) -> list[str]:
    """Draw up to n entities of which the predicate is false, spread over types as the true ones
    are.

    What a type lacks in false entities is made up from the other types of true entities, then from
    any. For "is an instance of", where the type itself is asked, near things come first: instances
    of a class that has a parent in common with the asked one.
    """
    true = list(true)
    false = _shuffled(predicate.negatives, key)
    types = (
        _nearness(world, predicate, true, false)
        if predicate.classes
        else _types(world, [*true, *false])
    )
    wanted = Counter(types[x] for x in true)
    by_type: dict[str, list[str]] = {}
    for x in false:
        by_type.setdefault(types[x], []).append(x)
    chosen: dict[str, None] = {}
    for kind, count in sorted(wanted.items()):
        chosen.update(dict.fromkeys(by_type.get(kind, [])[: n * count // wanted.total()]))
    for fits in (True, False):
        chosen.update(dict.fromkeys(x for x in false if (types[x] in wanted) == fits))
    return _shuffled(list(chosen)[:n], key.child("chosen"))


def _types(world: FactWorld, ids: list[str]) -> dict[str, str]:
    """Return the type of each entity: of its classes the commonest one here, so that types are few;
    empty where it has none.
    """
    classes = world.relation(INSTANCE_OF).at(ids)
    common = Counter(c for x in ids for c in classes.get(x, ()))
    return {x: max(classes.get(x, ("",)), key=lambda c: (common[c], c)) for x in ids}


def _nearness(
    world: FactWorld, predicate: Predicate, true: list[str], false: list[str]
) -> dict[str, str]:
    parents = world.relation(SUBCLASS_OF).at(predicate.classes).outputs()
    near = parents | world.relation(f"{SUBCLASS_OF}.inv").at(parents).outputs()
    classes = world.relation(INSTANCE_OF).at(false)
    types = {x: "near" if near.intersection(classes.get(x, ())) else "far" for x in false}
    return types | dict.fromkeys(true, "near")


def _shuffled(ids: Iterable[str], key: Key) -> list[str]:
    return sorted(ids, key=lambda x: (key.hash64(x), x))
