"""A paper's table is a declaration: group by, measure, unit, published numbers, margin."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from taskloom.analysis.paper_table import QUESTIONS, PaperTable, TableCell, wide_table
from taskloom.analysis.published_numbers import PublishedNumber
from taskloom.analysis.verdict import DISAGREES, OPEN
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import wilson
from tests.analysis.made_up_scores import group, made_up, spread

TABLE = PaperTable(
    name="table1",
    title="A table",
    paper="ctlpp",
    group_by={"model": "learner", "variant": "recipe.variant", "split": "split"},
)


def test_a_declared_table_judges_means_over_seeds(tmp_path: Path) -> None:
    ood = spread(0.5, 0.01, 5)
    runs = made_up(tmp_path, group("ctl/A", "bilstm", {"iid": spread(0.99, 0.001, 5), "ood": ood}))
    finding = TABLE.finding(TABLE.cells(runs))
    assert [
        (row["model"], row["variant"], row["split"], row["seeds"]) for row in finding.table or ()
    ] == [
        ("bilstm", "A", "iid", 5),
        ("bilstm", "A", "ood", 5),
    ]
    verdicts = {judgement.claim: judgement.verdict for judgement in finding.judgements}
    assert verdicts["bilstm, A, iid"] == "agrees"
    assert verdicts["bilstm, A, ood"] == "disagrees"
    (figure,) = finding.figures
    assert [row["name"] for row in figure.data] == ["bilstm, A", "bilstm, A"]
    assert figure.draw(figure.data).axes


def test_a_wide_margin_counts_as_agreement(tmp_path: Path) -> None:
    runs = made_up(tmp_path, group("ctl/A", "bilstm", {"ood": spread(0.5, 0.01, 5)}))
    (judgement,) = (wide := replace(TABLE, margin=0.9)).judgements(wide.cells(runs))
    assert (judgement.verdict, judgement.margin) == ("agrees", 0.9)


def test_tasks_as_the_unit_have_standard_errors() -> None:
    table = PaperTable(paper="taskbench500", place="Table 1", unit="tasks")
    cell = table.cell({"procedure": "none", "kind": "none"}, [0.2, 0.4], {})
    (row,) = table.points([cell])
    assert cell.number is None
    assert (row["tasks"], round(row["se"], 3)) == (2, 0.1)


def test_cells_without_scores_have_no_point() -> None:
    assert not list(TABLE.points([TABLE.cell({"split": "ood"}, [], {}, of={})]))


def test_questions_as_the_unit_have_intervals_over_seeds_and_questions() -> None:
    table = PaperTable(unit=QUESTIONS, title="Q", name="q", axes={"place": "kind"}, as_drawn=True)
    scores = np.array([[1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 1.0]])
    finding = table.finding([table.cell({"kind": "a"}, scores, {}, of={})])
    assert finding.table is not None
    (row,) = finding.table
    assert (row["mean"], row["n"], row["seeds"]) == (0.625, 4, 2)
    assert row["low"] < 0.625 < row["high"]
    assert "2 seeds and 4 questions" in finding.figures[0].caption


def test_a_single_seed_with_known_items_has_an_interval_over_items() -> None:
    one, several = ([0.5], [0.5, 0.6])
    cells = [TableCell({"split": "ood"}, scores, {}, items=100) for scores in (one, several)]
    alone, _ = map(TABLE.estimate, cells)
    assert (alone["low"], alone["high"]) == wilson(50, 100)
    assert alone["n"] == 100


def test_a_published_share_of_few_things_is_judged_by_them_too() -> None:
    number = PublishedNumber("mine", "Table 6", {"split": "ood"}, 0.5)
    table = PaperTable(numbers=(number,))
    alike, counted = (
        table.cell({"split": "ood"}, spread(0.6, 0.001, 5), {}, share_of=n) for n in (0, 20)
    )
    assert [j.verdict for j in table.judgements([alike, counted])] == [DISAGREES, OPEN]


def test_a_wide_table_has_a_dash_where_there_is_no_cell() -> None:
    cells = [
        TableCell({"model": model, "split": split}, [score], {})
        for model, split, score in (("a", "iid", 1.0), ("a", "ood", 0.5), ("b", "ood", 0.25))
    ]
    table = wide_table(cells, ("model",), "split", lambda cell: f"{cell.scores[0]:g}")
    assert list(table) == [
        {"model": "a", "iid": "1", "ood": "0.5"},
        {"model": "b", "iid": "–", "ood": "0.25"},
    ]


def test_a_table_without_rows_and_a_caption_with_braces_stay_as_they_are() -> None:
    empty = ResultTable(("model",), [])
    table = replace(TABLE, caption="Runs of {mine}. {intervals}.", axes={"place": "split"})
    finding = table.finding([TableCell({"split": "ood"}, [0.5, 0.7], {})], table=empty)
    assert finding.table is empty
    assert finding.figures[0].caption.startswith("Runs of {mine}. Means over 2 seeds")
