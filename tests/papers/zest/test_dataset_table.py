"""Table 2 of ZEST: on tasks with known words and answers, and on few generated ones."""

from __future__ import annotations

from dataclasses import replace

from taskloom.analysis import find_study, published
from taskloom.core.example import Example
from taskloom.papers.zest.breakdown_tables import split_statistics, table2_finding, tasks_in
from taskloom.recipe import read
from taskloom.suites.zest.fields import layout
from taskloom.suites.zest.task_files import PAPER, Statistics, statistics

FORMATS = {"extraction": 9, "classification": 9, "structure": 2}
"""The shares of section 4.4: 45, 45 and 10 %."""

AS_PUBLISHED = {
    split: Statistics(
        pairs=int(row["pairs"]), passage_words=row["passage_words"], tasks=int(row["tasks"]), task_words=row["task_words"],
        na=row["na"], classification=row["classification"], types={}, domains={}, formats=FORMATS,
    )
    for split, row in PAPER.items()
}  # fmt: skip


def example(task: str, question: str, passage: str, answer: str) -> Example:
    return Example(layout(question, passage), answer, question=question, task=task)


def test_words_are_those_of_the_passage_without_the_question() -> None:
    examples = [
        example("a", "Is there a lake here?", "There is a lake.", "yes"),
        example("a", "Is there a lake here?", "Bears live here in summer and winter.", "n/a"),
        example("b", "Who was born?", "Mary.", "Mary"),
    ]
    row = statistics(tasks_in(examples))
    assert (row.tasks, row.pairs, row.passage_words, row.task_words) == (2, 3, 4.0, 4.0)
    assert (row.na, row.classification) == (1 / 3, 0.5)


def test_the_data_file_and_the_generator_have_the_same_published_numbers() -> None:
    numbers = {(n.of["split"], n.of["what"]): n.value for n in published("zest", "Table 2")}
    assert numbers == {
        (split, what): value for split, row in PAPER.items() for what, value in row.items()
    }


def test_published_statistics_agree_and_longer_passages_do_not() -> None:
    assert {j.verdict for j in table2_finding(AS_PUBLISHED).judgements} == {"agrees"}
    longer = {
        **AS_PUBLISHED,
        "dev": replace(AS_PUBLISHED["dev"], passage_words=122 * 1.06, na=0.68),
    }
    disagreeing = [j.claim for j in table2_finding(longer).judgements if j.verdict == "disagrees"]
    assert disagreeing == ["dev: mean words of a passage", "dev: share of n/a"]


def test_generated_splits_are_counted() -> None:
    small = ["passages=2", "tasks.train=60", "tasks.dev=20", "tasks.test=40"]
    rows = split_statistics(read("zest/synthetic", small).plan(0))
    assert {split: (row.tasks, row.pairs) for split, row in rows.items()} == {
        "train": (60, 120),
        "dev": (20, 40),
        "test": (40, 80),
    }
    assert all(80 < row.passage_words < 180 for row in rows.values())


def test_it_is_a_study_of_a_recipe() -> None:
    study = find_study("zest/table2")
    assert study.from_recipes
    assert study.place == "ZEST, Table 2"


def test_table_1_shows_a_base_task_with_a_task_of_each_kind_derived_from_it() -> None:
    (finding,) = find_study("zest/table1")("quick")
    assert finding.table is not None
    rows = {row["generalization"]: row for row in finding.table}
    assert list(rows) == ["base", "paraphrase", "composition", "semantic flips", "output structure"]
    # A paraphrase has the passages of its base task.
    assert rows["paraphrase"]["passage"] == rows["base"]["passage"]
    assert len({row["question"] for row in rows.values()}) == len(rows)
