"""Building an example, with its traits and derivation, from a story and an answered question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from sys import intern
from typing import NamedTuple

from taskloom.core.example import Example, Trait
from taskloom.suites.babi.reasoner.answers import Verdict, derivation
from taskloom.suites.babi.story.events import Event, Question, Remembered, composition, listed

TRAITS: dict[str, type] = {
    "group": str,
    "question": str,
    "support": int,
    "minimal": int,
    "supports": int,
    "support_lines": str,
    "composition": str,
    "concepts": str,
    "sentences": int,
}
"""Traits of an example.

- group: group of the recipe.
- support: size of the official support.
- minimal: size of the shortest minimal support, which is the official one unless the group has
  `cited`.
- supports: number of minimal supports.
- support_lines: sentences of the official support, counted from 1.
- composition: the paper's support composition.
- concepts: events and constructs of the whole story.
"""


class AnsweredQuestion(NamedTuple):
    """A question with its answer and all of its minimal supports, each a tuple of sentence indices.

    Attributes:
        question: The question.
        verdict: Its answer.
        supports: All minimal supports: shortest first, then earliest.
        cited: The support that bAbI cites, if the group asks for it.
    """

    question: Question
    verdict: Verdict
    supports: Sequence[tuple[int, ...]]
    cited: tuple[int, ...] | None = None

    @property
    def official(self) -> tuple[int, ...]:
        """Official support: the cited one if it is known, otherwise the shortest. Ties go to the
        earliest.
        """
        return self.supports[0] if self.cited is None else self.cited


NUMBERS = tuple([f" {i}" for i in range(-1, 3_000)])
"""Precomputed texts of the numbers of names. A name's number is its index in the table of names
minus 1, because the table always begins with "". The longest story has fewer names.
"""


def _outline(event: Event) -> tuple[str, tuple[str, ...], frozenset[str]]:
    kind, who, places, thing, to, pronoun, _, also, them, denied = event
    # "~" for a pronoun, "~~" if "them" also refers to the objects, "!" for a denial.
    marks = f" {'~' * (pronoun + them)}{'!' * denied}" if pronoun or denied else ""
    names = (*who, thing, also, to, *places) if thing else (*who, *places)
    mark = intern(f";{kind}{marks}")
    return (
        mark,
        tuple([name for name in names if name]),
        _concept_set(event.concepts(), event.compound),
    )


@cache
def _concept_set(concepts: tuple[str, ...], compound: bool) -> frozenset[str]:
    """Return the concepts as a set. Equal sets are the same object, so that sets of them compare by
    identity.
    """
    return frozenset((*concepts, "COMPOUND") if compound else concepts)


OUTLINES = Remembered(_outline)
"""Outline of each sentence, as part of a story's structure: its kind with marks for pronouns and
denial, its names, and its concepts.
"""


class Structure:
    """Structure of a story, built sentence by sentence: its sentences with persons, objects and
    places numbered by first appearance.
    """

    __slots__ = ("_concepts", "_numbers", "_parts")

    def __init__(self) -> None:
        self._numbers = {"": ""}
        self._parts: list[str] = []
        self._concepts: set[frozenset[str]] = set()

    def read(self, events: Iterable[Event]) -> str:
        """Read further sentences, and return the structure of all sentences so far, without
        verbs.
        """
        numbers, parts, concepts = self._numbers, self._parts, self._concepts
        for event in events:
            mark, names, own = OUTLINES[event]
            parts.append(mark)
            concepts.add(own)
            for name in names:
                if name not in numbers:
                    numbers[name] = NUMBERS[len(numbers)]
                parts.append(numbers[name])
        return "".join(parts)[1:]

    def concepts(self) -> frozenset[str]:
        """Events and constructs of all sentences so far, with COMPOUND if a pronoun refers to two
        persons or objects.
        """
        return frozenset[str]().union(*self._concepts)


def signature(events: Iterable[Event]) -> str:
    """Return a story's structure.

    >>> signature([Event("move", ("Mary",), ("park",)), Event("grab", ("Mary",), thing="milk", pronoun=True)])
    'move 0 1;grab ~ 0 2'
    """
    return Structure().read(events)


def support_signature(events: Sequence[Event], answered: AnsweredQuestion) -> str:
    """Return the structure of the official support with its question. `per_signature` limits how
    often each occurs.
    """
    question = answered.question
    # Treat the names in the question as a sentence, so that they are numbered with those of the
    # support.
    persons = tuple(name for name in (question.person, question.other) if name)
    asked = Event("in", persons, (question.place,), question.thing)
    support = [events[i] for i in answered.official]
    return f"{question.kind} {question.form}|{signature([*support, asked])}"


def tokens(text: str) -> int:
    """Number of words and punctuation marks. Each is one token for a BERT with bAbI's
    vocabulary.
    """
    return len(text.split()) + sum(map(text.count, ".?,"))


def concepts_of_sentence(event: Event) -> frozenset[str]:
    """Events and constructs of a sentence, with COMPOUND if a pronoun refers to two antecedents."""
    return OUTLINES[event][2]


def concepts_of(events: Iterable[Event]) -> frozenset[str]:
    """Events and constructs in a story."""
    return frozenset[str]().union(*map(concepts_of_sentence, events))


def make_example(
    events: Sequence[Event],
    passage: str,
    question: str,
    answered: AnsweredQuestion,
    *,
    group: str,
    task: str,
    concepts: frozenset[str],
    key: str = "",
) -> Example:
    """Build an example: the passage and the question as one text, with traits and derivation.

    Args:
        events: The sentences of the passage.
        passage: Their text.
        question: The text of the question.
        answered: Its answer and supports.
        group: Name of the group.
        task: Name of the task.
        concepts: Concepts of the whole passage.
        key: Content key; empty if the text is its own key.
    """
    official = answered.official
    traits: dict[str, Trait] = {
        "group": group,
        "question": answered.question.kind,
        "support": len(official),
        "minimal": len(answered.supports[0]),
        "supports": len(answered.supports),
        "support_lines": " ".join([str(i + 1) for i in official]),
        "composition": composition([events[i] for i in official]),
        "concepts": listed(concepts),
        "sentences": len(events),
    }
    return Example(
        f"{passage} {question}",
        answered.verdict.answer,
        traits,
        key=key,
        question=question,
        derivation=derivation(events, official, answered.question, answered.verdict.answer),
        task=task,
    )
