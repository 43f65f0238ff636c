"""Best of k: of several seeds or checkpoints the one with the highest score on `dev`, and the run
says which one it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from taskloom.core.errors import TaskloomError
from taskloom.experiments.rescore import verify_runs
from taskloom.experiments.spec.cells import expand
from taskloom.experiments.spec.experiment import check
from taskloom.learners.config import LEARNERS, register_learner
from tests.experiments.sweeps import fill

BABI = {
    "recipe": "babi/1",
    "set": {"splits": {"train": {"n": 40}, "dev": {"n": 20}, "test": {"n": 20}}},
}
ANSWERS = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")


@dataclass(frozen=True)
class Constant:
    """Always gives one answer."""

    answer_given: str
    curve: tuple[Any, ...] = ()

    def answer(self, inputs: Any) -> list[str]:
        return [self.answer_given] * len(inputs)


@pytest.fixture
def guessing() -> Any:
    """A learner whose seed alone decides its answer, and the seeds that were tried."""
    tried: list[int] = []

    @register_learner("test/by-seed", describe="an answer for each seed", code="")
    @dataclass(frozen=True)
    class BySeed:
        def fit(
            self,
            train: Any,
            evaluate: Any = None,
            seed: int = 0,
            *,
            folder: Any = None,
            progress: Any = None,
        ) -> Any:
            tried.append(seed)
            return Constant(ANSWERS[seed % len(ANSWERS)])

    yield tried
    LEARNERS._things.pop("test/by-seed")
    LEARNERS._origin.pop("test/by-seed")


def experiment(learner: Any = "test/by-seed", **more: Any) -> dict[str, Any]:
    return {"recipes": [BABI], "learners": [learner], "evaluate": ["test"], "best_of": 6, **more}


def test_a_run_is_the_try_with_the_highest_score_on_dev(
    guessing: list[int], tmp_path: Path
) -> None:
    outcome = fill(experiment(seeds=2), tmp_path / "runs")
    assert not outcome.state.failed
    assert sorted(guessing) == list(range(12))  # six for each run, none twice
    for cell in outcome.cells:
        scores = outcome.store.scores(cell.run)
        chosen = scores["chosen"]
        assert (chosen["by"], chosen["seeds"]) == ("dev", cell.tries)
        assert chosen["seed"] == chosen["seeds"][chosen["scores"].index(max(chosen["scores"]))]
        [given] = set(outcome.store.predictions([cell.run])["prediction"].to_pylist())
        assert given == ANSWERS[chosen["seed"] % 6]
        assert "dev" not in scores["splits"]
        assert expand(check(cell.config(), "test"))[0].run == cell.run
    assert verify_runs(outcome.store.path).wrong == []


def test_it_is_another_run_than_the_first_try_and_one_try_is_the_run_of_before(
    guessing: list[int],
) -> None:
    [best] = expand(check(experiment(), "test"))
    [one] = expand(check(experiment(best_of=1), "test"))
    plain = {k: v for k, v in experiment().items() if k != "best_of"}
    assert best.run != one.run
    assert one.run == expand(check(plain, "test"))[0].run
    assert best.fields["learner.best_of"] == 6
    assert str(best).endswith("best_of=6 seed 0")


def test_networks_try_their_seeds_as_one_program(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    net = {
        "learner": "entnet",
        "state": 4,
        "slots": 2,
        "steps": 4,
        "batch": 8,
        "evaluate_every": 2,
        "patience": 2,
    }
    outcome = fill(experiment(net, best_of={"seeds": 3, "split": "dev"}), tmp_path / "runs")
    assert not outcome.state.failed
    [run] = outcome.runs
    chosen = outcome.store.scores(run)["chosen"]
    assert chosen["seeds"] == [0, 1, 2]
    curve = [p for p in outcome.store.curves([run]).to_pylist() if p["split"] == "dev"]
    best = max(curve, key=lambda point: (point["score"], -point["step"]))
    assert (
        chosen["step"] == best["step"]
    )  # of its checkpoints, the first with the highest score on dev
    assert chosen["scores"][chosen["seeds"].index(chosen["seed"])] == pytest.approx(best["score"])


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"best_of": 0}, "best_of"),
        (
            {"best_of": {"seeds": 2, "split": "dve"}},
            "no split 'dve' to choose by; did you mean 'dev'",
        ),
        ({"best_of": 10, "seeds": [2**31]}, "the seeds of the tries would exceed"),
    ],
)
def test_choices_that_cannot_be(more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TaskloomError, match=sentence):
        expand(check({**experiment("majority"), **more}, "test"))
