"""Curricula rise by measured success, repeat themselves, and resume where they were."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from taskloom.core.errors import DataError, ParameterError, RecipeError
from taskloom.interop.graded import open_split, to_record
from taskloom.interop.trl import RECORD, Curriculum, Levels, RecipeReward, levels_of
from taskloom.recipe import read

SPLIT = open_split("ctl/A", "iid", 300)


def lengths(curriculum: Curriculum, positions: range) -> list[int]:
    return [int(curriculum.at(position).traits["length"]) for position in positions]


def test_it_rises_when_the_last_answers_are_right_and_not_before() -> None:
    curriculum = Curriculum(SPLIT, Levels("length", (3, 4, 5), threshold=0.75, window=4))
    stream = iter(curriculum)
    first = [next(stream) for _ in range(10)]
    assert {e.traits["length"] for e in first} == {3}
    assert not curriculum.record([1, 1, 1])
    assert not curriculum.record([0, 0])
    assert curriculum.level == 0
    assert curriculum.record([1, 1, 1])
    assert (curriculum.level, curriculum.bound, curriculum.began) == (1, 4, [10])
    later = [next(stream) for _ in range(200)]
    assert {e.traits["length"] for e in later} == {3, 4}
    assert not curriculum.record([1, 1, 1])  # the window begins anew
    assert curriculum.record([1])
    assert not curriculum.record([1] * 100)  # the last level stays
    assert curriculum.bound == 5


def test_most_examples_are_at_the_frontier_and_only_their_scores_count() -> None:
    levels = Levels("length", (3, 4, 5), threshold=0.75, window=4, frontier=0.8)
    curriculum = Curriculum(SPLIT, levels)
    stream = iter(curriculum)
    first = [next(stream) for _ in range(7)]
    assert {example.traits["length"] for example in first} == {3}
    assert curriculum.record([1, 1, 1, 1])
    drawn = [next(stream) for _ in range(100)]
    assert sum(example.traits["length"] == 4 for example in drawn) == 80
    assert len({example.input for example in drawn}) > 50
    counted = [example.traits["length"] for example in drawn if curriculum.counts(example)]
    assert counted == [4] * 80
    reward = RecipeReward(SPLIT, curriculum)
    easy = [example for example in drawn if example.traits["length"] == 3][:10]
    columns = {RECORD: [json.dumps(to_record(example)) for example in easy]}
    reward(completions=[f"Answer: {example.target}" for example in easy], **columns)
    assert curriculum.level == 1
    hard = [example for example in drawn if example.traits["length"] == 4][:4]
    columns = {RECORD: [json.dumps(to_record(example)) for example in hard]}
    reward(completions=[f"Answer: {example.target}" for example in hard], **columns)
    assert curriculum.level == 2


def test_what_was_drawn_stays_when_the_level_rises() -> None:
    curriculum = Curriculum(SPLIT, Levels("length", window=2))
    drawn = list(islice(curriculum, 20))
    curriculum.record([1, 1])
    assert list(islice(curriculum, 20)) == drawn
    assert curriculum.began == [20]


@pytest.mark.parametrize("frontier", [None, 0.7])
def test_a_resumed_run_draws_the_same_examples(frontier: float | None, tmp_path: Path) -> None:
    levels = Levels("length", (3, 4, 5, 6), window=3, frontier=frontier)
    first = Curriculum(SPLIT, levels, seed=7)
    stream = iter(first)
    drawn = []
    for step in range(60):
        drawn.append(next(stream))
        first.record([float(step % 5 != 0)])
        if step == 29:
            first.save(tmp_path)
    assert first.level == 3
    resumed = Curriculum(SPLIT, levels, seed=7)
    resumed.load(tmp_path)
    stream = iter(resumed)
    again = [next(stream) for _ in range(30)]
    for step in range(30, 60):
        again.append(next(stream))
        resumed.record([float(step % 5 != 0)])
    assert again == drawn
    assert resumed.state() == first.state()


def test_the_state_of_another_curriculum_is_refused(tmp_path: Path) -> None:
    Curriculum(SPLIT, Levels("length"), seed=1).save(tmp_path)
    with pytest.raises(DataError, match="its seed is 1, here 2"):
        Curriculum(SPLIT, Levels("length"), seed=2).load(tmp_path)
    (tmp_path / "curriculum.json").write_text("{")
    with pytest.raises(DataError, match=r"curriculum.json cannot be read"):
        Curriculum(SPLIT, Levels("length")).load(tmp_path)
    assert json.dumps(Curriculum(SPLIT, Levels("length")).state())


def test_a_recipe_declares_its_levels(tmp_path: Path) -> None:
    import taskloom as tl

    declared = "curriculum: {trait: length, bounds: [2, 3], threshold: 0.5, window: 8}"
    small = (
        "extends: ctl/A-independent\nfunctions: 4\nsplits: {train: {n: 60}, iid: {n: 5}, ood: {n:"
        " 5}}\n"
    )
    (tmp_path / "rising.yaml").write_text(small + declared, encoding="utf-8")
    (tmp_path / "flat.yaml").write_text(small, encoding="utf-8")
    rising, flat = (tl.make(tmp_path / name) for name in ("rising.yaml", "flat.yaml"))
    assert rising.recipe.digest == flat.recipe.digest  # an order of examples changes none of them
    levels = levels_of(open_split(tmp_path / "rising.yaml", role="train"))
    assert levels == Levels("length", (2, 3), 0.5, 8)
    tl.make(tmp_path / "rising.yaml", out=tmp_path / "made")
    assert levels_of(open_split(tmp_path / "made", role="train")) == levels
    with pytest.raises(ParameterError, match=r"levels is missing, and .*flat\.yaml declares none"):
        levels_of(open_split(tmp_path / "flat.yaml", role="train"))


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        ("length", "curriculum: write {trait: length"),
        ("{bounds: [2]}", "trait"),
        ("{trait: length, bounds: [3, 2]}", "must increase from level to level"),
        ("{trait: length, threshold: 2}", "threshold"),
    ],
)
def test_a_wrong_declaration_is_refused_with_the_recipe(
    declared: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "wrong.yaml").write_text(
        f"extends: ctl/A\ncurriculum: {declared}\n", encoding="utf-8"
    )
    with pytest.raises(RecipeError, match=sentence):
        read(tmp_path / "wrong.yaml")


def test_wrong_levels_are_named() -> None:
    with pytest.raises(ParameterError, match="trait is 'lenght'; did you mean 'length'"):
        Curriculum(SPLIT, Levels("lenght"))
    with pytest.raises(ParameterError, match="trait is 'functions', whose values are texts"):
        Curriculum(SPLIT, Levels("functions"))
    with pytest.raises(
        ParameterError, match=r"bounds begins with 1.* no example has a length of at most that"
    ):
        Curriculum(SPLIT, Levels("length", (1, 2)))
    with pytest.raises(ParameterError, match="bounds must rise"):
        Levels("length", (3, 2))
    with pytest.raises(ParameterError, match="threshold must be above 0"):
        Levels("length", threshold=0)
    with pytest.raises(ParameterError, match="window must be at least 1"):
        Levels("length", window=0)
    with pytest.raises(ParameterError, match="frontier must be above 0"):
        Levels("length", frontier=0)
    with pytest.raises(ParameterError, match=r"bounds has 3\.5, which adds no example"):
        Curriculum(SPLIT, Levels("length", (3, 3.5, 4), frontier=0.8))
