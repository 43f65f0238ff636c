"""Exact and near duplicates, within a split and across splits.

Exact: the same content key, or the same input. Near: the same text after Unicode and white-space folding (and, for
texts of at least eight words, case and punctuation), or a Jaccard similarity of at least 0.9 between the sets of
three-word shingles of two texts, found by MinHash and then measured exactly. Short inputs such as `c b A 3` are not
folded further: there a letter's case carries meaning.

Texts are hashed once: what is compared afterwards are their numbers.
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

from taskloom.core.arrow import array_of, numbers
from taskloom.core.plan import Role
from taskloom.data.audit.near_duplicates import Shingles, find_shingles, fold, near_rows

SHOWN = 3
BETWEEN = "\x1f"
"""Stands between joined texts; the control character made for it."""

I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]


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

    @property
    def verdict(self) -> str:
        """One word or two for tables: a leak, by design, or a note."""
        if self.leak:
            return "leak"
        return "by design" if self.by_design else "note"


@dataclass(frozen=True, slots=True)
class Texts:
    """A split's texts in the forms that are compared.

    Attributes:
        inputs: The texts.
        input_numbers: A number for each text; equal texts of any split have equal numbers, as in the two that follow.
        content_numbers: A number for each content key, or else text.
        folded_numbers: A number for each folded text.
        shingles: The shingles of the long texts.
    """

    inputs: pa.Array
    input_numbers: I64
    content_numbers: I64
    folded_numbers: I64
    shingles: Shingles


def find_repeats(tables: Mapping[str, pa.Table], texts_of: Mapping[str, Texts]) -> list[Repeats]:
    """Find duplicates and contradictions inside every split."""
    repeats = []
    for name, table in tables.items():
        texts = texts_of[name]
        # The same word in two tasks, or two questions on one story, are two examples; the same input of one task twice is one.
        task = _numbered({name: one_array(table.column("task"))})[name]
        inputs = _within_task(task, texts.input_numbers)
        exact, nearly = _repeated(inputs), _repeated(_within_task(task, texts.folded_numbers))
        near = max(0, nearly - exact) + int(_near_within(texts).sum())
        contradictions, shown = 0, []
        if exact:
            _, first, place, count = np.unique(
                inputs, return_index=True, return_inverse=True, return_counts=True
            )
            often = np.sort(first[count > 1])
            shown = [texts.inputs[int(i)].as_py() for i in often[:SHOWN]]
            contradictions = _contradictions(
                table.filter(numbers(count[place] > 1)), inputs[count[place] > 1]
            )
        repeats.append(Repeats(name, table.num_rows, exact, near, contradictions, shown))
    return repeats


def find_overlaps(texts: Mapping[str, Texts], roles: Mapping[str, Role]) -> list[Overlap]:
    """Find what every two splits share; pairs that share nothing are left out."""
    overlaps = []
    for first, second in combinations(texts, 2):
        # A probe enumerates a space that tests are drawn from: only what it shares with training is worth a line.
        if "probe" in (roles[first], roles[second]) and "train" not in (
            roles[first],
            roles[second],
        ):
            continue
        # The row is reported from the side that is tested.
        split, other = (first, second) if roles[second] == "train" else (second, first)
        a, b = texts[split], texts[other]
        same = _among(a.content_numbers, b.content_numbers) | _among(
            a.input_numbers, b.input_numbers
        )
        exact = int(same.sum())
        near_at = _near_across(a, b, same)
        if not exact and not len(near_at):
            continue
        probe = "probe" in (roles[split], roles[other])
        leak = roles[other] == "train" and roles[split] == "test"
        at = [*np.flatnonzero(same)[:SHOWN], *near_at[:SHOWN]]
        shown = [a.inputs[int(i)].as_py()[:200] for i in at[:SHOWN]]
        share = (exact + len(near_at)) / max(1, len(a.inputs))
        overlaps.append(Overlap(split, other, exact, len(near_at), share, leak, probe, shown))
    return overlaps


def one_array(column: Any) -> pa.Array:
    """Return a column in one piece."""
    joined = column.combine_chunks()
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


def read_texts(tables: Mapping[str, pa.Table]) -> dict[str, Texts]:
    """Read the texts of every split, folded and numbered once for all comparisons."""
    inputs = {name: one_array(t.column("input")) for name, t in tables.items()}
    keys = {name: one_array(t.column("key")) for name, t in tables.items()}
    folded = {name: fold(column) for name, column in inputs.items()}
    input_numbers = content_numbers = folded_numbers = _numbered(inputs)
    if any(key.null_count < len(key) for key in keys.values()):
        content_numbers = _numbered(
            {name: pc.coalesce(keys[name], inputs[name]) for name in tables}
        )
    if not all(folded[name].equals(inputs[name]) for name in tables):
        folded_numbers = _numbered(folded)
    shingles = find_shingles(folded)
    return {
        name: Texts(
            inputs[name],
            input_numbers[name],
            content_numbers[name],
            folded_numbers[name],
            shingles[name],
        )
        for name in tables
    }


def _numbered(columns: Mapping[str, pa.Array]) -> dict[str, I64]:
    """Return a number for each text, the same for equal texts of any column."""
    kind = next((column.type for column in columns.values()), pa.string())
    coded = pa.chunked_array(list(columns.values()), kind).dictionary_encode(null_encoding="encode")
    every = np.concatenate(
        [np.zeros(0, np.int64), *(array_of(c.indices) for c in coded.unify_dictionaries().chunks)]
    )
    ends = np.cumsum([len(column) for column in columns.values()])
    return dict(zip(columns, np.split(every, ends[:-1]), strict=True))


def _within_task(task: I64, texts: I64) -> I64:
    """Return a number for each pair of a task and a text."""
    return task * (int(texts.max(initial=0)) + 1) + texts


def _repeated(values: I64) -> int:
    """Count the values that stand there already."""
    if values.max(initial=0) < 8 * len(values):  # a table of them is small, and faster than sorting
        return len(values) - int(np.count_nonzero(np.bincount(values)))
    return len(values) - len(np.unique(values))


def _among(values: I64, others: I64) -> Mask:
    """Return which values are among others; numbers of texts are small enough for a table of them."""
    there = np.zeros(max(values.max(initial=-1), others.max(initial=-1)) + 1, dtype=np.bool_)
    there[others] = True
    return there[values]


def _near_across(a: Texts, b: Texts, same: Mask) -> I64:
    """Return the rows of a that are no exact duplicate but nearly repeat a row of b."""
    near = _among(a.folded_numbers, b.folded_numbers) & ~same
    wanted = ~same & ~near
    near |= near_rows(
        a.shingles, b.shingles, wanted, lambda mine, _: np.ones(len(mine), np.bool_), earlier=False
    )
    return np.flatnonzero(near)


def _near_within(texts: Texts) -> Mask:
    """Return the rows that nearly repeat an earlier, differently folded row of the same split."""
    folded, every = texts.folded_numbers, np.ones(len(texts.inputs), dtype=np.bool_)
    differ = lambda mine, theirs: folded[mine] != folded[theirs]  # noqa: E731 - one expression with its one use below
    return near_rows(texts.shingles, texts.shingles, every, differ, earlier=True)


def _contradictions(table: pa.Table, inputs: I64) -> int:
    """Count the inputs that occur with different sets of targets, once for each further set."""
    targets = pc.binary_join(table.column("targets").cast(pa.list_(pa.string())), BETWEEN)
    pairs = pa.table([numbers(inputs), targets], names=["input", "targets"])
    different = pairs.group_by(["input", "targets"]).aggregate([])
    return int(different.num_rows - len(np.unique(inputs)))
