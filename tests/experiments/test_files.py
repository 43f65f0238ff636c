"""What is written of a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from taskloom.experiments.files import LOG, write_run


@pytest.mark.parametrize("links", [True, False])
def test_the_log_of_a_job_becomes_that_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    printed = tmp_path / "printed.txt"
    printed.write_text("step 1")
    logs: tuple[Path | bytes, ...] = (printed, tmp_path / "missing.txt", b"step 1")
    for number, log in enumerate(logs):
        write_run(tmp_path / str(number), {}, {}, None, None, {}, log)
    assert [(tmp_path / str(number) / LOG).read_bytes() for number in range(3)] == [
        b"step 1",
        b"",
        b"step 1",
    ]
    assert printed.stat().st_nlink == 1 + links
