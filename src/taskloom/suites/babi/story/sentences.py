"""From events and questions to English."""

from __future__ import annotations

from taskloom.seeding import Random
from taskloom.suites.babi.story.events import EVENT_TYPES, Event, Question
from taskloom.suites.babi.story.vocabulary import StoryLexicon, Vocabulary
from taskloom.suites.draws import pick

NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

PARTICLES = ("up", "down", "away", "aside", "off", "out", "over", "back")
"""The second words of verbs that a pronoun goes before: "put down the milk", but "put them down"."""


def number_word(n: int) -> str:
    """Return a count as the answer says it; digits above ten."""
    return NUMBERS[n] if n < len(NUMBERS) else str(n)


def subject(event: Event, vocabulary: Vocabulary, prefix: str) -> str:
    """Return the subject of a sentence: names, or a prefix and a pronoun."""
    if not event.pronoun:
        return " and ".join(event.who)
    return f"{prefix} {'they' if len(event.who) > 1 else vocabulary.pronoun(event.who[0])}"


def sentence(event: Event, vocabulary: Vocabulary, lexicon: StoryLexicon, rng: Random) -> str:
    """Write an event in words, by the form of its type."""
    who = subject(event, vocabulary, pick(rng, lexicon.prefixes) if event.pronoun else "")
    if event.thing:
        return _handling(event, who, lexicon, rng)
    form = EVENT_TYPES[event.kind].form
    if event.kind == "move":  # every other sentence, and short
        return form.format(who=who, verb=pick(rng, lexicon.verbs["move"]), place=event.places[0])
    return form.format(
        who=who,
        verb=pick(rng, lexicon.verbs[event.kind]) if "{verb}" in form else "",
        be=_be(event, who),
        negation=pick(rng, lexicon.negations) if "{negation}" in form else "",
        at=lexicon.preposition,
        or_at="",
        place=event.places[0],
        second=event.places[-1],
    )


def _be(event: Event, who: str) -> str:
    """Return is or are; after "Then" and the like the past, as of every other verb."""
    many = len(event.who) > 1 or who.endswith(" they")
    if event.pronoun:
        return "were" if many else "was"
    return "are" if many else "is"


def _handling(event: Event, who: str, lexicon: StoryLexicon, rng: Random) -> str:
    """Write what somebody does, or does not do, with one or two objects."""
    event_type = EVENT_TYPES[event.kind]
    if event.denied:
        verb = f"did not {pick(rng, lexicon.verbs[f'not_{event.kind}'])}"
    else:
        verb = pick(rng, lexicon.verbs[event.kind])
    things = "them" if event.them else f"the {event.thing}" + (f" and the {event.also}" if event.also else "")
    stem, _, particle = verb.rpartition(" ")
    form = event_type.form
    if event.them and stem and particle in PARTICLES:
        verb, things = stem, f"them {particle}"
    elif lexicon.double_object and event_type.double_object and not event.them and particle not in PARTICLES:
        form = event_type.double_object
    return form.format(
        who=who,
        verb=verb,
        things=things,
        thing=event.thing,
        also=event.also,
        to=event.to,
        there=_there(event, lexicon, rng),
    )


def _there(event: Event, lexicon: StoryLexicon, rng: Random) -> str:
    """Write where objects change hands: in one of two places, in one, or "there" as often as the lexicon says."""
    if event.places:
        places = " or ".join([f"the {place}" for place in event.places])
        return f" {lexicon.preposition} {'either ' if len(event.places) > 1 else ''}{places}"
    often = lexicon.there.get(event.kind, 0.0)
    return " there" if often and rng.random() < often else ""


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
