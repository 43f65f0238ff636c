"""The run table and queries on it: accuracy by columns and traits, and comparisons of learners.

runs = taskloom.runs("runs/")
print(runs.accuracy(by=["question", "support"], split="mix"))
print(runs.compare("bilstm", "transformer"))
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taskloom.core.arrow import numbers, strings
from taskloom.core.errors import nearest
from taskloom.core.tables import paragraph
from taskloom.experiments.accuracy import accuracy, check_splits, samples
from taskloom.experiments.compare import Selection, compare, twins
from taskloom.experiments.files import REPLY_COLUMNS, StoreError
from taskloom.experiments.record import (
    SUITE_SCORE,
    TASK_FIELD,
    FailedRun,
    Run,
    RunsError,
    RunSource,
    run_table,
)
from taskloom.experiments.result_table import ResultTable, to_pandas, to_polars
from taskloom.recipe.yaml_files import YamlError, parse

OWN = ("run", "recipe", "learner", "seed")
"""First columns of every table of runs, followed by the fields, then split, n and score."""

RELATIONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
INEQUALITY = re.compile(
    r"\s*([^<>=]+?)\s*(>=|<=|>|<)\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*"
)
"""Matches an inequality such as `iid > 0.5`: a name, a relation and a number."""

MANY = 200
"""Maximum number of runs whose predictions are opened to print a table, which takes a second or
two.
"""

SHORTEST_DIGEST = 6
"""Minimum digits of a digest that select a run."""


class Runs:
    """The run table, through which all analyses read runs. It is a snapshot: the records of the
    runs (`runs["3f2a…"].seed`), a table with a row per run and split (`runs.table`), and the
    predictions and curves behind it.

    Args:
        source: Source of the runs: a folder, a score file, or predictions made elsewhere.
        names: Digests of the runs. Default: all.
    """

    def __init__(self, source: RunSource, names: Iterable[str] | None = None) -> None:
        self.source = source
        records = source.records(names)
        self._records = {run.name: run for run in records}
        self.table: pa.Table = run_table(records)

    def _some(self, table: pa.Table) -> Runs:
        """The same runs with only the rows in `table`."""
        some = copy(self)
        some.__dict__ = {"source": self.source, "_records": self._records, "table": table}
        return some

    def __getitem__(self, name: str) -> Run:
        """The record of a run by its digest."""
        return self._records[name]

    def __contains__(self, name: object) -> bool:
        """True if there is a run of this digest."""
        return name in self._names

    def __iter__(self) -> Iterator[Run]:
        """The records, in the order of the table."""
        return map(self._records.__getitem__, self.names)

    @property
    def path(self) -> Path:
        """The folder or file that the runs come from."""
        return self.source.path

    @cached_property
    def names(self) -> list[str]:
        """Digests of the runs, in the table's order."""
        return list(dict.fromkeys(self.table["run"].to_pylist()))

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.names)

    @property
    def fields(self) -> list[str]:
        """Columns of settings that were set or searched: `recipe.FIELD`, `learner.SETTING`."""
        others = (*OWN, "split", "n", "score", *self.suite_scores)
        return [c for c in self.table.column_names if c not in others]

    @property
    def suite_scores(self) -> list[str]:
        """Columns of scores that the suites compute themselves: `score.C@90`."""
        return [c for c in self.table.column_names if c.startswith(SUITE_SCORE)]

    @cached_property
    def splits(self) -> list[str]:
        """The splits that were answered."""
        return sorted(self.table["split"].unique().to_pylist())

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        count = len(self)
        if not count:
            return f"no runs in {self.path}"
        parts = [f"{count:,} runs in {self.path}" if count > 1 else f"1 run in {self.path}"]
        for column in ("recipe", "learner", "seed", "split"):
            values = sorted(set(self.table[column].to_pylist()))
            parts.append(f"  {column}s: {_first(values, 6)}")
        return "\n".join([*parts, "", str(self.overview()), *self._over_tasks()])

    def _repr_html_(self) -> str:
        if not len(self):
            return paragraph(repr(self))
        return (
            paragraph(f"{len(self):,} runs in {self.path}", strong=True)
            + self.overview()._repr_html_()
        )

    def overview(self) -> ResultTable:
        """Like `accuracy()`, but over seeds alone if there are very many runs or some kept no
        predictions.

        `accuracy()` would open the predictions of thousands of runs, whereas their scores are
        available at once.
        """
        try:
            return self.accuracy(over="seeds" if len(self) > MANY else None)
        except StoreError:
            return self.accuracy(over="seeds")

    def _over_tasks(self) -> list[str]:
        """Lines with mean and standard error over tasks, if every task has runs of its own."""
        if TASK_FIELD not in self.fields or len(self) > MANY:
            return []
        tasks = set(self.table[TASK_FIELD].to_pylist()) - {None}
        if len(tasks) < 2:
            return []
        try:
            by_task = self.where({TASK_FIELD: sorted(tasks)}).accuracy(over="tasks")
        except StoreError:
            return []  # predictions were not kept
        return ["", "over tasks", str(by_task)]

    def to_pandas(self) -> Any:
        """The table as a pandas frame."""
        return to_pandas(self.table)

    def to_polars(self) -> Any:
        """The table as a Polars frame."""
        return to_polars(self.table)

    def where(self, *selection: Selection, **values: Any) -> Runs:
        """Select some of the runs: `where(learner="bilstm", seed=[0, 1])`, `where({"learner.state":
        64})`, `where("iid > 0.5")`.
        """
        chosen = set(self.names)
        for one in (*selection, *([values] if values else [])):
            chosen &= set(self.select(one))
        return self._some(self.table.filter(pc.is_in(self.table["run"], strings(sorted(chosen)))))

    def best(self, n: int, split: str) -> Runs:
        """Select the n seeds with the highest score on a split for each recipe, learner and fields,
        or all seeds if there are fewer. Ties are broken by the order of the seeds.
        """
        check_splits(self, [split])
        if n < 1:
            raise RunsError(f"best needs at least 1 seed of each, not {n}")
        kinds: dict[str, list[tuple[float, int, str]]] = {}
        for row in self.table.to_pylist():
            if row["split"] == split and row["score"] is not None:
                kind = json.dumps([row[c] for c in ("recipe", "learner", *self.fields)])
                kinds.setdefault(kind, []).append((-row["score"], row["seed"], row["run"]))
        return self.where({"run": [run for rows in kinds.values() for *_, run in sorted(rows)[:n]]})

    def select(self, selection: Selection) -> list[str]:
        """Digests of the selected runs.

        Args:
            selection: Columns with their required value or list of values; an inequality such as
                `iid > 0.5` on the score of a split or on a column (`seed`, `learner.steps`,
                `score.C@90`); columns as text, `learner=bilstm and state=64`; or one word: a
                learner, a recipe, or the beginning of a run's digest.
        """
        table = self.table
        if isinstance(selection, str) and (match := INEQUALITY.fullmatch(selection)):
            return self._over(selection, *match.groups())
        if isinstance(selection, str) and "=" in selection:
            return self.select(_columns(selection))
        if isinstance(selection, Mapping):
            return self._having(selection)
        for column in ("learner", "recipe"):
            if selection in set(table[column].to_pylist()):
                return self.select({column: selection})
        matching = []
        if len(selection) >= SHORTEST_DIGEST:
            matching = [name for name in self.names if name.startswith(selection)]
        if not matching:
            known = {*table["learner"].to_pylist(), *table["recipe"].to_pylist()}
            raise RunsError(
                f"'{selection}' is not a learner, recipe or run here; {nearest(selection, known)}"
            )
        return matching

    def _having(self, selection: Mapping[str, Any]) -> list[str]:
        """Runs whose columns have the given values."""
        fits = np.ones(self.table.num_rows, np.bool_)
        for name, wanted in selection.items():
            many = _choices(wanted)
            fits &= [value in many for value in self.table[self.column(name)].to_pylist()]
        matching = self.table["run"].filter(numbers(fits)).to_pylist()
        if not matching:
            wanted_values = [f"{name} {_either(wanted)}" for name, wanted in selection.items()]
            raise RunsError(f"no run has {', '.join(wanted_values)}; {self._known(selection)}")
        return list(dict.fromkeys(matching))

    def _over(self, selection: str, name: str, relation: str, number: str) -> list[str]:
        """Runs for which an inequality holds. Missing scores satisfy none."""
        rows = self.table.to_pylist()
        if name in self.splits:
            pairs = [(row["run"], row["score"]) for row in rows if row["split"] == name]
        else:
            column = self.find_column(name)
            if column is None:
                known = [*self.splits, *self.table.column_names]
                raise RunsError(
                    f"'{selection}': '{name}' is neither a split nor a column;"
                    f" {nearest(name, known)}"
                )
            pairs = [(row["run"], row[column]) for row in rows]
        for _, value in pairs:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not is_number:
                raise RunsError(f"'{selection}': {name} is not a number, but e.g. {value!r}")
        holds = RELATIONS[relation]
        matching = [
            run for run, value in pairs if value is not None and holds(value, float(number))
        ]
        if not matching:
            values = [value for _, value in pairs if value is not None]
            extremes = f"; it is from {min(values):g} to {max(values):g}" if values else ""
            raise RunsError(f"no run has {selection}{extremes}")
        return list(dict.fromkeys(matching))

    def _known(self, selection: Mapping[str, Any]) -> str:
        name = next(iter(selection))
        values = sorted({str(v) for v in self.table[self.column(name)].to_pylist()})
        return f"values of {name}: {_first(values, 10)}"

    def column(self, name: str) -> str:
        """The table's column of that name. `state` is short for `learner.state` if no other column
        ends in it.
        """
        column = self.find_column(name)
        if column is None:
            raise RunsError(
                f"the runs have no column '{name}'; {nearest(name, self.table.column_names)}"
            )
        return column

    def find_column(self, name: str) -> str | None:
        """Column that a name refers to; None if there is none or more than one."""
        if name in self.table.column_names:
            return name
        ends = [c for c in self.fields if c.rpartition(".")[2] == name]
        return ends[0] if len(ends) == 1 else None

    def accuracy(
        self,
        by: str | Iterable[str] = (),
        split: str | Sequence[str] | None = None,
        over: str | None = None,
        level: float = 0.95,
        threshold: float | None = None,
    ) -> ResultTable:
        """Compute the mean score with its interval for each group; see
        `taskloom.experiments.accuracy.accuracy`.
        """
        return accuracy(self, _listed(by), _listed(split), over, level, threshold)

    def compare(
        self,
        a: Selection,
        b: Selection,
        split: str | Sequence[str] | None = None,
        by: str | Iterable[str] = (),
        test: str = "auto",
        correction: str = "holm",
        level: float = 0.95,
        over: str = "items",
    ) -> ResultTable:
        """Compare b with a on the same items or tasks, for each split and group; see
        `taskloom.experiments.compare.compare`.
        """
        return compare(self, a, b, _listed(split), _listed(by), test, correction, level, over)

    def plot(self, by: str = "split", **options: Any) -> Any:
        """Draw the scores as a figure of matplotlib; see `taskloom.plot`."""
        import taskloom  # figures belong to a package that depends on this one

        return taskloom.plot(self, by, **options)

    def twins(
        self,
        by: str | Iterable[str] = (),
        split: str | Sequence[str] | None = None,
        level: float = 0.95,
    ) -> ResultTable:
        """Compute how often answers follow the edits of twins; see
        `taskloom.experiments.compare.twins`.
        """
        return twins(self, _listed(by), _listed(split), level)

    def curves(self) -> pa.Table:
        """All learning curves: run, recipe, learner, seed, step, split, score, loss."""
        return self.source.curves(self.names)

    def predictions(
        self,
        split: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        *,
        runs: Iterable[str] | None = None,
    ) -> pa.Table:
        """Predictions: run, recipe, learner, seed, and the columns of predictions.parquet.

        Args:
            split: Only these splits.
            columns: Only these columns.
            runs: Only these runs.
        """
        names = self.names if runs is None else runs
        return self.source.predictions(names, columns, splits=_listed(split) or None)

    def answers(self, run: str, columns: Sequence[str]) -> pa.Table | None:
        """Columns of the predictions of one run; None if it kept none."""
        return self.source.answers(run, columns)

    def reply_columns(self, run: str, columns: Sequence[str]) -> pa.Table | None:
        """Columns of a chat model's whole replies; None if the run has none."""
        return self.source.replies(run, columns)

    def replies(self, split: str | Sequence[str] | None = None) -> ResultTable:
        """Messages to chat models and their replies, one row per answer: `learner`, `seed`,
        `split`, `index`, `targets`, `prediction`, `score`, then the columns of replies.parquet.

        Args:
            split: Only these splits.
        """
        wanted = _listed(split)
        own = ("split", "index", "targets", "prediction", "score")
        kept = [name for name in REPLY_COLUMNS.names if name not in own]
        rows: list[dict[str, Any]] = []
        for run in self:
            replies = self.reply_columns(run.name, REPLY_COLUMNS.names)
            answers = self.answers(run.name, own)
            if replies is None or answers is None:
                continue
            about = {"learner": run.learner, "seed": run.seed}
            by_item = {(row["split"], row["index"]): row for row in replies.to_pylist()}
            for answer in answers.to_pylist():
                reply = by_item.get((answer["split"], answer["index"]))
                if reply is not None:
                    rows.append({**about, **reply, **answer})
        chosen = [row for row in rows if not wanted or row["split"] in wanted]
        return ResultTable(["learner", "seed", *own, *kept], chosen)

    def samples(
        self, split: str | Sequence[str] | None = None, *, level: float = 0.95
    ) -> ResultTable:
        """Mean, majority vote and pass@k of models with several samples (seeds).

        Args:
            split: Only these splits.
            level: The confidence level of the interval.
        """
        return samples(self, _listed(split), level)

    def answer_batches(
        self, run: str, columns: Sequence[str], size: int
    ) -> Iterator[pa.RecordBatch]:
        """Columns of the predictions of one run, `size` rows at a time; nothing if it kept none."""
        return self.source.answer_batches(run, columns, size)

    def failures(self) -> dict[str, FailedRun]:
        """Runs of the same folder that have failed and not succeeded since, by digest."""
        return self.source.failures()

    def curve(self, run: str, columns: Sequence[str]) -> pa.Table | None:
        """Columns of the learning curve of one run; None if it has none."""
        return self.source.curve(run, columns)

    def model(self, run: str) -> Path | None:
        """Folder of the trained model; None if the run kept none."""
        return self.source.model(run)

    def config(self, run: str) -> str:
        """Experiment of one run alone, as YAML."""
        return self.source.config(run)

    def environment(self, run: str) -> dict[str, Any]:
        """Machine, versions and seconds of one run; empty if unknown."""
        return self.source.environment(run)

    def config_file(self, run: str) -> Path | None:
        """File with the experiment of one run alone; None if the runs come from a file."""
        return self.source.config_file(run)

    def keeps_predictions(self, run: str) -> bool:
        """True if the run's inputs and answers are known."""
        return self.source.keeps_predictions(run)

    def keeps_item_scores(self, run: str) -> bool:
        """True if the score of each example is known, not only the mean."""
        return self.source.keeps_item_scores(run)


def _columns(selection: str) -> dict[str, list[Any]]:
    """Parse `learner=bilstm and state=64`. A value matches as text or, if YAML reads it as a
    number, as that number.
    """
    columns: dict[str, list[Any]] = {}
    for part in selection.split(" and "):
        name, equals, text = (piece.strip() for piece in part.partition("="))
        if not name or not equals or not text:
            raise RunsError(
                f"'{selection}': write columns with values, e.g. learner=bilstm and seed=0"
            )
        try:
            value = parse(text)
        except YamlError:
            value = text
        columns[name] = [text, *([value] if isinstance(value, int | float) else [])]
    return columns


def _first(values: Sequence[Any], n: int) -> str:
    """The first n values as text, and the number of further ones.

    >>> _first([1, 2], 2), _first([1, 2, 3], 2)
    ('1, 2', '1, 2 and 1 more')
    """
    more = f" and {len(values) - n} more" if len(values) > n else ""
    return ", ".join(map(str, values[:n])) + more


def _either(wanted: Any) -> str:
    """Accepted values of a column as text. A number that is also tried as text is listed once.

    >>> _either(["7", 7]), _either([1, 2]), _either("bilstm")
    ('7', '1 or 2', 'bilstm')
    """
    many = wanted if isinstance(wanted, list | tuple | set | range) else [wanted]
    return " or ".join(dict.fromkeys(map(str, many)))


def _choices(wanted: Any) -> Collection[Any]:
    """Accepted values of a column, as a set because there may be 10,000 digests."""
    many = wanted if isinstance(wanted, list | tuple | set | range) else [wanted]
    try:
        return frozenset(many)
    except TypeError:
        return list(many)  # some are lists, which equal no value of a column


def _listed(value: str | Iterable[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())
