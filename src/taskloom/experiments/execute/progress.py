"""Progress of an experiment: a live table on a terminal, a line in a notebook, occasional plain
lines in a log.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from taskloom.core import progress as progress_display
from taskloom.experiments.execute.driver import ExperimentState, Watch

if TYPE_CHECKING:
    from rich.table import Table

DETAIL_EVERY = 30.0
"""Seconds between two lines if only steps, losses and answers have changed, so that the log of a
long run stays short.
"""

SHOWN_JOBS = 3
"""Maximum running jobs whose progress is shown."""


def given_progress(
    progress: Watch | bool | None, watch: Watch | bool | None
) -> Watch | bool | None:
    """The value of `progress`, or of its deprecated name `watch`, with a warning."""
    if watch is None:
        return progress
    # Level 3 is the line that called the public function.
    warnings.warn("watch= is deprecated; write progress=", DeprecationWarning, stacklevel=3)
    return watch


@contextlib.contextmanager
def watching(progress: Watch | bool | None) -> Iterator[Watch | None]:
    """Yield the function that a driver calls with its state: the given one, the display, or None.

    Args:
        progress: True to show the state; None: in notebooks only. Or your own function.
    """
    if callable(progress):
        yield progress
    elif progress_display.wanted(progress):
        with display() as show:
            yield show
    else:
        yield None


@contextlib.contextmanager
def display(place: progress_display.Place | None = None) -> Iterator[Watch]:
    """Yield a function that shows the state of an experiment, on standard error or below a
    notebook's cell.

    Args:
        place: Kind of output. Default: that of this process.
    """
    place = place or progress_display.place()
    if place == "log":
        yield _lines()
    elif place == "notebook":
        with progress_display.notebook_line() as show:
            yield lambda state: show(
                _ended(state) or line(state), state.before + state.done, state.total
            )
    else:
        from rich.console import Console
        from rich.live import Live

        gpus = Gpus()
        with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
            yield lambda state: live.update(table(state, gpus.use()))


def _lines() -> Callable[[ExperimentState], None]:
    last, shown, counted = time.monotonic(), "", ""

    def show(state: ExperimentState) -> None:
        nonlocal last, shown, counted
        passed = time.monotonic() - last
        if passed < progress_display.LOG_EVERY:
            return
        counts, work = _counts(state), detail(state)
        # The remaining time changes constantly, so only finished work triggers a new line.
        if counts != counted or (work != shown and passed >= DETAIL_EVERY):
            last, shown, counted = time.monotonic(), work, counts
            print(line(state), file=sys.stderr, flush=True)

    return show


def line(state: ExperimentState) -> str:
    """Format the progress as one line."""
    work = [detail(state)] if detail(state) else []
    pace = [rate(state)] if state.done else []
    left = [f"about {duration(state.left)} left"] if state.left is not None else []
    return ", ".join([_counts(state), *work, *pace, *left])


def _ended(state: ExperimentState) -> str:
    """Last line of an experiment whose runs are all done; empty before that."""
    if state.before + state.done < state.total:
        return ""
    return f"{state.total:,} of {state.total:,} runs done in {duration(state.seconds)}"


def detail(state: ExperimentState) -> str:
    """Progress of the running jobs: steps, losses, answered inputs."""
    texts = [text for progress, _ in state.jobs if (text := str(progress))]
    more = f" and {len(texts) - SHOWN_JOBS} more" if len(texts) > SHOWN_JOBS else ""
    return "; ".join(texts[:SHOWN_JOBS]) + more


def _counts(state: ExperimentState) -> str:
    parts = [
        f"{state.before + state.done:,} of {state.total:,} runs done",
        f"{state.running} running",
    ]
    if state.making:
        parts.append(f"{state.making} {'dataset' if state.making == 1 else 'datasets'} being made")
    if state.elsewhere:
        parts.append(f"{state.elsewhere} claimed elsewhere")
    if state.failed:
        parts.append(f"{len(state.failed)} failed")
    return ", ".join(parts)


def rate(state: ExperimentState) -> str:
    """Runs per time, in the most readable unit."""
    per_second = state.done / state.seconds if state.seconds else 0.0
    for unit, seconds in (("second", 1), ("minute", 60)):
        if per_second * seconds >= 1:
            return f"{per_second * seconds:.1f} a {unit}"
    return f"{per_second * 3600:.1f} an hour"


def duration(seconds: float) -> str:
    """Format a duration for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def table(state: ExperimentState, gpus: str = "") -> Table:
    """Format the progress as a table."""
    from rich.table import Table

    view = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    heads = {
        "done": f"{state.before + state.done:,} of {state.total:,}",
        "running": str(state.running),
        "failed": str(len(state.failed)),
        "rate": rate(state),
        "time left": "?" if state.left is None else duration(state.left),
    }
    if state.making:
        heads["datasets being made"] = str(state.making)
    if state.elsewhere:
        heads["elsewhere"] = str(state.elsewhere)
    if detail(state):
        heads["at work"] = detail(state)
    if gpus:
        heads["GPU"] = gpus
    for head in heads:
        view.add_column(head)
    view.add_row(*heads.values())
    return view


class Gpus:
    """Utilization of the GPUs from nvidia-smi, read in the background because it takes a second."""

    def __init__(self, every: float = 3.0) -> None:
        self.every, self.text, self._asked = every, "", -every
        self._there = True

    def use(self) -> str:
        """The latest utilization; empty if there is no GPU."""
        if self._there and time.monotonic() - self._asked > self.every:
            self._asked = time.monotonic()
            threading.Thread(target=self._ask, daemon=True).start()
        return self.text

    def _ask(self) -> None:
        query = [
            "nvidia-smi",
            "--query-gpu=utilization.gpu,memory.used",
            "--format=csv,noheader,nounits",
        ]
        try:
            done = subprocess.run(query, capture_output=True, text=True, timeout=10)  # noqa: S603 - a constant command
        except (OSError, subprocess.TimeoutExpired):
            self._there = False
            return
        rows = [row.split(",") for row in done.stdout.splitlines() if "," in row]
        self._there = bool(rows)
        self.text = "  ".join(
            f"{use.strip()} % {float(memory) / 1024:.0f} GiB" for use, memory in rows
        )
