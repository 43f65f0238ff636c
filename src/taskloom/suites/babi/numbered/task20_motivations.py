"""Task 20, agents' motivations: why a person did something, and where they will go.

World: four states, each with the place and the thing that cure it. A person in a state goes to its
place and then takes its thing. There is one thing of each kind. A why-question asks for the state
that was told of the person before the action. The question presupposes the action, and a state
inferred from the action does not count as its told reason. The pairings of state, place and thing
are the only knowledge that is not in the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import model_validator

from taskloom.core.example import Step
from taskloom.core.seeding import Random
from taskloom.suites.babi.numbered.possible_worlds import WorldRule, entailed, worlds
from taskloom.suites.babi.numbered.task import (
    UNKNOWN,
    WORD,
    Names,
    NumberedTask,
    Proof,
    Share,
    Statement,
    TaskKnobs,
    capital,
    distinct,
)

CURES = {
    "hungry": ("kitchen", "apple"),
    "thirsty": ("kitchen", "milk"),
    "bored": ("garden", "football"),
    "tired": ("bedroom", "pajamas"),
}
"""Place and thing that cure each state."""

GO = ("journeyed", "moved", "travelled", "went", "went back")
GET = ("got", "grabbed", "picked up", "took")

_STATE = re.compile(rf"({WORD}) is ({'|'.join(CURES)})\.")
_WENT = re.compile(rf"({WORD}) (?:{'|'.join(GO)}) to the ({WORD})\.")
_GOT = re.compile(rf"({WORD}) (?:{'|'.join(GET)}) the ({WORD})(?: there)?\.")
_WHERE = re.compile(rf"Where will ({WORD}) go\?")
_WHY_GO = re.compile(rf"Why did ({WORD}) go to the ({WORD})\?")
_WHY_GET = re.compile(rf"Why did ({WORD}) get the ({WORD})\?")


@dataclass(frozen=True, slots=True)
class Does:
    """States that a person is in a state (`is`), went to a place (`go`) or took a thing (`get`).
    Names are in lower case, as in questions.
    """

    who: str
    verb: str
    what: str

    def __str__(self) -> str:
        return f"{self.who} {self.verb} {self.what}"


@dataclass(frozen=True, slots=True)
class Asks:
    """Asks where a person will go (`where`), or why they went somewhere (`go`) or got something
    (`get`).
    """

    who: str
    verb: str
    what: str = ""


class MotiveKnobs(TaskKnobs):
    """Settings of task 20.

    Attributes:
        people: Names of the people in the story.
        states: States that they may be in.
        unknown: Share of people whose state is not told, so that the reason for their actions is
            open.
    """

    people: Names = ("Antoine", "Jason", "Sumit", "Yann")
    states: Names = ("bored", "hungry", "thirsty", "tired")
    unknown: Share = 0.0

    @model_validator(mode="after")
    def _known(self) -> MotiveKnobs:
        distinct(self.people)
        distinct(self.states)
        strange = [s for s in self.states if s not in CURES]
        if strange:
            raise ValueError(f"'{strange[0]}' is not a known state; known: {', '.join(CURES)}")
        return self


def sentence(text: str) -> Does | None:
    """Parse the fact in a sentence. None if the sentence does not belong to this task."""
    for pattern, verb in ((_STATE, "is"), (_WENT, "go"), (_GOT, "get")):
        if match := pattern.fullmatch(text):
            return Does(match[1].lower(), verb, match[2])
    return None


def question(text: str) -> Asks | None:
    """Parse a question. None if it does not belong to this task."""
    if match := _WHERE.fullmatch(text):
        return Asks(match[1].lower(), "where")
    for pattern, verb in ((_WHY_GO, "go"), (_WHY_GET, "get")):
        if match := pattern.fullmatch(text):
            return Asks(match[1].lower(), verb, match[2])
    return None


def derive(statements: Sequence[Statement[Does]], query: Asks) -> Proof:
    """Derive the answer from the last state told before the action or, for where-questions, since
    the person last moved.
    """
    name = capital(query.who)
    own = _until(statements, query)
    last = max((i for i, t in enumerate(own) if t.fact.verb == "is"), default=None)
    if last is None:
        return Proof(UNKNOWN, why=f"nothing says what state {name} was in")
    state = own[last].fact.what
    place = CURES[state][0]
    if query.verb == "where" and any(t.fact.verb == "go" for t in own[last:]):
        return Proof(UNKNOWN, why=f"{name} was {state} and has gone to the {place} already")
    if query.verb != "where" and query.what not in CURES[state]:
        return Proof(UNKNOWN, why=f"{name} was {state}, which is no reason for that")
    # The same state told twice counts as one state with two sentences, either of which is enough.
    supports: list[tuple[int, ...]] = []
    for item in reversed(own[: last + 1]):
        another_state = item.fact.verb == "is" and item.fact.what != state
        cured = item.fact.verb == "go" and query.verb == "where"
        if another_state or cured:
            break
        if item.fact.verb == "is":
            supports.insert(0, (item.number,))
    if query.verb == "where":
        why = f"{name} is {state}, and the cure is in the {place}"
        return Proof(place, tuple(supports), (Step("where its cure is", place, (0,)),), why)
    return Proof(
        state,
        tuple(supports),
        (Step("motive of the deed", state, (0,)),),
        f"{name} was {state} before",
    )


def _until(statements: Sequence[Statement[Does]], query: Asks) -> list[Statement[Does]]:
    """Return the facts told about the person before the action. An action that was not told is
    assumed to happen at the time of the question.
    """
    own = [t for t in statements if t.fact.who == query.who]
    asked = (query.verb, query.what)
    deeds = [i for i, t in enumerate(own) if (t.fact.verb, t.fact.what) == asked]
    return own[: deeds[-1]] if deeds else own


def second(statements: Sequence[Statement[Does]], query: Asks) -> tuple[str, ...]:
    """Answer by enumerating a state (or none) for the person after every sentence. It changes only
    at sentences that say so.
    """
    facts = [t.fact for t in statements]
    deeds = [i for i, f in enumerate(facts) if f == Does(query.who, query.verb, query.what)]
    moment = deeds[-1] if deeds else len(facts)
    domains = {i: [*CURES, "none"] for i in range(moment + 1)}
    rules = []
    for i, fact in enumerate(facts[:moment], 1):
        if fact.who == query.who and fact.verb == "is":
            rules.append(WorldRule((i,), lambda now, state=fact.what: now == state))
        elif fact.who == query.who and fact.verb == "go" and query.verb == "where":
            # A trip cures: afterwards the person is in no state that would send them on another
            # trip, until a new state is told.
            rules.append(WorldRule((i,), lambda now: now == "none"))
        else:
            rules.append(WorldRule((i - 1, i), lambda before, now: before == now))
    ends = {world[moment] for world in worlds(domains, rules)}
    if query.verb == "where":
        return entailed(CURES[e][0] if e != "none" else UNKNOWN for e in ends)
    return entailed(e if query.what in CURES.get(e, ()) else UNKNOWN for e in ends)


def clash(statements: Sequence[Statement[Does]], new: Statement[Does]) -> tuple[int, ...] | None:
    """Return the sentence that a new one contradicts: actions must fit the state before them, and
    nothing is taken twice.
    """
    fact = new.fact
    if fact.verb == "get":
        for old in statements:
            if old.fact.verb == "get" and old.fact.what == fact.what:
                return (old.number,)
    states = [t for t in statements if t.fact.who == fact.who and t.fact.verb == "is"]
    if fact.verb == "is" or not states:
        return None
    place, thing = CURES[states[-1].fact.what]
    fitting = thing if fact.verb == "get" else place
    return None if fact.what == fitting else (states[-1].number,)


def draw_story(rng: Random, knobs: MotiveKnobs) -> list[str]:
    """Draw who acts next until no one can, and ask a question after each sentence."""
    state = {who: rng.choice(knobs.states) for who in knobs.people}
    silent = {who for who in knobs.people if rng.random() < knobs.unknown}
    stage = dict.fromkeys(knobs.people, 0)  # 0: tell the state, 1: go, 2: take, 3: done
    taken: set[str] = set()
    texts: list[str] = []
    while True:
        able = []
        for who in knobs.people:
            free = CURES[state[who]][1] not in taken
            if stage[who] < 2 or (stage[who] == 2 and free):
                able.append(who)
        if not able:
            return texts
        who = rng.choice(able)
        place, thing = CURES[state[who]]
        name = who.lower()
        if stage[who] == 0 and who not in silent:
            texts += [f"{who} is {state[who]}.", f"Where will {name} go?"]
        elif stage[who] == 1:
            texts += [
                f"{who} {rng.choice(GO)} to the {place}.",
                f"Why did {name} go to the {place}?",
            ]
        elif stage[who] == 2:
            texts += [
                f"{who} {rng.choice(GET)} the {thing} there.",
                f"Why did {name} get the {thing}?",
            ]
            taken.add(thing)
        stage[who] += 1


def mentions(item: Does | Asks) -> tuple[str, ...]:
    """Return the person in a fact or question."""
    return (item.who,)


TASK: NumberedTask[Does, Asks] = NumberedTask(
    20,
    "agents' motivations",
    "Read the story and say where the person will go, or why they did what is asked.",
    MotiveKnobs,
    draw_story,
    sentence,
    question,
    derive,
    second,
    clash,
    mentions,
    lambda query: {"where": "where-will", "go": "why-go", "get": "why-get"}[query.verb],
    ("Sumit is tired.", "Why did sumit go to the bedroom?"),
)
