"""An example as a person reads it: the answer, what else is right, and the steps that lead there."""

from __future__ import annotations

from taskloom.core.errors import TaskloomError
from taskloom.core.example import Example, Step
from taskloom.suites.taskbench.evaluation.derivations import BETWEEN, items
from taskloom.suites.taskbench.scorers import cut
from taskloom.suites.taskbench.worlds.worlds import Answerer

SHOWN = 6
"""Acceptable answers that are listed before the rest is only counted."""


def words(example: Example, answerer: Answerer) -> str:
    """Return a word with its answers and, where the function is composed, the steps."""
    rest = example.targets[1:]
    lines = [f"  {example.input} → {example.target}" + (f"   or {_few(rest)}" if rest else "")]
    try:
        steps = answerer(example.input).derivation
    except TaskloomError:
        steps = ()
    if len(steps) > 1:
        width = max(len(step.rule) for step in steps)
        for n, step in enumerate(steps):
            values = step.value.split(BETWEEN) if step.value else ["nothing"]
            lines.append(f"      {step.rule:<{width}}  {_few(values)}{_origin(step, n)}")
    return "\n".join(lines).replace("[", r"\[")


def sequence(example: Example, answerer: Answerer, separators: bool) -> str:
    """Return a sequence and its result, and for each position of the result what is acceptable there."""
    lines = [f"  {example.input}", f"  → {example.target}"]
    sets = answerer.positions(example.key or example.input)
    given = items(example.target, True) if separators else cut(example.target, sets)
    width = max((len(item) for item in given), default=0)
    for item, accepted in zip(given, sets, strict=False):
        others = [a for a in accepted if a != item]
        lines.append(f"      {item:<{width}}" + (f"   or {_few(others)}" if others else ""))
    return "\n".join(lines).replace("[", r"\[")


def _few(values: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(values[:SHOWN])
    return shown + (f" and {len(values) - SHOWN} more" if len(values) > SHOWN else "")


def _origin(step: Step, number: int) -> str:
    """Return where a step's input came from, unless it is the step before."""
    if step.of is None or step.of in ((), (number - 1,)):
        return ""
    return f"   (of steps {', '.join(str(i + 1) for i in step.of)})"
