"""Shares of splits: fixed slots by name, so that no split moves another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskloom.core.seeding import Key
from taskloom.suites.taskbench.split_shares import SplitShares, place

HASHES = Key("some words").words(0, 20_000)
share = st.floats(0.01, 0.25)


@settings(max_examples=40, deadline=None)
@given(share, share, st.floats(0.01, 0.06), st.floats(0.01, 0.44))
def test_splits_are_disjoint_and_have_their_shares(
    dev: float, test: float, extra: float, train: float
) -> None:
    shares = SplitShares({"train": train, "dev": dev, "test": test, "extra": extra})
    shares.check()
    members = {name: shares.member(HASHES, name) for name in shares.weights}
    assert np.sum(list(members.values()), axis=0).max() <= 1
    for name, mask in members.items():
        assert mask.mean() == pytest.approx(shares.weights[name], abs=0.015)
    # A held-out split is a function of its name and its own share.
    for name in ("dev", "test", "extra"):
        alone = SplitShares({"train": 0.1, name: shares.weights[name]})
        assert np.array_equal(alone.member(HASHES, name), members[name])
    smaller = SplitShares({**shares.weights, "test": test / 2, "train": train / 2})
    assert not np.any(smaller.member(HASHES, "test") & ~members["test"])
    fewer = SplitShares({**shares.weights, "train": train / 2})
    assert not np.any(fewer.member(HASHES, "train") & ~members["train"])


def test_all_words_are_used_where_shares_add_up_to_1() -> None:
    for weights in (
        {"train": 0.8, "dev": 0.1, "test": 0.1},
        {"train": 0.8, "test": 0.2},
        {"train": 0.5, "test": 0.5},
        {"train": 0.6, "validation": 0.2, "test": 0.2},
        {"train": 0.7, "dev": 0.1, "test": 0.1, "one": 0.05, "two": 0.05},
    ):
        shares = SplitShares(weights)
        shares.check()
        assert np.array_equal(
            np.sum([shares.member(HASHES, s) for s in weights], axis=0), np.ones(len(HASHES))
        )


def test_half_of_the_words_are_for_training_whatever_small_splits_there_are() -> None:
    few = SplitShares({"train": 0.5, "test": 0.1})
    many = SplitShares({"train": 0.5, "test": 0.12, "dev": 0.05, "one": 0.06, "two": 0.02})
    assert np.array_equal(few.member(HASHES, "train"), many.member(HASHES, "train"))


def test_what_does_not_fit_is_refused() -> None:
    for weights, words in (
        ({"train": 0.8, "dev": 0.1, "test": 0.2}, "add up to at most 1, not 1.1"),
        ({"train": 0.3, "test": 0.6}, "test can have at most 0.5"),
        ({"train": 0.3, "dev": 0.3}, "dev can have at most 0.25"),
        ({"train": 0.3, "mine": 0.1}, "mine can have at most 0.0625"),
        (
            {"train": 0.3, "a": 0.01, "b": 0.01, "c": 0.01, "d": 0.01, "e": 0.01},
            "the split 'e'",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            SplitShares(weights).check()


def test_claims_are_even() -> None:
    part, claim, _ = place(HASHES)
    assert np.bincount(part, minlength=16) == pytest.approx(np.full(16, 1_250), rel=0.15)
    assert claim[part < 8].max() == pytest.approx(0.5, abs=0.01)
