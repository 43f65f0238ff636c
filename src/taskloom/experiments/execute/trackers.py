"""Trackers log runs to trackio, Weights & Biases or MLflow.

The run store is the record, and a tracker only mirrors it. A tracker gets the learning curve while
a run trains, and the scores and predictions from the run's files once it is finished. The curve and
the files have the same points, so the result is the same for every engine and for seeds trained
together. If a driver is killed, its unfinished runs stay as they are in the tracker, and the next
driver logs them again, with their whole curves. An error in a tracker never fails a run.

Nothing leaves the machine unless the library's own settings request it: W&B is offline unless
WANDB_MODE is set, trackio stays in its folder unless TRACKIO_SPACE_ID is set, and MLflow writes
next to the runs unless MLFLOW_TRACKING_URI is set. Without such settings all of them write to
`work/trackers` in the store.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from taskloom.core.errors import MissingExtra, TaskloomError, nearest
from taskloom.experiments.statistics.intervals import over_items

if TYPE_CHECKING:
    from taskloom.experiments.store import Store

PROJECT = "taskloom"

LONGEST_VALUE = 500
"""Maximum characters of a setting that is neither a number nor a word, because MLflow rejects
longer ones.
"""

MOST_ROWS = 10_000
"""Maximum number of predictions in a tracker's table."""

COLUMNS = ("split", "index", "task", "input", "target", "prediction", "score")
"""Columns of a tracker's table of predictions."""

Scalar = str | int | float | bool | None
Rows = Sequence[Sequence[Scalar]]


class Tracker(Protocol):
    """Interface of a tracker. Several runs are open at a time, each named by its digest."""

    def start(self, config: Mapping[str, Scalar]) -> None:
        """Start a run. `config` has run, recipe, learner, seed, all settings, and the fields of the
        grid.
        """

    def log(self, run: str, step: int, metrics: Mapping[str, float]) -> None:
        """Log a point of the curve."""

    def show(self, run: str, predictions: Rows) -> None:
        """Add the predictions as a table."""

    def finish(self, run: str, scores: Mapping[str, float]) -> None:
        """Close the run with the score of every split, its interval and its number of items."""

    def fail(self, run: str) -> None:
        """Close the run as a failed one."""


class Wandb:
    """Weights & Biases, or trackio, whose runs have the same methods.

    Args:
        library: The module.
        init: Starts a run that stays open when others are started.
        failed: Arguments of a run's `finish` if it has failed.
    """

    def __init__(self, library: Any, init: Callable[..., Any], **failed: Any) -> None:
        self._library = library
        self._init = init
        self._failed = failed
        self._runs: dict[str, Any] = {}

    def start(self, config: Mapping[str, Scalar]) -> None:
        """Start a run; see `Tracker`."""
        group = f"{config.get('recipe')} {config.get('learner')}"
        self._runs[str(config["run"])] = self._init(
            project=PROJECT, name=title(config), group=group, config=dict(config)
        )

    def log(self, run: str, step: int, metrics: Mapping[str, float]) -> None:
        """Log a point; see `Tracker`."""
        self._runs[run].log(dict(metrics), step=step)

    def show(self, run: str, predictions: Rows) -> None:
        """Add a table; see `Tracker`."""
        table = self._library.Table(columns=list(COLUMNS), data=[list(row) for row in predictions])
        self._runs[run].log({"predictions": table})

    def finish(self, run: str, scores: Mapping[str, float]) -> None:
        """Close the run; see `Tracker`."""
        self._runs[run].log({f"final/{name}": value for name, value in scores.items()})
        self._runs.pop(run).finish()

    def fail(self, run: str) -> None:
        """Close the run as a failed one; see `Tracker`."""
        self._runs.pop(run).finish(**self._failed)


def open_wandb(folder: Path) -> Wandb:
    """Weights & Biases: offline, in the runs' folder, unless WANDB_MODE is set (`wandb sync`
    uploads it later).
    """
    import wandb

    folder.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {
        "dir": str(folder),
        "mode": os.environ.get("WANDB_MODE", "offline"),
        "reinit": "create_new",
        "settings": wandb.Settings(silent=True, console="off"),
    }
    return Wandb(wandb, partial(wandb.init, **options), exit_code=1)


def open_trackio(folder: Path) -> Wandb:
    """trackio: local first; its dashboard is `trackio show`."""
    # If no folder is chosen, the runs' own is better than one in the home directory. The variable
    # is read on import.
    os.environ.setdefault("TRACKIO_DIR", str(folder.absolute() / "trackio"))
    import trackio

    def init(**about: Any) -> Any:
        run = trackio.init(**about, embed=False, auto_log_gpu=False, auto_log_cpu=False)
        trackio.context_vars.current_run.set(None)  # otherwise the next `init` would finish it
        return run

    return Wandb(trackio, init)


class Mlflow:
    """MLflow: files next to the runs, unless MLFLOW_TRACKING_URI names a server or a database."""

    def __init__(self, folder: Path) -> None:
        where = os.environ.get("MLFLOW_TRACKING_URI")
        if not where:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 requires this
            where = (folder.absolute() / "mlflow").as_uri()
        from mlflow import MlflowClient

        self._client: Any = MlflowClient(tracking_uri=where)
        known = self._client.get_experiment_by_name(PROJECT)
        self._experiment = known.experiment_id if known else self._client.create_experiment(PROJECT)
        self._runs: dict[str, str] = {}

    def start(self, config: Mapping[str, Scalar]) -> None:
        """Start a run; see `Tracker`."""
        own = self._client.create_run(self._experiment, run_name=title(config)).info.run_id
        self._runs[str(config["run"])] = own
        for name, value in config.items():
            self._client.log_param(own, name, value)

    def log(self, run: str, step: int, metrics: Mapping[str, float]) -> None:
        """Log a point; see `Tracker`."""
        for name, value in metrics.items():
            self._client.log_metric(self._runs[run], name, value, step=step)

    def show(self, run: str, predictions: Rows) -> None:
        """Add a table; see `Tracker`."""
        lines = [dict(zip(COLUMNS, row, strict=True)) for row in predictions]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        self._client.log_text(self._runs[run], text, "predictions.jsonl")

    def finish(self, run: str, scores: Mapping[str, float]) -> None:
        """Close the run; see `Tracker`."""
        for name, value in scores.items():
            self._client.log_metric(self._runs[run], f"final/{name}", value)
        self._client.set_terminated(self._runs.pop(run))

    def fail(self, run: str) -> None:
        """Close the run as a failed one; see `Tracker`."""
        self._client.set_terminated(self._runs.pop(run), status="FAILED")


TRACKERS: dict[str, tuple[Callable[[Path], Tracker], str]] = {
    "trackio": (open_trackio, "trackio"),
    "wandb": (open_wandb, "wandb"),
    "mlflow": (Mlflow, "mlflow"),
}
"""Function that opens each tracker, and the library that it needs."""


class SafeTracker:
    """Wraps a tracker so that it never fails a run: its first error is reported once, and the
    tracker is not used again.

    Args:
        name: The name of the tracker.
        tracker: None if it could not be opened.
        warn: Called with a sentence when it fails.
    """

    def __init__(self, name: str, tracker: Tracker | None, warn: Callable[[str], None]) -> None:
        self.name = name
        self._tracker = tracker
        self._warn = warn

    @property
    def failed(self) -> bool:
        """True if the tracker is no longer used."""
        return self._tracker is None

    def start(self, config: Mapping[str, Scalar]) -> None:
        """Start a run; see `Tracker`."""
        self._try(lambda tracker: tracker.start(config))

    def log(self, run: str, step: int, metrics: Mapping[str, float]) -> None:
        """Log a point; see `Tracker`."""
        self._try(lambda tracker: tracker.log(run, step, metrics))

    def show(self, run: str, predictions: Rows) -> None:
        """Add a table; see `Tracker`."""
        self._try(lambda tracker: tracker.show(run, predictions))

    def finish(self, run: str, scores: Mapping[str, float]) -> None:
        """Close the run; see `Tracker`."""
        self._try(lambda tracker: tracker.finish(run, scores))

    def fail(self, run: str) -> None:
        """Close the run as a failed one; see `Tracker`."""
        self._try(lambda tracker: tracker.fail(run))

    def _try(self, call: Callable[[Tracker], None]) -> None:
        if self._tracker is None:
            return
        try:
            # standard output is reserved for our own results
            with contextlib.redirect_stdout(sys.stderr):
                call(self._tracker)
        except Exception as error:  # third-party libraries may raise anything
            self._tracker = None
            self._warn(_sentence(self.name, error))


def check_names(names: Iterable[str]) -> None:
    """Raise an error for unknown trackers, even if there is nothing to run."""
    for name in names:
        if name not in TRACKERS:
            raise TaskloomError(f"there is no tracker '{name}'; {nearest(name, TRACKERS)}")


def open_tracker(
    name: str, folder: Path | str, warn: Callable[[str], None] | None = None
) -> SafeTracker:
    """Open a tracker that never fails a run.

    Args:
        name: `trackio`, `wandb` or `mlflow`.
        folder: Folder for libraries that write files.
        warn: Called once if the tracker fails. Default: print a line on standard error.

    Raises:
        MissingExtra: If its library is not installed, so that this is known before the first run.
    """
    check_names([name])
    create, library = TRACKERS[name]
    say = warn or (lambda text: print(text, file=sys.stderr))
    try:
        return SafeTracker(name, create(Path(folder)), say)
    except ImportError as error:
        raise MissingExtra(f"tracking with {name}", library, "trackers") from error
    except Exception as error:
        say(_sentence(name, error))
        return SafeTracker(name, None, say)


def record(
    tracker: Tracker,
    scores: Mapping[str, Any],
    curve: Iterable[Mapping[str, Any]],
    environment: Mapping[str, Any] | None = None,
    predictions: pa.Table | None = None,
    after: int | None = None,
) -> None:
    """Record one finished run in a tracker.

    Args:
        tracker: The tracker.
        scores: The run's `scores.json`.
        curve: Rows of its `curves.parquet`: step, split, score, loss.
        environment: Its `environment.json`: versions, the recipe with all its fields, and all
            settings of the learner.
        predictions: Rows of its `predictions.parquet`.
        after: Last step that was logged while the run trained. Default: it is not started yet.
    """
    run = scores["run"]
    if after is None:
        tracker.start(_config(scores, environment or {}))
    for step, metrics in _metrics(curve).items():
        if after is None or step > after:
            tracker.log(run, step, metrics)
    finals = {k: v["score"] for k, v in scores["splits"].items() if v.get("score") is not None}
    if predictions is not None and len(predictions):
        tracker.show(run, _rows(predictions))
        finals |= _intervals(predictions, finals)
    finals |= {f"{k}.n": v["n"] for k, v in scores["splits"].items() if "n" in v}
    tracker.finish(run, {name: float(value) for name, value in finals.items()})


def _config(scores: Mapping[str, Any], environment: Mapping[str, Any]) -> dict[str, Scalar]:
    """Settings of a run, from the present or future contents of its `scores.json` and
    `environment.json`.
    """
    settings = dict(environment.get("settings", {}))
    training = settings.pop("training", {})  # people write these next to the others
    return {
        **{k: scores[k] for k in ("run", "recipe", "learner", "seed")},
        # Together with the version, the data's digest and the scorer define what was measured.
        **{k: scores[k] for k in ("data", "scorer") if k in scores},
        **_flat(environment.get("versions", {}), "version."),
        **_recipe(environment.get("recipe", {})),
        **_flat({**settings, **training}, "learner."),
        **_flat(scores.get("fields", {})),
    }


def _recipe(recipe: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> dict[str, Scalar]:
    """Fields of the recipe, or of each part of a mix."""
    if isinstance(recipe, Mapping):
        return _flat(recipe, "recipe.")
    fields: dict[str, Scalar] = {}
    for number, part in enumerate(recipe):
        fields |= _flat(part, f"recipe.{number}.")
    return fields


def _metrics(curve: Iterable[Mapping[str, Any]]) -> dict[int, dict[str, float]]:
    """Points of a curve by step, in order."""
    steps: dict[int, dict[str, float]] = {}
    for point in curve:
        for kind in ("score", "loss"):
            value = point.get(kind)
            if value is not None and math.isfinite(value):
                steps.setdefault(int(point["step"]), {})[f"{point['split']}/{kind}"] = float(value)
    return dict(sorted(steps.items()))


def _rows(predictions: pa.Table) -> Rows:
    """The first predictions of every split, with the official answer."""
    splits = predictions["split"].to_pylist()
    most = max(1, MOST_ROWS // max(1, len(set(splits))))
    count: Counter[str] = Counter()
    chosen = []
    for place, split in enumerate(splits):
        count[split] += 1
        if count[split] <= most:
            chosen.append(place)
    names = [name if name != "target" else "targets" for name in COLUMNS]
    rows = predictions.select(names).take(chosen).to_pylist()
    return [[*_cells(row)] for row in rows]


def _cells(row: Mapping[str, Any]) -> Iterator[Scalar]:
    for value in row.values():
        yield value[0] if isinstance(value, list) else value


def _intervals(predictions: pa.Table, finals: Mapping[str, float]) -> dict[str, float]:
    """Ends of the 95 % interval over items, of scores that are means over items."""
    ends = {}
    for split, score in finals.items():
        items = predictions.filter(pc.equal(predictions["split"], split))["score"].to_pylist()
        if None in items or not items:
            continue
        estimate = over_items(items)
        if math.isclose(estimate.mean, score, abs_tol=1e-9) and math.isfinite(estimate.low):
            ends[f"{split}.low"] = estimate.low
            ends[f"{split}.high"] = estimate.high
    return ends


class Tracking:
    """The trackers of the runs of one store.

    Args:
        names: Names of the trackers.
        store: The store.
    """

    def __init__(self, names: Iterable[str], store: Store) -> None:
        folder = store.path / "work" / "trackers"
        self._store = store
        self._trackers = [open_tracker(name, folder) for name in dict.fromkeys(names)]
        self._logged: dict[str, int] = {}

    def __bool__(self) -> bool:
        """True if there are trackers."""
        return bool(self._trackers)

    def measured(
        self,
        run: str,
        points: Iterable[Mapping[str, Any]],
        about: Callable[[], tuple[Mapping[str, Any], Mapping[str, Any]]],
    ) -> None:
        """Log points of a run that is training.

        Args:
            run: Its digest.
            points: The points: step, split, score, loss. Points of earlier steps than the last
                logged one are dropped: training that was killed measures some points again.
            about: Gives the run's `scores.json`, without scores, and its `environment.json`. Called
                for the first points.
        """
        if run not in self._logged:
            config = _config(*about())
            for tracker in self._trackers:
                tracker.start(config)
            self._logged[run] = -1
        for step, metrics in _metrics(points).items():
            if step <= self._logged[run]:
                continue
            for tracker in self._trackers:
                tracker.log(run, step, metrics)
            self._logged[run] = step

    def finished(self, run: str) -> None:
        """Log the rest of a finished run, and close the run."""
        if not self._trackers:
            return
        curve = self._store.curves([run]).to_pylist()
        about = (self._store.scores(run), curve, self._store.environment(run))
        predictions = self._store.predictions([run])
        after = self._logged.pop(run, None)
        for tracker in self._trackers:
            record(tracker, *about, predictions, after)

    def failed(self, run: str) -> None:
        """Close a run that has failed, if it was started."""
        if self._logged.pop(run, None) is not None:
            for tracker in self._trackers:
                tracker.fail(run)

    def close(self) -> None:
        """Close the runs that were not finished."""
        for run in list(self._logged):
            self.failed(run)


def title(config: Mapping[str, Scalar]) -> str:
    """Readable and unique name of a run for a tracker."""
    return (
        f"{config.get('recipe')} {config.get('learner')} seed {config.get('seed')}"
        f" {str(config.get('run'))[:8]}"
    )


def _flat(fields: Mapping[str, Any], before: str = "") -> dict[str, Scalar]:
    return {f"{before}{name}": _plain(value) for name, value in fields.items()}


def _plain(value: Any) -> Scalar:
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)[:LONGEST_VALUE]


def _sentence(name: str, error: Exception) -> str:
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return (
        f"tracking with {name} failed and is not used any more ({first}); the runs themselves are"
        " not affected"
    )
