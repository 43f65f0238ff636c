"""bAbI's tasks with worlds of their own: 4 (two-argument relations), and 14 to 20: time, deduction,
induction, positions, sizes, paths and motivations.

`TASKS[n]` draws stories in published wording (`make`, `one`, `story`), reads published text
(`parse`), answers it by exact inference with every minimal support (`solve`), and answers it again
by enumerating possible worlds (`check`). Task 4 is so small that it has functions instead.
"""

from __future__ import annotations

from typing import Any

from taskloom.suites.babi.numbered import (
    task14_time,
    task15_deduction,
    task16_induction,
    task17_positions,
    task18_sizes,
    task19_paths,
    task20_motivations,
)
from taskloom.suites.babi.numbered.task import UNKNOWN as UNKNOWN
from taskloom.suites.babi.numbered.task import NumberedTask as NumberedTask
from taskloom.suites.babi.numbered.task import Parsed as Parsed
from taskloom.suites.babi.numbered.task import Proof as Proof
from taskloom.suites.babi.numbered.task import Statement as Statement
from taskloom.suites.babi.story.text_format import StoryText

TASKS: dict[int, NumberedTask[Any, Any]] = {
    module.TASK.number: module.TASK
    for module in (
        task14_time,
        task15_deduction,
        task16_induction,
        task17_positions,
        task18_sizes,
        task19_paths,
        task20_motivations,
    )
}
"""The tasks by their published number."""


def task_of(story: StoryText) -> NumberedTask[Any, Any] | None:
    """Return the task in whose words a story is written; None if it is none of these."""
    for task in TASKS.values():
        words = all(task.sentence(s.text) is not None for s in story.sentences)
        if words and all(task.question(q.text) is not None for q in story.questions):
            return task
    return None
