"""Orders to a terminal that come with data are shown, not obeyed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taskloom.cli import run

ESCAPES = "\x1b[31m\x9b2J\x07\u202e"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [
        {
            "input": f"in {ESCAPES} {i}",
            "targets": [f"out{ESCAPES}"],
            "task": f"t{ESCAPES}",
            "traits": {"k": ESCAPES},
        }
        for i in range(4)
    ]
    for split in ("train", "test"):
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.mark.parametrize("command", [["show"], ["show", "--json"], ["audit"], ["audit", "--json"]])
def test_terminal_escapes_in_data_are_shown(
    folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run([command[0], str(folder), *command[1:]])
    out = capsys.readouterr().out
    assert "in " in out
    machine = "--json" in command
    assert not set(out) & ({"\x1b", "\x9b", "\x07"} if machine else set(ESCAPES) - set("[31m2J"))
    if command == ["show"]:
        assert r"\x1b[31m\x9b2J\x07\u202e" in out
    if command == ["show", "--json"]:
        assert json.loads(out.splitlines()[0])["input"] == f"in {ESCAPES} 0"
