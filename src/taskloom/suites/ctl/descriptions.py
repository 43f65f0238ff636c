"""CTL by description: a task is a chain of functions; its description says them in order of application."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from taskloom.plan import Level, Plan, Split, Tasks, Withheld

if TYPE_CHECKING:
    import pyarrow as pa

    from taskloom.suites.ctl.world import SymbolWorld


def with_tasks(plan: Plan, world: SymbolWorld) -> Plan:
    """The plan, with its chains of functions as its tasks. Single functions are what chains are made of: never withheld."""

    def without(held: Withheld) -> Plan:
        from taskloom.descriptions import withhold

        return withhold(told, unseen_chains)(held)

    names = frozenset(world.names)
    tasks = Tasks(
        "functions",
        partial(_tell, world),
        possible=lambda chain: names.issuperset(chain.split(" ")),
        always=lambda chain: " " not in chain,
        without=without,
    )
    told = replace(plan, tasks=tasks)
    return told


def _tell(world: SymbolWorld, chain: str, level: Level) -> str:
    names = chain.split()
    steps = [f"the function {names[0]}", *names[1:]]
    told = f"Apply {', then '.join(steps)} to the symbol and give the resulting symbol."
    if level == "instruction":
        return told
    symbols = " ".join(str(s) for s in range(world.symbols))
    place = {name: f for f, name in enumerate(world.names)}
    tables = [f"{n} turns {symbols} into {' '.join(map(str, world.images[place[n]]))}" for n in dict.fromkeys(names)]
    return f"{told} Of the symbols, in order, {'; '.join(tables)}."


def unseen_chains(split: Split, held: Withheld) -> Split:
    """The split with the trait `seen` false for what training has no longer."""

    def rows(start: int, stop: int) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        from taskloom.descriptions import task_column, with_trait

        table = split.rows(start, stop)
        assert isinstance(table, pa.Table)
        free = pa.array([not held(chain) for chain in task_column(table, "functions").to_pylist()], pa.bool_())
        return with_trait(table, "seen", pc.and_(task_column(table, "seen"), free))

    return split if split.role == "train" else replace(split, rows=rows)
