"""Scores of sequences: brute force over all segmentations, and perfect answers."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from taskloom.core.example import Example
from taskloom.core.scoring import Scorer
from taskloom.suites.taskbench.scorers import (
    ByTask,
    Positions,
    ReferencePositions,
    best_segmentation,
)

words = st.sampled_from(["a", "b", "c"])
answers = st.lists(words, min_size=1, max_size=3).map(tuple)
position_sets = st.lists(st.frozensets(answers, max_size=4), min_size=1, max_size=4)


def brute_force(said: list[str], sets: list[frozenset[tuple[str, ...]]]) -> int:
    """Try every division into at most n consecutive non-empty parts."""
    best = 0
    for parts in range(1, min(len(said), len(sets)) + 1):
        for cuts in combinations(range(1, len(said)), parts - 1):
            bounds = [0, *cuts, len(said)]
            pieces = [tuple(said[a:b]) for a, b in pairwise(bounds)]
            best = max(best, sum(piece in s for piece, s in zip(pieces, sets, strict=False)))
    return best


@given(st.lists(words, max_size=7), position_sets)
def test_the_programme_finds_the_best_segmentation(
    said: list[str], sets: list[frozenset[tuple[str, ...]]]
) -> None:
    right = best_segmentation(said, sets)
    assert len(right) == len(sets)
    assert sum(right) == brute_force(said, sets)


multi_word = st.text(alphabet="abC é-'.!,", min_size=1, max_size=8).map(str.strip).filter(bool)
sequences = st.lists(st.lists(multi_word, min_size=1, max_size=4), min_size=1, max_size=8)


@given(sequences, st.booleans(), st.data())
def test_a_perfect_answer_scores_all(
    sets: list[list[str]], separators: bool, data: st.DataObject
) -> None:
    chosen = [data.draw(st.sampled_from(s)) for s in sets]
    example = Example("x", (" # " if separators else " ").join(chosen))
    scorer = Positions(lambda _: sets, separators)
    assert scorer.score(example.target, example) == 1.0
    assert scorer.score(example.target.upper(), example) == 1.0
    assert Positions(lambda _: sets, separators, whole=True).score(example.target, example) == 1.0
    assert scorer.explain(example.target, example) == f"all {len(sets)} positions are right"


def score(scorer: Scorer, prediction: str) -> float:
    return scorer.score(prediction, Example("x", "y"))


def test_partial_answers() -> None:
    sets = [["big", "very big"], ["tree"], ["Will Smith"]]
    free = Positions(lambda _: sets)
    parted = Positions(lambda _: sets, separators=True)
    assert score(free, "very big tree will smith") == 1.0
    assert score(free, "very big tree") == 2 / 3
    assert score(free, "") == 0.0
    assert score(free, "very big tree will smith and more") == 2 / 3
    assert score(parted, "very big # tree # Will  Smith") == 1.0
    assert score(parted, "tree # big # Will Smith") == 1 / 3
    assert score(parted, "big # tree # Will Smith # more") == 2 / 3
    assert score(parted, "big") == 1 / 3
    assert "wrong: 3 (right at 3: Will Smith)" in free.explain("very big tree", Example("x", "y"))


def test_the_reference_cannot_see_answers_of_several_words() -> None:
    sets = [["very big"], ["tree"], ["Paris"]]
    reference = ReferencePositions(lambda _: sets)
    assert score(reference, "very big tree paris") == 0.0
    assert score(Positions(lambda _: sets), "very big tree paris") == 1.0
    # With separators several words match, capitals still do not.
    assert (
        score(ReferencePositions(lambda _: sets, separators=True), "very big # tree # Paris")
        == 2 / 3
    )


def test_words_and_sequences_by_task() -> None:
    scorer = ByTask(lambda task: Positions(lambda _: [["a"], ["b"]]) if task == "seq" else None)
    assert scorer.score("B", Example("x", ["a", "b"], task="word")) == 1.0
    assert scorer.score("a c", Example("x", "a b", task="seq")) == 0.5
    assert "1 of 2" in scorer.explain("a c", Example("x", "a b", task="seq"))
