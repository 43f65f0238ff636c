from __future__ import annotations

import pytest

from taskloom.core.seeding import Random, pick_two, sample


def test_draws_are_those_of_the_standard_library() -> None:
    ours, theirs = Random(7), Random(7)
    for count in range(1, 40):
        items = list(range(count))
        assert sample(ours, items, count // 2) == theirs.sample(items, count // 2)
        assert sample(ours, items, count) == theirs.sample(items, count)
        if count > 1:
            assert list(pick_two(ours, items)) == theirs.sample(items, 2)
    assert ours.random() == theirs.random()


def test_nothing_to_draw_from_is_an_error_and_no_endless_loop() -> None:
    with pytest.raises(ValueError, match="larger than population"):
        sample(Random(0), [1, 2], 3)
    with pytest.raises(ValueError, match="larger than population"):
        pick_two(Random(0), [1])
