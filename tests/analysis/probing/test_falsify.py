"""`falsify` finds planted faults, shrinks them, names them, and finds nothing where nothing is."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import taskloom as tl
from taskloom.analysis.probing.asking import Questions, open_model
from taskloom.analysis.probing.failures import Failure
from taskloom.cli import run
from taskloom.recipe import read
from tests.analysis.probing import little_stories as stories
from tests.analysis.probing.little_stories import RECIPE

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))]


def sentences(failure: Failure) -> int:
    return failure.minimal.input.count("\n")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_model_that_ignores_negation_is_found_out_in_one_sentence(seed: int) -> None:
    result = tl.falsify(stories.ignores_negation, RECIPE, seed=seed)
    assert {sentences(failure) for failure in result.failures} == {1}
    assert all(failure.proved for failure in result.failures)
    [group] = result.groups
    assert group.edit == "flip: a negation"
    assert str(group.trait) in ("concepts has NEGATE", "concepts = NEGATE")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_model_that_forgets_is_shrunk_to_the_first_length_that_it_cannot_hold(seed: int) -> None:
    result = tl.falsify(stories.forgetful, RECIPE, seed=seed)
    assert {sentences(failure) for failure in result.failures} == {9}
    for group in result.groups:
        assert group.trait is not None
        assert (group.trait.trait, group.trait.value) in {("distance", 9), ("sentences", 9)}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_model_that_follows_the_last_mention_needs_two_sentences(seed: int) -> None:
    result = tl.falsify(stories.last_mention, RECIPE, seed=seed)
    assert result.failures
    assert {sentences(failure) for failure in result.failures} == {2}
    assert "distance ≥ 2" in {str(group.trait) for group in result.groups}


def shortest_failure(model: Callable[[str], str], item: tl.Example) -> int:
    """Sentences of the shortest failing story that leaves sentences of an item out."""
    story, person, room = stories.read(item.input)
    for size in range(1, len(story) + 1):
        for part in itertools.combinations(story, size):
            less = stories.example(list(part), person, room)
            if less is not None and model(less.input) != less.target:
                return size
    raise AssertionError("the model is right on the item")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "model", [stories.ignores_negation, stories.forgetful, stories.last_mention]
)
def test_no_shorter_story_fails_by_brute_force(model: Callable[[str], str], seed: int) -> None:
    result = tl.falsify(model, RECIPE, seed=seed, failures=2)
    assert result.failures
    for failure in result.failures:
        assert sentences(failure) == shortest_failure(model, failure.drawn)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_found_in_a_perfect_solver(seed: int) -> None:
    result = tl.falsify(stories.solve, RECIPE, seed=seed, items=100)
    assert (result.wrong, result.failures, result.groups) == (0, (), ())


def wrong_by_hash(seed: int) -> Callable[[str], str]:
    """A solver that is wrong on a fifth of all texts, whatever they are about."""

    def answer(text: str) -> str:
        right = stories.solve(text)
        unlucky = hashlib.sha256(f"{seed} {text}".encode()).digest()[0] < 256 / 5
        return {"yes": "no", "no": "yes"}[right] if unlucky else right

    return answer


def test_no_trait_is_named_if_errors_have_no_cause() -> None:
    """Minimal failures are short, whatever the cause; that alone named a trait in 20 of 20 seeds."""
    named = 0
    for seed in range(20):
        result = tl.falsify(wrong_by_hash(seed), RECIPE, seed=seed, failures=4, questions=200)
        assert result.failures
        named += any(group.trait is not None for group in result.groups)
    assert named <= 3  # at 5 % each, more has a probability of 2 %


def test_no_trait_is_named_if_every_answer_is_wrong() -> None:
    result = tl.falsify(lambda text: "neither", RECIPE, failures=4)
    assert result.failures
    assert [group.trait for group in result.groups] == [None] * len(result.groups)


@pytest.mark.parametrize(("endless", "drawn"), [(True, 60), (False, 20)])
def test_only_a_split_with_an_end_bounds_the_items(endless: bool, drawn: int) -> None:
    part = {"n": 20, "endless": endless}
    asked: list[str] = []

    def answer(text: str) -> str:
        asked.append(text)
        return stories.solve(text)

    recipe = {"suite": "little-stories", "splits": {"test": part}}
    assert tl.falsify(answer, recipe, items=60).items == drawn
    rows = read(recipe).plan().split("test").rows(0, drawn)
    assert sorted(asked) == sorted({example.input for example in rows})
    first = list(asked)
    asked.clear()
    tl.falsify(answer, recipe, items=60)
    assert asked == first


def noisy(share: float, seed: int = 0) -> object:
    """A solver that is wrong at random, now and then."""
    rng = random.Random(seed)

    def answer(text: str) -> str:
        right = stories.solve(text)
        return {"yes": "no", "no": "yes"}[right] if rng.random() < share else right

    return answer


def test_chance_errors_of_a_sampling_model_are_not_failures() -> None:
    result = tl.falsify(noisy(0.2), RECIPE, items=100, sampling=True)  # type: ignore[arg-type]
    assert result.failures == ()


def test_a_fault_is_found_through_the_noise_of_a_sampling_model() -> None:
    rng = random.Random(1)

    def answer(text: str) -> str:
        return stories.ignores_negation(text) if rng.random() < 0.9 else stories.solve(text)

    result = tl.falsify(answer, RECIPE, failures=2, sampling=True)
    assert {sentences(failure) for failure in result.failures} == {1}


def test_an_interrupted_search_asks_only_what_is_open(tmp_path: Path) -> None:
    left = [150]
    asked: list[str] = []

    def forgetful(text: str) -> str:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        asked.append(text)
        return stories.forgetful(text)

    with pytest.raises(KeyboardInterrupt):
        tl.falsify(forgetful, RECIPE, out=tmp_path)
    left[0] = 100_000
    resumed = tl.falsify(forgetful, RECIPE, out=tmp_path)
    whole = tl.falsify(stories.forgetful, RECIPE)
    assert (resumed.failures, resumed.questions) == (whole.failures, whole.questions)
    assert len(asked) < resumed.questions + 30  # at most one batch is asked twice


def test_failures_are_a_dataset_that_another_model_is_asked(tmp_path: Path) -> None:
    result = tl.falsify(stories.forgetful, RECIPE, out=tmp_path)
    saved = tl.load(tmp_path / "failures")
    assert [e.input for e in saved["minimal"]] == [f.minimal.input for f in result.failures]
    assert not any(tl.replay(stories.solve, tmp_path).wrong)
    assert all(tl.replay(stories.forgetful, tmp_path).wrong)


def test_the_page_shows_the_minimal_items(tmp_path: Path) -> None:
    result = tl.falsify(stories.ignores_negation, RECIPE, out=tmp_path)
    page = (tmp_path / "falsify.html").read_text(encoding="utf-8")
    assert result.failures[0].minimal.input.split("\n")[0] in page


def test_a_learner_that_trains_is_refused() -> None:
    with pytest.raises(tl.TaskloomError, match="bilstm"):
        tl.falsify({"learner": "bilstm"}, RECIPE)


def test_a_function_that_returns_no_text_is_named() -> None:
    plan = tl.Recipe("babi/1").plan()
    model = open_model(len, plan)  # type: ignore[arg-type]
    examples = list(plan.split("test").rows(0, 1))
    with pytest.raises(tl.TaskloomError, match="len"):
        Questions(model, plan.scorer).wrong(examples)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["falsify", "nowhere.py::f", "babi/1"], "nowhere.py"),
        (["falsify", "{learner: endpoint", "babi/1"], "--model"),
        (["falsify", "{learner: bilstm}", "babi/1"], "bilstm"),
        (["falsify", "model.py::answr", "babi/1"], "answer"),
        (["falsify", "model.py::answer"], "recipe"),
        (["falsify", "model.py::answer", "babi/1", "--split", "tset"], "tset"),
        (["falsify", "model.py::answer", "--replay", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text("def answer(text):\n    return 'kitchen'\n", encoding="utf-8")
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1


def test_the_command_writes_a_page_and_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text("def answer(text):\n    return 'kitchen'\n", encoding="utf-8")
    assert run(["falsify", "model.py::answer", "babi/1", "--items", "30"]) == 0
    assert "falsify-answer/falsify.html" in capsys.readouterr().out
    assert run(["falsify", "model.py::answer", "--replay", "falsify-answer"]) == 1
