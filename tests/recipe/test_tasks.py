"""Tasks that are one function: the example of the design, its knobs, its splits, and one that
another package brings.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import taskloom as tl
from taskloom.core.errors import RecipeError, TaskloomError
from taskloom.core.registry import TASKS
from taskloom.core.seeding import Key

REVERSE = '''"""Reverse a list of words: the smallest sequence task, a sanity check for any learner."""
import taskloom as tl

WORDS = "amber basin cedar delta ember fable".split()

@tl.task("words/reverse", describe="Reverse the order of the words.", scorer=tl.exact)
def reverse(rng: tl.Random, length: int = tl.knob(4, low=2, high=6)) -> tl.Example:
    words = rng.sample(WORDS, length)
    return tl.Example(" ".join(words), " ".join(reversed(words)), traits={"length": length})
'''


@pytest.fixture
def task_file(tmp_path: Path) -> str:
    path = tmp_path / "reverse.py"
    path.write_text(REVERSE)
    return str(path)


def test_the_designs_example_is_at_most_15_lines() -> None:
    assert REVERSE.count("\n") <= 15


def test_a_task_file_works_everywhere(task_file: str, tmp_path: Path) -> None:
    changes = ["length=2..5", "splits={train: {n: 300}, test: {n: 50}}"]
    data = tl.make(task_file, tmp_path / "d", set=changes, workers=2)
    for split in data.splits:
        for example in data[split]:
            assert example.target.split() == example.input.split()[::-1]
            assert example.task == "words/reverse"
            assert len(example.input.split()) == example.traits["length"]
    assert {e.traits["length"] for e in data["train"]} == {2, 3, 4, 5}
    assert not {e.input for e in data["train"]} & {e.input for e in data["test"]}
    assert tl.verify(tmp_path / "d").method == "regeneration"
    assert tl.audit(tmp_path / "d").leaks == []


def test_a_slice_can_be_made_alone(task_file: str) -> None:
    from taskloom.recipe import read

    split = read(task_file).plan(0).split("train")
    assert list(split.rows(0, 20))[7:9] == list(split.rows(7, 9))


def test_too_small_a_space_is_said(task_file: str) -> None:
    from taskloom.recipe import read

    # 30 pairs of words; the last of ten splits of other names owns a 1,760th of them.
    splits = ", ".join(f"extra{i}: {{n: 1}}" for i in range(10))
    plan = read(task_file, ["length=2", f"splits={{{splits}}}"]).plan(0)
    with pytest.raises(RecipeError, match="too few distinct examples"):
        list(plan.split("extra9").rows(0, 1))


def test_tasks_that_are_functions_can_be_applied_and_verified(tmp_path: Path) -> None:
    path = tmp_path / "upper.py"
    path.write_text(
        "import taskloom as tl\n@tl.task('letters/upper', describe='Upper-case the letter.',"
        " solve=lambda text: {'a': 'A', 'b': 'B'}[text])\ndef upper(rng):\n    letter ="
        " rng.choice('ab')\n    return tl.Example(letter, letter.upper())\n"
    )
    assert tl.apply(str(path), "a").targets == ("A",)
    with pytest.raises(TaskloomError, match="cannot answer 'z'"):
        tl.apply(str(path), "z")


def test_mistakes_in_task_files(tmp_path: Path) -> None:
    def said(text: str, name: str = "t.py") -> str:
        (tmp_path / name).write_text("import taskloom as tl\n" + text)
        with pytest.raises(TaskloomError) as caught:
            tl.make(str(tmp_path / name))
        return str(caught.value)

    assert "it defines: none" in said("x = 1\n")
    assert "ZeroDivisionError" in said("1 / 0\n")
    assert "a path such as" in said("@tl.task('plain', describe='d')\ndef f(rng): ...\n")
    assert "needs a default" in said("@tl.task('a/no-default', describe='d')\ndef f(rng, k): ...\n")
    assert "not an Example" in said("@tl.task('a/none', describe='d')\ndef f(rng): return 3\n")
    assert "without a target" in said(
        "@tl.task('a/empty', describe='d')\ndef f(rng): return tl.Example('x', ())\n"
    )
    two = (
        "@tl.task('a/one', describe='d')\ndef f(rng): ...\n@tl.task('a/two', describe='d')\ndef"
        " g(rng): ...\n"
    )
    assert "a/one, a/two" in said(two)
    varying = "@tl.task('a/vary', describe='d')\ndef f(rng):\n  n = str(rng.random())\n"
    varying += "  return tl.Example(n, 'x', traits={n[:3]: 1})\n"
    assert "give every example the same traits" in said(varying)


def test_what_tasks_must_not_return(tmp_path: Path) -> None:
    def said(body: str) -> str:
        path = tmp_path / "t.py"
        path.write_text(
            "import sys\nimport taskloom as tl\n@tl.task('a/bad', describe='d')\ndef f(rng):\n   "
            f" {body}\n"
        )
        with pytest.raises(TaskloomError) as caught:
            tl.make(str(path))
        return str(caught.value)

    assert "raised ZeroDivisionError" in said("return 1 / 0")
    assert "t.py, line 5" in said("return 1 / 0")
    assert "raised SystemExit" in said("sys.exit(3)")
    assert "raised TypeError" in said("return tl.Example('x', 5)")
    assert "are not text" in said("return tl.Example(5, 'a')")
    assert "the trait 5" in said("return tl.Example('x', 'a', traits={5: 1})")
    assert "the trait 'k'" in said("return tl.Example('x', 'a', traits={'k': [1]})")
    assert "the trait 'k'" in said("return tl.Example('x', 'a', traits={'k': 10**30})")
    assert "step 0" in said("return tl.Example('x', 'a', derivation=['q'])")
    assert "step 0" in said("return tl.Example('x', 'a', derivation=[tl.Step('r', 'v', (9,))])")


def test_changed_code_is_another_recipe(task_file: str, tmp_path: Path) -> None:
    changes = ["splits={train: {n: 20}}"]
    before = tl.make(task_file, tmp_path / "d", set=changes)
    Path(task_file).write_text(REVERSE.replace("reversed(words)", "sorted(words)"))
    with pytest.raises(TaskloomError, match="already holds another dataset"):
        tl.make(task_file, tmp_path / "d", set=changes)
    assert tl.make(task_file, set=changes).digest != before.digest


@pytest.mark.parametrize("gives", ["None", "5", "()", "[3]"])
def test_solvers_that_give_no_text(tmp_path: Path, gives: str) -> None:
    path = tmp_path / "t.py"
    head = (
        f"import taskloom as tl\n@tl.task('a/solved', describe='d', solve=lambda text: {gives})\n"
    )
    path.write_text(head + "def f(rng): return tl.Example('x', 'y')\n")
    with pytest.raises(TaskloomError, match="must return a text"):
        tl.apply(str(path), "x")


def test_two_modules_cannot_share_a_name(task_file: str, tmp_path: Path) -> None:
    tl.make(task_file, set=["splits={train: {n: 10}}"])
    other = tmp_path / "other.py"
    other.write_text(REVERSE)
    with pytest.raises(TaskloomError, match="defined twice"):
        tl.make(str(other))


def test_a_task_can_be_called(task_file: str) -> None:
    tl.make(task_file, set=["splits={train: {n: 10}}"])
    task = TASKS.get("words/reverse")
    assert len(task(Key("x").random(), length=3).input.split()) == 3
    with pytest.raises(TaskloomError, match="no knob 'size'"):
        task(Key("x").random(), size=3)


PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "word-tasks"
version = "1.0"
[project.entry-points.taskloom]
words = "word_tasks"
[tool.hatch.build.targets.wheel]
packages = ["word_tasks"]
"""


def test_an_installed_package_adds_a_task(tmp_path: Path) -> None:
    """A real package, really built and installed, found through its entry point by the real
    command.
    """
    source, site = tmp_path / "source", tmp_path / "site"
    (source / "word_tasks").mkdir(parents=True)
    (source / "pyproject.toml").write_text(PYPROJECT)
    (source / "word_tasks" / "__init__.py").write_text(REVERSE)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    subprocess.run(
        [*pip, "--disable-pip-version-check", "--target", str(site), str(source)], check=True
    )

    out = str(tmp_path / "made")
    commands = [
        ["list", "tasks", "--json"],
        ["show", "words/reverse", "-n", "1", "--json"],
        [
            "make",
            "words/reverse",
            "-o",
            out,
            "--set",
            "splits={train: {n: 50}, test: {n: 9}}",
            "--workers",
            "2",
        ],
        ["verify", out, "--all"],
    ]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"from taskloom.cli import run\nfor words in {commands}: assert run(words) == 0",
        ],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(site), "HOME": str(tmp_path)},
    )
    listed, shown = map(json.loads, done.stdout.splitlines()[:2])
    assert listed["tasks"] == [
        {"name": "words/reverse", "describe": "Reverse the order of the words."}
    ]
    assert shown["targets"][0].split() == shown["input"].split()[::-1]


def test_a_dotted_change_keeps_the_rest_of_the_default(task_file: str) -> None:
    from taskloom.recipe import read

    sizes = {
        split.name: split.n for split in read(task_file, ["splits.train.n=300"]).plan(0).splits
    }
    assert sizes == {"train": 300, "dev": 1000, "test": 1000}
    sizes = {split.name: split.n for split in read(task_file, {"splits.extra.n": 5}).plan(0).splits}
    assert sizes == {"train": 10_000, "dev": 1000, "test": 1000, "extra": 5}
    assert read(task_file, ["splits.train.n=10000"]).digest == read(task_file).digest


@pytest.mark.parametrize("parameter", ["seed", "splits", "describe", "name", "version", "task"])
def test_a_knob_named_like_a_recipe_field_is_refused(parameter: str, tmp_path: Path) -> None:
    from taskloom.recipe.recipe import RESERVED
    from taskloom.recipe.tasks import TAKEN

    path = tmp_path / "t.py"
    path.write_text(
        f"import taskloom as tl\n@tl.task('a/taken', describe='d')\ndef f(rng, {parameter}: int ="
        " tl.knob(3)): ...\n"
    )
    with pytest.raises(
        TaskloomError,
        match=f"the parameter '{parameter}' has the name of one of the recipe's own fields",
    ):
        tl.make(str(path))
    assert set(RESERVED) < TAKEN


def test_a_recipe_finds_a_task_file_beside_it(
    task_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text("extends: reverse.py\nsplits: {train: {n: 10}}\n")
    monkeypatch.chdir("/")
    assert len(tl.make(tmp_path / "mine.yaml")["train"]) == 10


def test_the_home_folder_is_expanded(
    task_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "r.yaml").write_text("extends: ~/reverse.py\n")
    (tmp_path / "splits.yaml").write_text("train: {n: 10}\n")
    tl.make("~/r.yaml", "~/d", set=["splits=@~/splits.yaml"])
    assert (tmp_path / "d" / "manifest.json").is_file()
    assert tl.verify("~/d", task="~/reverse.py").answers == 10
    assert tl.load("~/d").digest == tl.make("~/reverse.py", set=["splits=@~/splits.yaml"]).digest
    with pytest.raises(TaskloomError, match="no such user's home folder"):
        tl.load("~nobody-of-this-name/d")


def test_the_home_folder_is_expanded_by_learners_and_experiments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskloom import learners
    from taskloom.experiments.spec.cell_data import is_own_data
    from taskloom.experiments.store import Store

    monkeypatch.setenv("HOME", str(tmp_path))
    Store("~/runs", create=True)
    assert (tmp_path / "runs").is_dir()
    assert is_own_data("~/runs")
    for call in (learners.load, Store, is_own_data):
        with pytest.raises(TaskloomError, match="no such user's home folder"):
            call("~nobody-of-this-name/x")
