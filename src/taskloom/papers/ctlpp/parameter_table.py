"""Table 2 of CTL++: how large the models are and how long they are trained."""

from __future__ import annotations

from typing import Any

from taskloom.analysis.finding import Finding
from taskloom.analysis.published_numbers import published
from taskloom.analysis.study import study
from taskloom.analysis.verdict import judge_number
from taskloom.experiments.result_table import ResultTable
from taskloom.learners.config import read
from taskloom.papers.ctlpp.trainings import MODELS

WORDS, ANSWERS = 40, 8
"""The inputs are 32 functions and 8 symbols; the answers are symbols."""

SINUSOIDS = 2 * 1_999 * 128
"""Numbers in the two tables of sinusoids that the public code keeps beside the Transformer's weights."""

INDEX = 5_000
"""Entries of an index that the public code keeps beside the weights of the Transformer and of NDR."""

BUFFERS = {"bilstm": 0, "transformer": SINUSOIDS + INDEX, "ndr": INDEX}
"""Numbers that the paper's script counts though they are not trained (docs/papers/ctlpp.md)."""


@study(
    "ctlpp/table2",
    describe="Trainable parameters and training steps of the models of CTL++",
    place="CTL++, Table 2",
    from_recipes=True,
)
def table2(scale: str) -> Finding:
    """Count the trainable parameters of the paper's models as its public code sets them."""
    from taskloom.learners.scratch.nets.ops import count

    words = [str(number) for number in range(WORDS)]
    rows, judgements = [], []
    for model, label in MODELS.items():
        learner: Any = read({"learner": model, "preset": "ctlpp"})
        counted, steps = count(learner.network_for(learner.reader(words), ANSWERS)), learner.training.steps
        with_buffers = counted + BUFFERS[model]
        rows.append({"model": label, "trainable": counted, "with buffers": with_buffers, "steps": steps})
        for what, value in (("parameters", counted), ("steps", steps)):
            (number,) = published("ctlpp", "Table 2", model=model, what=what)
            judgements.append(judge_number(value, number, claim=f"{label}: {what}"))
    return Finding(
        "CTL++ Table 2",
        "Parameters that training changes, and what the paper's script counts: it adds tables of sinusoids and an index that the "
        "public code keeps with the weights.",
        ResultTable(("model", "trainable", "with buffers", "steps"), rows),
        judgements=tuple(judgements),
        notes=(
            "The paper gives Transformer and NDR nearly the same size; the Transformer has less than a quarter of NDR's trainable "
            "parameters.",
            "Run times are not compared: the paper's are of a P100.",
        ),
    )
