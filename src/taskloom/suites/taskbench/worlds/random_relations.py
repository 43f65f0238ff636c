"""The random world: each word is paired with a random word, which is the same in every process and
composition.

The pairing is a keyed function of the seed in the atom's name and the word's text. It has no state
and does not depend on the order of calls. (The reference code draws from a Python set at the first
look-up, so its relations differ between processes.)
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Literal

import numpy as np

from taskloom.core.seeding import Key
from taskloom.suites.taskbench.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Pairing = Literal["other", "any", "permutation"]
"""other: any word except itself, as in the paper. any: any word, including itself, as in the
reference. permutation: each word is the image of exactly one word.
"""

_MASK = (1 << 64) - 1


def mix(value: int) -> int:
    """Apply the finaliser of SplitMix64, in which every bit of the input affects every bit of the
    output.
    """
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def mix_all(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply `mix` to many values at once."""
    z = values ^ (values >> np.uint64(30))
    z = z * np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z = z * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def parts(name: str) -> tuple[int, str]:
    """Return the seed and the language of an atom such as `random0[eng]`."""
    match = re.fullmatch(r"random(\d+)\[(\w+)\]", name)
    assert match is not None
    return int(match[1]), match[2]


def text_hashes(texts: Sequence[str]) -> NDArray[np.uint64]:
    """Hash each text. All random relations use the same hashes."""
    return Key("taskbench", "random").hashes64(texts)


def seed_hash(name: str) -> int:
    """Return a hash that identifies a random relation."""
    return Key("taskbench", "random", *parts(name)).hash64("seed")


def relation(
    name: str, hashes: NDArray[np.uint64], vocabulary: NDArray[np.int32], pairing: Pairing
) -> Table:
    """Build the table of a random relation over all words.

    Args:
        name: The atom.
        hashes: Hash of each word.
        vocabulary: The words that may be drawn.
        pairing: How words are paired.
    """
    rows, n = len(hashes), len(vocabulary)
    if n < 2:
        return Table.empty(rows)
    if pairing == "permutation":
        images = Key("taskbench", "random", *parts(name)).permutation(n)(
            np.arange(n, dtype=np.int64)
        )
        return Table.of_pairs(vocabulary.astype(np.int64), vocabulary[images], rows)
    drawn = mix_all(hashes ^ np.uint64(seed_hash(name)))
    places = np.full(rows, -1, dtype=np.int64)
    places[vocabulary] = np.arange(n)
    own = places >= 0
    picked = (drawn % np.uint64(n)).astype(np.int64)
    if pairing == "other":
        among = (drawn % np.uint64(n - 1)).astype(np.int64)
        picked = np.where(own, among + (among >= places), picked)
    return Table(np.arange(rows + 1, dtype=np.int64), vocabulary[picked].astype(np.int32))


def image(name: str, text: str, vocabulary: Sequence[str], pairing: Pairing) -> str | None:
    """Compute the image of one word using only integers, as an independent check.

    Args:
        name: The atom.
        text: The word.
        vocabulary: The words that may be drawn, sorted.
        pairing: How words are paired.
    """
    n = len(vocabulary)
    if n < 2:
        return None
    i = bisect_left(vocabulary, text)
    known = i < n and vocabulary[i] == text
    if pairing == "permutation":
        return (
            vocabulary[Key("taskbench", "random", *parts(name)).permutation(n)(i)]
            if known
            else None
        )
    drawn = mix(Key("taskbench", "random").hash64(text) ^ seed_hash(name))
    if pairing == "other" and known:
        rest = drawn % (n - 1)
        return vocabulary[rest + (rest >= i)]
    return vocabulary[drawn % n]
