"""Table 1 and Figure 1 of ZEST: instances of each kind of generalization, and what a system is
given. None needs a training.
"""

from __future__ import annotations

from typing import Any

from taskloom.analysis.finding import Finding
from taskloom.analysis.study import study
from taskloom.core.example import Example
from taskloom.experiments.result_table import ResultTable
from taskloom.papers.zest.breakdown_tables import RECIPE, SEED
from taskloom.recipe import read
from taskloom.suites.zest.fields import context
from taskloom.suites.zest.task_files import PAPER_NAMES


def _examples(split: str, most: int) -> list[Example]:
    own = next(one for one in read(RECIPE).plan(SEED).splits if one.name == split)
    return list(own.rows(0, min(most, own.n)))


def _row(example: Example) -> dict[str, Any]:
    return {
        "question": example.question,
        "passage": context(example.input),
        "answer": example.target,
    }


@study(
    "zest/table1",
    describe="An instance of each kind of generalization",
    place="ZEST, Table 1",
    from_recipes=True,
)
def table1(scale: str) -> Finding:
    """Show the instance with the shortest passage of each generalization type on dev."""
    examples = _examples("dev", 10**9)
    rows = []
    for kind, name in PAPER_NAMES.items():
        own = [e for e in examples if e.traits["generalization_type"] == kind]
        answered = [e for e in own if e.target != "n/a"]
        if own:
            shortest = min(answered or own, key=lambda example: len(example.input))
            rows.append({"generalization": name, **_row(shortest)})
    return Finding(
        "ZEST Table 1",
        f"Instances of {RECIPE} (dev, seed {SEED}), each the shortest of its kind.",
        ResultTable(("generalization", "question", "passage", "answer"), rows),
        notes=("The paper's instances are crowd-sourced; zest/real reads them from its files.",),
    )


@study(
    "zest/figure1",
    describe="What a system is given: descriptions in training, new descriptions at test",
    place="ZEST, Figure 1",
    from_recipes=True,
)
def figure1(scale: str) -> Finding:
    """Show an instance of a task of training beside one of a new task."""
    rows = [{"given": split, **_row(_examples(split, 1)[0])} for split in ("train", "test")]
    return Finding(
        "ZEST Figure 1",
        "The paper's figure is a drawing: a system learns from tasks with their descriptions, and"
        " answers tasks of which it has only read the description.",
        ResultTable(("given", "question", "passage", "answer"), rows),
    )
