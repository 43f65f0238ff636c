"""Recipes behind reasoning-gym's interface, with and without the library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
import taskloom.interop.reasoning_gym as gym
from taskloom.core.errors import InputError, ParameterError, TaskloomError
from taskloom.core.seeding import Key
from tests.interop.cases import CHEAP, HOSTILE, MANY, RECIPES, expected, replies


def evaluate(dataset: Any, model: Any) -> float:
    """Evaluate a model as code written for the library does."""
    total: float = sum(dataset.score_answer(answer=model(x["question"]), entry=x) for x in dataset)
    return total / len(dataset)


@pytest.mark.parametrize("recipe", CHEAP)
def test_code_for_the_library_runs_on_a_recipe(recipe: str) -> None:
    data = gym.create_dataset(recipe, size=30, seed=42)
    right = {entry["question"]: entry["answer"] for entry in data}
    assert len(data) == 30
    assert evaluate(data, right.__getitem__) == 1
    assert evaluate(data, lambda question: "I do not know") == 0
    assert data[0] == next(iter(data)) == gym.create_dataset(recipe, size=30, seed=42)[0]
    assert data[0] != gym.create_dataset(recipe, size=30, seed=43)[0]
    entry = json.loads(json.dumps(data[3]))
    assert data.score_answer(entry["answer"], entry) == 1
    assert entry["metadata"]["source_dataset"] == recipe
    assert entry["metadata"]["source_index"] == 3


def test_hostile_answers_score_zero() -> None:
    data = gym.create_dataset("babi/8", size=2)
    assert [data.score_answer(answer, data[0]) for answer in HOSTILE] == [0] * len(HOSTILE)  # type: ignore[arg-type]


def test_wrong_settings_and_entries_are_named() -> None:
    with pytest.raises(ParameterError, match="size must be a whole number of at least 1, not 0"):
        gym.create_dataset("ctl/A", size=0)
    with pytest.raises(ParameterError, match="unexpected keyword argument 'sise'"):
        gym.create_dataset("ctl/A", sise=3)
    with pytest.raises(InputError, match="an entry has 'question', 'answer' and 'metadata'"):
        gym.create_dataset("ctl/A", size=3).score_answer("x", {"question": "?"})


@pytest.fixture(scope="module")
def library() -> Any:
    return pytest.importorskip("reasoning_gym", reason="needs reasoning-gym: make test-interop")


@pytest.mark.parametrize("recipe", RECIPES)
def test_scores_are_those_of_taskloom(library: Any, recipe: str) -> None:
    data = gym.create_dataset(recipe, size=MANY, seed=1, split=RECIPES[recipe])
    examples = list(data.examples)
    texts = replies(examples, data.examples.plan.scorer)
    scores = [data.score_answer(text, entry) for text, entry in zip(texts, data, strict=True)]
    assert scores == expected(texts, examples, data.examples.plan.scorer, "final")
    assert 0.2 < sum(scores) / MANY < 0.8


def test_the_librarys_own_helpers_take_it(library: Any) -> None:
    from reasoning_gym.dataset import ProceduralDataset, ReseedingDataset

    data = gym.create_dataset("ctl/A", size=10)
    assert isinstance(data, ProceduralDataset)
    endless = iter(ReseedingDataset(data, chunk_size=10))
    entries = [next(endless) for _ in range(30)]
    assert len({entry["question"] for entry in entries}) == 30


def test_recipes_join_the_librarys_factory_and_its_composites(library: Any) -> None:
    from reasoning_gym.composite import DatasetSpec

    gym.register("babi/2", "ctl/A")
    gym.register("babi/2")  # again: nothing happens
    entry = library.create_dataset("babi/2", size=5, seed=1)[4]
    assert library.get_score_answer_fn("babi/2")(entry["answer"], entry) == 1
    assert gym.get_score_answer_fn("ctl/A")("nonsense", gym.create_dataset("ctl/A", size=1)[0]) == 0
    names = ["babi/2", "ctl/A", "leg_counting"]
    parts = [DatasetSpec(name, 1, {}) for name in names]
    mixed = list(gym.create_dataset("composite", size=40, seed=3, datasets=parts))
    assert {entry["metadata"]["source_dataset"] for entry in mixed} == set(names)
    for entry in mixed:
        score = gym.get_score_answer_fn(entry["metadata"]["source_dataset"])
        assert score(entry["answer"], entry) == 1
    with pytest.raises(TaskloomError, match="did you mean 'babi/2'"):
        gym.register("babbi/2")


LEGS = """import taskloom as tl
from taskloom.interop.reasoning_gym import library_example, library_score


@tl.task("my/legs", describe="Count the legs.", scorer=library_score)
def legs(rng: tl.Random, max_animals: int = tl.knob(6, low=3, high=12)) -> tl.Example:
    return library_example(rng, "leg_counting", max_animals=max_animals)
"""


def test_a_dataset_of_the_library_is_a_recipe(library: Any, tmp_path: Path) -> None:
    file = tmp_path / "legs.py"
    file.write_text(LEGS, encoding="utf-8")
    data = tl.make(file, tmp_path / "legs", set={"splits": {"train": {"n": 50}, "test": {"n": 20}}})
    assert not tl.audit(data).leaks
    judge = tl.load(tmp_path / "legs").recipe_by(file).plan(0).scorer
    for example in data["test"]:
        assert judge.score(example.target, example) == 1
        assert judge.score("-1", example) < 0.1  # the library gives a little for a wrong number
    with pytest.raises(ParameterError, match="did you mean 'leg_counting'"):
        gym.library_example(Key("a test", 0).random(), "leg_countin")
