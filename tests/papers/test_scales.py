"""`--scale paper` is what the papers state, and `--scale gpu` what the pages of results were run
with.
"""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

import pytest

from taskloom.analysis.published_numbers import paper as published
from taskloom.analysis.reproduction import current_scale, experiments_of
from taskloom.analysis.scales import scale_file, scale_statements
from taskloom.analysis.study import find_study
from taskloom.cli import run
from taskloom.core.errors import TaskloomError
from taskloom.experiments.spec.experiment import Experiment
from taskloom.learners.config import read as read_learner
from taskloom.papers.zest.experiments import OTHERS
from taskloom.recipe import read as read_recipe
from taskloom.recipe.yaml_files import parse
from taskloom.suites.taskbench.catalog import paper_atoms
from taskloom.suites.taskbench.fields import Family, TaskbenchFields
from taskloom.suites.taskbench.language import name as normal_name
from taskloom.suites.taskbench.language import parse as parse_function
from taskloom.suites.taskbench.language.parser import read_typed

CONDITIONS = parse((Path(__file__).parent / "paper_conditions.yaml").read_text(encoding="utf-8"))

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def arms_of(study: str, scale: str) -> Iterator[dict[str, Any]]:
    """Yield the settings of each learner of a study, once for each point of a search."""
    for experiment in experiments_of(find_study(study), scale):
        for block in experiment.learners:
            for changes in grid_points(experiment):
                assert isinstance(block, dict)
                learner: Any = read_learner({**block, **changes}, "learners:")
                settings = dataclasses.asdict(learner)
                yield {
                    **settings,
                    **settings.pop("training", {}),
                    "learner": block["learner"],
                    "recipes": [recipe_name(recipe) for recipe in experiment.recipes],
                    "seeds": len(experiment.seed_list),
                    "best_of": experiment.best_of.seeds,
                }


def grid_points(experiment: Experiment) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = [{}]
    for key, values in experiment.grid.items():
        if key.startswith("learner."):
            name = key.removeprefix("learner.")
            points = [{**point, name: value} for point in points for value in values]
    return points


def recipe_name(recipe: str | Mapping[str, Any]) -> str:
    if isinstance(recipe, str):
        return recipe
    return "mix" if "mix" in recipe else str(recipe["recipe"])


CASES = [(study, learner) for study, learners in CONDITIONS.items() for learner in learners]


@pytest.mark.parametrize(("study", "learner"), CASES)
def test_the_scale_paper_is_what_the_paper_states(study: str, learner: str) -> None:
    stated = dict(CONDITIONS[study][learner])
    expected = {**stated, **stated.pop("otherwise", {})}
    expected.pop("otherwise", None)
    arms = [arm for arm in arms_of(study, "paper") if arm["learner"] == learner]
    assert arms
    recipes = {recipe for arm in arms for recipe in arm["recipes"]}
    assert set(expected.pop("recipes")) <= recipes
    for name, value in expected.items():
        values = value if isinstance(value, list) else [value]
        assert {arm[name] for arm in arms} == set(values), name


@pytest.mark.parametrize(("study", "learner"), CASES)
def test_what_differs_from_the_text_is_stated(study: str, learner: str) -> None:
    text = " ".join(scale_statements(study, "paper"))
    for value in CONDITIONS[study][learner].get("otherwise", {}).values():
        assert f"{value}" in text


def test_the_multi_task_arm_mixes_five_datasets_at_equal_rates() -> None:
    [first, *_] = experiments_of(find_study("zest/table7"), "paper")
    [recipe] = first.recipes
    assert isinstance(recipe, dict)
    assert recipe["mix"][0] == "zest/synthetic"
    assert [Path(name).name for name in recipe["mix"][1:]] == list(OTHERS)
    assert recipe["rates"] == [1] * 5


def test_the_tables_of_zest_are_experiments_of_their_own() -> None:
    plans = {
        table: str([one.model_dump() for one in experiments_of(find_study(table), "paper")])
        for table in ("zest/table3", "zest/table7", "zest/table8", "zest/table9")
    }
    assert len(set(plans.values())) == len(plans)


def test_figure_4_of_taskbench500_takes_all_pairs_of_atoms() -> None:
    planned = experiments_of(find_study("taskbench500/figure4"), "paper")
    unions = [one.recipes[0] for one in planned if recipe_name(one.recipes[0]).endswith("balanced")]
    assert unions
    for recipe in unions:
        assert isinstance(recipe, dict)
        fields = read_recipe("taskbench/balanced", recipe["set"]).fields
        assert isinstance(fields, TaskbenchFields)
        tasks = set(fields.tasks())
        typed = {atom: read_typed(atom)[1] for atom in paper_atoms(get_args(Family))}
        relations = [atom for atom, kind in typed.items() if kind.form == "relation"]
        pairs = [
            f"union({', '.join(sorted(pair))})"
            for pair in combinations(relations, 2)
            if typed[pair[0]] == typed[pair[1]]
        ]
        assert {normal_name(parse_function(pair)) for pair in pairs} == tasks


STORED = {
    "ctlpp": ("ctlpp/table1",),
    "dyna-babi": ("dyna-babi/table3", "dyna-babi/table4"),
    "taskbench500": ("taskbench500/table1", "taskbench500/figure2", "taskbench500/figure4"),
    "zest": ("zest/table5",),
}
"""Studies whose runs on a GPU are stored, by paper."""


def stored_settings(paper: str, learners: Sequence[str]) -> Iterator[dict[str, Any]]:
    groups = json.loads((RESULTS / paper / "scores.json").read_text(encoding="utf-8"))["groups"]
    for group in groups:
        fields = group["fields"]
        own = {k.removeprefix("learner."): v for k, v in fields.items() if k.startswith("learner.")}
        # Models that continue others, random twins and other draws are of other studies.
        further = {"start_from", "pretrained"} & set(own) or "recipe.draw" in fields
        if group["learner"] in learners and not further:
            yield {"learner": group["learner"], **own}


@pytest.mark.parametrize("paper", STORED)
def test_the_scale_gpu_has_the_settings_of_the_stored_runs(paper: str) -> None:
    arms = [arm for study in STORED[paper] for arm in arms_of(study, "gpu")]
    learners = {arm["learner"] for arm in arms} - {"majority"}
    stored = list(stored_settings(paper, sorted(learners)))
    assert {one["learner"] for one in stored} == learners
    for settings in stored:
        settings.pop("preset", None)
        assert any(settings.items() <= arm.items() for arm in arms), settings


def test_full_is_an_earlier_name_of_paper(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(DeprecationWarning, match="'paper'"):
        assert current_scale("full") == "paper"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dry = ["reproduce", "ctlpp/table1", "--model", "bilstm", "--dry-run", "--store", "nowhere"]
        assert run([*dry, "--scale", "full"]) == 0
    said = capsys.readouterr()
    assert "'paper'" in said.err
    assert "GPU hours" in said.out
    with pytest.raises(TaskloomError, match="huge"):
        current_scale("huge")


def test_a_dry_run_names_the_data_that_are_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TASKLOOM_DATA", str(tmp_path))
    assert run(["reproduce", "zest/table7", "--scale", "paper", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "multitask/boolq" in out
    assert "BoolQ, MultiRC, ReCoRD and SQuAD" in out
    assert "model t5-11b" in out
    assert "rate 0.0005, 0.001, 0.002 or 0.004" in out
    assert "GPU hours for 4 runs" in out


def test_entnet_halves_its_rate_every_25_of_200_epochs() -> None:
    for experiment in experiments_of(find_study("dyna-babi/table3"), "paper", "entnet"):
        [recipe], [block] = experiment.recipes, experiment.learners
        learner: Any = read_learner(block, "learners:")
        fields: Any = read_recipe(recipe_name(recipe)).fields
        steps_of_an_epoch = fields.splits["train"].n / learner.training.batch
        epochs = learner.training.halve_every / steps_of_an_epoch
        assert epochs == pytest.approx(25, abs=0.01)


def test_hours_below_one_are_not_printed_as_none(capsys: pytest.CaptureFixture[str]) -> None:
    dry = ["reproduce", "dyna-babi/figure3", "--scale", "paper", "--dry-run", "--store", "nowhere"]
    assert run(dry) == 0
    assert "about 0 GPU hours" not in capsys.readouterr().out


def test_the_preset_of_entnet_does_not_shrink_its_rate_to_nothing() -> None:
    learner: Any = read_learner({"learner": "entnet", "preset": "dyna-babi"}, "learners:")
    assert learner.training.rate_at(400_000) == pytest.approx(0.01)


def dry_run(study: str, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    asked = ["reproduce", study, "--scale", "paper", "--dry-run", "--store", "nowhere", *options]
    assert run(asked) == 0
    return capsys.readouterr().out


def test_a_dry_run_states_only_what_concerns_its_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert "EntNet" not in dry_run("dyna-babi/figure3", capsys)
    assert "EntNet" in dry_run("dyna-babi/figure3", capsys, "--model", "entnet")


def test_a_dry_run_has_all_settings_and_the_sizes_of_the_data(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = dry_run("ctlpp/figure3", capsys)
    assert "begin reference" in plain
    assert "epsilon 1e-08" in plain
    assert "ctl/R: train 304,096, iid 1,000, ood 1,000" in plain
    assert "device" not in plain.partition("settings")[2].partition("data")[0]
    parts = json.loads(dry_run("ctlpp/figure3", capsys, "--json"))
    for part in ("settings", "data", "stated", "GPU hours"):
        assert all(line in plain for line in parts[part])
        assert parts[part]


def test_dev_is_listed_where_something_is_chosen_by_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # T5 is trained for 12 epochs. BiDAF stops by dev.
    assert "babi/diverse-T12: train 24,772\n" in dry_run("dyna-babi/figure3", capsys)
    data = dry_run("dyna-babi/table3", capsys, "--model", "bidaf").partition("\ndata\n")[2]
    assert "babi/concat-T7: train 63,000, dev 7,000, test 7,000" in data


def test_the_values_of_a_search_are_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    out = dry_run("zest/table9", capsys)
    [line] = [line for line in out.splitlines() if line.startswith("- fine-tune on ")]
    assert "rate 3e-05 or 5e-05" in line
    assert "epochs 3, 5, 10, 15 or 20" in line


@pytest.mark.parametrize("paper", ["ctlpp", "dyna-babi", "taskbench500", "zest"])
def test_statements_for_a_learner_model_or_recipe_name_one_that_is_planned(paper: str) -> None:
    file = scale_file(paper)
    statements = [
        one for part in ("gpu", "paper") for lists in file[part].values() for one in lists
    ]
    named = {name for one in statements if isinstance(one, dict) for name in one["for"]}
    # Other sizes of a model are planned with --model.
    planned = {str(rule.get("model")) for rule in file["hours"]}
    for place in published(paper).places:
        if not find_study(place.study).from_recipes:
            for arm in arms_of(place.study, "paper"):
                planned |= {arm["learner"], str(arm.get("model")), *arm["recipes"]}
    assert named <= planned
