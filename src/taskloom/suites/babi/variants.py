"""Variants of a story: without some sentences, persons or objects; with other places, objects,
persons or negations; with other wording, another order, or irrelevant sentences.

An edit is made in the text, and the edited story is parsed again from its first sentence. The
variant is used only if every sentence that was not edited still means the same (a pronoun may have
changed its antecedent), the story does not contradict itself, and its question can still be
answered.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from taskloom.core.errors import InputError
from taskloom.core.example import Example
from taskloom.core.plan import Variant, VariantKind
from taskloom.core.seeding import Key, Random
from taskloom.suites.babi.generator.examples import concepts_of, make_example, signature
from taskloom.suites.babi.generator.story_setting import answer_question
from taskloom.suites.babi.reasoner.answers import MAYBE, UNKNOWN, answer, supports
from taskloom.suites.babi.reasoner.knowledge import Contradiction, Knowledge, Reading
from taskloom.suites.babi.story.events import EVENT_TYPES, Event, Kind, Question
from taskloom.suites.babi.story.grammar import parse_passage
from taskloom.suites.babi.story.sentences import SentenceWriter
from taskloom.suites.babi.story.text_format import split_passage
from taskloom.suites.babi.story.vocabulary import StoryLexicon, Vocabulary


class StoryEdit(NamedTuple):
    """An edited story.

    Attributes:
        kind: Intended effect of the edit.
        edit: Name of the edit.
        sentences: The text of each sentence, with its index in the original. The index is None for
            a sentence that is new or changed.
        before: Text that was replaced.
        after: Text that replaced it.
    """

    kind: VariantKind
    edit: str
    sentences: list[tuple[str, int | None]]
    before: str
    after: str


class OriginalStory(NamedTuple):
    """The original story as parsed from its text."""

    example: Example
    events: Sequence[Event]
    question: Question
    answer: str
    support: frozenset[int]

    def replaced(self, i: int, text: str) -> list[tuple[str, int | None]]:
        """Return the sentences with sentence i replaced."""
        return [(text, None) if at == i else (e.text, at) for at, e in enumerate(self.events)]

    def without(self, left_out: Collection[int]) -> list[tuple[str, int | None]]:
        """Return the sentences without some of them."""
        return [(e.text, at) for at, e in enumerate(self.events) if at not in left_out]


class StoryVariants:
    """Generates the candidates of `Plan.variants` for stories with one vocabulary and wording."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        lexicon: StoryLexicon,
        reading: Reading = "natural",
        cited: Collection[str] = (),
    ) -> None:
        """Store the words of the stories.

        Args:
            vocabulary: Persons, objects and places.
            lexicon: Verbs and function words.
            reading: How sentences are read: `natural` or `strict`.
            cited: Groups that use the support cited by bAbI.
        """
        self._vocabulary = vocabulary
        self._lexicon = lexicon
        self._reading = reading
        self._cited = cited
        self._writer = SentenceWriter(vocabulary, lexicon)

    def __call__(self, example: Example) -> Iterator[Variant]:
        """Yield candidates: first simpler ones (shortest first), then flips, then keeps."""
        story = self._read(example)
        rng = Key("babi/variants", example.input).random()
        simpler = [
            *self._names_fewer(story),
            *self._handled_less(story),
            *self._sentence_fewer(story),
        ]
        simpler.sort(key=lambda edit: len(edit.sentences))
        edits = [*simpler, *self._flips(story, rng), *self._keeps(story, rng)]
        for edit in edits:
            varied = self._example(story, edit)
            if varied is not None:
                yield Variant(edit.kind, edit.edit, varied, edit.before, edit.after)

    # Parsing a story, and answering an edited one

    def _read(self, example: Example) -> OriginalStory:
        sentences, asked = split_passage(example.input)
        events, question = self._parse(sentences, asked)
        knowledge = Knowledge(self._vocabulary.places, self._reading).tell_all(events)
        sets = supports(knowledge, question)
        support = frozenset(sets[0]) if sets else frozenset(range(len(events)))
        verdict = answer(knowledge, question)
        return OriginalStory(example, events, question, verdict.answer, support)

    def _parse(self, sentences: Sequence[str], asked: str) -> tuple[tuple[Event, ...], Question]:
        story = parse_passage(" ".join(sentences), asked, self._vocabulary, self._lexicon)
        return story.events, story.questions[0].question

    def _example(self, story: OriginalStory, edit: StoryEdit) -> Example | None:
        """Return the edited story with its answer, or None if it is not a valid variant."""
        texts = [text for text, _ in edit.sentences]
        try:
            events, question = self._parse(texts, story.question.text)
            knowledge = Knowledge(self._vocabulary.places, self._reading).tell_all(events)
        except (InputError, Contradiction):
            return None
        for event, (_, original) in zip(events, edit.sentences, strict=True):
            if original is not None and event != story.events[original]:
                return None
        if not _asks_about_known(knowledge, question):
            return None
        found = answer(knowledge, question).answer
        # If the recipe has no open questions, an edit must not create one.
        if found in (UNKNOWN, MAYBE) and found != story.answer:
            return None
        if edit.kind != "simpler" and (found == story.answer) != (edit.kind == "keep"):
            return None
        group = str(story.example.traits.get("group", ""))
        return make_example(
            events,
            " ".join(texts),
            story.question.text,
            answer_question(knowledge, question, group in self._cited),
            group=group,
            task=story.example.task,
            concepts=concepts_of(events),
            key=signature(events) if story.example.key else "",
        )

    # Simpler stories

    def _sentence_fewer(self, story: OriginalStory) -> Iterator[StoryEdit]:
        for i, event in enumerate(story.events):
            yield StoryEdit("simpler", "sentence removed", story.without([i]), event.text, "")

    def _handled_less(self, story: OriginalStory) -> Iterator[StoryEdit]:
        """Remove two successive sentences about an object, because often neither can be removed
        alone.
        """
        last: dict[str, int] = {}
        for i, event in enumerate(story.events):
            for thing in event.things:
                if thing in last:
                    pair = (last[thing], i)
                    before = " ".join(story.events[at].text for at in pair)
                    yield StoryEdit(
                        "simpler", "object handled less", story.without(pair), before, ""
                    )
                last[thing] = i

    def _names_fewer(self, story: OriginalStory) -> Iterator[StoryEdit]:
        """Remove every sentence about a person or an object that the question does not mention."""
        question = story.question
        asked = (question.person, question.other, question.thing)
        persons = {name: "person removed" for e in story.events for name in (*e.who, e.to)}
        things = {name: "object removed" for e in story.events for name in e.things}
        for name, edit in {**persons, **things}.items():
            if not name or name in asked:
                continue
            about = [i for i, e in enumerate(story.events) if name in (*e.who, e.to, *e.things)]
            before = " ".join(story.events[i].text for i in about)
            yield StoryEdit("simpler", edit, story.without(about), before, "")

    # Edits that change the answer

    def _flips(self, story: OriginalStory, rng: Random) -> Iterator[StoryEdit]:
        """Change one word of a supporting sentence, or deny it."""
        words = self._vocabulary
        for i in sorted(story.support):
            event = story.events[i]
            # A pronoun is not in the text by name.
            persons = (event.to,) if event.pronoun else (*event.who, event.to)
            things = () if event.them else event.things
            yield from _replaced(story, i, "another place", event.places, words.places)
            yield from _replaced(story, i, "another object", things, words.objects)
            yield from _replaced(story, i, "another person", persons, words.persons)
            opposite = _opposite(event)
            if opposite is not None:
                text = rng.choice(self._writer.wordings(opposite, event.text))
                denied = opposite.denied or opposite.kind == "not"
                edit = "negation" if denied else "negation removed"
                yield StoryEdit("flip", edit, story.replaced(i, text), event.text, text)

    # Edits that must not change the answer

    def _keeps(self, story: OriginalStory, rng: Random) -> Iterator[StoryEdit]:
        yield from self._other_wordings(story, rng)
        yield from self._irrelevant_sentences(story, rng)
        for i, event in enumerate(story.events):
            if i not in story.support:
                sentences = story.without([i])
                yield StoryEdit("keep", "irrelevant sentence removed", sentences, event.text, "")
        yield from self._other_orders(story)

    def _other_wordings(self, story: OriginalStory, rng: Random) -> Iterator[StoryEdit]:
        """Replace the verb or the negation in each sentence that has alternatives."""
        for i, event in enumerate(story.events):
            ending = " there." if event.text.endswith(" there.") else "."
            others = []
            for text in self._writer.wordings(event._replace(text=""), event.text):
                worded = text.removesuffix(".") + ending
                if worded != event.text:
                    others.append(worded)
            if others:
                text = rng.choice(others)
                sentences = story.replaced(i, text)
                yield StoryEdit("keep", "another wording", sentences, event.text, text)

    def _irrelevant_sentences(self, story: OriginalStory, rng: Random) -> Iterator[StoryEdit]:
        """Insert a sentence about a person who is not in the story, at each position."""
        mentioned = {name for e in story.events for name in (*e.who, e.to)}
        mentioned |= {story.question.person, story.question.other}
        strangers = [name for name in self._vocabulary.persons if name not in mentioned]
        if not strangers:
            return
        for i in range(len(story.events) + 1):
            place = rng.choice(self._vocabulary.places)
            event = Event("move", (rng.choice(strangers),), (place,))
            text = rng.choice(self._writer.wordings(event))
            sentences = story.without([])
            sentences.insert(i, (text, None))
            yield StoryEdit("keep", "irrelevant sentence", sentences, "", text)

    def _other_orders(self, story: OriginalStory) -> Iterator[StoryEdit]:
        """Exchange adjacent sentences that have no person and no object in common."""
        for i in range(len(story.events) - 1):
            one, two = story.events[i], story.events[i + 1]
            names = {*one.who, one.to, *one.things} - {""}
            if names & {*two.who, two.to, *two.things}:
                continue
            sentences = story.without([])
            sentences[i], sentences[i + 1] = sentences[i + 1], sentences[i]
            before, after = f"{one.text} {two.text}", f"{two.text} {one.text}"
            yield StoryEdit("keep", "another order", sentences, before, after)


def _replaced(
    story: OriginalStory, i: int, edit: str, own: Collection[str], others: Iterable[str]
) -> Iterator[StoryEdit]:
    """Replace each name of a kind in sentence i by every other name of the kind."""
    text = story.events[i].text
    for word, other in product(filter(None, own), others):
        if other not in own:
            changed = re.sub(rf"\b{re.escape(word)}\b", other, text)
            yield StoryEdit("flip", edit, story.replaced(i, changed), word, other)


def _asks_about_known(knowledge: Knowledge, question: Question) -> bool:
    """True if the story mentions every person and object in the question."""
    persons = [name for name in (question.person, question.other) if name]
    if not all(person in knowledge.stay for person in persons):
        return False
    if question.thing and question.thing not in knowledge.things:
        return False
    if question.kind in ("list", "counting"):
        handlings = [h for thing in knowledge.things.values() for h in thing.handlings]
        return any(handling.names(question.person) for handling in handlings)
    return True


def _opposite(event: Event) -> Event | None:
    """Return the event with its denial toggled, or None if that cannot be expressed."""
    if event.kind in ("move", "in", "not"):
        kind: Kind = "in" if event.kind == "not" else "not"
        return event._replace(kind=kind, text="")
    if event.thing and EVENT_TYPES[event.kind].denied and not (event.also or event.places):
        return event._replace(denied=not event.denied, text="")
    return None
