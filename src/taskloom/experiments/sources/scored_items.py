"""Items in a score file: the traits and official answer of each item, and how each run answered it.

    "items": {"1f3a…": {"traits": ["answer", "question", "support"], "kinds": [["garden", "where-O",
    "2"]], "of": [0, 0]}}

A kind is a combination of values, and `of` has the kind of each item in the order of the answers. A
group then names the items of each split and has the answers of each seed. `scores` has one digit
per item (or is a list if items can be partly right), and `predictions` has indices into `texts`:

    "items": {"mix": "1f3a…"}, "texts": ["garden", "park"], "answers": {"0": {"mix": {"scores":
    "10", "predictions": [0, 1]}}}

A hundred runs on 3,000 items take a megabyte, whereas their predictions.parquet files take a
hundred.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pydantic import Field, model_validator

from taskloom.core.arrow import column
from taskloom.core.files import json_digest
from taskloom.experiments.files import PREDICTION_COLUMNS
from taskloom.recipe import Fields

ANSWER = "answer"
"""Name of the official answer among the traits of an item. A trait with the same name is not kept.
"""

TASK = "task"
"""Name under which the task of an item is kept, if requested."""


class ItemTableFields(Fields):
    """The items of a split. `traits` are names, `kinds` are combinations of their values, and `of`
    is the kind of each item.
    """

    traits: list[str]
    kinds: list[list[str | None]]
    of: list[int]

    @model_validator(mode="after")
    def _whole(self) -> ItemTableFields:
        if any(len(kind) != len(self.traits) for kind in self.kinds):
            raise ValueError("every kind must have a value or null for each trait")
        if any(not 0 <= place < len(self.kinds) for place in self.of):
            raise ValueError("'of' must contain indices into 'kinds'")
        return self


class AnswerFields(Fields):
    """A run's answers to the items of a split."""

    scores: str | list[float]
    predictions: list[int] = Field(default_factory=list)

    def values(self) -> list[float]:
        """Score of each item."""
        return (
            [float(digit) for digit in self.scores]
            if isinstance(self.scores, str)
            else list(self.scores)
        )

    @model_validator(mode="after")
    def _digits(self) -> AnswerFields:
        if isinstance(self.scores, str) and set(self.scores) - {"0", "1"}:
            raise ValueError(
                "scores as text must be 0 or 1 for each item; use a list for other scores"
            )
        return self


def pack_items(rows: pa.Table, traits: Sequence[str]) -> dict[str, Any]:
    """Convert a split's predictions to items with the requested traits.

    Args:
        rows: Columns `targets`, `traits` and `task` of the predictions of one run and split.
        traits: Names of traits, or `task`. The official answer is always kept.
    """
    names = [ANSWER, *(name for name in traits if name != ANSWER)]
    kinds: dict[tuple[str | None, ...], int] = {}
    of = []
    columns = (rows[name].to_pylist() for name in ("targets", "traits", "task"))
    for targets, pairs, task in zip(*columns, strict=True):
        answer = targets[0] if targets else None
        known = {TASK: task, **dict(pairs or ()), ANSWER: answer}
        kind = tuple(known.get(name) for name in names)
        # A new kind gets the next number.
        of.append(kinds.setdefault(kind, len(kinds)))
    return {"traits": names, "kinds": [list(kind) for kind in kinds], "of": of}


def pack_answers(rows: pa.Table, texts: dict[str, int]) -> dict[str, Any]:
    """Read the scores and predictions of one run and split, in the form of a score file. New texts
    are added to `texts`.

    Args:
        rows: Columns `score` and `prediction`.
        texts: Indices of the texts that the group already has.
    """
    scores = rows["score"].to_pylist()
    whole = all(score in (0.0, 1.0) for score in scores)
    return {
        "scores": "".join(str(int(score)) for score in scores) if whole else scores,
        "predictions": [
            texts.setdefault(str(text), len(texts)) for text in rows["prediction"].to_pylist()
        ],
    }


def items_key(items: Mapping[str, Any]) -> str:
    """Name of a table of items in a file."""
    return json_digest(dict(items), 6)


def unpack(
    split: str, items: ItemTableFields, answers: AnswerFields, texts: Sequence[str]
) -> pa.Table:
    """Return rows as in predictions.parquet, without inputs. Indices count the answered items."""
    n = len(items.of)
    kinds = [items.kinds[place] for place in items.of]
    traits = [
        [(k, v) for k, v in zip(items.traits, kind, strict=True) if v is not None] for kind in kinds
    ]
    targets = [[v for k, v in pairs if k == ANSWER] for pairs in traits]
    tasks = [dict(pairs).get(TASK, "") for pairs in traits]
    predictions: list[str | None] = [texts[place] for place in answers.predictions]
    columns: dict[str, Iterable[Any]] = {
        "split": [split] * n,
        "index": range(n),
        "task": tasks,
        "input": [None] * n,
        "targets": targets,
        "prediction": predictions or [None] * n,
        "score": answers.values(),
        "traits": [[pair for pair in pairs if pair[0] != ANSWER] for pairs in traits],
        "candidates": [None] * n,
        "logprobs": [None] * n,
    }
    arrays = {}
    for name, values in columns.items():
        kind = PREDICTION_COLUMNS.field(name).type
        plain = pa.string() if name == "split" else kind
        arrays[name] = column(list(values), plain).cast(kind)
    return pa.table(arrays, schema=PREDICTION_COLUMNS)
