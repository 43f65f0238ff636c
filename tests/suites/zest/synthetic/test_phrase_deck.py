"""Openings, fillers and details are dealt without repeats, any place alone, and the built-in
domains have enough of them.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from taskloom.core.seeding import Key
from taskloom.suites.zest.fields import ZestFields
from taskloom.suites.zest.synthetic.domain_files import domain_names, find_domain
from taskloom.suites.zest.synthetic.prose import DETAILED, _deck, decks, ways
from taskloom.suites.zest.synthetic.task_world import task_world

TEXTS = ("[a|b] came [2..4] times", "nobody [saw|heard|met] it", "[3..9] went")


@given(st.integers(0, 1_000))
def test_a_card_deals_every_filling_before_any_comes_again(seed: int) -> None:
    for card in _deck(Key("deck", seed), TEXTS).cards:
        dealt = [card.filling(turn) for turn in range(card.size)]
        assert len(set(dealt)) == card.size == ways(card.text)
        assert card.filling(card.size) == dealt[0]


def test_another_key_deals_in_another_order() -> None:
    orders = {
        tuple(_deck(Key("deck", seed), TEXTS).deal(0, i) for i in range(9)) for seed in range(20)
    }
    assert len(orders) == 20


def test_several_fillers_of_a_passage_differ_from_each_other_and_from_those_of_others() -> None:
    deck = decks(Key("deck", 0), find_domain("parks")).fillers
    dealt = [
        deck.deal(task, i, extra) for task in range(60) for i in range(20) for extra in range(2)
    ]
    assert len(set(dealt)) == len(dealt)


def test_no_two_passages_of_the_paper_s_sizes_have_the_same_opening_or_filler() -> None:
    world = task_world(ZestFields(), Key("deck", 0))
    for name in domain_names():
        of_domain = {
            t.source for members in world.splits.values() for t in members if t.domain.name == name
        }
        for deck in (world.decks[name].opens, world.decks[name].fillers):
            dealt = [
                deck.deal(world.places[source], i)
                for source in of_domain
                for i in range(world.passages)
            ]
            assert len(dealt) > 3_000
            assert len(set(dealt)) == len(dealt)


@given(st.integers(0, 1_000), st.integers(0, 300), st.integers(1, 12))
def test_the_passages_of_some_tasks_have_no_detail_in_the_same_words(
    seed: int, first: int, tasks: int
) -> None:
    dealer = decks(Key("deck", seed), find_domain("towns"))
    for card in dealer.details:
        dealt = {dealer.detail(card, first + task, i) for task in range(tasks) for i in range(20)}
        assert len(dealt) == tasks * 20


def test_no_two_passages_of_the_paper_s_sizes_have_the_same_detail() -> None:
    world = task_world(ZestFields(), Key("deck", 0))
    for name in domain_names():
        of_domain = {
            t.source for members in world.splits.values() for t in members if t.domain.name == name
        }
        turns = [
            world.places[source] * DETAILED + i
            for source in of_domain
            for i in range(world.passages)
        ]
        assert len(set(turns)) == len(turns) > 3_000
        assert max(turns) < min(card.size for card in world.decks[name].details)


def test_the_size_of_one_split_and_the_number_of_passages_move_no_opening_of_another() -> None:
    def openings(**fields: Any) -> list[str]:
        world = task_world(
            ZestFields.model_validate({"domains": ["parks"], **fields}), Key("deck", 0)
        )
        return [world.passage(task, 1)[0].partition(". ")[0] for task in world.splits["dev"][:10]]

    sizes = {"train": 12, "dev": 12, "test": 12}
    plain = openings(tasks=sizes, passages=5)
    assert plain == openings(tasks={**sizes, "train": 24}, passages=5)
