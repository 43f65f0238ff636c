"""How many passages of each task have an answer: rates are met in every split, and tasks differ."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.core.seeding import Key
from taskloom.suites.zest.fields import ZestFields
from taskloom.suites.zest.synthetic.answer_mix import (
    answered,
    mixes,
    settled_counts,
    settled_share,
    spread_answers,
)
from tests.slow import slow_except
from tests.suites.zest.synthetic.small_worlds import examples, small


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_na_rate(rate: float) -> None:
    made = examples(small(na_rate=rate, tasks={"train": 40, "dev": 0, "test": 0}, passages=5))
    assert sum(e.target == "n/a" for e in made) / len(made) == pytest.approx(rate, abs=0.03)


@pytest.mark.parametrize(
    ("size", "classification"), [(20, 1.0), (40, None), *slow_except([(120, 0.3)])]
)
def test_na_rate_is_met_in_every_split_whatever_its_size(
    size: int, classification: float | None
) -> None:
    changes = {
        "tasks": {"train": size, "dev": size, "test": size},
        "classification": classification,
    }
    made = small(3, **changes)
    for rate, passages in product((0.0, 0.005, 0.05, 0.3, 0.62, 0.9, 0.99, 1.0), (1, 2, 5, 20, 50)):
        fields = ZestFields.model_validate(changes | {"na_rate": rate, "passages": passages})
        found = spread_answers(made.splits, fields, made.key)
        for tasks in made.splits.values():
            silent = sum(passages - found[t.source].answered for t in tasks)
            assert silent == pytest.approx(
                rate * size * passages, abs=max(2, 0.01 * size * passages)
            )


@given(st.integers(1, 200), st.integers(1, 40), st.floats(0, 1), st.integers(0, 3))
def test_mixes_meet_the_rate(tasks: int, passages: int, rate: float, silent: int) -> None:
    wanted = round(tasks * passages * (1 - rate))
    found = answered(tasks, passages, wanted, silent)
    assert all(0 <= n <= passages for n in found)
    assert sum(found) == wanted
    speaking = max(0, tasks - silent)
    if speaking <= wanted <= speaking * (passages - 1):
        assert sum(n == 0 for n in found) == tasks - speaking
        assert max(found, default=0) < passages


def test_yes_and_no_are_equally_many_but_not_in_every_task() -> None:
    names = [str(i) for i in range(200)]
    found = mixes(names, [], 20, 1_520, 2, Key("x"))
    yes, all_ = sum(m.yes for m in found.values()), sum(m.answered for m in found.values())
    assert yes == pytest.approx(all_ / 2, rel=0.02)
    alike = [m for m in found.values() if m.answered > 3 and m.yes in (0, m.answered)]
    assert 0.1 * 200 < len(alike) < 0.4 * 200
    assert [m.answered for m in found.values()].count(0) == 2


@given(st.integers(1, 120), st.integers(1, 40), st.floats(0.001, 0.999), st.data())
def test_settled_tasks_leave_the_rate_as_it_is(
    tasks: int, passages: int, rate: float, data: st.DataObject
) -> None:
    settled = settled_counts(
        data.draw(st.integers(0, int(settled_share(rate) * tasks))), passages, rate
    )
    wanted = round(tasks * passages * (1 - rate))
    names = [str(i) for i in range(tasks)]
    found = mixes(names, settled, passages, wanted - sum(settled), 0, Key("x"))
    assert all(0 <= m.yes <= m.answered <= passages for m in found.values())
    assert sorted(found[name].yes for name in names[: len(settled)]) == sorted(settled)
    assert all(0 < n <= passages for n in settled)
    # A settled task has a whole number of answers: with few passages the others may not be able to
    # make up for it.
    assert abs(sum(m.answered for m in found.values()) - wanted) <= len(settled)
