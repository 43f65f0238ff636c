"""CTL and CTL++: compositions of known functions in patterns that training never shows.

A world consists of symbols and named functions, which are random permutations of the symbols and
belong to groups. An example applies a chain of functions to a symbol: `c b a 3` is c(b(a(3))), and
the answer is the resulting symbol. Sampling graphs define which groups may follow each other in
training and which only in test splits. For the paper (CTL++, EMNLP 2022) see docs/papers/ctlpp.md.
The original CTL is the recipe `ctl/length`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from taskloom.core.offers import Option, TraitName
from taskloom.core.registry import Suite, suite
from taskloom.suites.ctl.fields import CtlFields

if TYPE_CHECKING:
    from taskloom.core.example import Answer, Example
    from taskloom.core.pictures import ChainPicture
    from taskloom.core.plan import Plan
    from taskloom.core.seeding import Key

TRAIT_NAMES = {
    "length": TraitName("chain length", "Number of functions that are applied."),
    "groups": TraitName("groups of functions", "Groups of the functions, in order of application."),
    "functions": TraitName("functions", "Functions, in order of application."),
    "values": TraitName("intermediate values", "Symbols after each function."),
    "seen": TraitName("seen in training", "True if training contains the same expression."),
}


@suite
class CtlSuite(Suite):
    """Chains of functions on symbols."""

    name = "ctl"
    fields = CtlFields
    describe = "Functions applied one after the other to a symbol; test compositions never occur in training (CTL, CTL++)"
    version = 2
    trait_names = TRAIT_NAMES
    options = (
        Option("apply", "tables", "Function tables as JSON: name to list of images.", file=True),
    )

    def weave(self, fields: CtlFields, key: Key) -> Plan:
        """Plan the splits of a CTL recipe."""
        # Imported here, because commands that only list the suite need neither numpy nor pyarrow.
        from taskloom.core.plan import Plan, proved
        from taskloom.core.scoring import exact
        from taskloom.suites.ctl.second_solver import SecondSolver
        from taskloom.suites.ctl.splits import (
            TRAITS,
            Renderer,
            chain_tasks,
            plan_splits,
            without_chains,
        )
        from taskloom.suites.ctl.variants import ChainVariants
        from taskloom.suites.ctl.world import build, group_facts

        world = build(fields)
        render = Renderer(world, fields.order, f"ctl/{fields.variant}")
        splits, warnings, in_train = plan_splits(fields, world, key, render)
        solver = SecondSolver(world.names, world.images, fields.order)
        direction = fields.order.replace("-", " ")
        plan = Plan(
            splits,
            traits=TRAITS,
            describe=(
                f"Apply the functions to the symbol, from {direction}, and give the resulting"
                " symbol."
            ),
            scorer=exact,
            answer=solver.answer,
            check=solver.check,
            shard_rows=100_000,
            warnings=warnings,
            facts=group_facts(fields, world),
            tasks=chain_tasks(world, without=lambda withheld: without_chains(plan, withheld)),
            variants=proved(ChainVariants(world, solver, render, in_train), solver.check),
        )
        return plan

    def function(self, fields: CtlFields) -> Callable[[str], Answer]:
        """Return the function that solves inputs of a recipe."""
        from taskloom.suites.ctl.second_solver import SecondSolver
        from taskloom.suites.ctl.world import functions_of

        names, images = functions_of(fields)
        return SecondSolver(names, images, fields.order).answer

    def picture(self, example: Example, fields: CtlFields, key: Key) -> ChainPicture | None:
        """Return a picture of the chain, with the value after each function.

        None if the input lacks the symbol or the functions, for example if the recipe sets `parts`.
        """
        from taskloom.core.pictures import ChainLink, ChainPicture

        words = example.input.split()
        steps = example.derivation
        if len(words) != len(steps) + 1:
            return None
        groups = str(example.traits.get("groups", "")).split()
        if len(groups) != len(steps):  # the file has no traits
            groups = [""] * len(steps)
        links = [
            ChainLink(step.rule, step.value, group)
            for step, group in zip(steps, groups, strict=True)
        ]
        start = words[-1] if fields.order == "right-to-left" else words[0]
        return ChainPicture(start, tuple(links))
