"""Descriptions of CTL tasks: a task is a chain of functions; its description names them in order of application."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from taskloom.core.plan import Level, Plan, Split, Tasks, Withheld

if TYPE_CHECKING:
    import pyarrow as pa

    from taskloom.suites.ctl.world import SymbolWorld


def with_tasks(plan: Plan, world: SymbolWorld) -> Plan:
    """Return the plan with its chains of functions as tasks. Single functions make up the chains and are never withheld."""

    def without(withheld: Withheld) -> Plan:
        from taskloom.core.descriptions import withhold

        return withhold(described, unseen_chains)(withheld)

    names = frozenset(world.names)
    tasks = Tasks(
        "functions",
        partial(_describe, world),
        possible=lambda chain: names.issuperset(chain.split(" ")),
        always=lambda chain: " " not in chain,
        without=without,
    )
    described = replace(plan, tasks=tasks)
    return described


def _describe(world: SymbolWorld, chain: str, level: Level) -> str:
    names = chain.split()
    steps = [f"the function {names[0]}", *names[1:]]
    instruction = f"Apply {', then '.join(steps)} to the symbol and give the resulting symbol."
    if level == "instruction":
        return instruction
    symbols = " ".join(str(s) for s in range(world.symbols))
    place = {name: f for f, name in enumerate(world.names)}
    tables = [
        f"{n} turns {symbols} into {' '.join(map(str, world.images[place[n]]))}"
        for n in dict.fromkeys(names)
    ]
    return f"{instruction} Of the symbols, in order, {'; '.join(tables)}."


def unseen_chains(split: Split, withheld: Withheld) -> Split:
    """Return the split with the trait `seen` set to false for what training no longer has."""

    def rows(start: int, stop: int) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        from taskloom.core.descriptions import task_column, with_trait

        table = split.rows(start, stop)
        assert isinstance(table, pa.Table)
        free = pa.array(
            [not withheld(chain) for chain in task_column(table, "functions").to_pylist()],
            pa.bool_(),
        )
        return with_trait(table, "seen", pc.and_(task_column(table, "seen"), free))

    return split if split.role == "train" else replace(split, rows=rows)
