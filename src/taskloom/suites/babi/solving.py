"""Answering a whole file in bAbI format, and comparing with what the file claims.

Every answer is proven from the text before the question. Where the file claims something else, the report gives our
proof; where the text leaves the question open, what remains possible.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast, get_args

from taskloom.errors import InputError, nearest
from taskloom.scoring import number
from taskloom.suites.babi import classic, relations
from taskloom.suites.babi.answering import UNKNOWN, Verdict, answer, supports
from taskloom.suites.babi.events import Asked, Question, Story
from taskloom.suites.babi.knowledge import Contradiction, Knowledge, Reading
from taskloom.suites.babi.proofs import in_words
from taskloom.suites.babi.reading import Line, read_text, split_stories, tidy_text, understand

READINGS: tuple[str, ...] = get_args(Reading)

VERDICTS = {
    "agrees": "the text entails the claimed answer",
    "wrong": "the text entails another answer",
    "open": "the text leaves the answer open",
    "unclaimed": "the file gives no answer",
}
SUPPORT_VERDICTS = {
    "official": "the shortest, then earliest minimal support",
    "minimal": "another minimal support",
    "larger": "sufficient, but some sentence of it can be spared",
    "insufficient": "the cited sentences do not entail the answer",
    "unclaimed": "nothing to compare",
}


@dataclass(frozen=True, slots=True)
class Solved:
    """One question of a file, with our answer and what we think of the file's.

    Attributes:
        line: Line in the file.
        question: The question.
        answer: What the text entails, or `unknown`.
        supports: All minimal supporting sets as line numbers within the story, the official one first.
        proof: In words.
        claimed: The file's answer, or nothing.
        cited: The file's supporting lines.
        verdict: One of `VERDICTS`.
        support_verdict: One of `SUPPORT_VERDICTS`.
    """

    line: int
    question: str
    answer: str
    supports: tuple[tuple[int, ...], ...]
    proof: str
    claimed: str
    cited: tuple[int, ...]
    verdict: str
    support_verdict: str

    @property
    def support(self) -> tuple[int, ...]:
        """The official support."""
        return self.supports[0] if self.supports else ()

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return {
            "line": self.line,
            "question": self.question,
            "answer": self.answer,
            "support": list(self.support),
            "supports": [list(s) for s in self.supports],
            "proof": self.proof,
            "claimed": self.claimed or None,
            "cited": list(self.cited),
            "verdict": self.verdict,
            "support_verdict": self.support_verdict,
        }


class SolveReport(Protocol):
    """What a report can do, whichever tasks the file holds."""

    @property
    def differences(self) -> tuple[Any, ...]:
        """The questions whose claimed answer the text does not entail."""

    def to_dict(self) -> dict[str, Any]:
        """For machines."""

    def text(self) -> str:
        """For people."""


@dataclass(frozen=True, slots=True)
class Report:
    """What came out for a file."""

    path: str
    reading: Reading
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
            "reading": self.reading,
            "stories": self.stories,
            "questions": len(self.solved),
            "answers": dict(sorted(self.answers.items())),
            "supports": dict(sorted(self.supports.items())),
            "solved": [s.to_dict() for s in self.solved],
        }

    def text(self) -> str:
        """For people: the counts, each difference with its proof, and every answer where the file claims none."""
        out = [f"{self.path}: {self.stories} stories, {len(self.solved)} questions, {self.reading} reading"]
        out += [f"  answers: {self.answers[k]:5} {k}: {words}" for k, words in VERDICTS.items() if self.answers[k]]
        out += [
            f"  support: {self.supports[k]:5} {k}: {words}"
            for k, words in SUPPORT_VERDICTS.items()
            if self.supports[k] and k != "unclaimed"
        ]
        for s in self.solved:
            if s.verdict == "unclaimed":
                out.append(f"  line {s.line}: {s.question} {s.answer} ({s.proof})")
            elif s.verdict != "agrees":
                says = f"the text entails '{s.answer}'" if s.verdict == "wrong" else "the text leaves it open"
                out.append(f"  line {s.line}: {s.question} claimed '{s.claimed}'; {says}: {s.proof}")
        return "\n".join(out)


def solve_file(path: str | Path, reading: str = "natural") -> SolveReport:
    """Answer and support every question of a file in bAbI format, and compare with the file's own answers.

    Args:
        path: Text in the words of any task of bAbI 1.0 or of Dyna-bAbI; `-` reads standard input.
        reading: `natural` or `strict`, how much a sentence says; see `taskloom.suites.babi.knowledge`.

    Raises:
        InputError: With file, line and reason: unreadable, contradictory, or about somebody unknown.
    """
    if reading not in READINGS:
        raise InputError(f"there is no reading '{reading}'; {nearest(reading, READINGS)}")
    if str(path) == "-":
        return solve_text(tidy_text(sys.stdin.read(), "standard input"), "standard input", cast(Reading, reading))
    return solve_text(read_text(Path(path)), str(path), cast(Reading, reading))


def solve_text(text: str, name: str = "story", reading: Reading = "natural") -> SolveReport:
    """The same for text that is at hand; `name` stands for it in messages."""
    stories = list(split_stories(text, name))
    if _is_classic(stories[0]):
        return classic.solve_text(text, name)
    if relations.read_fact(stories[0][0].text):
        return Report(name, reading, len(stories), tuple(s for x in stories for s in _solve_rooms(x, name)))
    last = 0 if text.endswith("\n") else text.count("\n") + 1
    read = [understand(lines, name, last=last) for lines in stories]
    return Report(name, reading, len(read), tuple(s for story in read for s in solve_story(story, name, reading)))


def _is_classic(lines: list[Line]) -> bool:
    """Whether a story is written in the words of one of the tasks 14 to 20."""
    return any(
        all((task.question if line.asks else task.sentence)(line.text) is not None for line in lines)
        for task in classic.TASKS.values()
    )


def solve_story(story: Story, name: str = "story", reading: Reading = "natural") -> list[Solved]:
    """Every question of one story."""
    knowledge = Knowledge(places_of(story), reading)
    solved = []
    told = 0
    for asked in story.asked:
        try:
            knowledge.tell_all(story.events[told : asked.after])
        except Contradiction as error:
            at = story.at - 1 + story.lines[error.sentence]
            raise InputError(f"{name}:{at}: the story contradicts itself: {error.reason}") from None
        told = asked.after
        _must_know(knowledge, asked, name)
        verdict = answer(knowledge, asked.question)
        sets = tuple(tuple(story.lines[i] for i in s) for s in supports(knowledge, asked.question, verdict))
        official = [story.lines.index(n) for n in sets[0]] if sets else []
        proof = in_words(knowledge, asked.question, verdict, official, story.lines)
        solved.append(_judge(asked, verdict, sets, proof))
    return solved


def places_of(story: Story) -> list[str]:
    """Every place a story or its questions name, in order of appearance."""
    found = [place for event in story.events for place in event.places]
    found += [asked.question.place for asked in story.asked if asked.question.place]
    return list(dict.fromkeys(found))


def _must_know(knowledge: Knowledge, asked: Asked, name: str) -> None:
    question = asked.question
    known = {p for e in knowledge.events for p in (*e.who, e.to)}
    for who in (question.person, question.other):
        if who and who not in known:
            raise InputError(f"{name}:{asked.at}: the question is about {who}, of whom the story has told nothing")
    if question.thing and question.thing not in knowledge.things:
        raise InputError(
            f"{name}:{asked.at}: the question is about the {question.thing}, of which the story has told nothing"
        )


def same_answer(question: Question, verdict: Verdict, claimed: str) -> bool:
    """Whether two answers say the same: lists in any order, numbers in words or digits."""
    said = claimed.strip().casefold()
    if question.kind == "list":
        items = {x.strip() for x in said.split(",")} - {"nothing", ""}
        return items == {x.casefold() for x in verdict.items}
    if question.kind == "counting":
        return number(said) == number(verdict.answer)
    return said == verdict.answer.casefold()


def _judge(asked: Asked, verdict: Verdict, sets: tuple[tuple[int, ...], ...], proof: str) -> Solved:
    if not asked.answer:
        said = "unclaimed"
    elif not verdict.known:
        said = "open"
    else:
        said = "agrees" if same_answer(asked.question, verdict, asked.answer) else "wrong"
    support = judge_support(asked.support, sets) if said == "agrees" and asked.support else "unclaimed"
    text = asked.question.text
    return Solved(asked.at, text, verdict.answer, sets, proof, asked.answer, asked.support, said, support)


def judge_support(cited: Iterable[int], sets: tuple[tuple[int, ...], ...]) -> str:
    """How a cited support compares with all minimal ones; a superset of a minimal one is sufficient."""
    mine = frozenset(cited)
    known = [frozenset(s) for s in sets]
    if mine == known[0]:
        return "official"
    if mine in known:
        return "minimal"
    return "larger" if any(s <= mine for s in known) else "insufficient"


def _solve_rooms(lines: list[Line], name: str) -> list[Solved]:
    facts: list[relations.Fact] = []
    numbers: list[int] = []
    solved = []
    for line in lines:
        if not line.asks:
            fact = relations.read_fact(line.text)
            if fact is None:
                raise InputError(f"{name}:{line.at}: cannot read {line.text[:80]!r} as 'The A is north of the B.'")
            facts.append(fact)
            numbers.append(line.number)
            continue
        query = relations.read_query(line.text)
        if query is None:
            raise InputError(f"{name}:{line.at}: cannot read {line.text[:80]!r} as 'What is north of the B?'")
        found = relations.solve(facts, query)
        rooms = {room for room, _ in found}
        said = rooms.pop() if len(rooms) == 1 else UNKNOWN
        sets = tuple((numbers[i],) for room, i in found if room == said)
        proof = f"[{sets[0][0]}] {facts[found[0][1]].text()}" if sets else "no one sentence says it"
        asked = Asked(Question("where-P", text=line.text), len(facts), line.number, line.answer, line.support, line.at)
        solved.append(_judge(asked, Verdict(said), sets, proof))
    return solved
