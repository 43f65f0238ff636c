"""The tables of a report: which columns they have, and how their cells are written.

Every table is a list of `Column`s. A new statistic is a measure in `taskloom.experiments.accuracy`
(or `compare`) and one line in a list of columns here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from taskloom.analysis.report.page import Opened
from taskloom.core.tables import Column
from taskloom.data.competence import THRESHOLDS
from taskloom.experiments.result_table import probability

Row = dict[str, Any]


def _interval(row: Row) -> str:
    return "" if math.isnan(row["low"]) else f"{row['low']:.3f} to {row['high']:.3f}"


def _fixed(name: str) -> Any:
    return lambda row: f"{row[name]:.3f}"


def _opening(name: str, sign: str = "") -> Any:
    """Return a cell that opens the examples behind it, where the row says which."""
    return lambda row: (
        Opened(f"{row[name]:{sign}.3f}", row["opens"])
        if row.get("opens")
        else f"{row[name]:{sign}.3f}"
    )


def share(row: Row) -> str:
    """Format the share of seeds over the threshold."""
    return f"{row['success']:.0%}"


def known(name: str) -> Any:
    """Return a cell with a measure, empty where it is not known."""
    return lambda row: "" if row[name] is None or math.isnan(row[name]) else f"{row[name]:.3f}"


def _whole(name: str) -> Any:
    return lambda row: f"{row[name]:,}"


def _seeds(seeds: Sequence[int]) -> str:
    ordered = sorted(seeds)
    whole = len(ordered) > 3 and ordered == list(range(ordered[0], ordered[-1] + 1))
    return f"{ordered[0]} to {ordered[-1]}" if whole else ", ".join(map(str, ordered))


def _seconds_a_run(row: Row) -> str:
    """Return how long a run took on average; empty where nobody wrote it down."""
    return "" if math.isnan(row["seconds"]) else f"{row['seconds'] / len(row['seeds']):.1f}"


CELL = (Column("recipe", itemgetter("recipe")), Column("learner", itemgetter("learner")))
"""What tells the cells of an experiment apart."""

OVERVIEW = (
    *CELL,
    Column("seeds", lambda row: _seeds(row["seeds"])),
    Column("data digest", itemgetter("digest")),
    Column("seconds a run", _seconds_a_run, number=True),
)

MEASURES = (
    Column("mean", _opening("mean"), number=True),
    Column("interval", _interval),
    Column("sd over seeds", known("sd"), number=True),
    Column("examples", _whole("n"), number=True),
)
"""Of each group of scores, whatever it is grouped by."""

SCORES = (
    *CELL,
    Column("split", itemgetter("split")),
    *MEASURES,
    Column("seeds", itemgetter("seeds"), number=True),
    Column("guessing", known("guess"), number=True),
    Column("method", itemgetter("method"), wraps=True),
)

TASKS = (
    *CELL,
    Column("split", itemgetter("split")),
    Column("task", itemgetter("task")),
    Column("mean", _opening("mean"), number=True),
    Column("interval", _interval),
    Column("examples", _whole("n"), number=True),
    Column("seeds", itemgetter("seeds"), number=True),
)

OVER_TASKS = (
    *CELL,
    Column("split", itemgetter("split")),
    Column("tasks by", itemgetter("by")),
    Column("value", itemgetter("value")),
    Column("mean", _fixed("mean"), number=True),
    Column("standard error", known("se"), number=True),
    Column("interval", _interval),
    Column("tasks", _whole("n"), number=True),
    *(Column(f"C@{t}", known(f"C@{t}"), number=True) for t in THRESHOLDS),
)

COMPARISONS = (
    Column("recipe", itemgetter("recipe")),
    Column("split", itemgetter("split")),
    Column("first", itemgetter("first")),
    Column("second", itemgetter("second")),
    Column("mean of first", _fixed("a"), number=True),
    Column("mean of second", _fixed("b"), number=True),
    Column("difference", _opening("difference", "+"), number=True),
    Column("interval", _interval),
    Column("p", lambda row: probability(row["p"]), number=True),
    Column("corrected p", lambda row: probability(row["corrected_p"]), number=True),
    Column("test", itemgetter("test"), wraps=True),
)

REPLIES = (
    *CELL,
    Column("split", itemgetter("split")),
    Column("replies", _whole("n"), number=True),
    Column("in form", lambda row: f"{row['in_form']:.1%}", number=True),
    Column("without an answer", itemgetter("missing"), wraps=True),
    Column("tokens in", itemgetter("tokens_in"), number=True),
    Column("tokens out", itemgetter("tokens_out"), number=True),
    Column("of these thinking", itemgetter("tokens_thinking"), number=True),
    Column("seconds a reply", itemgetter("seconds"), number=True),
    Column("cost", itemgetter("cost"), number=True),
)
"""Of the replies of chat models."""

FOLDERS = (
    *CELL,
    Column("seed", itemgetter("seed"), number=True),
    Column("folder in the store", lambda row: f"{row['run'][:2]}/{row['run']}"),
)

FAILURES = (
    Column("cell", itemgetter("cell")),
    Column("run", lambda row: row["run"][:16]),
    Column("reason", itemgetter("reason")),
)
