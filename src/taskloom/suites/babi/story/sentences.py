"""From events and questions to English."""

from __future__ import annotations

from collections.abc import Callable

from taskloom.seeding import Random
from taskloom.suites.babi.story.events import Event, Question
from taskloom.suites.babi.story.vocabulary import StoryLexicon, Vocabulary

NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

PARTICLES = ("up", "down", "away", "aside", "off", "out", "over", "back")
"""The second words of verbs that a pronoun goes before: "put down the milk", but "put them down"."""


def number_word(n: int) -> str:
    """A count as the answer says it; digits above ten."""
    return NUMBERS[n] if n < len(NUMBERS) else str(n)


def subject(event: Event, vocabulary: Vocabulary, prefix: str) -> str:
    """The subject of a sentence: names, or a prefix and a pronoun."""
    if not event.pronoun:
        return " and ".join(event.who)
    return f"{prefix} {'they' if len(event.who) > 1 else vocabulary.pronoun(event.who[0])}"


def sentence(event: Event, vocabulary: Vocabulary, lexicon: StoryLexicon, rng: Random) -> str:
    """An event in words."""
    choose = rng.random

    def pick(words: tuple[str, ...]) -> str:
        return words[int(choose() * len(words))]  # three times as fast as rng.choice

    who = subject(event, vocabulary, pick(lexicon.prefixes) if event.pronoun else "")
    kind = event.kind
    if kind == "move":
        return f"{who} {pick(lexicon.move)} to the {event.places[0]}."
    if event.thing:
        there = {"grab": lexicon.there_grab, "drop": lexicon.there_drop}.get(kind, 0.0)
        verb = _handling(event, pick, lexicon)
        if event.places:
            places = " or ".join([f"the {place}" for place in event.places])
            return f"{who} {verb} {lexicon.preposition} {'either ' if len(event.places) > 1 else ''}{places}."
        return f"{who} {verb}{' there' if there and choose() < there else ''}."
    plural = len(event.who) > 1 or who.endswith(" they")
    be, at = ("are" if plural else "is"), lexicon.preposition
    if kind == "in":
        return f"{who} {be} {at} the {event.places[0]}."
    if kind == "not":
        return f"{who} {be} {pick(lexicon.negations)} {at} the {event.places[0]}."
    return f"{who} {be} either {at} the {event.places[0]} or the {event.places[1]}."


def _handling(event: Event, pick: Callable[[tuple[str, ...]], str], lexicon: StoryLexicon) -> str:
    """What somebody does, or does not do, with one or two objects."""
    if event.denied:
        verbs = {"grab": lexicon.not_grab, "drop": lexicon.not_drop, "give": lexicon.not_give}[event.kind]
    else:
        verbs = {"grab": lexicon.grab, "drop": lexicon.drop, "give": lexicon.give}[event.kind]
    verb = f"did not {pick(verbs)}" if event.denied else pick(verbs)
    things = "them" if event.them else f"the {event.thing}" + (f" and the {event.also}" if event.also else "")
    stem, _, particle = verb.rpartition(" ")
    if event.them and stem and particle in PARTICLES:
        verb, things = stem, f"them {particle}"
    if not event.to:
        return f"{verb} {things}"
    if lexicon.double_object and not event.them and particle not in PARTICLES:
        return f"{verb} {event.to} {things}"
    return f"{verb} {things} to {event.to}"


def ask(question: Question, lexicon: StoryLexicon) -> str:
    """A question in words."""
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
