"""From text in bAbI format to events and questions.

Both wordings are read, Dyna-bAbI's and that of published bAbI 1.0, and the small variations between them ("at the"
for "in the", a comma after "Then", "gave Mary the milk", "holding" for "carrying"). What cannot be read is refused
with file, line and reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import cast

from taskloom.errors import InputError
from taskloom.suites.babi.story import text_format
from taskloom.suites.babi.story.events import Event, GiveForm, Kind, PlacedQuestion, Question, Story
from taskloom.suites.babi.story.sentences import PARTICLES
from taskloom.suites.babi.story.vocabulary import DEFAULT_PRONOUNS, DYNA, StoryLexicon, Vocabulary

_MOVE = ("journeyed", "moved", "travelled", "traveled", "went back", "went", "walked", "ran", "returned")
_GRAB = ("grabbed", "picked up", "took", "got")
_DROP = ("discarded", "dropped", "left", "put down", "let go of")
_GIVE = ("gave", "handed", "passed")
_NOT_GRAB = ("grab", "pick up", "take", "get")
_NOT_DROP = ("discard", "drop", "leave", "put down", "let go of")
_NOT_GIVE = ("give", "hand", "pass")
_PREFIX = ("After that", "Following that", "Afterwards", "Then")

_ANY_NAME = r"[^\W\d_][\w'’-]*"
_ANY_THING = r"[^\W\d_][\w'’-]*(?: (?!(?:in|at|and|or|to|there|either)\b)[^\W\d_][\w'’-]*)*?"


class _Unreadable(Exception):  # noqa: N818 - a reason, not an error of its own
    """Why a sentence cannot be read; the caller adds the place."""


def _words(words: tuple[str, ...]) -> str:
    # Longest first, so that "went back" is not read as "went" with a place called "back to the park".
    return "(?:" + "|".join(re.escape(w) for w in sorted(words, key=len, reverse=True)) + ")"


def _parted(verbs: tuple[str, ...]) -> list[tuple[str, str]]:
    """The verbs of two words that take their object between them ("put them down"): second words, each with the first ones."""
    found = {p: tuple(v.removesuffix(f" {p}") for v in verbs if v.endswith(f" {p}")) for p in PARTICLES}
    return [(particle, _words(stems)) for particle, stems in found.items() if stems]


@dataclass(frozen=True, slots=True)
class _Form:
    kind: str
    pattern: re.Pattern[str]


class Grammar:
    """The sentence and question forms, over any names or over those of one vocabulary; a lexicon adds its own verbs."""

    def __init__(self, vocabulary: Vocabulary | None = None, lexicon: StoryLexicon = DYNA) -> None:
        self.pronouns = dict(vocabulary.pronouns if vocabulary else DEFAULT_PRONOUNS)
        name = _words(vocabulary.persons) if vocabulary else _ANY_NAME
        thing = _words(vocabulary.objects) if vocabulary and vocabulary.objects else _ANY_THING
        place = _words(vocabulary.places) if vocabulary else _ANY_THING
        prefix, negation = _words((*_PREFIX, *lexicon.prefixes)), _words(("not", "no longer", *lexicon.negations))
        pronoun = f"(?:(?:{prefix},? )?(?P<pronoun>he|she|they|He|She|They)(?: then)?)"
        who = f"(?:{pronoun}|(?P<who>{name}(?:(?:, | and |, and ){name})*))"
        where, what = f"(?P<place>{place})", f"(?P<thing>{thing})"
        be, at = "(?:is|are)", "(?:in|at)"
        to, things = f"(?P<to>{name})", f"(?:(?P<them>them)|the {what}(?: and the (?P<also>{thing}))?)"
        one_of = f"either (?:{at} )?the {where} or (?:{at} )?the (?P<second>{place})"
        there = f"(?: there| {at} {one_of}| either {at} the (?P<first>{place}) or (?:{at} )?the (?P<last>{place})|"
        there += f" {at} the (?P<only>{place}))?"
        move, give = _words((*_MOVE, *lexicon.move)), _words((*_GIVE, *lexicon.give))
        grab, drop = _words((*_GRAB, *lexicon.grab)), _words((*_DROP, *lexicon.drop))
        self.sentences = self._forms(
            ("not", rf"{who} {be} {negation} {at} the {where}\."),
            ("either", rf"{who} {be} either {at} the {where} or (?:{at} )?the (?P<second>{place})\."),
            ("in", rf"{who} {be} {at} the {where}\."),
            ("move", rf"{who} {move} to the {where}\."),
            ("give", rf"{who} {give} {things} to {to}{there}\."),
            ("give", rf"{who} {give} {to} {things}{there}\."),
            ("grab", rf"{who} {grab} {things}{there}\."),
            ("drop", rf"{who} {drop} {things}{there}\."),
            *(("grab", rf"{who} {stems} {things} {p}{there}\.") for p, stems in _parted((*_GRAB, *lexicon.grab))),
            *(("drop", rf"{who} {stems} {things} {p}{there}\.") for p, stems in _parted((*_DROP, *lexicon.drop))),
            *(("give", rf"{who} {stems} {things} {p} to {to}{there}\.") for p, stems in _parted(lexicon.give)),
            ("no give", rf"{who} did not {_words((*_NOT_GIVE, *lexicon.not_give))} the {what} to {to}\."),
            ("no give", rf"{who} did not {_words((*_NOT_GIVE, *lexicon.not_give))} {to} the {what}\."),
            ("no grab", rf"{who} did not {_words((*_NOT_GRAB, *lexicon.not_grab))} the {what}(?: there)?\."),
            ("no drop", rf"{who} did not {_words((*_NOT_DROP, *lexicon.not_drop))} the {what}(?: there)?\."),
        )
        person, other = f"(?P<person>{name})", f"(?P<other>{name})"
        self.questions = self._forms(
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
        # Whole files repeat few sentences, so each is matched once.
        self.event: Callable[[str], tuple[Event, str]] = cache(self._event)
        self.question: Callable[[str], Question] = cache(self._question)

    @staticmethod
    def _forms(*forms: tuple[str, str]) -> tuple[_Form, ...]:
        return tuple(_Form(kind, re.compile(pattern)) for kind, pattern in forms)

    def _event(self, text: str) -> tuple[Event, str]:
        """The event of a sentence, and its pronoun (whose subject is still open) or nothing."""
        for form in self.sentences:
            match = form.pattern.fullmatch(text)
            if match is None:
                continue
            got = match.groupdict()
            pronoun = (got["pronoun"] or "").lower()
            who = () if pronoun else tuple(re.split(r", and |, | and ", got["who"]))
            if len(set(who)) < len(who):
                raise _Unreadable(f"{who[0]} is named twice as subject")
            if len(who) > 1 and form.kind in ("grab", "drop", "give"):
                raise _Unreadable("two persons cannot hold one thing; say it of one of them")
            if got.get("also") and got["also"] == got["thing"]:
                raise _Unreadable(f"the {got['also']} is named twice")
            places = tuple(got[k] for k in ("place", "second", "first", "last", "only") if got.get(k))
            # Published task 10 has "either in the kitchen or the kitchen" (88 times): odd, but it says where.
            to = got.get("to") or ""
            if to and to in who:
                raise _Unreadable(f"{to} gives something to {to}")
            event = Event(
                cast(Kind, form.kind.removeprefix("no ")),
                who,
                places,
                got.get("thing") or "",
                to,
                bool(pronoun or got.get("them")),
                text,
                got.get("also") or "",
                bool(got.get("them")),
                form.kind.startswith("no "),
            )
            return event, pronoun
        if re.search(r"\b[Ee]ither\b", text):
            raise _Unreadable("'either' goes with places only, or the story would not say who holds what")
        raise _Unreadable("this is none of the sentence forms (docs/babi.md, 'A construct on any event')")

    def _question(self, text: str) -> Question:
        for form in self.questions:
            match = form.pattern.fullmatch(text)
            if match is None:
                continue
            got = match.groupdict()
            parts = {k: got.get(k) or "" for k in ("person", "thing", "place", "other")}
            if form.kind in ("where-P", "where-O", "where-was-O", "yes-no", "list", "counting"):
                return Question(form.kind, **parts, text=text)  # type: ignore[arg-type]
            return Question("give-qs", **parts, form=cast(GiveForm, form.kind), text=text)
        raise _Unreadable("this is none of the question forms (docs/babi.md, 'What a group can say')")

    def resolve(self, event: Event, pronoun: str, before: Event | None) -> Event:
        """The event with its pronouns replaced by the subjects, and for "them" the objects, of the sentence before."""
        if event.them:
            if before is None or not before.also:
                raise _Unreadable("'them' has no sentence with two things before it to refer to")
            event = replace(event, thing=before.thing, also=before.also)
        if not pronoun:
            return event
        if before is None:
            raise _Unreadable(f"'{pronoun}' has no sentence before it to refer to")
        if pronoun != "they" and len(before.who) > 1:
            raise _Unreadable(f"'{pronoun}' cannot refer to {' and '.join(before.who)}")
        if len(before.who) == 1 and self.pronouns.get(before.who[0], pronoun) != pronoun:
            raise _Unreadable(f"'{pronoun}' cannot refer to {before.who[0]}, the subject of the sentence before")
        if event.thing and not event.denied and len(before.who) > 1:
            raise _Unreadable(f"'{pronoun}' is {' and '.join(before.who)}, and two persons cannot hold one thing")
        if event.to in before.who:
            raise _Unreadable(f"{event.to} gives something to {event.to}")
        return replace(event, who=before.who)


@lru_cache(maxsize=16)
def grammar_of(vocabulary: Vocabulary | None = None, lexicon: StoryLexicon = DYNA) -> Grammar:
    """The grammar of a vocabulary and lexicon, made once; over any names by default."""
    return Grammar(vocabulary, lexicon)


def understand(numbered: text_format.StoryText, name: str, grammar: Grammar | None = None) -> Story:
    """The story that some lines tell.

    Args:
        numbered: The lines of one story.
        name: The file, for messages.
        grammar: The forms to read by; any names by default.

    Raises:
        InputError: With the place of the line that cannot be read, and why.
    """
    grammar = grammar or grammar_of()
    events: list[Event] = []
    asked: list[PlacedQuestion] = []
    for line in numbered.lines:
        try:
            if isinstance(line, text_format.QuestionLine):
                question = grammar.question(line.text)
                asked.append(
                    PlacedQuestion(question, len(events), line.number, line.answer or "", line.support, line.line)
                )
            else:
                event, pronoun = grammar.event(line.text)
                events.append(grammar.resolve(event, pronoun, events[-1] if events else None))
        except _Unreadable as error:
            raise InputError(f"{name}:{line.line}: cannot read {line.text[:80]!r}: {error}") from None
    told = numbered.sentences
    return Story(tuple(events), tuple(x.number for x in told), tuple(asked), tuple(x.line for x in told))


def parse(text: str, name: str = "story", vocabulary: Vocabulary | None = None) -> list[Story]:
    """All stories of a text in bAbI format.

    >>> [s.asked[0].question.kind for s in parse("1 Mary went to the park.\\n2 Where is Mary?\\tpark\\t1\\n")]
    ['where-P']
    """
    return [understand(story, name, grammar_of(vocabulary)) for story in text_format.read_story_text(text, name)]


def parse_path(path: Path, vocabulary: Vocabulary | None = None) -> list[Story]:
    """All stories of a file in bAbI format."""
    return [understand(story, str(path), grammar_of(vocabulary)) for story in text_format.read_path(path)]


def parse_passage(
    passage: str, question: str, vocabulary: Vocabulary | None = None, lexicon: StoryLexicon = DYNA
) -> Story:
    """One story told in running text, as models see it: sentences that end in a full stop, then a question."""
    sentences = [s if s.endswith(".") else s + "." for s in re.split(r"(?<=\.)\s+", passage.strip()) if s]
    told: list[text_format.Sentence | text_format.QuestionLine] = [
        text_format.Sentence(i, s, i) for i, s in enumerate(sentences, 1)
    ]
    told.append(text_format.QuestionLine(len(told) + 1, question.strip(), line=len(told) + 1))
    return understand(text_format.StoryText(tuple(told)), "the input", grammar_of(vocabulary, lexicon))
