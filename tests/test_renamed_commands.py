"""Commands in groups, such as `taskloom runs compare`; the old words still work and name the new
ones.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import taskloom as tl
from taskloom.cli import run
from taskloom.cli.app import COMMANDS, todays

SMALL = {"splits": {"train": {"n": 60}, "test": {"n": 20}}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with two seeds of the majority baseline."""
    folder = tmp_path_factory.mktemp("commands") / "runs"
    tl.run(
        recipes=[{"recipe": "babi/1", "changes": SMALL}],
        learners="majority",
        seeds=2,
        store=folder,
        workers=1,
    )
    return str(folder)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("compare DIR a b", "runs compare DIR a b"),
        ("report DIR -o page.html", "runs report DIR -o page.html"),
        ("rescore DIR --scorer own", "runs rescore DIR --scorer own"),
        ("runs DIR --by task", "runs show DIR --by task"),
        ("runs --by task DIR", "runs show --by task DIR"),
        ("-v compare DIR a b", "-v runs compare DIR a b"),
        ("collect DIR", "collect serve DIR"),
        ("collect DIR --port 0", "collect serve DIR --port 0"),
    ],
)
def test_old_words_are_read_as_new_ones_and_named(old: str, new: str) -> None:
    words, hint = todays(shlex.split(old))
    assert words == shlex.split(new)
    assert " ".join(new.removeprefix("-v ").split()[:2]) in hint


@pytest.mark.parametrize(
    "line", ["runs compare DIR a b", "runs --help", "collect status DIR", "make ctl/A", "", "-v"]
)
def test_todays_words_stay(line: str) -> None:
    assert todays(shlex.split(line)) == (shlex.split(line), "")


def test_an_old_command_prints_what_the_new_one_prints_and_one_line_more(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = {
        "runs show {} --json": "runs {} --json",
        "runs compare {} seed=0 seed=1 --json": "compare {} seed=0 seed=1 --json",
        "runs rescore {} --scorer own --json": "rescore {} --scorer own --json",
        "runs verify {} --json": "verify {} --json",
    }
    for new, old in pairs.items():
        assert run(shlex.split(new.format(store))) == 0
        expected = capsys.readouterr()
        assert expected.err == ""
        assert run(shlex.split(old.format(store))) == 0
        printed = capsys.readouterr()
        assert printed.out == expected.out
        assert printed.err.count("\n") == 1
        assert " ".join(new.split()[:2]) in printed.err


def test_the_report_of_runs_is_written(store: str, tmp_path: Path) -> None:
    assert run(["runs", "report", store, "-o", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").is_file()


def test_compare_takes_rules(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", "compare", store, "seed=0", "seed=1", "--where", "seed=0"]) == 2
    assert "seed" in capsys.readouterr().err
    assert run(["runs", "compare", store, "seed=0", "seed=1", "--where", "majority"]) == 0


def test_a_group_lists_its_actions_and_an_unknown_one_is_a_folder(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["runs", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name.split()[1]}" in text for name in COMMANDS if name.startswith("runs "))
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    assert "  runs" in text
    assert "  collect" in text
    assert "  compare" not in text
    assert run(["runs", "no-such-folder"]) == 2
    assert "no-such-folder" in capsys.readouterr().err


def test_collect_has_actions_as_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["collect", "new", str(tmp_path / "mine")]) == 0
    assert (tmp_path / "mine" / "project.yaml").is_file()
    demo = str(tmp_path / "demo")
    for words in (["demo", demo], ["check", demo], ["log", demo, str(tmp_path / "log.jsonl")]):
        assert run(["collect", *words]) == 0
    capsys.readouterr()
    assert run(["collect", "status", demo, "--json"]) == 0
    by_word = capsys.readouterr()
    assert json.loads(by_word.out)["people"]
    assert run(["collect", demo, "--status", "--json"]) == 0
    by_flag = capsys.readouterr()
    assert (by_flag.out, by_word.err) == (by_word.out, "")
    assert "taskloom collect status" in by_flag.err
    assert run(["collect", "export", demo, str(tmp_path / "release")]) == 0
    assert (tmp_path / "release" / "recipe.yaml").is_file()


def test_options_have_the_names_of_pythons_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(tmp_path / "data")
    assert (
        run(["make", "babi/1", "-o", data, "--changes", "splits={train: {n: 20}, test: {n: 5}}"])
        == 0
    )
    assert run(["verify", data, "--every"]) == 0
    answers = tmp_path / "answers.txt"
    answers.write_text("kitchen\n" * 5)
    capsys.readouterr()
    printed = []
    for options in ("--gold {} --pred {} --at 50", "--data {} --predictions {} --thresholds 50"):
        assert run(["score", "babi", *shlex.split(options.format(data, answers))]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    "change", ["splits={train:{n:60}}", "splits.train={n:60}", "described={unseen:0.2}"]
)
def test_blanks_that_yaml_needs_are_asked_for(
    change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", "ctl/A", "--set", change]) == 2
    assert "space" in capsys.readouterr().err
