"""The data of the TaskBench500 results, small enough to be carried to a machine without the word
and fact resources.

    python benchmarks/taskbench500/make_data.py --out FOLDER                       # four items,
    lower case python benchmarks/taskbench500/make_data.py --out FOLDER --length 8 --only sequences
    positions python benchmarks/taskbench500/make_data.py --out FOLDER --case as-is          # the
    data of the scores stored in November 2026

Needs TASKLOOM_DATA (NLTK data and the Wikidata subset); about two minutes on one core. Writes
`data.json` (case and size of sequences) and Parquet files of rows `part, task, split, input,
targets, side, key, separators`:

    words.parquet        all word tasks of taskbench/500 that have 100 examples in the subset
    sequences.parquet    maps of its atomic relations and its filters, with and without separators
    positions.parquet    all acceptable answers at each position of the tests of those, for scoring
    memorise.parquet     its atomic tasks, a few training examples each, with their own labels and
    with permuted ones balanced.parquet     its unions as balanced mixtures of their operands

`words-constants.parquet` and `sequences-constants.parquet` have for each task the answer that is
acceptable to most training inputs (of sequences: at most training positions), as the `majority`
learner chooses it.

Answering dominates the cost of many small tasks, so rows are chosen by their length in SmolLM2's
tokens.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from taskloom import Example
from taskloom.learners.pretrained.models import packaged_folder
from taskloom.recipe import read

WORD_KINDS = ["atomic", "chain", "union", "intersection", "land", "lor"]
TRAIN, TEST, MEMORISED = 600, 40, 64
"""Rows of a task: training at `full`, tests, and examples to memorise (the paper: thousands, a
tenth of all, 1,000).
"""

MOST_INPUT, MOST_ANSWER, MOST_ITEM = 14, 10, 6
"""Maximum tokens of an input, of an answer, and of an item of a sequence: a batch of all tasks is
as wide as its longest.
"""

MOST_CANDIDATES, PAIRED_INPUTS = 24, 20
"""Of balanced unions: maximum answers of one side, and the inputs that both sides know."""

LOOKED_AT = 2_500
"""Rows of a task among which short ones are looked for; they stand together, in an order that does
not follow their length.
"""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the data of one folder have in common.

    Attributes:
        case: `lower`, as in the data that the paper released, or `as-is`.
        length: Items of a sequence (the paper: 8).
        kept: Items that a filter keeps (the paper: 4).
    """

    case: str
    length: int
    kept: int


def token_counts() -> Callable[[str], int]:
    from transformers import AutoTokenizer

    tokeniser = AutoTokenizer.from_pretrained(packaged_folder("smollm2"))
    return lambda text: len(tokeniser(" " + text, add_special_tokens=False)["input_ids"])


def rows_of(made: Settings, fields: Row, part: str, separators: bool = False) -> Iterator[Row]:
    """Yield the rows of training and test of taskbench/500, training first, each task's rows in
    their order.
    """
    plan = read(
        "taskbench/500", {"few_shot": None, "answers": False, "case": made.case, **fields}
    ).plan()
    for split in plan.splits:
        if split.name not in ("train", "test"):
            continue
        rows: Any = split.rows(0, split.n)
        table = rows.select(["task", "input", "targets", "key", "traits"])
        tasks = np.array(table["task"].to_pylist())
        first = np.flatnonzero(np.r_[True, tasks[1:] != tasks[:-1]])
        near = (
            np.arange(len(tasks)) - np.repeat(first, np.diff(np.r_[first, len(tasks)])) < LOOKED_AT
        )
        for row in table.filter(pa.array(near)).to_pylist():
            side = row["traits"].get("side") or ""
            task = row["task"].removeprefix("taskbench/")
            yield {"part": part, "task": task, "split": split.name, "input": row["input"], "targets": row["targets"],
                   "side": side, "key": row["key"] or "", "separators": separators}  # fmt: skip


class Constants:
    """For each task the answer that is acceptable most often in training; ties go to the one that
    comes first there.
    """

    def __init__(self) -> None:
        self.counts: dict[tuple[str, bool], Counter[str]] = {}
        self.of: Counter[tuple[str, bool]] = Counter()

    def add(self, task: tuple[str, bool], acceptable: Iterable[str]) -> None:
        self.counts.setdefault(task, Counter()).update(list(dict.fromkeys(acceptable)))
        self.of[task] += 1

    def rows(self) -> list[Row]:
        rows = []
        for (task, separators), counted in self.counts.items():
            constant, hits = counted.most_common(1)[0]
            share = hits / self.of[task, separators]
            rows.append(
                {"task": task, "separators": separators, "constant": constant, "train": share}
            )
        return rows


class Chosen:
    """The first rows of each task and split that are short enough."""

    def __init__(
        self, size: Callable[[str], int], most: dict[str, int], longest: tuple[int, int]
    ) -> None:
        self.size, self.most, self.longest = size, most, longest
        self.counts: dict[tuple[str, ...], int] = {}
        self.rows: list[Row] = []
        self.constants = Constants()

    def offer(self, row: Row, *group: str) -> None:
        place = (row["part"], row["task"], row["split"], str(row["separators"]), *group)
        if (
            self.counts.get(place, 0) >= self.most[row["split"]]
            or self.size(row["input"]) > self.longest[0]
        ):
            return
        targets = row["targets"][:1] if row["split"] == "train" else row["targets"]
        if not any(self.size(target) <= self.longest[1] for target in targets[:50]):
            return
        if row["split"] == "train":
            self.constants.add((row["task"], row["separators"]), row["targets"])
        self.counts[place] = self.counts.get(place, 0) + 1
        self.rows.append({**row, "targets": targets})


def words(size: Callable[[str], int], made: Settings, folder: Path) -> list[Row]:
    chosen = Chosen(size, {"train": TRAIN, "test": TEST}, (MOST_INPUT, MOST_ANSWER))
    for row in rows_of(made, {"catalog.compositions": WORD_KINDS}, "words"):
        chosen.offer(row)
    save(chosen.constants.rows(), folder / "words-constants.parquet")
    return chosen.rows


def map_tasks() -> list[str]:
    from taskloom.suites.taskbench.catalog import select

    atoms = [t.expression for t in select(["lexical", "factual", "random"], ["atomic"])]
    return [f"map({a})" for a in atoms if not a.startswith("is_")]


def sequence_tasks() -> list[str]:
    from taskloom.suites.taskbench.catalog import select

    return [*map_tasks(), *(t.expression for t in select(["lexical"], ["filter"]))]


def sequences(size: Callable[[str], int], made: Settings, folder: Path) -> list[Row]:
    longest = MOST_ITEM * made.length
    chosen = Chosen(size, {"train": TRAIN, "test": TEST}, (longest, longest))
    for separators in (False, True):
        shape = {"length": made.length, "kept": made.kept, "n": 2_000, "separators": separators}
        fields = {"catalog": None, "functions": sequence_tasks(), "sequences": shape}
        for row in rows_of(made, fields, "sequences", separators):
            chosen.offer(row)
    return chosen.rows


def positions(size: Callable[[str], int], made: Settings, folder: Path) -> list[Row]:
    """Return the acceptable answers at each position of the test sequences, which are the same with
    and without separators.
    """
    shape = {"length": made.length, "kept": made.kept, "separators": True}
    fields = {"catalog": None, "functions": sequence_tasks(), "sequences": shape, "case": made.case}
    scorer: Any = (
        read("taskbench/500", {**fields, "few_shot": None, "answers": False}).plan().scorer
    )
    rows: dict[tuple[str, str], Row] = {}
    constants = Constants()
    table = pq.read_table(
        folder / "sequences.parquet", columns=["task", "key", "split", "separators"]
    )
    for row in table.to_pylist():
        own = scorer.sequences(f"taskbench/{row['task']}")
        sets = own.sets(Example(row["key"], "", key=row["key"]))
        if row["split"] == "test":
            # Lengths differ by the separators, and with them which sequences are short enough.
            place = (row["task"], row["key"])
            rows[place] = {
                "task": row["task"],
                "key": row["key"],
                "sets": [list(accepted) for accepted in sets],
            }
            continue
        for accepted in sets:
            constants.add((row["task"], row["separators"]), accepted)
    save(constants.rows(), folder / "sequences-constants.parquet")
    return list(rows.values())


def memorise(size: Callable[[str], int], made: Settings, folder: Path) -> list[Row]:
    chosen = Chosen(size, {"train": MEMORISED, "test": 0}, (MOST_INPUT, MOST_ANSWER))
    for labels in ("true", "permuted"):
        for row in rows_of(made, {"catalog.compositions": ["atomic"], "labels": labels}, labels):
            chosen.offer(row)
    return chosen.rows


def balanced(size: Callable[[str], int], made: Settings, folder: Path) -> list[Row]:
    """Choose half of the training rows from each side, and test inputs that both sides know and
    have few answers to.
    """
    chosen = Chosen(size, {"train": TRAIN // 2, "test": PAIRED_INPUTS}, (MOST_INPUT, MOST_ANSWER))
    tests: dict[tuple[str, str], list[Row]] = {}
    for row in rows_of(made, {"catalog.compositions": ["union"], "balanced": True}, "balanced"):
        if row["split"] == "train":
            chosen.offer(row, row["side"])
        elif len(row["targets"]) <= MOST_CANDIDATES and all(
            size(t) <= MOST_ANSWER for t in row["targets"]
        ):
            tests.setdefault((row["task"], row["input"]), []).append(row)
    for pair in tests.values():
        if len({row["side"] for row in pair}) == 2:
            for row in pair:
                chosen.offer(row, row["side"])
    return chosen.rows


def save(rows: list[Row], path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path, compression="zstd", compression_level=19)


MAKERS = {
    "words": words,
    "sequences": sequences,
    "positions": positions,
    "memorise": memorise,
    "balanced": balanced,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=list(MAKERS), choices=list(MAKERS))
    parser.add_argument("--case", default="lower", choices=["lower", "as-is"])
    parser.add_argument(
        "--length", type=int, default=4, help="items of a sequence; a filter keeps half of them"
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    made = Settings(args.case, args.length, args.length // 2)
    (args.out / "data.json").write_text(json.dumps(asdict(made)) + "\n", encoding="utf-8")
    size = token_counts()
    for name in args.only:
        rows = MAKERS[name](size, made, args.out)
        path = args.out / f"{name}.parquet"
        save(rows, path)
        tasks = {(r.get("part"), r["task"], r.get("separators")) for r in rows}
        print(
            f"{path}: {len(rows):,} rows of {len(tasks)} tasks, {path.stat().st_size / 1e6:.1f} MB",
            flush=True,
        )


if __name__ == "__main__":
    main()
