"""The classic bAbI 1.0 tasks 14 to 20: time, deduction, induction, positions, sizes, paths and motives.

`TASKS[n]` makes stories in published wording (`make`, `one`, `story`), reads published text (`parse`), answers it by exact
inference with every minimal support (`solve`), and answers it again by enumerating possible worlds (`check`). `solve_file` does a
whole file and reports where it disagrees.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
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
from taskloom.suites.babi.numbered.classic_report import solve_stories, written_in
from taskloom.suites.babi.numbered.task import UNKNOWN, ClassicTask, Found, Parsed, Told
from taskloom.suites.babi.reports import SolvedQuestion, StoryFileReport
from taskloom.suites.babi.story.text_format import (
    QuestionLine,
    Sentence,
    StoryText,
    read_lines,
    read_path,
    read_story_text,
)

__all__ = [
    "TASKS",
    "UNKNOWN",
    "ClassicTask",
    "Found",
    "Parsed",
    "QuestionLine",
    "Sentence",
    "SolvedQuestion",
    "StoryFileReport",
    "StoryText",
    "Told",
    "solve_file",
    "solve_stories",
    "solve_text",
    "task_of",
    "written_in",
]

TASKS: dict[int, ClassicTask[Any, Any]] = {
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


def task_of(lines: Iterable[str], where: str = "the story") -> int | None:
    """Which of these tasks a text in bAbI format belongs to, by the words of its first story; None when to none of them."""
    task = written_in(read_lines(lines, where)[0], TASKS)
    return task.number if task else None


def solve_file(path: str | Path, number: int | None = None) -> StoryFileReport:
    """Answer every question of a file in bAbI format and compare with what the file claims.

    Args:
        path: A file of one of the tasks 14 to 20.
        number: Which one; None finds it from the words of the first story.

    Raises:
        InputError: With file, line and reason: unreadable, of another task, contradictory, or about somebody unknown.
    """
    return solve_stories(read_path(Path(path)), str(path), TASKS, number)


def solve_text(text: str, name: str = "the story", number: int | None = None) -> StoryFileReport:
    """The same for text that is at hand; `name` stands for it in messages."""
    return solve_stories(read_story_text(text, name), name, TASKS, number)
