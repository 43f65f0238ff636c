"""Reading the files of WordNet, the Open Multilingual Wordnet, SentiWordNet and the two corpora
that give the vocabularies.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from taskloom.core.errors import DataError
from taskloom.suites.taskbench.worlds.words.corpora import Corpus
from taskloom.suites.taskbench.worlds.words.morphology import POS

_FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
_POINTERS = {"~": "hyponyms", "@": "hypernyms", "*": "entailments", "!": "antonyms"}
_SENSE_KEY = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}
_LEAF = re.compile(r"\([^\s()]+ ([^\s()]+)(?: [^\s()]+)?\)")


@dataclass(slots=True)
class WordNet:
    """What is kept of WordNet: no glosses, no examples.

    Attributes:
        pos: The part of speech of each synset (satellites count as adjectives).
        lemmas: The lemma names of each synset, as written (underscores, capitals).
        links: For each kind of link the pairs of synsets.
        index: For each lower-case form its synsets, by part of speech in the order n, v, a, r, each
            in WordNet's order.
        counts: How often each sense of a form (parallel to `index`) was seen in WordNet's
            sense-tagged texts.
        exceptions: For each part of speech irregular forms with their base forms.
        places: The number of each synset by part of speech and offset.
    """

    pos: list[str] = field(default_factory=list)
    lemmas: list[list[str]] = field(default_factory=list)
    links: dict[str, list[tuple[int, int]]] = field(
        default_factory=lambda: {k: [] for k in _POINTERS.values()}
    )
    index: dict[str, list[int]] = field(default_factory=dict)
    counts: dict[str, list[int]] = field(default_factory=dict)
    exceptions: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    places: dict[tuple[str, int], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RawLexicon:
    """What a lexicon is compiled from."""

    net: WordNet
    spanish: list[list[str]]
    sentiment: list[int] | None
    vocabulary: dict[str, Iterable[str]]


def read_wordnet(corpus: Corpus) -> WordNet:
    """Read WordNet 3.0 from its database files."""
    net = WordNet()
    pointers: list[tuple[int, str, str, int]] = []
    for pos in POS:
        for line in corpus.lines(f"data.{_FILES[pos]}"):
            if line[:1].isdigit():
                _read_synset(line, pos, net, pointers)
    for source, symbol, pos, offset in pointers:
        target = net.places.get((pos, offset))
        if target is None:
            raise DataError(
                f"{corpus.path} is damaged: a link leads to synset {offset} ({pos}), which is not"
                " there"
            )
        net.links[_POINTERS[symbol]].append((source, target))
    senses = _read_index(corpus, net)
    _read_counts(corpus, net, senses)
    for pos in POS:
        pairs = [line.split() for line in corpus.lines(f"{_FILES[pos]}.exc") if line.strip()]
        net.exceptions[pos] = {form: list(base) for form, *base in pairs}
    return net


def _read_synset(
    line: str, pos: str, net: WordNet, pointers: list[tuple[int, str, str, int]]
) -> None:
    parts = line.partition("|")[0].split()
    number = len(net.pos)
    net.places[pos, int(parts[0])] = number
    net.pos.append(pos)
    words = int(parts[3], 16)
    # An adjective may carry where it stands, as in "galore(ip)"; that is not part of the word.
    net.lemmas.append([re.sub(r"\((?:a|p|ip)\)$", "", w) for w in parts[4 : 4 + 2 * words : 2]])
    at = 4 + 2 * words
    for i in range(at + 1, at + 1 + 4 * int(parts[at]), 4):
        if parts[i] in _POINTERS:
            pointers.append(
                (number, parts[i], "a" if parts[i + 2] == "s" else parts[i + 2], int(parts[i + 1]))
            )


def _read_index(corpus: Corpus, net: WordNet) -> dict[tuple[str, str, int], int]:
    """Fill the index; return the place of each (form, part of speech, sense number) in it."""
    places: dict[tuple[str, str, int], int] = {}
    for pos in POS:
        for line in corpus.lines(f"index.{_FILES[pos]}"):
            if not line or line[0] == " ":
                continue
            form, _, senses, kinds, *rest = line.split()
            offsets = rest[int(kinds) + 2 :][: int(senses)]
            row = net.index.setdefault(form, [])
            for number, offset in enumerate(offsets, 1):
                places[form, pos, number] = len(row)
                row.append(net.places[pos, int(offset)])
    net.counts = {form: [0] * len(row) for form, row in net.index.items()}
    return places


def _read_counts(corpus: Corpus, net: WordNet, places: dict[tuple[str, str, int], int]) -> None:
    for line in corpus.lines("cntlist.rev"):
        if not line.strip():
            continue
        sense, number, count = line.split()
        form, _, rest = sense.partition("%")
        place = places.get((form, _SENSE_KEY[rest[0]], int(number)))
        if place is not None:
            net.counts[form][place] = int(count)


def read_spanish(corpus: Corpus, net: WordNet) -> list[list[str]]:
    """Read the Spanish lemma names of each synset, from an OMW 1.x table."""
    lemmas: list[list[str]] = [[] for _ in net.pos]
    strangers = 0
    for line in corpus.lines("spa/wn-data-spa.tab"):
        parts = line.strip().split("\t")
        if line.startswith("#") or len(parts) < 3 or parts[1].rpartition(":")[2] != "lemma":
            continue
        offset, _, pos = parts[0].partition("-")
        place = net.places.get(("a" if pos == "s" else pos, int(offset)))
        if place is None:
            strangers += 1
            continue
        lemma = parts[-1].strip().replace(" ", "_")
        if lemma not in lemmas[place]:
            lemmas[place].append(lemma)
    if strangers:
        raise DataError(
            f"{strangers} rows of {corpus.path} name synsets that this WordNet lacks: its files are"
            " not the official WordNet 3.0 (some distributions rebuild them with other offsets);"
            " take the nltk_data copy of both"
        )
    return lemmas


def read_sentiment(corpus: Corpus, net: WordNet) -> list[int]:
    """Read the sign of positive minus negative score of each synset: 1, -1, 0, or 2 where it is not
    scored.
    """
    signs = [2] * len(net.pos)
    name = next(
        (n for n in corpus.names() if n.startswith("SentiWordNet")), "SentiWordNet_3.0.0.txt"
    )
    for line in corpus.lines(name):
        if line.startswith("#") or "\t" not in line:
            continue
        pos, offset, positive, negative, *_ = line.split("\t")
        place = net.places.get((pos.strip(), int(offset))) if pos.strip() else None
        if place is not None:
            score = float(positive) - float(negative)
            signs[place] = (score > 0) - (score < 0)
    return signs


def brown_counts(corpus: Corpus) -> Counter[str]:
    """Count each lower-cased token of the Brown corpus."""
    counts: Counter[str] = Counter()
    for name in corpus.names():
        if re.fullmatch(r"c[a-r]\d\d", name):
            counts.update(
                token.rpartition("/")[0].lower() for token in corpus.text(name, "latin-1").split()
            )
    return counts


def cess_words(corpus: Corpus) -> set[str]:
    """Read the lower-cased tokens of the Spanish treebank."""
    words: set[str] = set()
    for name in corpus.names():
        if name.endswith(".tbf"):
            words.update(word.lower() for word in _LEAF.findall(corpus.text(name, "iso-8859-15")))
    return words
