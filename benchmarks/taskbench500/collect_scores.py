"""From the answers and masses of `train.py` to a file of scores that the studies of TaskBench500
read.

    python benchmarks/taskbench500/collect_scores.py ANSWERS --data FOLDER --out
    docs/results/taskbench500/scores.json python benchmarks/taskbench500/collect_scores.py --rescore
    docs/results/taskbench500 --out again.json

Words are right if any acceptable answer is given, by the suite's own scorer. Sequences are scored
position by position by the suite's scorer, and as the public code does it. The best constant
answers of all tasks (constants.py) are added.

Every prediction is kept, so that a reader can score them again in any way (`--rescore` needs
neither the GPU nor the word and fact resources). Two Parquet files are written beside the scores:

    predictions.parquet    job, seed, test, prediction; the settings of the jobs are in its metadata
    tests.parquet          data, task, separators, input, sets: the acceptable answers, one set for
    each position

With three seeds and four procedures these are 137,000 predictions: about 1.2 and 1.0 MB (measured
with made-up answers).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import pyarrow as pa
import pyarrow.parquet as pq
from constants import case_field, constant_groups, data_settings, sequence_fields
from make_data import MEMORISED

from taskloom import Example
from taskloom.core.scoring import AnyOf
from taskloom.experiments.sources.score_files import write_scores
from taskloom.suites.taskbench.scorers import Positions, ReferencePositions

LEFT_OUT = ("compile", "evaluate_every")
"""Settings that change no result."""

PREDICTIONS, TESTS = "predictions.parquet", "tests.parquet"
JOBS = b"taskbench500 jobs"
"""Key of the metadata that describe the jobs."""

ANSWERED = ("words", "sequences")
"""Data whose jobs answer tests; the others give masses or curves."""

Row = dict[str, Any]
Test = tuple[str, str, bool, str]
"""Data, function, whether there are separators, and the input."""


def tests_of(data: Path) -> dict[Test, Row]:
    """Read the tests of a folder of data with the acceptable answers at each position; a word has
    one position.
    """
    tests: dict[Test, Row] = {}
    for name in ANSWERED:
        path = data / f"{name}.parquet"
        if not path.exists():
            continue
        sets = positions_of(data) if name == "sequences" else {}
        for row in pq.read_table(path, filters=[("split", "==", "test")]).to_pylist():
            accepted = sets[row["task"], row["key"]] if name == "sequences" else [row["targets"]]
            head = {
                "data": name,
                "task": row["task"],
                "separators": row["separators"],
                "input": row["input"],
            }
            tests[name, row["task"], row["separators"], row["input"]] = {**head, "sets": accepted}
    return tests


def positions_of(data: Path) -> dict[tuple[str, str], Any]:
    table = pq.read_table(data / "positions.parquet")
    return {(row["task"], row["key"]): row["sets"] for row in table.to_pylist()}


def predictions_of(folder: Path, tests: Iterable[Test]) -> tuple[list[Row], list[Row]]:
    """Read the answers of all finished jobs, and what is known of those jobs."""
    places = {test: place for place, test in enumerate(tests)}
    rows: list[Row] = []
    jobs: list[Row] = []
    for path in sorted(folder.glob("*.json")):
        about = json.loads(path.read_text(encoding="utf-8"))
        answers = path.with_suffix(".parquet")
        name = about["job"]["data"]
        if name not in ANSWERED or not answers.exists():
            continue
        jobs.append({key: value for key, value in about.items() if key != "curves"})
        seed = about["job"].get("seed", 0)
        for row in pq.read_table(answers).to_pylist():
            test = places[name, row["task"], row["separators"], row["input"]]
            head = {"job": about["job"]["name"], "seed": seed, "test": test}
            rows.append({**head, "prediction": row["prediction"]})
    return rows, jobs


def save(folder: Path, tests: dict[Test, Row], rows: list[Row], jobs: list[Row], made: Row) -> None:
    """Write predictions and tests."""
    kinds = pa.schema(
        [
            ("job", pa.dictionary(pa.int16(), pa.string())),
            ("seed", pa.int16()),
            ("test", pa.int32()),
            ("prediction", pa.string()),
        ]
    )
    known = {JOBS: json.dumps({"data": made, "jobs": jobs}).encode()}
    table = pa.Table.from_pylist(rows, kinds).replace_schema_metadata(known)
    pq.write_table(table, folder / PREDICTIONS, compression="zstd", compression_level=19)
    listed = pa.Table.from_pylist(list(tests.values()))
    pq.write_table(listed, folder / TESTS, compression="zstd", compression_level=19)
    sizes = ", ".join(
        f"{name} {(folder / name).stat().st_size / 1e6:.1f} MB" for name in (PREDICTIONS, TESTS)
    )
    print(f"{len(rows):,} predictions of {len(tests):,} tests: {sizes}")


def head(about: Row, task: str, fields: Row) -> Row:
    """Return the part of a group that describes what was trained, and how."""
    job = about["job"]
    settings = {k: v for k, v in job["settings"].items() if k not in LEFT_OUT}
    learner = {f"learner.{key}": value for key, value in {"model": "smollm2", **settings}.items()}
    return {
        "recipe": "taskbench/500",
        "learner": job["learner"],
        "fields": {"recipe.task": f"taskbench/{task}", **fields, **learner},
        "environment": {"gpu": about["gpu"], "commit": about["commit"], "job": job["name"]},
    }


def scored(tests: list[Row], rows: list[Row], jobs: list[Row], made: Row) -> Iterator[Row]:
    """Score the predictions of each job and task."""
    by_task: dict[tuple[str, str, bool], list[tuple[Row, str]]] = {}
    for row in rows:
        test = tests[row["test"]]
        by_task.setdefault((row["job"], test["task"], test["separators"]), []).append(
            (test, row["prediction"])
        )
    known = {about["job"]["name"]: about for about in jobs}
    for (name, task, separators), answered in by_task.items():
        about = known[name]
        words = about["job"]["data"] == "words"
        score, further = word_numbers(answered) if words else sequence_numbers(answered, separators)
        fields = case_field(made) if words else sequence_fields(made, separators)
        seed = str(about["job"].get("seed", 0))
        yield {
            **head(about, task, fields),
            "n": {"test": len(answered)},
            "seeds": {seed: {"test": round(score, 6)}},
            "further": {seed: {"test": further}},
        }


def word_numbers(answered: list[tuple[Row, str]]) -> tuple[float, Row]:
    """Score words, and count their acceptable answers."""
    scorer = AnyOf(numbers=False)
    scores = [
        scorer.score(said, Example(test["input"], test["sets"][0])) for test, said in answered
    ]
    answers = statistics.fmean(len(test["sets"][0]) for test, _ in answered)
    return statistics.fmean(scores), {"answers": round(answers, 3)}


def sequence_numbers(answered: list[tuple[Row, str]], separators: bool) -> tuple[float, Row]:
    """Score sequences, also by the public code's rule, and count the acceptable answers of a
    position.
    """
    sets = {test["input"]: test["sets"] for test, _ in answered}
    right = Positions(lambda example: sets[example.input], separators)
    public = ReferencePositions(lambda example: sets[example.input], separators)
    pairs = [(said, Example(test["input"], "")) for test, said in answered]
    answers = statistics.fmean(len(accepted) for test, _ in answered for accepted in test["sets"])
    compatible = statistics.fmean(public.score(*pair) for pair in pairs)
    further = {"answers": round(answers, 3), "reference-compatible": round(compatible, 6)}
    return statistics.fmean(right.score(*pair) for pair in pairs), further


def memorise(about: Row, made: Row) -> Iterator[Row]:
    """Return the curves of training batches in passing; the score is the last point's."""
    seed = str(about["job"].get("seed", 0))
    for name, points in about["curves"].items():
        labels, task, _ = json.loads(name)
        fields = {**case_field(made), "recipe.memorise": MEMORISED, "recipe.labels": labels}
        curve = [[step, "train", round(score, 4)] for step, score, _ in points]
        last = {seed: {"memorise": curve[-1][2]}}
        yield {
            **head(about, task, fields),
            "n": {"memorise": MEMORISED},
            "seeds": last,
            "curves": {seed: curve},
        }


def balanced(about: Row, rows: list[Row], made: Row) -> Iterator[Row]:
    """Return the mean mass on each side; the score is the mean over both."""
    seed = str(about["job"].get("seed", 0))
    by_task: dict[str, list[Row]] = {}
    for row in rows:
        by_task.setdefault(row["task"], []).append(row)
    for task, own in by_task.items():
        sides = sorted({row["side"] for row in own})
        masses = {
            f"mass {s}": round(statistics.fmean(r["mass"] for r in own if r["side"] == s), 6)
            for s in sides
        }
        score = {seed: {"test": round(statistics.fmean(masses.values()), 6)}}
        group = head(about, task, {**case_field(made), "recipe.balanced": True})
        yield {
            **group,
            "n": {"test": len(own)},
            "seeds": score,
            "further": {seed: {"test": masses}},
        }


def other_jobs(folder: Path, made: Row) -> Iterator[Row]:
    """Yield the groups of jobs that give curves or masses instead of answers."""
    for path in sorted(folder.glob("*.json")):
        about = json.loads(path.read_text(encoding="utf-8"))
        if about["job"]["data"] == "memorise":
            yield from memorise(about, made)
        answers = path.with_suffix(".parquet")
        if about["job"]["data"] == "balanced" and answers.exists():
            yield from balanced(about, pq.read_table(answers).to_pylist(), made)


def merged(groups: Iterable[Row]) -> list[Row]:
    """Put the seeds of one task and learner into one group."""
    by_kind: dict[str, Row] = {}
    for group in groups:
        kind = json.dumps([group["recipe"], group["learner"], group["fields"]])
        first = by_kind.setdefault(kind, group)
        for key in ("seeds", "further", "curves"):
            if key in group:
                first[key] |= group[key]
    return list(by_kind.values())


def rescored(folder: Path) -> list[Row]:
    """Score the predictions of a folder again."""
    table = pq.read_table(folder / PREDICTIONS)
    known = json.loads(table.schema.metadata[JOBS])
    tests = pq.read_table(folder / TESTS).to_pylist()
    return merged(scored(tests, table.to_pylist(), known["jobs"], known["data"]))


def collected(answers: Path, data: Path, out: Path, commit: str) -> list[Row]:
    """Keep all predictions, score them, and add the other jobs and the constants."""
    made, tests = data_settings(data), tests_of(data)
    rows, jobs = predictions_of(answers, tests)
    save(out.parent, tests, rows, jobs, made)
    groups = list(scored(list(tests.values()), rows, jobs, made))
    return merged([*groups, *other_jobs(answers, made), *constant_groups(data, commit)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("answers", type=Path, nargs="?", help="the folder that train.py wrote to")
    parser.add_argument("--data", type=Path, help="the folder that make_data.py wrote to")
    parser.add_argument(
        "--rescore", type=Path, help="a folder with predictions.parquet and tests.parquet"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--commit", default="", help="of this code, to be written down with the constants"
    )
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    if args.rescore:
        groups = rescored(args.rescore)
    elif args.answers and args.data:
        groups = collected(args.answers, args.data, args.out, args.commit)
    else:
        parser.error("give the folder of answers and --data, or --rescore")
    write_scores(groups, args.out)
    print(f"{args.out}: {len(groups):,} tasks and learners, {args.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
