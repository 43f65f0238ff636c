"""Atoms in a file of one's own: their code is part of the recipe, and what is wrong with them is
said by name.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from taskloom.cli import app
from taskloom.recipe import Recipe, read
from taskloom.suites.taskbench import atoms

WORDS = "lexicon=synthetic"  # cheap to open

FILE = """from taskloom.suites.taskbench import atom

VOWELS = "{vowels}"


@atom("vowels[eng]", one="a vowel of {{x}}")
def vowels(word: str) -> set[str]:
    return {{c for c in word if c in VOWELS}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE.format(vowels="aeiou"))
    return path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert app.run(list(arguments)) == 2
    err = capsys.readouterr().err
    assert err.startswith("taskloom: ")
    assert err.count("\n") in (1, 3), err
    return err


def test_the_code_is_part_of_the_digest(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{file}::taskbench/chain(vowels[eng], antonyms[eng])"
    recipe, plain = read(name, [WORDS]), read("taskbench/antonyms[eng]")
    assert Recipe.from_dict(recipe.to_dict()).digest == recipe.digest
    assert "code" not in plain.to_dict()
    out = str(tmp_path / "x")
    assert app.run(["make", name, "-o", out, "--set", WORDS]) == 0
    assert app.run(["verify", out]) == 0
    before = file.stat()
    file.write_text(FILE.format(vowels="aeioy"))  # as long as before, and within the same second
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    changed = read(name, [WORDS])
    assert changed.digest != recipe.digest
    assert read("taskbench/antonyms[eng]").digest == plain.digest
    assert "different code of 'vowels[eng]'" in said(capsys, "verify", out, "--task", str(file))
    assert "already holds another dataset" in said(capsys, "make", name, "-o", out, "--set", WORDS)
    function = atoms.added()["vowels[eng]"].function
    assert function is not None
    assert function("you") == {"o", "y"}  # the new code is what runs, whatever bytecode lies about
    assert not (tmp_path / "__pycache__").exists()


def test_a_recipe_file_may_extend_it(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Workers know the atom by way of the recipe's file; verify knows it by way of the file that a
    person names.
    """
    (tmp_path / "mine.yaml").write_text(
        f"extends: {file}::taskbench/map(vowels[eng])\nsequences: {{n: 300}}\nlexicon: synthetic\n"
    )
    made = [
        "make",
        str(tmp_path / "mine.yaml"),
        "-o",
        str(tmp_path / "x"),
        "--workers",
        "2",
        "--shard-rows",
        "1000",
    ]
    assert app.run(made) == 0
    atoms.added().clear()
    assert app.run(["verify", str(tmp_path / "x")]) == 0
    assert "no answer was derived again" in capsys.readouterr().out
    assert app.run(["verify", str(tmp_path / "x"), "--task", str(file)]) == 0
    assert "answers derived again" in capsys.readouterr().out


FAULTS = [
    ('"vowels[eng]"', '"synonyms[eng]"', "there is already an atom 'synonyms[eng]'"),
    ('"vowels[eng]"', '"P22"', "there is already an atom 'P22' (father)"),
    ('"vowels[eng]"', '"vowels[deu]"', "'deu'"),
    ('"vowels[eng]"', '"vowels(eng)"', "is not a valid name for an atom"),
    ("{c for c in word if c in VOWELS}", "word", "a relation must return a set"),
    ("{c for c in word if c in VOWELS}", "{1}", "a relation must return a set"),
    ("{c for c in word if c in VOWELS}", "{' '}", "non-empty texts"),
    ("{c for c in word if c in VOWELS}", "None", "raised TypeError for"),
    ("{c for c in word if c in VOWELS}", "{word[99]}", "raised IndexError for"),
    ("-> set[str]", "-> bool", "a predicate must return True or False"),
]


@pytest.mark.parametrize(("old", "new", "says"), FAULTS)
def test_what_is_wrong_is_said(
    old: str, new: str, says: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(file.read_text().replace(old, new))
    assert says in said(capsys, "show", f"{file}::taskbench/vowels[eng]", "--set", WORDS)


def test_two_files_with_one_name(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.py"
    other.write_text(file.read_text())
    read(f"{file}::taskbench/vowels[eng]")
    assert "defined twice" in said(capsys, "show", f"{other}::taskbench/vowels[eng]")
