"""The official mode sums as the public script does, bit by bit: a reimplementation of NumPy's and
pandas' order of summation.
"""

from __future__ import annotations

from itertools import permutations
from math import fsum
from random import Random
from typing import Any

import numpy as np
import pytest

from taskloom.suites.zest.evaluation import score
from taskloom.suites.zest.evaluation.score_report import average, printed
from taskloom.suites.zest.evaluation.spans import mean
from taskloom.suites.zest.task_files import tasks_from

KINDS = ("paraphrase", "combination", "target_semantics", "structure", "normal")


def pairwise(values: list[float]) -> float:
    """Add up as NumPy does: below eight in turn, up to 128 by eight accumulators, above that by
    halves.
    """
    n = len(values)
    if n < 8:
        total = 0.0
        for value in values:
            total = total + value
        return total
    if n > 128:
        half = n // 2 - n // 2 % 8
        return pairwise(values[:half]) + pairwise(values[half:])
    whole = n - n % 8
    lanes = values[:8]
    for i in range(8, whole, 8):
        lanes = [lane + values[i + j] for j, lane in enumerate(lanes)]
    a, b, c, d, e, f, g, h = lanes
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for value in values[whole:]:
        total = total + value
    return total


@pytest.mark.parametrize("n", [1, 5, 7, 8, 9, 63, 128, 129, 300, 1000])
def test_means_have_the_bits_of_the_script(n: int) -> None:
    rng = Random(n)
    for _ in range(50):
        values = [rng.random() for _ in range(n)]
        assert mean(values) == pairwise(values) / n == float(np.mean(np.array(values)))


def test_the_average_adds_the_rows_from_top_to_bottom() -> None:
    """Shares that come to 0.055: in some orders the script prints 5, in others 6, and an exact sum
    knows one answer only.
    """
    prints = set()
    for order in permutations((0.0, 0.05, 0.08, 0.02, 0.125)):
        total = 0.0
        for share in order:
            total = total + share
        row = average(
            dict(zip(KINDS, ({"90": share} for share in order), strict=True)), by_script=True
        )
        assert row["90"] == total / 5
        assert printed(row["90"]) == int(round(total / 5 * 100) / 100 * 100)
        prints.add(printed(row["90"]))
    assert prints == {5, 6}


def task_files(rng: Random) -> tuple[list[dict[str, Any]], list[str]]:
    """Draw yes/no tasks of every kind, and predictions that are right by half."""
    tasks: list[dict[str, Any]] = []
    predictions = []
    for number in range(rng.randint(20, 60)):
        kind = "normal" if number < 5 else rng.choice(KINDS)
        base = f"t{rng.randrange(5)}"
        answers = [rng.choice(("yes", "no", "n/a")) for _ in range(rng.randint(1, 12))]
        predictions += [
            a if rng.random() < 0.6 else rng.choice(("yes", "no", "n/a")) for a in answers
        ]
        tasks.append(
            {
                "id": f"t{number}",
                "question": f"Is it so in case {number}?",
                "type": {
                    "generalization_type": kind,
                    "derives_from": [] if kind == "normal" else [base],
                    "domain": "owls",
                },
                "examples": [{"context": "Owls.", "answer": answer} for answer in answers],
            }
        )
    return tasks, predictions


def by_script(
    tasks: list[dict[str, Any]], predictions: list[str]
) -> tuple[dict[str, list[float]], list[float]]:
    """Score yes/no tasks as the script does: rows by type with base tasks last, and their
    average.
    """
    upcoming = iter(predictions)
    f1s: dict[str, float] = {}
    rows: dict[str, list[float]] = {}
    for task in tasks:
        gained, predicted, positive = 0.0, 0, 0
        for example in task["examples"]:
            answer, prediction = example["answer"], next(upcoming)
            predicted += prediction != "n/a"
            positive += answer != "n/a"
            gained = gained + (1.0 if answer == prediction != "n/a" else 0.0)
        p, r = (gained / predicted if predicted else 1), (gained / positive if positive else 1)
        f1s[task["id"]] = (2 * p * r) / (p + r) if p + r > 0 else 0.0
    for task in tasks:
        kind, f1 = task["type"]["generalization_type"], f1s[task["id"]]
        if kind != "normal":
            paired = kind in ("paraphrase", "target_semantics")
            rows.setdefault(kind, []).append(
                min(f1, f1s[task["type"]["derives_from"][0]]) if paired else f1
            )
    rows["normal"] = [f1s[t["id"]] for t in tasks if t["type"]["generalization_type"] == "normal"]
    table = {
        kind: [pairwise(of) / len(of), *(sum(f >= t for f in of) / len(of) for t in (0.75, 0.90))]
        for kind, of in rows.items()
    }
    return table, [
        pairwise(list(column)) / len(table) for column in zip(*table.values(), strict=True)
    ]


def test_random_files_have_the_bits_of_the_script() -> None:
    otherwise = 0
    for seed in range(60):
        tasks, predictions = task_files(Random(seed))
        report = score(tasks_from(tasks), predictions)
        table, last = by_script(tasks, predictions)
        assert {kind: list(row.values()) for kind, row in report.by_type.items()} == table
        assert list(report.by_type) == list(table)
        assert list(report.overall.values()) == last
        assert report.official_json()["overall"] == int(round(last[2] * 100) / 100 * 100)
        otherwise += last[0] != fsum(row[0] for row in table.values()) / len(table)
    assert otherwise > 0  # an exact sum would have other bits
