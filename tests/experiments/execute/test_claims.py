"""Claims: one of many processes works on a run, and what a dead one claimed is free."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from taskloom.experiments.execute.driver import Claims


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
    assert (tmp_path / "claims" / "run").is_file()
    mine = Claims(tmp_path / "claims")
    assert mine.take("run")
    mine.close()


@pytest.mark.parametrize("content", ["", "ab" * 16, "../elsewhere", "\xff"])
def test_a_claim_without_a_live_owner_is_free(tmp_path: Path, content: str) -> None:
    """As in a store that was copied while a driver worked on it."""
    mine = Claims(tmp_path / "claims")
    (tmp_path / "claims" / "run").write_text(content, encoding="latin-1")
    assert mine.take("run")
    mine.close()
    assert not list((tmp_path / "claims").iterdir())


def test_links_that_older_versions_left_are_replaced_and_not_followed(tmp_path: Path) -> None:
    mine = Claims(tmp_path / "claims")
    os.symlink(tmp_path / "elsewhere", tmp_path / "claims" / "run")
    assert mine.take("run")
    assert not (tmp_path / "elsewhere").exists()
    mine.close()


def test_a_driver_sweeps_the_files_of_owners_that_have_ended(tmp_path: Path) -> None:
    living, mine = Claims(tmp_path / "claims"), Claims(tmp_path / "claims")
    (tmp_path / "claims" / f".owner-{'ab' * 16}").touch()
    mine.sweep()
    assert len(list((tmp_path / "claims").iterdir())) == 2
    living.close()
    mine.close()
