"""Answers to single inputs, for every task that is a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, overload

from taskloom.core.errors import InputError, echo
from taskloom.core.example import Answer
from taskloom.recipe import read
from taskloom.recipe.overrides import Changes, given_changes
from taskloom.recipe.recipe import Source

if TYPE_CHECKING:
    from taskloom.recipe.tasks import Task


def answerer(name: Source | Task, changes: Changes = None) -> Callable[[str], Answer]:
    """Return the function of a task, from an input's text to its answer."""
    recipe = read(name, changes)
    if recipe.suite.function is not None:
        answer = recipe.suite.function(recipe.fields)
        if recipe.described is None:
            return answer
        from taskloom.core.descriptions import undescribed

        return lambda text: answer(undescribed(text))
    function = recipe.plan().answer
    if function is None:
        raise InputError(
            f"{recipe.name} is not a function of one input, so it cannot be applied; 'taskloom show"
            f" {recipe.name}' prints examples"
        )
    return function


@overload
def apply(  # type: ignore[overload-overlap]
    name: Source | Task, text: str, *, changes: Changes = None, set: Changes = None
) -> Answer: ...


@overload
def apply(
    name: Source | Task, text: Sequence[str], *, changes: Changes = None, set: Changes = None
) -> list[Answer]: ...


def apply(
    name: Source | Task, text: str | Sequence[str], *, changes: Changes = None, set: Changes = None
) -> Answer | list[Answer]:
    """Return the answer to one input, with its derivation; for a list of inputs, the list of their
    answers.

    >>> import taskloom as tl
    >>> [step.rule for step in tl.apply("ctl/A", "c b a 3").derivation]
    ['a', 'b', 'c']
    >>> [answer.targets for answer in tl.apply("ctl/A", ["c b a 3", "b a 3"])]
    [('7',), ('1',)]
    """
    answer = answerer(name, given_changes(changes, set))
    if isinstance(text, str):
        return answer(text)
    inputs = list(text) if isinstance(text, Iterable) else [text]
    for place, one in enumerate(inputs):
        if not isinstance(one, str):
            raise InputError(f"input {place} is {echo(one)}; an input is a text")
    return [answer(one) for one in inputs]
