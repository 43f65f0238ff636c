"""Answering a whole file in bAbI format, and comparing with what the file claims.

Every answer is proven from the text before the question. Where the file claims something else, the report gives our
proof; where the text leaves the question open, what remains possible.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import cast, get_args

from taskloom.errors import InputError, nearest
from taskloom.scoring import number
from taskloom.suites.babi import numbered
from taskloom.suites.babi.numbered import task04_relations
from taskloom.suites.babi.reasoner.answers import UNKNOWN, Verdict, answer, supports
from taskloom.suites.babi.reasoner.knowledge import Contradiction, Knowledge, Reading
from taskloom.suites.babi.reasoner.proofs import in_words
from taskloom.suites.babi.reports import SolvedQuestion, StoryFileReport, refuse_cut
from taskloom.suites.babi.story import text_format
from taskloom.suites.babi.story.events import PlacedQuestion, Question, Story
from taskloom.suites.babi.story.grammar import understand

READINGS: tuple[str, ...] = get_args(Reading)


def solve_file(path: str | Path, reading: str = "natural") -> StoryFileReport:
    """Answer and support every question of a file in bAbI format, and compare with the file's own answers.

    Args:
        path: Text in the words of any task of bAbI 1.0 or of Dyna-bAbI; `-` reads standard input.
        reading: `natural` or `strict`, how much a sentence says; see `taskloom.suites.babi.reasoner.knowledge`.

    Raises:
        InputError: With file, line and reason: unreadable, contradictory, or about somebody unknown.
    """
    if reading not in READINGS:
        raise InputError(f"there is no reading '{reading}'; {nearest(reading, READINGS)}")
    if str(path) == "-":
        return solve_text(_standard_input(), "standard input", cast(Reading, reading))
    return _solve(text_format.read_path(Path(path)), str(path), cast(Reading, reading))


def _standard_input() -> str:
    if not hasattr(sys.stdin, "buffer"):  # put in its place by somebody who has text
        return sys.stdin.read()
    return text_format.decode(sys.stdin.buffer.read(), "standard input")


def solve_text(text: str, name: str = "story", reading: Reading = "natural") -> StoryFileReport:
    """The same for text that is at hand; `name` stands for it in messages."""
    return _solve(text_format.read_story_text(text.removeprefix("\ufeff"), name), name, reading)


def _solve(stories: list[text_format.StoryText], name: str, reading: Reading) -> StoryFileReport:
    if numbered.written_in(stories[0], numbered.TASKS):
        return numbered.solve_stories(stories, name, numbered.TASKS, None)
    if task04_relations.read_fact(stories[0].lines[0].text):
        solved = tuple(s for x in stories for s in _solve_rooms(x, name))
    else:
        solved = tuple(s for x in stories for s in solve_story(understand(x, name), name, reading))
    return refuse_cut(StoryFileReport(name, len(stories), solved, reading=reading), stories)


def solve_story(story: Story, name: str = "story", reading: Reading = "natural") -> list[SolvedQuestion]:
    """Every question of one story."""
    knowledge = Knowledge(places_of(story), reading)
    solved = []
    for asked in story.asked:
        _tell(knowledge, story, asked.after, name)
        _must_know(knowledge, asked, name)
        verdict = answer(knowledge, asked.question)
        sets = tuple(tuple(story.lines[i] for i in s) for s in supports(knowledge, asked.question, verdict))
        official = [story.lines.index(n) for n in sets[0]] if sets else []
        proof = in_words(knowledge, asked.question, verdict, official, story.lines)
        solved.append(_judge(asked, verdict, sets, proof))
    _tell(knowledge, story, len(story.events), name)  # what comes after the last question may still be impossible
    return solved


def _tell(knowledge: Knowledge, story: Story, upto: int, name: str) -> None:
    try:
        knowledge.tell_all(story.events[len(knowledge.events) : upto])
    except Contradiction as error:
        at = story.at[error.sentence] if story.at else error.sentence + 1
        raise InputError(f"{name}:{at}: the story contradicts itself: {error.reason}") from None


def places_of(story: Story) -> list[str]:
    """Every place a story or its questions name, in order of appearance."""
    found = [place for event in story.events for place in event.places]
    found += [asked.question.place for asked in story.asked if asked.question.place]
    return list(dict.fromkeys(found))


def _must_know(knowledge: Knowledge, asked: PlacedQuestion, name: str) -> None:
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
    if question.kind == "list" or question.form == "given":
        items = {x.strip() for x in said.split(",")} - {"nothing", ""}
        return items == {x.casefold() for x in verdict.items}
    if question.kind == "counting":
        return number(said) == number(verdict.answer)
    return said == verdict.answer.casefold()


def _judge(asked: PlacedQuestion, verdict: Verdict, sets: tuple[tuple[int, ...], ...], proof: str) -> SolvedQuestion:
    if not asked.answer:
        said = "unclaimed"
    elif not verdict.known:
        said = "open"
    else:
        said = "agrees" if same_answer(asked.question, verdict, asked.answer) else "wrong"
    support = judge_support(asked.support, sets) if said == "agrees" and asked.support else "unclaimed"
    text = asked.question.text
    return SolvedQuestion(
        asked.at, text, verdict.answer, sets, proof, asked.answer or None, asked.support, said, support
    )


def judge_support(cited: Iterable[int], sets: tuple[tuple[int, ...], ...]) -> str:
    """How a cited support compares with all minimal ones; a superset of a minimal one is sufficient."""
    mine = frozenset(cited)
    known = [frozenset(s) for s in sets]
    if mine == known[0]:
        return "official"
    if mine in known:
        return "minimal"
    return "larger" if any(s <= mine for s in known) else "insufficient"


def _solve_rooms(story: text_format.StoryText, name: str) -> list[SolvedQuestion]:
    facts: list[task04_relations.RoomFact] = []
    numbers: list[int] = []
    solved = []
    for line in story.lines:
        if isinstance(line, text_format.Sentence):
            fact = task04_relations.read_fact(line.text)
            if fact is None:
                raise InputError(f"{name}:{line.line}: cannot read {line.text[:80]!r} as 'The A is north of the B.'")
            facts.append(fact)
            numbers.append(line.number)
            continue
        query = task04_relations.read_query(line.text)
        if query is None:
            raise InputError(f"{name}:{line.line}: cannot read {line.text[:80]!r} as 'What is north of the B?'")
        if query.other not in {room for fact in facts for room in (fact.room, fact.other)}:
            raise InputError(
                f"{name}:{line.line}: the question is about the {query.other}, of which the story has told nothing"
            )
        found = task04_relations.solve(facts, query)
        rooms = {room for room, _ in found}
        said = rooms.pop() if len(rooms) == 1 else UNKNOWN
        sets = tuple((numbers[i],) for room, i in found if room == said)
        proof = f"[{sets[0][0]}] {facts[found[0][1]].text()}" if sets else "no one sentence says it"
        asked = PlacedQuestion(
            Question("where-P", text=line.text), len(facts), line.number, line.answer or "", line.support, line.line
        )
        solved.append(_judge(asked, Verdict(said), sets, proof))
    return solved
