"""`make demo` is an example experiment, run and reported by the ordinary commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from taskloom.cli.app import run as cli
from taskloom.experiments.spec import cells
from taskloom.experiments.spec import experiment as spec
from taskloom.recipe import read
from tests.analysis.report.test_run_report import sections
from tests.experiments.sweeps import fill

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "examples" / "demo.yaml"


def small() -> dict[str, Any]:
    """The demo's experiment with fewer steps and seeds, and little data."""
    experiment: dict[str, Any] = yaml.safe_load(DEMO.read_text(encoding="utf-8"))
    for recipe in experiment["recipes"]:
        recipe["set"]["splits"] = {"train": {"n": 400}, "iid": {"n": 30}, "ood": {"n": 30}}
    experiment["learners"][0] |= {"steps": 4, "evaluate_every": 2, "state": 8}
    return {**experiment, "seeds": 2}


def test_the_demo_ends_with_a_page_of_curves_scores_and_audits(tmp_path: Path) -> None:
    store, page = tmp_path / "runs", tmp_path / "report.html"
    assert not fill(small(), store).state.failed
    assert (
        cli(["make", "babi/mix-T2", "-o", str(tmp_path / "stories"), "--set", "splits.mix.n=20"])
        == 0
    )
    command = [
        "report",
        str(store),
        "--data",
        str(store / "data"),
        "--data",
        str(tmp_path / "stories"),
    ]
    assert cli([*command, "--figures", str(tmp_path / "figures"), "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    found = sections(text)
    assert [row[0] for row in found["Datasets"]] == ["recipe", "babi/mix-T2", "ctl/A", "ctl/S"]
    assert [row[:2] for row in found["Audit"][1:]] == [
        ["babi/mix-T2", "0"],
        ["ctl/A", "0"],
        ["ctl/S", "0"],
    ]
    assert [row[:3] for row in found["Scores"][1::2]] == [
        ["ctl/A", "bilstm", "iid"],
        ["ctl/S", "bilstm", "iid"],
    ]
    curves = (tmp_path / "figures" / "learning-curves.svg").read_text(encoding="utf-8")
    assert "<figcaption>ctl/A, bilstm</figcaption>" in text
    assert all(f">{title}<" in curves for title in ("ctl/A, bilstm", "ctl/S, bilstm", "iid", "ood"))


def test_the_experiment_is_two_worlds_and_three_seeds() -> None:
    table = cells.expand(spec.read(DEMO))
    assert [(cell.data.name, cell.learner_name, cell.seed) for cell in table] == [
        (recipe, "bilstm", seed) for recipe in ("ctl/A", "ctl/S") for seed in range(3)
    ]


def test_the_target_uses_nothing_but_commands() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    target = makefile.partition("\ndemo: ")[2].partition("\n\n")[0]
    programs = [word for word in target.split() if word.startswith("$(BIN)")]
    assert set(programs) == {"$(BIN)/taskloom"}
    assert [f" {verb} " in target for verb in ("make", "audit", "run", "report")] == [True] * 4
    recipes = makefile.partition("\nDEMO_RECIPES := ")[2].partition("\n")[0].split()
    assert {read(name).suite.name for name in recipes} == {
        "babi",
        "taskbench",
        "zest",
    }  # ctl is what is trained on
