"""The second solver derives answers from the text by a different method than the reasoner.

It has no concept of stays. Every person and every object has a place at every moment. A place
carries over from one moment to the next unless a sentence interferes, and equal places are found by
flood fill. The possible places of a filled region are the intersection of all statements about it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from taskloom.core.errors import InputError
from taskloom.core.example import Example
from taskloom.suites.babi.story.events import Event, Question
from taskloom.suites.babi.story.grammar import parse_passage
from taskloom.suites.babi.story.vocabulary import DYNA, StoryLexicon, Vocabulary

Node = tuple[str, int]

_COUNTS = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


class Moments:
    """Place of every person and object at every moment, as far as the sentences determine it.

    A node is a name at a moment. Moment 0 is before the first sentence, and moment n after the
    n-th.

    Attributes:
        events: The sentences.
        strict: True if people are always in one of the named places, and a person who goes
            somewhere was elsewhere before.
        universe: All possible places. "" is an unnamed place.
        hands: For every moment, the holder of each object that is held.
        edges: For each node, the nodes that certainly have the same place.
        allowed: For each node mentioned in a sentence, the places that the sentence allows.
        things: All objects.
    """

    def __init__(self, events: Sequence[Event], places: Sequence[str], strict: bool) -> None:
        self.events = events
        self.universe = frozenset(places) if strict else frozenset((*places, ""))
        self.strict = strict
        self.hands: list[dict[str, str]] = [{}]
        self.edges: dict[Node, set[Node]] = defaultdict(set)
        self.allowed: dict[Node, frozenset[str]] = {}
        names = {person for e in events for person in (*e.who, e.to)} - {""}
        self.things = {thing for e in events for thing in e.things}
        for moment, event in enumerate(events, 1):
            self._step(moment, event, names)

    def _same(self, one: Node, other: Node) -> None:
        self.edges[one].add(other)
        self.edges[other].add(one)

    def _limit(self, node: Node, places: frozenset[str]) -> None:
        self.allowed[node] = self.allowed.get(node, self.universe) & places

    def _step(self, moment: int, event: Event, names: set[str]) -> None:
        before = self.hands[-1]
        after = dict(before)
        # A sentence about an object does not move anybody. Any other sentence states where its
        # people are now.
        placed = set() if event.thing else set(event.who)
        done = () if event.denied else event.things
        for name in names - placed:
            self._same((name, moment - 1), (name, moment))
        named = frozenset(event.places)
        others = self.universe - named
        for name in placed:
            self._limit((name, moment), others if event.kind == "not" else named)
            if self.strict:
                self._limit((name, moment - 1), named if event.kind == "not" else others)
        for thing in done:
            if event.places:
                self._limit((event.who[0], moment), named)
            if event.kind == "grab":
                after[thing] = event.who[0]
            elif event.kind == "drop":
                del after[thing]
            else:
                after[thing] = event.to
                self._same((event.who[0], moment), (event.to, moment))
        # An object is where its holder is, or was when it was put down. Otherwise it does not move.
        for thing in self.things:
            holder = after.get(thing) or (before.get(thing) if thing in done else None)
            if holder:
                self._same((thing, moment), (holder, moment))
            if before.get(thing) not in placed:
                self._same((thing, moment - 1), (thing, moment))
        self.hands.append(after)

    def flood(self, start: Node) -> tuple[frozenset[str], set[Node]]:
        """Return the possible places of a node, and all nodes that have the same place."""
        seen, stack, places = {start}, [start], self.universe
        while stack:
            node = stack.pop()
            places &= self.allowed.get(node, self.universe)
            for other in self.edges[node]:
                if other not in seen:
                    seen.add(other)
                    stack.append(other)
        return places, seen

    def places(self, name: str) -> frozenset[str]:
        """Return the possible places of a person or object at the end."""
        return self.flood((name, len(self.events)))[0]

    def came_from(self, thing: str, place: str) -> frozenset[str]:
        """Return the place from which an object last came into a place, or an empty text if this is
        not certain.
        """
        for moment in range(len(self.events), 0, -1):
            (after, same), (before, _) = (
                self.flood((thing, moment)),
                self.flood((thing, moment - 1)),
            )
            if (thing, moment - 1) in same or place not in after or before == {place}:
                continue
            return before if after == {place} and place not in before else frozenset()
        return frozenset()


def solve(
    events: Sequence[Event], question: Question, places: Sequence[str], strict: bool = False
) -> str:
    """Answer a question after some sentences. Returns 'unknown' if they do not settle it."""
    moments = Moments(events, places, strict)
    kind = question.kind

    def one(places: frozenset[str]) -> str:
        return next(iter(places)) if len(places) == 1 and "" not in places else "unknown"

    if kind == "give-qs":
        return _gift(events, question)
    if kind in ("list", "counting"):
        things = sorted(o for o, holder in moments.hands[-1].items() if holder == question.person)
        if kind == "list":
            return ",".join(things) or "nothing"
        return _COUNTS[len(things)] if len(things) < len(_COUNTS) else str(len(things))
    if kind == "where-was-O":
        return one(moments.came_from(question.thing, question.place))
    places_now = moments.places(question.person or question.thing)
    if kind == "yes-no":
        if question.place not in places_now:
            return "no"
        return "yes" if len(places_now) == 1 else "maybe"
    return one(places_now)


def _gift(events: Sequence[Event], question: Question) -> str:
    role = {"gave": 0, "gave-to": 0, "received": 1, "given-to": 1, "given": 2}[question.form]
    wanted = (question.person, question.other, question.thing)
    for event in reversed([e for e in events if e.kind == "give" and not e.denied]):
        gifts = [(event.who[0], event.to, thing) for thing in event.things]
        answers = {
            gift[role]
            for gift in gifts
            if all(a in ("", b) for a, b in zip(wanted, gift, strict=True))
        }
        if answers:
            return ",".join(sorted(answers))
    return "unknown"


def check(
    example: Example, vocabulary: Vocabulary, lexicon: StoryLexicon = DYNA, strict: bool = False
) -> tuple[str, ...]:
    """Return the acceptable answers to an example, using only its text."""
    if not example.input.endswith(example.question) or not example.question:
        raise InputError(f"the example does not end with its question {example.question!r}")
    story = parse_passage(
        example.input[: -len(example.question)], example.question, vocabulary, lexicon
    )
    return (solve(story.events, story.questions[0].question, vocabulary.places, strict),)
