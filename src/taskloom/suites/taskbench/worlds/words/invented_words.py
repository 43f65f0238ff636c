"""An invented lexicon: words that no model has read, with WordNet's relations between their
meanings, in two languages.

Meanings are made first, as in WordNet: kinds below kinds, opposites, what doing one thing entails,
a sentiment. Each has one to three invented words in either language, and some words have several
meanings. Every lexical function of the paper has at least 100 inputs here, also those for which
WordNet has one word only (what is both an antonym and an entailment).
"""

from __future__ import annotations

from random import Random

from taskloom.core.seeding import Key
from taskloom.suites.taskbench.worlds.facts.invented_names import Names
from taskloom.suites.taskbench.worlds.words.wordnet import RawLexicon, WordNet

VERSION = 1
"""Raised whenever the words change."""

MEANINGS = {"n": 4_000, "v": 2_400, "a": 2_000, "r": 800}
"""Meanings of each part of speech: about as many words as the paper's vocabularies have."""

OPPOSED = {"n": 0.15, "v": 0.3, "a": 0.5, "r": 0.3}
"""Which share of the meanings has an opposite."""

BRANCHES = 4
"""More special kinds of a meaning, on average."""


def digest() -> str:
    """Return what tells one version of the words from another."""
    return Key("taskbench", "invented words", VERSION).digest.hex()


def read() -> RawLexicon:
    """Build what the invented lexicon is compiled from."""
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
    """Add kinds, opposites and entailments; some opposites are also kinds or entailed, so that
    intersections have inputs.
    """
    ranges = _ranges()
    kinds: list[tuple[int, int]] = []
    for pos in ("n", "v"):
        first = ranges[pos][0]
        kinds += [(first + (i - first - 1) // BRANCHES, i) for i in ranges[pos][1:]]
    opposed: set[tuple[int, int]] = set()
    for pos, meanings in ranges.items():
        chosen = rng.sample(meanings, int(OPPOSED[pos] * len(meanings)) // 2 * 2)
        opposed |= set(zip(chosen[::2], chosen[1::2], strict=True))
    opposed |= set(rng.sample(kinds, 200))
    verbs = ranges["v"]
    entailed = {(rng.choice(verbs), rng.choice(verbs)) for _ in range(len(verbs) // 2)}
    entailed |= set(rng.sample([pair for pair in kinds if pair[0] in verbs], 200))
    entailed |= set(rng.sample(sorted(pair for pair in opposed if pair[0] in verbs), 200))
    net.links["hyponyms"] = kinds
    net.links["hypernyms"] = [(below, above) for above, below in kinds]
    net.links["antonyms"] = sorted(opposed | {(b, a) for a, b in opposed})
    net.links["entailments"] = sorted(pair for pair in entailed if pair[0] != pair[1])


def _words(net: WordNet, key: Key, language: str) -> list[list[str]]:
    """Draw the words of every meaning: new ones, some of two parts, and some that another meaning
    has already.
    """
    rng = key.random("words", language)
    names = Names(key.child("names", language))
    mark = "" if language == "eng" else "o"

    def new() -> str:
        word = names.word().lower() + mark
        return f"{word}_{names.word().lower()}" if rng.random() < 0.1 else word

    rows = [[new() for _ in range(rng.choice((1, 2, 2, 3)))] for _ in net.pos]
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
