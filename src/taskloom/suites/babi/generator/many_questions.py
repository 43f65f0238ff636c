"""Stories with several questions, grown sentence by sentence as in bAbI 1.0.

The split of a story is decided by keyed hashes of its opening, which ignore the words. One hash
covers what happens before the first question, in any order. The other covers what happens up to the
second question, together with the places before it. The text of every question begins with the
opening, so training and tests share no text, and no two short texts that differ only in verbs or in
the names of the first sentences. A piece that belongs to another split is drawn again. So is the
sentence with which a story becomes long enough to have a structure, if that structure belongs to
another split. Later sentences are free, so that no length is favoured. Words are chosen last, so a
style changes no story.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import or_

from taskloom.core.errors import RecipeError
from taskloom.core.example import Example
from taskloom.core.seeding import Random, sample
from taskloom.recipe import Span
from taskloom.suites.babi.fields import StoryGroup
from taskloom.suites.babi.generator.examples import (
    AnsweredQuestion,
    concepts_of_sentence,
    make_example,
)
from taskloom.suites.babi.generator.simulator import Simulator
from taskloom.suites.babi.generator.story_setting import (
    ActionWeights,
    Setting,
    answer_all,
    answer_question,
    draw_kind,
    draw_questions,
)
from taskloom.suites.babi.reasoner.knowledge import Knowledge
from taskloom.suites.babi.splits import BEGINNING, SplitRule
from taskloom.suites.babi.story.events import Event, Question, QuestionKind
from taskloom.suites.babi.story.sentences import ask

TRIES = 2_000
"""Maximum pieces drawn while a request is tested, before it counts as impossible."""

ENDURANCE = 200_000
"""Maximum pieces drawn for one story once a request is known to be satisfiable. Such a request
never reaches it.
"""

RESTART = 100
"""Maximum failed pieces before a story is started again, because its opening may allow no
question.
"""

PATIENCE = 60
"""Maximum gaps without an askable question before a piece is drawn again."""


Mark = tuple[int, dict[str, str], dict[str, str], dict[str, str]]
"""A point to which a story can be rolled back: number of sentences, places of persons, holders of
objects, and places of objects left behind.
"""


def grow(
    group: StoryGroup,
    setting: Setting,
    rng: Random,
    rule: SplitRule,
    weights: ActionWeights,
    also: tuple[QuestionKind, ...] = (),
    tries: int = ENDURANCE,
) -> list[Example]:
    """Draw one story; return an example for each of its questions.

    Args:
        group: Group that defines events and questions.
        setting: Settings shared by the groups of a recipe.
        rng: The story's own stream.
        rule: Decides which stories belong to the split.
        weights: The group's `action_weights`.
        also: Question types to inject: at each question, all answerable questions of these types
            are asked too (the paper's inject splits).
        tries: Maximum pieces drawn.

    Raises:
        RecipeError: If no question of the requested kind and support is found.
    """
    assert group.story is not None
    builder = _StoryBuilder(group, setting, rng, rule, weights)
    questions = idle = 0
    for _ in range(tries):
        mark = builder.mark()
        if builder.piece(opens=questions < 2, follows=questions > 0):
            questions, idle = questions + 1, 0
            if also:
                builder.others(also)
            if questions == group.story.questions:
                return builder.examples()
            continue
        idle += 1
        if idle % RESTART:
            builder.back(mark)
        else:
            builder, questions = _StoryBuilder(group, setting, rng, rule, weights), 0
    raise RecipeError(
        f"group '{group.name}': after {tries} tries no story had {group.story.questions} questions"
        f" of {', '.join(group.questions)} with support {group.support or 'any size'} in a"
        " structure of this split; allow more events, names or another support"
    )


class _StoryBuilder:
    """A story under construction, which can be rolled back to an earlier point."""

    def __init__(
        self,
        group: StoryGroup,
        setting: Setting,
        rng: Random,
        rule: SplitRule,
        weights: ActionWeights,
    ) -> None:
        self.group = group
        self.setting = setting
        self.rule = rule
        self.rng = rng
        self.weights = weights
        self.simulator = Simulator(setting.vocabulary, rng)
        assert group.story is not None
        self.simulator.idle |= _left_out(setting.vocabulary.persons, group.story.hands, rng)
        self.simulator.kept |= _left_out(setting.vocabulary.objects, group.story.things, rng)
        self.events: list[Event] = []
        # Each question with the number of sentences before it.
        self.asked: list[tuple[int, AnsweredQuestion]] = []
        self.knowledge = Knowledge(setting.vocabulary.places, setting.reading)

    def mark(self) -> Mark:
        simulator = self.simulator
        return len(self.events), dict(simulator.where), dict(simulator.holder), dict(simulator.lies)

    def back(self, mark: Mark) -> None:
        count, self.simulator.where, self.simulator.holder, self.simulator.lies = mark
        del self.events[count:]
        if len(self.knowledge.events) > count:
            # Knowledge cannot be rolled back, so it is rebuilt at the next question.
            self.knowledge = Knowledge(self.setting.vocabulary.places, self.setting.reading)

    def piece(self, opens: bool, follows: bool) -> bool:
        """Append the sentences up to the next question, and draw the question. Return False if the
        piece must be drawn again.

        Args:
            opens: True if the piece decides which split the story belongs to.
            follows: True if another question comes before it.
        """
        assert self.group.story is not None
        gap, ask, again = self.group.story.gap, self.group.story.ask, self.group.story.again
        often = again if follows and again is not None else ask
        for i in range(PATIENCE):
            start = len(self.events)
            if not self.append(gap):
                return False
            if opens and i == 0 and not self.rule.opening(self._opening(start)):
                return False
            if often < 1 and self.rng.random() >= often:
                often = ask
                continue
            answered = self._ask()
            if answered is not None:
                self.asked.append((len(self.events), answered))
                return True
            often = ask
        return False

    def _opening(self, start: int) -> str:
        """Text that decides the split: the places before sentence `start`, and the events from that
        sentence on, in any order.
        """
        places: list[str] = []
        for event in self.events[:start]:
            places += event.places
        happens = [
            " ".join([event.kind, *event.who, *event.things, event.to, *event.places])
            for event in self.events[start:]
        ]
        return " ".join([*places, "|", *sorted(happens)])

    def append(self, count: int) -> bool:
        """Append `count` sentences; return False if the simulator gets stuck."""
        wanted = len(self.events) + count
        while len(self.events) < wanted:
            done = self._act(wanted - len(self.events))
            if not done:
                return False
            self.events += done
        return True

    def _act(self, room: int) -> list[Event]:
        """Draw the next event. Return an empty list if no event is possible, or none that keeps the
        structure of the beginning within the split.
        """
        # An act has one or two sentences, so only the last two places can complete the beginning.
        if not BEGINNING - 2 <= len(self.events) < BEGINNING:
            return self.simulator.act(self.weights, room)
        for _ in range(PATIENCE):
            before = (
                dict(self.simulator.where),
                dict(self.simulator.holder),
                dict(self.simulator.lies),
            )
            done = self.simulator.act(self.weights, room)
            if len(self.events) + len(done) < BEGINNING or self.rule.has([*self.events, *done]):
                return done
            self.simulator.where, self.simulator.holder, self.simulator.lies = before
        return []

    def _ask(self) -> AnsweredQuestion | None:
        group = self.group
        # Reason only now: half of all openings belong to another split, and their consequences are
        # never needed.
        self.knowledge.tell_all(self.events[len(self.knowledge.events) :])
        kind = draw_kind(group, self.rng)
        for question in self._questions(kind):
            answered = answer_question(self.knowledge, question, group.cited)
            if group.support is None or len(answered.official) in group.support:
                return answered
        return None

    def _questions(self, kind: QuestionKind) -> Iterator[Question]:
        """Yield the questions that may be asked now: yes-no questions with the drawn answer first,
        then those with other answers.
        """
        if kind != "yes-no":
            yield from draw_questions(self.knowledge, kind, self.group, self.rng, None)
            return
        weights = dict(self.group.answers or {"yes": 1.0, "no": 1.0})
        while weights:
            wanted = self.rng.choices(list(weights), weights=list(weights.values()))[0]
            yield from draw_questions(self.knowledge, kind, self.group, self.rng, {wanted: 1.0})
            del weights[wanted]
            weights = {name: weight for name, weight in weights.items() if weight}

    def others(self, kinds: tuple[QuestionKind, ...]) -> None:
        """After the last question, ask all other answerable questions of the given types, ordered
        by type and names.
        """
        count, last = self.asked[-1]
        text = ask(last.question, self.setting.lexicon)
        others = answer_all(self.knowledge, kinds)
        self.asked += [(count, a) for a in others if ask(a.question, self.setting.lexicon) != text]

    def examples(self) -> list[Example]:
        """Write the story as text, and return an example for each question."""
        lexicon = self.setting.lexicon
        # Texts and concepts of the story after 0, 1, 2, … sentences.
        passages = [""]
        for text in self.setting.writer.write(self.events, self.rng):
            passages.append(f"{passages[-1]} {text}" if passages[-1] else text)
        concepts = list(
            accumulate(map(concepts_of_sentence, self.events), or_, initial=frozenset[str]())
        )
        return [
            make_example(
                self.events[:count],
                passages[count],
                ask(answered.question, lexicon),
                answered,
                group=self.group.name,
                task=self.setting.task,
                concepts=concepts[count],
            )
            for count, answered in self.asked
        ]


def _left_out(names: Sequence[str], number: Span | None, rng: Random) -> set[str]:
    """Draw the names that a story does not use. Empty if it may use all of them."""
    if number is None:
        return set()
    surplus = max(0, len(names) - number.draw(rng))
    return set(sample(rng, names, surplus))
