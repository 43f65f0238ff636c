"""Trackers: the real libraries, offline; and what happens when they fail."""

from __future__ import annotations

import builtins
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from taskloom.cli import run
from taskloom.core.errors import MissingExtra, TaskloomError
from taskloom.experiments import api
from taskloom.experiments.execute import trackers
from taskloom.experiments.spec import experiment as spec
from taskloom.experiments.statistics.intervals import wilson
from tests.experiments.sweeps import baselines

ENDS = ("", ".low", ".high")

SCORES = {
    "schema": 1,
    "run": "abcdef0123456789",
    "recipe": "ctl/A",
    "learner": "bilstm",
    "seed": 3,
    "fields": {"learner.state": 64, "recipe.splits": {"train": {"n": 5}}},
    "splits": {"iid": {"n": 10, "score": 0.9}, "ood": {"n": 0, "score": None}},
}
CURVE = [
    {"step": 50, "split": "train", "score": 0.2, "loss": 1.5},
    {"step": 50, "split": "iid", "score": 0.3, "loss": float("nan")},
    {"step": 100, "split": "train", "score": 0.8, "loss": 0.5},
]


PREDICTIONS = [
    {
        "split": "iid",
        "index": index,
        "task": "ctl/A",
        "input": f"a {index}",
        "targets": ["1"],
        "prediction": "1" if index else "2",
        "score": float(index > 0),
    }
    for index in range(10)
]


class Heard:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def start(self, config: Mapping[str, Any]) -> None:
        self.calls.append(("start", dict(config)))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.calls.append(("log", step, dict(metrics)))

    def show(self, predictions: Sequence[Sequence[Any]]) -> None:
        self.calls.append(("show", [list(row) for row in predictions]))

    def finish(self, scores: Mapping[str, float]) -> None:
        self.calls.append(("finish", dict(scores)))


def test_what_a_tracker_is_told() -> None:
    heard = Heard()
    trackers.record(heard, SCORES, CURVE)
    config = {
        "run": "abcdef0123456789",
        "recipe": "ctl/A",
        "learner": "bilstm",
        "seed": 3,
        "n.iid": 10,
        "n.ood": 0,
        "learner.state": 64,
    }
    assert heard.calls == [
        ("start", {**config, "recipe.splits": "{'train': {'n': 5}}"}),
        ("log", 50, {"train/score": 0.2, "train/loss": 1.5, "iid/score": 0.3}),
        ("log", 100, {"train/score": 0.8, "train/loss": 0.5}),
        ("finish", {"iid": 0.9}),
    ]


def test_a_tracker_gets_predictions_and_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    monkeypatch.setattr(trackers, "MOST_ROWS", 3)
    trackers.record(heard, SCORES, CURVE, predictions=pa.Table.from_pylist(PREDICTIONS))
    rows, finals = (call[1] for call in heard.calls[-2:])
    assert rows[0] == ["iid", 0, "ctl/A", "a 0", "1", "2", 0.0]
    assert len(rows) == 3
    low, high = wilson(9, 10)
    assert finals == {"iid": 0.9, "iid.low": pytest.approx(low), "iid.high": pytest.approx(high)}


def test_a_score_that_is_no_mean_over_items_has_no_interval() -> None:
    heard = Heard()
    other = {**SCORES, "splits": {"iid": {"n": 10, "score": 0.7}}}
    trackers.record(heard, other, CURVE, predictions=pa.Table.from_pylist(PREDICTIONS))
    assert heard.calls[-1] == ("finish", {"iid": 0.7})


def elsewhere(code: str, folder: Path, **environment: str) -> str:
    """Run code in a process of its own: these libraries leave threads and settings behind."""
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    head = (
        "from pathlib import Path\nfrom taskloom.experiments.execute import trackers\nnan ="
        " float('nan')\n"
    )
    head += f"SCORES = {SCORES!r}\nCURVE = {CURVE!r}\n"
    head += f"import pyarrow as pa\nROWS = pa.Table.from_pylist({PREDICTIONS!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", head + code],
        capture_output=True,
        text=True,
        cwd=folder,
        env=given,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "not used any more" not in done.stderr, done.stderr
    return done.stdout


def test_trackio(tmp_path: Path) -> None:
    out = elsewhere(
        "trackers.record(trackers.open_tracker('trackio', 'here'), SCORES, CURVE, predictions=ROWS)\n"
        "import json\nfrom trackio.sqlite_storage import SQLiteStorage as S\n"
        "name = S.get_runs('taskloom')[0]\n"
        "print(json.dumps([str(name), S.get_logs('taskloom', name)]))",
        tmp_path,
    )
    name, logs = json.loads(out)  # what trackio itself prints is not on standard output
    assert name == "ctl/A bilstm seed 3 abcdef01"
    assert [row.get("train/loss") for row in logs if row.get("train/loss")] == [1.5, 0.5]
    assert logs[-1]["final/iid"] == 0.9
    assert logs[-1]["final/iid.low"] < 0.9 < logs[-1]["final/iid.high"]
    assert any("predictions" in row for row in logs)
    assert (tmp_path / "here" / "trackio").is_dir()


@pytest.mark.slow
def test_wandb(tmp_path: Path) -> None:
    elsewhere(
        "t = trackers.open_tracker('wandb', 'here')\ntrackers.record(t, SCORES,"
        " CURVE, predictions=ROWS)\ntrackers.record(t, SCORES, CURVE)",
        tmp_path,
    )
    files = sorted((tmp_path / "here" / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(files) == 2
    raw = files[0].read_bytes()
    assert list((tmp_path / "here" / "wandb").glob("offline-run-*/files/media/table/*.table.json"))
    for word in (b"ctl/A bilstm seed 3 abcdef01", b"train/loss", b"final/iid", b"learner.state"):
        assert word in raw, word


@pytest.mark.slow
def test_mlflow(tmp_path: Path) -> None:
    out = elsewhere(
        "trackers.record(trackers.open_tracker('mlflow', 'here'), SCORES,"
        " CURVE, predictions=ROWS)\ntrackers.record(trackers.open_tracker('mlflow', 'here'), SCORES, CURVE)\nimport"
        " json\nfrom mlflow import MlflowClient\nc ="
        " MlflowClient(tracking_uri=Path('here/mlflow').absolute().as_uri())\nruns ="
        " c.search_runs([c.get_experiment_by_name('taskloom').experiment_id])\nlosses = [(m.step,"
        " m.value) for m in c.get_metric_history(runs[0].info.run_id,"
        " 'train/loss')]\nprint(json.dumps([len(runs), runs[0].data.params, runs[0].data.metrics,"
        " losses, runs[0].info.status]))",
        tmp_path,
    )
    n, params, metrics, losses, status = json.loads(out.splitlines()[-1])
    assert (n, params["seed"], params["learner.state"], status) == (2, "3", "64", "FINISHED")
    assert metrics["final/iid"] == 0.9
    (table,) = (tmp_path / "here" / "mlflow").rglob("predictions.jsonl")
    assert json.loads(table.read_text(encoding="utf-8").splitlines()[0])["prediction"] == "2"
    assert losses == [[50, 1.5], [100, 0.5]]


def test_an_experiment_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    monkeypatch.setitem(trackers.TRACKERS, "mlflow", (lambda folder: heard, "mlflow"))
    experiment = {**baselines(seeds=2), "track": "mlflow"}
    outcome = api.fill(spec.check(experiment, "test"), tmp_path / "runs", workers=1)
    assert not outcome.state.failed
    assert sorted(c[1]["run"] for c in heard.calls if c[0] == "start") == sorted(outcome.runs)
    told = next(c[1] for c in heard.calls if c[0] == "start")
    assert told["data"] == outcome.store.scores(told["run"])["data"]
    assert {"version.taskloom", "recipe.splits", "learner.learner", "n.iid"} <= set(told)
    ends = [c[1] for c in heard.calls if c[0] == "finish"]
    assert len(ends) == 8
    assert {"iid", "ood"} <= set(ends[0]) <= {f"{s}{e}" for s in ("iid", "ood") for e in ENDS}
    rows = [c[1] for c in heard.calls if c[0] == "show"]
    assert len(rows) == 8
    assert {row[0] for row in rows[0]} == {"iid", "ood"}
    # What is there already is not told again, and a tracker is no part of what a run is.
    again = api.fill(spec.check({**experiment, "track": []}, "test"), tmp_path / "runs", workers=1)
    assert again.runs == outcome.runs
    assert len([c for c in heard.calls if c[0] == "start"]) == 8


def test_several_trackers_are_named_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = {"mlflow": Heard(), "wandb": Heard()}
    monkeypatch.setitem(trackers.TRACKERS, "mlflow", (lambda folder: heard["mlflow"], "mlflow"))
    monkeypatch.setitem(trackers.TRACKERS, "wandb", (lambda folder: heard["wandb"], "wandb"))
    file = tmp_path / "one.yaml"
    file.write_text(json.dumps(baselines(seeds=1)), encoding="utf-8")
    both = ["--tracker", "mlflow", "--tracker", "wandb"]
    assert run(["run", str(file), "--store", str(tmp_path / "runs"), "--workers", "1", *both]) == 0
    assert heard["mlflow"].calls == heard["wandb"].calls != []


def test_an_experiment_with_an_unknown_tracker() -> None:
    with pytest.raises(TaskloomError, match="there is no tracker 'wandbb'; did you mean 'wandb'"):
        spec.check({**baselines(), "track": ["wandbb"]}, "test")


def test_unknown_name() -> None:
    with pytest.raises(TaskloomError, match="there is no tracker 'wandbb'; did you mean 'wandb'"):
        trackers.open_tracker("wandbb", ".")


@pytest.mark.parametrize("name", trackers.TRACKERS)
def test_a_missing_library_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = builtins.__import__

    def without(module: str, *rest: Any, **more: Any) -> Any:
        if module.split(".")[0] == name:
            raise ImportError(module)
        return real(module, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    with pytest.raises(
        MissingExtra,
        match=rf"tracking with {name} needs {name}: pip install 'taskloom\[trackers\]'",
    ):
        trackers.open_tracker(name, tmp_path)


class Broken(Heard):
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        raise RuntimeError("the server is gone\nand more")


def test_a_failing_tracker_is_said_once_and_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[str] = []
    monkeypatch.setitem(trackers.TRACKERS, "mlflow", (lambda folder: Broken(), "mlflow"))
    told = trackers.open_tracker("mlflow", tmp_path, said.append)
    trackers.record(told, SCORES, CURVE)
    trackers.record(told, SCORES, CURVE)
    assert said == [
        "tracking with mlflow failed and is not used any more (the server is gone); the runs"
        " themselves are not affected"
    ]
    assert told.failed


def test_a_tracker_that_cannot_even_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[str] = []

    def refuse(folder: Path) -> Heard:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setitem(trackers.TRACKERS, "wandb", (refuse, "wandb"))
    trackers.record(trackers.open_tracker("wandb", tmp_path, said.append), SCORES, CURVE)
    assert len(said) == 1
    assert "Permission denied" in said[0]
