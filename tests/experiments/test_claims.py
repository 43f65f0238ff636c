"""Claims: one of many processes works on a run, and what a dead one claimed is free."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from taskloom.experiments.claims import Claims


def test_one_of_many_gets_a_claim(tmp_path: Path) -> None:
    many = [Claims(tmp_path / "claims") for _ in range(4)]
    assert sum(c.take("run") for c in many) == 1
    holder = next(c for c in many if c.taken)
    holder.drop("run")
    other = next(c for c in many if c is not holder)
    assert other.take("run")
    for c in many:
        c.close()
    assert not list((tmp_path / "claims").iterdir())


def test_the_claim_of_a_dead_process_is_taken_over_at_once(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        Claims(tmp_path / "claims").take("run")
        os._exit(0)  # like a kill: nothing is given back
    os.waitpid(child, 0)
    assert os.path.islink(tmp_path / "claims" / "run")
    mine = Claims(tmp_path / "claims")
    assert mine.take("run")
    mine.close()


def test_a_claim_that_is_a_plain_file_is_nobodys(tmp_path: Path) -> None:
    """As in a store that was copied by a tool that knows no links."""
    mine = Claims(tmp_path / "claims")
    (tmp_path / "claims" / "run").write_text("")
    assert mine.take("run")
    mine.close()
    assert not list((tmp_path / "claims").iterdir())


def test_an_owner_on_another_machine_is_gone_when_its_count_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its clock says: only the count is looked at, by our own monotonic clock."""
    now = [1000.0]
    monkeypatch.setattr("taskloom.experiments.claims.time.monotonic", lambda: now[0])
    theirs = Claims(tmp_path / "claims", beat=1e6)
    assert theirs.take("run")
    file = tmp_path / "claims" / f".owner-{theirs.owner}"
    said = json.loads(file.read_text())

    def count(number: int) -> None:
        file.write_text(json.dumps({**said, "place": "another machine", "count": number}))
        os.utime(file, (10**9, 10**9))  # a clock that is years behind

    mine = Claims(tmp_path / "claims", beat=1e6, lease=60)
    for number in range(5):
        count(number)
        assert not mine.take("run")
        now[0] += 50
    assert not mine.take("run")
    now[0] += 59
    assert mine.take("run")  # 109 seconds without a new count
    mine.close()
    theirs.close()
