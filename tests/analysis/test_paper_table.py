"""A paper's table is a declaration: group by, measure, unit, published numbers, margin."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from taskloom.analysis.paper_table import PaperTable
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
