"""Near duplicates: texts that are equal after folding, and long texts that share most of their
shingles.

Texts are candidates for a Jaccard similarity of at least 0.9 between their sets of three-word
shingles if they share a band of MinHash values. The similarity of each candidate pair is then
computed exactly. Rows are processed in batches, in NumPy, with bounded memory.

datasketch is not used because it hashes one text at a time. It takes 3.2 CPU-s to find candidates
among 24,000 texts of 40 words, whereas this module takes 0.65 including the exact measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from taskloom.core.arrow import array_of, numbers
from taskloom.core.seeding import Key

LONG = 8
"""Minimum number of words of a long text (prose)."""
SHINGLE = 3
NEAR = 0.9
BANDS, ROWS = 8, 4
"""Number of bands, and of MinHash values per band. Two texts of similarity 0.9 share a band with
probability 1 - (1 - 0.9^4)^8 = 0.9996.
"""
TRIED = 50
"""Maximum candidates measured per band. If hundreds of texts share a band, they share boilerplate,
and comparing the first ones is enough.
"""
TOGETHER = 1 << 20
"""Shingles sorted at a time (8 MB), so that memory does not grow with the split."""

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Shingles:
    """The sets of hashed shingles of the texts of a split, and the bands of their MinHash values.

    Attributes:
        flat: All sets, each sorted, concatenated. Short texts have none.
        starts: Where the set of each text starts in `flat`, and where the last one ends.
        bands: One hash for each text and band; zeros for short texts.
    """

    flat: U64
    starts: I64
    bands: U64

    @property
    def sizes(self) -> I64:
        """Number of shingles of each text."""
        return np.diff(self.starts)


def fold(texts: pa.Array) -> pa.Array:
    """Normalise Unicode and white space, and in long texts also remove case and punctuation."""
    plain = pc.utf8_trim_whitespace(_spaced(texts))
    is_long = pc.greater_equal(pc.count_substring(plain, " "), numbers(np.array([LONG - 1]))[0])
    if not pc.any(is_long).as_py():
        return plain
    bare = pc.replace_substring_regex(pc.utf8_lower(plain), r"[^\pL\pN\s]+", " ")
    return pc.if_else(
        is_long, pc.utf8_trim_whitespace(pc.replace_substring_regex(bare, r"\s+", " ")), plain
    )


def _spaced(texts: pa.Array) -> pa.Array:
    """Apply NFKC and collapse white space. Texts that need no change are returned as they are."""
    _, offsets, data = texts.buffers()
    if data is None:
        return texts
    ends = np.frombuffer(offsets, dtype=np.int32)[[texts.offset, texts.offset + len(texts)]]
    raw = np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[1]]
    if np.any(raw >= 0x80):
        texts = pc.utf8_normalize(texts, "NFKC")
    else:
        space = raw == ord(" ")
        if not np.any(space[1:] & space[:-1]) and not any(
            np.any(raw == ord(c)) for c in "\t\n\f\r"
        ):
            return texts
    return pc.replace_substring_regex(texts, r"\s+", " ")


@dataclass(frozen=True, slots=True)
class Words:
    """Words of a split's long texts, with ids shared by all splits.

    Attributes:
        sizes: Number of words of each text; 0 for short texts.
        ids: Word ids from 1, text after text.
        is_number: True for words that consist of digits.
    """

    sizes: I64
    ids: U64
    is_number: Mask


def find_words(folded: Mapping[str, pa.Array]) -> dict[str, Words]:
    """Assign ids to the words of all splits' long texts, in order of first appearance."""
    sizes: dict[str, I64] = {}
    words = []
    for name, texts in folded.items():
        counts = array_of(pc.count_substring(texts, " ")).astype(np.int64) + 1
        sizes[name] = np.where(counts >= LONG, counts, 0)
        if sizes[name].any():
            words.append(pc.split_pattern(texts.filter(numbers(counts >= LONG)), " ").flatten())
    ids, digits = _numbered(words)
    parts = {}
    at = 0
    for name, counts in sizes.items():
        mine = ids[at : at + int(counts.sum())]
        parts[name] = Words(counts, mine + np.uint64(1), digits[mine])
        at += len(mine)
    return parts


def _numbered(words: list[pa.Array]) -> tuple[U64, Mask]:
    """Id of each word, and for each id whether the word consists of digits."""
    if not words:
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.bool_)
    coded = pa.chunked_array(words).dictionary_encode().unify_dictionaries()
    ids = np.concatenate([array_of(chunk.indices) for chunk in coded.chunks]).astype(np.uint64)
    digits = pc.match_substring_regex(coded.chunk(0).dictionary, r"^\pN+$")
    return ids, array_of(digits)


def find_shingles(words: Words) -> Shingles:
    """Return the shingles of the long texts of a split."""
    return _shingles_of(words.ids, words.sizes)


def _shingles_of(ids: U64, words: I64) -> Shingles:
    """Shingles of texts, given the number of words of each text and their concatenated word ids."""
    sizes = np.zeros(len(words), dtype=np.int64)
    bands = np.zeros((len(words), BANDS), dtype=np.uint64)
    at = np.flatnonzero(words)
    flat = np.zeros(0, dtype=np.uint64)
    if len(at):
        weights = Key("audit", "shingle").words(0, SHINGLE)
        mixed = scramble(ids[:-2] * weights[0] + ids[1:-1] * weights[1] + ids[2:] * weights[2])
        ends = np.cumsum(words[at])
        whole = np.ones(len(mixed), dtype=np.bool_)
        for back in range(1, SHINGLE):  # those that begin in one text and end in the next
            whole[(ends - back)[ends - back < len(mixed)]] = False
        flat, sizes[at] = _sets(mixed[whole], words[at] - (SHINGLE - 1))
        bands[at] = _bands(flat, sizes[at])
    return Shingles(flat, np.concatenate(([0], np.cumsum(sizes))), bands)


def _sets(flat: U64, sizes: I64) -> tuple[U64, I64]:
    """Sort each run of `flat` and remove duplicates. Return the runs and their new sizes."""
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    kept = np.ones(len(flat), dtype=np.bool_)
    flat = flat.copy()
    for size in np.unique(sizes).tolist():
        runs = starts[sizes == size]
        for low in range(0, len(runs), max(1, TOGETHER // size)):
            places = runs[low : low + max(1, TOGETHER // size), None] + np.arange(size)
            rows = np.sort(flat[places], axis=1)
            flat[places] = rows
            kept[places[:, 1:]] = rows[:, 1:] != rows[:, :-1]
    return flat[kept], np.add.reduceat(kept, starts).astype(np.int64)


def scramble(z: U64) -> U64:
    """Mix the bits of each number."""
    z = z ^ (z >> np.uint64(30))
    z = z * np.uint64(0xBF58476D1CE4E5B9)
    z = z ^ (z >> np.uint64(27))
    z = z * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _bands(flat: U64, sizes: I64) -> U64:
    """MinHash signatures cut into bands, one hash per band."""
    bands = np.zeros((len(sizes), BANDS), dtype=np.uint64)
    seeds = Key("audit", "minhash").words(0, BANDS * ROWS)
    ends = np.cumsum(sizes)
    for low, high in _cuts(ends):
        start = int(ends[low] - sizes[low])
        part, starts = flat[start : ends[high - 1]], (ends - sizes)[low:high] - start
        for band in range(BANDS):
            mixed = np.zeros(high - low, dtype=np.uint64)
            for row in range(ROWS):
                smallest = np.minimum.reduceat(scramble(part ^ seeds[band * ROWS + row]), starts)
                mixed = scramble(mixed + smallest)
            bands[low:high, band] = mixed
    return bands


def _cuts(ends: I64) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows with about `TOGETHER` shingles each, given where the shingles of each
    row end.
    """
    low = 0
    while low < len(ends):
        before = int(ends[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(ends, before + TOGETHER, side="right")))
        yield low, high
        low = high


class _Buckets:
    """Texts of a split grouped by the value of one band, in their order."""

    def __init__(self, shingles: Shingles, band: int) -> None:
        rows = np.flatnonzero(shingles.sizes)
        values = shingles.bands[rows, band]
        order = np.argsort(values, kind="stable")
        self.rows, self._values = rows[order], values[order]
        first = np.searchsorted(self._values, self._values)
        self.place = np.full(len(shingles.bands), -1, dtype=np.int64)
        """Position of each text in its bucket."""
        self.place[self.rows] = np.arange(len(first)) - first

    def find(self, values: U64) -> tuple[I64, I64]:
        """Start of the buckets of some values in `rows`, and number of texts in each."""
        starts = np.searchsorted(self._values, values)
        return starts, np.searchsorted(self._values, values, side="right") - starts


def near_rows(
    a: Shingles, b: Shingles, wanted: Mask, fits: Callable[[I64, I64], Mask], *, earlier: bool
) -> Mask:
    """True for texts of `a` that nearly repeat a text of `b`.

    Args:
        a: Texts to check.
        b: Texts to compare with.
        wanted: Mask of the texts of `a` to check.
        fits: Predicate for the pairs of texts that count.
        earlier: True to compare only with earlier texts, if `a` is `b`.
    """
    near = np.zeros(len(wanted), dtype=np.bool_)
    if not len(a.flat) or not len(b.flat):
        return near
    buckets: list[_Buckets] = []
    for band in range(BANDS):
        buckets.append(_Buckets(b, band))
        rows = np.flatnonzero(wanted & ~near & (a.sizes > 0))
        starts, counts = buckets[-1].find(a.bands[rows, band])
        if earlier:
            counts = buckets[-1].place[rows]
        for tried in range(min(TRIED, int(counts.max(initial=0)))):
            still = (counts > tried) & ~near[rows]
            if not still.any():
                break
            mine, theirs = rows[still], buckets[-1].rows[starts[still] + tried]
            fresh = fits(mine, theirs)
            for before in range(band):  # skip pairs measured in an earlier band
                met = a.bands[mine, before] == b.bands[theirs, before]
                fresh &= ~(met & (buckets[before].place[theirs] < TRIED))
            mine, theirs = mine[fresh], theirs[fresh]
            near[mine[similar(a, b, mine, theirs)]] = True
    return near


def similar(a: Shingles, b: Shingles, mine: I64, theirs: I64) -> Mask:
    """True for pairs of texts of `a` and `b` with a Jaccard similarity of at least `NEAR`."""
    sizes, others = a.sizes[mine], b.sizes[theirs]
    close = np.minimum(sizes, others) >= NEAR * np.maximum(
        sizes, others
    )  # the intersection is at most the smaller set
    result = np.zeros(len(mine), dtype=np.bool_)
    at = np.flatnonzero(close)
    for low, high in _cuts(np.cumsum((sizes + others)[at])):
        part = at[low:high]
        common = _common(a, b, mine[part], theirs[part])
        result[part] = common >= NEAR * (sizes[part] + others[part] - common)
    return result


def _common(a: Shingles, b: Shingles, mine: I64, theirs: I64) -> I64:
    """Number of shingles that the texts of each pair share."""
    first, pair = _gathered(a, mine)
    second, other = _gathered(b, theirs)
    values, pairs = np.concatenate((first, second)), np.concatenate((pair, other))
    order = np.lexsort((values, pairs))
    values, pairs = values[order], pairs[order]
    twice = (values[1:] == values[:-1]) & (pairs[1:] == pairs[:-1])
    return np.bincount(pairs[1:][twice], minlength=len(mine)).astype(np.int64)


def _gathered(shingles: Shingles, rows: I64) -> tuple[U64, I64]:
    """Shingles of some texts, concatenated, and the index of the text that each comes from."""
    sizes = shingles.sizes[rows]
    text = np.repeat(np.arange(len(rows)), sizes)
    within = np.arange(len(text)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return shingles.flat[shingles.starts[rows][text] + within], text
