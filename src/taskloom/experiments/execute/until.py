"""Asking until certain: items are asked in batches, and only as many as a decision needs.

A learner that answers without training can be asked item by item. After each batch, a confidence
sequence gives an interval for its accuracy that is valid however often one looks at it, so asking
may stop as soon as the interval is narrow enough, or a paired difference excludes zero. A shared
budget is spent on the most uncertain cell at each step.

Items come in a keyed random order that depends only on data and split. All learners are asked the
same items, and the same seeds give the same items. After its `n` rows, a split continues with
further rounds of rows (`Split.rounds`). Most splits can be drawn without end. If a split has no
more items, its accuracy on them is known exactly. Answers are written to a journal. An interrupted
experiment reads it, makes the same decisions and asks only the remaining questions.
"""

from __future__ import annotations

import itertools
import math
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taskloom.core import shards
from taskloom.core.errors import TaskloomError
from taskloom.core.example import Example
from taskloom.core.files import append_journal, json_digest, read_journal
from taskloom.core.scoring import chance_of
from taskloom.core.seeding import Key
from taskloom.experiments.execute.driver import (
    Claims,
    ExperimentState,
    Watch,
    clear_failure,
    record_failure,
)
from taskloom.experiments.execute.jobs import data_job
from taskloom.experiments.execute.predictions import (
    SplitPart,
    asked_as,
    data_folder,
    drawn_table,
    part_of,
    read_examples,
    to_score,
)
from taskloom.experiments.execute.worker import (
    AskedRecord,
    Chosen,
    JobProgress,
    TrainedHow,
    finish_run,
    fit_alone,
    perform,
    reason,
)
from taskloom.experiments.spec.cells import Cell, EvaluatedSplit, asked_group, cell_names
from taskloom.experiments.spec.experiment import ExperimentError, Until
from taskloom.experiments.statistics.sequences import ConfidenceSequence
from taskloom.experiments.store import Store

if TYPE_CHECKING:
    from taskloom.experiments.execute.trackers import Tracking

BATCH = 20
"""Items per batch. Small, because asking stops only between batches, but large enough to keep a
local model or an endpoint busy.
"""

EQUAL = 0.02
"""Maximum difference in accuracy at which two learners count as equal. Without it, comparing equal
learners on an endless split would never stop.
"""

FOLDER = "asking"
"""Folder of the journals in a store's `work`."""

LEVEL = 0.95
"""Confidence level of all intervals. For several differences it is raised so that all hold
together.
"""


@dataclass
class AskedSplit:
    """A split of a cell that is being asked.

    Attributes:
        cell: The cell.
        test: The split.
        part: Rows of the split.
        examples: Its examples, by position.
        journal: File of the answers so far.
        scores: Scores so far, in the order of asking.
        stopped: Reason why asking stopped; empty while it continues.
        order: Positions of its examples, in the order in which they are asked.
        sequence: Interval for its accuracy.
    """

    cell: Cell
    test: EvaluatedSplit
    part: SplitPart
    examples: list[Example]
    journal: Path
    scores: list[float] = field(default_factory=list)
    stopped: str = ""
    known: dict[int, tuple[str, dict[str, Any] | None]] = field(default_factory=dict)
    order: list[int] = field(init=False)
    sequence: ConfidenceSequence = field(init=False)

    def __post_init__(self) -> None:
        self.order = list(self._shuffled)
        self.sequence = ConfidenceSequence(level=LEVEL, population=self.available)
        for split, position, answer, reply in read_journal(self.journal, 4):
            if split == self.test.name:
                self.known[position] = (answer, reply)

    @cached_property
    def _shuffled(self) -> list[int]:
        """Order of the rows of each round."""
        test, n = self.test, len(self.examples)
        key = Key(json_digest([test.data.key, test.split, test.limit, self.cell.task]))
        order = key.permutation(n, "until")
        return [int(order(place)) for place in range(n)]

    @cached_property
    def chance(self) -> float:
        """Chance score: that of a uniform guess among all answers of the split."""
        return chance_of([self.examples[i].targets for i in self._shuffled])

    @property
    def available(self) -> float:
        """Number of items that can be drawn."""
        rounds = 1 if self.part.drawn is None else self.part.drawn.rounds
        return rounds * len(self._shuffled)

    def _draw_more(self) -> None:
        """Draw another round of rows."""
        first, n = len(self.examples), len(self._shuffled)
        self.examples += shards.to_examples(drawn_table(self.part, first, first + n))
        self.order += [first + place for place in self._shuffled]

    @property
    def until(self) -> Until:
        """Conditions for stopping."""
        assert self.cell.until is not None
        return self.cell.until

    @property
    def place(self) -> tuple[str, ...]:
        """Key that is equal for splits with the same items in the same order."""
        test = self.test
        return (test.data.key, test.split, str(test.limit), self.cell.task, str(self.cell.seed))

    @property
    def asked(self) -> list[int]:
        """Positions of the items that were asked so far."""
        return self.order[: len(self.scores)]

    @property
    def half_width(self) -> float:
        """Half the width of the accuracy's interval."""
        low, high = self.sequence.interval
        return (high - low) / 2

    def total(self, name: str) -> float | None:
        """Sum of `tokens_in`, `tokens_out` or `cost`; None if it is not known for every reply."""
        values = [(self.known[i][1] or {}).get(name) for i in self.asked]
        return None if None in values else sum(value for value in values if value is not None)

    def spent(self, unit: str) -> float:
        """Amount spent, in the unit of the budget."""
        if unit == "items":
            return len(self.scores)
        names = {"tok": ("tokens_in", "tokens_out"), "usd": ("cost",)}[unit]
        totals = [self.total(name) for name in names]
        if None in totals:
            raise TaskloomError(
                f"{self.cell.learner_name} does not report {' and '.join(names)}, so a budget in"
                f" {unit} cannot be kept; give a budget in items, or the prices of an endpoint"
            )
        return sum(total for total in totals if total is not None)

    def ask(self, model: Any, most: float) -> None:
        """Ask the next batch.

        Args:
            model: The fitted learner.
            most: Maximum number of items.
        """
        begin = len(self.scores)
        if begin + BATCH > len(self.order) and len(self.order) < self.available:
            self._draw_more()
        batch = self.order[begin : begin + int(min(BATCH, most))]
        new = [i for i in batch if i not in self.known]
        if new:
            asked = asked_as(model, self.test.data, [self.examples[i] for i in new])
            answers = model.answer([example.input for example in asked])
            replies = list(getattr(model, "replies", ())) or [None] * len(new)
            self.known |= dict(zip(new, zip(answers, replies, strict=True), strict=True))
            append_journal(self.journal, ((self.test.name, i, *self.known[i]) for i in new))
        scorer = self.test.data.plan.scorer
        answers = to_score(model, [self.known[i][0] for i in batch])
        scores = [scorer.score(a, self.examples[i]) for a, i in zip(answers, batch, strict=True)]
        self.scores += scores
        self.sequence.add(scores)


@dataclass
class Difference:
    """The paired difference of two learners on the same items.

    Attributes:
        first: One learner's split.
        second: The other's.
        sequence: Interval for the mean of first minus second.
    """

    first: AskedSplit
    second: AskedSplit
    sequence: ConfidenceSequence

    def update(self) -> None:
        """Add the items that both learners have answered by now."""
        both = slice(self.sequence.n, min(len(self.first.scores), len(self.second.scores)))
        if both.start < both.stop:
            self.sequence.add(np.subtract(self.first.scores[both], self.second.scores[both]))

    @property
    def verdict(self) -> str:
        """Verdict on the two learners; empty while it is open."""
        return verdict(self.sequence, 0.0)


def verdict(sequence: ConfidenceSequence, border: float) -> str:
    """`decided` if the interval excludes `border`, `equal within …` if the whole interval is within
    `EQUAL` of it, otherwise empty.
    """
    if sequence.excludes(border):
        return "decided"
    low, high = sequence.interval
    return f"equal within {EQUAL}" if max(border - low, high - border) <= EQUAL else ""


class Asking:
    """All splits that are asked together.

    Args:
        splits: The splits.
        until: When to stop.
    """

    def __init__(self, splits: Sequence[AskedSplit], until: Until) -> None:
        self.splits = list(splits)
        self.until = until
        pairs = [
            (a, b)
            for a, b in itertools.combinations(self.splits, 2)
            if until.goal == "decided" and a.place == b.place
        ]
        level = 1.0 - (1.0 - LEVEL) / max(1, len(pairs))
        self.differences = [
            Difference(a, b, ConfidenceSequence(-1.0, 1.0, level, a.available)) for a, b in pairs
        ]

    @property
    def left(self) -> float:
        """Remaining budget, in its unit."""
        return self.until.amount - sum(one.spent(self.until.unit) for one in self.splits)

    def next_splits(self) -> list[AskedSplit]:
        """The splits to ask now: all open ones or, with a budget, the most uncertain one."""
        still_open = [one for one in self.splits if not one.stopped]
        if not self.until.budget:
            return still_open
        still_open.sort(key=lambda one: (-self._uncertainty(one), len(one.scores)))
        return still_open[:1]

    def _uncertainty(self, one: AskedSplit) -> float:
        if not one.scores:
            return math.inf
        widths = [
            difference.sequence.interval[1] - difference.sequence.interval[0]
            for difference in self._of(one)
            if not difference.verdict
        ]
        return max(widths, default=2 * one.half_width) / 2

    def _of(self, one: AskedSplit) -> list[Difference]:
        return [d for d in self.differences if one is d.first or one is d.second]

    def update(self) -> None:
        """Stop the splits that are certain, have no more items, or share a budget that is spent."""
        for difference in self.differences:
            difference.update()
        spent = bool(self.until.budget) and self.left <= 0
        for one in self.splits:
            if one.stopped or not one.scores:
                continue
            exhausted = len(one.scores) == one.available
            one.stopped = "all items asked" if exhausted else self._verdict(one)
        for one in self.splits:
            if spent and not one.stopped:
                one.stopped = "budget spent"

    def _verdict(self, one: AskedSplit) -> str:
        """Why no more items of a split are needed; empty if they are."""
        if self.until.goal is None:
            return ""
        if self.until.goal != "decided":
            return "certain" if one.half_width <= float(self.until.goal) else ""
        differences = self._of(one)
        if not differences:
            return verdict(one.sequence, one.chance)
        verdicts = [difference.verdict for difference in differences]
        return min(verdicts)  # empty if one is open; "decided" if any is

    def record(self, one: AskedSplit) -> AskedRecord:
        """Record of how a split was asked, for the run."""
        low, high = one.sequence.interval if one.scores else (None, None)
        summary: dict[str, Any] = {
            "stopped": one.stopped,
            "items": len(one.scores),
            "of": None if math.isinf(one.available) else int(one.available),
            "low": low,
            "high": high,
        }
        for name in ("tokens_in", "tokens_out", "cost"):
            total = one.total(name)
            if one.scores and total is not None:
                summary[name] = total
        if self.until.goal == "decided":
            differences = [_difference_record(d, one) for d in self._of(one)]
            summary |= {"differences": differences} if differences else {"chance": one.chance}
        replies = [one.known[i][1] for i in sorted(one.asked)]
        return AskedRecord(summary, [reply for reply in replies if reply is not None])


def _difference_record(difference: Difference, one: AskedSplit) -> dict[str, Any]:
    """Record of a difference from the perspective of one of its two learners."""
    sign, other = (1, difference.second) if one is difference.first else (-1, difference.first)
    ends = sorted(sign * end for end in difference.sequence.interval)
    return {
        "other": other.cell.run,
        "learner": other.cell.learner_name,
        "items": difference.sequence.n,
        "mean": sign * difference.sequence.mean,
        "low": ends[0],
        "high": ends[1],
    }


def ask_until_certain(
    store: Store,
    cells: Sequence[Cell],
    state: ExperimentState,
    watch: Watch | None,
    tracking: Tracking | None,
) -> None:
    """Ask the missing cells and publish their runs.

    Args:
        store: Store for the runs.
        cells: All cells of the experiment that are asked until certain.
        state: The experiment's progress, which is kept up to date.
        watch: Called with the state.
        tracking: Trackers of the finished runs.
    """
    missing = [cell for cell in cells if cell.run not in store]
    state.total += len(cells)
    state.before += len(cells) - len(missing)
    if not missing:
        return
    until = cells[0].until
    assert until is not None
    if until.shared and until.group != asked_group(cells):
        raise ExperimentError(
            "until: these cells were asked together with others, which decided when to stop; run"
            " the experiment that has all of them"
        )
    # Where to stop depends on the other cells, whose answers come from the journal or the cache.
    together = list(cells) if until.shared else missing
    claims = Claims(store.path / "work" / "claims")
    try:
        for cell in missing:
            if not claims.take(cell.run):
                raise TaskloomError(f"another process asks {cell} now; wait for it to finish")
        Questioner(store, until, state, watch, tracking).run(together, missing)
    finally:
        claims.close()
    if all(cell.run in store for cell in cells):
        shutil.rmtree(store.path / "work" / FOLDER, ignore_errors=True)


@dataclass
class Questioner:
    """Asks cells in this process. See `ask_until_certain`."""

    store: Store
    until: Until
    state: ExperimentState
    watch: Watch | None
    tracking: Tracking | None
    models: dict[str, Chosen] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def run(self, cells: Sequence[Cell], missing: Sequence[Cell]) -> None:
        """Ask all cells, then write the missing runs."""
        self.names = cell_names(cells)
        groups = [list(cells)] if self.until.shared else [[cell] for cell in cells]
        for group in groups:
            open_cells = [cell for cell in group if cell in missing]
            try:
                asking = self._ask(group)
            except Exception as error:
                why = reason(error)
                for cell in open_cells:
                    self._fail(cell, why)
                continue
            for cell in open_cells:
                self._finish(cell, asking)

    def _ask(self, cells: Sequence[Cell]) -> Asking:
        splits = [self._open(cell, test) for cell in cells for test in cell.tests]
        asking = Asking(splits, self.until)
        while chosen := asking.next_splits():
            for one in chosen:
                items_left = asking.left if self.until.unit == "items" else math.inf
                began = time.monotonic()
                one.ask(self._model(one.cell), max(1.0, items_left))
                run = one.cell.run
                self.seconds[run] = self.seconds.get(run, 0.0) + time.monotonic() - began
            asking.update()
            self._report(asking)
        return asking

    def _open(self, cell: Cell, test: EvaluatedSplit) -> AskedSplit:
        for data in cell.datasets:
            if not (data_folder(self.store, data.key) / "manifest.json").is_file():
                failed = perform(data_job(self.store, cell, data)).failed
                if failed:
                    raise TaskloomError(f"its data could not be made: {failed[data.key]}")
        part = part_of(self.store, cell, test.data, test.split, test.limit)
        examples = list(read_examples(part))
        if not examples:
            raise TaskloomError(f"{cell.data.name} has no item in the split '{test.name}'")
        return AskedSplit(cell, test, part, examples, self._journal(cell))

    def _journal(self, cell: Cell) -> Path:
        return self.store.path / "work" / FOLDER / f"{cell.run}.jsonl"

    def _model(self, cell: Cell) -> Any:
        """The fitted learner of a cell, opened on first use."""
        if cell.run not in self.models:
            folder = self.store.path / "work" / FOLDER / cell.run
            self.models[cell.run] = fit_alone(self.store, cell, folder)
        return self.models[cell.run].model

    def _report(self, asking: Asking) -> None:
        if self.watch is None:
            return
        asked = sum(len(one.scores) for one in asking.splits)
        total = sum(len(one.order) for one in asking.splits)
        self.state.running = len({one.cell.run for one in asking.splits if not one.stopped})
        self.state.jobs = [(JobProgress(answered=asked, inputs=total), 1)]
        self.watch(self.state)

    def _fail(self, cell: Cell, why: str) -> None:
        self.state.failed[cell.run] = why
        record_failure(self.store, cell, self.names[cell.run], why)

    def _finish(self, cell: Cell, asking: Asking) -> None:
        own = {one.test.name: one for one in asking.splits if one.cell is cell}
        unasked = [name for name, one in own.items() if not one.scores]
        if unasked:
            why = f"the budget was spent before anything of '{unasked[0]}' was asked; raise it"
            self._fail(cell, why)
            return
        tests = tuple(replace(t, rows=tuple(sorted(own[t.name].asked))) for t in cell.tests)
        answers = {t.name: [own[t.name].known[i][0] for i in t.rows] for t in tests}
        records = {name: asking.record(one) for name, one in own.items()}
        self._model(cell)  # a resumed run may have asked nothing
        published: list[str] = []
        failed = finish_run(
            self.store,
            replace(cell, tests=tests),
            self.models[cell.run],
            self.store.path / "work" / FOLDER / cell.run,
            TrainedHow(self.seconds.get(cell.run, 0.0)),
            published,
            answers,
            records,
        )
        if failed:
            self._fail(cell, failed[cell.run])
            return
        self.state.done += 1
        clear_failure(self.store, cell.run)
        if published and self.tracking:
            self.tracking.finished(cell.run)
