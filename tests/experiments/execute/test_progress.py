"""Progress as people see it."""

from __future__ import annotations

import io
import time
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

from taskloom.cli.experiments import print_outcome
from taskloom.experiments.api import Outcome
from taskloom.experiments.execute.driver import Claims, Driver, ExperimentState
from taskloom.experiments.execute.engines import HereEngine
from taskloom.experiments.execute.progress import display, duration, line, rate, table
from taskloom.experiments.execute.worker import JobProgress, read_progress, recorded
from taskloom.experiments.spec.cells import expand
from taskloom.experiments.spec.experiment import check
from taskloom.experiments.store import Store
from taskloom.learners.interface import Progress, report_answers, report_step
from tests.experiments.sweeps import baselines, fill


def state(**more: object) -> ExperimentState:
    return ExperimentState(
        **{"total": 100, "before": 10, "done": 30, "began": time.monotonic() - 60, **more}  # type: ignore[arg-type]
    )


def test_a_line_says_what_is_done_and_what_is_left() -> None:
    said = line(state(running=4, failed={"a": "why"}, elsewhere=2, making=1))
    assert (
        said
        == "40 of 100 runs done, 4 running, 1 dataset being made, 2 claimed elsewhere, 1 failed,"
        " 30.0 a minute, about 2 min left"
    )
    assert "left" not in line(state(done=0))
    assert "left" not in line(state(running=0, elsewhere=60)), (
        "nobody here knows how fast the others are"
    )


def test_jobs_of_another_driver_are_counted_until_they_are_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskloom.experiments.execute.driver.POLL", 0.01)
    checked = check(baselines(1), "test")
    cells, store = expand(checked), Store(tmp_path / "runs", create=True)
    claims, taken, seen = Claims(store.path / "work" / "claims"), iter([False] * 12), []
    take = claims.take
    monkeypatch.setattr(claims, "take", lambda run: next(taken, True) and take(run))
    driver = Driver(
        store,
        cells,
        HereEngine(),
        checked.resources,
        claims=claims,
        watch=lambda now: seen.append(now.elsewhere),
    )
    driver.run()
    waiting = [n > 0 for n in seen]
    assert sum(waiting) >= 2
    assert sum(not a and b for a, b in pairwise(waiting)) == 1, "the count does not come and go"


def test_the_table_has_a_gpu_column_where_there_is_one() -> None:
    out = io.StringIO()
    Console(file=out, width=150).print(table(state(), "97 % 40 GiB"), table(state(done=0)))
    assert "97 % 40 GiB" in out.getvalue()
    assert out.getvalue().count("GPU") == 1
    assert "?" in out.getvalue()


def test_times_and_rates_are_spelt_for_people() -> None:
    assert [duration(s) for s in (5, 89, 600, 7200)] == ["5 s", "89 s", "10 min", "2.0 h"]
    assert rate(state(done=6000)) == "100.0 a second"
    assert rate(state(done=0)) == "0.0 an hour"


def test_lines_come_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskloom.core.progress.LOG_EVERY", 0.0)
    with display(place="log") as watch:
        watch(state())
    assert "40 of 100 runs done" in capsys.readouterr().err
    with display(place="log") as watch:
        for _ in range(3):
            watch(state(done=0))  # nothing has changed
    assert len(capsys.readouterr().err.splitlines()) == 1
    with display(place="terminal") as watch:  # a terminal: the table is drawn and wiped
        watch(state())


def test_a_running_job_shows_steps_loss_and_answers(tmp_path: Path) -> None:
    with recorded(tmp_path):
        report_step(Progress(5, 10, 0.25, 1.0))
        assert read_progress(tmp_path) is None, "at most one write a second"
    report_step(Progress(6, 10, 0.25, 1.0))  # nobody watches
    assert str(JobProgress(1_200, 3_000, 0.4121)) == "step 1,200 of 3,000, loss 0.412"
    assert str(JobProgress(3_000, 3_000, 0.4, 10, 1_000)) == "answered 10 of 1,000 inputs"
    assert str(JobProgress()) == ""
    halfway = state(done=0, total=2, before=0, jobs=[(JobProgress(500, 1_000), 2)], running=2)
    assert halfway.left == pytest.approx(60 / 0.9 * 1.1, rel=0.01)
    assert "step 500 of 1,000" in line(halfway)
    assert line(state(jobs=[(JobProgress(i, 9), 1) for i in range(5)])).count("step") == 3


def test_progress_is_written_at_most_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskloom.experiments.execute.worker.EVERY", 0.0)
    with recorded(tmp_path):
        report_step(Progress(5, 10, 0.25, 1.0))
        assert read_progress(tmp_path) == JobProgress(5, 10, 0.25)
        report_answers(3, 7)
        assert read_progress(tmp_path) == JobProgress(5, 10, 0.25, 3, 7)
        report_step(
            Progress(6, 10, float("nan"), 1.0)
        )  # JSON has no such number: the last state stays
        assert read_progress(tmp_path) == JobProgress(5, 10, 0.25, 3, 7)
    (tmp_path / "progress.json").write_text("[")
    assert read_progress(tmp_path) is None


def test_lines_differ_in_more_than_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskloom.core.progress.LOG_EVERY", 0.0)
    with display(place="log") as watch:
        for seconds in (10, 20, 30):
            watch(state(began=time.monotonic() - seconds))
        assert len(capsys.readouterr().err.splitlines()) == 1
        monkeypatch.setattr("taskloom.experiments.execute.progress.DETAIL_EVERY", 0.0)
        for step in (1, 1, 2):
            watch(state(jobs=[(JobProgress(step, 9), 1)]))
        assert len(capsys.readouterr().err.splitlines()) == 2


def test_runs_that_failed_for_one_reason_share_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = check(
        {"recipes": ["babi/1"], "learners": ["majority", "nearest-neighbour"], "seeds": 3}, "here"
    )
    cells = expand(experiment)
    failed = {cell.run: "no torch" for cell in cells[:4]} | {cells[4].run: "no disk"}
    print_outcome(
        Outcome(Store(tmp_path / "runs", create=True), cells, state(failed=failed)),
        "taskloom run",
        False,
    )
    lines = capsys.readouterr().out.splitlines()[-3:]
    assert lines[0].startswith("5 failed")
    assert lines[1].startswith("  4 runs (majority on babi/1")
    assert lines[1].endswith(": no torch")
    assert lines[2].endswith(f"({cells[4].run[:8]}…): no disk")


def test_a_summary_of_many_scores_fits_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = {"train": 12, "dev": 24, "test": 12}
    zest = {"recipe": "zest/synthetic", "set": {"tasks": tasks, "passages": 3}}
    outcome = fill({"recipes": [zest], "learners": ["majority"]}, tmp_path / "runs")
    print_outcome(outcome, "taskloom run", False)
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines[: lines.index("")]) <= 100
    assert sum(line.count("C@75") for line in lines) == 1
    official = [line.split() for line in lines if " official " in line]
    assert [row[0] for row in official] == ["dev", "test"]
    [run] = outcome.store.records(outcome.runs)
    further = run.splits["test"].further
    wanted = [further[f"official {name}"] for name in ("C@75", "C@90", "consistency", "mean")]
    assert official[1][2:] == [f"{value:.3f}" for value in wanted]
