from __future__ import annotations

import pytest

from taskloom.seeding import Random
from taskloom.suites import draws


def test_draws_are_those_of_the_standard_library() -> None:
    ours, theirs = Random(7), Random(7)
    for count in range(1, 40):
        items = list(range(count))
        assert draws.choice(ours, items) == theirs.choice(items)
        assert draws.below(ours, count) == theirs.randrange(count)
        assert draws.randint(ours, -3, count) == theirs.randint(-3, count)
        assert draws.sample(ours, items, count // 2) == theirs.sample(items, count // 2)
        assert draws.sample(ours, items, count) == theirs.sample(items, count)
        if count > 1:
            assert list(draws.pick_two(ours, items)) == theirs.sample(items, 2)
        one, other = list(items), list(items)
        draws.shuffle(ours, one)
        theirs.shuffle(other)
        assert one == other
    assert ours.random() == theirs.random()


def test_nothing_to_draw_from_is_an_error_and_no_endless_loop() -> None:
    with pytest.raises(IndexError):
        draws.choice(Random(0), [])
    with pytest.raises(IndexError):
        draws.randint(Random(0), 3, 2)
    with pytest.raises(ValueError, match="larger than population"):
        draws.sample(Random(0), [1, 2], 3)
    with pytest.raises(ValueError, match="larger than population"):
        draws.pick_two(Random(0), [1])
