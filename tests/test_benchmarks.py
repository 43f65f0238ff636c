"""Benchmarks that write what the package reads keep step with it; here with sizes that take no
time.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from taskloom.core.errors import DataError
from taskloom.experiments.spec import experiment as spec
from taskloom.learners.config import read as read_learner
from taskloom.recipe import read as read_recipe

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def benchmark(name: str) -> Any:
    """Import a benchmark."""
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for the names of their types
    spec.loader.exec_module(module)
    return module


def test_a_store_of_made_up_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = benchmark("runs_frame")
    for name, size in {"RECIPES": 2, "LEARNERS": 3, "SEEDS": 2, "ITEMS": 5}.items():
        monkeypatch.setattr(made, name, size)
    made.main()
    assert capsys.readouterr().out.count("CPU-s") == 9


def test_detection_names_data_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = benchmark("detection")

    def refuse(name: str, changes: object) -> None:
        raise DataError("the corpus was not found")

    monkeypatch.setattr(made.tl, "make", refuse)
    *_, line, together = made.clean_table(["taskbench/permuted"])
    assert "the corpus was not found" in line
    assert "| 0 | 0 |" in together


def stored_curves(path: Path, firsts: dict[str, int], end: int, before: float = 2.0) -> Path:
    """Store curves of seeds that learn all at once, at the steps given, from a loss before to one
    less.
    """
    curves = {
        seed: [
            [step, split, float(step >= first), before - float(step >= first)]
            for step in range(10, end + 1, 10)
            for split in ("train", "iid")
        ]
        for seed, first in firsts.items()
    }
    path.write_text(json.dumps({"curves": curves}))
    return path


def test_when_seeds_learn_in_three_precisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seed 0 learns at 20 in all; seed 1 at 30 exactly, at 20 in tf32 and, in bf16, only after the
    exact run has ended.
    """
    exact = stored_curves(tmp_path / "exact", {"0": 20, "1": 30}, 30)
    near = stored_curves(tmp_path / "near", {"0": 20, "1": 20}, 50)
    rough = stored_curves(tmp_path / "rough", {"0": 20, "1": 40}, 40)
    more = stored_curves(tmp_path / "more", {"2": 10}, 40)
    groups = [f"fp32={exact}", f"tf32={near}", f"bf16={rough},{more}"]
    monkeypatch.setattr(
        "sys.argv", ["learning_curves.py", *groups, "--figure", str(tmp_path / "losses.svg")]
    )
    curves = benchmark("learning_curves")
    curves.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("to step 30")
    losses = (
        "fp32 0: 1.0000, 1: 2.0000; tf32 0: 1.0000, 1: 1.0000; bf16 0: 1.0000, 1: 2.0000, all 3"
        " 1.0000 to 2.0000"
    )
    assert f"loss at 20: {losses}" in lines
    first, second, third = (
        lines.index(f"{pair}") for pair in ("fp32 and tf32", "fp32 and bf16", "tf32 and bf16")
    )
    assert lines[first + 1 : first + 5] == [
        "  loss, seed 0: +0.0000 in the mean, at most +0.0000, at 10",
        "  loss, seed 1: -0.3333 in the mean, at most -1.0000, at 20",
        "  loss: tf32 within the spread of fp32's seeds at 3 of 3 points",
        "  loss: fp32 within the spread of tf32's seeds at 2 of 3 points",
    ]
    assert "  iid 0.5, seed 1: 30 and 20" in lines[first:second]
    assert "  iid 0.5, seed 1: 30 and —" in lines[second:third]
    assert "  iid 0.5, seed 2: not trained and 10" in lines[second:third]
    # Two of five seeds can be chosen in ten ways, of which 10 and never alone has a mean rank
    # nearer to the middle than 20 and 30.
    where = "the second outside the spread of the first, the first within that of the second"
    assert lines[third - 1] == f"  iid 0.99: {where}; chance 0.90"
    svg = (tmp_path / "losses.svg").read_text()
    labels = (
        "fp32, seeds 0 and 1",
        "bf16, other seeds",
        "tf32, seed 1",
        "distance from fp32, same seed",
    )
    assert all(f">{label}</text>" in svg for label in labels)


def test_chances_and_spreads_of_learning_curves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    curves = benchmark("learning_curves")
    (tmp_path / "early").write_text(json.dumps({"curves": {"0": [[10, "iid", 0.2, 2.0]]}}))
    monkeypatch.setattr(
        "sys.argv", ["learning_curves.py", *(f"{name}={tmp_path / 'early'}" for name in "ab")]
    )
    curves.main()
    assert "iid 0.5: no seed reaches it by then, so nothing can be told" in capsys.readouterr().out
    assert not curves.within_spread([float("inf")], [10, 20])
    assert not curves.within_spread([5], [10, float("inf")])
    assert curves.chance([1.0, 2.0], [3.0, 4.0]) == pytest.approx(2 / 6)
    assert curves.chance([1.0, 2.0], [1.0, 2.0]) == 1.0
    monkeypatch.setattr("sys.argv", ["learning_curves.py", "fp32"])
    with pytest.raises(SystemExit):
        curves.main()
    assert "'fp32' is not NAME=FILE" in capsys.readouterr().err


def test_products_of_numbers_rounded_to_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    rounding = benchmark("rounding")
    bit = 2.0**-10  # the last of tf32 beside 1
    numbers = torch.tensor([1 + bit, 1 + bit / 2, 1 + 1.5 * bit, -1 - 0.75 * bit, 0.0])
    assert rounding.rounded(numbers).tolist() == [1 + bit, 1.0, 1 + 2 * bit, -1 - bit, 0.0]
    factor = torch.tensor([[1 + 0.75 * bit]], requires_grad=True)
    other, addend = torch.tensor([[1 + 0.25 * bit]]), torch.tensor([0.25 * bit])
    with rounding.RoundedProducts():
        total = torch.addmm(addend, factor, other)
        total.backward()
    assert total.item() == 1 + 1.25 * bit
    assert factor.grad.item() == 1.0


def test_the_same_seeds_are_trained_in_several_precisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    random = np.random.default_rng(0)
    train = {
        "tokens": random.integers(0, 6, (64, 3)),
        "lengths": np.full(64, 3),
        "labels": random.integers(0, 2, 64),
    }
    arrays: Any = {f"train.{part}": values for part, values in train.items()}
    np.savez(tmp_path / "small.npz", words=list("abcdef"), classes=list("xy"), **arrays)
    monkeypatch.setattr(
        "sys.argv", ["rounding.py", str(tmp_path / "small.npz"), "--train", "3", "--seeds", "2"]
    )
    benchmark("rounding").main()
    first, second, *compared = capsys.readouterr().out.splitlines()
    losses = [
        dict(part.rsplit(" ", 1) for part in line.split(": ")[1].split(", "))
        for line in (first, second)
    ]
    assert losses[0]["fp32"] != losses[1]["fp32"]
    for seed in losses:
        assert [*seed] == ["fp32", "last bit", "tf32", "bf16"]
        assert float(seed["last bit"]) == pytest.approx(float(seed["fp32"]), abs=2e-5)
        assert float(seed["bf16"]) == pytest.approx(float(seed["fp32"]), abs=0.01)
    assert [line.split(" - ")[0] for line in compared] == ["last bit", "tf32", "bf16"]
    assert all(line.endswith("of 2 above") for line in compared)


def test_what_make_bench_runs_needs_no_arguments() -> None:
    run = benchmark("run")
    for script in sorted(BENCHMARKS.glob("*.py")):
        if script.name in run.SKIPPED or script.stem.endswith("_gpu"):
            continue
        for call in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr == "add_argument"
            ):
                name = ast.literal_eval(call.args[0])
                given = {keyword.arg for keyword in call.keywords}
                assert "required" not in given, (script.name, name)
                assert name.startswith("-") or "nargs" in given, (script.name, name)


def test_a_queue_starts_the_first_jobs_that_fit_beside_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = benchmark("gpu_queue")
    sizes = {
        "first": (1, 60),
        "too large": (1, 60),
        "beside": (1, 30),
        "light": (0.5, 10),
        "cpu": (0, 0),
        "late": (1, 0),
    }
    jobs = [
        queues.Job(name, "true", places=places, memory=memory)
        for name, (places, memory) in sizes.items()
    ]
    jobs[-1].seconds = 1_000
    queue = queues.Queue(jobs, tmp_path, 500, queues.Room(2.5, 100), 20)
    monkeypatch.setattr(queues.Queue, "begin", lambda self, job: setattr(job, "state", "running"))
    queue.launch()
    assert [job.name for job in jobs if job.state == "running"] == [
        "first",
        "beside",
        "light",
        "cpu",
    ]
    jobs[0].state = "done"
    queue.launch()
    assert jobs[1].state == "running"
    assert jobs[-1].state == "waiting"  # not worth it in the time that is left


@pytest.mark.parametrize("name", ["alone", "blocks", "further", "passes"])
def test_the_blocks_of_dyna_babi_are_experiments(name: str) -> None:
    """A dose's learner is read with the folder of the model that it continues, as the run does
    after training.
    """
    for lane, blocks in yaml.safe_load((BENCHMARKS / "dyna_babi" / f"{name}.yaml").read_text())[
        "lanes"
    ].items():
        for block in blocks:
            if "doses" in block:
                read_learner({**block["learner"], "start_from": "model"}, lane)
            else:
                for learner in spec.check(block, lane).learners:
                    read_learner(learner, lane)


def test_baselines_of_zest_are_of_the_tasks_that_the_recipe_makes() -> None:
    """Numbers of another draw of tasks stand beside those of models on these, and say nothing about
    them.
    """
    recipe = read_recipe(
        "zest/synthetic", ["tasks.train=20", "tasks.dev=40", "tasks.test=20", "passages=2"]
    )
    planned = recipe.plan(0).split("dev")
    asked = list(dict.fromkeys(example.question for example in planned.rows(0, planned.n)))
    tasks = benchmark("zest_baselines").tasks_of(recipe, recipe.fields, 0)["dev"]
    assert [task.question for task in tasks] == asked


def test_the_tables_of_detection(monkeypatch: pytest.MonkeyPatch) -> None:
    made = benchmark("detection")
    for name, kept in {
        "SUITES": ("ctl",),
        "ALTERATIONS": ("a trait", "two neighbours swapped"),
        "DISGUISES": ("soft hyphens", "verb replaced by a synonym"),
    }.items():
        monkeypatch.setattr(made, name, {kind: getattr(made, name)[kind] for kind in kept})
    assert list(made.verify_table(10))[2:] == [
        "| a trait | 10/10 |",
        "| two neighbours swapped | 20/20 |",
        "| a row of training put into the test | 10/10 |",
        "| nothing: false alarms | 0 of 2,200 |",
    ]
    assert list(made.audit_table(20, 60))[2:] == [
        "| soft hyphens | 20/20 | invisible characters |",
        "| verb replaced by a synonym | 20/20 | one other word |",
        "| no planted row | 0 false alarms in 60 | - |",
    ]
    assert list(made.clean_table(["ctl/length"]))[-1] == "| together | 5,000 | 0 | | |"
