"""Progress as people see it."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from taskloom.experiments.driver import ExperimentState
from taskloom.experiments.progress import display, duration, line, rate, table


def state(**more: object) -> ExperimentState:
    return ExperimentState(**{"total": 100, "before": 10, "done": 30, "began": time.monotonic() - 60, **more})  # type: ignore[arg-type]


def test_a_line_says_what_is_done_and_what_is_left() -> None:
    said = line(state(running=4, failed={"a": "why"}, elsewhere=2, making=1))
    assert said == (
        "40 of 100 runs done, 4 running, 1 datasets being made, 2 claimed elsewhere, 1 failed, 30.0 a minute, "
        "about 2 min left"
    )
    assert "left" not in line(state(done=0))


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


def test_lines_come_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskloom.experiments.progress.PLAIN_EVERY", 0.0)
    with display(plain=True) as watch:
        watch(state())
    assert "40 of 100 runs done" in capsys.readouterr().err
    with display(plain=True) as watch:
        for _ in range(3):
            watch(state(done=0))  # nothing has changed
    assert len(capsys.readouterr().err.splitlines()) == 1
    with display(plain=False) as watch:  # a terminal: the table is drawn and wiped
        watch(state())
