"""A whole small experiment: from the file to the table, by local processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

import taskloom as tl
from taskloom.cli.app import run as cli
from taskloom.core.scoring import exact
from taskloom.experiments.execute.predictions import spread
from taskloom.experiments.execute.worker import ENDPOINT_ANSWERS
from taskloom.experiments.files import PREDICTION_COLUMNS, SCORES
from taskloom.experiments.spec.cells import expand
from taskloom.experiments.spec.experiment import check
from taskloom.experiments.store import Store
from tests.experiments.sweeps import baselines, contents, environment, fill, networks, recipe, write
from tests.learners import test_endpoint

server = test_endpoint.server


@pytest.mark.parametrize(
    ("n", "limit", "period"), [(1_000, 100, 5), (1_000, 100, 10), (999, 50, 3)]
)
def test_a_limit_takes_rows_of_all_kinds(n: int, limit: int, period: int) -> None:
    """Rows of bAbI 1 repeat with a period of five: every tenth one is the first of a story."""
    rows = spread(n, limit)
    assert all(i * n // limit <= row < (i + 1) * n // limit for i, row in enumerate(rows))
    expected = limit / period
    counts = [sum(row % period == kind for row in rows) for kind in range(period)]
    assert all(abs(count - expected) < 3 * expected**0.5 for count in counts)


def test_the_table_has_a_row_per_run_and_split(filled: Path) -> None:
    table = Store(filled).runs()
    assert table.num_rows == 2 * 2 * 2 * 2  # recipes, learners, seeds, splits
    assert table.column_names[:4] == ["run", "recipe", "learner", "seed"]
    assert table.column_names[-3:] == ["split", "n", "score"]
    assert set(table["recipe.max_length"].to_pylist()) == {4}
    assert "seconds" in Store(filled).runs(seconds=True).column_names


def test_scores_are_those_of_the_predictions_by_the_suites_scorer(filled: Path) -> None:
    store = Store(filled)
    data = {
        name: tl.make(name, set=[f"{k}={json.dumps(v)}" for k, v in recipe()["set"].items()])
        for name in ("ctl/A",)
    }
    for run in store.names():
        scores = store.scores(run)
        rows = pq.read_table(store.folder(run) / "predictions.parquet").to_pylist()
        for split, entry in scores["splits"].items():
            mine = [r for r in rows if r["split"] == split]
            assert entry["n"] == len(mine)
            assert entry["score"] == pytest.approx(sum(r["score"] for r in mine) / len(mine))
            if scores["recipe"] == "ctl/A":
                examples = list(data["ctl/A"][split])
                assert [r["input"] for r in mine] == [e.input for e in examples]
                assert [r["score"] for r in mine] == [
                    exact.score(r["prediction"], e) for r, e in zip(mine, examples, strict=True)
                ]
                traits = [
                    {k: v if isinstance(v, str) else json.dumps(v) for k, v in e.traits.items()}
                    for e in examples
                ]
                assert [dict(r["traits"]) for r in mine] == traits
                assert scores["data"] == data["ctl/A"].digest


def test_predictions_join_the_columns_of_their_run(filled: Path) -> None:
    store = Store(filled)
    found = store.predictions()
    assert found.column_names == ["run", "recipe", "learner", "seed", *PREDICTION_COLUMNS.names]
    some = store.predictions(store.names()[:1], ["score"], splits=["ood"])
    assert some.column_names == ["run", "recipe", "learner", "seed", "score"]
    assert some.num_rows == 40


def test_a_configuration_runs_again_to_the_same_bytes(filled: Path, tmp_path: Path) -> None:
    store = Store(filled)
    run = store.names()[0]
    config = store.folder(run) / "config.yaml"
    fill(yaml.safe_load(config.read_text()), tmp_path / "again")
    again = contents(tmp_path / "again")
    mine = contents(filled)
    assert {k: v for k, v in again.items() if k != "table"} == {
        k: v for k, v in mine.items() if k.startswith(run)
    }


def test_what_is_there_is_not_run_again(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {p: p.stat().st_mtime_ns for p in filled.rglob(SCORES)}
    assert (
        cli(["run", str(filled.parent / "experiment.yaml"), "--store", str(filled), "--json"]) == 0
    )
    assert len(json.loads(capsys.readouterr().out)["runs"]) == len(before) == 8
    assert {p: p.stat().st_mtime_ns for p in filled.rglob(SCORES)} == before


def test_a_dry_run_says_what_exists_and_what_it_costs(
    filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    larger = write(
        tmp_path,
        {**baselines(seeds=3), "learners": ["majority", "nearest-neighbour", "bag-of-words"]},
    )
    assert cli(["run", str(larger), "--store", str(filled), "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert sum(c["present"] for c in plan["cells"]) == 8
    assert len(plan["cells"]) == 18
    assert plan["estimate"]["known"] == 4
    assert plan["estimate"]["unknown"] == 6
    assert cli(["run", str(larger), "--store", str(filled), "--dry-run"]) == 0
    assert "18 runs, 8 present, 10 missing; cost: about" in capsys.readouterr().out
    assert cli(["run", str(larger), "--store", str(tmp_path / "nowhere"), "--dry-run"]) == 0
    assert "unknown for 18" in capsys.readouterr().out
    assert not (tmp_path / "nowhere").exists()


def test_duckdb_and_polars_read_a_store(filled: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    polars = pytest.importorskip("polars")
    files = f"{filled}/??/*/predictions.parquet"
    mean = (
        "select split, avg(score), count(traits['length']) from read_parquet(?) group by split"
        " order by split"
    )
    by_duck = {split: score for split, score, _ in duckdb.execute(mean, [files]).fetchall()}
    by_polars = polars.read_parquet(files).group_by("split").agg(polars.col("score").mean())
    table = Store(filled).predictions().to_pandas().groupby("split", observed=True)["score"].mean()
    assert by_duck == pytest.approx(dict(table))
    assert dict(by_polars.iter_rows()) == pytest.approx(dict(table))


def test_stacked_seeds_land_each_in_its_own_directory(tmp_path: Path) -> None:
    keep = {"model": True, "logprobs": "answers"}
    small = networks(seeds=3)
    outcome = fill(
        {**small, "recipes": [recipe()], "learners": small["learners"][:2], "keep": keep},
        tmp_path / "runs",
    )
    assert not outcome.state.failed
    store = outcome.store
    assert len(store.names()) == 6
    stacked = [run for run in store.names() if store.scores(run)["learner"] == "bilstm"]
    assert {store.environment(run)["together"] for run in stacked} == {3}
    curves = store.curves(stacked).to_pandas()
    assert set(curves["split"]) == {"train", "iid", "ood"}
    assert sorted(set(curves["step"])) == [20, 40]
    import taskloom.learners as learners

    for run in stacked:
        rows = store.predictions([run]).to_pylist()
        model: Any = learners.load(store.folder(run) / "model")
        assert store.environment(run)["parameters"] == model.parameters
        assert model.answer([r["input"] for r in rows]) == [r["prediction"] for r in rows]
        best = [r["candidates"][max(range(4), key=lambda i: r["logprobs"][i])] for r in rows]
        assert best == [r["prediction"] for r in rows]
    assert not list((tmp_path / "runs" / "work" / "jobs").iterdir())


SCRIPT = """
import taskloom as tl
runs = tl.run(recipes=[RECIPE], learners=["majority"], seeds=2, evaluate=["ood"])
assert len(runs) == len(tl.runs("runs")) == 2
print(runs.accuracy(by="length", split="ood").columns[0])
"""


def test_the_api_of_the_design_at_the_top_of_a_script(tmp_path: Path) -> None:
    """No guard for __main__ is needed: workers do not run the script again."""
    (tmp_path / "script.py").write_text(SCRIPT.replace("RECIPE", repr(recipe())))
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert done.stdout.split() == ["length"], done.stderr
    assert (tmp_path / "runs" / "store.json").is_file()
    with pytest.raises(tl.TaskloomError, match="not both"):
        tl.run("e.yaml", recipes=[recipe()])


def test_the_solver_is_the_upper_bound(tmp_path: Path) -> None:
    outcome = fill(
        {"recipes": [recipe()], "learners": ["solver"], "seeds": 1, "evaluate": ["ood"]},
        tmp_path / "runs",
    )
    [run] = outcome.runs
    assert outcome.store.scores(run)["splits"]["ood"]["score"] == 1.0


def test_configs_are_read_as_they_are_written(filled: Path) -> None:
    store = Store(filled)
    for run in store.names():
        config = yaml.safe_load((store.folder(run) / "config.yaml").read_text())
        assert expand(check(config, "config"))[0].run == run


def test_answers_of_an_endpoint_are_kept_in_the_store(
    server: test_endpoint.Faulty, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    learner = {
        "learner": "endpoint",
        "url": url,
        "model": "m",
        "pause": 0.01,
        "grid": {"at_once": [1, 2]},
    }
    outcome = fill(
        {"recipes": [recipe()], "learners": [learner], "evaluate": ["iid"]}, tmp_path / "runs"
    )
    assert not outcome.state.failed
    assert server.seen == 20  # the second run asks nothing that the first has asked
    assert (tmp_path / "runs" / ENDPOINT_ANSWERS).is_file()
    assert all("cache" not in cell.fields for cell in outcome.cells)
