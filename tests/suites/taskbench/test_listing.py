"""`taskloom list RECIPE`: the functions of a recipe with what a score on them must be compared
with.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from taskloom.cli.app import run
from taskloom.data import make as making

ENGLISH = [
    "functions=['antonyms[eng]', 'is_pos_noun[eng]', 'map(antonyms[eng])', 'entailments[eng]']",
    "minimum=500",
    "sequences.n=500",
]


def listed(capsys: pytest.CaptureFixture[str], name: str, *changes: str) -> dict[str, Any]:
    assert run(["list", name, *(word for c in changes for word in ("--set", c)), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("taskbench/english", [*ENGLISH, "pairs=published"]),
        ("taskbench/union(father, mother)", ["balanced=true", "facts=synthetic#people=2000"]),
        ("taskbench/antonyms[eng]", ["labels=permuted", "pairs=published"]),
    ],
)
def test_sizes_and_baselines_are_those_of_the_data(
    name: str, changes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The oracle counts the rows of a made dataset."""
    data = making.make(name, set=changes)
    targets: dict[str, list[list[str]]] = {}
    for split in {"train", "dev", "test"}.intersection(data.splits):
        table = data.table(split)
        for task, given in zip(
            table.column("task").to_pylist(), table.column("targets").to_pylist(), strict=True
        ):
            targets.setdefault(task, []).append(given)
    found = {row["name"]: row for row in listed(capsys, name, *changes)["tasks"]}
    assert found.keys() == targets.keys()
    for task, rows in targets.items():
        if "map(" in task:
            continue
        hits = Counter(answer for given in rows for answer in given)
        mean = sum(map(len, rows)) / len(rows)
        row = found[task]
        assert row["inputs"] == len(rows)
        assert row["answers"] == pytest.approx(mean)
        assert row["majority"] == pytest.approx(max(hits.values()) / len(rows))
        assert row["chance"] == pytest.approx(mean / len(hits))


def test_a_sequence_task_is_profiled_by_its_positions(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {r["name"]: r for r in listed(capsys, "taskbench/english", *ENGLISH)["tasks"]}
    word, sequence = rows["taskbench/antonyms[eng]"], rows["taskbench/map(antonyms[eng])"]
    assert {k: word[k] for k in ("inputs", "majority", "chance")} == {
        k: sequence[k] for k in ("inputs", "majority", "chance")
    }
    assert (word["composition"], sequence["composition"]) == ("atomic", "map")
    assert "antonym" in word["describe"]


def test_what_is_left_out_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(listed(capsys, "taskbench/english", *ENGLISH)["left_out"]) == ["entailments[eng]"]
    assert (
        run(["list", "taskbench/english", *(word for c in ENGLISH for word in ("--set", c))]) == 0
    )
    text = capsys.readouterr().out
    assert "taskbench/map(antonyms[eng])" in text
    assert "note: 1 function is left out" in text
    assert "majority" in text
