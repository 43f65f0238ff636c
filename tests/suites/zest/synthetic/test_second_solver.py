"""The independent reader: it agrees with the generator on every answer, and sees nothing but the
text.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from taskloom.core.errors import InputError
from taskloom.core.example import Example
from taskloom.suites.taskbench.language import ExpressionError, show
from taskloom.suites.zest.synthetic import passage_reader, second_solver
from taskloom.suites.zest.synthetic.algebra import expression, program_text
from taskloom.suites.zest.synthetic.domain import Number
from taskloom.suites.zest.synthetic.domain_files import find_domain
from taskloom.suites.zest.synthetic.plan import check
from taskloom.suites.zest.synthetic.programs import Program
from taskloom.suites.zest.synthetic.task_world import TaskWorld
from tests.suites.zest.synthetic.small_worlds import every_task, examples, small


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_the_reader_agrees_on_every_answer_of_the_default_recipe(
    full_examples: dict[str, list[Example]], every: int
) -> None:
    """By day on every fourth passage."""
    for rows in full_examples.values():
        for e in rows[::every]:
            assert check(e) == e.targets, e.input


@pytest.mark.parametrize("seed", range(3))
def test_the_reader_agrees_under_other_seeds_and_knobs(seed: int) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"composition_depth": "2..3", "facts": "3..6"},
        {"distractors": "0..8", "na_rate": 0.3},
    ]
    for e in examples(small(seed, **changes[seed])):
        assert check(e) == e.targets, e.input


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 30))
def test_the_reader_agrees_under_many_seeds(seed: int) -> None:
    for e in examples(
        small(
            seed,
            tasks={"train": 120, "dev": 60, "test": 120},
            passages=20,
            composition_depth="2..3",
        )
    ):
        assert check(e) == e.targets, e.input


def test_the_reader_reads_the_text_and_nothing_else(full: TaskWorld) -> None:
    numbers = [
        t
        for _, t in every_task(full)
        if t.program.op == "value"
        and isinstance(t.domain.by_name[t.program.args[0]], Number)
        and t.source == t.id
    ]
    spans = [full.example(task, i) for task in numbers[:8] for i in range(full.passages)]
    changed = 0
    for e in spans:
        if e.traits["evidence"] == "stated" and e.input.count(e.target) == 1:
            other = re.sub(r"^[\d,]+", "1777", e.target)
            assert (
                check(replace(e, input=e.input.replace(e.target, other)))
                == (other, "1777")[: len(e.targets)]
            )
            changed += 1
    assert changed > 10
    program = Program("value", ("area",))
    parks = find_domain("parks")
    text = "Echo Basin covers 9,000 acres. Larch Mesa covers 5,000 acres. It was opened in 1911."
    assert second_solver.solve(parks, program_text(program), text) == ("9,000 acres", "9,000")
    assert second_solver.solve(parks, "opened", text) == ("n/a",)
    rule = "Echo Basin lies in the Lake District. All parks of the {} close in winter."
    assert second_solver.solve(parks, "is{winter=yes}", rule.format("Lake District")) == ("no",)
    assert second_solver.solve(parks, "is{winter=yes}", rule.format("River District")) == ("n/a",)
    with pytest.raises(InputError, match="does not understand"):
        passage_reader.read(parks, "Echo Basin covers 9,000 acres. Echo Basin sings at night.")


def test_programs_are_expressions_of_the_language_of_functions(full: TaskWorld) -> None:
    """Each is read back to itself, by atoms of its domain and operators of the language; different
    programs look different.
    """
    texts: dict[tuple[str, str], Program] = {}
    for _, task in every_task(full):
        text = program_text(task.program)
        assert second_solver.parse_program(task.domain, text) == expression(task.program)
        assert show(second_solver.parse_program(task.domain, text)) == text
        assert texts.setdefault((task.domain.name, text), task.program) == task.program
    used = {word for _, text in texts for word in re.findall(r"(\w+)\(", text)}
    assert used == {"chain", "filter", "land", "lor", "map", "union"}
    with pytest.raises(ExpressionError, match="unknown atom"):
        second_solver.parse_program(find_domain("parks"), "chain(is{surface=gravel}, bridge)")
