"""Openings, fillers and details of a domain, dealt like cards: no wording repeats before the deck
runs out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod

from taskloom.core.seeding import Key
from taskloom.suites.zest.synthetic.domain import Domain

SLOT = re.compile(r"\[([^\]]*)\]")
"""Slot with alternative words, or with the ends of a range of numbers."""


TURNS = 2
"""Number of times that a task uses the same text, with other fillings: the paper's twenty passages
use ten to twelve texts. It does not depend on the recipe's number of passages, so that more
passages leave the first ones unchanged.
"""

DETAILED = 20
"""Number of passages per task in the paper, for which fillings of every detail are reserved. Later
passages use those of the next task.
"""


@lru_cache(maxsize=1024)
def slots(text: str) -> tuple[str | Sequence[str] | range, ...]:
    """Divide a text into its words and the options of its slots. A domain has some hundred such
    texts.
    """
    parts: list[str | Sequence[str] | range] = []
    for i, part in enumerate(SLOT.split(text)):
        low, dots, high = part.partition("..")
        if i % 2 == 0:  # the pattern has one group, so words and slots take turns
            parts.append(part)
        elif dots:
            parts.append(range(int(low), int(high) + 1))
        else:
            parts.append(tuple(part.split("|")))
    return tuple(parts)


def ways(text: str) -> int:
    """Count the ways to fill the slots of a text."""
    return prod([len(part) for part in slots(text) if not isinstance(part, str)])


@dataclass(frozen=True, slots=True)
class Card:
    """A text with slots, and the order in which its fillings are dealt: each is `stride` places
    after the one before.

    A stride without a common divisor with the number of fillings visits all of them before any
    comes again.
    """

    text: str
    size: int
    start: int
    stride: int

    def filling(self, turn: int) -> str:
        """Text with the filling of this turn."""
        at = (self.start + turn * self.stride) % self.size
        words = []
        for part in slots(self.text):
            if not isinstance(part, str):
                at, chosen = divmod(at, len(part))
                part = str(part[chosen])
            words.append(part)
        return "".join(words)


@dataclass(frozen=True, slots=True)
class Deck:
    """The texts of one kind: the passages of a task have them in turn, and every task has other
    fillings.
    """

    cards: tuple[Card, ...]

    def deal(self, task: int, passage: int, extra: int = 0) -> str:
        """Text of a passage of a task, both by number. `extra` moves on by that many texts.

        That text is another passage's own, so its fillings are taken from further on, too.
        """
        turn, at = divmod(passage, len(self.cards))
        card = self.cards[(task + at + extra) % len(self.cards)]
        return card.filling(task * TURNS + turn + extra * (card.size // 3))


@dataclass(frozen=True, slots=True)
class Decks:
    """The decks of a domain. A passage uses each detail at most once, in any order."""

    opens: Deck
    fillers: Deck
    details: tuple[Card, ...]

    def detail(self, card: Card, task: int, passage: int) -> str:
        """A detail as a passage of a task has it, both by number."""
        return card.filling(task * DETAILED + passage)


def decks(key: Key, domain: Domain) -> Decks:
    """Decks of a domain under a key."""
    details = key.child("details")
    return Decks(
        _deck(key.child("opens"), domain.opens),
        _deck(key.child("fillers"), domain.fillers),
        tuple(_card(details, text) for text in (*domain.openers, *domain.closers)),
    )


def _deck(key: Key, texts: Sequence[str]) -> Deck:
    mixed = list(texts)
    key.random().shuffle(mixed)
    return Deck(tuple(_card(key, text) for text in mixed))


def _card(key: Key, text: str) -> Card:
    size, rng = ways(text), key.random(text)
    stride = rng.randrange(1, size + 1)
    while gcd(stride, size) > 1:
        stride = rng.randrange(1, size + 1)
    return Card(text, size, rng.randrange(size), stride)
