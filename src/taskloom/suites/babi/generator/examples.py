"""From a told story and a question to an example with its traits and derivation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taskloom.example import Example, Trait
from taskloom.suites.babi.reasoner.answers import Verdict
from taskloom.suites.babi.reasoner.proofs import derivation
from taskloom.suites.babi.story.events import Event, Question, composition

TRAITS: dict[str, type] = {
    "group": str,
    "question": str,
    "support": int,
    "supports": int,
    "support_lines": str,
    "composition": str,
    "concepts": str,
    "sentences": int,
}
"""group: which group of the recipe. support: size of the official support; supports: number of minimal ones; support_lines: its
sentences, counted from 1. composition: the paper's support composition. concepts: events and constructs of the whole story."""


@dataclass(frozen=True, slots=True)
class Posed:
    """A question with its answer and all of its minimal supports, by index of sentence."""

    question: Question
    verdict: Verdict
    supports: Sequence[tuple[int, ...]]

    @property
    def official(self) -> tuple[int, ...]:
        """The shortest, then earliest support."""
        return self.supports[0]


def signature(events: Sequence[Event]) -> str:
    """A story's structure: its sentences with persons, objects and places numbered by first appearance, verbs aside."""
    seen: dict[str, str] = {}
    parts: list[str] = []
    for event in events:
        words = [
            event.kind,
            ("~" if event.pronoun else "") + ("~" if event.them else "") + ("!" if event.denied else ""),
        ]
        for name in (*event.who, *event.things, event.to, *event.places):
            if name:
                number = seen.get(name)
                if number is None:
                    number = seen[name] = str(len(seen))
                words.append(number)
        parts.append(" ".join(words))
    return ";".join(parts)


def support_signature(events: Sequence[Event], posed: Posed) -> str:
    """The structure of the official support with its question: what `per_signature` counts."""
    question = posed.question
    asked = Event("in", tuple(x for x in (question.person, question.other) if x), (question.place,), question.thing)
    return f"{question.kind} {question.form}|" + signature([*(events[i] for i in posed.official), asked])


def tokens(text: str) -> int:
    """How many tokens a model sees that takes every word and every mark for one, as BERT does with bAbI's words."""
    return len(text.split()) + sum(map(text.count, ".?,"))


def concepts_of(events: Sequence[Event]) -> set[str]:
    """Events and constructs in a story; COMPOUND where a pronoun stands for two."""
    found: set[str] = set()
    for event in events:
        found.update(event.concepts())
        if event.compound:
            found.add("COMPOUND")
    return found


def make_example(
    events: Sequence[Event], passage: str, asked: str, posed: Posed, *, group: str, task: str, key: str = ""
) -> Example:
    """The example that a model sees: the passage and the question as one text."""
    official = posed.official
    traits: dict[str, Trait] = {
        "group": group,
        "question": posed.question.kind,
        "support": len(official),
        "supports": len(posed.supports),
        "support_lines": " ".join([str(i + 1) for i in official]),
        "composition": composition([events[i] for i in official]),
        "concepts": "+".join(sorted(concepts_of(events))),
        "sentences": len(events),
    }
    return Example(
        f"{passage} {asked}",
        posed.verdict.answer,
        traits,
        key=key,
        question=asked,
        derivation=derivation(events, official, posed.question, posed.verdict.answer),
        task=task,
    )
