"""Baselines: right where they must be, wrong where they must be, and the same after saving."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import taskloom
from taskloom.core.example import Example
from taskloom.learners import LearnerError, load
from taskloom.learners.config import read

TRAIN = [
    ("red apple", "fruit"),
    ("green apple", "fruit"),
    ("red car", "thing"),
    ("blue car", "thing"),
    ("pear", "fruit"),
]


@pytest.mark.parametrize("name", ["majority", "nearest-neighbour", "bag-of-words"])
def test_saved_and_loaded_is_the_same(name: str, tmp_path: Path) -> None:
    fitted = read(name).fit(TRAIN)
    fitted.save(tmp_path)
    again = load(tmp_path)
    inputs = ["red apple", "yellow car", "nothing at all"]
    wanted = [["fruit", "thing", "else"]] * 3
    assert again.answer(inputs) == fitted.answer(inputs)
    assert again.logprob(inputs, wanted) == fitted.logprob(inputs, wanted)
    assert again.answer([]) == []
    with pytest.raises(LearnerError, match="no states"):
        again.represent(inputs)


def test_majority_counts() -> None:
    fitted = read("majority").fit(TRAIN)
    assert fitted.answer(["a", "b"]) == ["fruit", "fruit"]
    assert fitted.logprob(["a"], [["thing", "else"]]) == [[pytest.approx(math.log(0.4)), -math.inf]]


def test_nearest_remembers_and_compares() -> None:
    fitted = read("nearest-neighbour").fit(TRAIN)
    assert fitted.answer([text for text, _ in TRAIN]) == [target for _, target in TRAIN]
    assert fitted.answer(["blue apple", "shiny car"]) == ["fruit", "thing"]


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_bag_of_words_is_scikit_learn_s(classes: int) -> None:
    data = TRAIN if classes > 1 else [t for t in TRAIN if t[1] == "fruit"]
    if classes == 3:
        data = [*TRAIN, ("walk fast", "deed"), ("walk", "deed")]
    fitted = read("bag-of-words").fit(data)
    assert fitted.answer([text for text, _ in data]) == [target for _, target in data]
    names = sorted({target for _, target in data})
    (row,) = fitted.logprob(["red pear"], [names])
    assert sum(math.exp(x) for x in row) == pytest.approx(1)
    if classes > 1:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.linear_model import LogisticRegression

        counter = CountVectorizer()
        model = LogisticRegression(max_iter=1000).fit(
            counter.fit_transform([t for t, _ in data]), [y for _, y in data]
        )
        expected: Any = model.predict_log_proba(counter.transform(["red pear"]))[0]
        assert row == pytest.approx(list(expected), abs=1e-6)


def test_the_solver_is_right_everywhere(tmp_path: Path) -> None:
    data = taskloom.make(
        "ctl/A",
        seed=0,
        set=["splits.train.n=300", "splits.ood.n=30", "splits.iid.n=10", "splits.all.n=5"],
    )
    for block in ("solver", {"learner": "solver", "recipe": "ctl/A"}):
        fitted = read(block).fit(data["train"])
        assert fitted.answer([e.input for e in data["ood"]]) == [e.target for e in data["ood"]]
        fitted.save(tmp_path)
        assert load(tmp_path).answer([e.input for e in data["ood"]]) == [
            e.target for e in data["ood"]
        ]
    assert fitted.answer(["no such thing"]) == [""]


def test_the_solver_knows_the_world_of_its_data(tmp_path: Path) -> None:
    sizes = ["splits.train.n=60", "splits.iid.n=10", "splits.ood.n=10", "splits.all.n=0"]
    small = ["symbols=4", "functions=8", "max_length=3", "table_seed=3", *sizes]
    data = taskloom.make("ctl/A", seed=1, set=small)
    fitted = read("solver").fit(data["train"])
    fitted.save(tmp_path)
    for one in (
        fitted,
        load(tmp_path),
        read({"learner": "solver", "recipe": "ctl/A", "set": small}).fit([]),
    ):
        assert one.answer([e.input for e in data["ood"]]) == [e.target for e in data["ood"]]
    # A world that is not that of the data would be an upper bound that is none.
    with pytest.raises(LearnerError, match="made with other settings; give them as set and seed"):
        read({"learner": "solver", "recipe": "ctl/A"}).fit(data["train"])
    with pytest.raises(LearnerError, match="made with other settings"):
        read("solver").fit(list(data["train"]))


def test_the_solver_must_know_whose_it_is() -> None:
    with pytest.raises(LearnerError, match="whose rules"):
        read("solver").fit(TRAIN)


def test_the_solver_takes_data_in_any_form() -> None:
    pairs = [("a 3", "".join(taskloom.apply("ctl/A", "a 3").targets))]
    learner = read({"learner": "solver", "recipe": "ctl/A"})
    for form in (pairs, iter(pairs), [Example(*pairs[0])], []):
        assert learner.fit(form).answer(["a 3"]) == [pairs[0][1]]  # type: ignore[arg-type]
    with pytest.raises(LearnerError, match="is a whole dataset"):
        learner.fit(taskloom.make("ctl/A", set=["splits.train.n=300"]))  # type: ignore[arg-type]


def test_majority_counts_every_acceptable_answer() -> None:
    train = [Example(f"q{i}", [f"own{i}", "any", "any"] if i % 4 else "own") for i in range(8)]
    fitted = read("majority").fit(train)
    assert fitted.answer(["x"]) == ["any"]
    assert fitted.logprob(["x"], [["any", "own"]]) == [
        [pytest.approx(math.log(6 / 14)), pytest.approx(math.log(2 / 14))]
    ]
