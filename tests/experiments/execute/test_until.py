"""Asking until certain: no more items than a decision needs, the same ones every time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import taskloom as tl
from taskloom.cli import run as run_command
from taskloom.core.seeding import Key
from taskloom.experiments.store import Store
from taskloom.recipe import read
from tests.experiments.sweeps import contents

LEFT = {"answers": 10**9}
"""Answers after which a learner is interrupted."""

ASKED: list[str] = []
"""All inputs that were asked."""


def double(rng: tl.Random, size: int = tl.knob(100_000, low=1, high=10**6)) -> tl.Example:
    number = rng.randint(1, 10**6)
    return tl.Example(str(number), str(2 * number), traits={"even": number % 2 == 0})


class Fitted:
    """Answers right in a given share of cases, which the input decides."""

    curve: tuple[()] = ()

    def __init__(self, learner: Doubling) -> None:
        self.learner = learner
        self.replies: list[dict[str, Any]] = []

    def answer(self, inputs: Sequence[str]) -> list[str]:
        answers = []
        for text in inputs:
            if not LEFT["answers"]:
                raise KeyboardInterrupt
            LEFT["answers"] -= 1
            ASKED.append(text)
            text = text.split()[-1]
            right = Key("until", self.learner.salt).unit(text) < self.learner.share
            answers.append(str(2 * int(text)) if right else "0")
        reply: dict[str, Any] = dict.fromkeys(("reply", "thinking", "answer", "rule"), "")
        reply |= {"messages": "", "finish": "stop", "outcome": "answered", "seconds": 0.0}
        reply |= {"tokens_in": 10, "tokens_out": 5, "tokens_thinking": None, "cost": 0.0002}
        self.replies = [reply for _ in inputs] if self.learner.tokens else []
        return answers

    def logprob(self, inputs: Any, candidates: Any) -> Any:
        raise NotImplementedError

    def represent(self, inputs: Any, where: str = "") -> Any:
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class Doubling:
    share: float = 1.0
    salt: str = ""
    tokens: bool = False
    described: bool = False

    name: ClassVar[str] = "until/doubling"

    def fit(self, train: Any, evaluate: Any = None, seed: int = 0, **more: Any) -> Fitted:
        return Fitted(self)


@pytest.fixture(autouse=True)
def registered() -> None:
    """Registries are emptied after each test."""
    LEFT["answers"] = 10**9
    ASKED.clear()
    tl.task("until/double", describe="Double the number.", scorer=tl.exact)(double)
    tl.learner("until/doubling", describe="doubles in a share of cases")(Doubling)


def learner(share: float, **settings: Any) -> dict[str, Any]:
    return {"learner": "until/doubling", "share": share, **settings}


def ask(
    store: Path, learners: Sequence[Any], until: Any, n: int = 2_000
) -> list[Mapping[str, Any]]:
    """What was asked of each learner."""
    recipe = {"recipe": "until/double", "set": {"splits": {"train": {"n": 10}, "test": {"n": n}}}}
    runs = tl.run(recipes=[recipe], learners=list(learners), store=store, until=until)
    asked = [runs[run].splits["test"].asked for run in runs.names]
    return sorted(asked, key=lambda one: str(one))


def test_asking_stops_when_the_interval_is_narrow_enough(tmp_path: Path) -> None:
    [asked] = ask(tmp_path, [learner(0.9)], 0.05)
    assert asked["stopped"] == "certain"
    assert asked["items"] < 1_000
    assert asked["high"] - asked["low"] <= 0.1
    assert asked["low"] <= 0.9 <= asked["high"]


def test_two_models_are_asked_until_one_is_better(tmp_path: Path) -> None:
    first, second = ask(tmp_path, [learner(0.9), learner(0.6)], "decided")
    assert first["stopped"] == second["stopped"] == "decided"
    assert first["items"] == second["items"] < 500
    [difference], [opposite] = first["differences"], second["differences"]
    assert difference["mean"] == -opposite["mean"]
    assert (difference["low"] > 0) != (opposite["low"] > 0)


def test_one_model_is_compared_with_chance(tmp_path: Path) -> None:
    [asked] = ask(tmp_path, [learner(0.5)], "decided")
    assert (asked["stopped"], asked["items"] < 100) == ("decided", True)
    assert asked["low"] > asked["chance"]


def test_equal_models_are_asked_until_they_are_certainly_close(tmp_path: Path) -> None:
    # Nearly all answers are right, so differences vary little and some hundred items are enough.
    asked = ask(tmp_path, [learner(0.97, salt="a"), learner(0.97, salt="b")], "decided", n=300)
    for one in asked:
        assert one["stopped"] == "equal within 0.02"
        [difference] = one["differences"]
        assert -0.02 <= difference["low"] <= difference["high"] <= 0.02
        assert one["items"] > 300


def test_items_beyond_a_split_are_those_of_a_larger_one(tmp_path: Path) -> None:
    [asked] = ask(tmp_path, [learner(0.9)], 0.05, n=60)
    assert asked["stopped"] == "certain"
    assert asked["items"] > 60
    runs = tl.runs(tmp_path)
    [run] = runs.names
    kept = Store(tmp_path).answers(run, ["index", "input", "targets", "score"])
    assert kept is not None
    assert kept.num_rows == asked["items"]
    larger = {"splits": {"train": {"n": 10}, "test": {"n": asked["items"] + 60}}}
    rows = list(tl.make("until/double", changes=larger)["test"])
    for row in kept.to_pylist():
        assert row["input"] == rows[row["index"]].input
        assert row["targets"] == list(rows[row["index"]].targets)
    # The rows of the split itself come first.
    assert sorted(kept["index"].to_pylist())[:60] == list(range(60))


def test_a_model_that_is_told_the_task_is_told_it_before_each_item(tmp_path: Path) -> None:
    ask(tmp_path, [learner(1.0, described=True)], 0.05)
    assert ASKED
    assert all(text.startswith("Double the number.") for text in ASKED)


def asked_of(recipe: Any, store: Path, split: str, until: Any) -> Mapping[str, Any]:
    """What was asked of a baseline."""
    runs = tl.run(
        recipes=[recipe], learners=["majority"], evaluate=[split], store=store, until=until
    )
    return runs[runs.names[0]].splits[split].asked


def test_a_space_with_an_end_is_asked_to_it_and_known_exactly(tmp_path: Path) -> None:
    """The split of this size has all expressions of two functions of `ctl/S`."""
    splits = {"train": {"n": 5_000}, "ood": {"n": 1_000}}
    recipe = {"recipe": "ctl/S", "set": {"splits": splits}}
    asked = asked_of(recipe, tmp_path / "runs", "ood", 0.01)
    assert (asked["stopped"], asked["items"], asked["of"]) == ("all items asked", 1_000, 1_000)
    scores = tl.runs(tmp_path / "runs")
    [run] = scores.names
    mean = scores[run].splits["ood"].score
    assert asked["low"] == asked["high"] == pytest.approx(mean)
    page = tl.report(tmp_path / "runs", tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"{mean:.3f} exactly" in page


FURTHER: dict[str, tuple[str, dict[str, Any], str]] = {
    "ctl": ("ctl/A", {"splits": {"train": {"n": 5_000}, "ood": {"n": 40}}}, "ood"),
    "taskbench": ("taskbench/map{antonyms[eng]}", {"sequences": {"n": 400}}, "test"),
    "zest": ("zest/synthetic", {"tasks": {"test": 10}, "passages": 3}, "test"),
    "concat": ("babi/concat-T7", {"splits": {"train": {"n": 50}, "test": {"n": 40}}}, "test"),
}


@pytest.mark.parametrize("suite", FURTHER)
def test_every_suite_draws_items_beyond_the_size_of_a_split(suite: str, tmp_path: Path) -> None:
    name, changes, split = FURTHER[suite]
    recipe = {"recipe": name, "set": changes}
    asked = asked_of(recipe, tmp_path, split, {"budget": "300items"})
    assert (asked["stopped"], asked["items"]) == ("budget spent", 300)
    n = read({"extends": name, **changes}).plan().split(split).n
    assert n < 300 < (asked["of"] or 301)


def test_a_budget_of_items_goes_to_the_most_uncertain(tmp_path: Path) -> None:
    asked = ask(tmp_path, [learner(1.0), learner(0.5)], {"budget": "400items"})
    assert sum(one["items"] for one in asked) == 400
    by_certainty = sorted(asked, key=lambda one: one["high"] - one["low"])
    certain, uncertain = (one["items"] for one in by_certainty)
    assert certain < uncertain


def test_a_budget_in_dollars_counts_tokens(tmp_path: Path) -> None:
    [asked] = ask(tmp_path, [learner(0.5, tokens=True)], {"budget": "0.011usd"})
    assert (asked["stopped"], asked["items"]) == ("budget spent", 60)
    assert asked["cost"] == pytest.approx(60 * 0.0002)


def test_a_budget_in_tokens_needs_a_model_that_counts_them(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="items"):
        ask(tmp_path, [learner(0.5)], {"budget": "1ktok"})


def test_a_budget_that_does_not_reach_all_learners_fails_those_with_a_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.warns(UserWarning, match="the budget was spent before anything of 'test'"):
        [asked] = ask(tmp_path, [learner(1.0), learner(0.5)], {"budget": "1items"})
    assert asked["items"] == 1
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("until", [0.05, "decided", {"goal": 0.05, "budget": "500items"}])
def test_an_interrupted_experiment_ends_with_the_same_runs(until: Any, tmp_path: Path) -> None:
    learners = [learner(0.9, tokens=True), learner(0.7, tokens=True)]
    whole = ask(tmp_path / "whole", learners, until)
    LEFT["answers"] = 50
    with pytest.raises(KeyboardInterrupt):
        ask(tmp_path / "cut", learners, until)
    LEFT["answers"] = 10**9
    resumed = ask(tmp_path / "cut", learners, until)
    assert resumed == whole
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    assert not (tmp_path / "cut" / "work" / "asking").exists()


def test_a_line_that_a_kill_cut_off_costs_no_other_answer(tmp_path: Path) -> None:
    for answers in (50, 30):
        LEFT["answers"] = answers
        with pytest.raises(KeyboardInterrupt):
            ask(tmp_path, [learner(0.9)], 0.05)
        [journal] = (tmp_path / "work" / "asking").glob("*.jsonl")
        journal.write_bytes(journal.read_bytes()[:-4])
    LEFT["answers"] = 10**9
    ASKED.clear()
    ask(tmp_path, [learner(0.9)], 0.05)
    whole = len(ASKED)
    [asked] = ask(tmp_path / "calm", [learner(0.9)], 0.05)
    # Three batches of 20 were written, and the last answer was cut off; the one cut off before was
    # asked again.
    assert whole == asked["items"] - 60 + 1


def test_a_run_that_was_asked_with_others_is_not_repeated_alone(tmp_path: Path) -> None:
    ask(tmp_path / "both", [learner(0.9), learner(0.6)], "decided")
    store = Store(tmp_path / "both")
    config = store.config_file(store.names()[0])
    assert config is not None
    with pytest.raises(tl.TaskloomError, match="together"):
        tl.run(config, store=tmp_path / "alone")


def test_a_learner_that_trains_answers_everything(tmp_path: Path) -> None:
    experiment = {
        "recipes": ["ctl/A"],
        "learners": [{"learner": "bilstm", "steps": 1}],
        "until": 0.05,
    }
    from taskloom.experiments.spec.cells import expand
    from taskloom.experiments.spec.experiment import check

    [cell] = expand(check(experiment, "here"))
    [same] = expand(check({k: v for k, v in experiment.items() if k != "until"}, "here"))
    assert cell.run == same.run


def test_the_report_states_items_cost_and_why_asking_stopped(tmp_path: Path) -> None:
    [asked] = ask(tmp_path / "runs", [learner(0.9, tokens=True)], 0.05)
    page = tl.report(tmp_path / "runs", tmp_path / "report.html").read_text(encoding="utf-8")
    section = page.partition("Asked until certain")[2]
    assert "certain" in section
    assert f"{asked['items']:,}" in section
    assert f"{15 * asked['items']:,}" in section  # tokens
    assert f"{0.0002 * asked['items']:.4f}" in section  # dollars


def test_the_report_states_the_difference_that_was_decided(tmp_path: Path) -> None:
    learners = [learner(0.9, salt="a"), learner(0.6, salt="b")]
    asked = ask(tmp_path / "runs", learners, "decided")
    page = tl.report(tmp_path / "runs", tmp_path / "report.html").read_text(encoding="utf-8")
    section = page.partition("Asked until certain")[2]
    best = max(one["differences"][0]["mean"] for one in asked)
    assert f" is {best:.3f} (" in section


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--until", "0.7"], "0.5"),
        (["--until", "soon"], "decided"),
        (["--budget", "5eur"], "5usd"),
        (["--budget", "0items"], "5usd"),
    ],
)
def test_bad_options_are_one_sentence(
    options: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(json.dumps({"recipes": ["babi/1"], "learners": ["majority"]}), "utf-8")
    assert run_command(["run", str(path), "--store", str(tmp_path / "runs"), *options]) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1
