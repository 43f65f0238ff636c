"""WordNet: its morphology, its files, and the packaged table of its English part.

Morphology leads from an inflected form to base forms: first the exception lists, then the
detachment rules, applied repeatedly until a form is known. This is the rule of WordNet's own
`morphy`, which the reference code used. Later versions of NLTK apply the rules only once and lose a
few words (611 instead of 616 with entailments), so the rule is implemented here.

The readers parse the files of WordNet, the Open Multilingual Wordnet, SentiWordNet and the two
corpora from which the vocabularies are taken.

The packaged table, `wordnet-eng.npz.xz`, makes English lexical tasks work on a fresh machine. It
contains the words, senses, links, sense counts and irregular forms of WordNet 3.0, without glosses,
and is built by `scripts/build_wordnet_table.py`. WordNet's licence is in NOTICE.
"""

from __future__ import annotations

import io
import lzma
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taskloom.core.errors import DataError
from taskloom.suites.taskbench.worlds.corpora import Corpus

if TYPE_CHECKING:
    from numpy.typing import NDArray

POS = "nvar"
"""Nouns, verbs, adjectives, adverbs, in WordNet's order of senses."""

_RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "n": (
        ("s", ""),
        ("ses", "s"),
        ("ves", "f"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "v": (
        ("s", ""),
        ("ies", "y"),
        ("es", "e"),
        ("es", ""),
        ("ed", "e"),
        ("ed", ""),
        ("ing", "e"),
        ("ing", ""),
    ),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}

ENDINGS = {pos: tuple(old for old, _ in rules) for pos, rules in _RULES.items()}
"""Endings that the rules of each part of speech may detach."""


def bases(
    form: str, pos: str, known: Collection[str], exceptions: Mapping[str, list[str]]
) -> list[str]:
    """Return the known base forms of a lower-case form for one part of speech, the form itself
    first.

    Args:
        form: The form.
        pos: One of n, v, a, r.
        known: All base forms in that part of speech.
        exceptions: Irregular forms of that part of speech with their base forms.
    """
    if form in exceptions:
        return _known([form, *exceptions[form]], known)
    if not form.endswith(ENDINGS[pos]):
        return [form] if form in known else []
    forms = _detach([form], pos)
    listed = _known([form, *forms], known)
    while forms and not listed:
        forms = _detach(forms, pos)
        listed = _known(forms, known)
    return listed


def _detach(forms: list[str], pos: str) -> list[str]:
    detached = []
    for form in forms:
        for old, new in _RULES[pos]:
            if form.endswith(old):
                detached.append(form.removesuffix(old) + new)
    return detached


def _known(forms: list[str], known: Collection[str]) -> list[str]:
    return [f for f in dict.fromkeys(forms) if f in known]


# Names and symbols in the files: pointers of data files, and the number in a sense key, where 5 is
# a satellite adjective. `_LEAF` matches a token of the treebank, `(tag word lemma)`.
_FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
_POINTERS = {"~": "hyponyms", "@": "hypernyms", "*": "entailments", "!": "antonyms"}
_SENSE_KEY = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}
_LEAF = re.compile(r"\([^\s()]+ ([^\s()]+)(?: [^\s()]+)?\)")


@dataclass(slots=True)
class WordNet:
    """WordNet without glosses and examples.

    Attributes:
        pos: Part of speech of each synset (satellites count as adjectives).
        lemmas: Lemma names of each synset, as written (underscores, capitals).
        links: For each kind of link, the pairs of synsets.
        index: For each lower-case form, its synsets, by part of speech in the order n, v, a, r,
            each in WordNet's order.
        counts: Number of occurrences of each sense of a form in WordNet's sense-tagged texts
            (parallel to `index`).
        exceptions: For each part of speech, irregular forms with their base forms.
        places: Index of each synset by part of speech and offset.
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
    """Data from which a lexicon is compiled."""

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
                f"{corpus.path} is damaged: a link leads to synset {offset} ({pos}), which does "
                "not exist"
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
    # offset, file, part of speech, number of words (hexadecimal), word and id of each, number of
    # pointers, then four columns of each: symbol, offset, part of speech, words concerned
    parts = line.partition("|")[0].split()
    number = len(net.pos)
    net.places[pos, int(parts[0])] = number
    net.pos.append(pos)
    words = int(parts[3], 16)
    # An adjective may have a marker of its position, as in "galore(ip)", which is not part of the
    # word.
    net.lemmas.append([re.sub(r"\((?:a|p|ip)\)$", "", w) for w in parts[4 : 4 + 2 * words : 2]])
    at = 4 + 2 * words
    for i in range(at + 1, at + 1 + 4 * int(parts[at]), 4):
        if parts[i] in _POINTERS:
            pointers.append(
                (number, parts[i], "a" if parts[i + 2] == "s" else parts[i + 2], int(parts[i + 1]))
            )


def _read_index(corpus: Corpus, net: WordNet) -> dict[tuple[str, str, int], int]:
    """Fill the index. Return the position of each (form, part of speech, sense number) in it."""
    places: dict[tuple[str, str, int], int] = {}
    for pos in POS:
        for line in corpus.lines(f"index.{_FILES[pos]}"):
            if not line or line[0] == " ":
                continue
            # lemma, part of speech, number of senses, number of pointer symbols, these symbols, two
            # counts of senses, offsets
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
    """Read the Spanish lemma names of each synset from an OMW 1.x table."""
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
            f"{strangers} rows of {corpus.path} name synsets that are not in this WordNet, so its "
            "files are not the official WordNet 3.0 (some distributions rebuild them with other "
            "offsets); use the nltk_data copy of both"
        )
    return lemmas


def read_sentiment(corpus: Corpus, net: WordNet) -> list[int]:
    """Read the sign of the sentiment (positive minus negative score) of each synset: 1, -1, 0, or 2
    if it has no score.
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


PACKAGED = Path(__file__).with_name("wordnet-eng.npz.xz")

LEAST_TAGGED = 3
"""Minimum occurrences of a common word in WordNet's own sense-tagged texts. 3 gives 8,131 words,
close to the paper's 9,143.
"""


@cache
def packaged_digest() -> str:
    """Digest of the packaged table."""
    return blake2b(PACKAGED.read_bytes(), digest_size=16).hexdigest()


def pack(net: WordNet) -> bytes:
    """Encode WordNet as the bytes of the table. The same files give the same bytes."""
    forms = sorted(net.index)
    texts = [lemma for row in net.lemmas for lemma in row]
    arrays: dict[str, NDArray[Any]] = {
        "pos": np.array([POS.index(p) for p in net.pos], dtype=np.uint8),
        "lemma_counts": np.array([len(row) for row in net.lemmas], dtype=np.uint8),
        "lemmas": _blob(texts),
        "sense_counts": np.array([len(net.index[f]) for f in forms], dtype=np.uint8),
        "senses": np.array([s for f in forms for s in net.index[f]], dtype=np.int32),
        "tagged": np.array([n for f in forms for n in net.counts[f]], dtype=np.uint16),
        "exceptions": _blob(
            [" ".join((p, f, *b)) for p in POS for f, b in net.exceptions[p].items()]
        ),
    }
    for link in ("hypernyms", "entailments", "antonyms"):
        arrays[link] = np.array(net.links[link], dtype=np.int32).reshape(-1, 2).T
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def unpack(packed: bytes) -> WordNet:
    """Decode WordNet from the bytes of the table."""
    arrays = np.load(io.BytesIO(lzma.decompress(packed)), allow_pickle=False)
    net = WordNet(pos=[POS[p] for p in arrays["pos"].tolist()])
    net.lemmas = _groups(_lines(arrays["lemmas"]), arrays["lemma_counts"].tolist())
    # Every lower-case spelling of a lemma is a form of the index, and no other.
    forms = sorted({lemma.lower() for row in net.lemmas for lemma in row})
    sizes = arrays["sense_counts"].tolist()
    net.index = dict(zip(forms, _groups(arrays["senses"].tolist(), sizes), strict=True))
    net.counts = dict(zip(forms, _groups(arrays["tagged"].tolist(), sizes), strict=True))
    for link in ("hypernyms", "entailments", "antonyms"):
        net.links[link] = [tuple(pair) for pair in arrays[link].T.tolist()]
    net.links["hyponyms"] = [(above, below) for below, above in net.links["hypernyms"]]
    net.exceptions = {p: {} for p in POS}
    for line in _lines(arrays["exceptions"]):
        pos, form, *base = line.split(" ")
        net.exceptions[pos][form] = base
    return net


def read_packaged() -> RawLexicon:
    """Read the packaged table."""
    net = unpack(PACKAGED.read_bytes())
    return RawLexicon(net, [[] for _ in net.pos], None, {"eng": common_words(net), "spa": []})


def common_words(net: WordNet) -> list[str]:
    """Return the vocabulary: lower-case single words that are common in WordNet's own sense-tagged
    texts.
    """
    written = {lemma for row in net.lemmas for lemma in row}
    return [
        f for f, n in net.counts.items() if sum(n) >= LEAST_TAGGED and f in written and "_" not in f
    ]


def _blob(lines: list[str]) -> NDArray[np.uint8]:
    return np.frombuffer("\n".join(lines).encode(), dtype=np.uint8)


def _lines(blob: NDArray[np.uint8]) -> list[str]:
    return blob.tobytes().decode().split("\n")


def _groups(items: list[Any], sizes: list[int]) -> list[list[Any]]:
    groups = []
    at = 0
    for size in sizes:
        groups.append(items[at : at + size])
        at += size
    return groups
