"""The factual tasks of TaskBench500: time to load the facts and to compute every task, what
subclass paths change, which names give answers away, and which tasks are thin.

    TASKLOOM_DATA=... python benchmarks/taskbench_facts.py [--list]

Prints CPU seconds beside the reference's figure. The reference sends two HTTP queries an input
(more for compositions), for at most 10,000 inputs of a relation and 20,000 of a predicate; at the 5
ms a query of a fast server that is the time below, counted for the word-level tasks of this same
subset only. `--list` adds every task of the real subset with fewer than 100 examples.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from taskloom.core.seeding import Key
from taskloom.suites.taskbench.worlds.facts import FactWorld, Predicate, TaskSize, survey
from taskloom.suites.taskbench.worlds.facts.fact_functions import balanced
from taskloom.suites.taskbench.worlds.facts.invented_facts import roomy_world, synthetic_world
from taskloom.suites.taskbench.worlds.facts.labels import name_relation
from taskloom.suites.taskbench.worlds.facts.properties import CLASS_PROPERTIES, PREDICATES
from taskloom.suites.taskbench.worlds.facts.rdf import RdfWorld

T = TypeVar("T")

QUERY_SECONDS = 0.005
GUESS = "lor(is_occupation_teacher, is_birthplace_buenosaires)"
"""The task that the paper counts and does not name, as the catalogue guesses it."""


def timed(what: str, work: Callable[[], T]) -> tuple[T, float]:
    began = time.process_time()
    result = work()
    seconds = time.process_time() - began
    print(f"{what:<58}{seconds:9.2f} CPU s")
    return result, seconds


def tasks(data: Path) -> list[str]:
    content = json.loads((data / "taskbench-tasks.json").read_text())
    named = [t["expr"] for t in content["tasks"] if t["family"] == "factual" and t["expr"]]
    return [*named, GUESS]


def reference_queries(sizes: list[TaskSize]) -> int:
    """Queries that the reference sends at least for these tasks: two an input, sequence tasks left
    out.
    """
    words = [size for size in sizes if not size.task.startswith("map(")]
    return sum(2 * min(size.examples, 10_000 if size.true is None else 20_000) for size in words)


def thin(sizes: list[TaskSize]) -> None:
    under = [size for size in sizes if not size.enough]
    words = [size for size in under if not size.task.startswith("map(")]
    print(
        f"{len(under)} tasks have fewer than 100 examples ({len(words)} over words,"
        f" {len(under) - len(words)} maps):"
    )
    for size in sorted(under, key=lambda s: (s.examples, s.task)):
        print(f"  {size.examples:5}  {size.task}")
    unbalanced = [size for size in sizes if size.enough and size.room < 100]
    print(f"{len(unbalanced)} predicates have 100 examples, but not 50 that are true:")
    for size in sorted(unbalanced, key=lambda s: (s.true or 0, s.task)):
        print(f"  {size.true:5} true of {size.examples:6}  {size.task}")


def collisions(world: FactWorld) -> None:
    merged = name_relation(world, world.relation("place_of_birth")).counted
    dropped = name_relation(world, world.relation("place_of_birth"), "drop").counted
    print(
        f"place_of_birth: {merged.ambiguous} names shared within the relation, {dropped.ambiguous}"
        " within the world"
    )


def classes(world: FactWorld) -> None:
    """Print what subclass paths change: rows that the value alone calls false and that are a kind
    of what is asked, or unknown.
    """
    print(
        f"{'predicate':<28}{'true by value':>14}{'true':>8}{'false':>8}   of the false rows by"
        " value alone: a kind, silent"
    )
    for name, what in PREDICATES.items():
        if what.prop not in CLASS_PROPERTIES:
            continue
        truth, exact = (
            world.predicate(name),
            Predicate.matching(world.relation(what.prop), what.object),
        )
        rows = balanced(world, exact, 2 * len(exact.positives), Key("taskbench", "negatives", name))
        false = [x for x, true in rows.items() if not true]
        kind, silent = (
            sum(truth.get(x) is value for x in false) / len(false) for value in (True, None)
        )
        print(
            f"{name:<28}{len(exact.positives):>14,}{len(truth.positives):>8,}{len(truth.negatives):>8,}",
            end="",
        )
        print(f"{kind:>41.1%}{silent:>8.1%}")


def surnames(worlds: dict[str, FactWorld]) -> None:
    """Print the share of pairs whose names end in the same word."""
    print(f"{'same last word':<28}" + "".join(f"{name:>20}" for name in worlds))
    for relation in ("father", "mother", "child", "influenced_by", "owned_by", "named_after"):
        print(f"{relation:<28}", end="")
        for world in worlds.values():
            pairs = list(world.relation(relation).pairs())
            labels = world.labels({x for pair in pairs for x in pair})
            named = [
                (labels[x].split()[-1], labels[y].split()[-1])
                for x, y in pairs
                if {x, y} <= labels.keys()
            ]
            same = sum(x == y for x, y in named) / len(named) if named else 0.0
            print(f"{same:>12.1%} of {len(named):>4}", end="")
        print()


def main() -> None:
    data = os.environ.get("TASKLOOM_DATA")
    if not data:
        sys.exit("set TASKLOOM_DATA to the folder with taskbench-tasks.json and wikidata/")
    files = Path(data) / "wikidata"
    catalogue = tasks(Path(data))
    with tempfile.TemporaryDirectory() as cache:
        timed(
            "load the real subset onto disk, once",
            lambda: RdfWorld(files, keep="disk", cache=Path(cache)),
        )
        timed("open it again", lambda: RdfWorld(files, keep="disk", cache=Path(cache)))
    world, load = timed("load the real subset into memory", lambda: RdfWorld(files, keep="memory"))
    sizes, compute = timed(
        f"compute and name {len(catalogue)} tasks", lambda: survey(world, catalogue)
    )
    queries = reference_queries(sizes)
    print(
        f"the reference: at least {queries:,} queries, {queries * QUERY_SECONDS:,.0f} s at 5 ms"
        " each: ",
        end="",
    )
    print(f"{queries * QUERY_SECONDS / (load + compute):.0f} times ours")
    collisions(world)
    classes(world)
    subset, family_tree = (
        RdfWorld(files / f"{name}.nt.gz", keep="memory") for name in ("wikidata-subset", "royal92")
    )
    surnames({"Wikidata": subset, "Royal92": family_tree, "invented": synthetic_world()})
    if "--list" in sys.argv:
        thin(sizes)
    timed("make the synthetic world (6,000 people)", lambda: synthetic_world().labels(["Q5"]))
    (_, knobs), _ = timed(
        "grow one with 500 examples for every task", lambda: roomy_world(catalogue, 500)
    )
    print(f"  which has {knobs.people:,} people")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
