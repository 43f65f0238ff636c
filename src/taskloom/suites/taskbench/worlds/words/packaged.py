"""The English relation table that this package carries, so that English lexical tasks work on a
fresh machine.

`wordnet-eng.npz.xz` holds the words, senses, links, sense counts and irregular forms of WordNet
3.0, without glosses. It is built by `scripts/build_wordnet_table.py` from the official files;
WordNet's licence is in NOTICE.
"""

from __future__ import annotations

import io
import lzma
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taskloom.suites.taskbench.worlds.words.morphology import POS
from taskloom.suites.taskbench.worlds.words.wordnet import RawLexicon, WordNet

if TYPE_CHECKING:
    from numpy.typing import NDArray

TABLE = Path(__file__).with_name("wordnet-eng.npz.xz")

LEAST_TAGGED = 3
"""Occurrences of a word in WordNet's own sense-tagged texts that make it common: 8,131 words, near
the paper's 9,143.
"""


@cache
def digest() -> str:
    """Return the digest of the table."""
    return blake2b(TABLE.read_bytes(), digest_size=16).hexdigest()


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


def read() -> RawLexicon:
    """Read what the packaged lexicon is compiled from."""
    net = unpack(TABLE.read_bytes())
    return RawLexicon(net, [[] for _ in net.pos], None, {"eng": common(net), "spa": []})


def common(net: WordNet) -> list[str]:
    """Return the vocabulary: lower-case single words that WordNet's own sense-tagged texts show to
    be common.
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
