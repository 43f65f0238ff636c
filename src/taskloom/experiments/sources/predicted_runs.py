"""Predictions of other programs as runs, which studies accept in place of a run store.

    recipe: zest/real
    set: {files: {dev: zest/dev.jsonl}}
    extract: final
    predictions:
      - {model: t5-11b, split: dev, file: t5-dev.txt}
      - {model: t5-11b, split: dev, seed: 1, file: t5-dev-1.txt}

A file has one prediction per line in the order of the examples, or records with ids, as in
`taskloom score`. With ids, the file need not cover all examples. Its path is relative to this file.
Paths in `set` are relative to the current folder, as on the command line. Predictions are scored by
the recipe's scorer. With `extract`, the answer is first extracted, and the prediction is kept as
the whole reply.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import yaml
from pydantic import Field

from taskloom.core.arrow import column
from taskloom.core.errors import DataError, nearest
from taskloom.core.example import Example
from taskloom.core.extraction import Extraction
from taskloom.core.files import json_digest
from taskloom.core.predictions import some_predictions_for
from taskloom.core.scoring import answer_or_none
from taskloom.core.shards import to_examples, to_table
from taskloom.experiments.files import PREDICTION_COLUMNS, PREDICTIONS, REPLY_COLUMNS, SCHEMA
from taskloom.experiments.record import LAST_SEED, LoadedRuns, replies_among
from taskloom.experiments.spec.cell_data import CellData, read_data
from taskloom.recipe import Fields
from taskloom.recipe.yaml_files import load, validated


class PredictionFields(Fields):
    """A file with one model's predictions for one split."""

    model: str
    split: str
    file: str
    seed: int = Field(0, ge=0, le=LAST_SEED)


class PredictedFields(Fields):
    """Files of predictions for the splits of a recipe."""

    recipe: str
    set: dict[str, Any] = Field(default_factory=dict)
    seed: int = Field(0, ge=0)
    extract: str = ""
    predictions: list[PredictionFields] = Field(min_length=1)


class PredictedRuns(LoadedRuns):
    """Predictions of other programs, read like a run store. Every model and seed is a run.

    Args:
        path: The YAML file.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._fields = validated(
            PredictedFields, load(self.path, DataError), str(self.path), DataError
        )
        block = {"recipe": self._fields.recipe, "set": self._fields.set, "seed": self._fields.seed}
        self._block = {key: value for key, value in block.items() if value}
        self._data: CellData = next(iter(read_data(self._block, {}))).parts[0]
        self._examples: dict[str, list[Example]] = {}
        self._tables: dict[str, list[pa.Table]] = {}
        self._replies: dict[str, list[pa.Table]] = {}
        how = self._fields.extract
        self._extraction = Extraction.read(how) if how else None
        for one in self._fields.predictions:
            self._add(one)

    def _add(self, one: PredictionFields) -> None:
        extract = [self._fields.extract] if self._fields.extract else []
        kind = json_digest(["predicted", self._data.recipe.digest, one.model, *extract])
        run = json_digest([kind, one.seed])
        entry = self._scores.setdefault(run, self._empty(run, kind, one))
        if one.split in entry["splits"]:
            raise DataError(
                f"{self.path} has predictions of {one.model}, seed {one.seed}, for '{one.split}'"
                " twice; give each its own seed"
            )
        numbers, replies = self._read(self.path.parent / one.file, one.split)
        whole = self._split(one.split)
        examples = [whole[number] for number in numbers]
        texts = replies
        if self._extraction is not None:
            texts = [answer_or_none(self._extraction(reply)) for reply in replies]
            kept = _reply_table(one.split, numbers, examples, replies)
            self._replies.setdefault(run, []).append(kept)
        scorer = self._data.plan.scorer
        scores = [
            scorer.score(text, example) for text, example in zip(texts, examples, strict=True)
        ]
        entry["splits"][one.split] = {"n": len(examples), "score": fmean(scores)}
        self._tables.setdefault(run, []).append(_table(one.split, numbers, examples, texts, scores))

    def _empty(self, run: str, kind: str, one: PredictionFields) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "run": run,
            "kind": kind,
            "recipe": self._data.name,
            "learner": one.model,
            "seed": one.seed,
            "fields": {f"recipe.{key}": value for key, value in self._data.fields.items()},
            "scorer": "",
            "splits": {},
            "data": self._data.recipe.digest,
        }

    def _split(self, name: str) -> list[Example]:
        if name not in self._examples:
            splits = {split.name: split for split in self._data.plan.splits}
            if name not in splits:
                raise DataError(
                    f"{self.path}: {self._data.name} has no split '{name}'; {nearest(name, splits)}"
                )
            rows = to_table(splits[name].rows(0, splits[name].n), 0, self._data.plan.traits)
            self._examples[name] = list(to_examples(rows))
        return self._examples[name]

    def _read(self, file: Path, split: str) -> tuple[Sequence[int], list[str]]:
        """Return the indices of the examples for which a file has predictions, and the
        predictions.
        """
        n = len(self._split(split))
        numbers: Sequence[int] = range(n)
        if self._data.recipe.suite.predictions is not None:
            texts = self._data.recipe.suite.predictions(file, n)
        else:
            numbers, rows = some_predictions_for(file, n, split=split)
            texts = [row.text for row in rows]
        if len(texts) != len(numbers):
            raise DataError(
                f"{file} has {len(texts):,} predictions and the split has {n:,} examples; give one"
                " for each, or ids"
            )
        if not texts:
            raise DataError(f"{file} has no prediction")
        return numbers, texts

    def config(self, run: str) -> str:
        """Return the recipe of a run. How its model was trained is unknown."""
        config = {
            "recipes": [self._block],
            "learners": [self._scores[run]["learner"]],
            "seeds": [self._scores[run]["seed"]],
        }
        return yaml.safe_dump(config, sort_keys=False)

    def rows(self, run: str, file: str, columns: Sequence[str]) -> pa.Table | None:
        """Return columns of a run's predictions. There are no curves."""
        return (
            pa.concat_tables(self._tables[run]).select(list(columns))
            if file == PREDICTIONS
            else None
        )

    def replies_to(self, run: str, split: str, indices: Sequence[int]) -> pa.Table | None:
        """Return the texts from which the answers were extracted, or None if nothing was
        extracted.
        """
        if run not in self._replies:
            return None
        return replies_among(pa.concat_tables(self._replies[run]), split, indices)

    def keeps_predictions(self, run: str) -> bool:
        """Always True, because all inputs and answers are known."""
        return True

    def environment(self, run: str) -> dict[str, Any]:
        """Always empty, because the environment of the predictions is unknown."""
        return {}


def _reply_table(
    split: str, numbers: Sequence[int], examples: Sequence[Example], replies: Sequence[str]
) -> pa.Table:
    rows = []
    for number, example, reply in zip(numbers, examples, replies, strict=True):
        asked = json.dumps([{"role": "user", "content": example.input}])
        rows.append({"split": split, "index": number, "messages": asked, "reply": reply})
    return pa.Table.from_pylist(rows, REPLY_COLUMNS)


def _table(
    split: str,
    numbers: Sequence[int],
    examples: Sequence[Example],
    texts: Sequence[str],
    scores: Sequence[float],
) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "split": [split] * len(examples),
        "index": list(numbers),
        "task": [e.task for e in examples],
        "input": [e.input for e in examples],
        "targets": [list(e.targets) for e in examples],
        "prediction": list(texts),
        "score": list(scores),
        "traits": [[(key, str(value)) for key, value in e.traits.items()] for e in examples],
        "candidates": [None] * len(examples),
        "logprobs": [None] * len(examples),
    }
    arrays = {}
    for name, values in columns.items():
        kind = PREDICTION_COLUMNS.field(name).type
        arrays[name] = column(values, pa.string() if name == "split" else kind).cast(kind)
    return pa.table(arrays, schema=PREDICTION_COLUMNS)
