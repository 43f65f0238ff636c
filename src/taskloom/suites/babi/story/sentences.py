"""Writes events and questions in English."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from taskloom.core.seeding import Random
from taskloom.suites.babi.story.events import DIFFERENT, EVENT_TYPES, Event, Question, Remembered
from taskloom.suites.babi.story.vocabulary import StoryLexicon, Vocabulary

NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

PARTICLES = ("up", "down", "away", "aside", "off", "out", "over", "back")
"""Particles that follow a pronoun object: "put down the milk", but "put them down"."""


def number_word(n: int) -> str:
    """Format a count as in answers: in words, or in digits above ten."""
    return NUMBERS[n] if n < len(NUMBERS) else str(n)


class EventWording(NamedTuple):
    """All sentences for an event: each beginning combined with each ending.

    Attributes:
        subjects: The beginnings: the names, or the pronoun after each prefix.
        prefixes: Number of prefixes to choose from, 0 without a pronoun.
        endings: The rest of the sentence, with each possible word.
        words: Number of words to choose from, 0 if the sentence has no verb or negation.
        there: Probability that the ending includes "there".
    """

    subjects: tuple[str, ...]
    prefixes: int
    endings: tuple[str, ...]
    words: int
    there: float


class SentenceWriter:
    """Writes the sentences of a vocabulary and lexicon. The wordings of an event are built once and
    cached.
    """

    __slots__ = ("_lexicon", "_shared", "_vocabulary", "_wordings")

    def __init__(self, vocabulary: Vocabulary, lexicon: StoryLexicon) -> None:
        self._vocabulary = vocabulary
        self._lexicon = lexicon
        self._wordings = Remembered(self._wording)
        self._shared: dict[
            tuple[str, ...], tuple[str, ...]
        ] = {}  # parts shared by wordings, kept only once

    def write(self, events: Iterable[Event], rng: Random) -> list[str]:
        """Write events as sentences, each in the form of its type. Every choice uses a random
        number, even between single words.
        """
        known, random, sentences = self._wordings, rng.random, []
        for event in events:
            subjects, prefixes, endings, words, there = known[event]
            subject = subjects[int(random() * prefixes)] if prefixes else subjects[0]
            ending = endings[int(random() * words)] if words else endings[0]
            if there and random() < there:
                ending = f"{ending[:-1]} there."
            sentences.append(subject + ending)
        return sentences

    def wordings(self, event: Event, text: str = "") -> list[str]:
        """List the sentences that tell an event.

        Args:
            event: The event.
            text: A sentence whose beginning (with its prefix and pronoun) they share. Default: use
                the first beginning.
        """
        subjects, _, endings, _, _ = self._wordings[event]
        subject = next((s for s in subjects if text.startswith(s)), subjects[0])
        return [subject + ending for ending in endings]

    def _wording(self, event: Event) -> EventWording:
        lexicon, event_type = self._lexicon, EVENT_TYPES[event.kind]
        pronoun = "they" if len(event.who) > 1 else self._vocabulary.pronoun(event.who[0])
        if event.pronoun:
            subjects = tuple([f"{prefix} {pronoun} " for prefix in lexicon.prefixes])
        else:
            subjects = (f"{' and '.join(event.who)} ",)
        prefixes = len(subjects) if event.pronoun else 0
        if event.thing:
            verbs = lexicon.verbs[f"not_{event.kind}" if event.denied else event.kind]
            endings = tuple([self._handling(event, verb) for verb in verbs])
            often = 0.0 if event.places else lexicon.there.get(event.kind, 0.0)
            return EventWording(
                self._share(subjects), prefixes, self._share(endings), len(verbs), often
            )
        form = event_type.form.removeprefix("{who} ")
        words: tuple[str, ...] = ()  # "Mary is in the park" has no alternatives
        if "{verb}" in form:
            words = lexicon.verbs[event.kind]
        elif "{negation}" in form:
            words = lexicon.negations
        slots = {
            "be": _be(event, pronoun),
            "at": lexicon.preposition,
            "or_at": "",
            "place": event.places[0],
            "second": event.places[-1],
        }
        endings = tuple([form.format(verb=word, negation=word, **slots) for word in words or ("",)])
        return EventWording(self._share(subjects), prefixes, self._share(endings), len(words), 0.0)

    def _share(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Intern the parts of a sentence, to save memory."""
        if len(self._shared) >= DIFFERENT:
            self._shared.clear()
        return self._shared.setdefault(parts, parts)

    def _handling(self, event: Event, verb: str) -> str:
        """Write a sentence about one or two objects without its subject, affirmative or denied."""
        event_type = EVENT_TYPES[event.kind]
        things = "them" if event.them else " and ".join([f"the {thing}" for thing in event.things])
        if event.denied:
            verb = f"did not {verb}"
        stem, _, particle = verb.rpartition(" ")
        form = event_type.form
        if event.them and stem and particle in PARTICLES:
            verb, things = stem, f"them {particle}"
        elif (
            self._lexicon.double_object
            and event_type.double_object
            and not event.them
            and particle not in PARTICLES
        ):
            form = event_type.double_object
        return form.removeprefix("{who} ").format(
            verb=verb,
            things=things,
            thing=event.thing,
            also=event.also,
            to=event.to,
            there=self._where(event),
        )

    def _where(self, event: Event) -> str:
        """Return the phrase for the place of a transfer: one place, or one of two. Empty if none is
        stated.
        """
        if not event.places:
            return ""
        places = " or ".join([f"the {place}" for place in event.places])
        return f" {self._lexicon.preposition} {'either ' if len(event.places) > 1 else ''}{places}"


def _be(event: Event, pronoun: str) -> str:
    """Return the form of "be": present tense, or past tense after an opener such as "Then"."""
    if event.pronoun:
        return "were" if pronoun == "they" else "was"
    return "are" if len(event.who) > 1 else "is"


def ask(question: Question, lexicon: StoryLexicon) -> str:
    """Write a question in words."""
    person, thing, place = question.person, question.thing, question.place
    if question.kind == "where-P":
        return f"Where is {person}?"
    if question.kind == "where-O":
        return f"Where is the {thing}?"
    if question.kind == "where-was-O":
        return f"Where was the {thing} before the {place}?"
    if question.kind == "yes-no":
        return f"Is {person} {lexicon.preposition} the {place}?"
    if question.kind == "list":
        return f"What is {person} carrying?"
    if question.kind == "counting":
        return f"How many objects is {person} carrying?"
    return {
        "gave-to": f"Who gave the {thing} to {question.other}?",
        "gave": f"Who gave the {thing}?",
        "received": f"Who received the {thing}?",
        "given-to": f"Who did {person} give the {thing} to?",
        "given": f"What did {person} give to {question.other}?",
    }[question.form]
