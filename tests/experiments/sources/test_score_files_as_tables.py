"""Tables of scores that another program wrote: CSV, TSV and Parquet in place of a run store."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

import taskloom as tl
from taskloom.cli import run
from taskloom.core.errors import DataError
from taskloom.experiments.sources.score_files import open_runs
from tests.experiments.sweeps import baselines, fill

HEAD = "recipe,learner,seed,split,n,score"


def written(folder: Path, *lines: str, name: str = "scores.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_table_of_a_store_is_the_same_after_a_file(tmp_path: Path) -> None:
    stored = open_runs(fill(baselines(2), tmp_path / "runs").store.path)
    pyarrow.parquet.write_table(stored.table, tmp_path / "scores.parquet")
    pyarrow.csv.write_csv(stored.table, tmp_path / "scores.csv")
    pyarrow.csv.write_csv(
        stored.table, tmp_path / "scores.tsv", pyarrow.csv.WriteOptions(delimiter="\t")
    )
    wanted = list(stored.accuracy(over="seeds"))
    for ending in ("parquet", "csv", "tsv"):
        again = open_runs(tmp_path / f"scores.{ending}")
        assert list(again.accuracy(over="seeds")) == wanted
        rows = [
            sorted(map(str, runs.table.drop_columns(["run"]).to_pylist()))
            for runs in (stored, again)
        ]
        assert rows[0] == rows[1]


def test_settings_and_further_numbers_have_columns(tmp_path: Path) -> None:
    head = f"{HEAD},learner.steps,recipe.splits,score.C@75,run"
    first = 'ctl/A,bilstm,0,ood,10,0.5,60.0,"{""train"": {""n"": 9}}",0.25,whatever'
    (row,) = open_runs(written(tmp_path, head, first)).table.to_pylist()
    assert (row["learner.steps"], row["score.C@75"], json.loads(row["recipe.splits"])) == (
        60,
        0.25,
        {"train": {"n": 9}},
    )


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (
            ["recipe,learner,sed,split,n,score"],
            "no column 'seed'; a table of scores has a row for each run and split",
        ),
        (
            [f"{HEAD},foo", "ctl/A,m,0,iid,9,1,1"],
            "unknown column 'foo'.*settings are called recipe.NAME",
        ),
        ([f"{HEAD},n", "ctl/A,m,0,iid,9,1,9"], "the column 'n' twice"),
        (
            [HEAD, "ctl/A,m,0,iid,9,97.7"],
            "row 1 has the score 97.7; a score is a share from 0 to 1",
        ),
        ([HEAD, "ctl/A,m,0,iid,9,good"], "row 1 has the score 'good'"),
        (
            [HEAD, "ctl/A,m,0,iid,9,1", "ctl/A,m,0,iid,9,1"],
            "row 2 has a second score of seed 0 on 'iid'",
        ),
        ([HEAD, "ctl/A,m,0,iid,9,1", "ctl/A,m,1,iid,8,1"], "row 2 has n 8 for 'iid'.* has 9"),
        ([HEAD, "ctl/A,m,,iid,9,1"], "row 1 has no 'seed'"),
        ([HEAD, "ctl/A,m,x,iid,9,1"], "a seed is a whole number"),
        (
            [HEAD, "ctl/A,m,0,iid,9,1", "ctl/A,m,-1,iid,9,1"],
            "row 2 has the seed -1; a seed is a whole number from 0",
        ),
        ([HEAD, "ctl/A,m,0,iid,9,1", "ctl/A,m,1.5,iid,9,1"], "row 2 has the seed 1.5"),
        ([HEAD, "ctl/A,m,0,iid,9,1", f"ctl/A,m,{10**25},iid,9,1"], "row 2 has the seed"),
        ([HEAD, "ctl/A,m,0,iid,-5,1"], "row 1 has n -5; it is the number of examples"),
        ([HEAD, "ctl/A,m,0,iid,0,1"], "row 1 has n 0"),
        ([HEAD, "ctl/A,m,0,iid,9,true"], "row 1 has the score True"),
        ([HEAD, "ctl/A,m,0,iid,9,1.0", "ctl/A,m,1,iid,9,good"], "row 2 has the score 'good'"),
        ([HEAD, "ctl/A,m,0,iid,9,1.0", HEAD], "row 2 has the seed 'seed'"),
        (
            [f"{HEAD},learner.stepz", "ctl/A,bilstm,0,iid,9,1,5"],
            "bilstm has no setting 'stepz'.*did you mean 'steps'",
        ),
        (
            [f"{HEAD},learner.preset", "ctl/A,bilstm,0,iid,9,1,ctlp"],
            "bilstm has no preset 'ctlp'; did you mean 'ctlpp'",
        ),
        (
            [f"{HEAD},recipe.drow", "ctl/A,m,0,iid,9,1,x"],
            "ctl/A has no setting 'drow'.*did you mean 'draw'",
        ),
        ([HEAD, "ctl/A,m,0,iid,9"], "cannot be read as CSV"),
        ([""], "cannot be read as CSV"),
    ],
)
def test_a_bad_table_is_refused_with_one_sentence(
    lines: list[str], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=problem):
        open_runs(written(tmp_path, *lines))


def test_recipes_and_learners_from_elsewhere_may_have_any_settings(tmp_path: Path) -> None:
    file = written(tmp_path, f"{HEAD},learner.stepz,recipe.drow", "mine/task,mine,0,iid,9,1,5,x")
    assert len(open_runs(file)) == 1


def test_what_any_recipe_may_have_is_no_unknown_setting(tmp_path: Path) -> None:
    for name in ("described", "curriculum.trait", "limit", "task", "splits.train.n"):
        assert (
            len(open_runs(written(tmp_path, f"{HEAD},recipe.{name}", "ctl/A,m,0,iid,9,1,5"))) == 1
        )


def test_a_score_that_is_no_share_is_refused_in_json_too(tmp_path: Path) -> None:
    one = {
        "recipe": "ctl/A",
        "learner": "m",
        "n": {"iid": 9},
        "seeds": {"0": {"iid": 1.7}, "1": {"iid": float("nan")}},
    }
    text = json.dumps({"format": "taskloom scores", "schema": 1, "groups": [one]})
    with pytest.raises(
        DataError, match=r"seeds.0.iid: .*less than or equal to 1.*seeds.1.iid: .*finite"
    ):
        open_runs(written(tmp_path, text, name="scores.json"))


def test_commands_that_show_scores_read_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(
        tmp_path, HEAD, *(f"ctl/A,m,{seed},ood,10,{score}" for seed, score in enumerate((0.5, 0.7)))
    )
    assert run(["runs", str(file), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["mean"], row["seeds"]) == (pytest.approx(0.6), 2)
    assert run(["compare", str(file), "seed=0", "seed=1"]) == 2
    assert "have no predictions" in capsys.readouterr().err
    assert run(["report", str(file), "-o", str(tmp_path / "report.html")]) == 0
    assert run(["runs", str(tmp_path / "none.csv")]) == 2
    assert "there is no file" in capsys.readouterr().err


def test_python_reads_what_the_command_line_does(tmp_path: Path) -> None:
    file = written(
        tmp_path, HEAD, *(f"ctl/A,m,{seed},ood,10,{score}" for seed, score in enumerate((0.5, 0.7)))
    )
    (row,) = tl.runs(file).accuracy()
    assert (row["mean"], row["method"]) == (pytest.approx(0.6), "t over seeds")
    assert "0.600" in tl.report(file, tmp_path / "report.html").read_text(encoding="utf-8")
