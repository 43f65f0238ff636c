"""Leaks: rows and pairs that a test split shares with training, and duplicates within a split.

Exact: the same content key, or the same input. Near: the same text after Unicode and white-space
folding (and, for texts of at least eight words, case and punctuation), or a Jaccard similarity of
at least 0.9 between the sets of three-word shingles of two texts, found by MinHash and then
measured exactly. Short inputs such as `c b A 3` are not folded further: there, case carries
meaning. Disguises of a text (`disguises.py`) are undone before it is compared, and changes of
numbers, order or a single word count if they are too frequent. Texts are hashed once, and only
their ids are compared afterwards.

Pairs of an input and an answer are compared in both directions. If `hot` is tested with the answer
`cold`, training must have neither `hot` with `cold` nor `cold` with `hot`: relations are symmetric
more often than not. Texts of pairs are compared exactly, across all tasks and all acceptable
answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from taskloom.core.arrow import array_of, numbers
from taskloom.core.plan import Role
from taskloom.data.audit.disguises import (
    FOLDED,
    NUMBERS,
    ONE_WORD,
    SIMILAR,
    WORDS,
    Alike,
    Forms,
    disguises_of,
    exceeds,
    find_forms,
    matches,
    natural_rate,
    one_word_matches,
    order_of,
    undisguise,
)
from taskloom.data.audit.near_duplicates import (
    Shingles,
    find_shingles,
    find_words,
    fold,
    near_rows,
)

if TYPE_CHECKING:
    from taskloom.core.offers import TaskForm


SHOWN = 3
BETWEEN = "\x1f"
"""Separator of joined texts: the ASCII unit separator."""

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Repeats:
    """Duplicates within a split.

    Attributes:
        split: The split.
        n: Number of its rows.
        exact: Rows whose input equals that of an earlier row of the same task.
        near: Near duplicates of an earlier row, including disguised ones.
        contradictions: Inputs that also occur with a different set of answers.
        examples: Some repeated inputs.
        disguised: Rows that repeat an earlier one in disguise.
        unexpected: True for a test split with repeated rows that no recipe has drawn.
    """

    split: str
    n: int
    exact: int
    near: int
    contradictions: int
    examples: list[str]
    disguised: int = 0
    unexpected: bool = False


@dataclass(frozen=True, slots=True)
class Overlap:
    """Rows of `split` that are also in `other`. A leak if `other` is a training split and `split` a
    test split.

    Attributes:
        split: The split being checked.
        other: The other split.
        exact: Rows with the same content key or input.
        near: Near duplicates.
        share: Exact and near matches, as a share of the split.
        leak: True for a test split and a training split.
        by_design: True for a probe, which may repeat training.
        examples: Some of the rows.
        kinds: Number of near matches by kind of difference.
    """

    split: str
    other: str
    exact: int
    near: int
    share: float
    leak: bool
    by_design: bool
    examples: list[str]
    kinds: dict[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """Verdict for tables: a leak, by design, or a note."""
        if self.leak:
            return "leak"
        return "by design" if self.by_design else "note"


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of a split in the forms used for comparison.

    Attributes:
        inputs: The texts.
        input_numbers: Id of each text. Equal texts of all splits have the same id, here and in the
            next three attributes.
        content_numbers: Id of each content key, or of the text if there is no key.
        folded_numbers: Id of each folded text.
        plain_numbers: Id of each text with disguises undone, folded.
        shingles: Shingles of the long texts with disguises undone.
        forms: Hashes of the long texts with disguises undone, which ignore numbers, order or a
            word.
        near_within: True for near duplicates of an earlier row of the split.
    """

    inputs: pa.Array
    input_numbers: I64
    content_numbers: I64
    folded_numbers: I64
    plain_numbers: I64
    shingles: Shingles
    forms: Forms
    near_within: Mask


def find_repeats(
    tables: Mapping[str, pa.Table],
    texts_of: Mapping[str, Texts],
    roles: Mapping[str, Role],
    drawn: bool,
) -> list[Repeats]:
    """Find duplicates and contradictions within each split.

    Args:
        tables: Rows by split.
        texts_of: Texts by split.
        roles: The role of each split.
        drawn: True for data generated by a recipe, which may repeat if the space is small.
    """
    repeats = []
    for name, table in tables.items():
        texts = texts_of[name]
        # The same word in two tasks, or two questions about one story, are two examples. The same
        # input twice in one task is a duplicate.
        task = _numbered({name: one_array(table.column("task"))})[name]
        inputs = _within_task(task, texts.input_numbers)
        exact, nearly = _repeated(inputs), _repeated(_within_task(task, texts.folded_numbers))
        disguised = _repeated(_within_task(task, texts.plain_numbers)) - nearly
        near = max(0, nearly - exact) + disguised + int(texts.near_within.sum())
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
        unexpected = roles[name] == "test" and not drawn and exact + disguised > 0
        repeats.append(
            Repeats(name, table.num_rows, exact, near, contradictions, shown, disguised, unexpected)
        )
    return repeats


def find_overlaps(
    texts: Mapping[str, Texts], roles: Mapping[str, Role], drawn: bool
) -> tuple[list[Overlap], list[Alike]]:
    """Find the rows shared by every pair of splits. Pairs that share none are left out.

    Also returns the test rows that resemble a training row in ways that also occur by chance. Those
    that are leaks are in the overlaps.

    Args:
        texts: The texts of each split.
        roles: The role of each split.
        drawn: True for data generated by a recipe, whose stories may resemble each other by chance.
            In other data, texts with nearly the same words are always leaks.
    """
    overlaps, alikes = [], []
    for first, second in combinations(texts, 2):
        # A probe enumerates the space that tests are drawn from, so only its overlap with training
        # is worth reporting.
        if "probe" in (roles[first], roles[second]) and "train" not in (
            roles[first],
            roles[second],
        ):
            continue
        # Report the overlap once, from the side of the test split.
        split, other = (first, second) if roles[second] == "train" else (second, first)
        a, b = texts[split], texts[other]
        same = _among(a.content_numbers, b.content_numbers) | _among(
            a.input_numbers, b.input_numbers
        )
        exact = int(same.sum())
        near, kinds = _near_across(a, b, same)
        leak = roles[other] == "train" and roles[split] == "test"
        for kind, rows, tested, rate in _alike_across(a, b, same | near, orders=leak):
            found = int(rows.sum())
            if kind == SIMILAR and not drawn:
                rate = 0.0
            more = exceeds(found, tested, rate)
            if leak:
                alikes.append(Alike(split, other, kind, found, rate, more))
            if more or (kind == SIMILAR and not leak):
                near |= rows
                kinds.update(_named(kind, a, b, rows))
        near_at = np.flatnonzero(near)
        if not exact and not len(near_at):
            continue
        probe = "probe" in (roles[split], roles[other])
        at = [*np.flatnonzero(same)[:SHOWN], *near_at[:SHOWN]]
        shown = [a.inputs[int(i)].as_py()[:200] for i in at[:SHOWN]]
        share = (exact + len(near_at)) / max(1, len(a.inputs))
        overlaps.append(
            Overlap(split, other, exact, len(near_at), share, leak, probe, shown, dict(kinds))
        )
    return overlaps, alikes


def one_array(column: Any) -> pa.Array:
    """Return a column as a single chunk."""
    if not column.num_chunks:
        return pa.nulls(0, column.type)  # joining nothing would import pandas if it is installed
    joined = column.combine_chunks()
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


def read_texts(tables: Mapping[str, pa.Table]) -> dict[str, Texts]:
    """Read the texts of every split, and fold and number them once for all comparisons."""
    inputs = {name: one_array(t.column("input")) for name, t in tables.items()}
    keys = {name: one_array(t.column("key")) for name, t in tables.items()}
    folded = {name: fold(column) for name, column in inputs.items()}
    bare = {name: undisguise(column) for name, column in inputs.items()}
    plain = {
        name: folded[name] if bare[name] is inputs[name] else fold(bare[name]) for name in inputs
    }
    input_numbers = content_numbers = folded_numbers = _numbered(inputs)
    if any(key.null_count < len(key) for key in keys.values()):
        content_numbers = _numbered(
            {name: pc.coalesce(keys[name], inputs[name]) for name in tables}
        )
    if not all(folded[name].equals(inputs[name]) for name in tables):
        folded_numbers = _numbered(folded)
    plain_numbers = folded_numbers
    if any(plain[name] is not folded[name] for name in tables):
        plain_numbers = _numbered(plain)
    words = find_words(plain)
    texts = {}
    for name in tables:
        shingles = find_shingles(words[name])
        texts[name] = Texts(
            inputs[name],
            input_numbers[name],
            content_numbers[name],
            folded_numbers[name],
            plain_numbers[name],
            shingles,
            find_forms(words[name]),
            _near_within(shingles, plain_numbers[name]),
        )
    return texts


def _numbered(columns: Mapping[str, pa.Array]) -> dict[str, I64]:
    """Id of each text, shared by equal texts of all columns."""
    kind = next((column.type for column in columns.values()), pa.string())
    coded = pa.chunked_array(list(columns.values()), kind).dictionary_encode(null_encoding="encode")
    every = np.concatenate(
        [np.zeros(0, np.int64), *(array_of(c.indices) for c in coded.unify_dictionaries().chunks)]
    )
    ends = np.cumsum([len(column) for column in columns.values()])
    return dict(zip(columns, np.split(every, ends[:-1]), strict=True))


def _within_task(task: I64, texts: I64) -> I64:
    """Id of each pair of a task and a text."""
    return task * (int(texts.max(initial=0)) + 1) + texts


def _repeated(values: I64) -> int:
    """Number of values that repeat an earlier one."""
    if values.max(initial=0) < 8 * len(values):  # counting is faster than sorting
        return len(values) - int(np.count_nonzero(np.bincount(values)))
    return len(values) - len(np.unique(values))


def _among(values: I64, others: I64) -> Mask:
    """True for values that occur among others. Ids of texts are small enough for a lookup table."""
    there = np.zeros(max(values.max(initial=-1), others.max(initial=-1)) + 1, dtype=np.bool_)
    there[others] = True
    return there[values]


def _near_across(a: Texts, b: Texts, same: Mask) -> tuple[Mask, Counter[str]]:
    """Rows of a that are near but not exact duplicates of a row of b, counted by kind of
    difference.
    """
    folded = _among(a.folded_numbers, b.folded_numbers) & ~same
    disguised = _among(a.plain_numbers, b.plain_numbers) & ~same & ~folded
    kinds = Counter({FOLDED: int(folded.sum())})
    if disguised.any():
        kinds.update(disguises_of(*_partners(a, b, a.plain_numbers, b.plain_numbers, disguised)))
    return folded | disguised, +kinds


def _alike_across(
    a: Texts, b: Texts, found: Mask, orders: bool
) -> Iterator[tuple[str, Mask, int, float]]:
    """Yield, by kind, further rows of a that resemble a row of b in ways that also occur by chance,
    with the number of candidate rows and the share expected by chance.

    Args:
        a: The split being checked.
        b: The split to compare with.
        found: Rows already known to be duplicates.
        orders: Also look for rows that differ only in numbers, order or one word.
    """
    anything = lambda mine, _: np.ones(len(mine), np.bool_)  # noqa: E731 - one use below
    rows = near_rows(a.shingles, b.shingles, ~found, anything, earlier=False)
    if rows.any():
        yield SIMILAR, rows, len(a.inputs), _similar_rate(a, b)
    if not orders:
        return
    found = found | rows
    for kind, mine, theirs in (
        (NUMBERS, a.forms.numbers, b.forms.numbers),
        (WORDS, a.forms.bag, b.forms.bag),
    ):
        rows = matches(mine, theirs, ~found)
        if rows.any():
            rate = natural_rate(mine, a.plain_numbers, theirs, b.plain_numbers)
            yield kind, rows, int(np.count_nonzero(mine)), rate
            found = found | rows
    words = a.forms.words
    rows, rate = one_word_matches(words, b.forms.words, ~found, b.plain_numbers)
    if rows.any():
        yield ONE_WORD, rows, int(np.count_nonzero(words.sizes)), rate


def _similar_rate(a: Texts, b: Texts) -> float:
    """Share of rows of a expected to be near duplicates of a row of b by chance; 0 if neither split
    has near duplicates within itself.
    """
    n, trained = max(1, len(a.inputs)), max(1, len(b.inputs))
    # Within a split, rows were compared only with earlier rows: half of the others on average.
    within_train = 2 * int(b.near_within.sum()) / trained
    within_test = 2 * int(a.near_within.sum()) / n * max(1.0, trained / n)
    return min(1.0, max(within_train, within_test))


def _named(kind: str, a: Texts, b: Texts, rows: Mask) -> Counter[str]:
    """Count rows by kind of difference. Rows that differ in order are divided into order of
    sentences and order of words.
    """
    if kind != WORDS:  # near duplicates, or a difference in numbers or one word
        return Counter({kind: int(rows.sum())})
    pairs = zip(*_partners(a, b, a.forms.bag, b.forms.bag, rows), strict=True)
    return Counter(order_of(text, other) for text, other in pairs)


def _partners(
    a: Texts, b: Texts, mine: I64 | U64, theirs: I64 | U64, rows: Mask
) -> tuple[list[str], list[str]]:
    """Texts of some rows of a, each with the text of a row of b with the same id."""
    at = np.flatnonzero(rows)
    values, first = np.unique(theirs, return_index=True)
    others = first[np.searchsorted(values, mine[at])]
    return a.inputs.take(numbers(at)).to_pylist(), b.inputs.take(numbers(others)).to_pylist()


def _near_within(shingles: Shingles, plain: I64) -> Mask:
    """Rows that nearly repeat an earlier row of the same split with a different folded text."""
    every = np.ones(len(plain), dtype=np.bool_)
    differ = lambda mine, theirs: plain[mine] != plain[theirs]  # noqa: E731 - one expression with its one use below
    return near_rows(shingles, shingles, every, differ, earlier=True)


def _contradictions(table: pa.Table, inputs: I64) -> int:
    """Count the inputs with different sets of targets, once for each additional set."""
    targets = pc.binary_join(table.column("targets").cast(pa.list_(pa.string())), BETWEEN)
    pairs = pa.table([numbers(inputs), targets], names=["input", "targets"])
    different = pairs.group_by(["input", "targets"]).aggregate([])
    return int(different.num_rows - len(np.unique(inputs)))


@dataclass(frozen=True, slots=True)
class PairLeak:
    """Test rows whose input-answer pair is in training.

    Attributes:
        split: The test split.
        same: Rows whose input occurs in training with one of the same answers.
        reversed: Rows that occur in training with input and answer swapped.
        share: Rows of either kind, as a share of the split.
        examples: Some of the pairs, as `input → answer`.
    """

    split: str
    same: int
    reversed: int
    share: float
    examples: list[str]


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Inputs of rows, and all their acceptable answers, concatenated."""

    inputs: pa.Array
    answers: pa.Array
    rows: I64

    @classmethod
    def of(cls, table: pa.Table) -> _Pairs:
        targets = one_array(table.column("targets"))
        rows = array_of(pc.list_parent_indices(targets)).astype(np.int64)
        return cls(one_array(table.column("input")), pc.list_flatten(targets), rows)

    def where(self, chosen: Mask) -> _Pairs:
        """Input-answer pairs of the chosen rows."""
        kept = chosen[self.rows]
        return _Pairs(self.inputs, self.answers.filter(numbers(kept)), self.rows[kept])


def find_pair_leaks(tables: Mapping[str, pa.Table], roles: Mapping[str, Role]) -> list[PairLeak]:
    """Find the pairs that test splits share with training. Splits without any are left out."""
    train = [
        t.select(["input", "targets"])
        for name, t in tables.items()
        if roles[name] == "train" and t.num_rows
    ]
    if not train:
        return []
    tests = {
        name: _Pairs.of(t) for name, t in tables.items() if roles[name] == "test" and t.num_rows
    }
    trained = _Pairs.of(_concerned(pa.concat_tables(train), tests.values()))
    known = pc.unique(trained.inputs)
    leaks = []
    for name, tested in tests.items():
        same, turned = _same(tested, trained, known), _reversed(tested, trained, known)
        at = np.concatenate((same, turned))
        if not len(at):
            continue
        rows = tested.rows[at]
        shown = [
            f"{tested.inputs[int(tested.rows[i])]} → {tested.answers[int(i)]}"[:200]
            for i in at[:SHOWN]
        ]
        share = len(np.unique(rows)) / len(tested.inputs)
        as_they_are, other_way = (len(np.unique(tested.rows[places])) for places in (same, turned))
        leaks.append(PairLeak(name, as_they_are, other_way, share, shown))
    return leaks


def _concerned(train: pa.Table, tests: Iterable[_Pairs]) -> pa.Table:
    """Training rows whose input is a tested input or answer. No other row can share a pair with a
    test.
    """
    texts = [text for tested in tests for text in (tested.inputs, tested.answers)]
    return train.filter(
        pc.is_in(train.column("input"), pc.unique(pa.chunked_array(texts, pa.string())))
    )


def _same(tested: _Pairs, trained: _Pairs, known: pa.Array) -> I64:
    """Indices of the tested pairs that are in training."""
    shared = _places(tested.inputs, known)
    if not (shared >= 0).any():
        return np.zeros(0, dtype=np.int64)
    mine = np.flatnonzero(shared[tested.rows] >= 0)
    inputs = pc.unique(tested.inputs.filter(numbers(shared >= 0)))
    theirs = trained.where(_places(trained.inputs, inputs) >= 0)
    answers = pc.unique(theirs.answers)
    here = tested.answers.take(numbers(mine))
    codes = _codes(
        _places(tested.inputs, inputs)[tested.rows[mine]], _places(here, answers), len(answers)
    )
    there = _codes(
        _places(theirs.inputs, inputs)[theirs.rows], _places(theirs.answers, answers), len(answers)
    )
    return mine[np.isin(codes, there[there >= 0]) & (codes >= 0)]


def _reversed(tested: _Pairs, trained: _Pairs, known: pa.Array) -> I64:
    """Indices of the tested pairs that are in training in reverse. A text paired with itself is not
    counted.
    """
    inputs = pc.unique(tested.inputs)
    theirs = _places(trained.answers, inputs)
    if not (theirs >= 0).any():
        return np.zeros(0, dtype=np.int64)
    own = _places(tested.inputs, inputs)[tested.rows]
    codes = _codes(_places(tested.answers, known), own, len(inputs))
    there = _codes(_places(trained.inputs, known)[trained.rows], theirs, len(inputs))
    with_itself = _places(tested.answers, inputs) == own
    return np.flatnonzero(
        np.isin(codes, np.unique(there[there >= 0])) & (codes >= 0) & ~with_itself
    )


def _places(texts: pa.Array, among: pa.Array) -> I64:
    """Index of each text in a list of unique texts, or -1."""
    nowhere = numbers(np.array([-1], dtype=np.int32))[0]
    return array_of(pc.coalesce(pc.index_in(texts, among), nowhere)).astype(np.int64)


def _codes(first: I64, second: I64, size: int) -> I64:
    """A single code for each pair of indices, or -1 if one of them is missing."""
    return np.where((first >= 0) & (second >= 0), first * size + second, -1)


@dataclass(frozen=True, slots=True)
class ConstantTask:
    """A test task that differs from a training task only in a constant.

    Which parts of a task are constants is defined by the suite's `task_form`, which returns a
    task's name without its constants.

    Attributes:
        split: The test split.
        task: The task, which is not in training.
        like: A training task that differs only in a constant.
        n: Number of its rows.
    """

    split: str
    task: str
    like: str
    n: int


def find_constant_tasks(
    tables: Mapping[str, pa.Table], roles: Mapping[str, Role], form: TaskForm | None
) -> list[ConstantTask]:
    """Find test tasks that differ from a training task only in a constant. None are found if the
    suite has no `task_form`.
    """
    if form is None:
        return []
    forms: dict[str, str] = {}
    known: set[str] = set()
    for name, table in tables.items():
        if roles[name] == "train":
            for task, (_, traits) in _tasks(table).items():
                known.add(task)
                forms.setdefault(form(task, traits), task)
    constant_tasks = []
    for name, table in tables.items():
        if roles[name] != "test":
            continue
        for task, (n, traits) in _tasks(table).items():
            like = forms.get(form(task, traits)) if task not in known else None
            if like is not None:
                constant_tasks.append(ConstantTask(name, task, like, n))
    return constant_tasks


def _tasks(table: pa.Table) -> dict[str, tuple[int, dict[str, Any]]]:
    """Tasks of a split, with their number of rows and the traits of their first row."""
    if "task" not in table.column_names or not table.num_rows:
        return {}
    counted = pc.value_counts(table.column("task")).to_pylist()
    names = [row["values"] for row in counted]
    places = pc.index_in(table.column("task"), pa.array(names, table.column("task").type))
    _, first = np.unique(places.to_numpy(), return_index=True)
    has_traits = "traits" in table.column_names
    traits = (
        table.column("traits").take(pa.array(first)).to_pylist()
        if has_traits
        else [{}] * len(first)
    )
    return {
        str(name): (int(row["counts"]), one or {})
        for name, row, one in zip(names, counted, traits, strict=True)
        if name is not None
    }
