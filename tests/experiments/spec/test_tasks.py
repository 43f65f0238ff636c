"""Recipes of several tasks in experiments: a model for each, one that is given the task, and the
mixture only by name.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taskloom.analysis.report.run_report import report
from taskloom.experiments import api
from taskloom.experiments.execute.jobs import jobs
from taskloom.experiments.record import TASK_FIELD, RunsError
from taskloom.experiments.rescore import rescore
from taskloom.experiments.spec.cell_data import read_recipes
from taskloom.experiments.spec.cells import expand
from taskloom.experiments.spec.experiment import ExperimentError, Resources, check
from taskloom.experiments.store import Store
from taskloom.experiments.table import Runs
from tests.experiments.sweeps import fill, recipe

FUNCTIONS = ["antonyms[eng]", "synonyms[eng]", "chain(antonyms[eng], synonyms[eng])"]
NAMES = [f"taskbench/{name}" for name in FUNCTIONS]


def functions(**more: Any) -> dict[str, Any]:
    block = {"recipe": "taskbench/english", "set": {"functions": FUNCTIONS}}
    return {"recipes": [block], "learners": ["majority"], "evaluate": ["test"], **more}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("tasks") / "runs"
    for choice in ("each", "together", "mixed"):
        assert not fill(functions(tasks=choice), path).state.failed
    return Store(path)


def test_a_mixture_that_no_input_tells_apart_is_refused_unless_asked_for() -> None:
    with pytest.raises(
        ExperimentError,
        match=r"taskbench/english has 3 tasks.*tasks: each.*tasks: together.*tasks: mixed",
    ):
        expand(check(functions(), "test"))
    [cell] = expand(check(functions(tasks="mixed"), "test"))
    assert cell.config()["tasks"] == "mixed"
    assert expand(check(cell.config(), "test"))[0].run == cell.run


def test_digests_of_recipes_of_one_task_do_not_depend_on_the_choice() -> None:
    [plain] = expand(check({"recipes": [recipe()], "learners": ["majority"]}, "test"))
    for choice in ("together", "mixed"):
        [cell] = expand(
            check({"recipes": [recipe()], "learners": ["majority"], "tasks": choice}, "test")
        )
        assert cell.run == plain.run
        assert cell.config() == plain.config()
    one = {"recipes": ["taskbench/antonyms[eng]"], "learners": ["majority"]}
    assert [c.run for c in expand(check({**one, "tasks": "each"}, "test"))] == [
        c.run for c in expand(check(one, "test"))
    ]


def test_together_is_the_recipe_with_descriptions() -> None:
    [cell] = expand(check(functions(tasks="together"), "test"))
    described = functions()
    described["recipes"][0]["set"]["described"] = True
    [same] = expand(check(described, "test"))
    assert cell.run == same.run
    assert cell.config() == same.config()


def test_each_gives_a_run_for_every_task_from_one_dataset(store: Store) -> None:
    cells = expand(check(functions(tasks="each"), "test"))
    assert [cell.task for cell in cells] == NAMES
    assert len({cell.run for cell in cells}) == 3
    assert len({cell.data.key for cell in cells}) == 1
    for cell in cells:
        assert expand(check(cell.config(), "test"))[0].run == cell.run
        rows = store.predictions([cell.run])
        assert set(rows["task"].to_pylist()) == {cell.task}
        assert len(set(rows["prediction"].to_pylist())) == 1  # the majority of its own task
    table = Runs(store).where({TASK_FIELD: NAMES}).table
    assert sorted(table[TASK_FIELD].to_pylist()) == sorted(NAMES)
    [mixed] = expand(check(functions(tasks="mixed"), "test"))
    assert sum(table["n"].to_pylist()) == store.scores(mixed.run)["splits"]["test"]["n"]


def test_scores_over_tasks_and_by_family_and_composition(store: Store) -> None:
    runs = Runs(store).where({TASK_FIELD: NAMES})
    rows = {row["task"]: row for row in runs.accuracy(by="task")}
    assert set(rows) == set(NAMES)
    [whole] = runs.accuracy(over="tasks")
    assert whole["mean"] == pytest.approx(sum(row["mean"] for row in rows.values()) / 3)
    assert whole["n"] == 3
    by = {row["composition"]: row for row in runs.accuracy(by="composition", over="tasks")}
    assert len(by) == 2  # atomic functions, and one chain
    assert sorted(row["n"] for row in by.values()) == [1, 2]


def test_learners_are_compared_over_tasks(tmp_path: Path) -> None:
    """Three tasks, where one learner knows all answers and the other the most frequent one: paired
    over tasks, one seed and two.
    """
    folder = tmp_path / "mine"
    folder.mkdir()
    for split in ("train", "test"):
        answers = {"a": "xxxa", "b": "xxxb", "c": "xxxx"}
        rows = [
            {
                "input": f"{task} {i}",
                "target": answer,
                "task": task,
                "kind": "one" if task == "c" else "two",
            }
            for task, each in answers.items()
            for i, answer in enumerate(each)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for seeds, test in ((1, "sign flips over tasks"), (2, "t over seeds × tasks")):
        plain = {"recipes": [str(folder)], "tasks": "each", "seeds": seeds}
        outcome = fill({**plain, "learners": ["majority", "nearest-neighbour"]}, tmp_path / "runs")
        assert not outcome.state.failed
        runs = Runs(outcome.store)
        [row] = runs.compare("majority", "nearest-neighbour", over="tasks")
        assert (row["test"], row["items"], row["a"], row["b"]) == (
            test,
            3,
            pytest.approx(2.5 / 3),
            1.0,
        )
        assert (
            len(runs.compare("majority", "nearest-neighbour")) == 3
        )  # over examples, a row for every task
    assert -1 <= row["low"] < row["difference"] < row["high"] <= 1
    two = runs.where({TASK_FIELD: ["b", "c"]}).where({"seed": 0})
    [row] = two.compare(
        "majority", "nearest-neighbour", over="tasks"
    )  # t on two tasks would end beyond 1
    assert (row["low"], row["high"]) == (-1.0, 1.0)
    with pytest.raises(RunsError, match="the test 'mcnemar' is over examples"):
        runs.compare("majority", "nearest-neighbour", over="tasks", test="mcnemar")
    with pytest.raises(RunsError, match="cannot be over 'task'; did you mean 'tasks'"):
        runs.compare("majority", "nearest-neighbour", over="task")
    kinds = {row["kind"]: row for row in runs.where("majority").accuracy(by="kind", over="tasks")}
    assert {name: (row["n"], row["mean"]) for name, row in kinds.items()} == {
        "one": (1, 1.0),
        "two": (2, 0.75),
    }
    page = report(outcome.store.path, tmp_path / "report.html").read_text()
    assert "Scores over tasks" in page
    assert "standard error" in page
    assert "Scores by task" in page
    assert "<td>kind</td>" in page.replace(' class="short"', "")


def test_runs_of_tasks_are_rescored_and_mixed_runs_of_older_versions_too(store: Store) -> None:
    assert {change.changed for change in rescore(store.path, "own")} == {0}
    [mixed] = expand(check(functions(tasks="mixed"), "test"))
    config = store.folder(mixed.run) / "config.yaml"
    config.write_text(config.read_text().replace("tasks: mixed\n", ""))
    assert {change.changed for change in rescore(store.path, "own", [mixed.run])} == {0}


def test_tasks_go_into_one_batch_where_the_learner_can(tmp_path: Path) -> None:
    cells = expand(check({**functions(tasks="each"), "learners": ["tiny-test/lora"]}, "test"))
    store = Store(tmp_path / "runs", create=True)
    [job] = jobs(store, cells, {cell.run for cell in cells}, Resources())
    assert job.kind == "tasks"
    assert len(job.runs) == 3


def test_stories_have_a_run_for_every_kind_of_question(tmp_path: Path) -> None:
    few = {"splits": {"train": {"n": 200}, "dev": {"n": 40}, "test": {"n": 80}}}
    plain = {
        "recipes": [{"recipe": "babi/diverse-T7", "set": few}],
        "learners": ["majority"],
        "evaluate": ["test"],
    }
    outcome = fill({**plain, "tasks": "each"}, tmp_path / "runs")
    assert not outcome.state.failed
    assert [cell.task for cell in outcome.cells] == ["where-P", "where-O", "where-was-O", "give-qs"]
    runs = Runs(outcome.store)
    assert sum(runs.table["n"].to_pylist()) == 80
    assert "over tasks" in repr(runs)


ZEST = {
    "recipe": "zest/synthetic",
    "set": {"tasks": {"train": 12, "dev": 24, "test": 0}, "passages": 3},
}


def test_tasks_that_training_lacks_are_answered_by_one_model_of_all_others(tmp_path: Path) -> None:
    """ZEST: a row for every task, one training, and the same answers as the run of all tasks at
    once.
    """
    plain = {"recipes": [ZEST], "learners": ["nearest-neighbour"], "evaluate": ["dev"]}
    cells = expand(check({**plain, "tasks": "each"}, "test"))
    store = Store(tmp_path / "runs", create=True)
    [job] = jobs(store, cells, {cell.run for cell in cells}, Resources(stack=5))
    assert (job.kind, len(job.runs)) == ("shared", 24)
    outcome = fill({**plain, "tasks": "each"}, tmp_path / "runs")
    assert not outcome.state.failed
    [whole] = fill(plain, tmp_path / "runs").cells
    answers = {
        row["index"]: row["prediction"] for row in store.predictions([whole.run]).to_pylist()
    }
    for cell in outcome.cells:
        assert cell.zero_shot
        rows = store.predictions([cell.run]).to_pylist()
        assert {row["task"] for row in rows} == {cell.task}
        assert all(row["prediction"] == answers[row["index"]] for row in rows)
    each = Runs(store).where({TASK_FIELD: [cell.task for cell in cells]})
    [row] = each.accuracy(over="tasks")
    assert (row["n"], row["mean"]) == (
        24,
        pytest.approx(Runs(store).where({"run": whole.run}).accuracy(over="tasks")[0]["mean"]),
    )
    assert expand(check(cells[3].config(), "test"))[0].run == cells[3].run


WHERE = {"n": 4, "events": ["MOVE"], "questions": ["where-P"]}
COUNT = {"n": 2, "events": ["MOVE", "GRAB"], "questions": ["counting"]}
LISTED: list[dict[str, Any]] = [
    ZEST,
    {"name": "stories", "suite": "babi", "splits": {"train": [WHERE], "ood": [WHERE, COUNT]}},
    {
        "name": "withheld",
        "suite": "babi",
        "splits": {"train": [WHERE, COUNT], "test": [WHERE, COUNT]},
        "described": {"unseen": ["counting"]},
    },
]


@pytest.mark.parametrize("block", LISTED, ids=["zest", "stories", "withheld"])
def test_plans_list_the_tasks_of_their_splits_without_making_a_row(block: dict[str, Any]) -> None:
    [data] = read_recipes(block, {})
    splits = [split.name for split in data.plan.splits if split.role == "test"]
    by_rows = {split.name: replace(split, tasks=None) for split in data.plan.splits}
    no_names = replace(data.plan.tasks, names=None)
    as_made = replace(data)
    as_made.__dict__["plan"] = replace(data.plan, splits=tuple(by_rows.values()), tasks=no_names)

    def never(start: int, stop: int) -> list[Any]:
        raise AssertionError("a row is made to list tasks")

    silent = tuple(replace(split, rows=never) for split in data.plan.splits)
    data.__dict__["plan"] = replace(data.plan, splits=silent)
    listed = data.evaluated_tasks("train", splits)
    assert listed == as_made.evaluated_tasks("train", splits)
    assert not all(listed.values())  # training lacks some


def test_a_dry_run_of_tasks_makes_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: Any) -> None:
        raise AssertionError("a passage is made to list tasks")

    monkeypatch.setattr("taskloom.suites.zest.synthetic.task_world.TaskWorld.example", never)
    plain = {"recipes": [ZEST], "learners": ["majority"], "evaluate": ["dev"], "tasks": "each"}
    assert len(api.dry_run(check(plain, "test"), tmp_path / "runs").cells) == 24


def test_tasks_that_no_plan_lists_are_found_in_the_rows() -> None:
    cells = expand(
        check(
            {"recipes": [recipe()], "learners": ["majority"], "tasks": "each", "evaluate": ["iid"]},
            "test",
        )
    )
    names = {cell.task for cell in cells}
    assert len(cells) == len(names) > 1
    assert all(1 <= len(name.split()) <= 4 for name in names)  # chains of functions


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random decoder over bytes, as a model folder."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from taskloom.learners.pretrained.models import Sizes, from_scratch

    base = from_scratch("decoder", [], Sizes(8, 1, 2, 8, 0.0, 128), "bytes", seed=0)
    folder = tmp_path_factory.mktemp("model")
    base.model.save_pretrained(folder)
    base.tokeniser.save_pretrained(folder)
    return folder


def prompt_tuned(model: Path, **more: Any) -> dict[str, Any]:
    """An experiment that tunes a prompt for each of three functions, in two steps."""
    few = {"functions": FUNCTIONS, "shares": {"train": 0.995, "test": 0.005}}
    quick = {
        "n": 2,
        "first_rows": 50,
        "steps": 2,
        "batch": 4,
        "evaluate_every": 0,
        "longest_answer": 24,
        "threads": 1,
    }
    return {
        "recipes": [{"recipe": "taskbench/english", "set": few}],
        "learners": [
            {"learner": "prompt-tune", "model": str(model), "shots": 8, "device": "cpu", **quick}
        ],
        "tasks": "each",
        "evaluate": ["test"],
        **more,
    }


def test_tasks_are_trained_in_one_batch_answer_together_and_as_they_would_alone(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskloom.learners.interface import LearnerError
    from taskloom.learners.pretrained.language_models import PromptTune

    batches: list[int] = []
    calls: list[list[str]] = []
    many_tasks, answer_tasks = PromptTune.adapt, PromptTune.answer_tasks

    def training(learner: PromptTune, train: Any, *more: Any) -> Any:
        batches.append(len(train))
        return many_tasks(learner, train, *more)

    def counting(learner: PromptTune, models: Any, inputs: Any) -> Any:
        calls.append(list(inputs))
        return answer_tasks(learner, models, inputs)

    def refusing(learner: PromptTune, models: Any, inputs: Any) -> Any:
        raise LearnerError("an input needs too many tokens")

    monkeypatch.setattr(PromptTune, "adapt", training)
    tables = []
    for name, way in (("together", counting), ("alone", refusing)):
        monkeypatch.setattr(PromptTune, "answer_tasks", way)
        outcome = fill(prompt_tuned(tiny_model), tmp_path / name)
        assert not outcome.state.failed
        tables.append(
            [
                outcome.store.predictions([run])["prediction"].to_pylist()
                for run in sorted(outcome.runs)
            ]
        )
        assert sorted(Runs(outcome.store).table[TASK_FIELD].to_pylist()) == sorted(
            NAMES
        )  # a row for each
        about = [outcome.store.environment(run) for run in outcome.runs]
        assert [(one["trained"], one["together"]) for one in about] == [("tasks", 3)] * 3
    assert batches == [3, 3]  # one training of three tasks, not three of one
    assert [len(names) for names in calls] == [3] * len(calls)
    assert calls
    assert tables[0] == tables[1]


def test_a_batch_of_tasks_that_fails_is_trained_one_by_one_and_says_so(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskloom.learners.pretrained.language_models import PromptTune

    def broken(learner: PromptTune, *more: Any, **named: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(PromptTune, "fit_tasks", broken)
    outcome = fill(prompt_tuned(tiny_model, tasks=NAMES[:2]), tmp_path / "runs")
    assert not outcome.state.failed
    about = [outcome.store.environment(run) for run in outcome.runs]
    assert [(one["trained"], one["together"]) for one in about] == [("alone", 1)] * 2


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"tasks": "eech"}, "tasks: .*did you mean 'each'"),
        ({"tasks": []}, "tasks: .*name at least one task"),
        (
            {"tasks": ["taskbench/antonym[eng]"]},
            r"has no task 'taskbench/antonym\[eng\]'.*antonyms",
        ),
    ],
)
def test_choices_that_cannot_be(more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ExperimentError, match=sentence):
        expand(check({**functions(), **more}, "test"))
