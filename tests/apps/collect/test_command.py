"""`taskloom collect` on the command line: one thing at a time, and one sentence for what is
wrong.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from taskloom.cli.app import run as cli
from taskloom.core.files import locked
from tests.apps.collect.projects import add_people, open_project, write_project


def test_a_new_project_file_is_written_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli(["collect", str(tmp_path / "p"), "--new"]) == 0
    assert (tmp_path / "p" / "project.yaml").is_file()
    assert cli(["collect", str(tmp_path / "p"), "--new"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert cli(["collect", str(tmp_path / "p"), "--status"]) == 2
    assert "there is no file or folder" in capsys.readouterr().err


def test_status_and_check_of_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    c = open_project(tmp_path)
    add_people(c)
    c.close()
    assert (
        cli(
            [
                "collect",
                str(tmp_path),
                "--status",
                "--check",
                "--log",
                str(tmp_path / "log.jsonl"),
                "--json",
            ]
        )
        == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert (report["people"], report["documents"], report["answers"]) == (7, 12, 0)
    assert report["events"] == len((tmp_path / "log.jsonl").read_text().splitlines())
    with sqlite3.connect(tmp_path / "collect.sqlite") as other:
        other.execute("UPDATE records SET version = 9 WHERE kind = 'person'")
    assert cli(["collect", str(tmp_path), "--check"]) == 2
    assert "7 differences from the log" in capsys.readouterr().err


def test_what_keeps_a_server_from_starting_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli(["collect", str(tmp_path / "nothing")]) == 2
    assert "has no project.yaml" in capsys.readouterr().err
    assert not (tmp_path / "nothing").exists()
    write_project(tmp_path)
    assert cli(["collect", str(tmp_path), "--host", "203.0.113.7", "--token", "short"]) == 2
    assert "choose at least 16" in capsys.readouterr().err
    assert cli(["collect", str(tmp_path), "--host", "203.0.113.7"]) == 2
    assert "on 203.0.113.7 cannot be used" in capsys.readouterr().err
    with locked(tmp_path / ".lock"):
        assert cli(["collect", str(tmp_path), "--port", "0"]) == 2
    assert "another server works on" in capsys.readouterr().err
