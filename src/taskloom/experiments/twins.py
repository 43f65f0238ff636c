"""Scores of twins: does the answer follow an edit that changes it, and stay under one that does not.

A pair is an item and its twin. Of all pairs with a flip, *both right* is the share with two right
answers, *right for the wrong reason* the share whose original is right and whose flip is not: the
model did not follow the edit. Of all pairs with a keep, *swayed* is the share whose original is
right and whose keep is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from taskloom.core.twins import TRAITS, TWIN_KINDS, TwinKind, companion
from taskloom.experiments.accuracy import check_splits, columns_of, varying
from taskloom.experiments.record import RunsError
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import Estimate, over_items, over_seeds, two_way

if TYPE_CHECKING:
    from taskloom.experiments.table import Runs

FAULTS: dict[TwinKind, str] = {"flip": "right for the wrong reason", "keep": "swayed"}
"""Name of the pairs whose original is right and whose twin is not."""

BOTH = "both right"

RIGHT = 1.0 - 1e-9
"""Minimum score of a right answer; partial scores are wrong."""


@dataclass(slots=True)
class TwinPairs:
    """The pairs of one group.

    Attributes:
        runs: For each run, by the index of the item: whether original and twin are right.
    """

    runs: dict[str, dict[int, tuple[bool, bool]]] = field(default_factory=dict)

    def share(self, measure: str, level: float) -> Estimate:
        """Share of pairs, over new items and, with several runs, new seeds."""
        tables = []
        for pairs in self.runs.values():
            indices = sorted(pairs)
            wanted = [pairs[i] == (True, measure == BOTH) for i in indices]
            tables.append(np.array(wanted, dtype=np.float64))
        if len(tables) == 1:
            return over_items(tables[0], level)
        same_items = len({tuple(sorted(pairs)) for pairs in self.runs.values()}) == 1
        if same_items:
            return two_way(np.stack(tables), level)
        return over_seeds([float(table.mean()) for table in tables], level)


def twins(runs: Runs, by: Sequence[str], splits: Sequence[str], level: float) -> ResultTable:
    """Compute the shares of pairs for each group, split and kind of twin.

    Args:
        runs: The runs.
        by: Columns of the runs, `task`, or traits; `edit` is the twin's, others are the original's.
        splits: Only the twins of these; all by default.
        level: The confidence level.
    """
    check_splits(runs, splits)
    asked = splits or runs.splits
    pairs = [(s, k) for s in asked for k in TWIN_KINDS if companion(s, k) in runs.splits]
    if not pairs:
        raise RunsError(
            "no run here answered twins; write 'twins: [flip, keep]' in the recipe and run it again"
        )
    own, traits = columns_of(runs, by)
    apart = [*(c for c in varying(runs) if c not in own), *own]
    about = {row["run"]: tuple(row[c] for c in apart) for row in runs.table.to_pylist()}
    rows: list[dict[str, Any]] = []
    for split, kind in pairs:
        for values, group in _groups(runs, split, kind, traits, about).items():
            named = dict(zip([*apart, *traits], values, strict=True))
            rows += [
                {**named, "split": split, "twin": kind, **_row(group, measure, level)}
                for measure in (BOTH, FAULTS[kind])
            ]
    if not rows:
        raise RunsError("no item of these splits has a twin, so there is nothing to score")
    columns = [
        *apart,
        *traits,
        "split",
        "twin",
        "measure",
        "share",
        "low",
        "high",
        "pairs",
        "seeds",
    ]
    return ResultTable(columns, rows)


def _row(group: TwinPairs, measure: str, level: float) -> dict[str, Any]:
    estimate = group.share(measure, level)
    return {
        "measure": measure,
        "share": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
        "pairs": max(len(pairs) for pairs in group.runs.values()),
        "seeds": len(group.runs),
    }


def _groups(
    runs: Runs,
    split: str,
    kind: TwinKind,
    traits: Sequence[str],
    about: Mapping[str, tuple[Any, ...]],
) -> dict[tuple[Any, ...], TwinPairs]:
    """The pairs of a split, by the columns and traits that are asked for."""
    originals = {(run, index): row for run, index, row in _scored(runs, split)}
    groups: dict[tuple[Any, ...], TwinPairs] = {}
    for run, index, (right, found) in _scored(runs, companion(split, kind)):
        original = originals.get((run, index))
        if original is None or not found.get("edit"):  # the item has no such twin
            continue
        known = {**original[1], **{name: found.get(name) for name in TRAITS}}
        values = (*about[run], *(known.get(name) for name in traits))
        group = groups.setdefault(values, TwinPairs())
        group.runs.setdefault(run, {})[index] = (original[0], right)
    return dict(sorted(groups.items(), key=lambda item: tuple(map(str, item[0]))))


def _scored(runs: Runs, split: str) -> Iterator[tuple[str, int, tuple[bool, dict[str, Any]]]]:
    """Run, index, whether the answer is right, and the traits (with the task) of each answer."""
    wanted = ["index", "score", "task", "traits"]
    for row in runs.predictions(split, wanted).to_pylist():
        traits = {**dict(row["traits"] or ()), "task": row["task"]}
        right = row["score"] is not None and row["score"] >= RIGHT
        yield row["run"], row["index"], (right, traits)
