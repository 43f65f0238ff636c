"""Stories with several questions, grown sentence by sentence as in bAbI 1.0.

Which split a story belongs to is decided by keyed hashes of how it opens: of the words before its first question but for
the names, in any order, and of the words that follow that question together with the places before it. Every question's
text begins with the opening, so two splits share no text, and no two short texts that differ by a name or an exchanged
verb; what belongs elsewhere is drawn again. So is the sentence with which a story gets long enough to have a structure of
another split; later ones are free, so that no length is favoured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from taskloom.errors import RecipeError
from taskloom.example import Example
from taskloom.recipe import Span
from taskloom.seeding import Random
from taskloom.suites.babi.draws import pick_number
from taskloom.suites.babi.fields import StoryGroup
from taskloom.suites.babi.generator.examples import AnsweredQuestion, make_example
from taskloom.suites.babi.generator.simulator import ActionWeights, Simulator
from taskloom.suites.babi.reasoner.answers import answer, cited_support, supports
from taskloom.suites.babi.reasoner.knowledge import Knowledge, Reading
from taskloom.suites.babi.reasoner.questions import askable, unsettled
from taskloom.suites.babi.splits import BEGINNING, SplitRule
from taskloom.suites.babi.story.events import Event, Question, QuestionKind
from taskloom.suites.babi.story.sentences import ask, sentence
from taskloom.suites.babi.story.vocabulary import StoryLexicon, Vocabulary

TRIES = 2_000
"""Pieces drawn again before a story is given up."""

PATIENCE = 60
"""Gaps without a question that can be asked, before a piece is drawn again."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What the groups of a recipe share."""

    vocabulary: Vocabulary
    lexicon: StoryLexicon
    reading: Reading
    task: str


def action_weights(group: StoryGroup) -> ActionWeights:
    """Return what may happen in the stories of a group."""
    coref = group.coref if group.coref is not None else {e: w or 1.0 for e, w in group.events.items()}
    return ActionWeights({**group.events, **group.wording}, coref, group.conj, group.negate, group.indef)


def grow(
    group: StoryGroup,
    setting: Setting,
    rng: Random,
    rule: SplitRule,
    also: tuple[QuestionKind, ...] = (),
) -> list[Example]:
    """Draw one story; return an example for each of its questions.

    Args:
        group: What happens and what is asked.
        setting: What the groups of a recipe share.
        rng: The story's own stream.
        rule: What makes it a story of the split.
        also: At each question, ask besides everything of these types that can be answered (the paper's inject).

    Raises:
        RecipeError: No question of the wanted kind and support comes up.
    """
    assert group.story is not None
    builder = _StoryBuilder(group, setting, rng, rule)
    gap, often = group.story.gap, group.story.ask
    examples: list[Example] = []
    extra: list[Example] = []
    for _ in range(TRIES):
        mark = builder.mark()
        opens = len(examples) < 2
        if opens and not (builder.append(gap) and rule.opening(builder.opening(mark[0]))):
            builder.back(mark)
            continue
        example = builder.piece(gap, often, opened=opens)
        if example is None:
            builder.back(mark)
            continue
        examples.append(example)
        if also:
            extra += [example, *builder.others(also, example.question)]
        if len(examples) == group.story.questions:
            return extra if also else examples
    raise RecipeError(
        f"group '{group.name}': after {TRIES} tries no story had {group.story.questions} questions of "
        f"{', '.join(group.questions)} with support {group.support or 'any size'} "
        "in a structure of this split; allow more events, names or another support"
    )


class _StoryBuilder:
    """A story in the making, which can go back to an earlier point."""

    def __init__(self, group: StoryGroup, setting: Setting, rng: Random, rule: SplitRule) -> None:
        self.group = group
        self.setting = setting
        self.rule = rule
        self.rng = rng
        self.weights = action_weights(group)
        self.simulator = Simulator(setting.vocabulary, rng)
        assert group.story is not None
        self.simulator.idle |= _left_out(setting.vocabulary.persons, group.story.hands, rng)
        self.simulator.kept |= _left_out(setting.vocabulary.objects, group.story.things, rng)
        self.events: list[Event] = []
        self.passage = ""
        self.starts: list[int] = []  # where in the passage each sentence begins
        self.knowledge = Knowledge(setting.vocabulary.places, setting.reading)

    def mark(self) -> tuple[int, str, dict[str, str], dict[str, str], dict[str, str]]:
        return (
            len(self.events),
            self.passage,
            dict(self.simulator.where),
            dict(self.simulator.holder),
            dict(self.simulator.lies),
        )

    def back(self, mark: tuple[int, str, dict[str, str], dict[str, str], dict[str, str]]) -> None:
        count, self.passage, self.simulator.where, self.simulator.holder, self.simulator.lies = mark
        del self.events[count:]
        del self.starts[count:]
        self.knowledge = Knowledge(self.setting.vocabulary.places, self.setting.reading).tell_all(self.events)

    def opening(self, start: int) -> str:
        """Return what decides on the split: the words from a sentence on but for the names, and the places before."""
        names = self.setting.vocabulary.persons
        words = sorted(w for w in self.passage[self.starts[start] :].replace(".", "").split() if w not in names)
        return " ".join([*(p for e in self.events[:start] for p in e.places), "|", *words])

    def piece(self, gap: int, often: float, opened: bool) -> Example | None:
        """Append the sentences up to the next question, and draw the question; `opened` if the first gap is there already."""
        for _ in range(PATIENCE):
            if not opened and not self.append(gap):
                return None
            opened = False
            if often < 1 and self.rng.random() >= often:
                continue
            example = self._ask()
            if example is not None:
                return example
        return None

    def append(self, count: int) -> bool:
        """Append `count` sentences; return False if the simulator gets stuck."""
        wanted = len(self.events) + count
        while len(self.events) < wanted:
            done = self._act(wanted - len(self.events))
            if not done:
                return False
            for event in done:
                self.knowledge.tell(event)
                self.events.append(event)
                text = sentence(event, self.setting.vocabulary, self.setting.lexicon, self.rng)
                self.starts.append(len(self.passage))
                self.passage = f"{self.passage} {text}" if self.passage else text
        return True

    def _act(self, room: int) -> list[Event]:
        """Draw what happens next; none if nothing can, or nothing that keeps the structure of the beginning within the split."""
        if not BEGINNING - 2 <= len(self.events) < BEGINNING:
            return self.simulator.act(self.weights, room)
        for _ in range(PATIENCE):
            before = dict(self.simulator.where), dict(self.simulator.holder), dict(self.simulator.lies)
            done = self.simulator.act(self.weights, room)
            if len(self.events) + len(done) < BEGINNING or self.rule.has([*self.events, *done]):
                return done
            self.simulator.where, self.simulator.holder, self.simulator.lies = before
        return []

    def _ask(self) -> Example | None:
        group = self.group
        kind = draw_kind(group, self.rng)
        for question in self._questions(kind):
            answered = self._answer(question)
            if group.support is None or len(answered.official) in group.support:
                return self._example(answered)
        return None

    def _questions(self, kind: QuestionKind) -> Iterator[Question]:
        """Yield what may be asked now: of yes-no questions those with the answer that is drawn, then those with others."""
        weights = dict(self.group.answers or {"yes": 1.0, "no": 1.0}) if kind == "yes-no" else {}
        if not weights:
            yield from draw_questions(self.knowledge, kind, self.group, self.rng, None)
        while weights:
            wanted = self.rng.choices(list(weights), weights=list(weights.values()))[0]
            yield from draw_questions(self.knowledge, kind, self.group, self.rng, {wanted: 1.0})
            del weights[wanted]
            weights = {name: weight for name, weight in weights.items() if weight}

    def _answer(self, question: Question) -> AnsweredQuestion:
        verdict = answer(self.knowledge, question)
        cited = cited_support(self.knowledge, question) if self.group.cited else None
        return AnsweredQuestion(question, verdict, supports(self.knowledge, question, verdict) or [()], cited)

    def _example(self, answered: AnsweredQuestion) -> Example:
        question = ask(answered.question, self.setting.lexicon)
        return make_example(
            self.events, self.passage, question, answered, group=self.group.name, task=self.setting.task
        )

    def others(self, kinds: tuple[QuestionKind, ...], question: str) -> list[Example]:
        """Return every other question of some types that can be answered now, in the order of their types and names."""
        return [e for e in map(self._example, answer_all(self.knowledge, kinds)) if e.question != question]


def _left_out(names: Sequence[str], number: Span | None, rng: Random) -> set[str]:
    """Draw the names beyond the number that a story has."""
    return set() if number is None else {*rng.sample(names, max(0, len(names) - pick_number(rng, number)))}


def draw_questions(
    knowledge: Knowledge, kind: QuestionKind, group: StoryGroup, rng: Random, answers: Mapping[str, float] | None
) -> Iterator[Question]:
    """Return the questions of a kind that the group may ask now; as often as it says, those that the story does not settle."""
    if group.unknown and kind in ("where-P", "where-O") and rng.random() < group.unknown:
        return unsettled(knowledge, kind, rng)
    return askable(knowledge, kind, rng, answers)


def answer_all(knowledge: Knowledge, kinds: tuple[QuestionKind, ...], cited: bool = False) -> list[AnsweredQuestion]:
    """Answer every question of some types that can be answered, sorted by type and name, with their supports."""
    return [
        AnsweredQuestion(
            q, answer(knowledge, q), supports(knowledge, q), cited_support(knowledge, q) if cited else None
        )
        for q in ask_all(knowledge, kinds)
    ]


def ask_all(knowledge: Knowledge, kinds: tuple[QuestionKind, ...]) -> list[Question]:
    """List every question of some types that can be answered, sorted by type and name."""
    order = Random(0)  # askable shuffles; the sorting below makes that of no effect
    questions = [q for kind in kinds for q in askable(knowledge, kind, order, answers={})]
    questions.sort(key=lambda q: (q.kind, q.form, q.person, q.thing, q.other, q.place))
    return questions


def draw_kind(group: StoryGroup, rng: Random) -> QuestionKind:
    """Draw a question type, by weight."""
    kinds = cast(dict[QuestionKind, float], group.questions)
    if len(kinds) == 1:
        return next(iter(kinds))
    return rng.choices(list(kinds), weights=list(kinds.values()))[0]
