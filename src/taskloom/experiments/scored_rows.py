"""The scores of many runs, row by row, with the columns that they are grouped by."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from taskloom.core.arrow import array_of, numbers, strings, whole_array
from taskloom.core.arrow import column as column_of
from taskloom.core.errors import nearest
from taskloom.experiments.files import StoreError
from taskloom.experiments.groups import ScoreGroup, SortedScores, numbered, sort_scores, trait
from taskloom.experiments.record import RunsError

if TYPE_CHECKING:
    from taskloom.experiments.table import Runs


class ScoredRows:
    """The scores of runs, row by row, ready to be grouped; only the columns that are needed are read.

    Attributes:
        about: For each run, by number, its columns in the table of runs.
        columns: What is grouped by.
    """

    def __init__(
        self,
        runs: Runs,
        apart: Sequence[str],
        traits: Sequence[str],
        splits: Sequence[str],
        tasks: bool = False,
    ) -> None:
        self._runs = runs
        self.columns = [*apart, *traits]
        self._kinds: dict[int, str] = {}
        self._inputs: dict[tuple[Any, ...], pa.Table] = {}
        self._splits = list(splits) or None
        table = runs.table
        if splits:  # runs that never answered them have nothing to say
            table = table.filter(pc.is_in(table["split"], strings(list(splits))))
        table = table.filter(numbers(whole_array(table["n"]) > 0))
        self.names = list(dict.fromkeys(table["run"].to_pylist()))
        place = {name: i for i, name in enumerate(self.names)}
        self.about: list[dict[str, Any]] = [{}] * len(self.names)
        for row in table.drop_columns(["split", "n", "score", *runs.suite_scores]).to_pylist():
            self.about[place[row["run"]]] = row
        wanted = ["split", "index", "score", *(["task"] if tasks or "task" in traits else [])]
        rows, number = self._read([*wanted, *(["traits"] if set(traits) - {"task"} else [])])
        self._number = pa.chunked_array([number])
        self._keys = [
            rows["split"] if c == "split" else self._spread(c, table.schema.field(c).type)
            for c in apart
        ]
        self._keys += [rows["task"] if t == "task" else trait(rows["traits"], t) for t in traits]
        for name, key in zip(traits, self._keys[len(apart) :], strict=True):
            if key.null_count == len(key) and len(key):
                raise RunsError(
                    f"no example and no run has '{name}'; {nearest(name, known_traits(runs, splits))}"
                )
        self._rows = rows

    def _read(self, wanted: Sequence[str]) -> tuple[pa.Table, pa.Array]:
        """Read columns of all runs, and number the run of each row."""
        about = int(whole_array(self._runs.table["n"]).sum())
        rows, counts = self._runs.source.scored(self.names, wanted, about)
        number = numbers(np.repeat(np.arange(len(self.names)), counts))
        if self._splits:
            wanted_rows = pc.is_in(rows["split"].cast(pa.string()), strings(self._splits))
            rows, number = rows.filter(wanted_rows), number.filter(wanted_rows.combine_chunks())
        bare = np.flatnonzero(np.bincount(array_of(number), minlength=len(self.names)) == 0)
        if len(bare):
            raise StoreError(
                f"{len(bare)} of {len(self.names)} runs have no predictions of {' and '.join(self._splits or ['any split'])} "
                f"(the first: {self.names[bare[0]]}), which this question is about: run them with keep: {{predictions: true}}, "
                "or ask for means over seeds alone (`over` seeds)"
            )
        return rows, number

    def _spread(self, column: str, kind: pa.DataType) -> pa.ChunkedArray:
        """Repeat a column of the runs for every row, as numbers into its values."""
        values = column_of([about[column] for about in self.about], kind).dictionary_encode(
            null_encoding="encode"
        )
        places = array_of(values.indices)[array_of(self._number.chunk(0))]
        return pa.chunked_array(
            [pa.DictionaryArray.from_arrays(numbers(places), values.dictionary)]
        )

    @cached_property
    def task_names(self) -> list[str]:
        """Return the tasks in the order of their numbers."""
        return [str(name) for name in self._rows["task"].combine_chunks().unique().to_pylist()]

    def groups(self) -> list[ScoreGroup]:
        """Return the groups, in the order of their values."""
        return list(self.sorted_scores())

    def sorted_scores(self) -> SortedScores:
        """Return the rows in the order of their groups."""
        rows = self._rows
        task = numbered(rows["task"]) if "task" in rows.column_names else self._number
        return sort_scores(self._keys, self._number, rows["index"], task, rows["score"])

    def alike(self, runs: Sequence[int]) -> bool:
        """Return whether runs differ in nothing but the seed, so that equal indices are equal items."""
        return len(runs) == 1 or len({self._kind(run) for run in runs}) == 1

    def _kind(self, run: int) -> str:
        if run not in self._kinds:
            self._kinds[run] = self._runs[self.names[run]].kind
        return self._kinds[run]

    def items_noted(self, group: ScoreGroup) -> list[str | None]:
        """Return the digests of the items of the splits that a group's first run answered; None where an older run has none."""
        split = dict(zip(self.columns, group.values, strict=True)).get("split")
        answered = self._runs[self.names[group.runs[0]]].splits
        return [answered[s].items for s in ([split] if split else self._splits or sorted(answered))]

    def inputs(self, group: ScoreGroup) -> pa.Table:
        """Return indices and texts of what a group's first run answered."""
        if group.values not in self._inputs:
            split = dict(zip(self.columns, group.values, strict=True)).get("split")
            rows = self._runs.source.predictions(
                [self.names[group.runs[0]]],
                ["index", "input"],
                splits=[split] if split else self._splits,
            )
            self._inputs[group.values] = rows.select(["index", "input"])
        return self._inputs[group.values]


def known_traits(runs: Runs, splits: Sequence[str] = ()) -> list[str]:
    """Return what can be grouped by: columns of the runs, the task, and the traits that a run of each recipe shows."""
    return sorted(shown_traits(runs, splits) | {"task", *runs.table.column_names})


def shown_traits(runs: Runs, splits: Sequence[str] = ()) -> set[str]:
    """Return the traits that a run of each recipe shows."""
    table = runs.table
    first = dict(
        zip(reversed(table["recipe"].to_pylist()), reversed(table["run"].to_pylist()), strict=True)
    )
    traits = runs.source.predictions(first.values(), ["traits"], splits=list(splits) or None)[
        "traits"
    ]
    return {name for row in traits.to_pylist() for name, _ in row or ()}
