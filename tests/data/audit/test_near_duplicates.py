"""Near duplicates found for many rows at a time are those found pair by pair."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.data.audit import near_duplicates
from taskloom.data.audit.near_duplicates import (
    BANDS,
    I64,
    NEAR,
    Mask,
    Shingles,
    find_shingles,
    find_words,
    fold,
    near_rows,
    similar,
)

WORDS = [f"w{i}" for i in range(30)]


@st.composite
def corpora(draw: st.DrawFn) -> dict[str, list[str]]:
    """Draw two splits of short and long texts, many of which differ from another one in a word or
    two.
    """
    rng = random.Random(draw(st.integers(0, 2**32)))
    texts = [
        " ".join(rng.choices(WORDS, k=rng.choice([3, 8, 25, 60]))) for _ in range(rng.randint(1, 6))
    ]
    for _ in range(rng.randint(0, 40)):
        words = rng.choice(texts).split()
        for _ in range(rng.randint(0, 2)):
            words[rng.randrange(len(words))] = rng.choice(WORDS)
        texts.append(" ".join(words))
    cut = rng.randint(0, len(texts))
    return {"train": texts[:cut], "test": texts[cut:]}


def shingles_of(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[i : i + 3]) for i in range(len(words) - 2)} if len(words) >= 8 else set()


def alike(a: str, b: str) -> bool:
    first, second = shingles_of(a), shingles_of(b)
    return bool(first) and bool(second) and len(first & second) >= NEAR * len(first | second)


def differing(texts: list[str], others: list[str]) -> Callable[[I64, I64], Mask]:
    return lambda mine, theirs: np.array(
        [texts[i] != others[j] for i, j in zip(mine, theirs, strict=True)], np.bool_
    )


def sharing(a: Shingles, i: int, b: Shingles, j: int, tried: int, earlier: bool) -> bool:
    """Return whether two texts share a band in which the second is one of the first few."""
    for band in range(BANDS):
        before = b.bands[:j, band][b.sizes[:j] > 0]
        if a.bands[i, band] == b.bands[j, band] and np.sum(before == b.bands[j, band]) < tried:
            return not earlier or j < i
    return False


@given(corpora(), st.sampled_from([1, 2, 50]), st.sampled_from([40, 1 << 20]))
def test_near_rows_are_those_found_pair_by_pair(
    corpus: dict[str, list[str]], tried: int, together: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near_duplicates, "TRIED", tried)
        patch.setattr(near_duplicates, "TOGETHER", together)
        words = find_words({name: pa.array(texts, pa.string()) for name, texts in corpus.items()})
        sets = {name: find_shingles(part) for name, part in words.items()}
        for mine, theirs in (("test", "train"), ("train", "train")):
            a, b, within = sets[mine], sets[theirs], mine == theirs
            texts, others = corpus[mine], corpus[theirs]
            wanted = np.ones(len(texts), dtype=np.bool_)
            near = near_rows(a, b, wanted, differing(texts, others), earlier=within)
            for i, text in enumerate(texts):
                pairs = (
                    j
                    for j, other in enumerate(others)
                    if text != other and alike(text, other) and sharing(a, i, b, j, tried, within)
                )
                assert near[i] == any(True for _ in pairs)


@given(corpora())
def test_shingles_are_the_sets_of_three_words_and_similarity_is_jaccards(
    corpus: dict[str, list[str]],
) -> None:
    words = find_words({name: pa.array(texts, pa.string()) for name, texts in corpus.items()})
    sets = {name: find_shingles(part) for name, part in words.items()}
    for name, texts in corpus.items():
        assert sets[name].sizes.tolist() == [len(shingles_of(text)) for text in texts]
    a, b = sets["train"], sets["test"]
    pairs = [
        (i, j) for i in np.flatnonzero(a.sizes).tolist() for j in np.flatnonzero(b.sizes).tolist()
    ]
    mine, theirs = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    expected = [alike(corpus["train"][i], corpus["test"][j]) for i, j in pairs]
    assert similar(a, b, mine, theirs).tolist() == expected


@pytest.mark.parametrize(
    "text", ["a  b", "a\tb", "a\nb", "a\u00a0b", "ａ b", " a b ", "a\x0bb", "plain text"]
)
def test_folding_takes_the_short_way_only_where_it_changes_nothing(text: str) -> None:
    alone = fold(pa.array([text], pa.string())).to_pylist()
    beside = fold(
        pa.array([text, "é  \n"], pa.string())
    ).to_pylist()  # the second forces the long way
    assert alone == beside[:1]
