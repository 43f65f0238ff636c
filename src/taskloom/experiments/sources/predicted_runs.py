"""Predictions of other programs as runs, which studies take in place of a run store.

    recipe: zest/real
    set: {files: {dev: zest/dev.jsonl}}
    predictions:
      - {model: t5-11b, split: dev, file: t5-dev.txt}
      - {model: t5-11b, split: dev, seed: 1, file: t5-dev-1.txt}

A file has one prediction a line in the order of the examples, or records with ids, as `taskloom
score` takes them. Its path is relative to this file; paths in `set` are what they would be on the
command line. Predictions are scored by the recipe's scorer.
"""

from __future__ import annotations

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
from taskloom.core.files import json_digest
from taskloom.core.predictions import predictions_for
from taskloom.core.shards import to_examples, to_table
from taskloom.experiments.files import PREDICTION_COLUMNS, PREDICTIONS, SCHEMA
from taskloom.experiments.record import LAST_SEED
from taskloom.experiments.spec.cell_data import CellData, read_data
from taskloom.experiments.store import LoadedRuns
from taskloom.recipe import Fields
from taskloom.recipe.yaml_files import load, validated


class PredictionFields(Fields):
    """A file of predictions of one model for one split."""

    model: str
    split: str
    file: str
    seed: int = Field(0, ge=0, le=LAST_SEED)


class PredictedFields(Fields):
    """Files of predictions for the splits of a recipe."""

    recipe: str
    set: dict[str, Any] = Field(default_factory=dict)
    seed: int = Field(0, ge=0)
    predictions: list[PredictionFields] = Field(min_length=1)


class PredictedRuns(LoadedRuns):
    """A run store of predictions that were made elsewhere; every model and seed is a run.

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
        for one in self._fields.predictions:
            self._add(one)

    def _add(self, one: PredictionFields) -> None:
        kind = json_digest(["predicted", self._data.recipe.digest, one.model])
        run = json_digest([kind, one.seed])
        entry = self._scores.setdefault(run, self._empty(run, kind, one))
        if one.split in entry["splits"]:
            raise DataError(
                f"{self.path} has predictions of {one.model}, seed {one.seed}, for '{one.split}'"
                " twice; give each its own seed"
            )
        examples = self._split(one.split)
        texts = self._read(self.path.parent / one.file, examples)
        scorer = self._data.plan.scorer
        scores = [
            scorer.score(text, example) for text, example in zip(texts, examples, strict=True)
        ]
        entry["splits"][one.split] = {"n": len(examples), "score": fmean(scores)}
        self._tables.setdefault(run, []).append(_table(one.split, examples, texts, scores))

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

    def _read(self, file: Path, examples: Sequence[Example]) -> list[str]:
        texts = (self._data.recipe.suite.predictions or _read_file)(file, len(examples))
        if len(texts) != len(examples):
            raise DataError(
                f"{file} has {len(texts):,} predictions and the split has {len(examples):,}"
                " examples; give one for each"
            )
        return texts

    def config(self, run: str) -> str:
        """Return the recipe of a run; how its model was trained is not known."""
        config = {
            "recipes": [self._block],
            "learners": [self._scores[run]["learner"]],
            "seeds": [self._scores[run]["seed"]],
        }
        return yaml.safe_dump(config, sort_keys=False)

    def rows(self, run: str, file: str, columns: Sequence[str]) -> pa.Table | None:
        """Return columns of the predictions of a run; there are no curves."""
        return (
            pa.concat_tables(self._tables[run]).select(list(columns))
            if file == PREDICTIONS
            else None
        )

    def keeps_predictions(self, run: str) -> bool:
        """Return that answers to all inputs are there."""
        return True

    def environment(self, run: str) -> dict[str, Any]:
        """Return nothing: where the predictions were made is not known."""
        return {}


def _read_file(file: Path, examples: int) -> list[str]:
    return [row.text for row in predictions_for(file, examples)]


def _table(
    split: str, examples: Sequence[Example], texts: Sequence[str], scores: Sequence[float]
) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "split": [split] * len(examples),
        "index": list(range(len(examples))),
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
