"""Experiments as people write them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from taskloom.core.errors import TaskloomError
from taskloom.core.plan import Plan
from taskloom.experiments import api
from taskloom.experiments.spec.cells import Cell, expand
from taskloom.experiments.spec.experiment import check, read
from taskloom.learners.baselines import Majority
from taskloom.learners.config import later_setting
from taskloom.recipe import Recipe
from tests.experiments.sweeps import SMALL, baselines, recipe


def cells(**changes: Any) -> list[Cell]:
    return expand(check({**baselines(), **changes}, "test"))


def test_the_cells_are_the_product_in_order() -> None:
    found = [(c.data.name, c.learner_name, c.seed) for c in cells()]
    assert found == [
        (r, x, s)
        for r in ("ctl/A", "ctl/R")
        for x in ("majority", "nearest-neighbour")
        for s in (0, 1)
    ]


def test_experiments_planned_together_plan_each_recipe_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned: list[str] = []
    plan = Recipe.plan

    def counted(self: Recipe, seed: int | None = None) -> Plan:
        planned.append(self.name)
        return plan(self, seed)

    monkeypatch.setattr(Recipe, "plan", counted)
    experiment = check(baselines(), "test")
    api.dry_run([experiment, experiment.model_copy(update={"seeds": 3})])
    assert sorted(planned) == ["ctl/A", "ctl/R"]


def test_a_grid_applies_to_the_learners_that_have_the_setting() -> None:
    learners = ["majority", {"learner": "bag-of-words", "most": 5}]
    found = cells(
        recipes=[recipe()], learners=learners, seeds=1, grid={"learner.strength": [0.5, 2.0]}
    )
    assert [(c.learner_name, c.fields.get("learner.strength")) for c in found] == [
        ("majority", None),
        ("bag-of-words", 0.5),
        ("bag-of-words", 2.0),
    ]
    assert all(c.fields["learner.most"] == 5 for c in found[1:])


def test_a_grid_over_recipe_fields_and_one_within_a_block() -> None:
    found = cells(
        recipes=[recipe()], learners=["majority"], seeds=[7], grid={"recipe.max_length": [4, 5]}
    )
    assert [c.fields["recipe.max_length"] for c in found] == [4, 5]
    assert len({c.run for c in found}) == 2
    block = {"learner": "bag-of-words", "grid": {"most": [10, 20, 30]}}
    assert len(cells(recipes=[recipe()], learners=[block], seeds=1)) == 3
    own = {**recipe(), "grid": {"splits.train.n": [100, 200]}}
    assert len(cells(recipes=[own], learners=["majority"], seeds=1)) == 2


def test_two_spellings_of_one_cell_are_one() -> None:
    spelled = [
        {"learner": "bag-of-words"},
        {"learner": "bag-of-words", "strength": 1.0},
        "bag-of-words",
    ]
    assert len(cells(recipes=[recipe()], learners=spelled, seeds=1)) == 1


def test_a_whole_recipe_may_stand_in_the_experiment() -> None:
    published = {"draw": "published", "include_singles": False, "include_pairs": "added"}
    mine = {"suite": "ctl", "name": "mine", "variant": "A", **published, **SMALL}
    [cell] = cells(recipes=[mine], learners=["majority"], seeds=1)
    assert cell.data.name == "mine"
    assert cell.run == cells(recipes=[recipe()], learners=["majority"], seeds=1)[0].run


def test_the_configuration_of_a_cell_is_its_experiment() -> None:
    for cell in cells(grid={"recipe.max_length": [4, 5]}, keep={"model": True}, evaluate=["ood"]):
        [again] = expand(check(cell.config(), "config"))
        assert again.run == cell.run
        assert again.fields == cell.fields
        assert again.config() == cell.config()


@pytest.mark.parametrize(
    "change",
    [
        {"seeds": [1]},
        {"evaluate": ["ood"]},
        {"keep": {"model": True}},
        {"keep": {"logprobs": "targets"}},
        {"learners": [{"learner": "bag-of-words", "strength": 2.0}]},
        {"recipes": [{**recipe(), "seed": 1}]},
        {"recipes": [{"recipe": "ctl/A", "set": {**SMALL, "max_length": 5}}]},
    ],
)
def test_the_digest_covers_what_determines_a_run(change: dict[str, Any]) -> None:
    base: dict[str, Any] = {"recipes": [recipe()], "learners": ["bag-of-words"], "seeds": [0]}
    assert cells(**base)[0].run != cells(**{**base, **change})[0].run


def test_changes_of_a_recipe_may_be_fields_or_text() -> None:
    fields = cells(recipes=[{"recipe": "ctl/A", "set": {"splits.train.n": 500, "max_length": 4}}])
    text = cells(recipes=[{"recipe": "ctl/A", "set": ["splits.train.n=500", "max_length=4"]}])
    assert [c.run for c in fields] == [c.run for c in text]
    assert fields[0].data.fields == text[0].data.fields == {"splits.train.n": 500, "max_length": 4}


def test_the_digest_does_not_cover_resources_or_the_store() -> None:
    assert [c.run for c in cells()] == [
        c.run for c in cells(resources={"cpus": 2, "stack": 1}, store="elsewhere")
    ]


def test_versions_of_the_code_that_matters_are_in_the_digest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import dataclasses

    from taskloom.experiments.spec import cells as module
    from taskloom.learners.config import LEARNERS

    before = cells()[0].run
    newer = dataclasses.replace(
        LEARNERS.get("majority"), version=LEARNERS.get("majority").version + 1
    )
    monkeypatch.setitem(LEARNERS._things, "majority", newer)
    changed = cells()[0].run
    assert changed != before
    monkeypatch.setattr(module, "VERSION", 99)
    assert cells()[0].run not in (before, changed)


@dataclass(frozen=True)
class Loop:
    """What a learner's training might be."""

    steps: int = 3
    warmth: float = later_setting(0.0)


@dataclass(frozen=True)
class Grown(Majority):
    """A baseline that got settings later."""

    strength: int = later_setting(1)
    training: Loop = Loop()


@dataclass(frozen=True)
class OldLoop:
    """The same before."""

    steps: int = 3


@dataclass(frozen=True)
class Old(Majority):
    """The same before."""

    training: OldLoop = OldLoop()


def test_a_setting_that_came_later_leaves_the_runs_of_before_in_place() -> None:
    (cell,) = expand(check({"recipes": [recipe()], "learners": ["majority"], "seeds": 1}, "test"))

    def run(learner: Any) -> str:
        return dataclasses.replace(cell, learner=learner).run

    assert run(Grown()) == run(Old())
    changed = [Grown(strength=2), Grown(training=Loop(4)), Grown(training=Loop(warmth=0.5))]
    assert len({run(Old()), *map(run, changed)}) == 4


def test_a_model_and_a_method_name_a_learner() -> None:
    [cell] = cells(recipes=[recipe()], learners=["smollm2/fine-tune"], seeds=1)
    assert (cell.learner_name, cell.settings["model"]) == ("fine-tune", "smollm2")


def test_a_recipe_that_is_tested_by_another_is_evaluated_on_it() -> None:
    [cell] = cells(recipes=["babi/diverse-T7"], learners=["majority"], seeds=1)
    assert [(test.name, test.data.name) for test in cell.tests] == [
        ("dev", "babi/diverse-T7"),
        ("mix", "babi/mix-T7"),
        ("test", "babi/diverse-T7"),
    ]
    [again] = expand(check(cell.config(), "config"))
    assert again.run == cell.run


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"recipies": []}, "unknown key 'recipies'; did you mean 'recipes'?"),
        ({"recipes": []}, "recipes: name at least one"),
        ({"learners": []}, "learners: name at least one"),
        ({"seeds": [-1]}, "a seed is a whole number from 0 to 4294967295, not -1"),
        ({"seeds": [2**70]}, "a seed is a whole number from 0"),
        ({"seeds": [True]}, "a seed is a whole number from 0"),
        ({"seeds": [1.5]}, "a seed is a whole number from 0"),
        ({"seeds": "many"}, "seeds: say how many or which, e.g. 3 or [0, 1, 2], not 'many'"),
        ({"seeds": 2**33}, "seeds: at most 4294967296"),
        ({"resources": {"gpus": float("nan")}}, "resources.gpus: must be a number from 0"),
        ({"grid": {"learner.learner": ["majority"]}}, "no learner here has the setting 'learner'"),
        ({"recipes": ["ctl/AA"]}, "no recipe is called 'ctl/AA'; did you mean 'ctl/A'"),
        (
            {"recipes": [{"extends": "babi/2", "splits": {}}]},
            "names no recipe; write {recipe: babi/2, set: {…}}",
        ),
        (
            {"recipes": [{"recipe": "ctl/A", "max_length": 3}]},
            "stand under 'changes', e.g. changes: {max_length: …}",
        ),
        ({"recipes": [{"recipe": "ctl/A", "set": {"max_lenght": 3}}]}, "did you mean 'max_length'"),
        ({"learners": ["majorty"]}, "no learner is called 'majorty'; did you mean 'majority'?"),
        (
            {"learners": [{"learner": "bilstm", "stat": 3}]},
            "no setting 'stat'; did you mean 'state'",
        ),
        ({"learners": [{"state": 3}]}, "a block says which learner"),
        ({"seeds": 0}, "seeds: say how many (at least 1) or which"),
        ({"seeds": [1, 1]}, "name different seeds"),
        ({"seeds": True}, "say how many"),
        ({"train": "trian"}, "no split 'trian' to learn from; did you mean 'train'?"),
        ({"evaluate": ["odd"]}, "ctl/A has no split 'odd'; did you mean 'ood'?"),
        (
            {"grid": {"state": [1]}},
            "'state' must say whose field it is: recipe.state or learner.state",
        ),
        ({"grid": {"learner.stat": [1]}}, "no learner here has the setting 'stat'"),
        ({"grid": {"recipe.max_length": []}}, "has no values to try"),
        (
            {"keep": {"logprobs": "answers", "predictions": False}},
            "logprobs are kept in the predictions",
        ),
        ({"keep": {"modle": True}}, "unknown key 'keep.modle'; did you mean 'model'?"),
        ({"resources": {"cpus": 0}}, "resources.cpus: should be greater than or equal to 1"),
    ],
)
def test_faults_are_one_sentence(change: dict[str, Any], said: str) -> None:
    with pytest.raises(TaskloomError) as caught:
        cells(**change)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value).split("\n  ")[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("recipes: [", "is not YAML"),
        ("- a\n- b\n", "is not a mapping"),
        ("", "is empty"),
        ("[" * 600, "nested too deeply"),
        (
            "recipes: [a]\nlearners: [b]\nrecipes: [c]\n",
            r"e.yaml:3 gives 'recipes' twice, first in line 1; keep one",
        ),
    ],
)
def test_files_that_are_no_experiment(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(text)
    with pytest.raises(TaskloomError, match=said):
        read(path)
    with pytest.raises(TaskloomError, match="there is no experiment file"):
        read(tmp_path / "none.yaml")


def test_recipe_files_are_found_beside_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("extends: ctl/A\nmax_length: 8\n")
    (tmp_path / "e.yaml").write_text("recipes: [mine.yaml]\nlearners: [majority]\n")
    [cell] = expand(read(tmp_path / "e.yaml"))
    assert cell.data.name == "mine"


def test_the_experiments_that_come_with_taskloom_are_sound() -> None:
    found = expand(read("ctlpp-small"))
    assert len(found) == 2 * 4 * 3
    with pytest.raises(TaskloomError, match="did you mean 'ctlpp-small'"):
        read("ctlp-small")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"grid": {"recipe.table_seed": list(range(20_000))}},
            "recipes: 20,000 recipes, their grids counted, are more than 2,000",
        ),
        (
            {
                "recipes": [
                    {
                        "recipe": "ctl/A",
                        "grid": {"table_seed": list(range(99)), "symbols": list(range(99))},
                    }
                ]
            },
            "9,801 recipes",
        ),
        (
            {"seeds": 10**9},
            "1 recipes x 1 learners x 1,000,000,000 seeds are more than 200,000 runs",
        ),
        ({"seeds": range(10**9)}, "seeds: 1,000,000,000 seeds are more than 200,000 runs"),
        (
            {"recipes": ["taskbench/english"], "tasks": "each", "seeds": 150_000},
            "taskbench/english: .* tasks x 1 learners x 150,000 seeds are more than 200,000 runs",
        ),
        ({"seeds": 300_000}, "1 recipes x 1 learners x 300,000 seeds are more than 200,000 runs"),
    ],
)
def test_a_grid_of_more_than_can_be_listed_is_refused_at_once(
    given: dict[str, Any], says: str
) -> None:
    with pytest.raises(TaskloomError, match=says):
        expand(check({"recipes": ["ctl/A"], "learners": ["majority"], **given}, "here"))
