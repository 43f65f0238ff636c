"""Answering a whole file, and comparing with what the file claims.

Every answer is proven from the text. Where the file claims something else, the report gives the proof of ours; where the text
leaves the question open, what is missing or what speaks against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from taskloom.errors import InputError, nearest
from taskloom.suites.babi.numbered.task import UNKNOWN, ClassicTask, Found, Told
from taskloom.suites.babi.reports import SolvedQuestion, StoryFileReport, refuse_cut
from taskloom.suites.babi.story.text_format import QuestionLine, StoryText


def solve_stories(
    stories: list[StoryText], name: str, tasks: Mapping[int, ClassicTask[Any, Any]], number: int | None
) -> StoryFileReport:
    """Answer every question of stories that were read from `name`."""
    if number is not None and number not in tasks:
        raise InputError(f"task {number} is not among these; {nearest(str(number), map(str, tasks))}")
    task = tasks[number] if number is not None else recognise(stories[0], tasks, name)
    solved: list[SolvedQuestion] = []
    for story in stories:
        parsed = task.understand(story, name)
        for asked, query, found in zip(story.questions, parsed.queries, task.solve(parsed), strict=True):
            solved.append(_judge(task, parsed.before(asked), query, asked, found))
    return refuse_cut(StoryFileReport(name, len(stories), tuple(solved), number=task.number), stories)


def written_in(story: StoryText, tasks: Mapping[int, ClassicTask[Any, Any]]) -> ClassicTask[Any, Any] | None:
    """The task in whose words a story is written, or None."""
    for task in tasks.values():
        words = all(task.sentence(s.text) is not None for s in story.sentences)
        if words and all(task.question(q.text) is not None for q in story.questions):
            return task
    return None


def recognise(story: StoryText, tasks: Mapping[int, ClassicTask[Any, Any]], where: str) -> ClassicTask[Any, Any]:
    """The task in whose words a story is written; an error names the line where there is none."""
    task = written_in(story, tasks)
    if task is not None:
        return task
    first = story.lines[0]
    raise InputError(
        f"{where}:{first.line}: the story that begins with {first.text[:60]!r} is written in the words of none of the tasks "
        f"{', '.join(map(str, tasks))}; name the task to see which line it does not know"
    )


def _judge(
    task: ClassicTask[Any, Any], told: Sequence[Told[Any]], query: Any, asked: QuestionLine, found: Found
) -> SolvedQuestion:
    verdict, reference, convention = _verdict(task, told, query, asked, found)
    support = "unclaimed"
    if asked.support and (verdict == "agrees" or convention):
        support = _compare(task, told, query, asked, found, reference)
    return SolvedQuestion(
        asked.line,
        asked.text,
        found.answer,
        found.supports,
        found.why,
        asked.answer,
        asked.support,
        verdict,
        support,
        others=found.others,
        by_convention=convention,
    )


def _verdict(
    task: ClassicTask[Any, Any], told: Sequence[Told[Any]], query: Any, asked: QuestionLine, found: Found
) -> tuple[str, Found, bool]:
    if asked.answer is None:
        return "unclaimed", found, False
    if asked.answer in (found.answer, *found.others):
        return "agrees", found, False
    if found.answer == UNKNOWN and task.convention is not None:
        other = task.convention(told, query)
        return "open", other, asked.answer == other.answer
    return ("open" if found.answer == UNKNOWN else "wrong"), found, False


def _compare(
    task: ClassicTask[Any, Any],
    told: Sequence[Told[Any]],
    query: Any,
    asked: QuestionLine,
    found: Found,
    reference: Found,
) -> str:
    cited = frozenset(asked.support)
    known = [frozenset(s) for s in reference.supports]
    if known and cited == known[0]:
        return "convention" if reference is not found else "official"
    if not entails(task, told, query, cited, asked.answer):
        return "insufficient"
    spare = any(
        entails(task, told, query, part, asked.answer)
        for part in map(frozenset, combinations(sorted(cited), len(cited) - 1))
    )
    return "larger" if spare else "minimal"


def entails(
    task: ClassicTask[Any, Any], told: Sequence[Told[Any]], query: Any, numbers: frozenset[int], answer: str | None
) -> bool:
    """Whether these sentences alone entail the answer."""
    found = task.derive([t for t in told if t.number in numbers], query)
    return answer in (found.answer, *found.others)
