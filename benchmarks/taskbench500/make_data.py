"""The data of the TaskBench500 results, small enough to be carried to a machine without the word and fact resources.

    python benchmarks/taskbench500/make_data.py --out FOLDER          # needs TASKLOOM_DATA: NLTK data and the Wikidata subset

Writes Parquet files of rows `part, task, split, input, targets, side, key, separators`:

    words.parquet        all word tasks of taskbench/500 that have 100 examples in the subset
    sequences.parquet    maps of its atomic relations and its filters, over four items instead of eight, with and without separators
    positions.parquet    all acceptable answers at each position of the tests of those, for scoring
    memorise.parquet     its atomic tasks, a few training examples each, with their own labels and with permuted ones
    balanced.parquet     its unions as balanced mixtures of their operands

Answering dominates the cost of many small tasks, so rows are chosen by their length in SmolLM2's tokens.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from taskloom import Example
from taskloom.learners.pretrained.models import smollm2_folder
from taskloom.recipe import read

WORD_KINDS = ["atomic", "chain", "union", "intersection", "land", "lor"]
TRAIN, TEST, MEMORISED = 600, 40, 64
"""Rows of a task: training at `full`, tests, and examples to learn by heart (the paper: thousands, a tenth of all, 1,000)."""

MOST_INPUT, MOST_ANSWER, MOST_SEQUENCE = 14, 10, 24
"""Tokens of an input, of an answer, and of input and answer of a sequence: a batch of all tasks is as wide as its longest."""

LENGTH, KEPT = 4, 2
"""Items of a sequence and those that a filter keeps (the paper: 8 and 4)."""

MOST_CANDIDATES, PAIRED_INPUTS = 24, 20
"""Of balanced unions: the most answers of one side, and the inputs that both sides know."""

LOOKED_AT = 2_500
"""Rows of a task among which short ones are looked for; they stand together, in an order that does not follow their length."""

Row = dict[str, Any]


def token_counts() -> Callable[[str], int]:
    from transformers import AutoTokenizer

    tokeniser = AutoTokenizer.from_pretrained(smollm2_folder())
    return lambda text: len(tokeniser(" " + text, add_special_tokens=False)["input_ids"])


def rows_of(recipe: str, fields: dict[str, Any], part: str, separators: bool = False) -> Iterator[Row]:
    """Yield the rows of training and test of a recipe, training first, each task's rows in their order."""
    plan = read(recipe, {"few_shot": None, "answers": False, **fields}).plan()
    for split in plan.splits:
        if split.name not in ("train", "test"):
            continue
        rows: Any = split.rows(0, split.n)
        table = rows.select(["task", "input", "targets", "key", "traits"])
        tasks = np.array(table["task"].to_pylist())
        first = np.flatnonzero(np.r_[True, tasks[1:] != tasks[:-1]])
        near = np.arange(len(tasks)) - np.repeat(first, np.diff(np.r_[first, len(tasks)])) < LOOKED_AT
        for row in table.filter(pa.array(near)).to_pylist():
            side = row["traits"].get("side") or ""
            task = row["task"].removeprefix("taskbench/")
            yield {"part": part, "task": task, "split": split.name, "input": row["input"], "targets": row["targets"],
                   "side": side, "key": row["key"] or "", "separators": separators}  # fmt: skip


class Chosen:
    """The first rows of each task and split that are short enough."""

    def __init__(self, size: Callable[[str], int], most: dict[str, int], longest: tuple[int, int]) -> None:
        self.size, self.most, self.longest = size, most, longest
        self.counts: dict[tuple[str, ...], int] = {}
        self.rows: list[Row] = []

    def offer(self, row: Row, *group: str) -> None:
        place = (row["part"], row["task"], row["split"], str(row["separators"]), *group)
        if self.counts.get(place, 0) >= self.most[row["split"]] or self.size(row["input"]) > self.longest[0]:
            return
        targets = row["targets"][:1] if row["split"] == "train" else row["targets"]
        if not any(self.size(target) <= self.longest[1] for target in targets[:50]):
            return
        self.counts[place] = self.counts.get(place, 0) + 1
        self.rows.append({**row, "targets": targets})


def words(size: Callable[[str], int]) -> list[Row]:
    chosen = Chosen(size, {"train": TRAIN, "test": TEST}, (MOST_INPUT, MOST_ANSWER))
    for row in rows_of("taskbench/500", {"catalog.compositions": WORD_KINDS}, "words"):
        chosen.offer(row)
    return chosen.rows


def map_tasks() -> list[str]:
    from taskloom.suites.taskbench.catalog import select

    atoms = [t.expression for t in select(["lexical", "factual", "random"], ["atomic"])]
    return [f"map({a})" for a in atoms if not a.startswith("is_")]


def sequence_tasks() -> list[str]:
    from taskloom.suites.taskbench.catalog import select

    return [*map_tasks(), *(t.expression for t in select(["lexical"], ["filter"]))]


def sequences(size: Callable[[str], int]) -> list[Row]:
    chosen = Chosen(size, {"train": TRAIN, "test": TEST}, (MOST_SEQUENCE, MOST_SEQUENCE))
    for separators in (False, True):
        shape = {"length": LENGTH, "kept": KEPT, "n": 2_000, "separators": separators}
        fields = {"catalog": None, "functions": sequence_tasks(), "sequences": shape}
        for row in rows_of("taskbench/500", fields, "sequences", separators):
            chosen.offer(row)
    return chosen.rows


def positions(path: Path) -> list[Row]:
    """Return the acceptable answers at each position of the test sequences, which are the same with and without separators."""
    shape = {"length": LENGTH, "kept": KEPT, "separators": True}
    fields = {"catalog": None, "functions": sequence_tasks(), "sequences": shape, "few_shot": None, "answers": False}
    scorer: Any = read("taskbench/500", fields).plan().scorer
    tests = pq.read_table(path, columns=["task", "key"], filters=[("split", "==", "test")])
    rows = []
    # Lengths differ by the separators, and with them which sequences are short enough.
    for row in {(row["task"], row["key"]): row for row in tests.to_pylist()}.values():
        own = scorer.sequences(f"taskbench/{row['task']}")
        rows.append({**row, "sets": [list(s) for s in own.sets(Example(row["key"], "", key=row["key"]))]})
    return rows


def memorise(size: Callable[[str], int]) -> list[Row]:
    chosen = Chosen(size, {"train": MEMORISED, "test": 0}, (MOST_INPUT, MOST_ANSWER))
    for labels in ("true", "permuted"):
        for row in rows_of("taskbench/500", {"catalog.compositions": ["atomic"], "labels": labels}, labels):
            chosen.offer(row)
    return chosen.rows


def balanced(size: Callable[[str], int]) -> list[Row]:
    """Choose half of the training rows from each side, and test inputs that both sides know and have few answers to."""
    chosen = Chosen(size, {"train": TRAIN // 2, "test": PAIRED_INPUTS}, (MOST_INPUT, MOST_ANSWER))
    tests: dict[tuple[str, str], list[Row]] = {}
    for row in rows_of("taskbench/500", {"catalog.compositions": ["union"], "balanced": True}, "balanced"):
        if row["split"] == "train":
            chosen.offer(row, row["side"])
        elif len(row["targets"]) <= MOST_CANDIDATES and all(size(t) <= MOST_ANSWER for t in row["targets"]):
            tests.setdefault((row["task"], row["input"]), []).append(row)
    for pair in tests.values():
        if len({row["side"] for row in pair}) == 2:
            for row in pair:
                chosen.offer(row, row["side"])
    return chosen.rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=["words", "sequences", "positions", "memorise", "balanced"])
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    size = token_counts()
    makers = {"words": words, "sequences": sequences, "memorise": memorise, "balanced": balanced}
    for name in args.only:
        rows = makers[name](size) if name in makers else positions(args.out / "sequences.parquet")
        path = args.out / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path, compression="zstd", compression_level=19)
        tasks = {(r.get("part"), r["task"], r.get("separators")) for r in rows}
        print(f"{path}: {len(rows):,} rows of {len(tasks)} tasks, {path.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
