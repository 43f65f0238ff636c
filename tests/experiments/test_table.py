"""Runs as a table: means with intervals against the statistics by hand, comparisons, other tools,
bad questions.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import taskloom as tl
from taskloom.experiments import store as store_module
from taskloom.experiments.accuracy import MEASURES
from taskloom.experiments.files import PREDICTIONS, SCORES, StoreError
from taskloom.experiments.record import FailedRun, RunsError
from taskloom.experiments.statistics import (
    StatisticsError,
    holm,
    mcnemar,
    over_items,
    over_seeds,
    over_tasks,
    paired_bootstrap,
    paired_two_way,
    sign_flip,
    two_way,
    welch,
)
from taskloom.experiments.store import Store
from taskloom.experiments.table import Runs
from tests.experiments.made_up_runs import write
from tests.experiments.statistics.test_intervals import draw, generator

TRAITS = [{"question": q, "support": s} for q in ("where", "who") for s in ("2", "10", "3")]
RECIPES, LEARNERS, SEEDS, ITEMS = ("ctl/A", "ctl/R"), ("bilstm", "transformer"), 4, 60


def scores(recipe: str, learner: str, split: str) -> Any:
    """Seeds × items, the same whenever asked."""
    middle = 1.0 + (learner == "transformer") - (split == "ood")
    return draw(generator("frame", recipe, learner, split), SEEDS, ITEMS, middle, 0.3, 1.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = Store(tmp_path_factory.mktemp("store") / "runs", create=True)
    for recipe in RECIPES:
        for learner in LEARNERS:
            tables = {split: scores(recipe, learner, split) for split in ("iid", "ood")}
            for seed in range(SEEDS):
                curve = [(step, "iid", step / 100, 1 / step) for step in (50, 100)]
                write(
                    store,
                    {split: table[seed] for split, table in tables.items()},
                    recipe=recipe,
                    learner=learner,
                    seed=seed,
                    traits=TRAITS,
                    data=recipe,
                    curve=curve,
                    fields={"learner.steps": 100 if learner == "bilstm" else 200},
                )
    return store.path


@pytest.fixture
def runs(folder: Path) -> Runs:
    return tl.runs(folder)


def test_the_table(runs: Runs) -> None:
    assert len(runs) == 16
    assert runs.table.num_rows == 32
    assert runs.fields == ["learner.steps"]
    assert runs.splits == ["iid", "ood"]
    assert runs.to_pandas().score.mean() == pytest.approx(runs.to_polars()["score"].mean())
    assert "16 runs" in repr(runs)
    assert runs.curves().num_rows == 32
    assert runs.predictions(split="ood", columns=["score"]).num_rows == 16 * ITEMS


def test_accuracy_keeps_apart_what_differs(runs: Runs) -> None:
    found = runs.accuracy()
    assert found.columns[:6] == ("recipe", "learner", "split", "mean", "low", "high")
    assert found.columns[6:] == tuple(m for m in MEASURES if m != "success")[3:]
    assert len(found) == 8
    for row in found:
        expected = two_way(scores(row["recipe"], row["learner"], row["split"]))
        assert (row["mean"], row["low"], row["high"]) == pytest.approx(
            (expected.mean, expected.low, expected.high)
        )
        assert (row["n"], row["seeds"]) == (ITEMS, SEEDS)


def test_accuracy_by_traits(runs: Runs) -> None:
    found = runs.where(recipe="ctl/A", learner="bilstm").accuracy(
        by=["question", "support"], split="ood"
    )
    assert found.columns[:2] == ("question", "support")
    # Numbers in text are put in the order of numbers.
    assert [(r["question"], r["support"]) for r in found] == [
        (q, s) for q in ("where", "who") for s in ("2", "3", "10")
    ]
    table = scores("ctl/A", "bilstm", "ood")
    for row in found:
        place = TRAITS.index({"question": row["question"], "support": row["support"]})
        expected = two_way(table[:, place :: len(TRAITS)])
        assert (row["mean"], row["low"], row["high"]) == pytest.approx(
            (expected.mean, expected.low, expected.high)
        )
    text = str(found).splitlines()
    assert text[0].split() == [
        *("question", "support", "mean", "interval"),
        *[m for m in MEASURES if m != "success"][3:],
    ]
    assert len(text) == 7


def test_a_second_question_reads_no_file(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = str([list(runs.accuracy()), list(runs.accuracy(by="support"))])

    def read(*_: object) -> None:
        raise AssertionError("a file was read again")

    monkeypatch.setattr(store_module, "read_parquet", read)
    assert (
        str([list(runs.accuracy()), list(runs.where(seed=range(SEEDS)).accuracy(by="support"))])
        == answers
    )


@pytest.mark.parametrize("over", ["seeds", "items"])
def test_other_intervals(runs: Runs, over: str) -> None:
    for row in runs.accuracy(split="iid", over=over):
        table = scores(row["recipe"], row["learner"], "iid")
        expected = (
            over_seeds(table.mean(axis=1)) if over == "seeds" else over_items(table.mean(axis=0))
        )
        assert (row["low"], row["high"], row["seeds"]) == pytest.approx(
            (expected.low, expected.high, SEEDS)
        )
    # By a trait, the seeds' scores are taken from the predictions; by none, from the runs: both are
    # the same numbers.
    fast, slow = (runs.accuracy(by=by, split="iid", over="seeds") for by in ((), ("task",)))
    assert [r["mean"] for r in fast] == pytest.approx([r["mean"] for r in slow])


def test_over_tasks_recipes_are_the_tasks(runs: Runs) -> None:
    found = runs.accuracy(split="iid", over="tasks")
    assert found.columns[0] == "learner"
    for row in found:
        means = np.array(
            [scores(recipe, row["learner"], "iid").mean(axis=1) for recipe in RECIPES]
        ).T
        expected = over_tasks(means)
        assert (row["mean"], row["low"], row["n"]) == pytest.approx(
            (expected.mean, expected.low, 2)
        )
        both = two_way(means)
        other = next(
            r
            for r in runs.accuracy(split="iid", over="seeds+tasks")
            if r["learner"] == row["learner"]
        )
        assert (other["low"], other["high"]) == pytest.approx((both.low, both.high))


def test_one_seed_has_the_interval_of_its_items(runs: Runs) -> None:
    row = runs.where(recipe="ctl/A", learner="bilstm", seed=2).accuracy(split="iid")[0]
    expected = over_items(scores("ctl/A", "bilstm", "iid")[2])
    assert (row["low"], row["high"], row["method"]) == (expected.low, expected.high, "Wilson")
    quick = runs.where(recipe="ctl/A", learner="bilstm", seed=2).accuracy(split="iid", over="seeds")
    assert quick[0]["method"] == "one seed"
    assert quick.to_dicts()[0]["low"] is None


def test_items_that_differ_between_seeds_are_not_crossed(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    table = scores("ctl/A", "bilstm", "iid")
    for seed in range(3):
        write(store, {"iid": table[seed]}, seed=seed, data=f"other items {seed}")
    row = tl.runs(store.path).accuracy()[0]
    expected = over_seeds(table[:3].mean(axis=1))
    assert row["method"] == "t over seeds"
    assert (row["low"], row["high"]) == pytest.approx((expected.low, expected.high))


def test_compare_learners(runs: Runs) -> None:
    found = runs.compare("bilstm", "transformer")
    assert [(r["recipe"], r["split"]) for r in found] == [
        (r, s) for r in RECIPES for s in ("iid", "ood")
    ]
    expected = [
        paired_two_way(*(scores(r["recipe"], learner, r["split"]) for learner in LEARNERS))
        for r in found
    ]
    assert [r["p"] for r in found] == pytest.approx([e.p for e in expected])
    assert [r["low"] for r in found] == pytest.approx([e.low for e in expected])
    assert [r["corrected_p"] for r in found] == pytest.approx(list(holm([e.p for e in expected])))
    assert all(r["corrected_p"] >= r["p"] for r in found)
    assert [r["difference"] for r in runs.compare("transformer", "bilstm")] == pytest.approx(
        [-r["difference"] for r in found]
    )


def test_compare_by_name_of_the_test(runs: Runs) -> None:
    some = runs.where(recipe="ctl/A")
    first, second = (scores("ctl/A", learner, "ood") for learner in LEARNERS)

    def p(test: str, which: Runs = some) -> float:
        value: float = which.compare("bilstm", "transformer", split="ood", test=test)[0]["p"]
        return value

    assert p("bootstrap") == paired_bootstrap(first, second).p
    assert p("sign-flip") == sign_flip(first.mean(axis=1), second.mean(axis=1)).p
    assert p("welch") == pytest.approx(welch(first.mean(axis=1), second.mean(axis=1)).p)
    one = some.where(seed=1)
    assert p("auto", one) == p("mcnemar", one) == mcnemar(first[1], second[1]).p
    with pytest.raises(RunsError, match="several seeds of each"):
        p("mcnemar")
    by = some.compare("bilstm", "transformer", split="ood", by="question", correction="bonferroni")
    assert [r["question"] for r in by] == ["where", "who"]
    assert [r["corrected_p"] for r in by] == pytest.approx([min(1, 2 * r["p"]) for r in by])


def test_compare_recipes_of_different_items(runs: Runs) -> None:
    found = runs.where(learner="bilstm").compare("ctl/A", "ctl/R")
    assert {r["test"] for r in found} == {"Welch over seeds"}
    first, second = (scores(recipe, "bilstm", "iid").mean(axis=1) for recipe in RECIPES)
    assert found[0]["p"] == pytest.approx(welch(first, second).p)
    with pytest.raises(RunsError, match="needs the same items"):
        runs.where(learner="bilstm").compare("ctl/A", "ctl/R", test="two-way")
    with pytest.raises(RunsError, match="one seed"):
        runs.where(learner="bilstm", seed=0).compare("ctl/A", "ctl/R")


def test_compare_recipes_tested_on_one_split(tmp_path: Path) -> None:
    """Two ways to train, one test split: the items are the same though the recipes are not."""
    store = Store(tmp_path / "runs", create=True)
    tables = {
        recipe: scores("ctl/A", learner, "iid")
        for recipe, learner in zip(("x", "y"), LEARNERS, strict=True)
    }
    for recipe, table in tables.items():
        for seed in range(3):
            write(store, {"mix": table[seed]}, recipe=recipe, seed=seed, data="the same")
    found = tl.runs(store.path).compare("x", "y")
    assert found[0]["test"] == "t over seeds × items"
    assert found[0]["p"] == pytest.approx(paired_two_way(tables["x"][:3], tables["y"][:3]).p)


def test_partial_scores_and_few_common_seeds(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    rng = generator("partial")
    a, b = rng.random((2, 30)), rng.random((2, 30))
    for seed in range(2):
        write(store, {"iid": a[seed]}, learner="a", seed=seed)
        write(store, {"iid": b[seed]}, learner="b", seed=seed + 1)
    runs = tl.runs(store.path)
    found = runs.compare("a", "b")[0]
    assert (found["test"], found["p"]) == ("paired bootstrap", paired_bootstrap(a, b).p)
    with pytest.raises(RunsError, match="they share 1"):
        runs.compare("a", "b", test="two-way")


def test_fields_by_their_short_names(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    for state in (64, 128):
        for seed in range(2):
            write(
                store, {"iid": [1, 0, 1, state == 64]}, seed=seed, fields={"learner.state": state}
            )
    runs = tl.runs(store.path)
    assert [r["learner.state"] for r in runs.accuracy(by="state")] == [64, 128]
    assert runs.accuracy().columns[0] == "learner.state"
    assert len(runs.where(state=64)) == 2
    assert runs.compare({"state": 64}, {"state": 128})[0]["difference"] == pytest.approx(-0.25)
    with pytest.raises(RunsError, match="share runs"):
        runs.compare("bilstm", {"state": 128})
    write(store, {"iid": [1, 1, 1, 1]}, seed=0, learner="other")
    with pytest.raises(
        RunsError, match=r"'bilstm' means runs with different learner.state \(128, 64\); choose one"
    ):
        tl.runs(store.path).compare("other", "bilstm")


def test_a_trait_comes_before_the_short_name_of_a_field(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    write(
        store,
        {"iid": [1, 0]},
        fields={"recipe.length": 9},
        traits=[{"length": "1"}, {"length": "2"}],
    )
    found = tl.runs(store.path).accuracy(by="length")
    assert [(r["length"], r["mean"]) for r in found] == [("1", 1.0), ("2", 0.0)]
    assert tl.runs(store.path).accuracy(by="recipe.length")[0]["recipe.length"] == 9


def test_runs_without_predictions(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    for seed in range(2):
        write(store, {"iid": [1, seed]}, seed=seed, keep=False)
    runs = tl.runs(store.path)
    (row,) = runs.accuracy()
    assert (row["mean"], row["method"]) == (0.75, "t over seeds")
    with pytest.raises(StoreError, match="means over seeds alone"):
        runs.accuracy(over="seeds+items")
    with pytest.raises(StoreError, match="means over seeds alone"):
        runs.accuracy(by="question")
    write(store, {"iid": [0, 0]}, seed=2)
    with pytest.raises(StoreError, match="2 of 3 runs have no predictions"):
        tl.runs(store.path).accuracy()
    assert "0.500" in repr(tl.runs(store.path))


def test_runs_that_never_answered_a_split_are_no_fault(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    for seed in range(2):
        write(store, {"iid": [1, 0], "mix": [1, 1, 0], "none": []}, seed=seed)
        write(store, {"iid": [1, 0]}, recipe="ctl/R", seed=seed)
    runs = tl.runs(store.path)
    for over in ("seeds", "seeds+items"):
        found = runs.accuracy(split="mix", over=over)
        assert [(r["recipe"], r["mean"]) for r in found] == [("ctl/A", pytest.approx(2 / 3))]
        assert [(r["recipe"], r["split"]) for r in runs.accuracy(over=over)] == [
            ("ctl/A", "iid"),
            ("ctl/A", "mix"),
            ("ctl/R", "iid"),
        ]


def test_an_empty_store(tmp_path: Path) -> None:
    runs = tl.runs(Store(tmp_path / "runs", create=True).path)
    assert len(runs) == 0
    assert "no runs" in repr(runs)
    assert len(runs.accuracy()) == 0


def test_rows_go_elsewhere(runs: Runs) -> None:
    found = runs.accuracy(split="iid")
    assert list(found.to_pandas().columns) == list(found.columns)
    assert found.to_polars().shape == (4, len(found.columns))
    assert ">interval</th>" in found._repr_html_()
    assert "[" in str(found)


@pytest.mark.parametrize(
    ("ask", "word"),
    [
        (lambda r: r.accuracy(by="suport"), "did you mean 'support'"),
        (lambda r: r.accuracy(split="odd"), "did you mean 'ood'"),
        (lambda r: r.accuracy(over="sedes"), "did you mean 'seeds'"),
        (lambda r: r.accuracy(by="score"), "group by another column or trait"),
        (lambda r: r.where("idd > 0.5"), "did you mean 'iid'"),
        (lambda r: r.where("iid > 1"), "no run has iid > 1; it is from"),
        (lambda r: r.where("seed=77"), "no run has seed 77; values of seed: 0"),
        (lambda r: r.where("learner > 1"), "learner is not a number"),
        (lambda r: r.best(0, "iid"), "at least 1 seed"),
        (lambda r: r.best(1, "idd"), "did you mean 'iid'"),
        (lambda r: r.where(learner="lstm"), "values of learner: bilstm, transformer"),
        (lambda r: r.where(lerner="bilstm"), "did you mean 'learner'"),
        (lambda r: r.compare("bilstm", "transfomer"), "did you mean 'transformer'"),
        (lambda r: r.compare("bilstm", "transformer", test="t"), "there is no test 't'"),
        (
            lambda r: r.where("ctl/A").compare({"seed": 0}, {"seed": 1}, split="x"),
            "no run answered",
        ),
    ],
)
def test_bad_questions(runs: Runs, ask: Any, word: str) -> None:
    with pytest.raises(RunsError, match=word):
        ask(runs)


def test_an_unknown_correction(runs: Runs) -> None:
    with pytest.raises(StatisticsError, match="there is no correction"):
        runs.compare("bilstm", "transformer", correction="sidak")


def test_a_group_of_one_task_has_a_mean_and_no_interval(runs: Runs) -> None:
    for row in runs.where(recipe="ctl/A").accuracy(over="tasks"):
        assert row["mean"] == pytest.approx(scores("ctl/A", row["learner"], row["split"]).mean())
        assert np.isnan(row["low"])
        assert (row["n"], row["method"]) == (1, "one task")


def test_spread_over_seeds_and_success_rate(runs: Runs) -> None:
    for over in ("seeds+items", "seeds", "items"):
        for row in runs.accuracy(over=over, threshold=0.6):
            means = scores(row["recipe"], row["learner"], row["split"]).mean(axis=1)
            assert row["sd"] == pytest.approx(means.std(ddof=1))
            assert row["success"] == np.mean(means > 0.6)
    assert "success" not in runs.accuracy().columns
    [row] = runs.where(recipe="ctl/A", learner="bilstm", seed=0).accuracy(split="iid")
    assert np.isnan(row["sd"])


@pytest.mark.parametrize("rule", ["iid > 0.7", "iid>=.7", "iid < 7e-1", "seed <= 1", "steps > 150"])
def test_selection_by_inequality(runs: Runs, rule: str) -> None:
    chosen = set(runs.where(rule).names)
    expected = set()
    for row in runs.table.to_pylist():
        score = row["score"] if row["split"] == "iid" else None
        held = {
            "iid > 0.7": score is not None and score > 0.7,
            "iid>=.7": score is not None and score >= 0.7,
            "iid < 7e-1": score is not None and score < 0.7,
            "seed <= 1": row["seed"] <= 1,
            "steps > 150": row["learner.steps"] > 150,
        }
        if held[rule]:
            expected.add(row["run"])
    assert chosen == expected
    assert 0 < len(chosen) < len(runs)


class Digest(str):
    """A digest that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Digest.compared += 1
        return str.__eq__(self, str(other))

    __hash__ = str.__hash__


def test_many_digests_are_not_compared_one_by_one(runs: Runs) -> None:
    wanted = list(map(Digest, runs.names))
    assert runs.where({"run": wanted}).names == runs.names
    assert Digest.compared <= 2 * runs.table.num_rows
    assert runs.where({"run": runs.names[:2], "seed": [[0], 0, 1]}).names == runs.names[:2]


def test_the_best_seeds_of_each(runs: Runs) -> None:
    best = runs.best(2, "iid")
    assert len(best) == 8
    for recipe in RECIPES:
        for learner in LEARNERS:
            means = scores(recipe, learner, "iid").mean(axis=1)
            seeds = set(best.where(recipe=recipe, learner=learner).table["seed"].to_pylist())
            assert min(means[list(seeds)]) >= max(
                means[[s for s in range(SEEDS) if s not in seeds]]
            )


def test_intervals_of_shares_stay_between_0_and_1(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    for seed, right in enumerate((0, 1)):
        write(store, {"iid": [right] * 4 + [0]}, seed=seed, tasks=["a", "b"])
    for over in ("seeds", "tasks", "seeds+tasks", "items", "seeds+items"):
        [row] = Runs(store).accuracy(over=over)
        assert 0 <= row["low"] <= row["mean"] <= row["high"] <= 1


def test_predictions_are_read_some_rows_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    run = write(store, {"iid": [1, 0, 1, 1, 0]})
    bare = write(store, {"iid": [1, 0]}, seed=1, keep=False)
    runs = Runs(store)
    columns = ["index", "score"]
    batches = list(runs.answer_batches(run, columns, 2))
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert pa.Table.from_batches(batches) == runs.answers(run, columns)
    assert list(runs.answer_batches(bare, columns, 2)) == []


def test_batches_of_damaged_predictions_name_the_file(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    run = write(store, {"iid": [1, 0]})
    file = store.folder(run) / PREDICTIONS
    pq.write_table(pq.read_table(file).drop_columns(["task"]), file)
    with pytest.raises(StoreError, match=re.escape(str(file))):
        list(store.answer_batches(run, ["index", "task"], 10))


def test_a_damaged_run_hides_no_other(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    whole, broken = (write(store, {"iid": [1]}, seed=seed) for seed in (0, 1))
    assert store.readable() == (sorted([whole, broken]), {})
    (store.folder(broken) / SCORES).write_text("{")
    names, problems = store.readable()
    assert names == [whole]
    assert list(problems) == [broken]


def test_failed_runs_are_known_to_the_table_until_they_succeed(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    file = store.failure_file("ab" * 16)
    file.parent.mkdir(parents=True)
    file.write_text('{"reason": "out of memory", "cell": "bilstm on ctl/A"}')
    store.failure_file("cd" * 16).write_text("{")  # just being written
    assert Runs(store).failures() == {"ab" * 16: FailedRun("bilstm on ctl/A", "out of memory")}
    file.unlink()
    assert Runs(store).failures() == {}


def test_a_paper_chooses_columns_and_gets_mean_and_interval_in_one_cell(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    for seed in range(3):
        write(store, {"iid": [1, 0, 1, 1] * 25, "ood": [0, 1] * 50}, seed=seed)
    found = tl.runs(store.path).accuracy()
    latex = found.to_latex({"split": "Split", "score": "Accuracy"})
    assert r"Split & Accuracy \\" in latex
    assert re.search(r"iid & 0\.75 (\$\\pm\$|\[)", latex)
    assert latex.count("{") == latex.count("}")
    assert "score" in found.to_markdown(digits=1)
    assert found.to_csv(["split", "mean"]).splitlines()[0] == "split,mean"
    with pytest.raises(RunsError, match="split"):
        found.to_latex(["spilt"])
