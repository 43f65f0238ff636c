"""Answers of a fitted learner, scored: the rows of predictions.parquet and the scores of each
split.

Datasets are read once per worker, since many cells share them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from taskloom.core import shards
from taskloom.core.arrow import column
from taskloom.core.descriptions import Describer, task_column
from taskloom.core.errors import DataError, TaskloomError
from taskloom.core.example import Example
from taskloom.core.files import json_digest
from taskloom.core.plan import Split
from taskloom.core.scoring import answer_or_none, any_of, form_of
from taskloom.core.seeding import Key
from taskloom.data import Dataset, Examples, dataset
from taskloom.experiments import files as run_files
from taskloom.experiments.spec.cell_data import CellData
from taskloom.experiments.spec.cells import Cell, EvaluatedSplit
from taskloom.experiments.store import Store
from taskloom.learners.interface import Fitted, Learner, report_answers
from taskloom.recipe import Fields

MOST_CANDIDATES = 200
"""Maximum number of different answers for which the log-probabilities of all are kept. Each costs a
forward pass per example.
"""


def data_folder(store: Store, key: str) -> Path:
    """The folder of a dataset in a store."""
    return store.path / "data" / key


@contextlib.contextmanager
def _with_remedy(folder: Path) -> Iterator[None]:
    """Add a remedy to errors about a damaged dataset of a store, which users did not make
    themselves.
    """
    try:
        yield
    except DataError as error:
        raise TaskloomError(
            f"{error}; in a run store: delete {folder}, and rerun the 'taskloom run' command to"
            " make it"
        ) from error


@lru_cache(maxsize=4)
def dataset_in(folder: Path) -> Dataset:
    """Dataset in a folder."""
    with _with_remedy(folder):
        return dataset.load(folder)


@lru_cache(maxsize=16)
def split_in(folder: Path, split: str) -> Examples:
    """Split of the dataset in a folder."""
    with _with_remedy(folder):
        return dataset_in(folder)[split]


@dataclass(frozen=True, slots=True)
class SplitPart:
    """The rows of a split that a cell uses.

    Attributes:
        folder: The folder of the dataset.
        split: The split.
        by: `task`, or the trait that names the task of a row.
        task: The only task that is used; empty: all.
        limit: Maximum rows, spread over the split; 0: all.
        rows: Positions of the rows that are used, among those that the limit allows; empty: all.
            Positions beyond the split's size are rows that a larger split would have.
        drawn: The split of the plan, if it has further rounds and all its rows are used.
        traits: The plan's traits.
    """

    folder: Path
    split: str
    by: str = "task"
    task: str = ""
    limit: int = 0
    rows: tuple[int, ...] = ()
    drawn: Split | None = field(default=None, compare=False)
    traits: Mapping[str, type] = field(default_factory=dict, compare=False)


def part_of(store: Store, cell: Cell, data: CellData, split: str, limit: int = 0) -> SplitPart:
    """Build the part of a split that a cell learns from or answers."""
    folder = data_folder(store, data.key)
    by = data.plan.tasks.by if cell.task else "task"
    planned = data.plan.split(split)
    whole = planned.rounds > 1 and not cell.task and not limit
    drawn = planned if whole else None
    return SplitPart(folder, split, by, cell.task, limit, drawn=drawn, traits=data.plan.traits)


def read_part(part: SplitPart) -> Examples:
    """Examples of a part."""
    rows = split_in(part.folder, part.split)
    if part.task:
        own = pc.fill_null(pc.equal(task_column(rows.table, part.by), part.task), False)
        rows = Examples(rows.table.filter(own), rows.manifest, part.split)
    if part.limit and len(rows) > part.limit:
        rows = _chosen(rows, spread(len(rows), part.limit), part.split)
    if part.drawn is not None and part.rows and max(part.rows) >= len(rows):
        more = drawn_table(part, len(rows), max(part.rows) + 1).cast(rows.table.schema)
        rows = Examples(pa.concat_tables([rows.table, more]), rows.manifest, part.split)
    return _chosen(rows, part.rows, part.split) if part.rows else rows


def drawn_table(part: SplitPart, start: int, stop: int) -> pa.Table:
    """Rows start..stop of a split, generated rather than read."""
    assert part.drawn is not None
    return shards.to_table(part.drawn.rows(start, stop), start, part.traits)


def spread(n: int, limit: int) -> list[int]:
    """Choose `limit` of n positions: one drawn at random from each of `limit` stretches of equal
    length.

    Some splits are sorted by task or by length, so their first rows would be of one kind. Others
    have a period, so taking every tenth row would have the same effect: bAbI 1 asks a question
    after 2, 4, 6, 8 and 10 sentences. The draw depends only on the two numbers, so a split and its
    twins keep the same rows.
    """
    rng = Key("limit", n, limit).random()
    return [rng.randrange(i * n // limit, (i + 1) * n // limit) for i in range(limit)]


def _chosen(rows: Examples, positions: Sequence[int], split: str) -> Examples:
    chosen = rows.table.take(pa.array(positions, pa.int64()))
    return Examples(chosen, rows.manifest, split)


@lru_cache(maxsize=16)
def read_examples(part: SplitPart) -> list[Example]:
    """Examples of a part as a list."""
    return list(read_part(part))


def training_rows(store: Store, cell: Cell) -> Examples | list[Example]:
    """Rows that a cell learns from; for a mix, those of its parts in the order of the mix."""
    if not cell.train:
        return []
    if isinstance(cell.data, CellData):
        return read_part(
            part_of(store, cell.of_all_tasks if cell.zero_shot else cell, cell.data, cell.train)
        )
    parts = [read_examples(part_of(store, cell, part, cell.train)) for part in cell.data.parts]
    for one, rows in zip(cell.data.parts, parts, strict=True):
        if not rows:
            raise TaskloomError(
                f"{one.name} has no row in the split '{cell.train}', so it cannot be mixed in"
            )
    return [parts[part][row] for part, row in cell.data.order([len(rows) for rows in parts])]


def asked_as(
    model: Fitted | Learner, data: CellData, examples: Iterable[Example]
) -> Iterable[Example]:
    """Examples as presented to a model. For a chat model with `described`, the description of the
    task precedes each input, unless the recipe has put it there.
    """
    settings = getattr(model, "learner", model)
    if not getattr(settings, "described", False) or data.recipe.described is not None:
        return examples
    describer = Describer(data.plan, "instruction")
    return [describer.described(example) for example in examples]


def choosing_rows(store: Store, cell: Cell) -> list[Example]:
    """Rows of the split by which tries are chosen; for a mix, those of all parts that have it."""
    split = cell.best_of.split
    parts = [part for part in cell.data.parts if split in (s.name for s in part.plan.splits)]
    return [
        example for part in parts for example in read_examples(part_of(store, cell, part, split))
    ]


def mean_score(store: Store, cell: Cell, model: Fitted, split: str) -> float:
    """Mean score on a split of the training data; for a mix, over the parts that have it."""
    means = []
    for part in cell.data.parts:
        if split not in (s.name for s in part.plan.splits):
            continue
        examples = read_examples(part_of(store, cell, part, split))
        predictions = model.answer([e.input for e in asked_as(model, part, examples)])
        scored = to_score(model, predictions)
        scores = [part.plan.scorer.score(p, e) for p, e in zip(scored, examples, strict=True)]
        if scores:
            means.append(sum(scores) / len(scores))
    if not means:
        raise TaskloomError(
            f"best_of: {cell.data.name} has no row in the split '{split}', which chooses"
        )
    return sum(means) / len(means)


@lru_cache(maxsize=16)
def _data_columns(part: SplitPart, split: str) -> pa.Table:
    """Columns of predictions.parquet that come from the data. Runs of one recipe share them."""
    table = read_part(part).table
    examples = read_examples(part)
    traits = [
        [(k, v if isinstance(v, str) else json.dumps(v)) for k, v in e.traits.items()]
        for e in examples
    ]
    named = pa.DictionaryArray.from_arrays(
        column([0] * len(examples), pa.int32()), column([split], pa.string())
    )
    columns = {"split": named, **{c: table[c] for c in ("index", "task", "input", "targets")}}
    return pa.table(
        {**columns, "traits": column(traits, run_files.PREDICTION_COLUMNS.field("traits").type)}
    )


def score_split(
    store: Store,
    cell: Cell,
    model: Fitted,
    test: EvaluatedSplit,
    predictions: Sequence[str] | None = None,
) -> tuple[pa.Table, dict[str, Any]]:
    """Score one split, after answering it if necessary. Return its rows of predictions.parquet and
    its scores.
    """
    whole = part_of(store, cell, test.data, test.split, test.limit)
    part, scorer = replace(whole, rows=test.rows), test.data.plan.scorer
    examples = read_examples(part)
    if predictions is None:
        inputs = [e.input for e in asked_as(model, test.data, examples)]
        report_answers(0, len(inputs))
        predictions = model.answer(inputs)
        report_answers(len(inputs), len(inputs))
    scored_texts = to_score(model, predictions)
    scores = [scorer.score(p, e) for p, e in zip(scored_texts, examples, strict=True)]
    candidates, logprobs = _log_probabilities(store, cell, model, examples)
    table = _data_columns(part, test.name)
    table = table.append_column("prediction", column(predictions, pa.string()))
    table = table.append_column("score", column(scores, pa.float64()))
    table = table.append_column("candidates", column(candidates, pa.list_(pa.string())))
    table = table.append_column("logprobs", column(logprobs, pa.list_(pa.float64())))
    scored = {
        **summary([e.task for e in examples], scores),
        **suite_scores(test.data, examples, scored_texts),
    }
    scored["items"] = _items_digest(PartOfData(test.data.key, part, test.data))
    return (
        table.select(run_files.PREDICTION_COLUMNS.names).cast(run_files.PREDICTION_COLUMNS),
        scored,
    )


def to_score(model: Fitted, predictions: Sequence[str]) -> list[str]:
    """Texts to score. A reply of a chat model without an answer is wrong, even if the scorer would
    accept an empty text.
    """
    keeps_replies = getattr(model, "replies", None) is not None
    return list(map(answer_or_none, predictions)) if keeps_replies else list(predictions)


def reply_rows(
    split: str, part: pa.Table, records: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Rows of replies.parquet for a split that was answered; empty unless the learner keeps whole
    replies (`replies`, one record per input of its last call).
    """
    if len(records) != part.num_rows:
        return []
    form = form_of(part["targets"].to_pylist())
    rows = []
    for index, record in zip(part["index"].to_pylist(), records, strict=True):
        row = {"split": split, "index": index, **record}
        rows.append({**row, "in_form": _is_in_form(record, form)})
    return rows


def _is_in_form(record: Mapping[str, Any], form: Example | None) -> bool:
    """True if an answer is in form: it is the answer of some item or, if there are too many
    different answers, it is in the position that the prompt requests.
    """
    if record["outcome"] != "answered":
        return False
    if form is not None:
        return any_of.score(record["answer"], form) == 1
    one_line = len(record["reply"].strip().splitlines()) == 1
    return record["rule"] != "last line" or one_line


def write_replies(folder: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write replies.parquet. The writer of the run flushes it with the other files."""
    with run_files.writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist(list(rows), run_files.REPLY_COLUMNS)
        pq.write_table(table, folder / run_files.REPLIES, compression="zstd")


def reply_measures(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Measures of the replies to a split: the share in form, mean tokens of a reply, and the cost
    of all of them.
    """
    if not rows:
        return {}
    measures: dict[str, float] = {"in_form": sum(row["in_form"] for row in rows) / len(rows)}
    for name in ("tokens_in", "tokens_out", "tokens_thinking"):
        known = [row[name] for row in rows if row[name] is not None]
        if known:
            measures[name] = sum(known) / len(known)
    costs = [row["cost"] for row in rows]
    if None not in costs:
        measures["cost"] = sum(costs)
    return measures


def reply_counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Number of replies by split and outcome: `answered`, or why there is no answer."""
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        split = counts.setdefault(row["split"], {})
        split[row["outcome"]] = split.get(row["outcome"], 0) + 1
    return counts


def items_digest(data: CellData, part: SplitPart) -> str:
    """Digest of the items of a part, independent of their layout: all layouts of one passage are
    one item.

    An item is identified by its key or, without one, by its input in the default layout and the
    same world.
    """
    fields, suite = data.recipe.fields, data.recipe.suite
    world = ""
    if isinstance(fields, Fields) and "presentation" in fields.field_kinds().values():
        world = json_digest([suite.name, suite.version, fields.key_fields(), data.seed])
    plain = data.plainly()
    if plain is data:
        return json_digest([world, [e.key or e.input for e in read_examples(part)]])
    used = read_part(part).table["index"].to_pylist()
    size = max([plain.plan.split(part.split).n, *(index + 1 for index in used)])
    items = _items(WholeSplit(plain.key, part.split, size, plain))
    return json_digest([world, [items[index] for index in used]])


@dataclass(frozen=True, slots=True)
class PartOfData:
    """A part of some data, identified by the key of the data and the selection."""

    key: str
    part: SplitPart
    data: CellData = field(compare=False)


@lru_cache(maxsize=16)
def _items_digest(whole: PartOfData) -> str:
    """Digest of the items of a part. Cached, because many cells share a part."""
    return items_digest(whole.data, whole.part)


@dataclass(frozen=True, slots=True)
class WholeSplit:
    """A split of some data, identified by the key of the data, its name and the number of rows. It
    has no folder, because all layouts of the data share it.
    """

    key: str
    split: str
    size: int
    data: CellData = field(compare=False)


@lru_cache(maxsize=16)
def _items(whole: WholeSplit) -> list[str]:
    """Keys or inputs of a split, which is generated for this purpose."""
    plan = whole.data.plan
    split = plan.split(whole.split)
    table = shards.to_table(split.rows(0, whole.size), 0, plan.traits)
    return [
        key or text
        for key, text in zip(table["key"].to_pylist(), table["input"].to_pylist(), strict=True)
    ]


def scorer_name(data: Iterable[CellData]) -> str:
    """Name of the scorer of the evaluated splits, or all names if there are several."""
    return "+".join(sorted({one.plan.scorer.name for one in data}))


def suite_scores(
    data: CellData, examples: Sequence[Example], predictions: Sequence[str]
) -> dict[str, Any]:
    """Scores that the suite computes for a whole split, under the key `scores`; empty if it
    computes none.
    """
    score = data.recipe.suite.run_scores
    scores = dict(score(data.plan, examples, predictions)) if score is not None and examples else {}
    return {"scores": scores} if scores else {}


def _log_probabilities(
    store: Store, cell: Cell, model: Fitted, examples: Sequence[Example]
) -> tuple[list[Any], list[Any]]:
    if cell.keep.logprobs == "none":
        return [None] * len(examples), [None] * len(examples)
    if cell.keep.logprobs == "targets":
        rows = [list(e.targets) for e in examples]
    else:
        every = sorted({e.target for e in training_rows(store, cell)})
        if len(every) > MOST_CANDIDATES:
            raise TaskloomError(
                f"keep.logprobs: {cell.data.name} has {len(every)} different answers (limit"
                f" {MOST_CANDIDATES}); keep those of the targets: logprobs: targets"
            )
        rows = [every] * len(examples)
    return rows, model.logprob([e.input for e in examples], rows)


def summary(tasks: Sequence[str], scores: Sequence[float]) -> dict[str, Any]:
    """Number and mean of scores, also by task if there are several."""
    scored: dict[str, Any] = {"n": len(scores), "score": _mean(scores)}
    names = sorted(set(tasks))
    if len(names) > 1:
        by_task: dict[str, list[float]] = {name: [] for name in names}
        for task, score in zip(tasks, scores, strict=True):
            by_task[task].append(score)
        scored["by_task"] = {name: {"n": len(s), "score": _mean(s)} for name, s in by_task.items()}
    return scored


def _mean(scores: Sequence[float]) -> float | None:
    return sum(scores) / len(scores) if scores else None
