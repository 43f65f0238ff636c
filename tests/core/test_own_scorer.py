"""Scorers of one's own: a function or a class in a file, known by name to tasks and to
`rescore`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import taskloom as tl
from taskloom.cli.app import run
from taskloom.core.errors import TaskloomError
from taskloom.core.registry import find_scorer
from taskloom.core.scoring import scorers_of
from taskloom.experiments import api
from taskloom.experiments.rescore import rescore
from taskloom.experiments.spec.experiment import check

HALF = '''
"""A task and its scorer in one file."""
import taskloom as tl


@tl.scorer("half-credit")
def half(prediction: str, example: tl.Example) -> float:
    """The right first letter is half of the answer."""
    return (prediction == example.target) / 2 + (prediction[:1] == example.target[:1]) / 2


@tl.task("test/letters", describe="say it", scorer=half)
def letters(rng: tl.Random) -> tl.Example:
    return tl.Example(f"say {rng.randint(0, 10**6)}", rng.choice(["ab", "ac"]))
'''


def test_a_scorer_of_code_without_a_module_is_not_one_of_ours() -> None:
    names: dict[str, object] = {"tl": tl}
    exec('@tl.scorer("unhoused")\ndef score(prediction, example): return 0.0', names)
    assert "unhoused" in scorers_of("__main__")
    assert "unhoused" not in scorers_of("taskloom")


def test_a_function_becomes_a_scorer() -> None:
    @tl.scorer("half")
    def half(prediction: str, example: tl.Example) -> float:
        """Half of it."""
        return 0.5

    assert isinstance(half, tl.Scorer)
    assert find_scorer("half") is half
    assert half.score("x", tl.Example("q", "x")) == 0.5
    assert half.explain("x", tl.Example("q", "y")) == "'x' scores 0.5 by half; the target is 'y'"


def test_a_class_becomes_a_scorer() -> None:
    @tl.scorer("loud")
    class Loud:
        """Right in capitals."""

        def score(self, prediction: str, example: tl.Example) -> float:
            return float(prediction == example.target.upper())

        def explain(self, prediction: str, example: tl.Example) -> str:
            return "capitals"

    assert find_scorer("loud").score("A", tl.Example("q", "a")) == 1
    assert isinstance(Loud, tl.Scorer)
    assert Loud.name == "loud"


def test_faults_of_a_scorer_are_one_sentence() -> None:
    @tl.scorer("two")
    def two(prediction: str, example: tl.Example) -> float:
        return 2.0

    @tl.scorer("raises")
    def raises(prediction: str, example: tl.Example) -> float:
        return 1 / len(prediction)

    with pytest.raises(
        TaskloomError, match=r"two returned 2.0 for 'x'; a score must be from 0 to 1"
    ):
        two.score("x", tl.Example("q", "x"))
    with pytest.raises(
        TaskloomError, match=r"raises raised ZeroDivisionError: .*test_own_scorer.py, line \d+"
    ):
        raises.score("", tl.Example("q", "x"))
    with pytest.raises(TaskloomError, match="a scorer's name must"):
        tl.scorer("mine/half")
    with pytest.raises(
        TaskloomError, match=r"'exact' is defined twice: in taskloom.core.scoring and in "
    ):
        tl.scorer("exact")(lambda prediction, example: 1.0)
    with pytest.raises(TaskloomError, match="needs the methods score and explain"):
        tl.scorer("none")(type("Nothing", (), {}))
    with pytest.raises(TaskloomError, match="has the name 'other'"):
        tl.scorer("one")(type("One", (), {"name": "other", "score": print, "explain": print}))


def test_a_task_uses_it_and_rescore_finds_it_in_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "half.py"
    file.write_text(HALF)
    block = {"recipe": str(file), "set": {"splits": {"train": {"n": 9}, "test": {"n": 20}}}}
    store = api.fill(
        check({"recipes": [block], "learners": ["majority"]}, "test"), tmp_path / "runs", workers=1
    ).store
    [name] = store.names()
    own = store.scores(name)
    assert own["scorer"] == "half-credit"
    assert 0.5 < own["splits"]["test"]["score"] < 1
    rescore(store.path, "exact")
    assert store.scores(name)["splits"]["test"]["score"] == pytest.approx(
        2 * own["splits"]["test"]["score"] - 1
    )
    assert run(["rescore", str(store.path), "--scorer", f"{file}::half-credit", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert store.scores(name) == own
    with pytest.raises(
        TaskloomError, match=r"half.py has no scorer 'half-cerdit'; did you mean 'half-credit'"
    ):
        rescore(store.path, f"{file}::half-cerdit")
    assert run(["list", "scorers"]) == 0
    assert "The right first letter is half of the answer." in capsys.readouterr().out
