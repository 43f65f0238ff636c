"""Invented names: pronounceable, keyed, and different by construction.

A name spells a number in syllables, and the numbers are a keyed shuffle, so two entities share a
name only where ambiguity is asked for, and another seed gives other names.
"""

from __future__ import annotations

import numpy as np

from taskloom.core.seeding import Key

_SYLLABLES = [
    c + v
    for c in ("b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z", "")
    for v in "aeiou"
]
_ENDS = ("", "n", "r", "s", "l")


_GIVEN = 401
"""First names for women, and as many for men; a prime, so that any step walks through all of
them.
"""
_BLOCK = 4_096
"""Numbers shuffled at once: one at a time costs fifty times as much."""


class Names:
    """Words that no other call of `word` has given, and people's names that are theirs alone within
    a family.
    """

    def __init__(self, key: Key) -> None:
        self._key = key
        self._count = 0
        self._block: list[str] = []
        short = self._spell(range(2 * _GIVEN), 2)
        self._given = (short[:_GIVEN], short[_GIVEN:])
        self._members: dict[str, int] = {}

    def word(self) -> str:
        """Return the next word: three syllables for the first 614,125, four after that."""
        if not self._block:
            first, syllables = self._count, 3
            while first >= len(_SYLLABLES) ** syllables:
                first -= len(_SYLLABLES) ** syllables
                syllables += 1
            # The last block of a length is shorter, so that the next one begins with the next
            # length.
            last = min(first + _BLOCK, len(_SYLLABLES) ** syllables)
            self._block = self._spell(range(first, last), syllables)[::-1]
        self._count += 1
        return self._block.pop()

    def person(self, female: bool, family: str) -> str:
        """Return a first name, or several where a family has had them all, and the family's
        name.
        """
        number = self._members.get(family, 0)
        self._members[family] = number + 1
        pool = self._given[female]
        start, step = (
            self._key.hash64("start", family),
            1 + self._key.hash64("step", family) % (_GIVEN - 1),
        )
        first = [pool[(start + step * number) % _GIVEN]]
        while number := number // _GIVEN:
            first.append(pool[(start + step * (number - 1)) % _GIVEN])
        return " ".join([*first, family])

    def _spell(self, numbers: range, syllables: int) -> list[str]:
        base = len(_SYLLABLES)
        codes = self._key.permutation(base**syllables, "syllables", syllables)(
            np.array(numbers, dtype=np.int64)
        )
        words = []
        for code in codes.tolist():
            end = _ENDS[code % len(_ENDS)]
            parts = []
            for _ in range(syllables):
                code, digit = divmod(code, base)
                parts.append(_SYLLABLES[digit])
            words.append(("".join(parts) + end).capitalize())
        return words
