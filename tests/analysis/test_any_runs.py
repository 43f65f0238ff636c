"""Studies of any runs, on made-up predictions and curves with known answers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import taskloom as tl
from taskloom.analysis.study import StudyError, analyse
from taskloom.analysis.traits import TraitValues, explained
from taskloom.core.errors import TaskloomError
from taskloom.data.audit.distribution import divergences
from taskloom.experiments.sources.score_files import write_scores
from taskloom.experiments.statistics.distributions import pearson
from taskloom.experiments.store import Store
from taskloom.experiments.table import Runs
from tests.experiments.made_up_runs import write
from tests.experiments.sweeps import baselines, fill, recipe

TRAITS = [
    {"length": str(2 + i % 3), "shape": "ab"[i // 3 % 2], "name": f"n{i}"} for i in range(120)
]


def made_up(folder: Path, scores: list[float], **more: object) -> Runs:
    store = Store(folder / "runs", create=True)
    for seed in range(2):
        write(store, {"ood": scores}, seed=seed, traits=TRAITS, **more)  # type: ignore[arg-type]
    return Runs(store)


def test_a_planted_trait_is_found_and_the_others_are_not(tmp_path: Path) -> None:
    """Length 4 is always wrong, everything else right; shape is unrelated, and a name for each item
    says nothing.
    """
    runs = made_up(tmp_path, [0.0 if t["length"] == "4" else 1.0 for t in TRAITS])
    _, _, (finding,) = analyse("runs/error-traits", runs)
    assert finding.table is not None
    rows = list(finding.table)
    assert [row["trait"] for row in rows] == ["length", "shape"]
    assert rows[0]["explained"] == pytest.approx(1.0)
    assert rows[0]["corrected_p"] < 0.01
    assert rows[0]["worst"] == "4 (0.00)"
    assert rows[1]["corrected_p"] > 0.5
    assert abs(rows[1]["explained"]) < 0.05
    values = TraitValues("abc", np.arange(30, dtype=np.int32) // 2 % 3)
    chance = explained(np.array([0.0, 1.0] * 15), values)
    assert chance is not None
    assert chance["explained"] == pytest.approx(
        1 - 29 / 27
    )  # no value differs: what many values explain by chance is taken off
    assert [p["value"] for p in finding.figures[0].data] == ["2", "3", "4"]


def test_of_many_unrelated_traits_none_is_found(tmp_path: Path) -> None:
    """Twenty random traits, of which one would be significant by chance without a correction."""
    rng = random.Random(5)
    traits = [{f"t{j}": rng.choice("abc") for j in range(20)} for _ in range(90)]
    store = Store(tmp_path / "runs", create=True)
    write(store, {"ood": [float(rng.random() < 0.5) for _ in range(90)]}, traits=traits)
    _, _, (finding,) = analyse("runs/error-traits", Runs(store))
    assert finding.table is not None
    assert len(finding.table) == 20
    assert min(row["corrected_p"] for row in finding.table) > 0.05
    assert "In 0 of 1 " in finding.text


def test_a_planted_trait_is_found_among_many(tmp_path: Path) -> None:
    """With 150 traits a correction multiplies p by 150: one of 2,000 permutations would be no
    evidence.
    """
    rng = random.Random(5)
    traits = [
        {"planted": "ab"[i % 2], **{f"t{j}": rng.choice("abc") for j in range(149)}}
        for i in range(200)
    ]
    store = Store(tmp_path / "runs", create=True)
    write(
        store,
        {"ood": [float(rng.random() < 0.2 + 0.6 * (i % 2)) for i in range(200)]},
        traits=traits,
    )
    _, _, (finding,) = analyse("runs/error-traits", Runs(store))
    assert finding.table is not None
    assert [row["trait"] for row in finding.table if row["corrected_p"] < 0.05] == ["planted"]
    assert "In 1 of 1 " in finding.text


def test_runs_on_other_data_are_not_pooled(tmp_path: Path) -> None:
    """Items of two worlds have the same numbers; pooled, the trait would explain half as much."""
    store = Store(tmp_path / "runs", create=True)
    right = [0.0 if t["length"] == "4" else 1.0 for t in TRAITS]
    wrong = [1.0 - score for score in right]
    for overlap, scores in ((4, right), (8, wrong)):
        write(
            store,
            {"ood": scores},
            traits=TRAITS,
            fields={"recipe.overlap": overlap},
            data=str(overlap),
        )
    _, _, (finding,) = analyse("runs/error-traits", Runs(store))
    assert finding.table is not None
    explained = {
        row["trainings"]: row["explained"] for row in finding.table if row["trait"] == "length"
    }
    assert explained == {f"bilstm, ctl/A, overlap {n}": pytest.approx(1.0) for n in (4, 8)}


def test_perfect_scores_have_no_errors_to_explain(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="nothing can be said"):
        analyse("runs/error-traits", made_up(tmp_path, [1.0] * 120))


@pytest.mark.parametrize(
    "name", ["runs/error-traits", "runs/similarity", "runs/learning-steps", "runs/trait-accuracy"]
)
def test_a_split_that_no_run_answered_is_refused_by_name(name: str, tmp_path: Path) -> None:
    runs = made_up(tmp_path, [1.0, 0.0] * 60, curve=[(100, "ood", 0.5, 0.1)])
    trait = {"trait": "length"} if name == "runs/trait-accuracy" else {}
    with pytest.raises(TaskloomError, match=r"'split' must be 'ood' for .*, not 'odo'"):
        analyse(name, runs, split="odo", **trait)


def test_accuracy_by_two_traits(tmp_path: Path) -> None:
    runs = made_up(tmp_path, [float((t["length"], t["shape"]) != ("4", "b")) for t in TRAITS])
    _, _, (finding,) = analyse("runs/trait-accuracy", runs, trait="length", cross="shape")
    assert finding.table is not None
    means = {(row["length"], row["shape"]): row["mean"] for row in finding.table}
    assert means == {(n, s): float((n, s) != ("4", "b")) for n in "234" for s in "ab"}
    assert finding.figures[0].draw(finding.figures[0].data) is not None


def test_without_a_name_every_trait_of_few_values_is_looked_at(tmp_path: Path) -> None:
    runs = made_up(tmp_path, [float(t["length"] != "4") for t in TRAITS])
    findings = analyse("runs/trait-accuracy", runs)[2]
    assert [finding.title for finding in findings] == [
        "Accuracy by length and split",
        "Accuracy by shape and split",
    ]
    assert [finding.figures[0].name for finding in findings] == [
        "trait-accuracy-length",
        "trait-accuracy-shape",
    ]
    names = [{"name": f"n{i}"} for i in range(40)]
    store = Store(tmp_path / "named", create=True)
    write(store, {"ood": [1.0] * 40}, traits=names)
    with pytest.raises(
        StudyError, match=r"no trait of .* has 2 to 30 values; name one: trait=NAME, of name$"
    ):
        analyse("runs/trait-accuracy", Runs(store))
    scores = tmp_path / "scores.json"
    group = {"recipe": "ctl/A", "learner": "bilstm", "n": {"ood": 9}, "seeds": {"0": {"ood": 0.5}}}
    write_scores([group], scores)
    with pytest.raises(
        StudyError, match=r"scores\.json has no answers to examples with traits; name a run store"
    ):
        analyse("runs/trait-accuracy", scores)


def test_accuracy_by_a_trait_and_whether_training_has_it(tmp_path: Path) -> None:
    """Long inputs are wrong where training lacks them; in the other split and after more steps all
    is right.
    """
    traits = [{"length": str(2 + i % 3), "seen": str(i // 3 % 2 == 0).lower()} for i in range(60)]
    scores = [float(t != {"length": "4", "seen": "false"}) for t in traits]
    store = Store(tmp_path / "runs", create=True)
    for seed in range(2):
        write(
            store,
            {"ood": scores, "iid": [1.0] * 60},
            seed=seed,
            traits=traits,
            fields={"learner.steps": 5},
        )
        write(store, {"ood": [1.0] * 60}, seed=seed, traits=traits, fields={"learner.steps": 50})
    (finding,) = analyse("runs/trait-accuracy", Runs(store), trait="length", cross="seen")[2]
    assert finding.table is not None
    wrong = [row for row in finding.table if row["mean"] < 1]
    assert [(r["split"], r["learner.steps"], r["length"], r["seen"], r["mean"]) for r in wrong] == [
        ("ood", 5, "4", "false", 0)
    ]
    assert len({row["trainings"] for row in finding.figures[0].data}) == 3
    assert "Means over 2 seeds and 10 items with" in finding.figures[0].caption
    (alone,) = analyse(
        "runs/trait-accuracy", Runs(store), trait="length", cross="seen", split="iid"
    )[2]
    assert alone.table is not None
    assert {row["mean"] for row in alone.table} == {1.0}


def test_accuracy_by_whether_training_has_the_value_of_a_trait(tmp_path: Path) -> None:
    """Groups of functions alternate in training: a run that knows only these is told from the data
    alone, in every split.
    """
    store = Store(tmp_path / "runs", create=True)
    folder = tmp_path / "runs" / "data" / "A"
    data = tl.make(
        "ctl/A", folder, set=["splits.train.n=400", "splits.iid.n=40", "splits.ood.n=40"]
    )
    trained = {str(example.traits["groups"]) for example in data["train"]}
    traits = [{"groups": str(example.traits["groups"])} for example in [*data["iid"], *data["ood"]]]
    scores = [float(t["groups"] in trained) for t in traits]
    for seed in range(2):
        write(store, {"both": scores}, seed=seed, traits=traits, data=data.digest)
    (finding,) = analyse("runs/trait-accuracy", Runs(store), trait="groups", cross="in-training")[2]
    assert finding.table is not None
    assert {(row["in-training"], row["mean"]) for row in finding.table} == {
        ("yes", 1.0),
        ("no", 0.0),
    }
    assert (
        f"1.000 where training has the value of groups ({sum(scores):,.0f} items)" in finding.text
    )
    assert (
        f"0.000 where training lacks the value of groups ({len(scores) - sum(scores):,.0f} items)"
        in finding.text
    )
    folder.rename(tmp_path / "away")
    with pytest.raises(StudyError, match="no datasets whose training split has the trait 'groups'"):
        analyse("runs/trait-accuracy", Runs(store), trait="groups", cross="in-training")


def test_steps_to_a_threshold(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    for seed, firsts in enumerate([(0.2, 0.96, 0.97, 0.9), (0.2, 0.5, 0.95), (0.1, 0.2, 0.3)]):
        write(
            store,
            {"iid": [1.0]},
            seed=seed,
            curve=[(100 * (i + 1), "iid", s, 0.1) for i, s in enumerate(firsts)],
        )
    _, _, (finding,) = analyse("runs/learning-steps", Runs(store))
    assert finding.table is not None
    (row,) = finding.table
    assert (row["seeds"], row["reached"], row["first"], row["median"], row["last"]) == (
        3,
        2,
        200,
        250,
        300,
    )
    assert [point["step"] for point in finding.figures[0].data] == [
        100,
        200,
        300,
    ]  # to where the first seed stops
    assert "Means over 3 seeds" in finding.figures[0].caption
    (lower,) = analyse("runs/learning-steps", Runs(store), threshold=0.2)[2]
    assert lower.table is not None
    assert [lower.table[0][name] for name in ("reached", "first", "median", "last")] == [
        3,
        100,
        100,
        200,
    ]
    empty = Store(tmp_path / "empty", create=True)
    write(empty, {"iid": [1.0]})
    with pytest.raises(StudyError, match="no learning curves"):
        analyse("runs/learning-steps", Runs(empty))


def test_accuracy_against_the_divergence_of_splits(tmp_path: Path) -> None:
    outcome = fill(baselines(), tmp_path / "runs")
    _, _, (finding,) = analyse("runs/divergence", outcome.store.path)
    assert finding.table is not None
    rows = {(row["learner"], row["recipe"], row["split"]): row for row in finding.table}
    assert len(rows) == 8
    assert (
        rows["majority", "ctl/A", "iid"]["divergence"]
        < rows["majority", "ctl/A", "ood"]["divergence"]
    )
    assert all(0 <= row["divergence"] <= 1 and row["seeds"] == 1 for row in rows.values())
    with pytest.raises(StudyError, match="no datasets with derivations"):
        analyse("runs/divergence", made_up(tmp_path / "other", [1.0] * 120))


def test_planted_relations_to_divergence_are_found_with_their_sign(tmp_path: Path) -> None:
    """Accuracy falls with divergence, rises with it, or is the same everywhere; runs on other data
    say nothing.
    """
    store = Store(tmp_path / "runs", create=True)
    sizes = [f"splits.{name}.n={n}" for name, n in (("train", 400), ("iid", 20), ("ood", 40))]
    datasets = [
        tl.make(
            name,
            tmp_path / "runs" / "data" / name[-1],
            set=["symbols=4", "functions=8", "max_length=4", *sizes],
        )
        for name in ("ctl/A", "ctl/R")
    ]
    planted: dict[str, Callable[[float], float]] = {
        "falls": lambda d: 0.9 - 0.5 * d,
        "rises": lambda d: 0.1 + 0.5 * d,
        "even": lambda d: 0.5,
    }
    for data in datasets:
        measured = divergences(
            {s: data.table(s) for s in data.splits}, {s: data.role(s) for s in data.splits}
        )
        for learner, mean in planted.items():
            for seed, shift in enumerate((-0.05, 0.05)):
                scores = {
                    d.split: [mean(d.compounds) + shift] * 4
                    for d in measured
                    if d.split in ("iid", "ood")
                }
                write(
                    store,
                    scores,
                    recipe=data.recipe.name,
                    learner=learner,
                    seed=seed,
                    data=data.digest,
                )
    write(store, {"iid": [0.0], "ood": [1.0]}, learner="falls", data="elsewhere")
    _, _, (finding,) = analyse("runs/divergence", Runs(store))
    assert (
        finding.text
        == "even: too few, or all equal (4 splits). falls: r = -1.00 (4 splits). rises: r = 1.00 (4"
        " splits)."
    )
    assert finding.table is not None
    rows = [row for row in finding.table if row["learner"] == "falls"]
    assert [row["split"] for row in rows] == ["iid", "iid", "ood", "ood"]
    for row in rows:
        assert row["mean"] == pytest.approx(0.9 - 0.5 * row["divergence"])
        assert row["low"] < row["mean"] - 0.05 < row["mean"] + 0.05 < row["high"]
    assert "12 points. Means over 2 seeds with 95 % intervals" in finding.figures[0].caption
    assert finding.figures[0].draw(finding.figures[0].data) is not None


def test_a_split_of_another_recipe_is_measured_with_its_own_examples(tmp_path: Path) -> None:
    """Both recipes have a split 'ood'; a run on A that answered that of R is at R's distance from
    A, not at A's own.
    """
    other = {**recipe("ctl/R"), "only": ["ood"]}
    experiment = {
        "recipes": [recipe("ctl/A")],
        "learners": ["majority"],
        "seeds": 1,
        "evaluate": [other],
    }
    outcome = fill(experiment, tmp_path / "runs")
    _, _, (finding,) = analyse("runs/divergence", outcome.store.path)
    assert finding.table is not None
    (row,) = finding.table
    a, r = (tl.load(folder) for folder in sorted((tmp_path / "runs" / "data").glob("*"), key=_is_r))
    (expected,) = divergences(
        {"train": a.table("train"), "ood": r.table("ood")}, {"train": "train", "ood": "test"}
    )
    (wrong,) = divergences(
        {"train": a.table("train"), "ood": a.table("ood")}, {"train": "train", "ood": "test"}
    )
    assert row["divergence"] == pytest.approx(expected.compounds)
    assert abs(expected.compounds - wrong.compounds) > 0.1


def _is_r(folder: Path) -> bool:
    return tl.load(folder).recipe.name == "ctl/R"


def test_learners_with_other_settings_are_other_points(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    tl.make(
        "ctl/A",
        tmp_path / "runs" / "data" / "A",
        set=["splits.train.n=400", "splits.iid.n=20", "splits.ood.n=40"],
    )
    digest = tl.load(tmp_path / "runs" / "data" / "A").digest
    for steps in (10, 1_000):
        write(store, {"ood": [steps / 1_000]}, fields={"learner.steps": steps}, data=digest)
    _, _, (finding,) = analyse("runs/divergence", Runs(store))
    assert finding.table is not None
    assert {row["learner"]: row["mean"] for row in finding.table} == {
        "bilstm, steps 10": 0.01,
        "bilstm, steps 1000": 1.0,
    }


def test_a_correlation_needs_three_points_that_vary() -> None:
    assert math.isnan(pearson([0.0, 1.0], [1.0, 0.0]))
    assert math.isnan(pearson([1.0, 1.0, 1.0], [0.1, 0.2, 0.3]))
    assert pearson([0.0, 0.1, 0.5], [0.9, 0.8, 0.4]) == pytest.approx(-1.0)
