"""Answering a whole file, and comparing with what the file claims.

Every answer is proven from the text. Where the file claims something else, the report gives the proof of ours; where the text
leaves the question open, what is missing or what speaks against each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from taskloom.errors import InputError, nearest
from taskloom.suites.babi.classic.story import Asked, Story
from taskloom.suites.babi.classic.task import UNKNOWN, ClassicTask, Found, Told

VERDICTS = {
    "agrees": "the text entails the claimed answer",
    "wrong": "the text entails another answer",
    "open": "the text leaves the answer open",
    "unclaimed": "the file gives no answer",
}
SUPPORT_VERDICTS = {
    "official": "the shortest and earliest minimal support",
    "minimal": "another minimal support, no sentence of it can be spared",
    "convention": "the sentences that the published convention uses where the text leaves the answer open",
    "larger": "sufficient, but some sentence of it can be spared",
    "insufficient": "the cited sentences do not entail the answer",
    "unclaimed": "nothing to compare",
}


@dataclass(frozen=True, slots=True)
class Solved:
    """One question of a file with our answer and what we think of the file's.

    Attributes:
        line: Its line in the file.
        question: The question.
        found: Our answer, with all minimal supports and the proof.
        claimed: The file's answer, if it gives one.
        cited: The file's supporting sentences.
        verdict: One of `VERDICTS`.
        support_verdict: One of `SUPPORT_VERDICTS`.
        convention: The text leaves the answer open, and the published convention gives the claimed one.
    """

    line: int
    question: str
    found: Found
    claimed: str | None
    cited: tuple[int, ...]
    verdict: str
    support_verdict: str
    convention: bool = False

    @property
    def answer(self) -> str:
        """What the text entails, or `unknown`."""
        return self.found.answer

    @property
    def support(self) -> tuple[int, ...]:
        """The official support."""
        return self.found.support

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return {
            "line": self.line,
            "question": self.question,
            "answer": self.found.answer,
            "others": list(self.found.others),
            "support": list(self.found.support),
            "supports": [list(s) for s in self.found.supports],
            "proof": self.found.why,
            "claimed": self.claimed,
            "cited": list(self.cited),
            "verdict": self.verdict,
            "support_verdict": self.support_verdict,
            "by_convention": self.convention,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What came out for a file."""

    path: str
    number: int
    stories: int
    solved: tuple[Solved, ...]

    @property
    def answers(self) -> Counter[str]:
        """How many claimed answers agree, are wrong, are open."""
        return Counter(s.verdict for s in self.solved)

    @property
    def supports(self) -> Counter[str]:
        """How the cited supports compare with the minimal ones."""
        return Counter(s.support_verdict for s in self.solved)

    @property
    def differences(self) -> tuple[Solved, ...]:
        """The questions whose claimed answer the text does not entail."""
        return tuple(s for s in self.solved if s.verdict in ("wrong", "open"))

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return {
            "path": self.path,
            "task": self.number,
            "stories": self.stories,
            "questions": len(self.solved),
            "answers": dict(sorted(self.answers.items())),
            "supports": dict(sorted(self.supports.items())),
            "solved": [s.to_dict() for s in self.solved],
        }

    def text(self) -> str:
        """For people: the counts, each difference with its proof, and our answers where the file claims none."""
        out = [f"{self.path}: task {self.number}, {self.stories} stories, {len(self.solved)} questions"]
        out += [f"  answers: {self.answers[k]:5} {k}: {words}" for k, words in VERDICTS.items() if self.answers[k]]
        out += [
            f"  support: {self.supports[k]:5} {k}: {words}"
            for k, words in SUPPORT_VERDICTS.items()
            if self.supports[k] and k != "unclaimed"
        ]
        for s in self.solved:
            if s.verdict == "unclaimed":
                out.append(f"  line {s.line}: {s.question} {s.answer}: {s.found.why}")
            elif s.verdict != "agrees":
                also = "; the published convention gives the claimed answer" if s.convention else ""
                ours = f"the text entails '{s.answer}'" if s.verdict == "wrong" else "the text leaves it open"
                out.append(f"  line {s.line}: {s.question} claimed '{s.claimed}'; {ours}: {s.found.why}{also}")
        return "\n".join(out)


def solve_stories(
    stories: list[Story], name: str, tasks: Mapping[int, ClassicTask[Any, Any]], number: int | None
) -> Report:
    """Answer every question of stories that were read from `name`."""
    if number is not None and number not in tasks:
        raise InputError(f"task {number} is not among these; {nearest(str(number), map(str, tasks))}")
    task = tasks[number] if number is not None else recognise(stories[0], tasks, name)
    solved: list[Solved] = []
    for story in stories:
        parsed = task.understand(story, name)
        for asked, query, found in zip(story.questions, parsed.queries, task.solve(parsed), strict=True):
            solved.append(_judge(task, parsed.before(asked), query, asked, found))
    return Report(name, task.number, len(stories), tuple(solved))


def written_in(story: Story, tasks: Mapping[int, ClassicTask[Any, Any]]) -> ClassicTask[Any, Any] | None:
    """The task in whose words a story is written, or None."""
    for task in tasks.values():
        words = all(task.sentence(s.text) is not None for s in story.sentences)
        if words and all(task.question(q.text) is not None for q in story.questions):
            return task
    return None


def recognise(story: Story, tasks: Mapping[int, ClassicTask[Any, Any]], where: str) -> ClassicTask[Any, Any]:
    """The task in whose words a story is written; an error names the line where there is none."""
    task = written_in(story, tasks)
    if task is not None:
        return task
    first = story.lines[0]
    raise InputError(
        f"{where}, line {first.line}: the story that begins with {first.text[:60]!r} is written in the words of none of the tasks "
        f"{', '.join(map(str, tasks))}; name the task to see which line it does not know"
    )


def _judge(task: ClassicTask[Any, Any], told: Sequence[Told[Any]], query: Any, asked: Asked, found: Found) -> Solved:
    verdict, reference, convention = _verdict(task, told, query, asked, found)
    support = "unclaimed"
    if asked.support and (verdict == "agrees" or convention):
        support = _compare(task, told, query, asked, found, reference)
    return Solved(asked.line, asked.text, found, asked.answer, asked.support, verdict, support, convention)


def _verdict(
    task: ClassicTask[Any, Any], told: Sequence[Told[Any]], query: Any, asked: Asked, found: Found
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
    task: ClassicTask[Any, Any], told: Sequence[Told[Any]], query: Any, asked: Asked, found: Found, reference: Found
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
