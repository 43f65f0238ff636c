"""GRPO as a learner: it raises the reward, is saved and loaded, resumes, and runs in an
experiment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taskloom.learners import LearnerError, load
from taskloom.learners.config import read
from taskloom.learners.interface import Point, Progress, measured
from tests.interop.models import tiny_model

DATA = [(f"say {word}", "a") for word in ("one", "two", "three", "four")]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"generations": 1}, "at least 2 are needed"),
        ({"batch": 30}, r"batch is 30; it must be a multiple of generations \(8\)"),
        ({"extract": "known"}, "extract: known is for models that are only prompted"),
        ({"extract": "lastline"}, "did you mean 'last-line'"),
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"start_from": "x"}, "model: FOLDER/model"),
        ({"supervised": {"steps": -1}}, "supervised: steps must be at least 0"),
        ({"supervised": {"step": 3}}, r"supervised\.step"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LearnerError, match=sentence):
        read({"learner": "grpo", **settings})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("trl", reason="needs trl: make test-interop")
    return tiny_model(tmp_path_factory.mktemp("model") / "tiny")


def quick(model: Path, **more: Any) -> Any:
    settings = {
        "steps": 40,
        "batch": 64,
        "generations": 16,
        "rate": 0.03,
        "longest_answer": 2,
        "device": "cpu",
    }
    return read({"learner": "grpo", "model": str(model), **settings, **more})


def test_what_is_rewarded_becomes_likelier(model: Path, tmp_path: Path) -> None:
    steps: list[Progress] = []
    fitted = quick(model).fit(DATA, {"iid": DATA}, seed=1, progress=steps.append)
    rewards = [p.score for p in fitted.curve if p.split == "train"]
    assert rewards[-1] > rewards[0] + 0.3
    assert fitted.curve[-1].split == "iid"
    assert fitted.answer(["say five"]) == ["a"]
    assert steps[-1].step == 40
    fitted.save(tmp_path)
    again = load(tmp_path)
    assert again.answer(["say five"]) == ["a"]
    assert list(again.curve) == list(fitted.curve)


def test_a_supervised_start_is_what_fine_tuning_gives(model: Path, tmp_path: Path) -> None:
    same = {"model": str(model), "device": "cpu", "longest_answer": 2}
    tuned: Any = read({"learner": "fine-tune", "steps": 20, "batch": 4, "rate": 0.01, **same}).fit(
        DATA, seed=2
    )
    start = {"steps": 20, "batch": 4, "rate": 0.01}
    learner = quick(model, steps=1, rate=1e-12, supervised=start)
    reported: list[Point] = []
    with measured(lambda member, points: reported.extend(points)):
        fitted = learner.fit(DATA, seed=2, folder=tmp_path)
    assert reported == [point for point in fitted.curve if point.split == "train"]
    pairs = zip(tuned.base.model.parameters(), fitted.base.model.parameters(), strict=True)
    assert all(a.allclose(b, atol=1e-6) for a, b in pairs)
    assert fitted.answer(["say one"]) == ["a"]
    assert {p.name for p in tmp_path.iterdir()} == {"grpo", "supervised"}
    fitted.save(tmp_path / "saved")
    again: Any = load(tmp_path / "saved")
    assert again.learner.supervised == fitted.learner.supervised


def test_a_run_is_resumed_from_its_checkpoint(model: Path, tmp_path: Path) -> None:
    learner = quick(model, steps=4, checkpoint_every=2, rate=0.001)
    whole = learner.fit(DATA, seed=3, folder=tmp_path / "a")
    assert [p.name for p in (tmp_path / "a" / "grpo").glob("checkpoint-*")] == ["checkpoint-4"]
    half = quick(model, steps=2, checkpoint_every=2, rate=0.001)
    half.fit(DATA, seed=3, folder=tmp_path / "b")
    resumed = learner.fit(DATA, seed=3, folder=tmp_path / "b")
    mine, theirs = (
        [p.detach().clone() for p in f.base.model.parameters()] for f in (whole, resumed)
    )
    assert all(a.allclose(b, atol=1e-6) for a, b in zip(mine, theirs, strict=True))


def test_an_unknown_reward_is_named(model: Path) -> None:
    with pytest.raises(
        LearnerError, match="grpo: reward: no scorer is called 'exakt'; did you mean 'exact'"
    ):
        quick(model, reward="exakt").fit(DATA)


def test_grpo_runs_in_an_experiment_beside_fine_tuning(model: Path, tmp_path: Path) -> None:
    import taskloom as tl

    small = {"model": str(model), "steps": 2, "batch": 8, "device": "cpu", "longest_answer": 2}
    runs = tl.run(
        recipes=[{"recipe": "ctl/A", "set": {"splits": {"train": {"n": 40}, "iid": {"n": 8}}}}],
        learners=[
            {"learner": "grpo", "generations": 4, **small},
            {"learner": "fine-tune", **small},
        ],
        seeds=1,
        store=tmp_path / "runs",
    )
    assert sorted(runs.to_pandas()["learner"]) == ["fine-tune", "grpo"]
