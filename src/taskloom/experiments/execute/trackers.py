"""Trackers log finished runs to trackio, Weights & Biases or MLflow.

The run store is the record, and a tracker only mirrors it. A tracker gets a run from its files once
it is finished, so the result is the same for every engine, for seeds trained together, and after
any number of kills. An error of a tracker never fails a run.

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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import yaml

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
    """Interface of a tracker for one run: settings, points of the learning curve, and scores."""

    def start(self, config: Mapping[str, Scalar]) -> None:
        """Start a run. `config` has run, recipe, learner, seed and the fields of the grid."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log a point of the curve."""

    def show(self, predictions: Rows) -> None:
        """Add the predictions as a table."""

    def finish(self, scores: Mapping[str, float]) -> None:
        """Close the run with the score of every split, and the ends of its interval."""


class Wandb:
    """Weights & Biases, or trackio, which has the same API.

    Args:
        library: The module.
        options: Further arguments of its `init`.
    """

    def __init__(self, library: Any, **options: Any) -> None:
        self._library = library
        self._options = options

    def start(self, config: Mapping[str, Scalar]) -> None:
        """Start a run; see `Tracker`."""
        group = f"{config.get('recipe')} {config.get('learner')}"
        self._library.init(
            project=PROJECT, name=title(config), group=group, config=dict(config), **self._options
        )

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log a point; see `Tracker`."""
        self._library.log(dict(metrics), step=step)

    def show(self, predictions: Rows) -> None:
        """Add a table; see `Tracker`."""
        table = self._library.Table(columns=list(COLUMNS), data=[list(row) for row in predictions])
        self._library.log({"predictions": table})

    def finish(self, scores: Mapping[str, float]) -> None:
        """Close the run; see `Tracker`."""
        self._library.log({f"final/{split}": score for split, score in scores.items()})
        self._library.finish()


def open_wandb(folder: Path) -> Wandb:
    """Weights & Biases: offline, in the runs' folder, unless WANDB_MODE is set (`wandb sync`
    uploads it later).
    """
    import wandb

    folder.mkdir(parents=True, exist_ok=True)

    return Wandb(
        wandb,
        dir=str(folder),
        mode=os.environ.get("WANDB_MODE", "offline"),
        reinit="finish_previous",
        settings=wandb.Settings(silent=True, console="off"),
    )


def open_trackio(folder: Path) -> Wandb:
    """trackio: local first; its dashboard is `trackio show`."""
    # If no folder is chosen, the runs' own is better than one in the home directory. The variable
    # is read on import.
    os.environ.setdefault("TRACKIO_DIR", str(folder.absolute() / "trackio"))
    import trackio

    return Wandb(trackio, embed=False, auto_log_gpu=False, auto_log_cpu=False)


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
        self._run = ""

    def start(self, config: Mapping[str, Scalar]) -> None:
        """Start a run; see `Tracker`."""
        self._run = self._client.create_run(self._experiment, run_name=title(config)).info.run_id
        for name, value in config.items():
            self._client.log_param(self._run, name, value)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log a point; see `Tracker`."""
        for name, value in metrics.items():
            self._client.log_metric(self._run, name, value, step=step)

    def show(self, predictions: Rows) -> None:
        """Add a table; see `Tracker`."""
        lines = [dict(zip(COLUMNS, row, strict=True)) for row in predictions]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        self._client.log_text(self._run, text, "predictions.jsonl")

    def finish(self, scores: Mapping[str, float]) -> None:
        """Close the run; see `Tracker`."""
        for split, score in scores.items():
            self._client.log_metric(self._run, f"final/{split}", score)
        self._client.set_terminated(self._run)


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

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log a point; see `Tracker`."""
        self._try(lambda tracker: tracker.log(step, metrics))

    def show(self, predictions: Rows) -> None:
        """Add a table; see `Tracker`."""
        self._try(lambda tracker: tracker.show(predictions))

    def finish(self, scores: Mapping[str, float]) -> None:
        """Close the run; see `Tracker`."""
        self._try(lambda tracker: tracker.finish(scores))

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
    settings: Mapping[str, Any] | None = None,
    predictions: pa.Table | None = None,
) -> None:
    """Record one finished run in a tracker.

    Args:
        tracker: The tracker.
        scores: The run's `scores.json`.
        curve: Rows of its `curves.parquet`: step, split, score, loss.
        environment: Its `environment.json`: versions, and the recipe with all its fields.
        settings: All settings of its learner.
        predictions: Rows of its `predictions.parquet`.
    """
    told = environment or {}
    tracker.start(
        {
            **{k: scores[k] for k in ("run", "recipe", "learner", "seed")},
            # Together with the version, the data's digest and the scorer define what was measured.
            **{k: scores[k] for k in ("data", "scorer") if k in scores},
            **_flat(told.get("versions", {}), "version."),
            **_flat(told.get("recipe", {}), "recipe."),
            **_flat(settings or {}, "learner."),
            **_flat({f"n.{k}": v["n"] for k, v in scores["splits"].items() if "n" in v}),
            **_flat(scores.get("fields", {})),
        }
    )
    steps: dict[int, dict[str, float]] = {}
    for point in curve:
        for kind in ("score", "loss"):
            value = point.get(kind)
            if value is not None and math.isfinite(value):
                steps.setdefault(int(point["step"]), {})[f"{point['split']}/{kind}"] = float(value)
    for step in sorted(steps):
        tracker.log(step, steps[step])
    finals = {k: v["score"] for k, v in scores["splits"].items() if v.get("score") is not None}
    if predictions is not None and len(predictions):
        tracker.show(_rows(predictions))
        finals |= _intervals(predictions, finals)
    tracker.finish({name: float(value) for name, value in finals.items()})


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


def open_trackers(names: Iterable[str], store: Store) -> Callable[[str], None]:
    """Open the trackers of a store. The returned function is called with each finished run."""
    opened = [open_tracker(name, store.path / "work" / "trackers") for name in dict.fromkeys(names)]

    def finished(run: str) -> None:
        if not opened:
            return
        spec = yaml.safe_load(store.config(run))
        learners = spec.get("learners") or [{}]
        about = (store.environment(run), learners[0])
        for one in opened:
            curve = store.curves([run]).to_pylist()
            record(one, store.scores(run), curve, *about, store.predictions([run]))

    return finished


def title(config: Mapping[str, Scalar]) -> str:
    """Readable and unique name of a run for a tracker."""
    return (
        f"{config.get('recipe')} {config.get('learner')} seed {config.get('seed')}"
        f" {str(config.get('run'))[:8]}"
    )


def _flat(fields: Mapping[str, Any], before: str = "") -> dict[str, Scalar]:
    return {
        f"{before}{k}": v
        if isinstance(v, str | int | float | bool) or v is None
        else repr(v)[:LONGEST_VALUE]
        for k, v in fields.items()
    }


def _sentence(name: str, error: Exception) -> str:
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return (
        f"tracking with {name} failed and is not used any more ({first}); the runs themselves are"
        " not affected"
    )
