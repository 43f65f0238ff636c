"""Rows of a task as Arrow tables: words with all their answers, or sequences with one answer per
position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taskloom.core.arrow import even, held, numbers, repeated, strings
from taskloom.core.shards import STEP
from taskloom.suites.taskbench.sampling import Hashes, Sequences, salted
from taskloom.suites.taskbench.split_shares import EARLY, SplitShares, place
from taskloom.suites.taskbench.tables import Table, stack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from taskloom.core.seeding import Key
    from taskloom.suites.taskbench.evaluation.derivation_columns import Trace
    from taskloom.suites.taskbench.evaluation.evaluator import FunctionTable

TRAITS: dict[str, type] = {
    "family": str,
    "composition": str,
    "answers": float,
    "length": int,
    "side": str,
}
"""answers: number of acceptable answers (per position). length: number of items in the input. side:
for a balanced union, the operand that is meant.
"""


@dataclass(frozen=True, eq=False)
class WordRows:
    """The dataset D(f) of a word function: every input in the domain, with y drawn uniformly from
    f(x) and all answers kept.

    Attributes:
        task: Name of the task, used in rows.
        solved: The function.
        key: The key of the task.
        hashes: Hashes of content, shared with other tasks so that a word is in the same split of
            every task.
        shares: Shares of the splits. If None, all words are in a single split, `answers`.
        traits: Traits that all rows share.
        sides: For balanced unions, the index of each input's operand; otherwise all 0.
        side_names: Names of the operands.
        shared: For balanced unions, True for each input that both operands know. Only these are
            tested.
        permuted: True if labels are shuffled across inputs.
        traces: Derivations of the official answers: one per operand for balanced unions, none for
            permuted labels.
        trained: Mask of the rows that may be in training. Default: all rows of the split.
    """

    task: str
    solved: FunctionTable
    key: Key
    hashes: Hashes
    shares: SplitShares | None
    traits: Mapping[str, Any]
    sides: NDArray[np.int8] | None = None
    side_names: tuple[str, ...] = ()
    shared: NDArray[np.bool_] | None = None
    permuted: bool = False
    traces: tuple[Trace, ...] = ()
    trained: NDArray[np.bool_] | None = None

    @cached_property
    def _content(self) -> NDArray[np.uint64]:
        return self.hashes.of(self.solved.inputs, self.solved.domain)

    @cached_property
    def _rows(self) -> NDArray[np.uint64]:
        """Hash of each row. Rows of the same word on two sides have different hashes."""
        if self.sides is None:
            return self._content
        return salted(self._content + self.sides.astype(np.uint64), self.key, "side")

    @cached_property
    def _ranks(self) -> NDArray[np.float64]:
        """Rank of each row's word. Training takes the highest ranks first, held-out splits the
        lowest.
        """
        return place(self._content).rank

    @cached_property
    def _members(self) -> dict[str, NDArray[np.int64]]:
        """Rows of each split, in the order in which they are added as the split's share grows. The
        rows of a smaller share are a prefix of those of a larger one.
        """
        order = np.argsort(self._ranks, kind="stable")
        if self.shares is None:
            return {"answers": order}
        content = self._content[order]
        members = {
            split: order[self.shares.member(content, split)] for split in self.shares.weights
        }
        if self.shared is not None:
            members |= {
                split: rows[self.shared[rows]]
                for split, rows in members.items()
                if split != "train"
            }
        train = members["train"][::-1]
        if self.trained is not None:
            train = train[self.trained[train]]
        return members | {"train": train}

    @cached_property
    def _official(self) -> NDArray[np.int64]:
        """Index of the official answer among each row's answers: y ~ Unif(f(x))."""
        drawn = salted(self._rows, self.key, "official")
        return (drawn % self.solved.answers.counts.astype(np.uint64)).astype(np.int64)

    @cached_property
    def _labels(self) -> NDArray[np.int32]:
        """The single label of each row, shuffled across inputs (App. E)."""
        own = self.solved.answers.values[self.solved.answers.starts[:-1] + self._official]
        return np.asarray(own[np.argsort(salted(self._rows, self.key, "permuted"), kind="stable")])

    @property
    def answered(self) -> FunctionTable:
        """The function described by the rows. Shuffled labels make it a different function."""
        if not self.permuted:
            return self.solved
        return replace(
            self.solved, table=Table(np.arange(len(self._labels) + 1, dtype=np.int64), self._labels)
        )

    def count(self, split: str) -> int:
        """Count the rows of a split."""
        return len(self._members.get(split, ()))

    def rounds(self, split: str) -> float:
        """Number of rounds of a split: it has all its words."""
        return 1

    def few(self, name: str, k: int, draw: int = 0) -> NDArray[np.int64]:
        """Draw a subset of the training rows. For a balanced union, both sides get the same number
        of rows.

        Rows that are also in a smaller training split come first, so that the size of training
        hardly affects the subset.
        """
        train = self._members["train"]
        drawn = train[
            np.lexsort((salted(self._rows[train], self.key, name), self._ranks[train] < EARLY))
        ]
        if self.sides is not None:
            # The n-th row of either side has rank n, so sorting by rank alternates the sides.
            side = self.sides[drawn]
            rank = np.where(side == 0, np.cumsum(side == 0), np.cumsum(side == 1))
            drawn = drawn[np.lexsort((side, rank))]
        return drawn[:k]

    def rows(self, split: str, start: int, stop: int) -> pa.Table:
        """Return rows start..stop of a split."""
        return self.table(self._members[split][start:stop])

    def table(self, chosen: NDArray[np.int64]) -> pa.Table:
        """Return the rows at these positions of the domain."""
        solved = self.solved
        if self.permuted:
            answers = self.answered.answers.take(chosen)
        else:
            answers = _official_first(solved.answers.take(chosen), self._official[chosen])
        inputs = held(solved.inputs).take(numbers(solved.domain[chosen]))
        counts = answers.counts.astype(np.float64)
        traits = dict(self.traits) | {"answers": counts, "length": np.ones(len(chosen), np.int64)}
        if self.sides is not None:
            traits["side"] = held(self.side_names).take(
                numbers(self.sides[chosen].astype(np.int32))
            )
        targets = list_of_texts(answers, solved.outputs)
        return _assemble(self.task, inputs, targets, traits, derivation=self._derivations(chosen))

    def _derivations(self, chosen: NDArray[np.int64]) -> pa.Array | None:
        if not self.traces:
            return None
        solved = self.solved
        inputs = solved.domain[chosen]
        answers = solved.answers.values[solved.answers.starts[chosen] + self._official[chosen]]
        if self.sides is None:
            return self.traces[0].words(solved, inputs, answers)
        mine = [np.flatnonzero(self.sides[chosen] == side) for side in range(len(self.traces))]
        parts = [
            t.words(solved, inputs[m], answers[m]) for t, m in zip(self.traces, mine, strict=True)
        ]
        return pa.concat_arrays(parts).take(
            numbers(np.argsort(np.concatenate(mine), kind="stable"))
        )


@dataclass(frozen=True, eq=False)
class SequenceRows:
    """The dataset of a sequence function.

    Attributes:
        task: Name of the task, used in rows.
        sampler: Sampler of sequences.
        counts: Number of rows in each split.
        traits: Traits that all rows share.
        separators: True if items are separated by #.
        trace: Derivations of the official answers.
    """

    task: str
    sampler: Sequences
    counts: Mapping[str, int]
    traits: Mapping[str, Any]
    separators: bool
    trace: Trace | None = None

    @property
    def answered(self) -> FunctionTable:
        """The function described by the rows."""
        return self.sampler.solved

    def count(self, split: str) -> int:
        """Count the rows of a split."""
        return self.counts.get(split, 0)

    def rounds(self, split: str) -> float:
        """Number of rounds of a split that can be drawn."""
        return self.sampler.rounds(split, self.count(split))

    def few(self, name: str, k: int, draw: int = 0) -> NDArray[np.int64]:
        """Draw a subset of the training rows, keeping their order.

        Each draw takes the next block of consecutive rows, because rows are independent anyway. The
        block does not depend on the size of training. If there are not enough blocks for all draws,
        rows are chosen at random.
        """
        n = self.count("train")
        if draw < n // k:
            return np.arange(k * draw, k * (draw + 1))
        return np.sort(
            np.argsort(self.sampler.key.child("few", name).words(0, n), kind="stable")[:k]
        )

    def table(self, chosen: NDArray[np.int64]) -> pa.Table:
        """Return these rows of the training split, which must be consecutive or few."""
        if not len(chosen):
            return self.rows("train", 0, 0)
        first = int(chosen[0])
        table = self.rows("train", first, int(chosen[-1]) + 1)
        return table if table.num_rows == len(chosen) else table.take(numbers(chosen - first))

    def rows(self, split: str, start: int, stop: int) -> pa.Table:
        """Return rows start..stop of a split."""
        solved, length = self.sampler.solved, self.sampler.length
        drawn = self.sampler.draw(split, start, stop)
        between = strings([" # " if self.separators else " "])[0]
        shown = held(solved.inputs).take(numbers(drawn.words.reshape(-1)))
        listed = even(shown, length, stop - start)
        inputs = pc.binary_join(listed, between)
        # The key always has separators. Without them, the input would not show where a name of
        # several words ends, and `separators` must only change how items are written.
        keys = pc.binary_join(listed, strings([" # "])[0])
        m = drawn.kept.sum(axis=1)[0] if stop > start else 0
        counts = solved.answers.counts[drawn.places]
        raw = self.sampler.split_key(split).child("choice").words(start * int(m), stop * int(m))
        which = (raw % counts.astype(np.uint64)).astype(np.int64)
        picked = solved.answers.starts[drawn.places] + which
        chosen = solved.answers.values[picked]
        text = held(solved.outputs).take(numbers(chosen))
        targets = pc.binary_join(even(text, int(m), stop - start), between)
        mean = np.zeros(stop - start)
        if len(counts):
            mean = counts.reshape(stop - start, -1).mean(axis=1)
        traits = dict(self.traits) | {
            "answers": mean,
            "length": np.full(stop - start, length, np.int64),
        }
        steps = None
        if self.trace is not None:
            words = solved.domain[drawn.places]
            steps = self.trace.sequences(
                solved, words, chosen, held(solved.inputs).take(numbers(words)), stop - start
            )
        return _assemble(self.task, inputs, even(targets, 1, stop - start), traits, keys, steps)


def join_balanced(
    first: FunctionTable,
    second: FunctionTable,
    hashes: Hashes,
    shares: SplitShares,
    trained: Callable[[FunctionTable], NDArray[np.bool_] | None] = lambda table: None,
) -> tuple[FunctionTable, NDArray[np.int8], NDArray[np.bool_]]:
    """Build the balanced mixture of two relations (App. D). It has every common input once for each
    relation, and the same number of other inputs from each, which are only used for training. So
    training contains both relations equally often. Returns the mixture, the relation of each row,
    and a mask of the rows whose input is common.

    Args:
        first: The first relation.
        second: The second relation.
        hashes: Hashes of content.
        shares: How words are divided among splits.
        trained: Returns a mask of the inputs of a relation that may be used for training. None: all
            inputs.
    """
    first, second = _samenumbers(first, second)
    common = np.isin(first.domain, second.domain)
    shared = np.isin(second.domain, first.domain)
    others: list[NDArray[np.int64]] = []
    for solved, both in ((first, common), (second, shared)):
        alone = np.flatnonzero(~both)
        content = hashes.of(solved.inputs, solved.domain[alone])
        free = trained(solved)
        member = shares.member(content, "train") & (True if free is None else free[alone])
        order = np.argsort(-place(content).rank, kind="stable")
        others.append(alone[order[member[order]]])
    spare = min(map(len, others))
    parts = [
        (solved, np.concatenate((np.flatnonzero(both), np.sort(alone[:spare]))))
        for (solved, both), alone in zip(((first, common), (second, shared)), others, strict=True)
    ]
    domain = np.concatenate([solved.domain[places] for solved, places in parts])
    answers = stack([solved.answers.take(places) for solved, places in parts])
    sides = np.repeat(np.array([0, 1], dtype=np.int8), [len(places) for _, places in parts])
    both = np.concatenate(
        [mask[places] for mask, (_, places) in zip((common, shared), parts, strict=True)]
    )
    return replace(first, domain=domain, table=answers), sides, both


def _samenumbers(
    first: FunctionTable, second: FunctionTable
) -> tuple[FunctionTable, FunctionTable]:
    """Return both functions with a common numbering of their texts. Word functions always share
    one, but each function of facts has its own.
    """
    if first.inputs is second.inputs and first.outputs is second.outputs:
        return first, second
    inputs = sorted({*first.inputs, *second.inputs})
    outputs = sorted({*first.outputs, *second.outputs})
    place = {text: i for i, text in enumerate(inputs)}
    answer = {text: i for i, text in enumerate(outputs)}

    def renumbered(solved: FunctionTable) -> FunctionTable:
        new_inputs = np.array([place[text] for text in solved.inputs], dtype=np.int32)
        new_outputs = np.array([answer[text] for text in solved.outputs], dtype=np.int32)
        answers = Table(solved.answers.starts, new_outputs[solved.answers.values])
        return replace(
            solved, inputs=inputs, outputs=outputs, domain=new_inputs[solved.domain], table=answers
        )

    return renumbered(first), renumbered(second)


def _official_first(table: Table, official: NDArray[np.int64]) -> Table:
    """Move the official answer of each row to the front, and keep the order of the others."""
    counts = table.counts
    place = np.arange(len(table.values)) - np.repeat(table.starts[:-1], counts)
    wanted = np.repeat(official, counts)
    new = np.where(place < wanted, place + 1, place)
    new[place == wanted] = 0
    values = np.empty_like(table.values)
    values[np.repeat(table.starts[:-1], counts) + new] = table.values
    return Table(table.starts, values)


def list_of_texts(table: Table, texts: Sequence[str]) -> pa.Array:
    """Convert a table to an Arrow column of lists of texts."""
    return pa.ListArray.from_arrays(
        numbers(table.starts.astype(np.int32)), held(texts).take(numbers(table.values))
    )


def index_column(start: int, stop: int) -> pa.Array:
    """Return a column with the indices of rows start..stop."""
    return numbers(np.arange(start, stop, dtype=np.int64))


def _assemble(
    task: str,
    inputs: pa.Array,
    targets: pa.Array,
    traits: Mapping[str, Any],
    keys: pa.Array | None = None,
    derivation: pa.Array | None = None,
) -> pa.Table:
    n = len(inputs)
    fields = []
    for name, kind in TRAITS.items():
        value = traits.get(name)
        arrow = {str: pa.string(), float: pa.float64(), int: pa.int64()}[kind]
        if isinstance(value, str) or value is None:
            fields.append(repeated(value, arrow, n))
        else:
            fields.append(value if isinstance(value, pa.Array) else numbers(value))
    return pa.table(
        {
            "index": numbers(np.arange(n, dtype=np.int64)),
            "task": repeated(task, pa.string(), n),
            "input": inputs,
            "targets": targets,
            "question": pa.nulls(n, pa.string()),
            "key": pa.nulls(n, pa.string()) if keys is None else keys,
            "derivation": pa.nulls(n, pa.list_(STEP)) if derivation is None else derivation,
            "traits": pa.StructArray.from_arrays(fields, names=list(TRAITS)),
        }
    )
