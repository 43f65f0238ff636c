"""Streams: the rows of `make`, divided among readers, resumed at any row, packed without loss."""

from __future__ import annotations

import pickle
import subprocess
import sys
from itertools import chain, islice
from typing import Any

import numpy as np
import pytest

import taskloom as tl
from taskloom.core.errors import ParameterError, RecipeError
from tests.slow import slow_except

CTL = {"splits": {"train": {"n": 2_500}, "iid": {"n": 300}}}
STORIES = {"splits": {"train": {"n": 40}, "test": {"n": 10}}}


@tl.task("stream/double", describe="Double the word.")
def double(rng: tl.Random, length: int = tl.knob(4, low=1, high=20)) -> tl.Example:
    word = "".join(rng.choice("abcdefgh") for _ in range(length))
    return tl.Example(word, word * 2, {"length": length})


def words(texts: list[str]) -> list[list[int]]:
    """A tokeniser whose tokens are bytes."""
    return [list(text.encode()) for text in texts]


@pytest.mark.parametrize(
    ("recipe", "split", "changes"),
    [
        ("ctl/A", "train", CTL),
        ("ctl/A", "iid", CTL),
        ("babi/1", "train", STORIES),
        ("babi/mix-T12", "mix", {"splits": {"mix": {"n": 150}}}),
        ("taskbench/english", "train", None),
    ],
)
@pytest.mark.parametrize("seed", [0, 3])
def test_a_stream_has_the_rows_of_make(recipe: str, split: str, changes: Any, seed: int) -> None:
    made = tl.make(recipe, seed=seed, changes=changes)[split]
    assert list(tl.stream(recipe, split, seed=seed, changes=changes)) == list(made)


def test_an_endless_stream_goes_on_with_the_rows_of_a_larger_split() -> None:
    for recipe in ("babi/1", "babi/diverse-T12", "babi/15", double):
        small = {"splits": {"train": {"n": 20}}}
        larger = tl.make(recipe, changes={"splits": {"train": {"n": 50}}})["train"]
        stream = tl.stream(recipe, changes=small, endless=True)
        assert not stream.repeats
        assert list(islice(stream, 50)) == list(larger)


def test_an_endless_stream_of_a_finite_split_starts_over() -> None:
    rows = list(tl.make("ctl/A", changes=CTL)["iid"])
    stream = tl.stream("ctl/A", "iid", changes=CTL, endless=True)
    assert stream.repeats
    assert list(islice(stream, 700)) == [*rows, *rows, *rows[:100]]


@pytest.mark.parametrize("world_size", [1, 2, 7])
@pytest.mark.parametrize("start", [0, 1, 1_234])
def test_ranks_share_all_rows(world_size: int, start: int) -> None:
    ranks = [
        list(tl.stream("ctl/A", changes=CTL, rank=rank, world_size=world_size, start=start))
        for rank in range(world_size)
    ]
    inputs = [example.input for example in chain.from_iterable(ranks)]
    made = tl.make("ctl/A", changes=CTL)["train"]
    assert sorted(inputs) == sorted(example.input for example in made[start:])
    sizes = [len(rows) for rows in ranks]
    assert max(sizes) - min(sizes) <= 0.07 * sum(sizes) + 1


def test_ranks_of_an_endless_stream_are_disjoint() -> None:
    ranks = [
        tl.stream("babi/1", changes=STORIES, rank=rank, world_size=3, endless=True)
        for rank in range(3)
    ]
    starts = [next(stream.pieces())[0] for stream in ranks]
    assert starts == [0, 1_000, 2_000]


@pytest.mark.parametrize("recipe", ["ctl/A", "babi/1"])
@pytest.mark.parametrize("endless", [False, True])
def test_a_stream_resumes_at_any_row(recipe: str, endless: bool) -> None:
    changes = CTL if recipe == "ctl/A" else STORIES

    def fresh() -> Any:
        return tl.stream(recipe, changes=changes, endless=endless, rank=1, world_size=2)

    all_rows = list(islice(fresh(), 200))
    for read in {0, 1, 17, len(all_rows) - 1}:
        first = fresh()
        before = list(islice(first, read))
        second = fresh()
        second.load_state_dict(first.state_dict())
        after = list(islice(second, len(all_rows) - read))
        assert before + after == all_rows


def test_a_finished_stream_starts_over() -> None:
    stream = tl.stream("babi/1", changes=STORIES)
    first = list(stream)
    assert stream.state_dict() == {"index": 40}
    assert list(stream) == first


def test_a_pickled_stream_goes_on_where_it_was() -> None:
    stream = tl.stream("babi/1", changes=STORIES)
    rows = list(islice(stream, 5))
    copy = pickle.loads(pickle.dumps(stream))
    assert rows + list(copy) == list(tl.make("babi/1", changes=STORIES)["train"])


def text_of(example: tl.Example) -> str:
    return f"{example.input} {example.targets[0]}"


@pytest.mark.parametrize("length", [1, 7, 64, 5_000])
def test_packing_loses_and_repeats_no_token(length: int) -> None:
    made = tl.make("babi/1", changes=STORIES)["train"]
    expected = [token for example in made for token in [*text_of(example).encode(), 0]]
    packed = tl.stream("babi/1", changes=STORIES).pack(words, length, end=0)
    sequences = list(packed)
    assert np.concatenate(sequences).tolist() == expected
    assert {len(sequence) for sequence in sequences[:-1]} <= {length}
    assert 0 < len(sequences[-1]) <= length


def test_packing_crosses_blocks_of_other_readers() -> None:
    parts = [
        tl.stream("ctl/A", changes=CTL, rank=rank, world_size=3).pack(words, 100, end=0)
        for rank in range(3)
    ]
    tokens = np.concatenate([sequence for part in parts for sequence in part])
    made = tl.make("ctl/A", changes=CTL)["train"]
    texts = bytes(tokens.tolist()).split(b"\0")
    assert sorted(texts[:-1]) == sorted(text_of(example).encode() for example in made)


@pytest.mark.parametrize("length", [3, 64, 5_000])
def test_packing_resumes_at_any_sequence(length: int) -> None:
    def fresh() -> Any:
        return tl.stream("babi/1", changes=STORIES, endless=True).pack(words, length, end=0)

    whole = [sequence.tolist() for sequence in islice(fresh(), 12)]
    for read in range(12):
        first = fresh()
        before = [sequence.tolist() for sequence in islice(first, read)]
        second = fresh()
        second.load_state_dict(first.state_dict())
        after = [sequence.tolist() for sequence in islice(second, 12 - read)]
        assert before + after == whole


def test_a_short_last_sequence_can_be_dropped() -> None:
    stream = tl.stream("babi/1", changes=STORIES)
    kept = list(stream.pack(words, 64))
    dropped = list(stream.pack(words, 64, drop_last=True))
    assert len(kept[-1]) < 64
    assert [s.tolist() for s in dropped] == [s.tolist() for s in kept[:-1]]


def test_packing_takes_a_fast_tokeniser() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0, "Where": 1}, "?"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    stream = tl.stream("babi/1", changes=STORIES)
    tokens = np.concatenate(list(stream.pack(tokenizer, 16, text="{question}")))
    assert np.count_nonzero(tokens == 1) == 40

    def mapping(texts: list[str]) -> dict[str, list[list[int]]]:
        return {"input_ids": [encoding.ids for encoding in tokenizer.encode_batch(texts)]}

    again = np.concatenate(list(stream.pack(mapping, 16, text="{question}")))
    assert again.tolist() == tokens.tolist()


# Workers that are spawned import torch and build the plan from the pickled stream: nine CPU-seconds.
@pytest.mark.parametrize("method", slow_except(["fork", "spawn"], "fork"))
def test_workers_of_a_data_loader_share_all_rows(method: str) -> None:
    data = pytest.importorskip("torch.utils.data")
    inputs = []
    for rank in range(2):
        stream = tl.stream("ctl/A", changes=CTL, rank=rank, world_size=2)
        loader = data.DataLoader(
            stream.torch(),
            batch_size=64,
            num_workers=2,
            collate_fn=list,
            multiprocessing_context=method,
        )
        inputs += [example.input for batch in loader for example in batch]
    made = tl.make("ctl/A", changes=CTL)["train"]
    assert sorted(inputs) == sorted(example.input for example in made)


def test_a_data_loader_stacks_packed_sequences() -> None:
    data = pytest.importorskip("torch.utils.data")
    packed = tl.stream("babi/1", changes=STORIES, endless=True).pack(words, 32, end=0)
    batches = islice(data.DataLoader(packed.torch(), batch_size=4), 3)
    assert [tuple(batch.shape) for batch in batches] == [(4, 32)] * 3


def test_streaming_imports_no_torch() -> None:
    code = (
        "import sys, taskloom as tl\n"
        "next(iter(tl.stream('babi/1').pack(lambda t: [[1]] * len(t), 4)))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"rank": 2, "world_size": 2}, "rank"),
        ({"start": -1}, "start"),
        ({"start": 9_001}, "start must be at most 9,000"),
        ({"world_size": 0}, "world_size"),
        ({"changes": {"splits.train.n": 0}, "endless": True}, "endless"),
    ],
)
def test_bad_places_are_refused(arguments: Any, named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        tl.stream("babi/1", **arguments)


@pytest.mark.parametrize("state", [{}, None, [], {"index": 1.5}, {"index": 10**9}])
def test_a_state_of_something_else_is_refused(state: Any) -> None:
    with pytest.raises(ParameterError, match=r"state|index"):
        tl.stream("babi/1").load_state_dict(state)
    with pytest.raises(ParameterError, match="state"):
        tl.stream("babi/1").pack(words, 8).load_state_dict({"index": 0})


def test_unknown_splits_and_columns_are_refused() -> None:
    with pytest.raises(RecipeError, match="nope"):
        tl.stream("babi/1", "nope")
    with pytest.raises(ParameterError, match="text"):
        tl.stream("babi/1").pack(words, 8, text="no column")
    with pytest.raises(tl.TaskloomError, match="nope"):
        next(iter(tl.stream("babi/1").pack(words, 8, text="{nope}")))
