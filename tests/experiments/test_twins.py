"""Twins in recipes and runs: companion splits, planted faults, a solver without faults."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.core import shards
from taskloom.core.errors import RecipeError
from taskloom.core.plan import Plan
from taskloom.core.registry import load_module
from taskloom.core.twins import companion
from taskloom.experiments.compare import BOTH, FAULTS
from taskloom.experiments.record import RunsError
from taskloom.recipe import read

SIZES = {"train": {"n": 20}, "dev": {"n": 10}, "test": {"n": 150}}
TWINS = {"test": ["flip", "keep"]}
RECIPE = {"recipe": "babi/9", "set": {"splits": SIZES, "twins": TWINS}}
FILE = Path(__file__).with_name("planted_faults.py")
# As experiments load it: a second import would register its learners twice.
PLANTED = sys.modules[load_module(FILE)]
MODELS: dict[str, Callable[[str], str]] = {
    "planted/ignores-negation": PLANTED.ignores_negation,
    "planted/last-mention": PLANTED.follows_last_mention,
}


def examples(plan: Plan, split: str) -> list[tl.Example]:
    """The rows of a split."""
    part = plan.split(split)
    table = shards.to_table(part.rows(0, part.n), 0, plan.traits)
    return list(shards.to_examples(table))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tl.Runs:
    """Both faulty models and the solver on stories with negations."""
    learners = [{"learner": f"{FILE}::{name}"} for name in MODELS]
    store = tmp_path_factory.mktemp("twins") / "runs"
    return tl.run(recipes=[RECIPE], learners=[*learners, "solver"], store=store, workers=1)


Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def rows(runs: tl.Runs) -> Rows:
    """The measures of all learners."""
    return list(runs.twins(by="learner", split="test"))


def measured(rows: Rows, learner: str, kind: str, measure: str) -> dict[str, Any]:
    """The row of a learner."""
    wanted = (learner, kind, measure)
    (row,) = [row for row in rows if (row["learner"], row["twin"], row["measure"]) == wanted]
    return row


@pytest.fixture(scope="module")
def population() -> dict[str, list[tl.Example]]:
    """Other, and many more, stories of the same kind, and their twins of each kind."""
    sizes = {**SIZES, "test": {"n": 500}}
    plan = read("babi/9", {"splits": sizes, "twins": TWINS}).plan(seed=1)
    twins = {kind: examples(plan, companion("test", kind)) for kind in ("flip", "keep")}
    return {"original": examples(plan, "test"), **twins}


@pytest.mark.parametrize("learner", MODELS)
@pytest.mark.parametrize("kind", ["flip", "keep"])
def test_twins_find_the_planted_share(
    rows: Rows, population: dict[str, list[tl.Example]], learner: str, kind: str
) -> None:
    model, faulty, pairs = MODELS[learner], 0, 0
    for original, twin in zip(population["original"], population[kind], strict=True):
        if twin.traits["edit"]:
            right = model(original.input) in original.targets
            faulty += right and model(twin.input) not in twin.targets
            pairs += 1
    row = measured(rows, learner, kind, FAULTS[kind])  # type: ignore[index]
    assert row["low"] <= faulty / pairs <= row["high"]
    if (learner, kind) != ("planted/ignores-negation", "keep"):
        assert row["low"] > 0


def test_a_negation_is_not_followed_by_a_model_that_ignores_it(runs: tl.Runs) -> None:
    shares = {
        row["edit"]: row["share"]
        for row in runs.where(learner="planted/ignores-negation").twins(by="edit", split="test")
        if row["measure"] == FAULTS["flip"]
    }
    assert shares["negation"] > 0.9
    assert shares["another place"] < 0.3


@pytest.mark.parametrize("kind", ["flip", "keep"])
def test_a_perfect_solver_has_no_faults(rows: Rows, kind: str) -> None:
    assert measured(rows, "solver", kind, FAULTS[kind])["share"] == 0  # type: ignore[index]
    assert measured(rows, "solver", kind, BOTH)["share"] == 1


def test_the_report_has_a_section_of_twins(runs: tl.Runs, tmp_path: Path) -> None:
    page = tl.report(runs.path, tmp_path / "report.html").read_text()
    assert FAULTS["flip"] in page
    assert FAULTS["keep"] in page


def test_runs_without_twins_say_what_to_do(tmp_path: Path) -> None:
    plain = {"recipe": "babi/9", "set": {"splits": SIZES}}
    runs = tl.run(recipes=[plain], learners=["majority"], store=tmp_path, workers=1)
    with pytest.raises(RunsError, match="twins"):
        runs.twins()


def test_companions_hold_the_twin_of_each_row() -> None:
    plan = read({"extends": "babi/9", "splits": SIZES, "twins": ["flip", "keep"]}).plan()
    names = [split.name for split in plan.splits]
    assert names == ["train", "dev", "dev-flip", "dev-keep", "test", "test-flip", "test-keep"]
    originals = examples(plan, "test")
    for kind in ("flip", "keep"):
        twins = examples(plan, f"test-{kind}")
        assert len(twins) == len(originals)
        for original, twin in zip(originals, twins, strict=True):
            assert original.traits.get("edit") is None
            if not twin.traits["edit"]:
                assert twin.input == original.input
                continue
            assert twin.input != original.input
            assert twin.question == original.question
            assert (set(twin.targets) == set(original.targets)) == (kind == "keep")


def test_twins_move_no_item_and_no_digest_without_them() -> None:
    plain = read("babi/9", {"splits.test.n": 5})
    with_twins = read("babi/9", {"splits.test.n": 5, "twins": ["flip"]})
    assert plain.digest != with_twins.digest
    inputs = [e.input for e in examples(plain.plan(), "test")]
    assert inputs == [e.input for e in examples(with_twins.plan(), "test")]
    assert "twins" not in plain.to_dict()
    again = type(with_twins).from_dict(with_twins.to_dict())
    assert again.digest == with_twins.digest


def test_rows_of_arrow_tables_have_twins() -> None:
    sizes = {"splits.train.n": 2_000, "splits.ood.n": 6, "splits.iid.n": 3}
    plan = read("ctl/A", {**sizes, "twins": {"ood": "flip"}}).plan()
    assert "ood-flip" in [split.name for split in plan.splits]
    assert "iid-flip" not in [split.name for split in plan.splits]
    for original, twin in zip(examples(plan, "ood"), examples(plan, "ood-flip"), strict=True):
        assert twin.traits["edit"] in ("another function", "another symbol")
        assert twin.target != original.target


@pytest.mark.parametrize(
    ("name", "twins", "named"),
    [
        ("babi/9", ["flop"], "flop"),
        ("babi/9", {"tests": ["flip"]}, "test"),
        ("babi/9", {"train": ["flip"]}, "train"),
        ("babi/4", ["flip"], "no variants"),
    ],
)
def test_impossible_twins_are_refused(name: str, twins: object, named: str) -> None:
    with pytest.raises(RecipeError, match=named):
        read(name, {"twins": twins}).plan()
