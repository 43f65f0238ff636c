"""Tables 6 and 7 of Dyna-bAbI: the concept sets of the tasks of T7 and T12, with the questions that inject adds."""

from __future__ import annotations

from typing import Any

from taskloom.analysis.finding import Finding
from taskloom.analysis.published_numbers import published
from taskloom.analysis.study import study
from taskloom.analysis.verdict import judge_number
from taskloom.experiments.result_table import ResultTable
from taskloom.papers.dyna_babi.concept_sets import PaperConcepts, task_concepts
from taskloom.papers.dyna_babi.story_samples import fields_of
from taskloom.suites.babi.fields import PARTS


@study("dyna-babi/table6", describe="Concepts of the tasks of T7", place="Dyna-bAbI, Table 6", from_recipes=True)
def table6(scale: str) -> Finding:
    """List the concepts of the tasks of T7 and of mix(T2) and mix(T7)."""
    return concept_finding(6, "T7", ("mix-T2", "mix-T7"))


@study("dyna-babi/table7", describe="Concepts of the tasks of T12", place="Dyna-bAbI, Table 7", from_recipes=True)
def table7(scale: str) -> Finding:
    """List the concepts of the tasks of T12 and of mix(T12)."""
    return concept_finding(7, "T12", ("mix-T12",))


def concept_finding(number: int, part: str, tests: tuple[str, ...]) -> Finding:
    """Return the concept sets of a set of tasks and of its compositional tests as a finding.

    Args:
        number: Of the paper's table.
        part: `T7` or `T12`.
        tests: The recipes of the tests that the table has.
    """
    place, inject = f"Table {number}", fields_of(f"inject-{part}").inject
    rows: list[dict[str, Any]] = []
    judgements = []
    for task in PARTS[part]:
        added = inject.get(task, ())
        rows.append({"task": task, "type": "train", **task_concepts(task).cells(), "inject adds": ", ".join(added)})
        for published_count in published("dyna-babi", place, task=task):
            judgements.append(
                judge_number(len(added), published_count, claim=f"task {task}: questions that inject adds")
            )
    rows += [{"task": name, "type": "test", **task_concepts(name).cells(), "inject adds": ""} for name in tests]
    return Finding(
        f"Dyna-bAbI Table {number}",
        f"Concepts that the recipes of {part} and of its tests list, and the kinds of questions that babi/inject-{part} adds to "
        "a task.",
        ResultTable(("task", "type", *PaperConcepts.COLUMNS, "inject adds"), rows),
        judgements=tuple(judgements),
        notes=(
            "The headings of the paper's table are drawn at an angle: its text does not tell which tick is in which column. What "
            "is compared here is how many kinds of questions are marked as added to a task; the concept sets of the tasks are "
            "those of Table 1 and are compared there.",
            "COMPOUND counts as COREF and CONJ, as in Table 1. The ticks of the tests are not compared.",
        ),
    )
