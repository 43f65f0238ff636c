"""Variants of a chain of functions: one function fewer, another function or symbol, or detours that
cancel out.

A function is only replaced by one of the same group, because the pattern of groups decides what
training contains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from taskloom.core.example import Example
from taskloom.core.plan import KINDS, Variant, VariantKind
from taskloom.core.seeding import Key, Random
from taskloom.core.shards import to_examples
from taskloom.suites.ctl.graphs import applied
from taskloom.suites.ctl.second_solver import SecondSolver
from taskloom.suites.ctl.splits import ExpressionRows, InTrain, Renderer
from taskloom.suites.ctl.world import SymbolWorld


class ChainEdit(NamedTuple):
    """An edited chain: its start symbol and its functions in order of application."""

    kind: VariantKind
    edit: str
    symbol: int
    chain: tuple[int, ...]
    before: str
    after: str


class ChainVariants:
    """Generates the candidates of `Plan.variants` for one world."""

    def __init__(
        self, world: SymbolWorld, solver: SecondSolver, render: Renderer, in_train: InTrain
    ) -> None:
        self._world = world
        self._solver = solver
        self._render = render
        self._in_train = in_train
        self._position = {name: f for f, name in enumerate(world.names)}
        self._group_of = world.group_of()

    def __call__(self, example: Example) -> Iterator[Variant]:
        """Yield candidates: first simpler chains, then flips, then keeps."""
        names, values = self._solver.follow(example.input)
        chain = tuple(self._position[name] for name in names)
        symbols = [int(value) for value in values]
        edits = [
            *self._shorter(chain, symbols[0]),
            *self._other_functions(chain, symbols),
            *self._other_symbols(chain, symbols[0]),
            *self._detours(chain, symbols, Key("ctl/variants", example.input).random()),
        ]
        edits.sort(key=lambda edit: KINDS.index(edit.kind))
        for edit, varied in zip(edits, self._rows(edits), strict=True):
            yield Variant(edit.kind, edit.edit, varied, edit.before, edit.after)

    def _shorter(self, chain: tuple[int, ...], symbol: int) -> Iterator[ChainEdit]:
        if len(chain) < 2:
            return
        for i, f in enumerate(chain):
            rest = chain[:i] + chain[i + 1 :]
            yield ChainEdit("simpler", "function removed", symbol, rest, self._world.names[f], "")

    def _other_functions(self, chain: tuple[int, ...], symbols: list[int]) -> Iterator[ChainEdit]:
        """Replace one function by another of the same group. The variant is a keep if the
        replacement has the same result on its symbol, otherwise a flip.
        """
        world = self._world
        for i, f in enumerate(chain):
            for other in world.groups[self._group_of[f]]:
                if other == f:
                    continue
                agrees = world.images[other, symbols[i]] == symbols[i + 1]
                edit = "function that agrees" if agrees else "another function"
                yield ChainEdit(
                    "keep" if agrees else "flip",
                    edit,
                    symbols[0],
                    (*chain[:i], other, *chain[i + 1 :]),
                    world.names[f],
                    world.names[other],
                )

    def _other_symbols(self, chain: tuple[int, ...], symbol: int) -> Iterator[ChainEdit]:
        for other in range(self._world.symbols):
            if other != symbol:
                yield ChainEdit("flip", "another symbol", other, chain, str(symbol), str(other))

    def _detours(
        self, chain: tuple[int, ...], symbols: list[int], rng: Random
    ) -> Iterator[ChainEdit]:
        """Insert two functions that cancel out, one pair per position of the chain."""
        world = self._world
        for i, symbol in enumerate(symbols):
            for away in rng.sample(range(world.functions), world.functions):
                back = np.flatnonzero(world.images[:, world.images[away, symbol]] == symbol)
                if not len(back):
                    continue
                pair = (away, int(rng.choice(back.tolist())))
                longer = (*chain[:i], *pair, *chain[i:])
                words = [world.names[f] for f in pair]
                if self._render.outermost_first:
                    words.reverse()
                yield ChainEdit(
                    "keep", "functions that cancel", symbols[0], longer, "", " ".join(words)
                )
                break

    def _rows(self, edits: list[ChainEdit]) -> Iterable[Example]:
        """Yield edited chains as rows of a dataset, in their order."""
        # Tables of expressions hold chains of one length; the rows' places put them in order again.
        by_length: dict[int, list[int]] = {}
        for i, edit in enumerate(edits):
            by_length.setdefault(len(edit.chain), []).append(i)
        seen = np.zeros(len(edits), dtype=bool)
        parts = []
        for _, members in sorted(by_length.items()):
            at = np.array(members)
            symbols = np.array([edits[i].symbol for i in members])
            chains = np.array([edits[i].chain for i in members])
            expressions = applied(self._world, symbols, chains)
            seen[at] = self._in_train(expressions)
            parts.append((at, expressions))
        return to_examples(self._render.table(0, ExpressionRows(parts, seen)))
