"""YAML that people write: no value is lost in silence, and every fault has its place."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from taskloom.cli.app import run
from taskloom.core.errors import RecipeError
from taskloom.experiments.files import DUMPER
from taskloom.recipe.yaml_files import YamlError, load, parse

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS, inner, max_size=3)
)


@given(VALUES)
def test_what_yaml_writes_is_read_as_yaml_reads_it(value: Any) -> None:
    text = yaml.dump(
        value, Dumper=DUMPER, allow_unicode=True
    )  # as stores write it; PyYAML's other writer loses \x85
    assert parse(text) == yaml.safe_load(text) == value


@given(st.dictionaries(st.integers(0, 9).map(str), st.integers(), min_size=1), st.data())
def test_a_key_given_twice_is_refused_wherever_it_stands(
    table: dict[str, int], data: st.DataObject
) -> None:
    lines = [f"{json.dumps(k)}: {v}" for k, v in table.items()]
    again = data.draw(st.sampled_from(sorted(table)))
    place = data.draw(st.integers(0, len(lines)))
    lines.insert(place, f"{json.dumps(again)}: 0")
    first, second = (i for i, line in enumerate(lines) if line.startswith(json.dumps(again)))
    text = "a:\n- deep:\n" + "".join(f"    {line}\n" for line in lines)
    with pytest.raises(YamlError) as caught:
        parse(text)
    assert caught.value.line == second + 3
    assert str(caught.value) == f"gives '{again}' twice, first in line {first + 3}; keep one"


@pytest.mark.parametrize(
    "text",
    ["{a: 1, a: 2}", "{1: a, 0x1: b}", "{yes: a, true: b}", "{1: a, true: b}", "{~: 1, null: 2}"],
)
def test_keys_are_equal_when_their_values_are(text: str) -> None:
    with pytest.raises(YamlError, match=r"gives .* twice; keep one"):
        parse(text)
    assert parse("{1: a, '1': b}") == {1: "a", "1": "b"}


def test_merged_keys_may_be_changed() -> None:
    """Also where a mapping that merges another is itself merged, in whatever order they are put
    together.
    """
    text = (
        "base: &b {x: 1, y: 1}\ndeep: {in: &d {<<: *b, x: 2}}\ntop: {<<: *d, y: 3}\nlist: &l [1,"
        " *b, *b]\nagain: *l\n"
    )
    found = parse(text)
    assert found == yaml.safe_load(text)
    assert found["top"] == {"x": 2, "y": 3}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", r"f.yaml:\d is not YAML: "),
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3 gives 'a' twice, first in line 1; keep one$"),
        ("a: \x07", "f.yaml is not YAML: "),
        ("[" * 600, "f.yaml:1 is nested too deeply"),
        ("a: " + "9" * 5000, "f.yaml contains a value that cannot be read "),
        ("a: 2026-99-99", "f.yaml contains a value that cannot be read "),
        ("[a]: 1", "f.yaml:1 is not YAML: found unhashable key"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2 is not YAML: "),
    ],
)
def test_faults_of_files_are_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "f.yaml").write_text(text)
    with pytest.raises(RecipeError, match=said):
        load(tmp_path / "f.yaml", RecipeError)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 100_000,
        "? " * 100_000,
        'b: "\\ud83d\\ude00"\na: ' + "[" * 100_000,  # libyaml does not read the first line
        "".join(f"{' ' * depth}a:\n" for depth in range(2_000)),
        "%TAG !a! b\n" * 20_000 + "--- a",
    ],
    # Older versions of pytest put the name of a test into the environment, which has a limit.
    ids=["list", "object", "items", "keys", "pair", "indented", "tags"],
)
def test_texts_that_kill_libyaml_or_take_it_minutes_are_refused(text: str, tmp_path: Path) -> None:
    """In a process of its own: without the check it dies of SIGSEGV."""
    (tmp_path / "config.yaml").write_text(text)
    code = (
        "import sys; from pathlib import Path; from taskloom.recipe.yaml_files import YamlError,"
        " parse\ntry: parse(Path(sys.argv[1]).read_text())\nexcept YamlError as e: print(e)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "config.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"nested too deeply; at most 100 levels|more than 100 lines", done.stdout)


def test_a_store_with_a_deeply_nested_configuration_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "e.yaml").write_text(
        "recipes: [{recipe: ctl/A-independent, set: {splits: {train: {n: 300}, iid: {n: 40}}}}]\n"
        "learners: [majority]\n"
    )
    assert run(["run", str(tmp_path / "e.yaml"), "--store", str(tmp_path / "runs")]) == 0
    [config] = (tmp_path / "runs").glob("??/*/config.yaml")
    config.write_text("[" * 100_000)
    command = [sys.executable, "-m", "taskloom", "verify", str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode in (1, 2), done.stderr  # not killed by a signal
    assert "nested too deeply" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    # Scores do not come from that file, so they are shown.
    capsys.readouterr()
    assert run(["runs", "show", str(tmp_path / "runs"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_a_file_that_is_too_large_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("# " + "x" * 30_000_000 + "\nsuite: ctl\n")
    start = time.process_time()
    with pytest.raises(RecipeError, match=r"f.yaml has more than 10,000,000 bytes"):
        load(tmp_path / "f.yaml", RecipeError)
    assert time.process_time() - start < 2


def test_a_list_of_a_million_numbers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("suite: ctl\ntable: [" + "1, " * 1_500_000 + "1]")
    start = time.process_time()
    with pytest.raises(RecipeError, match=r"f.yaml has more than 500,000 values"):
        load(tmp_path / "f.yaml", RecipeError)
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("text", "value"),
    [('["\\ud83d\\ude00", 1]', ["😀", 1]), ("a: |\n  \tb\n", {"a": "\tb\n"})],
)
def test_what_libyaml_refuses_and_pyyaml_reads_is_read(text: str, value: object) -> None:
    assert parse(text) == value


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_bytes(b"a: \xff")
    with pytest.raises(RecipeError, match=r"f.yaml is not UTF-8 text \(byte 3\); save it as UTF-8"):
        load(tmp_path / "f.yaml", RecipeError)


RECIPE = "extends: ctl/A\nsplits:\n  train: {n: 5}\n  iid: {n: 5}\n  train: {n: 7}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "r.yaml"], "r.yaml:5 gives 'train' twice, first in line 3; keep one"),
        (["show", "child.yaml"], "r.yaml:5 gives 'train' twice, first in line 3; keep one"),
        (["run", "e.yaml"], "e.yaml:3 gives 'seeds' twice, first in line 2; keep one"),
        (["run", "block.yaml"], "block.yaml:2 gives 'steps' twice; keep one"),
        (["run", "names.yaml"], "r.yaml:5 gives 'train' twice, first in line 3; keep one"),
        (["apply", "ctl/A", "a 1", "--tables", "t.json"], "t.json:1 gives 'a' twice; keep one"),
        (
            ["show", "ctl/A", "--set", "splits={x: 1, x: 2}"],
            "--set splits={x: 1, x: 2}: the value gives 'x' twice; keep one",
        ),
    ],
)
def test_commands_refuse_a_key_given_twice(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {
        "r.yaml": RECIPE,
        "child.yaml": "extends: r.yaml\n",
        "e.yaml": "recipes: [ctl/A]\nseeds: 1\nseeds: 2\nlearners: [majority]\n",
        "block.yaml": "recipes: [ctl/A]\nlearners: [{learner: bilstm, steps: 1, steps: 2}]\n",
        "names.yaml": "recipes: [r.yaml]\nlearners: [majority]\n",
        "t.json": '{"a": [0, 1], "a": [1, 0]}',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert run(words) == 2
    heard = capsys.readouterr()
    assert said in heard.err
    assert heard.err.count("\n") == 1
    assert not heard.out
    assert {p.name for p in tmp_path.iterdir()} == set(files)


def bomb(levels: int = 9) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, levels)]
    return "\n".join(lines)


def test_aliases_that_stand_for_a_billion_values_are_refused_early() -> None:
    start = time.process_time()
    with pytest.raises(YamlError, match="has aliases that expand to more than 500,000 values"):
        parse(bomb())
    assert time.process_time() - start < 5
    assert len(parse(bomb(3))) == 3
    with pytest.raises(YamlError, match="contains itself"):
        parse("a: &a [1, *a]")
    assert parse("a: &a [1, 2]\nb: [*a, *a]\nc: []") == {
        "a": [1, 2],
        "b": [[1, 2], [1, 2]],
        "c": [],
    }


def test_errors_do_not_echo_what_is_huge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "v.yaml").write_text("[" + "1, " * 3_000 + "1]")
    huge = f"@{tmp_path / 'v.yaml'}"
    for change in (
        f"max_length={huge}",
        f"described={huge}",
        f"splits.train.n={huge}",
        f"{'x' * 10**6}=1",
    ):
        assert run(["show", "ctl/A", "--set", change]) == 2
        assert len(capsys.readouterr().err) < 5000, change[:30]


def test_pairs_of_surrogates_are_one_character_and_half_of_one_is_refused() -> None:
    assert parse(r'["\ud83d\ude00", "a"]') == ["😀", "a"]
    with pytest.raises(YamlError, match="half of a surrogate pair"):
        parse(r'["\ud83d"]')


@pytest.mark.parametrize("text", ["!!omap a", "!!set .nan", "!!pairs a", "!!int ''", "!!bool x"])
def test_a_value_that_its_tag_does_not_fit_is_one_sentence(text: str) -> None:
    with pytest.raises(YamlError):
        parse(text)
