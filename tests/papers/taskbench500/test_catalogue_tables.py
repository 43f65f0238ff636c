"""The lists of TaskBench500: counts of the catalogue beside those of the paper's tables."""

from __future__ import annotations

import pytest

from taskloom.analysis import Finding, find_study, published
from taskloom.papers.taskbench500.catalogue_tables import family_rows, judge_tasks, task_rows
from taskloom.suites.taskbench.catalog import CatalogTask, catalog

FACTS = frozenset({"factual"})

CONSTRUCTED = [
    CatalogTask("land(is_occupation_actor, is_birthplace_la)", "land", FACTS, printed=True),
    CatalogTask(
        "land(is_birthplace_la, is_occupation_actor)", "land", FACTS, printed=True, same_as="x"
    ),
    CatalogTask("land(is_birthplace_la, is_birthplace_nyc)", "land", FACTS, printed=False),
    CatalogTask("union(father, mother)", "union", FACTS, printed=True),
]


def study(number: int, **settings: object) -> Finding:
    (finding,) = find_study(f"taskbench500/table{number}")("quick", **settings)
    return finding


def test_tasks_are_counted_by_composition_and_family() -> None:
    rows = [
        (r["composition"], r["family"], r["tasks"], r["printed"]) for r in family_rows(CONSTRUCTED)
    ]
    assert rows == [("land", "factual", 3, 2), ("union", "factual", 1, 1)]
    assert [row["same as"] for row in task_rows(CONSTRUCTED)] == ["", "x", "", ""]


def test_a_task_that_is_not_printed_does_not_count_as_one_of_the_table() -> None:
    (number,) = published("taskbench500", "Table 6", composition="land")
    judgement = judge_tasks(CONSTRUCTED[:3], number, "land")
    assert (judgement.ours, judgement.published, judgement.verdict) == (2, 6, "disagrees")


@pytest.mark.parametrize("number", [4, 5, 6, 7])
def test_the_catalogue_has_what_the_tables_print(number: int) -> None:
    finding = study(number)
    assert len(finding.judgements) == len(published("taskbench500", f"Table {number}"))
    assert {judgement.verdict for judgement in finding.judgements} == {"agrees"}


def test_one_of_500_tasks_cannot_be_named() -> None:
    *printed, total = study(8).judgements
    assert {judgement.verdict for judgement in printed} == {"agrees"}
    assert (total.ours, total.published, total.verdict) == (499, 500, "disagrees")


def test_the_tables_together_list_every_task_once() -> None:
    tables = [study(number, names=True).table for number in (6, 7, 8)]
    names = [row["task"] for table in tables if table is not None for row in table]
    atomic = study(4).table
    assert atomic is not None
    names += [name for row in atomic for name in row["names"].split(", ")]
    assert sorted(names) == sorted(task.expression for task in catalog())


def test_reconstructed_tasks_are_named_in_the_notes() -> None:
    assert any("subclass_of" in note for note in study(4).notes)
    assert any("filter(is_sentiment_neutral[eng])" in note for note in study(8).notes)
    assert study(5).table is not None
