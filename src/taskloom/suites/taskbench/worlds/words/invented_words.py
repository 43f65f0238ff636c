"""Invented words: names for invented facts, and a lexicon of words that no model has read.

`Names` draws pronounceable names that are unique by construction: a name spells a number in
syllables, and the numbers are shuffled with a key. Two entities share a name only if the recipe
requests ambiguity, and another seed gives other names.

The lexicon has WordNet's relations in two languages. Meanings come first, as in WordNet, with
hypernyms, antonyms, entailments and a sentiment. Each meaning has one to three invented words in
either language, and some words have several meanings. Every lexical function of the paper has at
least 100 inputs, even functions for which WordNet has only a single word (such as a word with both
an antonym and an entailment).
"""

from __future__ import annotations

from random import Random

import numpy as np

from taskloom.core.seeding import Key
from taskloom.suites.taskbench.worlds.words.wordnet import RawLexicon, WordNet

_SYLLABLES = [
    c + v
    for c in ("b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z", "")
    for v in "aeiou"
]
_ENDS = ("", "n", "r", "s", "l")


_GIVEN = 401
"""Number of first names for women, and number for men. It is prime, so that any step visits all
names.
"""
_BLOCK = 4_096
"""Batch size of the shuffle. Computing one number at a time would take fifty times as long."""


class Names:
    """Words that never repeat, and names of people that are unique within a family."""

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
            # The last block of a length is shorter, so that the next block begins with the next
            # length.
            last = min(first + _BLOCK, len(_SYLLABLES) ** syllables)
            self._block = self._spell(range(first, last), syllables)[::-1]
        self._count += 1
        return self._block.pop()

    def person(self, female: bool, family: str) -> str:
        """Return a person's name: a first name, or several if the family has used them all,
        followed by the family name.
        """
        number = self._members.get(family, 0)
        self._members[family] = number + 1
        pool = self._given[female]
        # Every family goes through the first names from its own start and with its own step.
        start = self._key.hash64("start", family)
        step = 1 + self._key.hash64("step", family) % (_GIVEN - 1)
        first = [pool[(start + step * number) % _GIVEN]]
        # After a full round, a further first name counts the rounds.
        while number := number // _GIVEN:
            first.append(pool[(start + step * (number - 1)) % _GIVEN])
        return " ".join([*first, family])

    def _spell(self, numbers: range, syllables: int) -> list[str]:
        """Words for numbers: a keyed shuffle of all numbers with so many digits, and a syllable for
        each digit.
        """
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


VERSION = 1
"""Version of the words. Raise it whenever they change."""

MEANINGS = {"n": 4_000, "v": 2_400, "a": 2_000, "r": 800}
"""Number of meanings per part of speech, chosen to give about as many words as the paper's
vocabularies.
"""

SHARED_LINKS = 200
"""Number of pairs in each combination of two relations, twice the 100 inputs that functions such as
`intersection(antonyms, hyponyms)` need.
"""

OPPOSED = {"n": 0.15, "v": 0.3, "a": 0.5, "r": 0.3}
"""Share of meanings that have an antonym, per part of speech."""

BRANCHES = 4
"""Average number of hyponyms of a meaning."""


def digest() -> str:
    """Digest of the version of the words."""
    return Key("taskbench", "invented words", VERSION).digest.hex()


def read() -> RawLexicon:
    """Build the data from which the invented lexicon is compiled."""
    key = Key("taskbench", "invented words", VERSION)
    net = WordNet(pos=[p for p, n in MEANINGS.items() for _ in range(n)])
    net.exceptions = {p: {} for p in MEANINGS}
    _link(net, key.random("links"))
    net.lemmas = _words(net, key, "eng")
    spanish = _words(net, key, "spa")
    for meaning, row in enumerate(net.lemmas):
        for lemma in row:
            net.index.setdefault(lemma, []).append(meaning)
    net.counts = {form: [len(row) - i for i in range(len(row))] for form, row in net.index.items()}
    rng = key.random("sentiment")
    sentiment = [rng.choice((-1, 0, 0, 1)) for _ in net.pos]
    common = {
        code: [w for w in dict.fromkeys(w for row in rows for w in row) if "_" not in w]
        for code, rows in (("eng", net.lemmas), ("spa", spanish))
    }
    return RawLexicon(net, spanish, sentiment, dict(common))


def _ranges() -> dict[str, range]:
    ranges, start = {}, 0
    for pos, n in MEANINGS.items():
        ranges[pos] = range(start, start + n)
        start += n
    return ranges


def _link(net: WordNet, rng: Random) -> None:
    """Add hypernyms, antonyms and entailments. Some antonyms are also hypernyms or entailments, so
    that intersections have inputs.
    """
    ranges = _ranges()
    kinds: list[tuple[int, int]] = []
    for pos in ("n", "v"):
        # A tree: every meaning but the first is a kind of an earlier one.
        first = ranges[pos][0]
        kinds += [(first + (i - first - 1) // BRANCHES, i) for i in ranges[pos][1:]]
    opposed: set[tuple[int, int]] = set()
    for pos, meanings in ranges.items():
        chosen = rng.sample(meanings, int(OPPOSED[pos] * len(meanings)) // 2 * 2)
        opposed |= set(zip(chosen[::2], chosen[1::2], strict=True))
    opposed |= set(rng.sample(kinds, SHARED_LINKS))
    verbs = ranges["v"]
    entailed = {(rng.choice(verbs), rng.choice(verbs)) for _ in range(len(verbs) // 2)}
    entailed |= set(rng.sample([pair for pair in kinds if pair[0] in verbs], SHARED_LINKS))
    opposed_verbs = sorted(pair for pair in opposed if pair[0] in verbs)
    entailed |= set(rng.sample(opposed_verbs, SHARED_LINKS))
    net.links["hyponyms"] = kinds
    net.links["hypernyms"] = [(below, above) for above, below in kinds]
    net.links["antonyms"] = sorted(opposed | {(b, a) for a, b in opposed})
    net.links["entailments"] = sorted(pair for pair in entailed if pair[0] != pair[1])


def _words(net: WordNet, key: Key, language: str) -> list[list[str]]:
    """Draw the words for every meaning: new words, some of which have two parts, and some words
    that already have another meaning.
    """
    rng = key.random("words", language)
    names = Names(key.child("names", language))
    mark = "" if language == "eng" else "o"

    def new() -> str:
        word = names.word().lower() + mark
        return f"{word}_{names.word().lower()}" if rng.random() < 0.1 else word

    rows = [[new() for _ in range(rng.choice((1, 2, 2, 3)))] for _ in net.pos]
    # Pairs of meanings that get a word in common: linked ones, so that a word can be its own
    # antonym, entailed adjectives and adverbs, and any two.
    shared = rng.sample(net.links["antonyms"], 200) + rng.sample(net.links["entailments"], 300)
    entailing = [a for a, _ in net.links["entailments"]]
    shared += [
        (rng.choice(entailing), other) for pos in "ar" for other in rng.sample(_ranges()[pos], 500)
    ]
    shared += [(rng.randrange(len(rows)), rng.randrange(len(rows))) for _ in range(len(rows) // 8)]
    for one, other in shared:
        word = rng.choice(rows[one])
        if word not in rows[other]:
            rows[other].append(word)
    return rows
