"""Code that only data name never runs; a dataset of a task file verifies anywhere, and its answers
where the file is given.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import taskloom as tl
from taskloom.cli import run
from taskloom.core.errors import DataError, TaskloomError
from taskloom.core.registry import Registry

TASK = """
from pathlib import Path
import taskloom as tl
Path(__file__).with_suffix(".ran").touch()

@tl.task("letters/upper", describe="Upper-case the letter.", solve=str.upper)
def upper(rng):
    letter = rng.choice("abcdefgh") + rng.choice("abcdefgh")
    return tl.Example(letter, letter.upper())
"""


def forget() -> None:
    """Forget the task files of this process, as another process would not know them."""
    for module in [name for name in sys.modules if name.endswith("/upper.py)")]:
        del sys.modules[module]
        for registry in Registry.every:
            registry.forget(module)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Make a dataset by a task file, and forget the file."""
    file = tmp_path / "upper.py"
    file.write_text(TASK)
    tl.make(str(file), tmp_path / "d", set=["splits={train: {n: 20}}"])
    forget()
    file.with_suffix(".ran").unlink()
    yield file, tmp_path / "d"
    forget()


@pytest.mark.parametrize(
    "command", [["verify"], ["show"], ["audit"], ["export", "--split", "train", "--format", "x"]]
)
def test_a_file_that_only_the_manifest_names_is_not_run(
    made: tuple[Path, Path], command: list[str]
) -> None:
    file, folder = made
    out = ["-o", str(folder.parent / "x.txt")] if command[0] == "export" else []
    assert run([command[0], str(folder), *command[1:], *out]) == (2 if out else 0)
    assert not file.with_suffix(".ran").exists()


def test_a_recipe_file_that_only_the_manifest_names_is_not_run(made: tuple[Path, Path]) -> None:
    file, folder = made
    (folder.parent / "r.yaml").write_text(f"extends: {file}\n")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["recipe"]["name"] = str(folder.parent / "r.yaml")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert tl.verify(folder).unchecked
    assert not file.with_suffix(".ran").exists()


def test_bytes_verify_without_the_file_and_answers_with_it(
    made: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    file, folder = made
    assert run(["verify", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "20 rows have the bytes of the manifest" in out
    assert "no answer was derived again, and no row was made again: --task is needed" in out
    assert (tl.verify(folder).rows, tl.verify(folder).answers, tl.verify(folder).method) == (
        20,
        0,
        "",
    )
    moved = file.with_name("elsewhere")
    moved.mkdir()
    file = file.rename(moved / "upper.py")
    assert run(["verify", str(folder), "--task", str(file)]) == 0
    assert "20 answers derived again by second solver: 0 differ" in capsys.readouterr().out
    assert run(["show", str(folder), "--task", str(file)]) == 0


def test_an_edited_task_file_is_said_to_have_changed(made: tuple[Path, Path]) -> None:
    file, folder = made
    file.write_text(TASK + "\n# edited\n")
    with pytest.raises(
        DataError,
        match=(
            r"bytes are those of the manifest, but the file that defines 'letters/upper' has"
            r" changed since then"
        ),
    ):
        tl.verify(folder, task=file)


def test_a_file_that_defines_another_task_is_refused(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "other.py").write_text("x = 1\n")
    with pytest.raises(DataError, match=r"other\.py does not define what made the dataset"):
        tl.verify(made[1], task=tmp_path / "other.py")


def test_an_edited_recipe_is_refused_with_the_file(made: tuple[Path, Path]) -> None:
    file, folder = made
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["recipe"]["colour"] = "red"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(TaskloomError, match="unknown key 'colour'"):
        tl.verify(folder, task=file)


def test_predictions_are_scored_by_the_scorer_of_a_file_that_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "upper.py"
    scorer = (
        "class Loose:\n    name = 'loose-of-upper'\n    def score(self, prediction, targets):"
        " return 0.5\n"
    )
    scorer += "    def explain(self, prediction, targets): return ''\n"
    file.write_text(
        TASK.replace("@tl.task", scorer + "\n@tl.task").replace("solve=str.upper", "scorer=Loose()")
    )
    tl.make(str(file), tmp_path / "d", set=["splits={test: {n: 4}}"])
    forget()
    (tmp_path / "p.txt").write_text("a\n" * 4)
    words = [
        "score",
        "letters/upper",
        "--gold",
        str(tmp_path / "d"),
        "--pred",
        str(tmp_path / "p.txt"),
        "--json",
    ]
    assert run(words) == 2
    assert "--task is needed" in capsys.readouterr().err
    assert run([*words, "--task", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == 0.5
    forget()
