"""`frontier` finds the border of a model that forgets."""

from __future__ import annotations

from pathlib import Path

import pytest

import taskloom as tl
from taskloom.cli import run
from tests.analysis.probing import little_stories as stories
from tests.analysis.probing.little_stories import RECIPE

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))]


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_border_of_a_forgetful_model_is_found(seed: int, monotone: bool) -> None:
    result = tl.frontier(
        stories.forgetful,
        RECIPE,
        along="distance",
        changes=["splits.test.n=20000"],
        seed=seed,
        monotone=monotone,
        questions=1_000 if monotone else 3_000,
    )
    nine, half = result.crossings
    assert (nine.after, nine.level, nine.before) == (8, 9, 9)
    assert (half.after, half.level) == (8, 9)


def test_a_monotone_field_needs_fewer_questions() -> None:
    asked = [
        tl.frontier(stories.forgetful, RECIPE, along="distance", monotone=monotone).questions
        for monotone in (False, True)
    ]
    free, monotone = (counts["forgetful"] for counts in asked)
    assert monotone < free


def holds_eight(text: str) -> str:
    """Right on stories of up to eight sentences, and on none that is longer."""
    return stories.solve(text) if text.count("\n") <= 8 else "maybe"


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_border_is_found_along_a_field(seed: int, monotone: bool) -> None:
    along = "splits.test.sentences=2..30"
    result = tl.frontier(
        holds_eight, RECIPE, along=along, seed=seed, monotone=monotone, questions=4_000
    )
    for crossing in result.crossings:
        assert (crossing.after, crossing.level, crossing.before) == (8, 9, 9)
    # Bisection: a third of the 29 levels are asked.
    asked = [one.level for one in result.levels if one.n]
    assert len(asked) <= 12 if monotone else len(asked) == 29


def test_levels_without_an_order_are_never_assumed_to_fall() -> None:
    """Stories of two sentences and more, written as ranges: the second is easier."""
    along = "splits.test.sentences=9|2..2|3..8"
    result = tl.frontier(holds_eight, RECIPE, along=along, monotone=True, questions=300)
    accuracy = {one.level: (one.mean, one.high) for one in result.levels}
    assert accuracy["3..8"] == (1.0, 1.0)


def test_a_perfect_solver_has_no_border() -> None:
    result = tl.frontier(stories.solve, RECIPE, along="distance,sentences")
    assert [crossing.level for crossing in result.crossings] == [None] * 4


def test_a_trait_without_an_order_has_levels_and_no_crossing(tmp_path: Path) -> None:
    result = tl.frontier(stories.ignores_negation, RECIPE, along="concepts", out=tmp_path)
    assert result.crossings == ()
    accuracy = {one.level: one.mean for one in result.levels}
    assert accuracy["MOVE"] == 1.0 > accuracy["MOVE+NEGATE"]
    assert (tmp_path / "frontier.html").is_file()


def test_a_field_has_the_levels_that_are_named() -> None:
    """Last mentions decide stories of one sentence, and few others."""
    along = ["distance", "splits.test.sentences=1|2|6"]
    result = tl.frontier(stories.last_mention, RECIPE, along=along, questions=200)
    accuracy = {one.level: one.mean for one in result.levels if one.field != "distance"}
    assert list(accuracy) == [1, 2, 6]
    assert accuracy[1] == 1.0 > accuracy[2] > accuracy[6]
    assert {c.level for c in result.crossings if c.threshold == 0.9} == {2}


def test_two_models_are_on_one_picture(tmp_path: Path) -> None:
    models = [stories.forgetful, stories.solve]
    result = tl.frontier(models, RECIPE, along="distance", out=tmp_path)
    assert {one.model for one in result.levels} == {"forgetful", "solve"}
    page = (tmp_path / "frontier.html").read_text(encoding="utf-8")
    assert "<svg" in page


def test_two_models_of_one_name_are_kept_apart() -> None:
    def forgetful(text: str) -> str:
        return stories.solve(text)

    models = [stories.forgetful, forgetful]
    result = tl.frontier(models, RECIPE, along="distance", questions=100)
    assert list(result.questions) == ["forgetful", "forgetful (2)"]
    assert {one.model for one in result.levels} == set(result.questions)


def test_an_interrupted_search_ends_with_the_same_result(tmp_path: Path) -> None:
    left = [60]

    def forgetful(text: str) -> str:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return stories.forgetful(text)

    with pytest.raises(KeyboardInterrupt):
        tl.frontier(forgetful, RECIPE, along="distance", out=tmp_path)
    left[0] = 100_000
    resumed = tl.frontier(forgetful, RECIPE, along="distance", out=tmp_path)
    assert resumed == tl.frontier(stories.forgetful, RECIPE, along="distance")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--along", "suport"], "support"),
        (["--along", "support_lines"], "support_lines"),
        (["--along", "splits.mix.n"], "splits.mix.n=1|2|3"),
        (["--along", "splits.mix.size=1|2"], "splits.mix.size"),
        (["--along", "splits.mix.n=1..99"], "99"),
    ],
)
def test_bad_input_is_one_sentence(
    options: list[str],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text("def answer(text):\n    return 'kitchen'\n", encoding="utf-8")
    assert run(["frontier", "model.py", "babi/mix-T7", *options]) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1
