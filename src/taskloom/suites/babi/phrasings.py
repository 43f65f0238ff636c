"""The same question in another phrasing (Dyna-bAbI, appendix A.6): "Is Mary in the park?", answered by yes, as "Where is Mary?".

Whoever answers one of the two knows the answer to the other. Stories, supports and proofs stay as they are, so that row by row a
recipe and the same recipe with `phrasing: where-P` are pairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from taskloom.core.errors import RecipeError
from taskloom.core.example import Example, Step
from taskloom.core.plan import Plan, Split

YES_NO, WHERE = "yes-no", "where-P"

QUESTION = re.compile(r"Is (?P<person>.+) (?:in|at) the (?P<place>.+)\?")


def rephrase(example: Example) -> Example:
    """Return an example whose yes-no question is a where-P question, if its answer is yes; every other as it is.

    >>> question, traits = "Is Mary in the park?", {"question": "yes-no"}
    >>> asked = Example(f"Mary went to the park. {question}", "yes", traits, question=question)
    >>> rephrase(asked).input, rephrase(asked).targets
    ('Mary went to the park. Where is Mary?', ('park',))
    """
    if example.traits.get("question") != YES_NO or example.targets != ("yes",):
        return example
    match = QUESTION.fullmatch(example.question)
    if match is None:
        raise RecipeError(
            f"phrasing: '{example.question}' is not a question about a person in a place"
        )
    question, place = f"Where is {match['person']}?", match["place"]
    steps = example.derivation
    if steps:
        steps = (*steps[:-1], Step(WHERE, place, steps[-1].of))
    return Example(
        example.input.removesuffix(example.question) + question,
        place,
        {**example.traits, "question": WHERE},
        key=example.key,
        question=question,
        derivation=steps,
        task=example.task,
    )


def rephrased(plan: Plan) -> Plan:
    """Return a plan whose yes-no questions that are answered by yes are where-P questions."""

    def other(split: Split) -> Split:
        def rows(start: int, stop: int) -> Iterator[Example]:
            return (rephrase(example) for example in split.rows(start, stop))

        return replace(split, rows=rows, tasks=None if split.tasks is None else _kinds(split.tasks))

    tasks = replace(
        plan.tasks,
        names=None if plan.tasks.names is None else _kinds(plan.tasks.names),
        without=None,
    )
    return replace(plan, splits=tuple(other(split) for split in plan.splits), tasks=tasks)


def _kinds(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return kinds of questions with where-P beside yes-no, which may be left for no and maybe."""
    return tuple(dict.fromkeys((*names, WHERE))) if YES_NO in names else names
