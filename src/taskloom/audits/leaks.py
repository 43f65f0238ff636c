"""Exact and near duplicates, within a split and across splits.

Exact: the same content key, or the same input. Near: the same text after Unicode and white-space folding (and, for
texts of at least eight words, case and punctuation), or a Jaccard similarity of at least 0.9 between the sets of
three-word shingles of two texts, found by MinHash and then measured exactly. Short inputs such as `c b A 3` are not
folded further: there a letter's case carries meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from taskloom.plan import Role
from taskloom.seeding import Key

LONG = 8
"""Words from which a text counts as prose."""
SHINGLE = 3
NEAR = 0.9
BANDS, ROWS = 8, 4
"""Two texts of similarity 0.9 share a band with probability 1 - (1 - 0.9^4)^8 = 0.9996."""
SHOWN = 3
BETWEEN = "\x1f"
"""Stands between joined texts; the control character made for it."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """What a split repeats within itself."""

    split: str
    n: int
    exact: int
    near: int
    contradictions: int
    examples: list[str]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Rows of `split` that `other` has too. A leak when `other` is trained on and `split` tests."""

    split: str
    other: str
    exact: int
    near: int
    share: float
    leak: bool
    by_design: bool
    examples: list[str]


@dataclass(frozen=True, slots=True)
class Texts:
    """A split's texts in the forms that are compared."""

    inputs: pa.Array
    contents: pa.Array
    folded: pa.Array
    shingles: list[NDArray[np.uint64]]
    bands: NDArray[np.uint64]


def find_repeats(tables: Mapping[str, pa.Table], texts_of: Mapping[str, Texts]) -> list[Repeats]:
    """Find duplicates and contradictions inside every split."""
    repeats = []
    for name, table in tables.items():
        texts = texts_of[name]
        # The same word in two tasks, or two questions on one story, are two examples; the same input of one task twice is one.
        inputs, folds = _within_task(table, texts.inputs), _within_task(table, texts.folded)
        exact = len(inputs) - len(pc.unique(inputs))
        folded = len(folds) - len(pc.unique(folds))
        counted = pc.value_counts(inputs)
        often = counted.filter(pc.greater(counted.field("counts"), 1)) if exact else counted.slice(0, 0)
        near = max(0, folded - exact) + len(_near_within(texts))
        shown = [row["values"].partition(BETWEEN)[2] for row in often.slice(0, SHOWN).to_pylist()]
        repeats.append(Repeats(name, table.num_rows, exact, near, _contradictions(table), shown))
    return repeats


def find_overlaps(texts: Mapping[str, Texts], roles: Mapping[str, Role]) -> list[Overlap]:
    """Find what every two splits share; pairs that share nothing are left out."""
    overlaps = []
    for first, second in combinations(texts, 2):
        # A probe enumerates a space that tests are drawn from: only what it shares with training is worth a line.
        if "probe" in (roles[first], roles[second]) and "train" not in (roles[first], roles[second]):
            continue
        # The row is reported from the side that is tested.
        split, other = (first, second) if roles[second] == "train" else (second, first)
        a, b = texts[split], texts[other]
        same = pc.or_(pc.is_in(a.contents, b.contents), pc.is_in(a.inputs, b.inputs))
        exact = int(pc.sum(same).as_py() or 0)
        near_at = _near_across(a, b, same)
        if not exact and not len(near_at):
            continue
        probe = "probe" in (roles[split], roles[other])
        leak = roles[other] == "train" and roles[split] == "test"
        at = [*np.flatnonzero(same.to_numpy(zero_copy_only=False))[:SHOWN], *near_at[:SHOWN]]
        shown = [a.inputs[int(i)].as_py()[:200] for i in at[:SHOWN]]
        share = (exact + len(near_at)) / max(1, len(a.inputs))
        overlaps.append(Overlap(split, other, exact, len(near_at), share, leak, probe, shown))
    return overlaps


def _within_task(table: pa.Table, texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(one_array(table.column("task")), texts, BETWEEN, null_handling="replace")


def one_array(column: Any) -> pa.Array:
    """Return a column in one piece."""
    joined = column.combine_chunks()
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


def read_texts(tables: Mapping[str, pa.Table]) -> dict[str, Texts]:
    """Read the texts of every split, folded and hashed once for all comparisons."""
    inputs = {name: one_array(t.column("input")) for name, t in tables.items()}
    folded = {name: _fold(column) for name, column in inputs.items()}
    shingles = _shingles(folded)
    return {
        name: Texts(
            inputs[name],
            pc.coalesce(one_array(t.column("key")), inputs[name]),
            folded[name],
            shingles[name],
            _bands(shingles[name]),
        )
        for name, t in tables.items()
    }


def _fold(texts: pa.Array) -> pa.Array:
    plain = pc.utf8_trim_whitespace(pc.replace_substring_regex(pc.utf8_normalize(texts, "NFKC"), r"\s+", " "))
    is_long = pc.greater_equal(pc.count_substring(plain, " "), LONG - 1)
    if not pc.any(is_long).as_py():
        return plain
    bare = pc.replace_substring_regex(pc.utf8_lower(plain), r"[^\pL\pN\s]+", " ")
    return pc.if_else(is_long, pc.utf8_trim_whitespace(pc.replace_substring_regex(bare, r"\s+", " ")), plain)


def _shingles(folded: Mapping[str, pa.Array]) -> dict[str, list[NDArray[np.uint64]]]:
    """Return the set of hashed three-word shingles of every long text (empty for short ones)."""
    vocabulary: dict[str, int] = {}
    shingles: dict[str, list[NDArray[np.uint64]]] = {}
    nothing = np.zeros(0, dtype=np.uint64)
    weights = Key("audit", "shingle").words(0, SHINGLE)
    for name, texts in folded.items():
        lengths = pc.add(pc.count_substring(texts, " "), 1).to_numpy(zero_copy_only=False)
        rows = [nothing] * len(texts)
        for i in np.flatnonzero(lengths >= LONG):
            words = texts[int(i)].as_py().split()
            ids = np.array([vocabulary.setdefault(w, len(vocabulary) + 1) for w in words], dtype=np.uint64)
            mixed = _scramble(ids[:-2] * weights[0] + ids[1:-1] * weights[1] + ids[2:] * weights[2])
            rows[int(i)] = np.unique(mixed)
        shingles[name] = rows
    return shingles


def _scramble(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = z ^ (z >> np.uint64(30))
    z = z * np.uint64(0xBF58476D1CE4E5B9)
    z = z ^ (z >> np.uint64(27))
    z = z * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _bands(shingles: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Compute MinHash signatures cut into bands, one hash a band; rows of zeros for short texts."""
    bands = np.zeros((len(shingles), BANDS), dtype=np.uint64)
    at = np.array([i for i, s in enumerate(shingles) if len(s)], dtype=np.int64)
    if not len(at):
        return bands
    flat = np.concatenate([shingles[i] for i in at])
    starts = np.concatenate([[0], np.cumsum([len(shingles[i]) for i in at])[:-1]])
    seeds = Key("audit", "minhash").words(0, BANDS * ROWS)
    for band in range(BANDS):
        mixed = np.zeros(len(at), dtype=np.uint64)
        for row in range(ROWS):
            smallest = np.minimum.reduceat(_scramble(flat ^ seeds[band * ROWS + row]), starts)
            mixed = _scramble(mixed + smallest)
        bands[at, band] = mixed
    return bands


def _similar(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> bool:
    common = len(np.intersect1d(a, b, assume_unique=True))
    return common >= NEAR * (len(a) + len(b) - common)


def _near_across(a: Texts, b: Texts, same: pa.Array) -> NDArray[np.int64]:
    """Return the rows of a that are no exact duplicate but nearly repeat a row of b."""
    exact = same.to_numpy(zero_copy_only=False)
    near = pc.is_in(a.folded, b.folded).to_numpy(zero_copy_only=False) & ~exact
    buckets: dict[tuple[int, int], list[int]] = {}
    for band in range(BANDS):
        for i, value in enumerate(b.bands[:, band].tolist()):
            if value:
                buckets.setdefault((band, value), []).append(i)
    for i in np.flatnonzero(~exact & ~near).tolist():
        if not len(a.shingles[i]):
            continue
        tried: set[int] = set()
        for band in range(BANDS):
            for j in buckets.get((band, int(a.bands[i, band])), ())[:50]:
                if j not in tried and _similar(a.shingles[i], b.shingles[j]):
                    near[i] = True
                    break
                tried.add(j)
            if near[i]:
                break
    return np.flatnonzero(near)


def _near_within(texts: Texts) -> list[int]:
    """Return the rows that nearly repeat an earlier, differently folded row of the same split."""
    buckets: dict[tuple[int, int], list[int]] = {}
    folded = texts.folded.to_pylist() if len(texts.bands) and texts.bands.any() else []
    near = []
    for i in range(len(folded)):
        if not len(texts.shingles[i]):
            continue
        keys = [(band, int(texts.bands[i, band])) for band in range(BANDS)]
        others = {j for key in keys for j in buckets.get(key, ())[:50] if folded[j] != folded[i]}
        if any(_similar(texts.shingles[i], texts.shingles[j]) for j in sorted(others)):
            near.append(i)
        for key in keys:
            buckets.setdefault(key, []).append(i)
    return near


def _contradictions(table: pa.Table) -> int:
    """Count the inputs that occur with different sets of targets."""
    targets = pc.binary_join(table.column("targets").cast(pa.list_(pa.string())), BETWEEN)
    inputs = _within_task(table, one_array(table.column("input")))
    pairs = pa.table({"input": inputs, "targets": targets}).group_by(["input", "targets"]).aggregate([])
    return int(pairs.num_rows - len(pc.unique(pairs.column("input"))))
