"""The scripts behind the stored scores: constants, predictions that can be scored again, and jobs
by seed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from taskloom.recipe.yaml_files import parse

SCRIPTS = Path(__file__).parents[3] / "benchmarks" / "taskbench500"

Row = dict[str, Any]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import the scripts by name, as they import each other."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield import_module
    for name in ("constants", "collect_scores", "make_data", "train"):
        sys.modules.pop(name, None)


def row(
    task: str, split: str, text: str, targets: list[str], separators: bool = False, key: str = ""
) -> Row:
    head = {
        "part": "p",
        "task": task,
        "split": split,
        "side": "",
        "key": key,
        "separators": separators,
    }
    return {**head, "input": text, "targets": targets}


def write(folder: Path, **tables: list[Row]) -> None:
    folder.mkdir(exist_ok=True)
    for name, rows in tables.items():
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name.replace('_', '-')}.parquet")


def data(folder: Path) -> Path:
    """Write a word task, and a map whose first position accepts two answers, in lower case."""
    words = [row("father", "train", f"child {i}", ["ann" if i < 3 else "bob"]) for i in range(5)]
    words += [row("father", "test", "eve", ["ann", "cy"]), row("father", "test", "fay", ["cy"])]
    key = "x # y"
    sequences = [row("map(father)", "train", "x y", ["new york new york"], False, key)]
    sequences += [row("map(father)", "train", "x # y", ["new york # new york"], True, key)]
    sequences += [
        row("map(father)", "test", text, ["new york rome"], "#" in text, key)
        for text in ("x y", "x # y")
    ]
    write(
        folder,
        words=words,
        sequences=sequences,
        positions=[{"task": "map(father)", "key": key, "sets": [["new york", "rome"], ["rome"]]}],
        words_constants=[{"task": "father", "separators": False, "constant": "cy"}],
        sequences_constants=[
            {"task": "map(father)", "separators": apart, "constant": "new york"}
            for apart in (False, True)
        ],
    )
    (folder / "data.json").write_text(json.dumps({"case": "lower", "length": 2, "kept": 1}))
    return folder


def test_constants_are_chosen_on_training_and_scored_on_tests(script: Any, tmp_path: Path) -> None:
    groups = list(script("constants").constant_groups(data(tmp_path / "data"), "abc"))
    found = {
        (g["fields"]["recipe.task"], g["fields"].get("recipe.sequences.separators")): (
            g["seeds"]["0"]["test"],
            g["further"]["0"]["test"],
        )
        for g in groups
    }
    # cy is acceptable to both tests; ann, the most frequent label, to one of them.
    assert found["taskbench/father", None] == (1.0, {"labels": 0.5, "best on test": 1.0})
    # Repeated at both positions, New York is right at the first and Rome at both.
    for apart in (False, True):
        assert found["taskbench/map(father)", apart] == (0.5, {"labels": 0.5, "best on test": 1.0})
    assert {g["fields"]["recipe.case"] for g in groups} == {"lower"}
    assert {g["environment"]["commit"] for g in groups} == {"abc"}


def test_every_prediction_is_kept_and_can_be_scored_again(script: Any, tmp_path: Path) -> None:
    collect = script("collect_scores")
    folder, answers, out = data(tmp_path / "data"), tmp_path / "answers", tmp_path / "out"
    out.mkdir()
    settings = {"batch": 4, "steps": 1, "shots": 0}
    for name, seed, said in (("words", 0, ["ann", "dan"]), ("words", 1, ["CY", "cy"])):
        rows = [{"task": "father", "separators": False, "input": t, "prediction": s}
                for t, s in zip(("eve", "fay"), said, strict=True)]  # fmt: skip
        finish(
            answers,
            f"{name}-{seed}",
            {"data": name, "seed": seed, "learner": "lora", "settings": settings},
            rows,
        )
    rows = [
        {"task": "map(father)", "separators": False, "input": "x y", "prediction": "new york rome"},
        {
            "task": "map(father)",
            "separators": True,
            "input": "x # y",
            "prediction": "new york # rome",
        },
    ]
    job = {"data": "sequences", "seed": 0, "learner": "lora", "settings": settings}
    finish(answers, "sequences-0", job, rows)

    groups = collect.collected(answers, folder, out / "scores.json", "abc")
    trained = [g for g in groups if g["learner"] == "lora"]
    words, joined, separated = sorted(
        trained, key=lambda g: str(g["fields"].get("recipe.sequences.separators", ""))
    )
    assert words["seeds"] == {"0": {"test": 0.5}, "1": {"test": 1.0}}
    # By the public rule "new york" is two words: the perfect answer is right nowhere without
    # separators.
    assert joined["seeds"] == separated["seeds"] == {"0": {"test": 1.0}}
    assert joined["further"]["0"]["test"]["reference-compatible"] == 0.0
    assert separated["further"]["0"]["test"]["reference-compatible"] == 1.0
    assert collect.rescored(out) == trained
    kept = pq.read_table(out / "predictions.parquet")
    assert kept["prediction"].to_pylist().count("CY") == 1
    assert kept.num_rows == 6


def finish(folder: Path, name: str, job: Row, rows: list[Row]) -> None:
    write(folder, **{name: [{"part": "p", "side": "", **row} for row in rows]})
    about = {
        "job": {"name": name, **job},
        "curves": {},
        "gpu": "none",
        "commit": "abc",
        "seconds": 1.0,
    }
    (folder / f"{name}.json").write_text(json.dumps(about))


@pytest.mark.parametrize("name", ["jobs", "jobs-eight"])
def test_the_first_seeds_of_all_jobs_come_first(script: Any, name: str) -> None:
    pytest.importorskip("torch")
    listed = parse((SCRIPTS / f"{name}.yaml").read_text(encoding="utf-8"))
    jobs = script("train").jobs_by_seed(listed)
    assert len({job["name"] for job in jobs}) == len(jobs)
    seeds = [job["seed"] for job in jobs]
    assert seeds == sorted(seeds)
    answered = [job for job in jobs if job.get("answers")]
    assert {seeds.count(seed) for seed in (1, 2)} == {len(answered) // 3}
