"""The second solver reads an expression word by word and applies one function after the other.

It shares nothing with the generator but the function tables, so `taskloom verify` is an independent
check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from taskloom.core.errors import InputError, nearest
from taskloom.core.example import Answer, Example, Step
from taskloom.suites.ctl.world import Table


@dataclass(frozen=True, eq=False)
class SecondSolver:
    """Solver for the expressions of one world, which works on their text.

    Attributes:
        names: Names of the functions.
        images: `images[f, s]` is the result of applying function f to symbol s.
        order: `right-to-left` if the symbol comes last, `left-to-right` if it comes first.
    """

    names: tuple[str, ...]
    images: Table
    order: str

    def answer(self, text: str) -> Answer:
        """Return the resulting symbol, with one derivation step per function."""
        chain, values = self.follow(text)
        return Answer((values[-1],), tuple(map(Step, chain, values[1:])))

    def check(self, example: Example) -> tuple[str, ...]:
        """Return the resulting symbol without derivation steps, which takes half the time."""
        return (self.follow(example.input)[1][-1],)

    @cached_property
    def _images_by_name(self) -> dict[str, list[str]]:
        """For each function, its result for every symbol, as text. Cached on first use, so that
        `make` does not wait for a large table.
        """
        return {name: [str(int(s)) for s in self.images[f]] for f, name in enumerate(self.names)}

    @cached_property
    def _symbol_numbers(self) -> dict[str, int]:
        return {str(s): s for s in range(self.images.shape[1])}

    def follow(self, text: str) -> tuple[Sequence[str], Sequence[str]]:
        """Return the functions of an expression in order of application, and the symbol before and
        after each of them.

        There is one more symbol than there are functions, because the first symbol is the start
        symbol.
        """
        images, position = self._images_by_name, self._symbol_numbers
        symbol_last = self.order == "right-to-left"
        words = text.split()
        if symbol_last:
            words.reverse()
        if not words:
            raise InputError('the expression is empty; write functions and a symbol, e.g. "b a 3"')
        value, chain = words[0], words[1:]
        if value not in position:
            where = "last" if symbol_last else "first"
            raise InputError(
                f"'{text}': '{value}' is not a symbol, which must come {where}; symbols are 0 to"
                f" {len(position) - 1}"
            )
        values = [value]
        for name in chain:
            if name not in images:
                raise InputError(
                    f"'{text}': there is no function '{name}'; {nearest(name, images)}"
                )
            value = images[name][position[value]]
            values.append(value)
        return chain, values
