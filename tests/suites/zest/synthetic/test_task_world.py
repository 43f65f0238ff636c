"""Worlds of tasks: passages of their own, and knobs that change what they name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from taskloom.core.example import Example
from taskloom.suites.zest.evaluation import score
from taskloom.suites.zest.fields import context
from taskloom.suites.zest.synthetic.flip_groups import flip_of
from taskloom.suites.zest.synthetic.plan import check
from taskloom.suites.zest.synthetic.task_world import TaskWorld, zest_tasks
from taskloom.suites.zest.task_files import (
    problems,
    read_tasks,
    write_tasks,
)
from tests.suites.zest.synthetic.small_worlds import every_task, examples, small


def test_no_passage_is_in_two_splits_or_two_seeds(full_examples: dict[str, list[Example]]) -> None:
    texts = {split: {context(e.input) for e in found} for split, found in full_examples.items()}
    other = {context(e.input) for e in examples(small(1))}
    assert not texts["train"] & texts["test"]
    assert not texts["train"] & texts["dev"]
    assert not texts["dev"] & texts["test"]
    assert not other & (texts["train"] | texts["dev"] | texts["test"])


def test_knobs() -> None:
    only = small(domains=["parks", "towns"], tasks={"train": 60, "dev": 0, "test": 60})
    assert {t.domain.name for _, t in every_task(only)} == {"parks", "towns"}
    assert only.splits["dev"] == []
    for flip, share in (("direction", 0.08), ("value", 0.06), ("attribute", 0.01)):
        made = small(
            flips=[flip],
            shares={"target_semantics": share},
            tasks={"train": 300, "dev": 0, "test": 0},
        )
        by_id = {t.id: t for _, t in every_task(made)}
        flips = [t for _, t in every_task(made) if t.kind == "target_semantics"]
        assert flips
        assert {flip_of(by_id[t.derives_from[0]].program, t.program) for t in flips} == {flip}
    words = {d: _mean_overlap(small(paraphrase=d)) for d in ("near", "far")}
    assert words["near"] > words["far"] + 0.05
    sparse, dense = small(facts=3, distractors=0), small(facts="8..10", distractors=5)
    lengths = [sum(e.input.count(" ") for e in examples(m, "normal")) for m in (sparse, dense)]
    assert lengths[0] * 1.2 < lengths[1]


def test_fewer_training_tasks_are_a_prefix_of_more() -> None:
    whole, half = small(), small(train_prefix=30)
    assert half.splits == whole.splits | {"train": whole.splits["train"][:30]}
    task = half.splits["train"][-1]
    assert half.example(task, 2) == whole.example(task, 2)


ONE_SPLIT = {"train": 60, "dev": 0, "test": 0}


def rows(world: TaskWorld) -> list[tuple[str, str]]:
    return [(e.input, e.target) for e in examples(world)]


@pytest.fixture(scope="module")
def plain() -> list[tuple[str, str]]:
    return rows(small(tasks=ONE_SPLIT))


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("domains", ["parks", "dogs"]),
        ("facts", "2..4"),
        ("distractors", "0..1"),
        ("paraphrase", "far"),
        ("flips", ["value"]),
        ("composition_depth", "3"),
        ("structure_width", "1"),
        ("na_rate", 0.4),
        ("classification", 0.3),
        ("passages", 2),
        ("train_prefix", 40),
        ("shares", {"structure": 0.05}),
        ("layout", "bart"),
    ],
)
def test_every_knob_changes_the_data(plain: list[tuple[str, str]], knob: str, value: Any) -> None:
    assert plain != rows(small(**{"tasks": ONE_SPLIT, knob: value}))


def test_the_same_knobs_make_the_same_data(plain: list[tuple[str, str]]) -> None:
    assert plain == rows(small(tasks=ONE_SPLIT))


@pytest.mark.parametrize("depth", [2, 3])
def test_composition_depth_is_the_number_of_joined_tasks(depth: int) -> None:
    made = small(composition_depth=depth)
    joined = [t for _, t in every_task(made) if t.kind == "combination"]
    assert {len(t.derives_from) for t in joined} == {depth}
    assert {len(t.program.leaves) for t in joined} == {depth}
    for e in examples(made, "combination"):
        assert check(e) == e.targets


@pytest.mark.parametrize("width", [1, 2])
def test_structure_width_is_the_number_of_columns(width: int) -> None:
    made = small(structure_width=width, tasks={"train": 60, "dev": 0, "test": 60})
    tables = [json.loads(e.target) for e in examples(made, "structure") if e.target != "n/a"]
    assert {len(row) - 1 for rows in tables for row in rows} == {width}


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_classification_share(share: float) -> None:
    made = small(classification=share)
    for tasks in made.splits.values():
        assert sum(t.format == "classification" for t in tasks) == pytest.approx(
            share * len(tasks), abs=1
        )


def _mean_overlap(made: TaskWorld) -> float:
    by_id = {t.id: t for _, t in every_task(made)}
    pairs = [
        (t.question, by_id[t.derives_from[0]].question)
        for _, t in every_task(made)
        if t.kind == "paraphrase"
    ]
    shared = [
        len(set(a.split()) & set(b.split())) / len(set(a.split()) | set(b.split()))
        for a, b in pairs
    ]
    return sum(shared) / len(shared)


@pytest.mark.parametrize("mode", ["official", "corrected"])
def test_the_evaluation_knows_the_generated_files(mode: str, tmp_path: Path) -> None:
    made = small()
    write_tasks(tmp_path / "dev.jsonl", zest_tasks(made, "dev"))
    tasks = read_tasks(tmp_path / "dev.jsonl")
    assert problems(tasks) == []
    right = [str(i.answer) for t in tasks for i in t.instances]
    (tmp_path / "pred.txt").write_text("\n".join(right), encoding="utf-8")
    report = score(tmp_path / "dev.jsonl", tmp_path / "pred.txt", mode)
    assert report.overall == {"mean": 1.0, "75": 1.0, "90": 1.0}
    assert report.differences["instances"] == 0
    nothing = score(tasks, ["n/a"] * len(right), mode)
    all_na = sum(all(i.answer == "n/a" for i in t.instances) for t in tasks)
    assert sum(t.f1 for t in nothing.tasks) == all_na
