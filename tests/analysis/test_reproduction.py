"""Studies by name: registered, found in files, applied to runs, reproduced with a page."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.analysis import STUDIES, published_numbers
from taskloom.analysis.finding import Finding
from taskloom.analysis.findings_folder import markdown
from taskloom.analysis.published_numbers import (
    PaperData,
    PaperPlace,
    PublishedNumber,
    paper,
    paper_names,
    published,
)
from taskloom.analysis.reproduction import catalogue, write_study
from taskloom.analysis.study import Study, analyse
from taskloom.analysis.verdict import (
    CONDITIONS,
    OTHER,
    Judgement,
    differing_conditions,
    judge_number,
)
from taskloom.cli import run
from taskloom.core.errors import TaskloomError
from taskloom.experiments.execute import engines
from taskloom.experiments.execute.engines import HereEngine
from tests.analysis.made_up_scores import group, made_up

OWN = """
import taskloom as tl
from taskloom.experiments.result_table import ResultTable


def experiment(scale, model):
    small = {"symbols": 4, "functions": 8, "max_length": 4, "splits": {"train": {"n": 400}, "ood": {"n": 40}}}
    return {"recipes": [{"recipe": "ctl/A", "set": small}], "learners": [model or "majority"], "seeds": 2}


@tl.study("mine/best", describe="The best seed of each learner", experiment=experiment)
def best(runs, *, split: str = "ood"):
    rows = [r for r in runs.table.to_pylist() if r["split"] == split]
    top = max(rows, key=lambda r: r["score"])
    return tl.Finding("Best", table=ResultTable(("learner", "score"), [{"learner": top["learner"], "score": top["score"]}]))
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("studies") / "mine.py"
    path.write_text(OWN)
    return path


def test_a_study_of_a_file_is_applied_to_anybodys_runs(own: Path, tmp_path: Path) -> None:
    runs = made_up(tmp_path, group("ctl/A", "bilstm", {"iid": [1.0, 1.0], "ood": [0.4, 0.6]}))
    _, _, (finding,) = analyse(str(own), runs)
    assert finding.table is not None
    assert list(finding.table) == [{"learner": "bilstm", "score": 0.6}]
    _, _, (finding,) = analyse(f"{own}::mine/best", runs, split="iid")
    assert finding.table is not None
    assert finding.table[0]["score"] == 1.0


def test_a_study_of_a_file_is_reproduced(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "start", lambda name, **options: HereEngine())
    result = tl.reproduce(str(own), store=tmp_path / "runs", out=tmp_path / "out")
    assert result.runs is not None
    assert len(result.runs) == 2
    assert result.page == tmp_path / "out" / "page.html"
    assert "Quick scale" in result.page.read_text()
    again = tl.reproduce(str(own), store=tmp_path / "runs", model="nearest-neighbour")
    assert again.runs is not None
    assert set(again.runs.table["learner"].to_pylist()) == {"nearest-neighbour"}
    _, _, (finding,) = analyse(str(own), tmp_path / "out" / "scores.json")
    assert finding.table is not None
    assert result.findings[0].table is not None
    assert list(finding.table) == list(result.findings[0].table)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["study", "ctlpp/table9"], "no study is called 'ctlpp/table9'; did you mean"),
        (["study", "ctlpp/table1"], "needs runs"),
        (["study", "ctlpp/table1", "nowhere"], "there is no folder nowhere"),
        (
            ["reproduce", "ctlpp/table1", "--scale", "huge"],
            "--scale must be quick, gpu or paper, not 'huge'",
        ),
        (["reproduce", "ctlpp/table1", "--model", "gpt"], "--model must be one of"),
        (["reproduce", "ctlpp/draws", "--model", "gpt"], "--model must be one of"),
        (
            ["reproduce", "dyna-babi/table4", "--model", "entnte"],
            "a hub id or a folder of weights, not 'entnte'; did you mean",
        ),
        (["reproduce", "ctlp"], "no study is called 'ctlp'; did you mean 'ctlpp'"),
        (["reproduce", "zest", "--dry-run"], "--dry-run is for one study"),
        (["reproduce", "zest", "--scale", "gpu"], "--scale is for one study"),
        (["reproduce", "-o", "out"], "--out is for one study"),
        (["study", "zest"], "'zest' is a paper; name one of its tables or figures"),
        (
            ["reproduce", "dyna-babi/figure3", "--dry-run", "--store", __file__],
            "is a file and not a run store",
        ),
        (["reproduce", "dyna-babi/figure3", "-o", __file__], "is a file; choose another folder"),
        (["study", "ctlpp/figure1", "-o", f"{__file__}/page"], "is a file; choose another folder"),
        (["reproduce", "ctlpp/figure1", "--model", "ndr"], "--model is not for 'ctlpp/figure1'"),
        (["study", "ctlpp/figure1", "--set", "color=red"], "no setting 'color'"),
        (["study", "ctlpp/figure1", "runs"], "'ctlpp/figure1'"),
        (
            ["study", "taskbench500/table6", "--set", "names=maybe"],
            "'names' of the study 'taskbench500/table6' must be true or",
        ),
        (
            ["study", "dyna-babi/table2", "--set", "examples=few"],
            "'examples' of the study 'dyna-babi/table2' must be a whole",
        ),
    ],
)
def test_bad_input_gets_one_sentence(
    command: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command) == 2
    assert problem in capsys.readouterr().err


def test_every_table_and_figure_of_the_papers_has_a_study() -> None:
    assert [row["study"] for row in catalogue() if not row["exists"]] == []


def test_the_name_of_a_paper_lists_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "zest"]) == 0
    out = capsys.readouterr().out
    assert "zest/table3" in out
    assert "ctlpp" not in out
    assert run(["reproduce", "zest", "--json"]) == 0
    assert {row["paper"] for row in json.loads(capsys.readouterr().out)} == {"ZEST"}


def test_a_place_of_a_paper_without_a_study_is_called_that(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(name: str) -> PaperData:
        places = (PaperPlace("ctlpp/table99", "CTL++", "Table 99", "nothing", "no training"),)
        return PaperData(name, "CTL++", places if name == "ctlpp" else (), ())

    monkeypatch.setattr(published_numbers, "paper", planted)
    for command in (["reproduce"], ["reproduce", "--dry-run"], ["study"]):
        assert run([command[0], "ctlpp/table99", *command[1:]]) == 2
        assert "Table 99 of CTL++, which has no study yet" in capsys.readouterr().err


def test_a_study_without_experiment_says_how_to_use_it() -> None:
    @tl.study("mine/without", describe="Nothing")
    def without(runs: object) -> tl.Finding:
        return tl.Finding("Nothing")

    with pytest.raises(TaskloomError, match=r"has no experiment of its own; .* 'taskloom study'"):
        tl.reproduce("mine/without")
    STUDIES.forget(__name__)


@pytest.mark.parametrize(
    ("returned", "shown"), [(3, "3"), (None, "None"), ([3], "3"), ("text", "'t'")]
)
def test_a_study_that_returns_no_findings_is_told_so(
    returned: Any, shown: str, tmp_path: Path
) -> None:
    runs = made_up(tmp_path, group("ctl/A", "bilstm", {"ood": [0.4]}))
    with pytest.raises(
        TaskloomError, match=f"'mine/odd' must return a tl.Finding or a list of them, not {shown}"
    ):
        Study("mine/odd", "Odd", lambda runs: returned)(runs)


def test_a_study_without_a_parameter_for_runs_is_refused() -> None:
    with pytest.raises(
        TaskloomError,
        match="the study 'mine/none' takes no runs; give its function a first parameter 'runs'",
    ):

        @tl.study("mine/none", describe="None")
        def none(*, split: str = "ood") -> tl.Finding:
            return tl.Finding("Nothing")


def test_a_store_without_runs_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(TaskloomError, match="has no runs; make some with 'taskloom run'"):
        analyse("ctlpp/table1", made_up(tmp_path))


def test_rules_that_exclude_each_other_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up(tmp_path, *(group("ctl/A", learner, {"ood": [0.4]}) for learner in ("bilstm", "ndr")))
    command = [
        "study",
        "ctlpp/table1",
        str(tmp_path / "scores.json"),
        "--where",
        "bilstm",
        "--where",
        "ndr",
    ]
    assert run(command) == 2
    assert "--where leaves no run of" in capsys.readouterr().err


def test_a_page_is_not_mixed_with_other_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "notes" / "page.html"
    mine.parent.mkdir()
    mine.write_text("mine")
    assert run(["study", "ctlpp/figure1", "-o", str(mine.parent)]) == 2
    assert (
        "is not empty (page.html) and has no page of a study; choose another folder"
        in capsys.readouterr().err
    )
    assert mine.read_text() == "mine"
    out = tmp_path / "out"
    assert run(["study", "ctlpp/figure1", "-o", str(out)]) == 0
    assert run(["study", "ctlpp/figure1", "-o", str(out)]) == 0
    assert run(["study", "ctlpp/figure2", "-o", str(out)]) == 2
    assert (
        "has the page 'ctlpp/figure1', not 'ctlpp/figure2'; choose another folder"
        in capsys.readouterr().err
    )


def test_a_page_of_some_runs_does_not_lose_the_scores_of_the_others(tmp_path: Path) -> None:
    runs = made_up(tmp_path, group("ctl/A", "bilstm", {"iid": [1.0, 1.0], "ood": [0.4, 0.6]}))
    study, used, findings = analyse("ctlpp/table1", runs)
    page = write_study(study, findings, tmp_path / "out", used)
    before = (tmp_path / "out" / "scores.json").read_bytes()
    assert (
        run(
            ["study", "ctlpp/table1", str(page.parent), "--where", "seed=0", "-o", str(page.parent)]
        )
        == 0
    )
    assert (tmp_path / "out" / "scores.json").read_bytes() == before


def test_the_catalogue_has_every_table_and_figure_and_every_study_once() -> None:
    rows = catalogue()
    names = [row["study"] for row in rows]
    assert len(names) == len(set(names)) >= 49
    assert {s.name for s in STUDIES} <= set(names)
    assert {row["paper"] for row in rows} >= {"CTL++", "Dyna-bAbI", "TaskBench500", "ZEST"}


def test_the_catalogue_says_what_full_scale_needs() -> None:
    needs = {
        row["study"]: row["needs"] for row in catalogue() if not row["study"].startswith("mine/")
    }
    assert needs["ctlpp/curves"] == needs["ctlpp/table1"] == "networks from scratch"
    assert needs["reinforcement"] == "a pretrained model, trl"
    assert needs["runs/divergence"] == "any runs"
    assert {name for name, text in needs.items() if text == "any runs"} == {
        n for n in needs if n.startswith("runs/")
    }


def test_every_study_of_a_paper_says_where_the_paper_has_it() -> None:
    places = {place.study: place for name in paper_names() for place in paper(name).places}
    for study in STUDIES:
        if study.name in places and places[study.name].place.startswith(("Table", "Figure")):
            assert places[study.name].place in study.place, study.name


@pytest.mark.parametrize("name", paper_names())
def test_published_numbers_have_a_place_and_different_names(name: str) -> None:
    numbers = published(name)
    assert all(n.place for n in numbers)
    keys = [(n.place, json.dumps(dict(n.of), sort_keys=True)) for n in numbers]
    assert len(keys) == len(set(keys))


def test_a_graph_is_drawn_with_its_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "ctlpp/figure2", "-o", str(tmp_path / "out"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["page"].endswith("page.html")
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert names >= {
        "page.html",
        "page.md",
        "findings.json",
        "figure2.svg",
        "figure2.pdf",
        "figure2.csv",
    }
    edges = list(csv.DictReader((tmp_path / "out" / "figure2.csv").open()))
    assert {"from": "a1", "to": "b2", "when": "test only", "after": "every symbol"} in edges
    first = (tmp_path / "out" / "figure2.svg").read_bytes()
    shutil.rmtree(tmp_path / "out")
    run(["reproduce", "ctlpp/figure2", "-o", str(tmp_path / "out")])
    assert (tmp_path / "out" / "figure2.svg").read_bytes() == first


def test_the_page_lists_conditions_below_the_judgements(tmp_path: Path) -> None:
    runs = made_up(
        tmp_path,
        group("ctl/A", "bilstm", {"iid": [1.0] * 3, "ood": [0.9] * 3}, {"learner.steps": 1_000}),
    )
    study, used, findings = analyse("ctlpp/table1", runs)
    page = write_study(study, findings, tmp_path / "out", used).read_text()
    assert "<li>all: steps 1,000 (paper: 80,000)</li>" in page
    assert "not comparable" in page
    assert (
        f"{CONDITIONS}\n\n- all: steps 1,000 (paper: 80,000)\n"
        in (tmp_path / "out" / "page.md").read_text()
    )


def test_conditions_and_notes_are_two_lists() -> None:
    one = judge_number(
        1.0, PublishedNumber("x", "Table 1", {}, 1.0), claim="a", conditions=["model"]
    )
    both = markdown(Finding("A table", judgements=(one,), notes=("A note.",)))
    assert both.endswith(f"{CONDITIONS}\n\n- all: model\n\nNotes:\n\n- A note.")
    alone = markdown(Finding("A table", notes=("A note.",)))
    assert alone == "## A table\n\n- A note."


def test_conditions_of_some_claims_are_listed_with_them(tmp_path: Path) -> None:
    scores = {"iid": [1.0] * 3, "ood": [0.9] * 3}
    short = group("ctl/A", "bilstm", scores, {"learner.steps": 1_000})
    runs = made_up(tmp_path, short, group("ctl/R", "bilstm", scores))
    (finding,) = analyse("ctlpp/table1", runs)[2]
    (line,) = differing_conditions(finding.judgements)
    assert line == "bi-LSTM, A: steps 1,000 (paper: 80,000)"


def test_conditions_that_all_claims_share_are_listed_once_and_claims_about_one_thing_by_its_name() -> (
    None
):
    def judged(claim: str, *conditions: str) -> Judgement:
        return judge_number(
            1.0, PublishedNumber("x", "Table 1", {}, 1.0), claim=claim, conditions=conditions
        )

    judgements = [
        judged("chain: slope", "model", "LoRA"),
        judged("chain: r²", "model", "LoRA"),
        judged("union: slope", "model", "LoRA"),
        judged("union: r²", "model"),
        judged("all tasks", "n 20", "model"),
    ]
    assert differing_conditions(judgements) == [
        "all: model",
        "chain; union: slope: LoRA",
        "all tasks: n 20",
    ]
    assert differing_conditions([]) == []


@pytest.mark.parametrize(
    ("number", "verdict", "is_folded"),
    [(12, OTHER, False), (13, OTHER, True), (13, "agrees", False)],
)
def test_many_comparisons_without_a_verdict_are_folded(
    number: int, verdict: str, is_folded: bool
) -> None:
    one = judge_number(1.0, PublishedNumber("x", "Table 1", {}, 1.0), claim="a number")
    judgements = (*[replace(one, verdict=OTHER)] * (number - 1), replace(one, verdict=verdict))
    text = markdown(Finding("A table", "", judgements=judgements))
    assert text.count("a number") == number
    assert (f"<summary>{number} numbers" in text) == is_folded


def test_the_page_of_a_study_without_trainings_does_not_speak_of_seeds(tmp_path: Path) -> None:
    study, _, findings = analyse("dyna-babi/table6")
    page = write_study(study, findings, tmp_path, None).read_text()
    assert "These numbers need no training" in page
    assert "interval over seeds" not in page


SEVERAL = """
import taskloom as tl


def experiments(scale, model):
    small = {"symbols": 4, "functions": 8, "max_length": 4, "splits": {"train": {"n": 400}, "ood": {"n": 40}}}
    return [{"recipes": [{"recipe": f"ctl/{v}", "set": small}], "learners": ["majority"]} for v in "AR"]


@tl.study("mine/several", describe="How many runs there are", experiment=experiments)
def several(runs):
    return tl.Finding(f"{len(runs)} runs")
"""


def test_several_experiments_are_planned_and_run_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(SEVERAL)
    command = ["reproduce", str(tmp_path / "mine.py"), "--store", str(tmp_path / "runs")]
    assert run([*command, "--dry-run", "--json"]) == 0
    assert [cell["recipe"] for cell in json.loads(capsys.readouterr().out)["cells"]] == [
        "ctl/A",
        "ctl/R",
    ]
    started = []

    def start(name: str, **options: object) -> HereEngine:
        started.append(name)
        return HereEngine()

    monkeypatch.setattr(engines, "start", start)
    assert run([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["findings"][0]["title"] == "2 runs"
    assert "not measured under the conditions of the papers" in printed["note"]
    assert len(started) == 1
    assert run([*command, "--dry-run"]) == 0
    assert "2 runs, 2 present, 0 missing" in capsys.readouterr().out


def test_a_dry_run_says_what_was_measured_and_what_needs_no_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["reproduce", "dyna-babi/figure7", "--dry-run", "--store", "nowhere"]) == 0
    out = capsys.readouterr().out
    assert "CPU-seconds when it was measured" in out
    assert "further runs continue these" in out
    assert (
        run(["reproduce", "dyna-babi/figure7", "--dry-run", "--scale", "gpu", "--store", "nowhere"])
        == 0
    )
    assert "CPU-seconds" not in capsys.readouterr().out
    assert (
        run(
            [
                "reproduce",
                "dyna-babi/figure7",
                "--dry-run",
                "--model",
                "some/model",
                "--store",
                "nowhere",
            ]
        )
        == 0
    )
    assert "CPU-seconds" not in capsys.readouterr().out
    assert run(["reproduce", "ctlpp/figure1", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "ctlpp/figure1 needs no runs" in printed
    assert printed.count("\n") == 1
    assert run(["reproduce", "ctlpp/figure1", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cells"] == []


def test_a_plan_counts_tasks_and_does_not_repeat_long_lists(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert run(["reproduce", "taskbench500/table3", "--dry-run", "--store", "nowhere"]) == 0
    out = capsys.readouterr().out
    assert "90 runs" in out  # 18 of them of the best constant answer
    assert "functions=synonyms[eng] and 11 more" in out
    assert len(out.splitlines()) < 40  # 300 with a line or more for each task
    heads, *lines = [
        line.split() for line in out.splitlines() if "taskbench/500" in line or "learner" in line
    ]
    assert "tasks" in heads
    assert {line[-4] for line in lines} == {"12", "3"}  # words and sequences


def test_the_terminal_lists_conditions_once_below_the_judgements(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up(
        tmp_path,
        group("ctl/A", "bilstm", {"iid": [1.0] * 3, "ood": [0.9] * 3}, {"learner.steps": 1_000}),
    )
    assert run(["study", "ctlpp/table1", str(tmp_path / "scores.json")]) == 0
    out = capsys.readouterr().out
    assert out.count("1,000 (paper: 80,000)") == 1
    assert "Conditions that differ from the paper's:\n- all: steps 1,000 (paper: 80,000)\n" in out


def test_a_table_of_long_texts_is_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "dyna-babi/figure5"]) == 0
    assert run(["reproduce", "dyna-babi/figure6"]) == 0
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("babi/")]
    assert max(map(len, table)) <= 150


def test_the_page_of_a_paper_scale_states_its_conditions(tmp_path: Path) -> None:
    small = {"symbols": 4, "functions": 8, "splits": {"train": {"n": 200}, "ood": {"n": 20}}}

    def experiment(scale: str, model: str) -> dict[str, Any]:
        recipe = {"recipe": "ctl/A", "set": small}
        return {"recipes": [recipe], "learners": ["majority"], "evaluate": ["ood"]}

    @tl.study("ctlpp/mine", describe="A planted study", experiment=experiment)
    def mine(runs: object) -> Finding:
        return Finding("Mine")

    for scale, stated in (("paper", True), ("quick", False)):
        out = tmp_path / scale
        result = tl.reproduce("ctlpp/mine", scale=scale, store=tmp_path / "runs", out=out)
        page = (out / "page.md").read_text(encoding="utf-8")
        for text in (page, str(result.findings[-1].notes)):
            assert ("no single applications" in text) == stated
            assert "gate" not in text  # nothing about networks that were not planned
    STUDIES.forget(__name__)
