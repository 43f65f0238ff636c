"""Trackers: the real libraries, offline; and what happens when they fail."""

from __future__ import annotations

import builtins
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from taskloom.cli import run
from taskloom.core.errors import MissingExtra, TaskloomError
from taskloom.experiments import api
from taskloom.experiments.execute import driver, trackers, worker
from taskloom.experiments.execute.driver import ExperimentState
from taskloom.experiments.spec import experiment as spec
from taskloom.experiments.statistics.intervals import wilson
from taskloom.experiments.store import Store
from taskloom.learners.interface import Point, report_points
from tests.experiments.sweeps import SMALL, baselines

ENDS = ("", ".low", ".high", ".n")

SCORES = {
    "schema": 1,
    "run": "abcdef0123456789",
    "recipe": "ctl/A",
    "learner": "bilstm",
    "seed": 3,
    "fields": {"learner.state": 64, "recipe.splits": {"train": {"n": 5}}},
    "splits": {"iid": {"n": 10, "score": 0.9}, "ood": {"n": 0, "score": None}},
}
RUN = SCORES["run"]
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
        self.calls.append(("start", config["run"], dict(config)))

    def log(self, run: str, step: int, metrics: Mapping[str, float]) -> None:
        self.calls.append(("log", run, step, dict(metrics)))

    def show(self, run: str, predictions: Sequence[Sequence[Any]]) -> None:
        self.calls.append(("show", run, [list(row) for row in predictions]))

    def finish(self, run: str, scores: Mapping[str, float]) -> None:
        self.calls.append(("finish", run, dict(scores)))

    def fail(self, run: str) -> None:
        self.calls.append(("fail", run))

    def last(self, kind: str) -> list[Any]:
        """The last argument of every call of a kind."""
        return [call[-1] for call in self.calls if call[0] == kind]


def test_what_a_tracker_is_told() -> None:
    heard = Heard()
    trackers.record(heard, SCORES, CURVE)
    config = {
        "run": "abcdef0123456789",
        "recipe": "ctl/A",
        "learner": "bilstm",
        "seed": 3,
        "learner.state": 64,
    }
    assert heard.calls == [
        ("start", RUN, {**config, "recipe.splits": '{"train": {"n": 5}}'}),
        ("log", RUN, 50, {"train/score": 0.2, "train/loss": 1.5, "iid/score": 0.3}),
        ("log", RUN, 100, {"train/score": 0.8, "train/loss": 0.5}),
        ("finish", RUN, {"iid": 0.9, "iid.n": 10.0, "ood.n": 0.0}),
    ]


def test_the_recipes_of_a_mix_are_settings_too() -> None:
    heard = Heard()
    trackers.record(heard, SCORES, [], {"recipe": [{"length": 3}, {"length": 4}]})
    [config] = heard.last("start")
    assert (config["recipe.0.length"], config["recipe.1.length"]) == (3, 4)


def test_a_tracker_gets_predictions_and_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    monkeypatch.setattr(trackers, "MOST_ROWS", 3)
    trackers.record(heard, SCORES, CURVE, predictions=pa.Table.from_pylist(PREDICTIONS))
    [rows], [finals] = heard.last("show"), heard.last("finish")
    assert rows[0] == ["iid", 0, "ctl/A", "a 0", "1", "2", 0.0]
    assert len(rows) == 3
    low, high = wilson(9, 10)
    ends = {"iid.low": pytest.approx(low), "iid.high": pytest.approx(high)}
    assert finals == {"iid": 0.9, **ends, "iid.n": 10, "ood.n": 0}


def test_a_score_that_is_no_mean_over_items_has_no_interval() -> None:
    heard = Heard()
    other = {**SCORES, "splits": {"iid": {"score": 0.7}}}
    trackers.record(heard, other, CURVE, predictions=pa.Table.from_pylist(PREDICTIONS))
    assert heard.last("finish") == [{"iid": 0.7}]


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
    assert sorted(told["run"] for told in heard.last("start")) == sorted(outcome.runs)
    told = heard.last("start")[0]
    assert told["data"] == outcome.store.scores(told["run"])["data"]
    assert {"version.taskloom", "recipe.splits"} <= set(told)
    ends = heard.last("finish")
    assert len(ends) == 8
    names = {f"{s}{e}" for s in ("iid", "ood") for e in ENDS}
    assert {"iid", "ood", "iid.n", "ood.n"} <= set(ends[0]) <= names
    rows = heard.last("show")
    assert len(rows) == 8
    assert {row[0] for row in rows[0]} == {"iid", "ood"}
    # What is there already is not told again, and a tracker is no part of what a run is.
    again = api.fill(spec.check({**experiment, "track": []}, "test"), tmp_path / "runs", workers=1)
    assert again.runs == outcome.runs
    assert len(heard.last("start")) == 8


@pytest.fixture
def watched_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "POLL", 0.02)
    monkeypatch.setattr(driver, "EVERY", 0.0)


LIVE = {
    "recipes": [{"recipe": "ctl/A", "set": SMALL}],
    "learners": [
        {"learner": "bilstm", "state": 32, "steps": 400, "batch": 64, "evaluate_every": 20}
    ],
    "seeds": 2,
}
"""Two seeds that train as one program, for a few seconds."""


def test_curves_are_followed_while_runs_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched_closely: None
) -> None:
    heard = Heard()
    monkeypatch.setitem(trackers.TRACKERS, "mlflow", (lambda folder: heard, "mlflow"))
    live: dict[str, int] = {}

    def look(state: ExperimentState) -> None:
        if not state.done:
            live.update(Counter(call[1] for call in heard.calls if call[0] == "log"))

    experiment = spec.check({**LIVE, "track": "mlflow"}, "test")
    outcome = api.fill(experiment, tmp_path / "runs", workers=1, watch=look)
    assert sorted(live) == sorted(outcome.runs)
    assert min(live.values()) > 1, "points before either run was finished"
    # Whether a point was logged early or at the end, each is there once and in order.
    for own in outcome.runs:
        curve: dict[int, dict[str, float]] = {}
        for point in outcome.store.curves([own]).to_pylist():
            metrics = curve.setdefault(point["step"], {})
            metrics |= {f"{point['split']}/{kind}": point[kind] for kind in ("score", "loss")}
        logged = [(call[2], call[3]) for call in heard.calls if call[:2] == ("log", own)]
        assert logged == [(step, pytest.approx(metrics)) for step, metrics in curve.items()]
    told = heard.last("start")
    assert sorted(one["run"] for one in told) == sorted(outcome.runs)
    assert {"learner.state", "learner.clip", "recipe.max_length"} <= set(told[0]), "all settings"
    assert len(heard.last("finish")) == 2


def test_a_tracker_is_told_the_same_live_and_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched_closely: None
) -> None:
    live, after = Heard(), Heard()
    monkeypatch.setitem(trackers.TRACKERS, "mlflow", (lambda folder: live, "mlflow"))
    outcome = api.fill(spec.check({**LIVE, "track": "mlflow"}, "test"), tmp_path, workers=1)
    monkeypatch.setitem(trackers.TRACKERS, "mlflow", (lambda folder: after, "mlflow"))
    tracking = trackers.Tracking(["mlflow"], outcome.store)
    for own in outcome.runs:
        tracking.finished(own)
        assert [c for c in live.calls if c[1] == own] == [c for c in after.calls if c[1] == own]


def test_a_run_that_fails_while_it_trains_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched_closely: None
) -> None:
    heard = Heard()
    monkeypatch.setitem(trackers.TRACKERS, "mlflow", (lambda folder: heard, "mlflow"))
    diverging = {
        "learner": "transformer",
        "state": 16,
        "heads": 2,
        "layers": 2,
        "feed_forward": 16,
        "steps": 40,
        "rate": 1e38,
        "evaluate_every": 1,
    }
    experiment = {**LIVE, "learners": [diverging], "seeds": 1, "track": "mlflow"}
    outcome = api.fill(spec.check(experiment, "test"), tmp_path / "runs", workers=1)
    assert outcome.state.failed
    closed = [call[1] for call in heard.calls if call[0] == "fail"]
    assert closed == [told["run"] for told in heard.last("start")]
    assert not heard.last("finish")


FOLLOWED = """
import json, re
from taskloom.experiments import api
from taskloom.experiments.execute import driver
from taskloom.experiments.spec import experiment as spec

driver.POLL, driver.EVERY = 0.02, 0.0
folder = Path("runs/work/trackers")
found = {}

def curves_of_trackio():
    from trackio.sqlite_storage import SQLiteStorage
    return [
        [row["train/loss"] for row in SQLiteStorage.get_logs("taskloom", name) if "train/loss" in row]
        for name in SQLiteStorage.get_runs("taskloom")
    ]

def curves_of_mlflow():
    from mlflow import MlflowClient
    client = MlflowClient(tracking_uri=(folder / "mlflow").absolute().as_uri())
    own = client.get_experiment_by_name("taskloom")
    runs = client.search_runs([own.experiment_id]) if own else []
    return [[m.value for m in client.get_metric_history(r.info.run_id, "train/loss")] for r in runs]

def curves_of_wandb():
    # The offline file is buffered and has no public reader. A point has its metric's name as text.
    files = sorted(folder.glob("wandb/offline-run-*/run-*.wandb"))
    return [["open", *re.findall("train/loss", file.read_bytes().decode("latin-1"))] for file in files]

READERS = {"trackio": curves_of_trackio, "mlflow": curves_of_mlflow, "wandb": curves_of_wandb}

def look(state):
    if state.jobs and not state.done:
        for name, read in READERS.items():
            found[name] = max(found.get(name, 0), sum(len(curve) for curve in read()))

experiment = spec.check({**LIVE, "track": list(READERS)}, "test")
outcome = api.fill(experiment, "runs", workers=1, watch=look)
assert not outcome.state.failed, outcome.state.failed
table = outcome.store.curves(outcome.runs).to_pylist()
stored = [
    [p["loss"] for p in table if p["run"] == run and p["split"] == "train"] for run in outcome.runs
]
shown = {name: read() for name, read in READERS.items() if name != "wandb"}
points = [len(curve) for curve in curves_of_wandb()]
print(json.dumps([found, stored, shown, points]))
"""


@pytest.mark.slow
def test_the_real_trackers_show_curves_while_runs_train(tmp_path: Path) -> None:
    out = elsewhere(f"LIVE = {LIVE!r}\n" + FOLLOWED, tmp_path)
    found, stored, shown, points = json.loads(out.splitlines()[-1])
    for name, curves in shown.items():
        assert sorted(curves) == [pytest.approx(curve) for curve in sorted(stored)], name
    assert len(points) == len(stored)
    assert min(points) > len(stored[0]), "wandb"
    assert found["wandb"] >= 2, "W&B's runs are open; their offline files are buffered"
    assert min(found["trackio"], found["mlflow"]) > 2, "points before either run was finished"


def test_points_that_are_measured_again_after_a_kill_are_logged_once(tmp_path: Path) -> None:
    heard = Heard()
    tracking = trackers.Tracking([], Store(tmp_path / "runs", create=True))
    tracking._trackers = [trackers.SafeTracker("mlflow", heard, print)]
    job = tmp_path / "job"
    job.mkdir()
    with worker.curves_written(job, [["run"]]):
        for step in (10, 20):
            report_points(0, [Point(step, "train", 0.5, 1.0)])
    points, end = worker.read_points(job, 0)
    with (job / worker.CURVE).open("a", encoding="utf-8") as file:
        file.write('{"runs": ["run"], "poi')  # killed here
    assert worker.read_points(job, end) == ([], end)
    with (job / worker.CURVE).open("a", encoding="utf-8") as file:
        file.write("\n")
    with worker.curves_written(job, [["run"]]):
        for step in (20, 30):
            report_points(0, [Point(step, "train", 0.5, 1.0)])
    again, _ = worker.read_points(job, end)
    for one in points + again:
        tracking.measured("run", one["points"], lambda: (SCORES, {}))
    assert [call[2] for call in heard.calls if call[0] == "log"] == [10, 20, 30]


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
    def log(self, run: str, step: int, metrics: Mapping[str, float]) -> None:
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
