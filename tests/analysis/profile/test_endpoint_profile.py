"""A profile of a model behind an endpoint: a real server around a tiny model, the command, a kill,
and the command again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskloom.analysis.profile.panel import packaged_panel
from taskloom.analysis.profile.profile import planned, read_model, read_profile

pytest.importorskip("transformers")

from tests.interop.model_server import ModelServer
from tests.interop.models import tiny_model


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModelServer]:
    with ModelServer(tiny_model(tmp_path / "tiny")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.slow
def test_a_profile_of_an_endpoint_resumes_after_a_kill(server: ModelServer, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "taskloom",
        "profile",
        "tiny",
        "--endpoint",
        server.url,
        "--quick",
        "-o",
        "page",
    ]
    first = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 120
    while server.answered < 200 and first.poll() is None and time.monotonic() < until:
        time.sleep(0.2)
    assert first.poll() is None
    first.kill()
    first.wait()
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*/*/scores.json")}
    assert done
    subprocess.run(command, cwd=tmp_path, check=True, timeout=900)
    assert {
        path: path.stat().st_mtime_ns for path in done
    } == done  # what was there was not run again
    result = read_profile(tmp_path / "page")
    assert result.complete
    assert result.name == "tiny"
    assert {m.way for m in result.measurements} == {"zero-shot", "few-shot", "described"}
    answered = server.answered
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    assert server.answered == answered
    assert "tiny" in (tmp_path / "page" / "profile.html").read_text(encoding="utf-8")


def test_an_endpoint_is_asked_everything_that_the_panel_has() -> None:
    model = read_model("tiny", endpoint="http://127.0.0.1:1/v1")
    learners = [json.dumps(learner) for one in planned(model, True) for learner in one.learners]
    assert any('"endpoint"' in learner for learner in learners)
    ways = {way for recipe in packaged_panel().recipes.values() for way in model.ways(recipe)}
    assert ways == {"zero-shot", "few-shot", "described"}
