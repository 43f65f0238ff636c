"""A composition as a person follows it: one function after the other, with the value after each."""

from __future__ import annotations

from taskloom.core.example import Example
from taskloom.core.pictures import ChainLink, ChainPicture


def chain(example: Example, order: str) -> ChainPicture | None:
    """Return an example as a chain of applications; None where its input is only a part, without the symbol or the functions."""
    words = example.input.split()
    steps = example.derivation
    if len(words) != len(steps) + 1:
        return None
    groups = str(example.traits.get("groups", "")).split()
    named = groups if len(groups) == len(steps) else [""] * len(steps)
    links = tuple(
        ChainLink(step.rule, step.value, group) for step, group in zip(steps, named, strict=True)
    )
    return ChainPicture(words[-1] if order == "right-to-left" else words[0], links)
