"""Files that a recipe's fields name: where they are looked for, and what becomes of a dataset when
they move or change.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import taskloom as tl
from taskloom.cli import run
from taskloom.core.errors import RecipeError, TaskloomError
from taskloom.recipe import read
from taskloom.suites.zest.synthetic import domain_files
from taskloom.suites.zest.synthetic.domain_files import FOLDER

PARKS: dict[str, Any] = yaml.safe_load((FOLDER / "parks.yaml").read_text(encoding="utf-8"))
CASTLES = PARKS | {"name": "castles", "noun": "castle", "short": "castle", "rules": []}
RECIPE: dict[str, Any] = {
    "suite": "zest",
    "domains": ["domains/castles.yaml"],
    "tasks": {"train": 12, "dev": 0, "test": 0},
    "shares": {"combination": 0, "structure": 0},
    "passages": 2,
    "unseen": "program",
}


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Domains that a test loads are not there for the next one."""
    monkeypatch.setattr(domain_files, "_LOADED", {})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a recipe with a domain of one's own beside it, and work in another folder."""
    folder = tmp_path / "project"
    (folder / "domains").mkdir(parents=True)
    (folder / "domains" / "castles.yaml").write_text(yaml.safe_dump(CASTLES))
    (folder / "mine.yaml").write_text(yaml.safe_dump(RECIPE))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return folder


def test_a_domain_is_looked_for_beside_the_recipe(project: Path) -> None:
    data = tl.make(project / "mine.yaml", "d", workers=2)
    assert {e.traits["domain"] for e in data["train"]} == {"castles"}
    assert data.manifest["recipe"]["domains"] == ["domains/castles.yaml"]


def test_a_recipe_that_extends_another_finds_the_files_of_both(project: Path) -> None:
    inner = project / "deeper"
    inner.mkdir()
    (inner / "more.yaml").write_text("extends: ../mine.yaml\npassages: 3\n")
    assert len(tl.make(inner / "more.yaml")["train"]) == 36


def test_what_a_person_types_is_seen_from_the_working_folder(project: Path) -> None:
    Path("domains").mkdir()
    other = CASTLES | {"name": "forts", "noun": "fort", "short": "fort"}
    Path("domains/castles.yaml").write_text(yaml.safe_dump(other))
    typed = read(project / "mine.yaml", {"domains": ["domains/castles.yaml"]}).plan(0)
    assert {e.traits["domain"] for e in typed.splits[0].rows(0, 4)} == {"forts"}
    with pytest.raises(
        RecipeError, match=r"there is no domain file nowhere/castles\.yaml \(relative to the folder"
    ):
        read(project / "mine.yaml", ["domains=[nowhere/castles.yaml]"]).plan(0)


def test_the_home_folder_is_expanded_in_fields(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project))
    rows = (
        read(project / "mine.yaml", ["domains=[~/domains/castles.yaml]"])
        .plan(0)
        .splits[0]
        .rows(0, 4)
    )
    # Where a file lies changes no example.
    assert list(rows) == list(read(project / "mine.yaml").plan(0).splits[0].rows(0, 4))
    with pytest.raises(TaskloomError, match="no such user's home folder"):
        read(project / "mine.yaml", ["domains=[~nobody-of-this-name/castles.yaml]"]).plan(0)


def test_published_files_are_looked_for_beside_the_recipe(project: Path) -> None:
    row = (
        '{"id": "a", "question": "Is it?", "type": {"generalization_type": "normal",'
        ' "derives_from": [], "domain": "x"},'
    )
    (project / "train.jsonl").write_text(
        row + ' "examples": [{"context": "It is.", "answer": "yes"}]}\n'
    )
    (project / "files.yaml").write_text("suite: zest\nfiles: {train: train.jsonl}\n")
    assert [e.target for e in tl.make(project / "files.yaml")["train"]] == ["yes"]


def test_a_dataset_of_an_own_domain_verifies_anywhere(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tl.make(project / "mine.yaml", "d")
    assert tl.verify("d").answers == 24  # found beside the recipe
    project = project.rename(project.with_name("moved"))
    domain = project / "domains" / "castles.yaml"
    moved = Path("moved.yaml")
    without = tl.verify("d")
    assert (without.rows, without.answers) == (24, 0)
    assert "made with domains/castles.yaml, which is not here; name the file" in without.unchecked
    assert tl.verify("d", task=domain, every=True).answers == 24
    assert run(["verify", "d", "--task", str(domain)]) == 0
    assert "24 answers derived again by second solver: 0 differ" in capsys.readouterr().out
    shutil.copy(domain, moved)
    with pytest.raises(
        TaskloomError,
        match=r"task names moved\.yaml, which the dataset was not made with; .*castles",
    ):
        tl.verify("d", task=moved)
    with pytest.raises(TaskloomError, match=r"task names none\.yaml, which is not there"):
        tl.verify("d", task="none.yaml")
    shutil.copytree(project / "domains", "domains")  # found where the text says
    assert tl.verify("d").answers == 24


def test_another_file_of_the_same_name_is_not_taken_for_the_recipes(project: Path) -> None:
    tl.make(project / "mine.yaml", "d")
    Path("domains").mkdir()
    Path("domains/castles.yaml").write_text("another file")
    assert tl.verify("d").answers == 24


def test_a_domain_that_was_edited_is_said_to_have_changed(project: Path) -> None:
    tl.make(project / "mine.yaml", "d")
    domain = project / "domains" / "castles.yaml"
    domain.write_text(yaml.safe_dump(CASTLES | {"noun": "fortress"}))
    with pytest.raises(
        TaskloomError, match=r"the file .*castles\.yaml has changed since the dataset was made"
    ):
        tl.verify("d", task=domain)
    domain.write_text("not a domain")
    with pytest.raises(
        TaskloomError, match=r"the file .*castles\.yaml has changed since the dataset was made"
    ):
        tl.verify("d", task=domain)
