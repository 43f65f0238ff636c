"""Streaming: the rows of a split as a stream for training, generated while they are read.

A stream writes no files, and its state is one integer: the index of the next row. Row i is row i of
`tl.make`, for every reader. Ranks and DataLoader workers take turns with blocks of neighbouring
rows, so that no two of them read the same row, and suites that generate many rows at once remain
fast.

An endless stream continues after the last row. A split whose rows are drawn independently
(`Split.endless`) continues with new rows. Any other split starts over. It never continues with
another seed, because a training row of one seed may be a test row of another.
"""

from __future__ import annotations

import json
import string
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from taskloom.core import shards
from taskloom.core.errors import ParameterError, echo, whole
from taskloom.core.example import Example
from taskloom.core.plan import Plan, Split
from taskloom.data.example_sequence import Examples
from taskloom.data.workers import planned
from taskloom.recipe import Recipe, read
from taskloom.recipe.overrides import Changes, given_changes
from taskloom.recipe.recipe import Source

if TYPE_CHECKING:
    from taskloom.recipe.tasks import Task

BLOCK = 1_000
"""Maximum neighbouring rows per reader. A CTL row takes 2.3 us in blocks of 1,000, and 20 us in
blocks of 64.
"""

TURNS = 16
"""Minimum blocks per reader of a finite split, so that all readers get a similar number of rows."""

PIECE = 128
"""Maximum rows generated ahead by suites that generate them one by one. A thousand long stories
would take a third of a second.
"""

Encode = Callable[[list[str]], Any]
"""Tokenises texts. Returns a list of token ids for each text, or a mapping with such lists as
`input_ids`.
"""


def stream(
    recipe: Source | Task | Recipe,
    split: str = "train",
    *,
    seed: int | None = None,
    changes: Changes = None,
    set: Changes = None,
    rank: int = 0,
    world_size: int = 1,
    start: int = 0,
    endless: bool = False,
) -> Stream:
    """Stream the rows of a split, generated while they are read.

    Args:
        recipe: A recipe, its name or its file, a mapping, or a task of `@tl.task`, as for `make`.
        split: Name of the split.
        seed: Seed of the samples. Default: the recipe's own.
        changes: Changes to the recipe's fields, as for `make`.
        set: Another name for `changes`.
        rank: Index of this process, from 0, among those that train together.
        world_size: Number of processes that train together. They share no row.
        start: Index of the first row, counted over all ranks.
        endless: Continue after the last row, with new rows if the suite can draw more, otherwise
            from the beginning.
    """
    changes = given_changes(changes, set)
    if not isinstance(recipe, Recipe):
        recipe = read(recipe, changes)
    elif changes:
        raise ParameterError("changes", "go with a recipe's name, not with a checked recipe")
    seed = recipe.seed if seed is None else whole(seed, "seed")
    world_size = whole(world_size, "world_size", least=1)
    rank = whole(rank, "rank", least=0)
    if rank >= world_size:
        raise ParameterError("rank", f"must be below world_size ({world_size}), not {rank}")
    return Stream(recipe, recipe.plan(seed), split, seed, (rank, world_size), start, endless)


class Stream:
    """The examples of a split as an iterable whose state is the index of the next row.

    A new iterator continues where the last one stopped, or starts over after the last row. Read one
    iterator at a time.

    >>> import taskloom as tl
    >>> stories = tl.stream("babi/1", endless=True)
    >>> first = next(iter(stories))
    >>> stories.state_dict()
    {'index': 1}
    """

    def __init__(
        self,
        recipe: Recipe,
        plan: Plan,
        split: str,
        seed: int,
        place: tuple[int, int],
        index: int = 0,
        endless: bool = False,
    ) -> None:
        self._recipe = recipe
        self._seed = seed
        self._plan = plan
        self._split: Split = plan.split(split)
        self._place = place
        self._endless = endless
        self.index = whole(index, "start", least=0, most=self._last)
        if endless and not self._split.n:
            raise ParameterError("endless", f"needs rows, and split '{split}' has none")

    def __repr__(self) -> str:
        size = "endless" if self._endless else f"{self._split.n:,} rows"
        return f"<Stream '{self._split.name}' of {self._recipe.name}: {size}, next {self.index:,}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # A plan holds functions, which cannot be pickled, so a worker process builds it again.
        written = json.dumps(self._recipe.to_dict()), self._recipe.name
        files = json.dumps(dict(self._recipe.files))
        own = (self._split.name, self._seed, self._place, self.index, self._endless)
        return _rebuilt, ((*written, files, self._seed), own)

    @property
    def repeats(self) -> bool:
        """True if rows repeat: an endless stream of a split that cannot generate new rows."""
        return self._endless and not self._split.endless

    @property
    def _last(self) -> int | None:
        """Highest index: the end of a finite split."""
        return None if self._endless else self._split.n

    def state_dict(self) -> dict[str, int]:
        """State of this reader: index of the next row."""
        return {"index": self.index}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Resume from the state of the same reader, with the same number of readers."""
        self.index = _stated(state, "index", self._last)

    def torch(self) -> Any:
        """Return this stream as a `torch.utils.data.IterableDataset`, for a `DataLoader`."""
        return _for_torch(self)

    def pack(
        self,
        tokenizer: Any,
        length: int,
        *,
        text: str = "{input} {target}",
        end: int | None = None,
        drop_last: bool = False,
    ) -> Packed:
        """Pack the rows, one after the other, into sequences of tokens.

        Args:
            tokenizer: A `tokenizers.Tokenizer`, a fast tokeniser of `transformers`, or any function
                from a list of texts to a list of token ids for each.
            length: Number of tokens of a sequence.
            text: Text of a row, with the columns that `Examples.batches` knows in braces.
            end: Token id after each row, such as the tokeniser's `eos_token_id`.
            drop_last: Drop the last sequence if it is shorter, rather than yield it.
        """
        return Packed(self, tokenizer, whole(length, "length", least=1), text, end, drop_last)

    def __iter__(self) -> Iterator[Example]:
        for index, examples in self.pieces():
            for at, example in enumerate(examples, start=index + 1):
                self.index = at
                yield example

    def pieces(self) -> Iterator[tuple[int, Examples]]:
        """Yield the rows of this reader from `index` on, in runs of neighbouring rows, with the
        index of the first. The caller keeps the state.
        """
        if not self._endless and self.index >= self._split.n:
            self.index = 0
        for start, stop in self._blocks(self.index):
            yield from self._rows(start, stop)
        # Rows after the last one of this reader belong to other readers.
        self.index = self._split.n

    def _blocks(self, index: int) -> Iterator[tuple[int, int]]:
        """Yield the blocks of this reader, starting at an index."""
        reader, readers = _reader(*self._place)
        size = BLOCK
        if not self._endless:
            size = max(1, min(BLOCK, self._split.n // (TURNS * readers)))
        block = index // size
        block += (reader - block) % readers
        while self._endless or block * size < self._split.n:
            start = max(index, block * size)
            stop = (block + 1) * size
            yield start, stop if self._endless else min(stop, self._split.n)
            block += readers

    def _rows(self, start: int, stop: int) -> Iterator[tuple[int, Examples]]:
        """Yield rows start..stop. If the split starts over, rows keep their original index."""
        if not self.repeats:
            return self._drawn(start, stop, start)
        return self._repeated(start, stop)

    def _repeated(self, start: int, stop: int) -> Iterator[tuple[int, Examples]]:
        while start < stop:
            row = start % self._split.n
            rows = min(stop - start, self._split.n - row)
            yield from self._drawn(row, row + rows, start)
            start += rows

    def _drawn(self, start: int, stop: int, index: int) -> Iterator[tuple[int, Examples]]:
        drawn = self._split.rows(start, stop)
        if isinstance(drawn, pa.Table):
            yield index, self._examples(drawn, start)
            return
        rows = iter(drawn)
        while piece := list(islice(rows, PIECE)):
            yield index, self._examples(piece, start)
            index += len(piece)
            start += len(piece)

    def _examples(self, rows: list[Example] | pa.Table, start: int) -> Examples:
        # Convert through the table that `make` uses, so that types and missing values are the same.
        return Examples(shards.to_table(rows, start, self._plan.traits))


def _stated(state: Mapping[str, int], name: str, most: int | None = None) -> int:
    """Read a number of a reader's state."""
    if not isinstance(state, Mapping) or name not in state:
        raise ParameterError("state", f"must be what state_dict() returned, not {echo(state)}")
    return whole(state[name], name, least=0, most=most)


def _rebuilt(written: tuple[str, str, str, int], own: tuple[Any, ...]) -> Stream:
    recipe, plan = planned(*written)
    return Stream(recipe, plan, *own)


def _reader(rank: int, world_size: int) -> tuple[int, int]:
    """Index of this reader among all readers. Every worker of a rank's DataLoader is a reader."""
    torch = sys.modules.get("torch")
    worker = torch.utils.data.get_worker_info() if torch is not None else None
    if worker is None:
        return rank, world_size
    return rank * worker.num_workers + worker.id, world_size * worker.num_workers


def _for_torch(source: Any) -> Any:
    from torch.utils.data import IterableDataset

    # DataLoader only checks for the class. Inheriting from it would import torch for all users.
    IterableDataset.register(type(source))
    return source


class Packed:
    """The rows of a stream as sequences of tokens, arrays of int64.

    No token is lost, repeated or padded: a row that does not fit continues in the next sequence.
    Only the last sequence of a finite stream may be shorter. The state is the row of the next
    token, and the number of tokens already read from that row.
    """

    def __init__(
        self,
        source: Stream,
        tokenizer: Any,
        length: int,
        text: str,
        end: int | None,
        drop_last: bool,
    ) -> None:
        self._stream = source
        self._tokenizer = tokenizer
        self._length = length
        self._text = text
        self._columns = _columns(text)
        self._end = end
        self._drop_last = drop_last
        self._offset = 0

    def state_dict(self) -> dict[str, int]:
        """State of this reader: row of the next token, and number of tokens read from it."""
        return {**self._stream.state_dict(), "offset": self._offset}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Resume from the state of the same reader, with the same number of readers."""
        self._stream.load_state_dict(state)
        self._offset = _stated(state, "offset")

    def torch(self) -> Any:
        """Return the sequences as a `torch.utils.data.IterableDataset`, for a `DataLoader`."""
        return _for_torch(self)

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        encode = _encoder(self._tokenizer)
        tokens, rows, offsets = (np.empty(0, np.int64) for _ in range(3))
        read_before = self._offset
        for index, examples in self._stream.pieces():
            ids = self._tokenised(examples, encode)
            counts = np.fromiter(map(len, ids), np.int64, len(ids))
            flat = np.fromiter(chain.from_iterable(ids), np.int64, counts.sum())
            firsts = np.cumsum(counts) - counts
            own_rows = np.repeat(np.arange(index, index + len(ids)), counts)
            own_offsets = np.arange(len(flat)) - np.repeat(firsts, counts)
            # Only the first row of a resumed reader has tokens that were already read.
            tokens = np.concatenate([tokens, flat[read_before:]])
            rows = np.concatenate([rows, own_rows[read_before:]])
            offsets = np.concatenate([offsets, own_offsets[read_before:]])
            read_before = 0
            used = 0
            while used + self._length < len(tokens):
                sequence = tokens[used : used + self._length]
                used += self._length
                # The state points at the next token, so one token is held back.
                self._stream.index = int(rows[used])
                self._offset = int(offsets[used])
                yield sequence
            tokens, rows, offsets = tokens[used:], rows[used:], offsets[used:]
        self._offset = 0
        if len(tokens) == self._length or (len(tokens) and not self._drop_last):
            yield tokens

    def _tokenised(self, examples: Examples, encode: Encode) -> Sequence[Sequence[int]]:
        (columns,) = examples.batches(len(examples), self._columns)
        rows = zip(*columns.values(), strict=True)
        texts = [self._text.format(**dict(zip(self._columns, row, strict=True))) for row in rows]
        encoded = encode(texts)
        if isinstance(encoded, Mapping):
            encoded = encoded["input_ids"]
        if self._end is None:
            return list(encoded)
        return [[*row, self._end] for row in encoded]


def _columns(text: str) -> tuple[str, ...]:
    """Columns named in a template."""
    names = {name: None for _, name, _, _ in string.Formatter().parse(text) if name is not None}
    if not names:
        raise ParameterError("text", f"must name a column, e.g. '{{input}}', not {text!r}")
    return tuple(names)


def _encoder(tokenizer: Any) -> Encode:
    """Tokenise with the batch method of a `tokenizers.Tokenizer`, or by calling the tokeniser."""
    encode_batch = getattr(tokenizer, "encode_batch_fast", None)
    if encode_batch is None:
        encode: Encode = tokenizer
        return encode
    return lambda texts: [encoding.ids for encoding in encode_batch(texts)]
