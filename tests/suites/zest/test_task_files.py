"""Reading ZEST files: the real rows, layouts, statistics, and the recipe over files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import taskloom as tl
from taskloom.core.errors import RecipeError, TaskloomError
from taskloom.recipe import read
from taskloom.suites.zest.fields import context, layout
from taskloom.suites.zest.task_files import (
    problems,
    read_script_predictions,
    read_tasks,
    statistics,
    tasks_from,
    write_tasks,
)


def test_the_real_rows(shared: Path) -> None:
    """Counts taken with a JSON parser alone."""
    for name in ("train", "dev"):
        path = shared / "zest" / f"{name}.jsonl"
        rows = [json.loads(line) for line in path.open(encoding="utf-8")]
        tasks = read_tasks(path)
        assert [t.id for t in tasks] == [r["id"] for r in rows]
        assert [t.kind for t in tasks] == [r["type"]["generalization_type"] for r in rows]
        found = statistics(tasks)
        pairs = [e for r in rows for e in r["examples"]]
        assert found.pairs == len(pairs)
        assert found.na == pytest.approx(sum(e["answer"] == "n/a" for e in pairs) / len(pairs))
        assert found.passage_words == pytest.approx(
            sum(len(e["context"].split()) for e in pairs) / len(pairs)
        )
        # The sample has derived tasks whose base tasks are elsewhere in the full dataset, and
        # nothing else that is odd.
        assert all("is not a base task of this file" in p.what for p in problems(tasks))
    unanswered = read_tasks(shared / "zest" / "test_unanswered.jsonl")
    assert all(t.kind is None and all(i.answer is None for i in t.instances) for t in unanswered)


def test_the_recipe_over_files(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKLOOM_DATA", str(shared))
    plan = read("zest/real").plan(0)
    assert [s.name for s in plan.splits] == ["train", "dev"]
    first = next(iter(plan.split("dev").rows(0, 1)))
    assert first.input.startswith("zeroshot question: ")
    assert plan.scorer.score(first.target, first) == 1.0
    assert len(plan.sources) == 2
    with pytest.raises(RecipeError, match="has no answers"):
        read("zest/real", [f"files.test={shared / 'zest' / 'test_unanswered.jsonl'}"]).plan(0)
    with pytest.raises(TaskloomError, match="there is no file"):
        read("zest/real", [f"files.dev={tmp_path / 'none.jsonl'}"]).plan(0)


def test_odd_files_of_ones_own(tmp_path: Path) -> None:
    row = {
        "id": "b",
        "question": "Is it?",
        "type": {"generalization_type": "normal", "derives_from": [], "domain": None},
        "examples": [{"context": "c", "answer": "yes"}],
    }
    path = tmp_path / "mine.jsonl"
    path.write_text(f"{json.dumps(row)}\n{json.dumps(row)}\n", encoding="utf-8")
    plan = read("zest/synthetic", [f"files.dev={path}"]).plan(0)
    assert plan.warnings == ("mine.jsonl, line 2, task b: its id is already used on line 1",)
    assert next(iter(plan.split("dev").rows(0, 1))).traits["domain"] == ""
    path.write_text(json.dumps(row | {"question": "Is it \ud800?"}), encoding="utf-8")
    with pytest.raises(RecipeError, match="surrogate"):
        read("zest/synthetic", [f"files.dev={path}"]).plan(0)
    with pytest.raises(TaskloomError, match="is a folder; name a file in it"):
        read("zest/synthetic", [f"files.dev={tmp_path}"]).plan(0)


@pytest.mark.parametrize(
    ("question", "format"),
    [
        ("After leaving office, where did this president go to retire?", "extraction"),
        ("While in office, did this president travel?", "classification"),
        ("Is it open?", "classification"),
        ("Where is it, and when?", "extraction"),
    ],
)
def test_the_format_of_a_task_that_no_passage_answers(question: str, format: str) -> None:
    row = {"id": "b", "question": question, "examples": [{"context": "c", "answer": "n/a"}]}
    assert tasks_from([row])[0].format == format


def test_layouts() -> None:
    assert (
        layout("Is it?", "It is.\nSo.")
        == "zeroshot question: Is it?\n\nzeroshot context: It is.\nSo.\n\n"
    )
    assert (
        layout("Is it?", "It is.", "bart") == "zeroshot question: Is it? zeroshot context: It is."
    )
    assert (
        layout("Is it?", "It is.", "reference-t5")
        == "zest question: Is it??\n\nzest context: It is.\n\n"
    )
    assert (
        layout("Is it?", "It is.\nSo.", "reference-bart")
        == " zest question: Is it? zest context: It is. So."
    )
    for style in ("t5", "bart", "reference-t5", "reference-bart"):
        assert context(layout("Is it?", "It is.", style)) == "It is."


def test_writing_and_reading_again(tmp_path: Path) -> None:
    rows = [
        {
            "id": "b",
            "question": "What is it?",
            "type": {"generalization_type": "normal", "derives_from": [], "domain": "owls"},
            "examples": [
                {"context": "Été – “so”.", "answer": ["a", "b"]},
                {"context": "c", "answer": '[{"a": "x"}]'},
            ],
        }
    ]
    tasks = tasks_from(rows)
    write_tasks(tmp_path / "x.jsonl", tasks)
    assert read_tasks(tmp_path / "x.jsonl") == tasks
    assert tasks[0].format == "structure"


@pytest.mark.parametrize("style", ["t5", "reference-bart"])
def test_generated_tasks_are_exported_as_a_zest_file_and_read_again(
    tmp_path: Path, style: str
) -> None:
    small = ["tasks={train: 12, dev: 24, test: 0}", "passages=3", f"layout={style}"]
    tl.make("zest/synthetic", tmp_path / "data", changes=small)
    tl.export(tmp_path / "data", "zest", tmp_path / "dev.jsonl", split="dev")
    made = list(tl.load(tmp_path / "data")["dev"])
    assert len(made) == 72
    files = f"files={{dev: {tmp_path / 'dev.jsonl'}}}"
    again = read("zest/real", [files, f"layout={style}"])
    rows = list(again.plan(0).split("dev").rows(0, len(made)))
    assert [(e.input, e.targets, e.task) for e in rows] == [
        (e.input, e.targets, e.task) for e in made
    ]


def test_inputs_without_passages_are_not_a_zest_file(tmp_path: Path) -> None:
    small = ["tasks={train: 12, dev: 24, test: 0}", "passages=3", "parts=question"]
    tl.make("zest/synthetic", tmp_path / "data", changes=small)
    with pytest.raises(TaskloomError, match="parts=both"):
        tl.export(tmp_path / "data", "zest", tmp_path / "dev.jsonl", split="dev")


def test_a_file_may_be_named_by_a_text_and_a_bad_byte_is_found(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    row = {
        "id": "a",
        "question": "Is it?",
        "examples": [{"context": "x" * 100_000, "answer": "yes"}],
    }
    write_tasks(
        str(path), tasks_from([row | {"type": {"generalization_type": "normal", "domain": "owls"}}])
    )
    assert [t.id for t in read_tasks(str(path))] == ["a"]
    path.write_bytes(path.read_bytes() * 3 + b"\xff")
    with pytest.raises(TaskloomError, match=r"not UTF-8 text \(after line [23]\)"):
        read_tasks(str(path))


def test_predictions_may_come_through_a_pipe() -> None:
    """As in a shell: --pred <(my-system), which names an open file of the process."""
    read, write = os.pipe()
    with os.fdopen(write, "w") as writer:
        writer.write("yes\nno\n")
    predictions = read_script_predictions(Path(f"/dev/fd/{read}"))
    assert [p.text for p in predictions] == ["yes", "no"]
    os.close(read)
