"""Figures 2 and 6 of TaskBench500 from made-up curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taskloom.analysis.study import StudyError, analyse
from tests.analysis.made_up_scores import made_up
from tests.papers.taskbench500.made_up_tasks import adapted

FAMILIES = {
    "lexical": ("antonyms[eng]", "synonyms[eng]", "hyponyms[eng]"),
    "factual": ("father", "mother", "country"),
    "random": ("random0[eng]", "random1[eng]", "random2[eng]"),
}
RATES = {"lexical": 0.5, "factual": 0.3, "random": 0.1}


def curve(rate: float, task: int) -> dict[int, float]:
    """Return a curve that comes nearer to 1 by this share every 100 steps; tasks of a family differ
    a little.
    """
    return {100 * i: 1 - (1 - rate - 0.01 * task) ** i for i in range(1, 6)}


def learnt(learner: str = "lora", slower: float = 1.0, **fields: Any) -> list[dict[str, Any]]:
    groups = []
    for family, tasks in FAMILIES.items():
        for number, task in enumerate(tasks):
            points = curve(RATES[family] * slower, number)
            named = {key.replace("__", "."): value for key, value in fields.items()}
            groups.append(
                adapted(task, points[500], learner, split="memorise", fields=named, curve=points)
            )
    return groups


def test_planted_rates_of_the_families_come_out(tmp_path: Path) -> None:
    main, claims = analyse(
        "taskbench500/figure2", made_up(tmp_path, *learnt(), *learnt("prompt-tune", 0.2))
    )[2]
    assert main.table is not None
    first = main.table[0]
    assert (first["method"], first["family"], first["tasks"], first["steps"]) == (
        "fine-tuning",
        "lexical",
        3,
        500,
    )
    assert first["at the end"] == "0.972"
    outcomes = {r["claim"]: r["outcome"] for r in claims.table or ()}
    assert outcomes["fine-tuning: lexical tasks are memorised faster than factual ones"] == "holds"
    assert outcomes["fine-tuning memorises more than prompt tuning"] == "holds"
    (figure,) = main.figures
    assert "3 lexical, 3 factual, 3 random" in figure.caption
    assert len(figure.data) == 2 * 3 * 5
    point = figure.data[0]
    assert (point["step"], point["mean"]) == (
        100,
        pytest.approx(0.51),
    )  # of tasks with 0.50, 0.51 and 0.52
    assert point["low"] < 0.5
    assert point["high"] > 0.52


def test_a_planted_reversal_is_seen(tmp_path: Path) -> None:
    """Random relations are memorised fastest here."""
    groups = [
        adapted(task, 1.0, "lora", split="memorise", curve=curve(1 - RATES[family], number))
        for family, tasks in FAMILIES.items()
        for number, task in enumerate(tasks)
    ]
    claims = analyse("taskbench500/figure2", made_up(tmp_path, *groups))[2][1]
    outcomes = {r["claim"]: r["outcome"] for r in claims.table or ()}
    assert (
        outcomes["fine-tuning: lexical tasks are memorised faster than random ones"]
        == "does not hold"
    )


def test_settings_of_figure_6_are_compared_task_by_task(tmp_path: Path) -> None:
    permuted = {"recipe__labels": "permuted"}
    groups = [
        *learnt(),
        *learnt(slower=0.6, **permuted),
        *learnt(slower=0.6, **permuted, learner__pretrained=False),
    ]
    main, claims = analyse("taskbench500/figure6", made_up(tmp_path, *groups))[2]
    assert main.table is not None
    assert [r["setting"][0] for r in main.table] == ["A"] * 3 + ["B"] * 3 + ["C"] * 3
    outcomes = {r["claim"].split(": ")[1]: r["outcome"] for r in claims.table or ()}
    assert outcomes["own labels are memorised faster than permuted ones (C > B)"] == "holds"
    assert outcomes["pre-training helps to memorise permuted labels (B > A)"] == "inconclusive"


def test_random_relations_beside_permuted_tasks_are_what_the_paper_says_of_figure_6(
    tmp_path: Path,
) -> None:
    """Of a pre-trained model that is fine-tuned, with permuted labels alone."""
    groups = [
        *learnt(),
        *learnt(recipe__labels="permuted"),
        *learnt("prompt-tune", recipe__labels="permuted"),
    ]
    claims = analyse("taskbench500/figure6", made_up(tmp_path, *groups))[2][1]
    outcomes = {r["claim"]: r["outcome"] for r in claims.table or () if "random" in r["claim"]}
    text = "fine-tuning: random relations are memorised faster than permuted"
    assert outcomes == {
        f"{text} {family} tasks": "does not hold" for family in ("lexical", "factual")
    }


def test_runs_without_curves_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="has no learning curves of atomic tasks"):
        analyse("taskbench500/figure2", made_up(tmp_path, adapted("father", 0.4, split="memorise")))


def test_tasks_that_are_all_at_zero_have_no_interval(tmp_path: Path) -> None:
    zero = dict.fromkeys(range(100, 600, 100), 0.0)
    groups = [
        adapted(task, 0.0, "lora", split="memorise", curve=zero) for task in FAMILIES["random"]
    ]
    main = analyse("taskbench500/figure2", made_up(tmp_path, *groups))[2][0]
    assert {(row["mean"], row["low"], row["high"]) for row in main.figures[0].data} == {
        (0.0, None, None)
    }
    assert main.figures[0].draw(main.figures[0].data) is not None
