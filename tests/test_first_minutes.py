"""What a person tries in the first minutes, on the command line and in Python: it works, or one
sentence says what would.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import taskloom as tl
from taskloom.cli import run
from taskloom.cli.app import COMMANDS
from taskloom.cli.tasks import libraries
from taskloom.core.errors import nearest
from taskloom.core.registry import SUITES, TASKS
from taskloom.core.tables import column_widths, console, table
from taskloom.recipe.field_table import recipe_schema

SMALL = {"splits": {"train": {"n": 20}, "test": {"n": 5}}}


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert run(list(arguments)) == status
    out = capsys.readouterr()
    return out.out if status == 0 else out.err


def test_the_command_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys)
    assert "Usage: taskloom" in text
    assert all(f"  {name.split()[0]}" in text for name in COMMANDS)
    assert said(capsys, "--version") == f"taskloom {tl.__version__}\n"


def test_python_m_taskloom_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "taskloom", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"taskloom {tl.__version__}\n")


def test_completion_knows_commands_and_recipes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_TASKLOOM_COMPLETE", "complete_bash")
    for words, expected in (
        ("taskloom verif", "verify"),
        ("taskloom show babi/mix-T1", "babi/mix-T12"),
    ):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        with pytest.raises(SystemExit):
            run([])
        assert expected in capsys.readouterr().out


def test_verbose_shows_the_traceback_and_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "-v", "show", "nothing", status=2)
    assert "Traceback" in text
    assert "taskloom: took" in text
    assert "Traceback" not in said(capsys, "show", "nothing", status=2)


def test_doctor_has_one_line_for_everything(capsys: pytest.CaptureFixture[str]) -> None:
    findings = json.loads(said(capsys, "doctor", "--json"))
    names = [f["what"] for f in findings]
    assert {"taskloom", "python", "data folder", "cache folder", "GPU"} <= set(names)
    assert {"extra viewer", "extra collect", "extra lm-eval"} <= set(names)
    assert not {"extra dev", "extra docs", "extra browser"} & set(
        names
    )  # for people who change Taskloom
    assert all(f["state"] for f in findings)
    assert "python" in said(capsys, "doctor")


def test_studies_are_listed_as_people_count(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "list", "studies")
    places = [text.index(f"ctlpp/figure{n} ") for n in (1, 2, 10, 11)]
    assert places == sorted(places)


def test_a_misspelt_word_for_the_audit_is_corrected(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'taskloom audit scorers'?" in said(capsys, "audit", "scorrs", status=2)


def test_doctor_follows_extras_that_name_others() -> None:
    wanted = {"a": ["taskloom[b,c]"], "b": ["torch>=2"], "c": ["taskloom[b]", "x.y-z"]}
    assert libraries("a", wanted) == {"torch", "x.y-z"}


@pytest.mark.parametrize(
    "name", ["ctl", "babi/1", "bilstm", "exact", "examples/reverse.py", "ctl/A", "ctlpp/table1"]
)
def test_list_shows_anything_by_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "list", name)
    assert name in text or "words/reverse" in text
    data = json.loads(said(capsys, "list", name, "--json"))
    if name in ("ctl", "babi/1", "ctl/A", "examples/reverse.py"):
        fields = {field["name"]: field for field in data["fields"]}
        assert all(field["kind"] in ("world", "draw", "presentation") for field in fields.values())
        assert all("default" in field and field["describe"] for field in fields.values())
        assert "splits" in fields


def test_a_knob_is_described_by_the_task_and_not_by_a_class_of_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.py"
    head = "import taskloom as tl\n\n\n@tl.task('knobs/two', describe='Say it.')\ndef two"
    knobs = (
        "(rng: tl.Random, size: int = tl.knob(4, low=2, high=6), bare: int = tl.knob(1, low=0)) ->"
        " tl.Example:\n"
    )
    text = (
        "    '''Say it.\n\n    Args:\n        rng: Draws.\n        size: How many\n           "
        " words.\n    '''\n"
    )
    file.write_text(head + knobs + text + "    return tl.Example(str(rng.random()), 'x')\n")
    fields = {
        f["name"]: f["describe"]
        for f in json.loads(said(capsys, "list", str(file), "--json"))["fields"]
    }
    assert fields["size"] == "How many words; from 2 to 6."
    assert fields["bare"] == "A knob of the task; at least 0."
    assert fields["splits"] == "The size of each split."
    values = [line.split() for line in said(capsys, "list", str(file)).splitlines()]
    assert ["size", "world", "4", "How"] in [words[:4] for words in values], (
        "the default is not a changed value"
    )


def test_a_narrow_terminal_breaks_no_number_and_no_word() -> None:
    heads, rows = (
        ("split", "contradictions", "for example"),
        [("train", 123_456, "one two three four five"), ("iid", 1, "x")],
    )
    for width in (20, 40, 60):
        out = io.StringIO()
        with_width = type(console())(file=out, width=width)
        with_width.print(table(heads, rows))
        words = out.getvalue().split()
        assert {"123,456", "contradictions", "three"} <= set(words), width
        assert max(map(len, out.getvalue().splitlines())) <= max(width, 34)
    assert column_widths(["a", "b"], [["1"], ["2"]], 80) is None


def test_a_file_of_another_kind_gets_few_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odd.yaml").write_text("".join(f"key{i}: 1\n" for i in range(20)))
    sentence = said(capsys, "run", str(tmp_path / "odd.yaml"), status=2)
    assert "recipes: is required; learners: is required; unknown key 'key0'" in sentence
    assert sentence.endswith("; and 18 more problems\n")


def test_files_of_ones_own_are_named_by_their_own_columns_and_browsed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, head in (("mine", "input,target"), ("other", "question,answer")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test.csv").write_text(f"{head}\na,b\n")
    assert "it has: question, answer; rename them" in said(
        capsys, "show", str(tmp_path / "other"), status=2
    )
    viewed = json.loads(said(capsys, "view", str(tmp_path), "--list", "--json"))
    assert [Path(one["folder"]).name for one in viewed] == ["mine"]
    assert "no datasets and no runs in" in said(capsys, "view", str(tmp_path / "other"), "--list")


def test_a_long_input_is_continued_below_its_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(
        capsys, "show", "ctl/A", "--set", "described={level: explicit}", "-n", "1"
    ).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("  input"))
    assert lines[first + 1].startswith(" " * 11 + "4"), "the table of F goes on"
    assert max(map(len, lines)) <= 150


def test_no_two_scorers_are_described_alike(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(said(capsys, "list", "scorers", "--json"))["scorers"]
    assert len({row["describe"] for row in rows}) == len(rows)


def test_a_study_is_listed_with_what_its_settings_may_be(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = said(capsys, "list", "ctlpp/table1")
    assert "Table 1" in text
    assert "'published', 'chains', 'independent' or 'any'" in text
    assert "no study is called 'ctlpp/tabel1'; did you mean 'ctlpp/table1'" in said(
        capsys, "list", "ctlpp/tabel1", status=2
    )
    assert json.loads(said(capsys, "list", "ctlpp/figure1", "--json"))["settings"] == []


def test_the_list_of_commands_cuts_no_sentence_and_usage_lines_read_as_manuals_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "..." not in said(capsys).partition("Commands:")[2]
    usage = {name: said(capsys, *name.split(), "--help").partition("\n")[0] for name in COMMANDS}
    assert usage["apply"] == "Usage: taskloom apply [OPTIONS] RECIPE [INPUT]..."
    assert usage["study"] == "Usage: taskloom study [OPTIONS] STUDY [RUNS]"
    assert not [line for line in usage.values() if "{" in line or "[[" in line]
    assert "it goes before the command, as in 'taskloom -v make'" in said(
        capsys, "make", "-v", status=2
    )


def test_a_learner_is_listed_by_the_name_that_experiments_give_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert said(capsys, "list", "smollm2/prompt-tune") == said(capsys, "list", "prompt-tune")
    assert "no recipe is called 'smollm2/bilstm'" in said(
        capsys, "list", "smollm2/bilstm", status=2
    )


def test_list_tasks_says_where_tasks_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "minutes/double" in said(capsys, "list", "tasks")
    monkeypatch.setattr(TASKS, "_things", {})  # as in a fresh installation
    assert "taskloom list RECIPE" in said(capsys, "list", "tasks")
    assert "nothing has that name; did you mean 'bilstm'" in said(
        capsys, "list", "bilstmm", status=2
    )


@pytest.mark.parametrize("suite", [s.name for s in SUITES if s.module.startswith("taskloom.")])
def test_every_packaged_recipe_fits_the_schema_of_its_suite(suite: str) -> None:
    owner = SUITES.get(suite)
    schema = recipe_schema("suite", suite, owner.fields)
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    for path in owner.recipe_files().values():
        recipe = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert not list(check.iter_errors(recipe)), path.name
        assert list(check.iter_errors({**recipe, "misspelt": 1}))


def test_schemas_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(said(capsys, "list", "ctl/A", "--schema"))["properties"]["suite"] == {
        "const": "ctl",
        "description": "The suite of the recipe.",
    }
    assert "learners" in json.loads(said(capsys, "list", "experiment", "--schema"))["properties"]
    assert "name a suite" in said(capsys, "list", "bilstm", "--schema", status=2)
    assert "--schema goes with" in said(capsys, "list", "--schema", status=2)


def test_the_two_digests_are_named_where_they_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(
        capsys, "make", "babi/1", "-o", str(tmp_path / "d"), "--set", "splits={train: {n: 20}}"
    )
    data = tl.load(tmp_path / "d")
    assert f"content digest {data.digest}" in text
    assert f"recipe digest {data.manifest['recipe_digest']}" in text
    assert "content digest" in said(capsys, "verify", str(tmp_path / "d"))


def test_a_dataset_that_was_there_is_called_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [
        "make",
        "minutes/double",
        "-o",
        str(tmp_path / "d"),
        "--set",
        "splits={train: {n: 9}, test: {n: 3}}",
    ]
    assert "was already in" not in said(capsys, *line)
    assert "was already in" in said(capsys, *line)
    assert "was already in" not in said(capsys, *line, "--force")


def test_force_replaces_a_dataset_and_nothing_else(tmp_path: Path) -> None:
    first = tl.make("babi/1", tmp_path / "d", set=SMALL, jsonl=True)
    (tmp_path / "d" / "notes.txt").write_text("mine")
    with pytest.raises(tl.TaskloomError, match="replace it with force"):
        tl.make("babi/1", tmp_path / "d", set=SMALL, seed=1)
    second = tl.make("babi/1", tmp_path / "d", set=SMALL, seed=1, force=True)
    assert second.digest != first.digest
    assert (tmp_path / "d" / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "d" / "train.jsonl").exists()
    own = tmp_path / "own"
    own.mkdir()
    (own / "thesis.txt").write_text("years of work")
    with pytest.raises(tl.TaskloomError, match="not a Taskloom dataset"):
        tl.make("babi/1", own, set=SMALL, force=True)
    assert (own / "thesis.txt").read_text() == "years of work"


@tl.task("minutes/double", describe="Say it twice.", solve=lambda text: f"{text} {text}")
def double(rng: tl.Random, length: int = tl.knob(2, low=1, high=3)) -> tl.Example:
    word = "".join(rng.choices("abcdef", k=length + 2))
    return tl.Example(word, f"{word} {word}")


def test_python_takes_what_a_person_would_give(capsys: pytest.CaptureFixture[str]) -> None:
    from_mapping = tl.make({"extends": "babi/1", **SMALL})
    assert (
        from_mapping.digest
        == tl.make("babi/1", set={"splits.train.n": 20, "splits.test.n": 5}).digest
    )
    from_task = tl.make(double, set={"splits.train.n": 5})
    assert from_task.splits == ["train", "dev", "test"]
    assert [a.targets for a in tl.apply(double, ["ab", "c"])] == [("ab ab",), ("c c",)]
    assert tl.verify(from_mapping).ok
    assert tl.verify(from_task, every=True).ok
    assert repr(tl.audit(from_task)).startswith("<Audit of minutes/double: ")
    assert str(tl.score(from_mapping, [e.target for e in from_mapping["test"]])).startswith(
        "5 examples, mean score 100.0"
    )
    for thing in (
        from_mapping,
        from_mapping["test"],
        "babi/1",
        double,
        {"extends": "babi/1", **SMALL},
    ):
        tl.show(thing, n=1)
        assert " 0\n" in capsys.readouterr().out


def test_a_changed_row_in_memory_does_not_verify() -> None:
    data = tl.make(double, set={"splits.train.n": 5})
    tables = {**data.tables, "train": data.table("dev")}
    with pytest.raises(tl.TaskloomError, match="are not those of the manifest"):
        tl.verify(tl.Dataset(data.manifest, tables))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: tl.make(3), "a recipe must be a name, a file, a mapping"),  # type: ignore[arg-type]
        (
            lambda: tl.make("ctl/A", set={"splits": {"train": 20}}),
            "splits.train: should be a mapping, e.g. {n: …}, not 20",
        ),
        (lambda: tl.make({"suit": "babi"}), "a recipe must name one 'suite:' or one 'task:'"),
        (lambda: tl.make({3: 4}), "a recipe's keys must be names"),  # type: ignore[dict-item]
        (lambda: tl.apply(double, ["a", 3]), "input 1 is 3; an input is a text"),  # type: ignore[list-item]
        (lambda: tl.apply(double, 3), "input 0 is 3; an input is a text"),  # type: ignore[call-overload]
        (lambda: tl.show("babi/1", split="no"), "no"),
    ],
)
def test_what_cannot_be_gets_one_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(tl.TaskloomError, match=sentence):
        call()


def test_csv_is_audited(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text('input,target,length\n"a, b",b a,2\nc d,d c,2\n')
    (tmp_path / "test.csv").write_text('input,target,length\n"a, b",b a,2\ne f g,"g ""f"" e",3\n')
    data = tl.load(tmp_path)
    assert data["test"][1] == tl.Example("e f g", 'g "f" e', {"length": 3})
    assert len(tl.audit(data).leaks) == 1
    (tmp_path / "test.csv").write_text("input,input,target\na,b,c\n")
    with pytest.raises(tl.TaskloomError, match="two columns of one name"):
        tl.load(tmp_path)


SCRIPT = """
import taskloom as tl

@tl.task("main/echo", describe="Say it again.")
def echo(rng: tl.Random, length: int = tl.knob(2, low=1, high=3)) -> tl.Example:
    word = "".join(rng.choices("abcdef", k=length))
    return tl.Example(word, word)

runs = tl.run(recipes=echo, learners="majority", store="runs", limit=10)
print(len(runs), runs.table["n"].to_pylist(), sorted(runs.fields))
tl.report(runs, "report.html")
"""


def test_a_task_of_the_running_script_works_in_run_too(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout == "1 [10, 10] ['recipe.limit']\n", done.stderr
    assert (tmp_path / "report.html").is_file()


def test_part_of_a_name_finds_it_and_long_lists_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "neighbour"]) == 2
    assert "did you mean 'nearest-neighbour'?" in capsys.readouterr().err
    assert nearest("zzzz", [f"name-{i:02d}" for i in range(30)]).endswith("name-11 and 18 more")


@pytest.mark.parametrize(
    ("text", "problem"), [("", "is empty"), ("just words", "is not a mapping")]
)
def test_a_file_that_is_no_experiment_is_refused_without_words_of_python(
    text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    sentence = said(capsys, "run", str(tmp_path / "mine.yaml"), status=2)
    assert (
        f"mine.yaml {problem}; an experiment is a YAML file with 'recipes:' and 'learners:'"
        in sentence
    )
