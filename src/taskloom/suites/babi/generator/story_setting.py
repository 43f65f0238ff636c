"""Code shared by both story generators: settings of a recipe, weighted draws of events, and the
choice of questions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from typing import TypeVar, cast

from taskloom.core.seeding import Random
from taskloom.suites.babi.fields import StoryGroup
from taskloom.suites.babi.generator.examples import AnsweredQuestion
from taskloom.suites.babi.reasoner.answers import (
    MAYBE,
    answer,
    arrival,
    cited_support,
    latest_gift,
    supports,
    whereabouts,
)
from taskloom.suites.babi.reasoner.knowledge import Knowledge, Reading
from taskloom.suites.babi.story.events import (
    GIVE_FORMS,
    KINDS,
    Question,
    QuestionKind,
    give_question,
)
from taskloom.suites.babi.story.sentences import SentenceWriter
from taskloom.suites.babi.story.vocabulary import StoryLexicon, Vocabulary

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """Words, reading and task name that the groups of a recipe share."""

    vocabulary: Vocabulary
    lexicon: StoryLexicon
    reading: Reading
    task: str
    writer: SentenceWriter = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "writer", SentenceWriter(self.vocabulary, self.lexicon))


class WeightTable:
    """Names to draw from, by weight. `StoryGroup` ensures that every table in use has a name."""

    __slots__ = ("bounds", "names", "total")

    def __init__(self, weights: Mapping[str, float]) -> None:
        positive = {name: weight for name, weight in weights.items() if weight > 0}
        bounds = list(accumulate(positive.values()))
        self.names = tuple(positive)
        self.total = bounds[-1] if bounds else 0.0
        # Rounding may bring a draw up to the total. Then the last name is drawn.
        self.bounds = [*bounds[:-1], inf]

    def draw(self, rng: Random) -> str:
        """Draw one of the names."""
        return self.names[bisect_right(self.bounds, rng.random() * self.total)]


class ActionWeights:
    """Weights of events and constructs. Each construct also has weights for its topics, to which it
    may be applied.
    """

    __slots__ = ("_topics", "conj", "coref", "kinds", "plain", "weights")

    def __init__(
        self, weights: Mapping[str, float], topics: Mapping[str, Mapping[str, float]]
    ) -> None:
        self.weights = WeightTable(weights)
        self.coref = WeightTable(topics["COREF"])
        self.conj = WeightTable(topics["CONJ"])
        self._topics = {name: WeightTable(topics[name]) for name in ("NEGATE", "INDEF")}
        # Kinds that need no topic, which make up most of a story. The simulator performs them
        # without checking for constructs.
        topics_of = {name: table.names for name, table in self._topics.items()}
        self.kinds = {
            name: kind
            for name, kind in KINDS.items()
            if topics_of.get(name, ("MOVE",)) == ("MOVE",)
        }
        self.plain = [self.kinds.get(name) for name in self.weights.names]

    def draw_topic(self, name: str, rng: Random) -> str:
        """Draw the topic of a NEGATE or INDEF sentence: either MOVE (where a person is) or an event
        with objects. Other names have the topic MOVE.
        """
        table = self._topics.get(name)
        if table is None:
            return "MOVE"
        if len(table.names) == 1:
            # No random number is drawn here, because that would change all golden digests.
            return table.names[0]
        return table.draw(rng)


def action_weights(group: StoryGroup) -> ActionWeights:
    """Weights of events and constructs in the stories of a group."""
    return ActionWeights({**group.events, **group.wording}, group.topics())


def draw_kind(group: StoryGroup, rng: Random) -> QuestionKind:
    """Draw a question type, by weight."""
    kinds = cast(dict[QuestionKind, float], group.questions)
    if len(kinds) == 1:
        return next(iter(kinds))
    return rng.choices(list(kinds), weights=list(kinds.values()))[0]


def draw_questions(
    knowledge: Knowledge,
    kind: QuestionKind,
    group: StoryGroup,
    rng: Random,
    answers: Mapping[str, float] | None,
) -> Iterator[Question]:
    """Return the questions of a kind that the group may ask now.

    With the group's probability `unknown`, these are questions that the story does not settle.
    """
    if group.unknown and kind in ("where-P", "where-O") and rng.random() < group.unknown:
        return unsettled(knowledge, kind, rng)
    return askable(knowledge, kind, rng, answers)


def answer_question(knowledge: Knowledge, question: Question, cited: bool) -> AnsweredQuestion:
    """Answer a question, with all minimal supports and, if `cited`, the support that bAbI cites."""
    verdict = answer(knowledge, question)
    citation = cited_support(knowledge, question) if cited else None
    # An unknown answer has no support, which is represented by an empty one.
    minimal = supports(knowledge, question, verdict) or [()]
    return AnsweredQuestion(question, verdict, minimal, citation)


def answer_all(
    knowledge: Knowledge, kinds: tuple[QuestionKind, ...], cited: bool = False
) -> list[AnsweredQuestion]:
    """Answer all answerable questions of the given types, ordered by type and name, with their
    supports.
    """
    return [answer_question(knowledge, question, cited) for question in ask_all(knowledge, kinds)]


def ask_all(knowledge: Knowledge, kinds: tuple[QuestionKind, ...]) -> list[Question]:
    """Return all answerable questions of the given types, sorted by type and name."""
    order = Random(0)  # `askable` shuffles; sorting undoes it
    questions: list[Question] = []
    for kind in kinds:
        questions += askable(knowledge, kind, order, answers={})
    questions.sort(key=lambda q: (q.kind, q.form, q.person, q.thing, q.other, q.place))
    return questions


# Questions that can be asked in a state of knowledge. Their answer is entailed, or "maybe" if that
# is requested.


def askable(
    knowledge: Knowledge,
    kind: QuestionKind,
    rng: Random,
    answers: Mapping[str, float] | None = None,
) -> Iterator[Question]:
    """Yield the questions of a kind that can be asked now, in random order.

    Args:
        knowledge: State of knowledge after the story so far.
        kind: The question type.
        rng: Decides the order.
        answers: Weights of the requested answers of yes-no questions. By default, yes and no are
            equally likely. An empty mapping gives every question whose answer is yes or no.
    """
    if kind == "where-P":
        return _persons(knowledge, rng, settled=True)
    if kind == "where-O":
        return _things(knowledge, rng, settled=True)
    if kind == "where-was-O":
        return _arrivals(knowledge, rng)
    if kind == "yes-no":
        return _yes_no(knowledge, rng, {"yes": 1.0, "no": 1.0} if answers is None else answers)
    if kind == "give-qs":
        return _gifts(knowledge, rng)
    return _hands(knowledge, kind, rng)


def unsettled(knowledge: Knowledge, kind: QuestionKind, rng: Random) -> Iterator[Question]:
    """Yield where-P or where-O questions, in random order, about persons or objects of the story
    whose place it does not settle.
    """
    if kind == "where-P":
        return _persons(knowledge, rng, settled=False)
    if kind == "where-O":
        return _things(knowledge, rng, settled=False)
    return iter(())


def _persons(knowledge: Knowledge, rng: Random, settled: bool) -> Iterator[Question]:
    for person in _shuffled(rng, list(knowledge.stay)):
        if _single(knowledge, knowledge.stay[person]) == settled:
            yield Question("where-P", person)


def _things(knowledge: Knowledge, rng: Random, settled: bool) -> Iterator[Question]:
    for thing in _shuffled(rng, list(knowledge.things)):
        variable = whereabouts(knowledge, thing)
        if variable is not None and _single(knowledge, variable) == settled:
            yield Question("where-O", thing=thing)


def _arrivals(knowledge: Knowledge, rng: Random) -> Iterator[Question]:
    pairs = [(thing, place) for thing in knowledge.things for place in _visited(knowledge, thing)]
    for thing, place in _shuffled(rng, pairs):
        if arrival(knowledge, thing, place):
            yield Question("where-was-O", thing=thing, place=place)


def _hands(knowledge: Knowledge, kind: QuestionKind, rng: Random) -> Iterator[Question]:
    """Yield the questions about which objects a person holds, for everyone who ever handled an
    object.
    """
    # A dict serves as an ordered set. The order of a Python `set` of strings, and so the shuffle,
    # would differ between processes.
    handled: dict[str, None] = {}
    for thing in knowledge.things.values():
        for handling in thing.handlings:
            handled.update(dict.fromkeys(handling.event.who))
            if handling.event.to:
                handled[handling.event.to] = None
    for person in _shuffled(rng, list(handled)):
        yield Question(kind, person)


def _single(knowledge: Knowledge, variable: int) -> bool:
    """True if only one place remains possible, that is if the bit mask has a single one."""
    domain = knowledge.domain(variable)
    return domain & (domain - 1) == 0


def _visited(knowledge: Knowledge, thing: str) -> list[str]:
    """Places into which an object was certainly carried, in order of time."""
    seen: dict[str, None] = {}
    for carry in knowledge.things[thing].carries:
        if _single(knowledge, carry.after):
            seen.update(dict.fromkeys(knowledge.names(knowledge.domain(carry.after))))
    return list(seen)


def _yes_no(knowledge: Knowledge, rng: Random, answers: Mapping[str, float]) -> Iterator[Question]:
    wanted = rng.choices(list(answers), weights=list(answers.values()))[0] if answers else ""
    # Persons who may be anywhere are left out, because the answer to all questions about them is
    # "maybe".
    persons = []
    for person, variable in knowledge.stay.items():
        if knowledge.domain(variable) != knowledge.everywhere:
            persons.append(person)
    for person in _shuffled(rng, persons):
        for place in _shuffled(rng, list(knowledge.places)):
            question = Question("yes-no", person, place=place)
            entailed = answer(knowledge, question).answer
            if not wanted and entailed != MAYBE:
                yield question
            elif entailed == wanted:
                yield question
                break  # at most one place per person


def _gifts(knowledge: Knowledge, rng: Random) -> Iterator[Question]:
    # Two gifts may lead to the same question ("Who gave the milk?"), which is asked once.
    questions: dict[Question, None] = {}
    for gift in knowledge.gifts:
        for form in GIVE_FORMS:
            question = give_question(form, gift.event.who[0], gift.thing, gift.event.to)
            questions[question] = None
    for question in _shuffled(rng, list(questions)):
        if latest_gift(knowledge, question):
            yield question


def _shuffled(rng: Random, items: list[T]) -> list[T]:
    if len(items) > 1:
        rng.shuffle(items)
    return items
