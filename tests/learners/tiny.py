"""A tiny world for learners: compositions of four permutations of four symbols, as CTL has them."""

from __future__ import annotations

import itertools

TABLES = {"a": "1230", "b": "3201", "c": "0132", "d": "2310"}


def value(text: str) -> str:
    *functions, symbol = text.split()
    for name in reversed(functions):
        symbol = TABLES[name][int(symbol)]
    return symbol


def everything(longest: int) -> list[tuple[str, str]]:
    """Every expression of 1 to `longest` functions with its value."""
    texts = [
        " ".join([*functions, symbol])
        for n in range(1, longest + 1)
        for functions in itertools.product(TABLES, repeat=n)
        for symbol in "0123"
    ]
    return [(text, value(text)) for text in texts]
