"""Tables 1 and 2 of CTL++ from made-up scores whose answers are known."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taskloom.analysis import STUDIES, figures
from taskloom.analysis.heat_maps import heat_map
from taskloom.analysis.reproduction import experiments_of, write_study
from taskloom.analysis.study import StudyError, analyse
from taskloom.core.errors import ParameterError
from taskloom.experiments.result_table import ResultTable
from taskloom.papers.ctlpp.accuracy_table import short_names, table1
from taskloom.papers.ctlpp.runs import trainings
from tests.analysis.made_up_scores import group, made_up, spread

STORED = Path(__file__).parents[3] / "docs" / "results" / "ctlpp" / "scores.json"


def test_planted_agreement_disagreement_and_too_few_seeds(tmp_path: Path) -> None:
    runs = made_up(
        tmp_path,
        group("ctl/A", "bilstm", {"iid": [1.0] * 25, "ood": spread(0.95, 0.03, 25)}),
        group("ctl/R", "bilstm", {"iid": [1.0] * 25, "ood": spread(0.5, 0.05, 25)}),
        group("ctl/R", "ndr", {"iid": [1.0] * 2, "ood": [0.6, 0.95]}),
    )
    _, _, (finding,) = analyse("ctlpp/table1", runs)
    verdicts = {j.claim: j.verdict for j in finding.judgements}
    assert verdicts["bi-LSTM, A: ood"] == "agrees"
    assert verdicts["bi-LSTM, R: ood"] == "disagrees"
    assert verdicts["NDR, R: ood"] == "inconclusive"


def test_the_first_25_that_converge_of_50_are_counted(tmp_path: Path) -> None:
    """Every second of 50 seeds converges; were they all counted, the mean would be 0.42 and not
    0.7.
    """
    iid = [1.0 if seed % 2 else 0.2 for seed in range(60)]
    ood = [0.14 if seed % 2 == 0 else 0.7 if seed < 50 else 0.0 for seed in range(60)]
    runs = made_up(tmp_path, group("ctl/A", "transformer", {"iid": iid, "ood": ood}))
    _, _, (finding,) = analyse("ctlpp/table1", runs)
    assert finding.table is not None
    (row,) = finding.table
    assert (row["seeds"], row["converged"], row["ood"]) == (60, 30, "0.700 ± 0.000")
    assert row["over 95 % ood"] == "0 of 25"
    assert "30 of 60 seeds did not pass 0.5 on iid and are left out" in finding.notes[0]
    fewer = made_up(tmp_path, group("ctl/A", "transformer", {"iid": [1.0, 0.2], "ood": [0.7, 0.1]}))
    _, _, (of_two,) = analyse("ctlpp/table1", fewer)
    assert "1 of 2 seeds did not pass 0.5 on iid and is left out" in of_two.notes[0]


def test_a_seed_succeeds_above_95_percent_not_at_it(tmp_path: Path) -> None:
    runs = made_up(tmp_path, group("ctl/R", "ndr", {"iid": [1.0] * 3, "ood": [0.95, 0.951, 1.0]}))
    _, _, (finding,) = analyse("ctlpp/table1", runs)
    assert finding.table is not None
    assert finding.table[0]["over 95 % ood"] == "2 of 3"


def test_seeds_without_an_ood_score_neither_succeed_nor_fail(tmp_path: Path) -> None:
    _, _, (finding,) = analyse(
        "ctlpp/table1", made_up(tmp_path, group("ctl/R", "ndr", {"iid": [1.0] * 3}))
    )
    assert finding.table is not None
    assert finding.table[0]["over 95 % ood"] == "–"
    assert not any("share" in judgement.claim for judgement in finding.judgements)


def test_another_world_is_not_compared_with_the_papers_numbers(tmp_path: Path) -> None:
    small = {"recipe.functions": 8, "recipe.symbols": 4}
    runs = made_up(tmp_path, group("ctl/A", "bilstm", {"iid": [1.0] * 3, "ood": [0.95] * 3}, small))
    _, _, (finding,) = analyse("ctlpp/table1", runs)
    assert {j.verdict for j in finding.judgements} == {"not comparable"}
    assert "functions 8 (paper: 32)" in finding.judgements[0].conditions


def test_numbers_are_compared_for_the_published_draw_alone(tmp_path: Path) -> None:
    independent = {"recipe.draw": "independent"}
    runs = made_up(
        tmp_path, group("ctl/A", "bilstm", {"iid": [0.4] * 3, "ood": [0.2] * 3}, independent)
    )
    _, _, (finding,) = analyse("ctlpp/table1", runs)
    assert finding.judgements == ()


@pytest.mark.parametrize(
    ("name", "settings", "problem"),
    [
        (
            "table1",
            {"draw": "nope"},
            "must be 'published', 'chains', 'independent' or 'any', not 'nope'",
        ),
        ("table1", {"most": 0}, "a whole number of at least 1, not '0'"),
        ("table1", {"converged": 1.5}, "a number from 0 to 1, not '1.5'"),
        ("curves", {"threshold": 95}, "a number from 0 to 1, not '95'"),
        ("figure6", {"variant": "S"}, "must be 'A' or 'R', not 'S'"),
        ("figure6", {"symbol": -1}, "a whole number of at least 0 or nothing, not '-1'"),
        ("figure9", {"learner": "nope"}, "must be 'bilstm', 'transformer' or 'ndr', not 'nope'"),
        ("figure4", {"learner": "nope"}, "must be 'bilstm', 'transformer' or 'ndr', not 'nope'"),
        ("codes", {"variant": "a"}, "must be 'A' or 'R', not 'a'"),
    ],
)
def test_settings_that_no_runs_could_have_are_refused_without_runs(
    name: str, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(StudyError, match=problem):
        STUDIES.get(f"ctlpp/{name}").checked(settings)


def test_a_heat_map_of_another_model_is_another_figure() -> None:
    with pytest.raises(ParameterError, match="must be 'ndr' for this figure, not 'bilstm'"):
        experiments_of(STUDIES.get("ctlpp/figure4"), "quick", "bilstm")


def test_runs_on_something_else_are_refused(tmp_path: Path) -> None:
    runs = made_up(
        tmp_path, group("babi/1", "stm", {"test": [1.0]}, {"learner.preset": "dyna-babi"})
    )
    with pytest.raises(StudyError, match="has no runs of trained learners on ctl/A or ctl/R"):
        analyse("ctlpp/table1", runs)


def test_runs_of_which_no_seed_is_left_have_a_page(tmp_path: Path) -> None:
    study, runs, findings = analyse(
        "ctlpp/table1", made_up(tmp_path, group("ctl/A", "bilstm", {"iid": [0.4], "ood": [0.2]}))
    )
    page = write_study(study, findings, tmp_path / "t1", runs)
    assert "No runs to draw." in page.read_text(encoding="utf-8")


def test_draws_of_other_numbers_of_processes_have_a_column_and_names_that_tell_them_apart(
    tmp_path: Path,
) -> None:
    scores = {"iid": [1.0, 1.0, 1.0], "ood": [0.7, 0.5, 0.9]}
    runs = made_up(
        tmp_path,
        group("ctl/R", "ndr", scores),
        group("ctl/R", "ndr", scores, {"recipe.processes": 8}),
        group("ctl/A", "ndr", scores),
    )
    finding = table1(runs)
    assert finding.table is not None
    assert [(row["data"], row["processes"]) for row in finding.table] == [
        ("A", 32),
        ("R", 8),
        ("R", 32),
    ]
    names = {judgement.claim.partition(":")[0] for judgement in finding.judgements}
    assert names == {"NDR, A", "NDR, R (8 processes)", "NDR, R (32 processes)"}
    other = made_up(
        tmp_path,
        group("ctl/R", "ndr", scores),
        group("ctl/A", "ndr", scores, {"recipe.draw": "chains"}),
    )
    assert short_names(trainings(other)) == ["NDR, A (chains)", "NDR, R (published)"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda data: figures.intervals(data, place="a", series="b", panel="c"),
        lambda data: heat_map(data, x="a", y="b", value="v", panel="c"),
        lambda data: figures.lines(data, x="a", series="b", panel="c"),
    ],
)
def test_a_figure_without_data_says_so(draw: Callable[[ResultTable], Any]) -> None:
    assert "No runs to draw." in figures.svg(draw(ResultTable(["a", "b", "c", "v"], [])))


def test_runs_without_s_are_answered_by_what_makes_runs_on_s(tmp_path: Path) -> None:
    runs = made_up(tmp_path, group("ctl/A", "ndr", {"iid": [1.0], "ood": [0.2]}))
    with pytest.raises(StudyError, match="taskloom reproduce ctlpp/figure4"):
        analyse("ctlpp/figure4", runs)


def test_the_stored_scores_give_the_papers_rows_of_the_bilstm() -> None:
    _, _, (finding,) = analyse("ctlpp/table1", STORED)
    verdicts = {j.claim: j.verdict for j in finding.judgements if j.seeds == 25}
    assert set(verdicts.values()) == {"agrees"}
    assert len(verdicts) == 4


def test_parameters_are_those_that_training_changes() -> None:
    pytest.importorskip("torch")
    _, _, (finding,) = analyse("ctlpp/table2")
    assert finding.table is not None
    assert {row["model"]: row["trainable"] for row in finding.table} == {
        "bi-LSTM": 407_816,
        "Transformer": 155_018,
        "NDR": 673_299,
    }
    assert [j.verdict for j in finding.judgements if "Transformer: parameters" in j.claim] == [
        "disagrees"
    ]


def test_a_file_of_scores_needs_no_other_suite() -> None:
    """Names are checked against the suites that the file names, without importing every suite."""
    file = Path(__file__).parents[3] / "docs" / "results" / "ctlpp" / "scores.json"
    code = (
        "import sys; from taskloom.cli import run; run(['study', 'ctlpp/table1', sys.argv[1]]); "
        "print([m for m in sys.modules if m.startswith('taskloom.suites.babi')], file=sys.stderr)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True
    )
    assert process.stderr.splitlines()[-1] == "[]"
