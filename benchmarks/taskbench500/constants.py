"""What the best constant answer scores on every word and sequence task: the control that each score
must be compared with.

    python benchmarks/taskbench500/constants.py --data FOLDER --add
    docs/results/taskbench500/scores.json --commit COMMIT

Needs no GPU: a few seconds for 297 tasks. FOLDER is that of make_data.py. The answer to a sequence
repeats one item. Three constants are scored on the tests of the models:

    score           the answer that is acceptable to most training inputs, as the `majority` learner
    chooses it labels          the most frequent training label; models see one label of each input,
    not all acceptable answers best on test    the answer that is acceptable to most tests: an upper
    bound, inflated because there are only 40 of them
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import pyarrow.parquet as pq

from taskloom import Example
from taskloom.core.scoring import AnyOf
from taskloom.experiments.sources.score_files import write_scores
from taskloom.papers.taskbench500.runs import BEST_ON_TEST, LABELS
from taskloom.suites.taskbench.evaluation.derivations import items, join
from taskloom.suites.taskbench.scorers import Positions, plain

Row = dict[str, Any]
Task = tuple[str, bool]
"""Function, and whether its sequences have separators."""

Splits = dict[str, list[Row]]


def tasks_of(path: Path) -> dict[Task, Splits]:
    """Read the rows of each task by split."""
    tasks: dict[Task, Splits] = {}
    for row in pq.read_table(path).to_pylist():
        splits = tasks.setdefault((row["task"], row["separators"]), {"train": [], "test": []})
        splits[row["split"]].append(row)
    return tasks


def constants_of(path: Path) -> dict[Task, str]:
    """Read the constant of each task."""
    return {
        (row["task"], row["separators"]): row["constant"] for row in pq.read_table(path).to_pylist()
    }


def best_on(sets: list[list[str]]) -> str:
    """Return the answer that is in most of the answer sets."""
    counted = Counter(text for accepted in sets for text in {plain(answer) for answer in accepted})
    return counted.most_common(1)[0][0]


def word_scores(constant: str, splits: Splits) -> dict[str, float]:
    """Score the constants of a task of words."""
    labels = Counter(row["targets"][0] for row in splits["train"])
    tests = [Example(row["input"], row["targets"]) for row in splits["test"]]
    chosen = {
        "score": constant,
        LABELS: labels.most_common(1)[0][0],
        BEST_ON_TEST: best_on([list(t.targets) for t in tests]),
    }
    scorer = AnyOf(numbers=False)
    return {
        name: statistics.fmean(scorer.score(text, test) for test in tests)
        for name, text in chosen.items()
    }


def sequence_scores(
    constant: str, labelled: list[Row], tests: list[Row], sets: dict[str, Any], separators: bool
) -> dict[str, float]:
    """Score constants that repeat one item.

    Args:
        constant: The item that is acceptable at most training positions.
        labelled: Training rows with separators, from which labels are read: without them items
            cannot be told apart.
        tests: The tests, with or without separators.
        sets: The acceptable answers at each position, by the key of a test.
        separators: Whether the tests have separators.
    """
    labels = Counter(item for row in labelled for item in items(row["targets"][0], True))
    all_sets = [accepted for row in tests for accepted in sets[row["key"]]]
    chosen = {
        "score": constant,
        LABELS: labels.most_common(1)[0][0],
        BEST_ON_TEST: best_on(all_sets),
    }
    scorer = Positions(lambda example: sets[example.key], separators)
    scores: dict[str, list[float]] = {name: [] for name in chosen}
    for row in tests:
        example = Example(row["input"], row["targets"], key=row["key"])
        for name, item in chosen.items():
            answer = join([item] * len(sets[row["key"]]), separators)
            scores[name].append(scorer.score(answer, example))
    return {name: statistics.fmean(own) for name, own in scores.items()}


def group(task: str, fields: Row, n: int, scores: dict[str, float], environment: Row) -> Row:
    return {
        "recipe": "taskbench/500",
        "learner": "majority",
        "fields": {"recipe.task": f"taskbench/{task}", **fields},
        "environment": environment,
        "n": {"test": n},
        "seeds": {"0": {"test": round(scores["score"], 6)}},
        "further": {
            "0": {"test": {name: round(scores[name], 6) for name in (LABELS, BEST_ON_TEST)}}
        },
    }


def constant_groups(data: Path, commit: str) -> Iterator[Row]:
    """Yield the scores of constants on all tasks of a folder of data."""
    made = data_settings(data)
    environment = {
        "command": "python benchmarks/taskbench500/constants.py",
        "commit": commit,
        "job": "majority",
    }
    if (data / "words.parquet").exists():
        constants = constants_of(data / "words-constants.parquet")
        for place, splits in tasks_of(data / "words.parquet").items():
            scores = word_scores(constants[place], splits)
            yield group(place[0], case_field(made), len(splits["test"]), scores, environment)
    if not (data / "sequences.parquet").exists():
        return
    constants = constants_of(data / "sequences-constants.parquet")
    sets: dict[str, dict[str, Any]] = {}
    for row in pq.read_table(data / "positions.parquet").to_pylist():
        sets.setdefault(row["task"], {})[row["key"]] = row["sets"]
    tasks = tasks_of(data / "sequences.parquet")
    for (task, separators), splits in tasks.items():
        labelled = tasks[task, True]["train"]
        scores = sequence_scores(
            constants[task, separators], labelled, splits["test"], sets[task], separators
        )
        yield group(
            task, sequence_fields(made, separators), len(splits["test"]), scores, environment
        )


def data_settings(data: Path) -> Row:
    """Return case and size of sequences of a folder of data."""
    settings: Row = json.loads((data / "data.json").read_text(encoding="utf-8"))
    return settings


def case_field(made: Row) -> Row:
    # The default is not written down, so that new scores join those stored before the field
    # existed.
    return {} if made["case"] == "as-is" else {"recipe.case": made["case"]}


def sequence_fields(made: Row, separators: bool) -> Row:
    return {
        **case_field(made),
        "recipe.sequences.length": made["length"],
        "recipe.sequences.kept": made["kept"],
        "recipe.sequences.separators": separators,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--add", type=Path, required=True, help="file of scores; constants that it has are replaced"
    )
    parser.add_argument("--commit", default="", help="of this code, to be written down")
    args = parser.parse_args()
    stored = json.loads(args.add.read_text(encoding="utf-8"))
    others = [one for one in stored["groups"] if one["learner"] != "majority"]
    found = list(constant_groups(args.data, args.commit))
    write_scores([*others, *found], args.add, stored.get("items"))
    print(f"{args.add}: constants of {len(found)} tasks")


if __name__ == "__main__":
    main()
