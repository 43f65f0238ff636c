"""The preregistered numbers of TaskBench500, recomputed from the stored files by independent code:
SciPy, and no statistics of the package.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from scipy import stats

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "taskbench500"
PAGE = RESULTS.parent / "taskbench500-record.md"

Scores = dict[tuple[str, bool], float]
"""Mean score over seeds by task and separators."""


def stored(file: str, learner: str) -> Scores:
    """Scores of a learner on all data."""
    scores = {}
    for group in json.loads((RESULTS / file).read_text(encoding="utf-8"))["groups"]:
        fields = group["fields"]
        other = {"recipe.memorise", "recipe.balanced"} & set(fields)
        if group["learner"] == learner and not other and not fields.get("learner.shots"):
            task = fields["recipe.task"].removeprefix("taskbench/")
            separators = fields.get("recipe.sequences.separators", False)
            scores[task, separators] = fmean(seed["test"] for seed in group["seeds"].values())
    return scores


def parts_of(task: str) -> tuple[str, list[str]]:
    """Composition and operands of a task as it is written: `union(child, father)`."""
    found = re.fullmatch(r"(\w+)\((.*)\)", task)
    if not found:
        return "atomic", []
    operands, depth = [""], 0
    for character in found[2]:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            operands.append("")
        else:
            operands[-1] += character
    return found[1], [operand.strip() for operand in operands]


def excesses(
    scores: Scores, constants: Scores, composition: str, separators: bool
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], list[list[str]]]:
    """Excess over the best constant: mean of the parts, and the composed task."""
    x, y, parts = [], [], []
    for (task, apart), score in scores.items():
        name, operands = parts_of(task)
        known = all((operand, False) in scores for operand in operands)
        if name == composition and apart == separators and known:
            x.append(fmean(scores[o, False] - constants[o, False] for o in operands))
            y.append(score - constants[task, apart])
            parts.append(operands)
    return np.array(x), np.array(y), parts


def against_half(
    x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], parts: list[list[str]]
) -> tuple[float, float, float, float]:
    """r², its interval, and p of r² = 0.5, by the jackknife of Fisher's z over parts."""
    z = np.arctanh(stats.pearsonr(x, y).statistic)
    names = sorted({name for own in parts for name in own})
    without = []
    for name in names:
        kept = np.array([name not in own for own in parts])
        without.append(np.arctanh(stats.pearsonr(x[kept], y[kept]).statistic))
    n = len(names)
    error = np.sqrt((n - 1) / n * np.sum((without - np.mean(without)) ** 2))
    half = stats.t.ppf(0.975, n - 1) * error
    p = 2 * stats.t.sf(abs(abs(z) - np.arctanh(np.sqrt(0.5))) / error, n - 1)
    low = np.tanh(max(0.0, abs(z) - half)) ** 2
    return float(np.tanh(z) ** 2), float(low), float(np.tanh(abs(z) + half) ** 2), float(p)


@pytest.mark.parametrize(
    ("composition", "separators", "file", "expected", "p"),
    [
        ("union", False, "scores.json", (0.207, 0.004, 0.528), 0.074),
        ("chain", False, "scores.json", (0.148, 0.000, 0.526), 0.067),
        ("map", False, "scores.json", (0.348, 0.116, 0.581), 0.212),
        ("map", False, "eight/scores.json", (0.392, 0.214, 0.560), 0.217),
        ("map", True, "eight/scores.json", (0.134, 0.003, 0.373), 0.004),
    ],
)
def test_preregistered_numbers_follow_from_the_stored_scores(
    composition: str, separators: bool, file: str, expected: tuple[float, ...], p: float
) -> None:
    scores, constants = stored(file, "lora"), stored(file, "majority")
    *found, found_p = against_half(*excesses(scores, constants, composition, separators))
    assert found == pytest.approx(expected, abs=6e-4)
    assert found_p == pytest.approx(p, abs=6e-4)


def test_the_page_states_the_preregistered_numbers() -> None:
    scores, constants = stored("scores.json", "lora"), stored("scores.json", "majority")
    page = PAGE.read_text(encoding="utf-8")
    for composition, row in (("union", "unions"), ("chain", "chains"), ("map", "maps without")):
        r2, low, high, _ = against_half(*excesses(scores, constants, composition, False))
        line = next(line for line in page.splitlines() if line.startswith(f"| {row}"))
        assert f"{r2:.3f} [{low:.3f}, {high:.3f}]" in line


@pytest.mark.slow
@pytest.mark.parametrize("folder", [".", "eight"])
def test_stored_predictions_give_the_stored_scores(folder: str, tmp_path: Path) -> None:
    import subprocess
    import sys

    script = RESULTS.parents[2] / "benchmarks" / "taskbench500" / "collect_scores.py"
    out = tmp_path / "again.json"
    command = [sys.executable, str(script), "--rescore", str(RESULTS / folder), "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    again = json.loads(out.read_text(encoding="utf-8"))["groups"]
    known = {
        json.dumps([group["learner"], group["fields"]], sort_keys=True): group["seeds"]
        for group in json.loads((RESULTS / folder / "scores.json").read_text("utf-8"))["groups"]
    }
    assert again
    for group in again:
        key = json.dumps([group["learner"], group["fields"]], sort_keys=True)
        assert known[key] == group["seeds"]
