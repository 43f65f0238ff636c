"""Stacks and mixed batches: which cells go together, and how they are taken up after a kill."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from taskloom.core.child_process import exit_reason
from taskloom.core.errors import TaskloomError
from taskloom.experiments.execute import jobs as planning
from taskloom.experiments.execute import predictions, worker
from taskloom.experiments.execute.engines import LocalEngine, visible_gpus
from taskloom.experiments.execute.worker import TOGETHER, Job, job_folder, perform
from taskloom.experiments.spec.cells import Cell, expand
from taskloom.experiments.spec.experiment import Resources, check
from taskloom.experiments.store import Store
from taskloom.learners.baselines import FittedMajority, Majority
from taskloom.learners.config import LEARNERS, Entry
from taskloom.learners.interface import LearnerError, Pairs
from tests.experiments.made_up_runs import write
from tests.experiments.sweeps import networks, recipe

CALLS: list[list[str]] = []


@dataclass(frozen=True)
class Together:
    """Learns many tasks at once, by counting; `fail` makes the joint fit raise."""

    fail: bool = False
    device: str = "auto"

    name: ClassVar[str] = "together"

    def fit(self, train: Pairs, *rest: Any, **more: Any) -> FittedMajority:
        CALLS.append(["alone"])
        return Majority().fit(train)

    def fit_tasks(
        self, train: Mapping[str, Pairs], evaluate: Mapping[str, Any], seed: int = 0, **more: Any
    ) -> dict[str, FittedMajority]:
        CALLS.append(sorted(train))
        assert all(set(parts) == set(train) for parts in evaluate.values())
        if self.fail:
            raise LearnerError("not together")
        return {name: Majority().fit(split) for name, split in train.items()}


@pytest.fixture(autouse=True)
def _together(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def load(folder: Path) -> Any:
        raise NotImplementedError

    monkeypatch.setitem(LEARNERS._things, "together", Entry("together", "", Together, load))
    CALLS.clear()
    yield
    for cached in (
        worker._template,
        predictions.dataset_in,
        predictions.split_in,
        predictions.read_examples,
        predictions._data_columns,
    ):
        cached.cache_clear()


def planned(store: Store, cells: Sequence[Cell], **resources: Any) -> list[Job]:
    missing = {cell.run for cell in cells if cell.run not in store}
    return planning.jobs(store, cells, missing, Resources(**resources))


def made(store: Store, cells: Sequence[Cell]) -> None:
    for cell in cells:
        assert not perform(planning.data_job(store, cell, cell.data.parts[0])).failed


def test_seeds_of_one_kind_go_together_and_no_more_than_asked(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    cells = expand(check(networks(seeds=5), "test"))
    jobs = planned(store, cells, stack=2)
    stacked = [job for job in jobs if len(job.runs) > 1]
    assert {job.kind for job in stacked} == {"seeds"}
    assert (
        sorted(len(job.runs) for job in stacked) == [2] * 8
    )  # 2 recipes, 2 networks, 5 seeds as 2 + 2 + 1
    assert sorted(run for job in jobs for run in job.runs) == sorted(cell.run for cell in cells)
    assert all(len(job.runs) == 1 for job in planned(store, cells, stack=1))


def test_tasks_of_one_learner_and_seed_train_in_one_batch(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    cells = expand(
        check(
            {"recipes": [recipe("ctl/A"), recipe("ctl/R")], "learners": ["together"], "seeds": 2},
            "test",
        )
    )
    jobs = planned(store, cells)
    assert [job.kind for job in jobs] == ["tasks", "tasks"]
    made(store, cells)
    for job in jobs:
        assert not perform(job).failed
    assert sorted(map(len, CALLS)) == [2, 2]
    assert len(store.names()) == 4
    alone = Store(tmp_path / "alone", create=True)
    made(alone, cells)
    for job in planned(alone, cells, stack=1):
        assert not perform(job).failed
    assert alone.runs().equals(store.runs())


def test_a_batch_that_cannot_be_trained_is_tried_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "runs", create=True)
    learner = {"learner": "together", "fail": True}
    cells = expand(
        check(
            {"recipes": [recipe("ctl/A"), recipe("ctl/R")], "learners": [learner], "seeds": 1},
            "test",
        )
    )
    made(store, cells)
    [job] = planned(store, cells)
    assert not perform(job).failed
    assert CALLS[1:] == [["alone"], ["alone"]]
    assert "not together; each is trained alone now" in capsys.readouterr().out
    assert len(store.names()) == 2


def test_a_killed_stack_is_taken_up_with_the_cells_it_had(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    cells = [
        c
        for c in expand(check(networks(seeds=3), "test"))
        if c.learner_name == "bilstm" and c.data.name == "ctl/A"
    ]
    [job] = planned(store, cells)
    runs = list(job.runs)
    (store.folder(runs[0])).mkdir(parents=True)
    (store.folder(runs[0]) / "scores.json").write_text("{}")
    assert planned(store, cells)[0].runs == tuple(runs[1:])  # the first was finished some time ago
    folder = job_folder(store, job.name)
    folder.mkdir(parents=True)
    (folder / TOGETHER).write_text(json.dumps(runs))
    [again] = planned(store, cells)
    assert again == job  # a kill between two renames: the same stack, from its last checkpoint


def test_gpu_learners_ask_for_a_gpu_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "runs", create=True)
    learners = ["majority", "together", {"learner": "together", "device": "cpu"}]
    cells = expand(check({"recipes": [recipe()], "learners": learners, "seeds": 1}, "test"))
    assert [job.gpus for job in planned(store, cells)] == [0.0, 1.0, 0.0]
    assert [job.gpus for job in planned(store, cells, gpus=0.5)] == [0.5, 0.5, 0.5]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert visible_gpus() == ["3", "5"]
    engine = LocalEngine(workers=2)
    assert engine.places == [None, None, "3", "5"]
    assert LocalEngine(workers=1, gpus=0.5).places == [None, "3", "3", "5", "5"]
    gpu_job, cpu_job = (dataclasses.replace(planned(store, cells)[0], gpus=g) for g in (1.0, 0.0))
    assert engine._choose(gpu_job) == "3"
    assert engine._choose(cpu_job) == "cpu"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert LocalEngine(workers=1)._choose(gpu_job) == "cpu"  # none here: it runs on the CPU


def test_how_a_process_ended_in_words() -> None:
    assert exit_reason(-9) == "was killed by SIGKILL (out of memory?)"
    assert exit_reason(-11) == "was killed by SIGSEGV"
    assert exit_reason(3) == "ended with status 3"


def test_a_worker_with_other_code_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", create=True)
    cells = expand(check({"recipes": [recipe()], "learners": ["majority"], "seeds": 1}, "test"))
    [job] = planned(store, cells)
    done = perform(dataclasses.replace(job, runs=("0" * 32,)))
    assert "different versions of taskloom" in done.failed["0" * 32]


def lasting(store: Store, seconds: Mapping[str, float], monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return the store with runs that took so many seconds."""
    monkeypatch.setattr(store, "environment", lambda run: {"seconds": seconds[run]})
    return store


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"steps": 1000, "batch": 32}, 100.0),  # ten times the steps
        ({"steps": 100, "batch": 128}, 40.0),  # four times the batch
        ({"steps": 100, "batch": 32, "state": 512}, None),  # another network
        ({"batch": 32, "epochs": 2}, None),  # as long as its data, which nobody has counted
    ],
)
def test_seconds_are_scaled_by_the_length_of_training_or_unknown(
    changes: dict[str, Any], seconds: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "runs", create=True)
    run = write(
        store, {"iid": [1.0]}, learner="bilstm", fields={"learner.steps": 100, "learner.batch": 32}
    )
    block = {
        "recipes": ["ctl/A"],
        "learners": [{"learner": "bilstm", **changes}],
        "seeds": [0],
        "evaluate": ["iid"],
    }
    cost = planning.estimate(lasting(store, {run: 10.0}, monkeypatch), expand(check(block, "x")))
    assert (cost.seconds, cost.known, cost.unknown) == ((seconds, 1, 0) if seconds else (0.0, 0, 1))


def test_a_learner_without_steps_has_unknown_costs_on_other_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "runs", create=True)
    run = write(store, {"iid": [1.0]}, learner="majority")
    block = {"recipes": ["ctl/A"], "learners": ["majority"], "seeds": [0], "evaluate": ["iid"]}
    cost = planning.estimate(lasting(store, {run: 10.0}, monkeypatch), expand(check(block, "x")))
    assert (cost.known, cost.unknown) == (0, 1)


@pytest.mark.parametrize("workers", [0, 10_001, 10**26])
def test_numbers_of_workers_have_limits(workers: int) -> None:
    with pytest.raises(TaskloomError, match="workers must be at"):
        LocalEngine(workers)
