"""The simulator: draws that are made in less time than they are defined in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taskloom.core.seeding import Random, pick
from taskloom.suites.babi.generator.simulator import Simulator
from taskloom.suites.babi.story.vocabulary import Vocabulary

NAMES = Vocabulary()
THINGS = st.sets(st.sampled_from(NAMES.objects))
SOME = st.sets(st.sampled_from(NAMES.persons))


@given(
    where=st.dictionaries(st.sampled_from(NAMES.persons), st.sampled_from(NAMES.places[:3])),
    holder=st.dictionaries(
        st.sampled_from(NAMES.objects), st.sampled_from(NAMES.persons), max_size=1
    ),
    lies=st.dictionaries(st.sampled_from(NAMES.objects), st.sampled_from(NAMES.places[:3])),
    sets=st.tuples(SOME, SOME, THINGS, THINGS),
    seed=st.integers(0, 99),
)
def test_who_takes_what_is_one_of_the_pairs_within_reach(
    where: dict[str, str],
    holder: dict[str, str],
    lies: dict[str, str],
    sets: tuple[set[str], set[str], set[str], set[str]],
    seed: int,
) -> None:
    simulator = Simulator(NAMES, Random(seed))
    simulator.where, simulator.holder, simulator.lies = where, holder, lies
    simulator.guarded, simulator.idle, simulator.kept, simulator.left = sets
    able = simulator._reach(None)
    assert simulator._draw_grab(None) == (pick(Random(seed), able) if able else None)
