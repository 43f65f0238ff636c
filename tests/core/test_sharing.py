"""Things that are made once while recipes are read together."""

import pytest

from taskloom.core.sharing import shared, sharing


def test_a_thing_is_made_once_in_a_block_and_anew_after_it() -> None:
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return len(made)

    with sharing():
        with sharing():
            assert shared("key", make) == 1
        assert shared("key", make) == 1
        assert shared("other", make) == 2
    assert shared("key", make) == 3
    assert shared("key", make) == 4


def test_nothing_is_kept_if_making_it_fails() -> None:
    def fail() -> int:
        raise ValueError("not today")

    with sharing():
        with pytest.raises(ValueError, match="not today"):
            shared("key", fail)
        assert shared("key", lambda: 1) == 1
