"""Answers to single inputs, for every task that is a function."""

from __future__ import annotations

from collections.abc import Callable

from taskloom.errors import InputError
from taskloom.example import Answer
from taskloom.recipe import read
from taskloom.recipe.overrides import Changes


def answerer(name: str, set: Changes = ()) -> Callable[[str], Answer]:
    """Return the function of a task, from an input's text to its answer."""
    recipe = read(name, set)
    if recipe.suite.function is not None:
        answer = recipe.suite.function(recipe.fields)
        if recipe.described is None:
            return answer
        from taskloom.descriptions import undescribed

        return lambda text: answer(undescribed(text))
    function = recipe.plan().answer
    if function is None:
        raise InputError(
            f"{name} is not a function of one input, so it cannot be applied; 'taskloom show {name}' prints examples"
        )
    return function


def apply(name: str, text: str, *, set: Changes = ()) -> Answer:
    """Return the answer to one input, with its derivation.

    >>> import taskloom as tl
    >>> [step.rule for step in tl.apply("ctl/A", "c b a 3").derivation]
    ['a', 'b', 'c']
    """
    return answerer(name, set)(text)
