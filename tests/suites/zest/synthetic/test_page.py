"""What docs/suites/zest.md shows is what the generator makes."""

from __future__ import annotations

import re
from pathlib import Path

from taskloom.core.seeding import Key
from taskloom.recipe import read
from taskloom.suites.zest.fields import ZestFields, context
from taskloom.suites.zest.synthetic.algebra import program_text
from taskloom.suites.zest.synthetic.plan import family
from taskloom.suites.zest.synthetic.task_world import task_world

PAGE = Path(__file__).parents[4] / "docs" / "suites" / "zest.md"


def test_the_family_on_the_page_is_the_one_that_show_prints() -> None:
    recipe = read("zest/synthetic")
    assert isinstance(recipe.fields, ZestFields)
    made = task_world(recipe.fields, Key(recipe.digest, 0))
    members = family(made, made.splits["dev"][0])
    text = PAGE.read_text(encoding="utf-8")
    for task in members:
        assert f"| {task.question} | `{program_text(task.program)}` |" in text
    told = {
        context(e.input): e.target
        for t in members
        for i in range(made.passages)
        if (e := made.example(t, i))
    }
    quoted = re.findall(r"^> (.+)\n\nAnswer: `(.+)`$", text, re.M)
    assert len(quoted) == 5
    assert all(told[passage] == answer for passage, answer in quoted)
