"""Suites bring their own commands: whatever ours offer, a suite of another package or of a file can
offer too.
"""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from taskloom.cli import run
from taskloom.core import registry
from taskloom.experiments.sources.score_files import open_runs

SUITE = """
from pathlib import Path
import taskloom as tl
from taskloom.recipe import Fields

class EchoFields(Fields):
    word: str = "echo"
    table: dict[str, str] = {}
    n: int = 5

def upper(examples, fields):
    kept = [e for e in examples if e.input != "echo 0"]
    word = fields.word if fields else "?"
    return tl.Export((f"{word} {e.input}\\n".upper() for e in kept), len(examples) - len(kept), "it is the first")

class Report:
    def __init__(self, **said): self.said = said
    def to_dict(self, details=False): return {**self.said, "details": details} if details else self.said
    def text(self): return f"report {self.said}"

def solve(path, pitch="low"):
    return Report(solved=Path(path).read_text().split(), pitch=pitch)

def evaluate(gold, predictions, thresholds, tone="dull"):
    texts = [e.target for e in gold] if not isinstance(gold, Path) else gold.read_text().splitlines()
    lines = predictions.read_text().splitlines()
    return Report(right=sum(a == b for a, b in zip(texts, lines)), at=list(thresholds), tone=tone)

def read_predictions(path, examples):
    return path.read_text().split("/")[:examples]

def fetch(folder):
    (folder / "sounds").mkdir(parents=True)
    (folder / "sounds" / "a").touch()

@tl.suite("echoes", fields=EchoFields, describe="Say it again", exporters={"upper": upper}, solve=solve, evaluate=evaluate,
    options=[
        tl.Option("make", "word", "The word."),
        tl.Option("apply", "table", "Words and their echoes.", file=True),
        tl.Option("solve", "pitch", "low or high."),
        tl.Option("score", "tone", "dull or bright."),
    ],
    predictions=read_predictions,
    resources=[tl.Resource("sounds", "sounds of all kinds", ("sounds/a",), fetch=fetch)],
    function=lambda fields: lambda text: tl.Answer((fields.table.get(text, text),)),
)
def weave(fields, key):
    def rows(start, stop):
        return [tl.Example(f"{fields.word} {i}", fields.word) for i in range(start, stop)]
    return tl.Plan((tl.Split("test", fields.n, rows),))
"""


@pytest.fixture(params=["file", "folder", "entry point"])
def suite(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What stands before the name of the suite on the command line."""
    if request.param == "file":
        (tmp_path / "echo_file.py").write_text(SUITE)
        return f"{tmp_path / 'echo_file.py'}::"
    folder = tmp_path / "echo_package"
    (folder / "recipes").mkdir(parents=True)
    (folder / "__init__.py").write_text("from .suite import weave as weave\n")
    (folder / "suite.py").write_text(SUITE)
    if request.param == "folder":
        return f"{folder}::"
    monkeypatch.syspath_prepend(str(tmp_path))
    point = EntryPoint("echoes", "echo_package", "taskloom")
    monkeypatch.setattr(registry, "_loaded", None)
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [point] if group == "taskloom" else []
    )
    return ""


def output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    status = run(list(words))
    result = capsys.readouterr()
    assert status == 0, result.err
    return result.out


def test_every_offer_works_from_anywhere(
    suite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, out = f"{suite}echoes/any", tmp_path / "data"
    for home in (tmp_path / "recipes", tmp_path / "echo_package" / "recipes"):
        home.mkdir(parents=True, exist_ok=True)
        (home / "any.yaml").write_text("suite: echoes\n")
    made = json.loads(output(capsys, "make", recipe, "-o", str(out), "--word", "echo", "--json"))
    assert made["splits"]["test"]["n"] == 5
    assert "--word" in output(capsys, "make", recipe, "--help")

    file = tmp_path / "out.txt"
    text = output(
        capsys, "export", str(out), "--split", "test", "--format", "upper", "-o", str(file)
    )
    assert "4 examples" in text
    assert "(1 left out: it is the first)" in text
    assert file.read_text().splitlines()[0] == "ECHO ECHO 1"

    (tmp_path / "table.json").write_text('{"a": "b"}')
    applied = output(capsys, "apply", recipe, "a", "c", "--table", str(tmp_path / "table.json"))
    assert applied.split() == ["b", "c"]

    solved = output(
        capsys,
        "solve",
        str(tmp_path / "table.json"),
        "--suite",
        f"{suite}echoes",
        "--pitch",
        "high",
        "--json",
    )
    assert json.loads(solved)["pitch"] == "high"

    (tmp_path / "pred.txt").write_text("echo\n" * 5)
    words = [
        "score",
        f"{suite}echoes",
        "--pred",
        str(tmp_path / "pred.txt"),
        "--at",
        "50",
        "--json",
    ]
    report = json.loads(output(capsys, *words, "--gold", str(out), "--tone", "bright"))
    assert report == {"right": 5, "at": [50.0], "tone": "bright"}
    (tmp_path / "gold.txt").write_text("echo\nno\n")
    assert json.loads(output(capsys, *words, "--gold", str(tmp_path / "gold.txt")))["right"] == 1


def test_a_suite_reads_predictions_in_its_own_way(tmp_path: Path) -> None:
    (tmp_path / "echo_file.py").write_text(SUITE)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "any.yaml").write_text("suite: echoes\n")
    (tmp_path / "said.txt").write_text("echo/echo/no/echo/no")
    file = tmp_path / "mine.yaml"
    recipe = f"{tmp_path / 'echo_file.py'}::echoes/any"
    file.write_text(
        f"recipe: '{recipe}'\npredictions: [{{model: parrot, split: test, file: said.txt}}]\n"
    )
    (row,) = open_runs(file).table.to_pylist()
    assert row["score"] == 0.6


def test_a_resource_of_another_package_is_listed_and_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "echo_file.py"
    path.write_text(SUITE)
    registry.load_file(path)
    monkeypatch.setenv("TASKLOOM_CACHE", str(tmp_path / "cache"))
    listed = {r["name"]: r for r in json.loads(output(capsys, "data", "--json"))}
    assert listed["sounds"]["fetchable"]
    assert {"nltk", "babi", "wikidata", "zest"} < set(listed)
    assert "sounds is in" in output(capsys, "data", "get", "sounds")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["solve", "x", "--suite", "ctl"], "'ctl' has no 'solve'; name a suite that has one: babi"),
        (["solve", "x", "--suite", "babbi"], "no suite is called 'babbi'; did you mean 'babi'?"),
        (
            ["score", "ctl", "--gold", "g", "--pred", "p", "--mode", "official"],
            "--mode is for zest, not for ctl",
        ),
        (
            ["score", "zest", "--gold", "g", "--pred", "p", "--by", "x"],
            "--by and --linked are for other suites",
        ),
        (["make", "ctl/A", "--source", "x"], "unknown key 'source'"),
        (["make", "nowhere.py::a/b"], "there is no file nowhere.py"),
    ],
)
def test_what_a_suite_does_not_offer_is_one_sentence(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


def test_two_solvers_need_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "echo_file.py").write_text(SUITE)
    registry.load_file(tmp_path / "echo_file.py")
    assert run(["solve", str(tmp_path / "echo_file.py")]) == 2
    assert (
        "several suites have a 'solve'; name a suite that has one: babi, echoes"
        in capsys.readouterr().err
    )


def test_a_format_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody else's files may have any format that some suite knows."""
    (tmp_path / "test.jsonl").write_text(
        '{"input": "1 Mary went to the park.\\nWhere is Mary?", "target": "park"}\n'
    )
    words = ["export", str(tmp_path), "--split", "test", "-o", str(tmp_path / "x"), "--format"]
    assert run([*words, "bab"]) == 2
    assert "there is no format 'bab'; did you mean 'babi'?" in capsys.readouterr().err
    assert run([*words, "babi"]) == 0
