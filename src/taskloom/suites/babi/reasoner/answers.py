"""Answers questions from a state of knowledge, with every minimal support.

An answer is given only if it is true in every possible world. A question may refer to an event
determined by the whole story, such as the last time the milk was given away or came into the park.
The support need not show which sentence this is, only what it states.

The second half of the module writes proofs: in words, and as derivations for analyses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from taskloom.core.example import Step
from taskloom.suites.babi.reasoner.knowledge import Handling, Knowledge
from taskloom.suites.babi.story.events import EVENT_TYPES, Event, Question, Remembered
from taskloom.suites.babi.story.sentences import number_word

Test = Callable[[int], bool]
"""Predicate on a set of sentences (a bit mask): True if the set supports the answer."""


def needs(events: Sequence[Event]) -> list[int]:
    """For each sentence, return the set that must be read to understand it: itself, and previous
    sentences back to the last one without a pronoun.
    """
    masks: list[int] = []
    before, own = 0, 1
    for event in events:
        before = own | before if event.pronoun else own
        masks.append(before)
        own <<= 1
    return masks


def bits(mask: int) -> list[int]:
    """Return the positions of the set bits in a mask, in ascending order."""
    positions = []
    while mask:
        low = mask & -mask
        positions.append(low.bit_length() - 1)
        mask ^= low
    return positions


def minimal_sets(universe: int, supports: Test) -> list[int]:
    """Find all minimal subsets of a universe that pass a monotone test. There are none if the whole
    universe fails.

    This is Reiter's hitting-set tree. For each set found, every member is excluded in turn. Every
    other minimal set lacks at least one of them, so all minimal sets are reached.
    """
    minimal: list[int] = []
    open_nodes, seen = [0], {0}
    while open_nodes:
        without = open_nodes.pop()
        chosen = next((m for m in minimal if not m & without), 0)
        if not chosen:
            rest = universe & ~without
            if not supports(rest):
                continue
            chosen = _shrink(rest, supports)
            minimal.append(chosen)
            if not chosen:
                return [0]  # the answer does not need any sentence
        for i in bits(chosen):
            node = without | (1 << i)
            if node not in seen:
                seen.add(node)
                open_nodes.append(node)
    return minimal


def _shrink(mask: int, supports: Test) -> int:
    """Reduce a set to a minimal one that still passes. Late sentences are removed first, so that
    the earliest remain.
    """
    for i in reversed(bits(mask)):
        without = mask & ~(1 << i)
        if supports(without):
            mask = without
    return mask


def in_order(masks: Iterable[int]) -> list[tuple[int, ...]]:
    """Sort sets as tuples of sentences, shortest first, then earliest. The first is the official
    one.
    """
    sets = [tuple(bits(m)) for m in masks]
    return sets if len(sets) < 2 else sorted(sets, key=lambda t: (len(t), t))


class Located:
    """Supports for statements about one variable: its possible places, given only a set of
    sentences.
    """

    __slots__ = ("_everywhere", "_nodes", "_variable", "universe")

    def __init__(self, knowledge: Knowledge, variable: int, need: Sequence[int]) -> None:
        self._variable = variable
        self._everywhere = knowledge.everywhere
        # For each variable connected to this one: the sentences that narrow it, and the variables
        # that it equals, with the sentences needed to know this.
        self._nodes: dict[int, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
        self.universe = 0
        variables = [variable]
        for here in variables:  # grows during the loop
            narrowings = [(need[s], mask) for mask, s in knowledge.narrowings[here]]
            links: list[tuple[int, int]] = []
            for needed, _ in narrowings:
                self.universe |= needed
            for other, sentences in knowledge.links.get(here, ()):
                needed = 0
                for s in sentences:
                    needed |= need[s]
                links.append((needed, other))
                self.universe |= needed
                if other not in variables:
                    variables.append(other)
            self._nodes[here] = narrowings, links

    def domain(self, read: int) -> int:
        """Return the places that the variable may have if only these sentences are read."""
        mask, nodes = self._everywhere, self._nodes
        variables = [self._variable]
        for here in variables:  # grows during the loop
            narrowings, links = nodes[here]
            for needed, allowed in narrowings:
                if needed & read == needed:
                    mask &= allowed
            for needed, other in links:
                if needed & read == needed and other not in variables:
                    variables.append(other)
        return mask

    def sets(self, wanted: Callable[[int], bool]) -> list[int]:
        """Find all minimal sets for which the domain passes `wanted`. The condition must remain
        true when the domain shrinks.
        """
        return minimal_sets(self.universe, lambda read: wanted(self.domain(read)))


def product(*alternatives: Sequence[int]) -> list[int]:
    """Return the minimal unions of one set from each group of alternatives."""
    unions = {0}
    for group in alternatives:
        unions = {u | m for u in unions for m in group}
    if len(unions) == 1:
        return list(unions)
    return [u for u in unions if not any(v != u and v & u == v for v in unions)]


UNKNOWN = "unknown"
MAYBE = "maybe"


class Verdict(NamedTuple):
    """A reader's answer to a question.

    Attributes:
        answer: The answer, or `unknown` if the story does not settle it.
        items: Parts of the answer, for lists.
        possible: All places that remain possible, for questions about places.
    """

    answer: str
    items: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """True if the story settles the question. "maybe" counts as settled: it means that yes and
        no both remain possible.
        """
        return self.answer != UNKNOWN


def answer(knowledge: Knowledge, question: Question) -> Verdict:
    """Answer a question according to what the sentences so far entail."""
    kind = question.kind
    if kind == "where-P":
        return _where(knowledge, knowledge.stay.get(question.person))
    if kind == "where-O":
        return _where(knowledge, whereabouts(knowledge, question.thing))
    if kind == "yes-no":
        return _yes_no(knowledge, question)
    if kind == "where-was-O":
        came = arrival(knowledge, question.thing, question.place)
        return _where(knowledge, came.before) if came else Verdict(UNKNOWN)
    if kind == "give-qs":
        gift = latest_gift(knowledge, question)
        return _given(gift, question) if gift else Verdict(UNKNOWN)
    things = tuple(sorted(knowledge.holding(question.person)))
    if kind == "counting":
        return Verdict(number_word(len(things)), things)
    return Verdict(",".join(things) or "nothing", things)


def _where(knowledge: Knowledge, variable: int | None) -> Verdict:
    if variable is None:
        return Verdict(UNKNOWN)
    possible = knowledge.domain(variable)
    names = tuple(knowledge.names(possible))
    single = possible & (possible - 1) == 0 and len(names) == 1
    return Verdict(names[0] if single else UNKNOWN, possible=names)


def _yes_no(knowledge: Knowledge, question: Question) -> Verdict:
    variable = knowledge.stay.get(question.person)
    possible = knowledge.everywhere if variable is None else knowledge.domain(variable)
    bit = knowledge.bits[question.place]
    names = tuple(knowledge.names(possible))
    if not possible & bit:
        return Verdict("no", possible=names)
    return Verdict("yes" if possible == bit else MAYBE, possible=names)


def whereabouts(knowledge: Knowledge, name: str) -> int | None:
    """Return the variable for an object's current place: its holder's stay, or the stay in which it
    was left.
    """
    thing = knowledge.things.get(name)
    if thing is None or thing.last < 0:
        return None
    return knowledge.stay[thing.holder] if thing.holder else thing.ground


@dataclass(frozen=True, slots=True)
class Arrival:
    """The last time an object came into a place: the stays before and after, and the ways to prove
    who carried it.

    Each way is a set of sentences: the one by which the carrier got the object, or the one by which
    they gave it up, with all denials about the object in between.
    """

    before: int
    after: int
    shown_by: tuple[tuple[int, ...], ...]


def arrival(knowledge: Knowledge, name: str, place: str) -> Arrival | None:
    """Find the last time an object came into a place, if it is the same in every world and the
    previous place is known.

    The search goes back through the object's changes of place. A change that cannot lead into the
    place from elsewhere is skipped. The first change that can must certainly do so.
    """
    thing = knowledge.things.get(name)
    if thing is None:
        return None
    bit = knowledge.bits[place]
    for carry in reversed(thing.carries):
        before, after = knowledge.domain(carry.before), knowledge.domain(carry.after)
        if not after & bit or before == bit or knowledge.same(carry.before, carry.after):
            continue
        if (
            after != bit
            or before & bit
            or len(knowledge.names(before)) != 1
            or before & (before - 1)
        ):
            return None
        # The holder is known from the sentence in which they got the object, or from the one in
        # which it was taken from them.
        shown = [tuple([h.sentence for h in thing.handlings[carry.handling : carry.handlings]])]
        until: list[int] = []
        for handling in thing.handlings[carry.handlings :]:
            until.append(handling.sentence)
            if not handling.event.denied:
                shown.append(tuple(until))
                break
        return Arrival(carry.before, carry.after, tuple(shown))
    return None


def fitting_gifts(knowledge: Knowledge, question: Question) -> list[Handling]:
    """List every GIVE that matches a give question, in order."""
    wanted = (question.person, question.thing, question.other)
    gifts = ((gift, (gift.event.who[0], gift.thing, gift.event.to)) for gift in knowledge.gifts)
    return [
        gift
        for gift, names in gifts
        if all(a in ("", b) for a, b in zip(wanted, names, strict=True))
    ]


def latest_gift(knowledge: Knowledge, question: Question) -> Handling | None:
    """Return the latest GIVE that matches a give question."""
    fits = fitting_gifts(knowledge, question)
    return fits[-1] if fits else None


def _given(gift: Handling, question: Question) -> Verdict:
    event = gift.event
    if question.form == "given":
        # two things in "Mary gave the apple and the milk to John"
        things = tuple(sorted(event.things))
        return Verdict(",".join(things), things)
    return Verdict(event.who[0] if question.form in ("gave", "gave-to") else event.to)


def _all(need: Sequence[int], sentences: Iterable[int]) -> int:
    """Return all sentences to read, including the antecedents of their pronouns."""
    mask = 0
    for sentence in sentences:
        mask |= need[sentence]
    return mask


def supports(
    knowledge: Knowledge, question: Question, verdict: Verdict | None = None
) -> list[tuple[int, ...]]:
    """Return all minimal sets of sentences (by index) that support the answer, the official one
    first. Empty if the answer is unknown.
    """
    verdict = verdict or answer(knowledge, question)
    if not verdict.known:
        return []
    need = needs(knowledge.events)
    kind = question.kind
    if kind == "where-P":
        return in_order(_located(knowledge, knowledge.stay[question.person], need))
    if kind == "yes-no":
        return in_order(_yes_no_sets(knowledge, question, verdict, need))
    if kind == "where-O":
        variable = whereabouts(knowledge, question.thing)
        assert variable is not None
        last = _all(need, knowledge.things[question.thing].since())
        return in_order(product(_located(knowledge, variable, need), [last]))
    if kind == "where-was-O":
        came = arrival(knowledge, question.thing, question.place)
        assert came is not None
        places = (_located(knowledge, came.before, need), _located(knowledge, came.after, need))
        return in_order(product(*places, [_all(need, way) for way in came.shown_by]))
    if kind == "give-qs":
        gift = latest_gift(knowledge, question)
        assert gift is not None
        return in_order([need[gift.sentence]])
    return in_order(_holding_sets(knowledge, question.person, need))


def _located(knowledge: Knowledge, variable: int, need: Sequence[int]) -> list[int]:
    narrowings = knowledge.narrowings[variable]
    if len(narrowings) == 1 and variable not in knowledge.links:
        return [
            need[narrowings[0][1]]
        ]  # fast path for the common case: a sentence has just placed the person there
    wanted = knowledge.domain(variable)
    return Located(knowledge, variable, need).sets(lambda domain: domain == wanted)


def _yes_no_sets(
    knowledge: Knowledge, question: Question, verdict: Verdict, need: Sequence[int]
) -> list[int]:
    variable = knowledge.stay.get(question.person)
    if variable is None:
        return [0]  # "maybe" about a person who has not been mentioned
    if verdict.answer == "no":
        bit = knowledge.bits[question.place]
        return Located(knowledge, variable, need).sets(lambda domain: not domain & bit)
    return _located(knowledge, variable, need)


def _holding_sets(knowledge: Knowledge, person: str, need: Sequence[int]) -> list[int]:
    """For every object of the story, combine the ways to prove whether a person holds it now.

    If they hold it: how they got it, and all denials about the object since. If not: the last
    sentence that took it from them, or any later one that places it elsewhere. If there were only
    denials, all of them.
    """
    groups: list[list[int]] = []
    for thing in knowledge.things.values():
        if thing.holder == person:
            groups.append([_all(need, thing.since())])
            continue
        ways = [0]  # at the start nobody holds anything
        for handling in thing.handlings:
            elsewhere = [need[handling.sentence]] if handling.leaves(person) else []
            if not handling.names(person):
                ways += elsewhere if ways != [0] else []
            elif handling.event.denied:
                ways = [way | need[handling.sentence] for way in ways]
            else:
                ways = elsewhere
        groups.append(ways)
    return product(*groups)


def cited_support(knowledge: Knowledge, question: Question) -> tuple[int, ...] | None:
    """Return the support that bAbI cites for a list or a count: every sentence that names the
    person and an object. None for other questions.
    """
    if question.kind not in ("list", "counting"):
        return None
    person = question.person
    sentences = [i for i, e in enumerate(knowledge.events) if e.thing and person in (*e.who, e.to)]
    return tuple(bits(_all(needs(knowledge.events), sentences)))


def says(event: Event) -> str:
    """State what a sentence says, with its pronoun resolved, in the wording of its type."""
    event_type = EVENT_TYPES[event.kind]
    who, plural = " and ".join(event.who), len(event.who) > 1
    words = {
        "who": who,
        "be": "are" if plural else "is",
        "things": " and ".join([f"the {thing}" for thing in event.things]),
        "thing": event.thing,
        "also": event.also,
        "to": event.to,
    }
    if event.denied:
        return f"{who} {'do' if plural else 'does'} not {event_type.denied_proof.format(**words)}"
    if event_type.handles:
        where = (
            f" in {' or '.join(f'the {place}' for place in event.places)}" if event.places else ""
        )
        return event_type.proof.format(**words, where=where, where_or_there=where or " there")
    return event_type.proof.format(**words, place=event.places[0], second=event.places[-1])


def in_words(
    knowledge: Knowledge,
    question: Question,
    verdict: Verdict,
    support: Sequence[int],
    lines: Sequence[int],
) -> str:
    """Write the proof of an answer in words, with line numbers. For an open question, write what
    remains possible.
    """
    if verdict.answer == UNKNOWN:
        if verdict.possible and len(verdict.possible) < len(knowledge.places):
            return f"the story leaves open: {', '.join(verdict.possible)}"
        return "the story does not say"
    left: dict[str, tuple[int, str]] = {}
    parts: list[str] = []
    for i in support:
        event = knowledge.events[i]
        text = f"[{lines[i]}] {says(event)}"
        for thing in () if event.denied else event.things:
            if event.kind == "drop":
                left[thing] = (lines[i], event.who[0])
                continue
            before = left.pop(thing, None)
            if event.kind == "grab" and before is not None and before[1] != event.who[0]:
                text += f", so {event.who[0]} is where {before[1]} left the {thing}"
        parts.append(text)
    fits = (
        len({g.sentence for g in fitting_gifts(knowledge, question)})
        if question.kind == "give-qs"
        else 1
    )
    latest = f" (the latest of {fits} gifts that fit the question)" if fits > 1 else ""
    parts.append(f"so the answer is {verdict.answer}{latest}")
    return "; ".join(parts)


_STEPS: Remembered[Event, Step] = Remembered(
    lambda event: Step("+".join(event.concepts()), says(event), ())
)
"""A sentence as a step of a proof."""


def derivation(
    events: Sequence[Event], support: Sequence[int], question: Question, answer: str
) -> list[Step]:
    """Return the official support as a derivation: the concepts of each sentence, then the question
    that combines them.
    """
    steps = [_STEPS[events[i]] for i in support]
    rule = question.kind if question.kind != "give-qs" else f"give-qs/{question.form}"
    return [*steps, Step(rule, answer, tuple(range(len(steps))))]
