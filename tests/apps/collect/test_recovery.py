"""Damaged, empty and missing databases: one sentence with the remedy, and what can be saved."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from random import Random

import pytest

from taskloom.apps.collect.annotation import gather_passages
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.recovery import recover
from taskloom.cli import run as cli
from tests.apps.collect.projects import (
    add_people,
    annotate_all,
    open_project,
    write_base_tasks,
    write_variants,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project half-way through a round, closed."""
    folder = tmp_path_factory.mktemp("whole")
    c = open_project(folder)
    people = add_people(c)
    write_variants(c, people, write_base_tasks(c, people))
    gather_passages(c, people["Olga"].id)
    annotate_all(c, people)
    c.close()
    return folder


@pytest.fixture
def project(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "project"))


def overwrite_pages(database: Path, seed: int) -> None:
    pages = database.stat().st_size // 4096
    with database.open("r+b") as file:
        for page in Random(seed).sample(range(1, pages), 3):
            file.seek(page * 4096)
            file.write(b"x" * 200)


def records(folder: Path) -> dict[tuple[str, str], str]:
    with sqlite3.connect(folder / "collect.sqlite") as connection:
        rows = connection.execute("SELECT kind, id, body FROM records").fetchall()
    return {(kind, id): body for kind, id, body in rows}


@pytest.mark.parametrize("seed", range(5))
def test_every_action_on_a_damaged_database_is_one_sentence_with_the_remedy(
    project: Path, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overwrite_pages(project / "collect.sqlite", seed)
    for action in (["status"], ["check"], ["log", "log.jsonl"], ["export", "release"], ["serve"]):
        more = [str(tmp_path / name) for name in action[1:]]
        assert cli(["collect", action[0], str(project), *more]) == 2, action
        said = capsys.readouterr().err
        assert "is damaged" in said
        assert f"taskloom collect recover {project}" in said
        assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize("seed", range(5))
def test_what_can_be_read_of_a_damaged_log_is_saved(project: Path, seed: int) -> None:
    before = records(project)
    overwrite_pages(project / "collect.sqlite", seed)
    saved = recover(project)
    after = records(project)
    assert saved.kept is not None
    assert saved.kept.exists()
    assert saved.missing_texts == 0, "passages come from the project's documents again"
    with Collection(project).store.snapshot():
        pass
    if not saved.lost:
        assert after == before
        assert saved.problems == ()
    else:
        same = sum(after.get(key) == body for key, body in before.items())
        assert same > len(before) / 2


def test_a_passage_that_was_altered_is_found_and_restored(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(project / "collect.sqlite") as connection:
        connection.execute("UPDATE texts SET text = replace(text, 'the', 'no')")
    assert cli(["collect", "check", str(project)]) == 2
    assert "is not the text that was read" in capsys.readouterr().err
    assert recover(project).missing_texts == 0
    assert cli(["collect", "check", str(project)]) == 0


def test_a_whole_database_is_rebuilt_as_it_was(project: Path) -> None:
    before = records(project)
    saved = recover(project)
    assert (records(project), saved.lost, saved.problems) == (before, (), ())


def test_a_database_that_claims_more_events_than_it_can_hold_is_read_to_its_end(
    project: Path,
) -> None:
    before = records(project)
    with sqlite3.connect(project / "collect.sqlite") as connection:
        connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'events'", (2**62,))
    saved = recover(project)
    assert (records(project), saved.lost) == (before, ())


def test_an_exported_log_is_enough(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    assert cli(["collect", "log", str(project), str(log)]) == 0
    before = records(project)
    (project / "collect.sqlite").unlink()
    assert cli(["collect", "recover", str(project)]) == 2
    assert "--log FILE" in capsys.readouterr().err
    assert cli(["collect", "recover", str(project), "--log", str(log), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lost"] == []
    assert records(project) == before
    c = Collection(project)
    assert c.store.check() == []
    c.close()


@pytest.mark.parametrize("empty", [True, False])
def test_a_project_whose_database_is_gone_does_not_begin_anew(
    project: Path, empty: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "collect.sqlite").unlink()
    if empty:
        (project / "collect.sqlite").touch()
    assert cli(["collect", "check", str(project)]) == 2
    said = capsys.readouterr().err
    assert "missing or empty" in said
    assert ".secret" in said


def test_a_log_that_is_none_is_named_with_its_line(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.jsonl").write_text("[]\n")
    assert cli(["collect", "recover", str(project), "--log", str(tmp_path / "log.jsonl")]) == 2
    assert "line 1" in capsys.readouterr().err


def test_a_full_disk_while_the_demonstration_is_copied_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil.copytree, "__defaults__", _with_copy(full))
    assert cli(["collect", "demo", str(tmp_path / "demo")]) == 2
    said = capsys.readouterr().err
    assert "No space left" in said
    assert "[(" not in said


def _with_copy(copy: object) -> tuple[object, ...]:
    """The defaults of `copytree` with another function that copies a file."""
    return tuple(
        copy if value is shutil.copy2 else value for value in shutil.copytree.__defaults__ or ()
    )
