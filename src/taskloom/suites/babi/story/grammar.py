"""Parser from text in bAbI format to events and questions.

It supports the wording of Dyna-bAbI and of the published bAbI 1.0, and small variations ("at the"
for "in the", a comma after "Then", "gave Mary the milk", "holding" for "carrying"). A line that
cannot be parsed raises an error with file, line and reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import cast

from taskloom.core.errors import InputError
from taskloom.suites.babi.story import text_format
from taskloom.suites.babi.story.events import (
    EVENT_TYPES,
    POSITIONAL,
    QUESTIONS,
    Event,
    EventType,
    GiveForm,
    Kind,
    PlacedQuestion,
    Question,
    Story,
)
from taskloom.suites.babi.story.sentences import PARTICLES
from taskloom.suites.babi.story.vocabulary import DEFAULT_PRONOUNS, DYNA, StoryLexicon, Vocabulary

_PREFIX = ("After that", "Following that", "Afterwards", "Then")

_ANY_NAME = r"[^\W\d_][\w'’-]*"
_ANY_THING = r"[^\W\d_][\w'’-]*(?: (?!(?:in|at|and|or|to|there|either)\b)[^\W\d_][\w'’-]*)*?"


class _Unreadable(Exception):  # noqa: N818 - a reason, not an error of its own
    """Reason why a sentence cannot be parsed. The caller adds the location."""


def _words(words: tuple[str, ...]) -> str:
    # Longest first, so that "went back" is not read as "went" with a place called "back to the
    # park".
    return "(?:" + "|".join(re.escape(w) for w in sorted(words, key=len, reverse=True)) + ")"


def _parted(verbs: tuple[str, ...]) -> list[tuple[str, str]]:
    """List the verbs that enclose their object ("put them down"): the second words, each with its
    first words.
    """
    stems = {
        p: tuple(v.removesuffix(f" {p}") for v in verbs if v.endswith(f" {p}")) for p in PARTICLES
    }
    return [(particle, _words(words)) for particle, words in stems.items() if words]


_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class _Form:
    kind: str
    pattern: re.Pattern[str]
    denied: bool = False


class Grammar:
    """Sentence and question forms, for any names or for those of a vocabulary. A lexicon adds its
    own verbs.
    """

    def __init__(self, vocabulary: Vocabulary | None = None, lexicon: StoryLexicon = DYNA) -> None:
        self.pronouns = dict(vocabulary.pronouns if vocabulary else DEFAULT_PRONOUNS)
        name = _words(vocabulary.persons) if vocabulary else _ANY_NAME
        thing = _words(vocabulary.objects) if vocabulary and vocabulary.objects else _ANY_THING
        place = _words(vocabulary.places) if vocabulary else _ANY_THING
        slots = self._slots(name, thing, place, lexicon)
        self.sentences = tuple(
            form
            for kind, event_type in EVENT_TYPES.items()
            for form in _forms(kind, event_type, lexicon, slots)
        )
        what, where, at = slots["thing"], slots["place"], slots["at"]
        person, other = f"(?P<person>{name})", f"(?P<other>{name})"
        patterns = (
            ("where-O", rf"Where is the {what}\?"),
            ("where-P", rf"Where is {person}\?"),
            ("where-was-O", rf"Where was the {what} before the {where}\?"),
            ("yes-no", rf"Is {person} {at} the {where}\?"),
            ("list", rf"What is {person} (?:carrying|holding)\?"),
            ("counting", rf"How many objects is {person} (?:carrying|holding)\?"),
            ("gave-to", rf"Who gave the {what} to {other}\?"),
            ("gave", rf"Who gave the {what}\?"),
            ("received", rf"Who received the {what}(?: last)?\?"),
            ("given-to", rf"Who did {person} give the {what} to(?: last)?\?"),
            ("given", rf"What did {person} give to {other}(?: last)?\?"),
        )
        self.questions = tuple(_Form(kind, re.compile(pattern)) for kind, pattern in patterns)
        self._any_words = vocabulary is None
        self._known = {
            word
            for form in (*self.sentences, *self.questions)
            for word in _WORD.findall(form.pattern.pattern)
        }
        # Files consist of few distinct sentences, so each is matched once and cached.
        self.event: Callable[[str], tuple[Event, str]] = cache(self._event)
        self.question: Callable[[str], Question] = cache(self._question)

    @staticmethod
    def _slots(name: str, thing: str, place: str, lexicon: StoryLexicon) -> dict[str, str]:
        """Return the pattern for each slot of a form, except verbs. Groups are named after their
        slots.
        """
        prefix = _words((*_PREFIX, *lexicon.prefixes))
        pronoun = f"(?:(?:{prefix},? )?(?P<pronoun>he|she|they|He|She|They)(?: then)?)"
        where, at = f"(?P<place>{place})", "(?:in|at)"
        one_of = f"either (?:{at} )?the {where} or (?:{at} )?the (?P<second>{place})"
        there = (
            f"(?: there| {at} {one_of}| either {at} the (?P<first>{place}) or (?:{at} )?the"
            f" (?P<last>{place})|"
        )
        return {
            "who": f"(?:{pronoun}|(?P<who>{name}(?:(?:, | and |, and ){name})*))",
            "be": "(?:is|are|was|were)",
            "negation": _words(("not", "no longer", *lexicon.negations)),
            "at": at,
            "or_at": f"(?:{at} )?",
            "place": where,
            "second": f"(?P<second>{place})",
            "things": f"(?:(?P<them>them)|the (?P<thing>{thing})(?: and the (?P<also>{thing}))?)",
            "thing": f"(?P<thing>{thing})",
            "also": f"(?P<also>{thing})",
            "to": f"(?P<to>{name})",
            "there": f"{there} {at} the (?P<only>{place}))?",
        }

    def _event(self, text: str) -> tuple[Event, str]:
        """Parse a sentence as an event, with its pronoun not yet resolved. Raises `_Unreadable` if
        it is not an event.
        """
        for form in self.sentences:
            match = form.pattern.fullmatch(text)
            if match is not None:
                return _event_of(form, match.groupdict(), text)
        if re.search(r"\b[Ee]ither\b", text):
            raise _Unreadable(
                "'either' is only possible for places, because otherwise the story would not say "
                "who holds what"
            )
        raise _Unreadable(self._strange(text, "sentence", "A construct on any event"))

    def _question(self, text: str) -> Question:
        """Parse a question."""
        for form in self.questions:
            match = form.pattern.fullmatch(text)
            if match is None:
                continue
            groups = match.groupdict()
            parts = {k: groups.get(k) or "" for k in ("person", "thing", "place", "other")}
            if form.kind in QUESTIONS:
                return Question(form.kind, **parts, text=text)  # type: ignore[arg-type]
            return Question("give-qs", **parts, form=cast(GiveForm, form.kind), text=text)
        raise _Unreadable(self._strange(text, "question", "What a group can say"))

    def _strange(self, text: str, kind: str, section: str) -> str:
        """Explain why a text matches no form. If it contains a word that occurs in no form, name
        it.
        """
        where = f"none of the {kind} forms (docs/suites/babi.md, '{section}')"
        noun = False
        for word in _WORD.findall(text):
            if word in self._known or word.lower() in self._known:
                noun = self._any_words and word == "the"
            elif not noun and not (self._any_words and word[0].isupper()):
                return f"'{word}' is a word of {where}"
        return f"this is {where}"

    def resolve(self, event: Event, pronoun: str, before: Event | None) -> Event:
        """Return the event with its pronouns replaced by the subjects (and for "them" the objects)
        of the previous sentence.
        """
        if event.them:
            if before is None or not before.also:
                raise _Unreadable("'them' has no previous sentence with two things to refer to")
            event = event._replace(thing=before.thing, also=before.also)
        if not pronoun:
            return event
        if before is None:
            raise _Unreadable(f"'{pronoun}' has no previous sentence to refer to")
        if pronoun != "they" and len(before.who) > 1:
            raise _Unreadable(f"'{pronoun}' cannot refer to {' and '.join(before.who)}")
        if len(before.who) == 1 and self.pronouns.get(before.who[0], pronoun) != pronoun:
            raise _Unreadable(
                f"'{pronoun}' cannot refer to {before.who[0]}, the subject of the previous sentence"
            )
        if event.thing and not event.denied and len(before.who) > 1:
            raise _Unreadable(
                f"'{pronoun}' is {' and '.join(before.who)}, and two persons cannot hold one thing"
            )
        if event.to in before.who:
            raise _Unreadable(f"{event.to} gives something to {event.to}")
        return event._replace(who=before.who)


def _forms(
    kind: Kind, event_type: EventType, lexicon: StoryLexicon, slots: dict[str, str]
) -> Iterator[_Form]:
    """Yield the forms of an event: affirmative, with the other word order, with a separable verb,
    and denied.
    """
    verbs = (*event_type.verbs, *event_type.also_read, *lexicon.verbs.get(kind, ()))
    orders = [form for form in (event_type.form, event_type.double_object) if form]
    for form in orders:
        yield _Form(kind, _pattern(form, slots, _words(verbs)))
    for particle, stems in _parted(verbs):
        parted = event_type.form.replace("{things}", f"{{things}} {particle}")
        yield _Form(kind, _pattern(parted, slots, stems))
    denied = (
        *event_type.denied,
        *event_type.denied_also_read,
        *lexicon.verbs.get(f"not_{kind}", ()),
    )
    if denied:
        # "did not take the apple and the milk" could mean neither or not both, so denied events
        # have one named object.
        one = {
            **slots,
            "things": f"the {slots['thing']}",
            "there": "(?: there)?" if event_type.there else "",
        }
        for form in orders:
            yield _Form(
                kind,
                _pattern(form.replace("{verb}", "did not {verb}"), one, _words(denied)),
                denied=True,
            )


def _event_of(form: _Form, groups: dict[str, str | None], text: str) -> tuple[Event, str]:
    """Build an event from the groups of its form. Raises an error if the sentence makes two
    conflicting statements.
    """
    pronoun = (groups["pronoun"] or "").lower()
    who = () if pronoun else tuple(re.split(r", and |, | and ", groups["who"] or ""))
    if len(set(who)) < len(who):
        raise _Unreadable(f"{who[0]} is named twice as subject")
    if len(who) > 1 and not form.denied and form.kind not in POSITIONAL:
        raise _Unreadable("two persons cannot hold one thing; use one person")
    thing, also, to = groups.get("thing") or "", groups.get("also") or "", groups.get("to") or ""
    if also and also == thing:
        raise _Unreadable(f"the {also} is named twice")
    if to and to in who:
        raise _Unreadable(f"{to} gives something to {to}")
    # Accept two equal places, because published task 10 has "either in the kitchen or the kitchen"
    # 88 times. It still states a place.
    named = [groups.get(slot) for slot in ("place", "second", "first", "last", "only")]
    them = bool(groups.get("them"))
    event = Event(
        cast(Kind, form.kind),
        who,
        places=tuple([place for place in named if place]),
        thing=thing,
        to=to,
        pronoun=bool(pronoun) or them,
        text=text,
        also=also,
        them=them,
        denied=form.denied,
    )
    return event, pronoun


def _pattern(form: str, slots: dict[str, str], verb: str) -> re.Pattern[str]:
    return re.compile(form.replace(".", r"\.").format(**slots, verb=verb))


@lru_cache(maxsize=16)
def grammar_of(vocabulary: Vocabulary | None = None, lexicon: StoryLexicon = DYNA) -> Grammar:
    """Return the grammar for a vocabulary and lexicon, cached. Default: any names."""
    return Grammar(vocabulary, lexicon)


def understand(text: text_format.StoryText, name: str, grammar: Grammar | None = None) -> Story:
    """Parse the lines of a story.

    Args:
        text: The lines of one story.
        name: Name of the file, for messages.
        grammar: Grammar to use. Default: any names.

    Raises:
        InputError: If a line cannot be read. The error names the line and the reason.
    """
    grammar = grammar or grammar_of()
    events: list[Event] = []
    questions: list[PlacedQuestion] = []
    # The reasoner and the second solver identify people and objects only by name.
    people: set[str] = set()
    objects: set[str] = set()
    for line in text.lines:
        try:
            if isinstance(line, text_format.QuestionLine):
                question = grammar.question(line.text)
                questions.append(
                    PlacedQuestion(
                        question,
                        len(events),
                        line.number,
                        line.answer or "",
                        line.support,
                        line.line,
                    )
                )
            else:
                event, pronoun = grammar.event(line.text)
                events.append(grammar.resolve(event, pronoun, events[-1] if events else None))
                people.update((*events[-1].who, *filter(None, [events[-1].to])))
                objects.update(events[-1].things)
                if people & objects:
                    both = min(people & objects)
                    raise _Unreadable(
                        f"'{both}' is both a person and an object in this story; use two names"
                    )
        except _Unreadable as error:
            raise InputError(
                f"{name}:{line.line}: cannot read {line.text[:80]!r}: {error}"
            ) from None
    lines = text.sentences
    return Story(
        tuple(events),
        tuple(x.number for x in lines),
        tuple(questions),
        tuple(x.line for x in lines),
    )


def parse(text: str, name: str = "story", vocabulary: Vocabulary | None = None) -> list[Story]:
    """Parse all stories of a text in bAbI format.

    >>> [s.questions[0].question.kind for s in parse("1 Mary went to the park.\\n2 Where is Mary?\\tpark\\t1\\n")]
    ['where-P']
    """
    return [
        understand(story, name, grammar_of(vocabulary))
        for story in text_format.read_story_text(text, name)
    ]


def parse_path(path: Path, vocabulary: Vocabulary | None = None) -> list[Story]:
    """Parse all stories of a file in bAbI format."""
    return [
        understand(story, str(path), grammar_of(vocabulary))
        for story in text_format.read_path(path)
    ]


def parse_passage(
    passage: str, question: str, vocabulary: Vocabulary | None = None, lexicon: StoryLexicon = DYNA
) -> Story:
    """Parse a story given as running text, as models see it: sentences that end in a full stop,
    then a question.
    """
    sentences = [
        s if s.endswith(".") else s + "." for s in re.split(r"(?<=\.)\s+", passage.strip()) if s
    ]
    lines: list[text_format.Sentence | text_format.QuestionLine] = [
        text_format.Sentence(i, s, i) for i, s in enumerate(sentences, 1)
    ]
    lines.append(text_format.QuestionLine(len(lines) + 1, question.strip(), line=len(lines) + 1))
    return understand(
        text_format.StoryText(tuple(lines)), "the input", grammar_of(vocabulary, lexicon)
    )
