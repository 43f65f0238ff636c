"""Answers all questions of a file in bAbI format, and compares the answers with those in the file.

Every answer is proven from the text before the question. If the file's answer differs, the report
shows our proof. If the text leaves the question open, the report states what remains possible, is
missing or is contradictory. All tasks use the same judge and report format.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, cast, get_args

from taskloom.core.errors import InputError, nearest
from taskloom.core.scoring import number as as_number
from taskloom.suites.babi.numbered import TASKS, task04_relations, task_of
from taskloom.suites.babi.numbered.task import UNKNOWN, NumberedTask, Proof, Statement
from taskloom.suites.babi.reasoner.answers import Verdict, answer, in_words, supports
from taskloom.suites.babi.reasoner.knowledge import Contradiction, Knowledge, Reading
from taskloom.suites.babi.story import text_format
from taskloom.suites.babi.story.events import PlacedQuestion, Question, Story
from taskloom.suites.babi.story.grammar import understand
from taskloom.suites.babi.story.text_format import QuestionLine, StoryText

Entails = Callable[[frozenset[int]], bool]
"""Predicate: True if the given sentences alone entail the claimed answer."""

VERDICTS = {
    "agrees": "the text entails the claimed answer",
    "wrong": "the text entails another answer",
    "open": "the text leaves the answer open",
    "unclaimed": "the file gives no answer",
}
SUPPORT_VERDICTS = {
    "official": "the shortest, then earliest minimal support",
    "minimal": "another minimal support; none of its sentences can be omitted",
    "convention": (
        "the sentences used by the published convention, because the text leaves the answer open"
    ),
    "larger": "sufficient, but some sentence can be omitted",
    "insufficient": "the cited sentences do not entail the answer",
    "unclaimed": "nothing to compare",
}


@dataclass(frozen=True, slots=True)
class SolvedQuestion:
    """A question in a file, with our answer and a verdict on the file's answer.

    Attributes:
        line: Line number in the file.
        question: The question.
        answer: Answer entailed by the text, or `unknown`.
        supports: All minimal supporting sets as line numbers within the story, the official one
            first.
        proof: The proof in words. For `unknown`, what is missing or what remains possible.
        claimed: The file's answer, or None if there is none.
        cited: Supporting lines given in the file.
        verdict: One of `VERDICTS`.
        support_verdict: One of `SUPPORT_VERDICTS`.
        others: Other right answers, if a question has several.
        by_convention: True if the text leaves the answer open and the published convention gives
            the claimed answer.
    """

    line: int
    question: str
    answer: str
    supports: tuple[tuple[int, ...], ...]
    proof: str
    claimed: str | None
    cited: tuple[int, ...]
    verdict: str
    support_verdict: str
    others: tuple[str, ...] = ()
    by_convention: bool = False

    @property
    def support(self) -> tuple[int, ...]:
        """Official support."""
        return self.supports[0] if self.supports else ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "line": self.line,
            "question": self.question,
            "answer": self.answer,
            "others": list(self.others),
            "support": list(self.support),
            "supports": [list(s) for s in self.supports],
            "proof": self.proof,
            "claimed": self.claimed,
            "cited": list(self.cited),
            "verdict": self.verdict,
            "support_verdict": self.support_verdict,
            "by_convention": self.by_convention,
        }

    def text(self) -> str:
        """Format our answer, compared with the file's answer if there is one."""
        if self.verdict == "unclaimed":
            return f"line {self.line}: {self.question} {self.answer}: {self.proof}"
        ours = (
            "the text leaves it open"
            if self.verdict == "open"
            else f"the text entails '{self.answer}'"
        )
        also = "; the published convention gives the claimed answer" if self.by_convention else ""
        return (
            f"line {self.line}: {self.question} claimed '{self.claimed}'; {ours}:"
            f" {self.proof}{also}"
        )


@dataclass(frozen=True, slots=True)
class StoryFileReport:
    """Answers to the questions in a file, with verdicts on the file's answers.

    Attributes:
        path: The file, or another name for the source.
        stories: Number of stories.
        solved: Its questions in order.
        number: The task, if its wording identifies it (14 to 20). None for tasks that share their
            wording.
        reading: How sentences are read. None for tasks 14 to 20, which have a single reading.
    """

    path: str
    stories: int
    solved: tuple[SolvedQuestion, ...]
    number: int | None = None
    reading: str | None = None

    @property
    def answers(self) -> Counter[str]:
        """Numbers of claimed answers that agree, are wrong, or are open."""
        return Counter(s.verdict for s in self.solved)

    @property
    def supports(self) -> Counter[str]:
        """Numbers of cited supports by comparison with the minimal ones."""
        return Counter(s.support_verdict for s in self.solved)

    @property
    def differences(self) -> tuple[SolvedQuestion, ...]:
        """Questions whose claimed answer is not entailed by the text."""
        return tuple(s for s in self.solved if s.verdict in ("wrong", "open"))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON, with the same keys for every task."""
        return {
            "path": self.path,
            "task": self.number,
            "reading": self.reading,
            "stories": self.stories,
            "questions": len(self.solved),
            "answers": dict(sorted(self.answers.items())),
            "supports": dict(sorted(self.supports.items())),
            "solved": [s.to_dict() for s in self.solved],
        }

    def text(self) -> str:
        """Format the counts, each difference with its proof, and our answers where the file has
        none.
        """
        task = "" if self.number is None else f"task {self.number}, "
        reading = "" if self.reading is None else f", {self.reading} reading"
        answers, supports = self.answers, self.supports
        stories = f"{self.stories} {'story' if self.stories == 1 else 'stories'}"
        questions = f"{len(self.solved)} {'question' if len(self.solved) == 1 else 'questions'}"
        out = [f"{self.path}: {task}{stories}, {questions}{reading}"]
        out += [
            f"  answers: {answers[k]:5} {k}: {words}" for k, words in VERDICTS.items() if answers[k]
        ]
        out += [
            f"  support: {supports[k]:5} {k}: {words}"
            for k, words in SUPPORT_VERDICTS.items()
            if supports[k] and k != "unclaimed"
        ]
        out += [f"  {s.text()}" for s in self.solved if s.verdict != "agrees"]
        return "\n".join(out)


def judge(
    line: QuestionLine,
    proof: Proof,
    *,
    agrees: bool,
    entails: Entails,
    convention: Proof | None = None,
) -> SolvedQuestion:
    """Compare a claim in a file with what the text entails.

    Args:
        line: The question with the claimed answer and support.
        proof: The proof from the text.
        agrees: True if the claimed answer is equivalent to ours.
        entails: Returns True if the given sentences alone entail the claimed answer.
        convention: The answer by the published convention, if the text leaves it open.
    """
    reference, by_convention = proof, False
    if line.answer is None:
        verdict = "unclaimed"
    elif agrees:
        verdict = "agrees"
    elif proof.answer == UNKNOWN:
        verdict = "open"
        if convention is not None:
            reference, by_convention = convention, line.answer == convention.answer
    else:
        verdict = "wrong"
    support = "unclaimed"
    if line.support and (verdict == "agrees" or by_convention):
        support = _judge_support(frozenset(line.support), reference, entails)
        if support == "official" and by_convention:
            support = "convention"
    return SolvedQuestion(
        line.line,
        line.text,
        proof.answer,
        proof.supports,
        proof.why,
        line.answer,
        line.support,
        verdict,
        support,
        others=proof.others,
        by_convention=by_convention,
    )


def _judge_support(cited: frozenset[int], reference: Proof, entails: Entails) -> str:
    if reference.supports and cited == frozenset(reference.supports[0]):
        return "official"
    if not entails(cited):
        return "insufficient"
    parts = map(frozenset, combinations(sorted(cited), len(cited) - 1))
    return "larger" if any(map(entails, parts)) else "minimal"


def refuse_cut(report: StoryFileReport, stories: list[StoryText]) -> StoryFileReport:
    """Return the report unless the file may have been cut off. A last line without a line end is
    accepted only if its claim is correct.

    Raises:
        InputError: If the file may have been cut off. The error names the line and the remedy.
    """
    line = stories[-1].lines[-1]
    if not isinstance(line, QuestionLine) or not line.unended or line.answer is None:
        return report
    last = report.solved[-1]
    fails = last.verdict in ("wrong", "open") and not last.by_convention
    if fails or last.support_verdict == "insufficient":
        cited = "".join(f" {n}" for n in last.cited)
        raise InputError(
            f"{report.path}:{last.line}: the file ends without a line end in "
            f"'{last.claimed}{cited}', which does not answer {last.question!r}, so it may be cut "
            "off here; add a line end if the claim is complete"
        )
    return report


READINGS: tuple[str, ...] = get_args(Reading)


def solve_file(
    path: str | Path, reading: str = "natural", number: int | None = None
) -> StoryFileReport:
    """Answer every question of a file in bAbI format, with supports, and compare with the file's
    own answers.

    Args:
        path: File with the wording of any task of bAbI 1.0 or of Dyna-bAbI. `-` reads standard
            input.
        reading: `natural` or `strict`; see `taskloom.suites.babi.reasoner.knowledge`.
        number: One of tasks 14 to 20, whose wording the file must have. None: detect the task from
            the first story.

    Raises:
        InputError: If a story cannot be parsed, contradicts itself, or asks about an unknown
            person. The error names file and line.
    """
    if reading not in READINGS:
        raise InputError(f"unknown reading '{reading}'; {nearest(reading, READINGS)}")
    if str(path) == "-":
        return solve_text(_standard_input(), "standard input", cast(Reading, reading), number)
    return _solve(text_format.read_path(Path(path)), str(path), cast(Reading, reading), number)


def _standard_input() -> str:
    if not hasattr(sys.stdin, "buffer"):  # replaced by a text stream
        return sys.stdin.read()
    return text_format.decode(sys.stdin.buffer.read(), "standard input")


def solve_text(
    text: str, name: str = "story", reading: Reading = "natural", number: int | None = None
) -> StoryFileReport:
    """Answer every question of a text in bAbI format, with supports. Messages use `name` for the
    text.
    """
    return _solve(
        text_format.read_story_text(text.removeprefix("\ufeff"), name), name, reading, number
    )


def _solve(
    stories: list[StoryText], name: str, reading: Reading, number: int | None
) -> StoryFileReport:
    if number is not None and number not in TASKS:
        raise InputError(f"task {number} cannot be solved; {nearest(str(number), map(str, TASKS))}")
    task = TASKS[number] if number is not None else task_of(stories[0])
    if task is not None:
        solved = tuple(s for x in stories for s in _solve_numbered(task, x, name))
        report = StoryFileReport(name, len(stories), solved, number=task.number)
    elif task04_relations.read_fact(stories[0].lines[0].text):
        solved = tuple(s for x in stories for s in _solve_rooms(x, name))
        report = StoryFileReport(name, len(stories), solved, reading=reading)
    else:
        solved = tuple(s for x in stories for s in solve_story(understand(x, name), name, reading))
        report = StoryFileReport(name, len(stories), solved, reading=reading)
    return refuse_cut(report, stories)


# Stories


def solve_story(
    story: Story, name: str = "story", reading: Reading = "natural"
) -> list[SolvedQuestion]:
    """Answer every question of one story."""
    knowledge = Knowledge(places_of(story), reading)
    solved = []
    for placed in story.questions:
        _tell(knowledge, story, placed.after, name)
        _must_know(knowledge, placed, name)
        verdict = answer(knowledge, placed.question)
        sets = tuple(
            tuple(story.lines[i] for i in s) for s in supports(knowledge, placed.question, verdict)
        )
        official = [story.lines.index(n) for n in sets[0]] if sets else []
        why = in_words(knowledge, placed.question, verdict, official, story.lines)
        line = QuestionLine(
            placed.line, placed.question.text, placed.answer or None, placed.support, placed.at
        )
        solved.append(
            judge(
                line,
                Proof(verdict.answer, sets, why=why),
                agrees=same_answer(placed.question, verdict, placed.answer),
                entails=partial(_contains, sets),
            )
        )
    _tell(
        knowledge, story, len(story.events), name
    )  # sentences after the last question may also be contradictory
    return solved


def _contains(sets: tuple[tuple[int, ...], ...], numbers: frozenset[int]) -> bool:
    """True if the given sentences contain a minimal support."""
    return any(numbers.issuperset(s) for s in sets)


def _tell(knowledge: Knowledge, story: Story, upto: int, name: str) -> None:
    try:
        knowledge.tell_all(story.events[len(knowledge.events) : upto])
    except Contradiction as error:
        at = story.at[error.sentence] if story.at else error.sentence + 1
        raise InputError(f"{name}:{at}: the story contradicts itself: {error.reason}") from None


def places_of(story: Story) -> list[str]:
    """Return all places named in a story or its questions, in order of appearance."""
    places = [place for event in story.events for place in event.places]
    places += [placed.question.place for placed in story.questions if placed.question.place]
    return list(dict.fromkeys(places))


def _must_know(knowledge: Knowledge, placed: PlacedQuestion, name: str) -> None:
    question = placed.question
    known = {p for e in knowledge.events for p in (*e.who, e.to)}
    for who in (question.person, question.other):
        if who and who not in known:
            raise InputError(
                f"{name}:{placed.at}: the question is about {who}, who is not in the story"
            )
    if question.thing and question.thing not in knowledge.things:
        raise InputError(
            f"{name}:{placed.at}: the question is about the {question.thing}, which is not in the "
            "story"
        )


def same_answer(question: Question, verdict: Verdict, claimed: str) -> bool:
    """True if two answers are equivalent. Lists may be in any order, and numbers in words or
    digits.
    """
    text = claimed.strip().casefold()
    if question.kind == "list" or question.form == "given":
        items = {x.strip() for x in text.split(",")} - {"nothing", ""}
        return items == {x.casefold() for x in verdict.items}
    if question.kind == "counting":
        return as_number(text) == as_number(verdict.answer)
    return text == verdict.answer.casefold()


# Task 4


def _solve_rooms(story: StoryText, name: str) -> Iterator[SolvedQuestion]:
    facts: list[task04_relations.RoomFact] = []
    numbers: list[int] = []
    for line in story.lines:
        if isinstance(line, text_format.Sentence):
            fact = task04_relations.read_fact(line.text)
            if fact is None:
                raise InputError(
                    f"{name}:{line.line}: cannot read {line.text[:80]!r} as 'The A is north of"
                    " the B.'"
                )
            facts.append(fact)
            numbers.append(line.number)
            continue
        query = task04_relations.read_query(line.text)
        if query is None:
            raise InputError(
                f"{name}:{line.line}: cannot read {line.text[:80]!r} as 'What is north of the B?'"
            )
        if query.other not in {room for fact in facts for room in (fact.room, fact.other)}:
            raise InputError(
                f"{name}:{line.line}: the question is about the {query.other}, which is not in "
                "the story"
            )
        placed = task04_relations.solve(facts, query)
        rooms = {room for room, _ in placed}
        room = rooms.pop() if len(rooms) == 1 else UNKNOWN
        sets = tuple((numbers[i],) for name_, i in placed if name_ == room)
        why = f"[{sets[0][0]}] {facts[placed[0][1]].text()}" if sets else "no one sentence says it"
        yield judge(
            line,
            Proof(room, sets, why=why),
            agrees=(line.answer or "").strip().casefold() == room.casefold(),
            entails=partial(_contains, sets),
        )


# Tasks 14 to 20


def _solve_numbered(
    task: NumberedTask[Any, Any], story: StoryText, name: str
) -> Iterator[SolvedQuestion]:
    parsed = task.understand(story, name)
    for line, query, proof in zip(story.questions, parsed.queries, task.solve(parsed), strict=True):
        before = parsed.before(line)
        yield judge(
            line,
            proof,
            agrees=line.answer in (proof.answer, *proof.others),
            entails=partial(entails, task, before, query, line.answer),
            convention=(
                task.convention(before, query)
                if task.convention and proof.answer == UNKNOWN
                else None
            ),
        )


def entails(
    task: NumberedTask[Any, Any],
    statements: Sequence[Statement[Any]],
    query: Any,
    claimed: str | None,
    numbers: frozenset[int],
) -> bool:
    """True if the sentences with these numbers alone entail the claimed answer."""
    proof = task.derive([s for s in statements if s.number in numbers], query)
    return claimed in (proof.answer, *proof.others)
