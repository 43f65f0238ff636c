"""The command line as people use it: help examples, the README's lines, JSON, bad input."""

from __future__ import annotations

import errno
import json
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from taskloom.cli import app, dataset
from taskloom.cli.app import COMMANDS, run
from taskloom.experiments.execute import engines
from taskloom.experiments.execute.engines import HereEngine
from tests.shell_lines import in_process, run_line, shell, with_fewer_rows

ROOT = Path(__file__).parent.parent


def files_to_score(folder: Path) -> None:
    """What the examples of `score` read: tasks in ZEST's form, the same as a dataset, and
    predictions.
    """
    from taskloom.data import make as making
    from taskloom.recipe import read

    sizes = ["tasks.train=0", "tasks.test=0", "tasks.dev=60", "passages=2"]
    data = making.make(read("zest/synthetic", sizes), folder / "my-zest", seed=0)
    answers = [targets[0] for targets in data.table("dev").column("targets").to_pylist()]
    (folder / "predictions.txt").write_text("\n".join(answers))
    base = {"generalization_type": "normal", "derives_from": [], "domain": "parks"}
    examples = [
        {"context": "It is open.", "answer": "yes"},
        {"context": "It is large.", "answer": "n/a"},
    ]
    task = {"id": "b", "question": "Is it open?", "type": base, "examples": examples}
    (folder / "dev.jsonl").write_text(json.dumps(task))
    records = [{"id": 1, "prediction": "n/a"}, {"id": 0, "prediction": "yes"}]
    (folder / "predictions.jsonl").write_text("\n".join(map(json.dumps, records)))
    (folder / "answers.txt").write_text("0\n" * 1000)
    (folder / "replies.jsonl").write_text('{"id": 7, "prediction": "The answer is: 0"}\n')


@pytest.mark.parametrize("rows", ["few", pytest.param("as-written", marks=pytest.mark.slow)])
def test_every_command_has_examples_and_they_run(
    rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the commands, so that `verify` and `audit` find what `make` made; experiments
    run in this process.
    """
    monkeypatch.setattr(engines, "start", lambda name, **options: HereEngine())
    files_to_score(tmp_path)
    for command in COMMANDS:
        text = in_process([*command.split(), "--help"], tmp_path).output
        lines = re.findall(r"^\s+\$ (.+)$", text, re.M)
        assert len(lines) >= 2 or command == "collect serve", command  # which ends with Ctrl-C
        assert "--json" in text, command
        for line in lines:
            line = with_fewer_rows(line) if rows == "few" else line
            result = run_line(line, tmp_path)
            assert result.status == 0, (line, result.errors)
            assert result.output.strip(), line


def json_lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_json_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "d")
    for words in (
        ["list"],
        ["list", "babi/mix-T7"],
        ["list", "bilstm"],
        ["show", "ctl/A", "-n", "2"],
        ["apply", "ctl/A", "a 3", "b a 1"],
        ["make", "ctl/A", "-o", out, "--set", "splits={train: {n: 1000}, iid: {n: 100}}"],
        ["verify", out],
        ["audit", out],
        ["data"],
    ):
        assert run([*words, "--json"]) == 0, words
        assert json_lines(capsys.readouterr().out)


def test_show_prints_the_derivation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "ctl/A", "-n", "1", "--split", "ood", "--start", "5"]) == 0
    text = capsys.readouterr().out
    assert "ood 5" in text
    assert "because" in text
    assert (
        run(["make", "ctl/A", "-o", str(tmp_path / "d"), "--set", "splits={train: {n: 1000}}"]) == 0
    )
    capsys.readouterr()
    assert run(["show", str(tmp_path / "d"), "-n", "2"]) == 0
    assert "train 1" in capsys.readouterr().out


def test_apply_reads_standard_input() -> None:
    script = [
        sys.executable,
        "-c",
        "from taskloom.cli import main; main()",
        "apply",
        "ctl/A",
        "--json",
    ]
    text = "\n".join(f"{f} {s}" for f in "abcdef" for s in range(8)) + "\r\n\n"
    done = subprocess.run(script, input=text, capture_output=True, text=True)
    rows = json_lines(done.stdout)
    assert len(rows) == 48
    assert set(rows[0]) == {"input", "targets", "derivation"}


def test_apply_from_python_and_command_agree(capsys: pytest.CaptureFixture[str]) -> None:
    import taskloom as tl

    assert run(["apply", "ctl/A", "c b a 3"]) == 0
    assert capsys.readouterr().out.split()[0] == tl.apply("ctl/A", "c b a 3").targets[0]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("frobnicate", "No such command"),
        ("list everything", "no list of 'everything'"),
        ("list tasks --set a=1", "--set changes a recipe; name one"),
        ("show ctl/Q", "no recipe is called 'ctl/Q'"),
        ("show ctl/A --split odd", "did you mean 'ood'"),
        ("show ctl/A --start 99999999", "--start must be below 304,096"),
        ("apply ctl/A 'a 9'", "symbols are 0 to 7"),
        ("apply ctl/A 'zz 1'", "no function 'zz'"),
        ("apply ctl/A ''", "empty"),
        ("apply ctl/A 'a 1' --tables nowhere.json", "no file nowhere.json"),
        ("apply ctl/A 'a 1' --set tables={}", "no functions are given"),
        ("make ctl/A --set nonsense=1", "unknown key 'nonsense'"),
        ("make ctl/A --workers 0", "--workers"),
        ("make ctl/A --seed x", "--seed"),
        ("make", "Missing argument"),
        ("verify nowhere", "there is no folder nowhere"),
        ("profile", "name a model, e.g. 'taskloom profile smollm2 --quick'"),
        ("profile ./nowhere --quick", "there is no model folder './nowhere'"),
        ("power --gap 0 --accuracy 0.5", "gap must be a difference other than 0"),
        ("show ctl/A --set symbols=x", "symbols: should be a whole number, not 'x'"),
        ("show ./nowhere", "there is no file or folder ./nowhere"),
        ("show /dev/null", "/dev/null is not a recipe"),
        ("runs show nowhere", "there is no folder nowhere"),
        ("audit nowhere", "no dataset folder"),
        ("data get nothing", "no resource is called 'nothing'"),
        ("data get", "taskloom data get NAME"),
        ("data frob", "taskloom data get NAME"),
        ("data get wikidata", "TASKLOOM_DATA"),
    ],
)
def test_bad_input_is_one_sentence(
    line: str,
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TASKLOOM_DATA", raising=False)
    assert run(shlex.split(line)) == 2
    said = capsys.readouterr()
    assert said.err.startswith("taskloom: ")
    assert said.err.count("\n") == 1
    assert word in said.err
    assert not said.out
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def test_a_bad_line_on_standard_input_is_named() -> None:
    done = in_process(["apply", "ctl/A"], ROOT, "a 3\nb x\n")
    assert done.status == 2
    assert "standard input, line 2" in done.errors
    assert "Traceback" not in done.errors


def test_a_closed_pipe_is_no_error() -> None:
    for line in ("show ctl/A -n 5000 --json", "list"):  # printed by us, and by Rich
        done = shell(f"taskloom {line} | head -n 1; echo ${{PIPESTATUS[0]}} >&2", ROOT)
        assert done.output.count("\n") == 1
        assert done.errors == "0\n"


def test_the_settings_of_a_learner(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "prompt-tune"]) == 0
    text = capsys.readouterr().out
    assert "first_rows" in text
    assert "5000" in text
    assert run(["list", "majority"]) == 0
    assert capsys.readouterr().out == "majority has no settings\n"
    assert run(["list", "prompt-tun"]) == 2
    assert "did you mean 'prompt-tune'?" in capsys.readouterr().err


def test_a_study_of_a_file_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "shown_study.py"
    path.write_text(
        "import taskloom as tl\n\n\n"
        '@tl.study("mine/shown", describe="What is shown")\n'
        'def shown(runs, *, split="ood"):\n    return tl.Finding("Shown")\n'
    )
    for name in (str(path), f"{path}::mine/shown"):
        assert run(["list", name]) == 0
        text = capsys.readouterr().out
        assert "What is shown" in text
        assert f"taskloom study {name} RUNS --set split=VALUE" in text
        assert "any value" in text
        assert "reproduce" not in text
    assert run(["list", f"{path}::mine/shwon"]) == 2
    assert "has no study 'mine/shwon'; did you mean 'mine/shown'?" in capsys.readouterr().err


def test_a_text_of_megabytes_is_shown_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test.jsonl").write_text(
        json.dumps({"input": "word " * 2_000_000, "target": "y" * 10**7}) + "\n"
    )
    assert run(["show", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert len(shown) < 60_000
    assert "(10,000,000 characters; --json prints all)" in " ".join(shown.split())
    assert run(["show", str(tmp_path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["input"]) == 10**7


def test_an_error_is_short_however_long_its_words_are(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["apply", "ctl/A", "z" * 10**6],
        ["show", "z" * 10**6],
        ["show", "ctl/A", "--set", "z" * 10**6 + "=1"],
    ):
        assert run(words) == 2
        assert len(capsys.readouterr().err) < 4_100


def test_a_python_file_that_is_only_the_place_of_the_output_is_not_run(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    for more in (
        [],
        ["--source", "x"],
    ):  # an option of a suite, for which the files on the line are read
        assert run(["make", "ctl/A", "-o", str(file), "--set", "splits.train.n=500", *more]) == 2
    assert not (tmp_path / "ran").exists()


def test_suites_are_imported_for_their_options_and_not_for_ours() -> None:
    hints = get_type_hints(dataset.make, include_extras=True)
    own = ["make", "ctl/A", "-o", "x", "--set", "a=1", "--seed=3", "--workers", "2", "--jsonl"]
    assert not app._wants_more(hints, own)
    assert app._wants_more(hints, [*own, "--source", "x"])


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            PermissionError(
                errno.EACCES, "Permission denied", f"/a/.hf.123.{platform.node()}-456.tmp"
            ),
            "/a/hf: Permission denied",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
    ],
)
def test_an_error_of_the_system_has_a_remedy_and_the_name_that_was_given(
    error: OSError,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("taskloom.display.resource_status", fails)
    assert run(["data"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"taskloom: {sentence}; nothing that was finished is lost: ")


def test_names_of_engines_and_trackers_are_checked_where_nothing_is_left_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "recipes: [{recipe: ctl/A, set: {splits.train.n: 50}}]\nlearners: [majority]\nevaluate:"
        " [ood]\n"
    )
    line = ["run", str(file), "--store", str(tmp_path / "runs"), "--limit", "5", "--workers", "1"]
    assert run(line) == 0
    for word, sentence in (
        ("--engine", "no engine is called 'foo'"),
        ("--tracker", "there is no tracker 'foo'"),
    ):
        assert run([*line, word, "foo"]) == 2
        assert sentence in capsys.readouterr().err
    (tmp_path / "file").write_text("mine")
    assert run(["run", str(file), "--store", str(tmp_path / "file")]) == 2
    assert "is a file; a run store is a folder" in capsys.readouterr().err
    assert run(["report", str(tmp_path / "runs"), "-o", str(tmp_path)]) == 2
    assert "is a folder; name a file" in capsys.readouterr().err
