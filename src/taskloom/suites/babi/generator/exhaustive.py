"""Stories of which everything is asked that can be answered."""

from __future__ import annotations

from bisect import bisect_right
from typing import cast

from taskloom.core.errors import RecipeError
from taskloom.core.example import Example
from taskloom.core.seeding import Key
from taskloom.suites.babi.fields import StoryGroup
from taskloom.suites.babi.generator.examples import make_example
from taskloom.suites.babi.generator.many_questions import Setting, answer_all
from taskloom.suites.babi.generator.one_question import GroupExamples
from taskloom.suites.babi.generator.proof_guard import Blocked
from taskloom.suites.babi.reasoner.knowledge import Knowledge
from taskloom.suites.babi.splits import BEGINNING, SplitRule
from taskloom.suites.babi.story.events import QuestionKind
from taskloom.suites.babi.story.sentences import ask
from taskloom.suites.draws import pick_number

TRIES = 4_000
"""Stories drawn before a group counts as one of which nothing can be asked, where it is tried out."""

ENDURANCE = 100 * TRIES
"""Stories drawn for one of a group that has been tried out."""


class ExhaustiveExamples:
    """The examples of an exhaustive group, one story after the other; how many each has is known only when it is drawn."""

    def __init__(self, group: StoryGroup, setting: Setting, key: Key, rule: SplitRule) -> None:
        self._group, self._setting, self._key, self._rule = group, setting, key, rule
        self._examples = GroupExamples(group, setting)
        self._ends: list[int] = []
        self._last: tuple[int, list[Example]] = (-1, [])

    def example(self, index: int) -> Example:
        """Return example number `index`; the stories before it are drawn to be counted."""
        while not self._ends or self._ends[-1] <= index:
            story = len(self._ends)
            self._last = (story, self._draw(story))
            self._ends.append((self._ends[-1] if self._ends else 0) + len(self._last[1]))
        story = bisect_right(self._ends, index)
        if self._last[0] != story:
            self._last = (story, self._draw(story))
        return self._last[1][index - (self._ends[story - 1] if story else 0)]

    def try_out(self) -> None:
        """Refuse the group if nothing can be asked of its stories."""
        self._draw(0, TRIES)

    def _draw(self, story: int, tries: int = ENDURANCE) -> list[Example]:
        """Draw story number `story` with every question of the group's types that can be answered (and has the wanted support).

        Raises:
            RecipeError: There is none.
        """
        group, setting = self._group, self._setting
        rng = self._key.random("exhaustive", story)
        kinds = cast(tuple[QuestionKind, ...], tuple(sorted(k for k, w in group.questions.items() if w)))
        for _ in range(tries):
            length = pick_number(rng, group.length)
            try:
                events, structure = self._examples.simulate(None, length, rng, self._rule)
            except Blocked:
                continue
            knowledge = Knowledge(setting.vocabulary.places, setting.reading).tell_all(events)
            answered = [
                a
                for a in answer_all(knowledge, kinds, group.cited)
                if group.support is None or len(a.official) in group.support
            ]
            if not answered:
                continue
            key = structure.read(events[BEGINNING:])
            passage = " ".join(setting.writer.write(events, rng))
            return [
                make_example(
                    events,
                    passage,
                    ask(a.question, setting.lexicon),
                    a,
                    group=group.name,
                    task=setting.task,
                    concepts=structure.concepts(),
                    key=key,
                )
                for a in answered
            ]
        raise RecipeError(f"group '{group.name}': nothing of {', '.join(kinds)} could be asked in {tries} stories")
