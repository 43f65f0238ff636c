"""The tasks with worlds of their own as recipes."""

from __future__ import annotations

import pytest

from taskloom.core.errors import RecipeError
from tests.suites.babi.generator.generated import custom, plan_of, some


def test_every_room_story_is_different() -> None:
    rows = [e.input for s in plan_of("4").splits for e in s.rows(0, s.n)]
    assert len(set(rows)) == len(rows) == 11_000


@pytest.mark.parametrize("number", range(14, 21))
def test_the_other_tasks_are_recipes_too(number: int) -> None:
    plan = plan_of(str(number))
    assert [s.n for s in plan.splits] == [9_000, 1_000, 1_000]
    assert plan.check is not None
    for example in plan.split("test").rows(0, 10):
        assert set(example.targets) <= set(plan.check(example))


@pytest.mark.parametrize("number", [4, 14, 15, 16, 17, 18, 19, 20])
def test_the_other_tasks_are_shown_with_their_support(number: int) -> None:
    plan = plan_of(str(number))
    (example,) = some(plan, 1)
    assert plan.show is not None
    shown = plan.show(example)
    cited = [int(n) for n in str(example.traits["support_lines"]).split()]
    bold = {
        str(shown)[span.start : span.start + 3].strip()
        for span in shown.spans
        if span.style == "bold green"
    }
    assert bold == {str(n) for n in cited}
    assert all(f"[{n}]" in str(shown) for n in cited)
    assert f"{example.question} {example.target}" in str(shown)


def test_knobs_are_checked() -> None:
    with pytest.raises(
        RecipeError, match="task 14, knobs: unknown key 'peeple'; did you mean 'people'"
    ):
        custom(number=14, knobs={"peeple": 3}, splits={"train": 5})
