"""Leaks: rows and pairs that a test split shares with training, and duplicates within a split.

Exact: the same content key, or the same input. Near: the same text after Unicode and white-space
folding (and, for texts of at least eight words, case and punctuation), or a Jaccard similarity of
at least 0.9 between the sets of three-word shingles of two texts, found by MinHash and then
measured exactly. Short inputs such as `c b A 3` are not folded further: there a letter's case
carries meaning. Disguises of a text (`disguises.py`) are undone before it is compared, and changes of
numbers, of order and of one word count if they are too many. Texts are hashed once: what is compared afterwards
are their numbers.

Pairs of an input and an answer are compared as they are and the other way round. If `hot` is tested
with the answer `cold`, training must have neither `hot` with `cold` nor `cold` with `hot`: relations
are symmetric more often than not. Texts of pairs are compared as they stand, over all tasks and all
acceptable answers.
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
"""Stands between joined texts; the control character made for it."""

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Repeats:
    """Duplicates within a split.

    Attributes:
        split: The split.
        n: Its rows.
        exact: Rows whose input an earlier row of the same task has.
        near: Rows that nearly repeat an earlier one, the disguised ones among them.
        contradictions: Inputs that occur with another set of answers.
        examples: Some of the repeated inputs.
        disguised: Rows that repeat an earlier one in disguise.
        unexpected: True for a test split whose rows repeat although no recipe draws them so.
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
    """Rows of `split` that `other` has too. A leak when `other` is trained on and `split` tests.

    Attributes:
        split: The split that is tested.
        other: The other split.
        exact: Rows with the same content key or input.
        near: Rows that differ a little.
        share: Both together, as a share of the split.
        leak: True for a test split and a training split.
        by_design: True for a probe, which may repeat training.
        examples: Some of the rows.
        kinds: The near rows by what they differ in.
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
        """One word or two for tables: a leak, by design, or a note."""
        if self.leak:
            return "leak"
        return "by design" if self.by_design else "note"


@dataclass(frozen=True, slots=True)
class Texts:
    """A split's texts in the forms that are compared.

    Attributes:
        inputs: The texts.
        input_numbers: A number for each text; equal texts of any split have equal numbers, as in
            the two that follow.
        content_numbers: A number for each content key, or else text.
        folded_numbers: A number for each folded text.
        plain_numbers: A number for each text without disguises, folded.
        shingles: The shingles of the long texts without disguises.
        forms: What the long texts without disguises are compared by if numbers, order or a word differ.
        near_within: True for rows that nearly repeat an earlier row of the split.
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
    """Find duplicates and contradictions inside every split.

    Args:
        tables: The rows by split.
        texts_of: Their texts.
        roles: The role of each split.
        drawn: True for data of a recipe, whose draws may repeat in a small space.
    """
    repeats = []
    for name, table in tables.items():
        texts = texts_of[name]
        # The same word in two tasks, or two questions on one story, are two examples; the same
        # input of one task twice is one.
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
    """Find what every two splits share; pairs that share nothing are left out.

    Also returned are the rows of tests that resemble a training row as rows of one split may do,
    which are in the overlaps if they are leaks.

    Args:
        texts: The texts of each split.
        roles: The role of each split.
        drawn: True for data of a recipe, whose stories resemble each other by themselves. Texts of
            other origin that have nearly the same words are always leaks.
    """
    overlaps, alikes = [], []
    for first, second in combinations(texts, 2):
        # A probe enumerates a space that tests are drawn from: only what it shares with training is
        # worth a line.
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
    """Return a column in one piece."""
    joined = column.combine_chunks()
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


def read_texts(tables: Mapping[str, pa.Table]) -> dict[str, Texts]:
    """Read the texts of every split, folded and numbered once for all comparisons."""
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
    """Return which values are among others; numbers of texts are small enough for a table of
    them.
    """
    there = np.zeros(max(values.max(initial=-1), others.max(initial=-1)) + 1, dtype=np.bool_)
    there[others] = True
    return there[values]


def _near_across(a: Texts, b: Texts, same: Mask) -> tuple[Mask, Counter[str]]:
    """Return the rows of a that are no exact duplicate but nearly repeat a row of b, and count them
    by what they differ in.
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
    """Yield the kinds in which further rows of a resemble a row of b as rows of one split may do,
    with these rows, the number of rows that could, and the share that is natural.

    Args:
        a: The split that is asked about.
        b: The split that it may repeat.
        found: Rows that are known to repeat.
        orders: Also look for rows that are equal but for numbers, order or one word.
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
    """Return the share of rows of a that nearly repeat a row of b by themselves: 0 if no row does so
    within either split.
    """
    n, trained = max(1, len(a.inputs)), max(1, len(b.inputs))
    # Only earlier rows were looked at within a split, half of the others on average.
    within_train = 2 * int(b.near_within.sum()) / trained
    within_test = 2 * int(a.near_within.sum()) / n * max(1.0, trained / n)
    return min(1.0, max(within_train, within_test))


def _named(kind: str, a: Texts, b: Texts, rows: Mask) -> Counter[str]:
    """Count rows by the kind of their difference; the order may be that of whole sentences."""
    if kind != WORDS:  # similar, other numbers, or one other word
        return Counter({kind: int(rows.sum())})
    pairs = zip(*_partners(a, b, a.forms.bag, b.forms.bag, rows), strict=True)
    return Counter(order_of(text, other) for text, other in pairs)


def _partners(
    a: Texts, b: Texts, mine: I64 | U64, theirs: I64 | U64, rows: Mask
) -> tuple[list[str], list[str]]:
    """Return the texts of some rows of a, and of a row of b with the same number for each."""
    at = np.flatnonzero(rows)
    values, first = np.unique(theirs, return_index=True)
    others = first[np.searchsorted(values, mine[at])]
    return a.inputs.take(numbers(at)).to_pylist(), b.inputs.take(numbers(others)).to_pylist()


def _near_within(shingles: Shingles, plain: I64) -> Mask:
    """Return the rows that nearly repeat an earlier, differently folded row of the same split."""
    every = np.ones(len(plain), dtype=np.bool_)
    differ = lambda mine, theirs: plain[mine] != plain[theirs]  # noqa: E731 - one expression with its one use below
    return near_rows(shingles, shingles, every, differ, earlier=True)


def _contradictions(table: pa.Table, inputs: I64) -> int:
    """Count the inputs that occur with different sets of targets, once for each further set."""
    targets = pc.binary_join(table.column("targets").cast(pa.list_(pa.string())), BETWEEN)
    pairs = pa.table([numbers(inputs), targets], names=["input", "targets"])
    different = pairs.group_by(["input", "targets"]).aggregate([])
    return int(different.num_rows - len(np.unique(inputs)))


@dataclass(frozen=True, slots=True)
class PairLeak:
    """Rows of a test split with a pair that training has.

    Attributes:
        split: The test split.
        same: Rows whose input training has with one of the same answers.
        reversed: Rows of which training has an answer as its input, with the row's input as its
            answer.
        share: Rows of either kind, as a share of the split.
        examples: Some of them, `input → answer`.
    """

    split: str
    same: int
    reversed: int
    share: float
    examples: list[str]


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The inputs of rows, and all their acceptable answers behind one another."""

    inputs: pa.Array
    answers: pa.Array
    rows: I64

    @classmethod
    def of(cls, table: pa.Table) -> _Pairs:
        targets = one_array(table.column("targets"))
        rows = array_of(pc.list_parent_indices(targets)).astype(np.int64)
        return cls(one_array(table.column("input")), pc.list_flatten(targets), rows)

    def where(self, chosen: Mask) -> _Pairs:
        """Return the pairs of some rows alone."""
        kept = chosen[self.rows]
        return _Pairs(self.inputs, self.answers.filter(numbers(kept)), self.rows[kept])


def find_pair_leaks(tables: Mapping[str, pa.Table], roles: Mapping[str, Role]) -> list[PairLeak]:
    """Find the pairs that test splits share with training; splits that share none are left out."""
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
    """Return the training rows whose input is a tested input or answer: no other can share a pair
    with a test.
    """
    texts = [text for tested in tests for text in (tested.inputs, tested.answers)]
    return train.filter(
        pc.is_in(train.column("input"), pc.unique(pa.chunked_array(texts, pa.string())))
    )


def _same(tested: _Pairs, trained: _Pairs, known: pa.Array) -> I64:
    """Return the places of the tested pairs that training has."""
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
    """Return the places of the tested pairs that training has the other way round; a text with
    itself is no pair to turn.
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
    """Return the place of each text among different texts, -1 where it is not one of them."""
    nowhere = numbers(np.array([-1], dtype=np.int32))[0]
    return array_of(pc.coalesce(pc.index_in(texts, among), nowhere)).astype(np.int64)


def _codes(first: I64, second: I64, size: int) -> I64:
    """Return one number for each pair of places, -1 where one of them is missing."""
    return np.where((first >= 0) & (second >= 0), first * size + second, -1)


@dataclass(frozen=True, slots=True)
class ConstantTask:
    """A task of a test split that is a training task but for a constant.

    What is a constant only the suite can tell: it offers `task_form`, a task's name without its
    constants.

    Attributes:
        split: The test split.
        task: The task, which training lacks.
        like: A training task that is the same but for a constant.
        n: Rows of it.
    """

    split: str
    task: str
    like: str
    n: int


def find_constant_tasks(
    tables: Mapping[str, pa.Table], roles: Mapping[str, Role], form: TaskForm | None
) -> list[ConstantTask]:
    """Find tasks of test splits that training lacks but for a constant; none where the suite does
    not tell constants.
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
    """Return the tasks of a split, how many rows each has, and the traits of its first row."""
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
