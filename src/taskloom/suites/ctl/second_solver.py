"""The second solver: reads an expression word by word, as a person would, and applies one function
after the other.

It shares nothing with the generator but the tables, so that `taskloom verify` is independent of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from taskloom.core.errors import InputError, nearest
from taskloom.core.example import Answer, Step
from taskloom.suites.ctl.world import Table


def solver(names: tuple[str, ...], images: Table, order: str) -> Callable[[str], Answer]:
    """Return a function from an expression's text to its answer and derivation."""
    follow = follower(names, images, order)

    def answer(text: str) -> Answer:
        chain, values = follow(text)
        return Answer((values[-1],), tuple(map(Step, chain, values[1:])))

    return answer


def follower(
    names: tuple[str, ...], images: Table, order: str
) -> Callable[[str], tuple[Sequence[str], Sequence[str]]]:
    """Return a function from an expression's text to its functions, first applied first, and the
    symbols they go through.

    The symbols begin with the one that the expression names, so there is one more of them than of
    functions.
    """
    meaning = {name: [str(int(s)) for s in images[f]] for f, name in enumerate(names)}
    position = {str(s): s for s in range(images.shape[1])}
    symbol_last = order == "right-to-left"

    def follow(text: str) -> tuple[Sequence[str], Sequence[str]]:
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
            if name not in meaning:
                raise InputError(
                    f"'{text}': there is no function '{name}'; {nearest(name, meaning)}"
                )
            value = meaning[name][position[value]]
            values.append(value)
        return chain, values

    return follow
