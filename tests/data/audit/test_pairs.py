"""The audit finds pairs that training has, as they are or reversed, and tasks that are new but for
a constant.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskloom as tl
from taskloom.cli.app import run
from taskloom.core.plan import Role
from taskloom.data.audit.leaks import PairLeak, find_constant_tasks, find_pair_leaks

ROLES: dict[str, Role] = {"train": "train", "few": "train", "test": "test", "answers": "probe"}
Pairs = list[tuple[str, list[str]]]


def table(pairs: Pairs, tasks: list[str] | None = None) -> pa.Table:
    columns = {"input": pa.array([x for x, _ in pairs], pa.string())}
    columns["targets"] = pa.array([ys for _, ys in pairs], pa.list_(pa.string()))
    return pa.table(columns | ({"task": pa.array(tasks)} if tasks else {}))


def leaks(train: Pairs, test: Pairs) -> list[PairLeak]:
    return find_pair_leaks({"train": table(train), "test": table(test)}, ROLES)


def test_planted_pairs_are_found() -> None:
    train: Pairs = [("cold", ["chilly", "hot"]), ("big", ["large"]), ("tall", ["high"])]
    (leak,) = leaks(
        train, [("hot", ["warm", "cold"]), ("big", ["huge", "large"]), ("small", ["little"])]
    )
    assert leak == PairLeak("test", 1, 1, 2 / 3, ["big → large", "hot → cold"])


def test_clean_data_are_not_accused() -> None:
    train: Pairs = [("cold", ["chilly"]), ("big", ["large"]), ("hot", ["warm"])]
    # The same input with another answer, an answer that training has for another input, an input
    # that is its own answer.
    assert (
        leaks(
            train,
            [
                ("big", ["huge"]),
                ("icy", ["chilly"]),
                ("warm", ["warm"]),
                ("large", ["great", "cold"]),
            ],
        )
        == []
    )
    assert leaks([("one", ["one"])], [("two", ["two"])]) == []
    tables = {"train": table(train), "answers": table(train), "test": table([])}
    assert find_pair_leaks(tables, ROLES) == []
    assert find_pair_leaks({"test": table(train)}, ROLES) == []


words = st.sampled_from("abcdef")
rows = st.lists(st.tuples(words, st.lists(words, min_size=1, max_size=3)), min_size=1, max_size=8)


@given(rows, rows, rows)
def test_counts_equal_brute_force(train: Pairs, few: Pairs, test: Pairs) -> None:
    found = find_pair_leaks({"train": table(train), "few": table(few), "test": table(test)}, ROLES)
    known = {(x, y) for x, ys in train + few for y in ys}
    same = [any((x, y) in known for y in ys) for x, ys in test]
    turned = [any((y, x) in known and x != y for y in ys) for x, ys in test]
    both = [a or b for a, b in zip(same, turned, strict=True)]
    expected = [(sum(same), sum(turned), sum(both) / len(test))] if any(both) else []
    assert [(leak.same, leak.reversed, leak.share) for leak in found] == expected


def test_a_reversed_pair_fails_the_audit_of_anybodys_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.jsonl").write_text(
        '{"input": "cold", "target": "hot"}\n{"input": "big", "target": "large"}\n'
    )
    (tmp_path / "test.jsonl").write_text(
        '{"input": "hot", "target": "cold"}\n{"input": "wide", "target": "broad"}\n'
    )
    assert run(["audit", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "hot → cold" in shown
    assert "failed: 1 leak (1 by a reversed pair)" in shown
    assert run(["audit", str(tmp_path), "--json"]) == 1
    (leak,) = json.loads(capsys.readouterr().out)["pairs"]
    assert leak == {
        "split": "test",
        "same": 0,
        "reversed": 1,
        "share": 0.5,
        "examples": ["hot → cold"],
    }


def form(task: str, traits: object) -> str:
    return task.rstrip("0123456789")


def test_tasks_that_are_new_but_for_a_constant() -> None:
    train = table([("a", ["b"])] * 3, ["add 1", "double", "add 2"])
    test = table([("c", ["d"])] * 4, ["add 1", "add 3", "add 3", "halve"])
    tables = {"train": train, "test": test, "answers": table([("e", ["f"])], ["add 4"])}
    (found,) = find_constant_tasks(tables, ROLES, form)
    assert (found.split, found.task, found.like, found.n) == ("test", "add 3", "add 1", 2)
    assert find_constant_tasks(tables, ROLES, None) == []


def test_functions_that_are_new_but_for_a_constant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    functions = ["is_occupation_actor", "is_occupation_writer", "is{place_of_birth=Q84}", "father"]
    unseen = [f"taskbench/{name}" for name in ("is_occupation_writer", "father")]
    changes = {
        "functions": functions,
        "facts": "synthetic#people=300",
        "few_shot": None,
        "minimum": 5,
    }
    result = tl.audit(
        tl.make(
            "taskbench/english", tmp_path / "a", set={**changes, "described": {"unseen": unseen}}
        )
    )
    assert {(c.split, c.task, c.like) for c in result.constants} == {
        (split, "taskbench/is_occupation_writer", "taskbench/is_occupation_actor")
        for split in ("dev", "test")
    }
    assert run(["audit", str(tmp_path / "a")]) == 0
    assert "but for a constant" in capsys.readouterr().out


def test_rows_are_not_compared_with_each_other_one_by_one() -> None:
    n = 50_000
    texts = pa.array([f"w{i}" for i in range(2 * n)])
    every = texts.take(pa.array(np.tile(np.arange(2 * n), 2)))
    answers = pa.ListArray.from_arrays(pa.array(np.arange(0, 4 * n + 1, 4, dtype=np.int32)), every)
    tables = {
        "train": pa.table({"input": texts.slice(0, n), "targets": answers}),
        "test": pa.table({"input": texts.slice(n), "targets": answers}),
    }
    start = time.process_time()
    find_pair_leaks(tables, ROLES)
    assert time.process_time() - start < 5  # about 0.1; one by one it would be an hour
