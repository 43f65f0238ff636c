"""What a command may import before it begins: start-up time, kept by names of modules instead of by
a clock.
"""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

import taskloom as tl
from taskloom.analysis import STUDIES
from taskloom.cli import run
from taskloom.core.errors import TaskloomError
from taskloom.core.registry import INDEX, Registry
from taskloom.learners import LEARNERS
from tests.processes import printed_elsewhere

ROOT = Path(__file__).parent.parent
SCRIPT: dict[str, Any] = runpy.run_path(
    str(ROOT / "scripts" / "build_index.py"), run_name="build_index"
)

IMPORTED = """
import contextlib, io, json, sys
from taskloom.cli import run

imported = {}
for line in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        status = run(line.split())
    imported[line] = [status, bool(output.getvalue()), sorted(sys.modules)]
print(json.dumps(imported))
"""

NEVER = (
    "torch",
    "transformers",
    "pandas",
    "polars",
    "scipy",
    "sklearn",
    "matplotlib",
    "nltk",
    "ray",
    "datasets",
    "lark",
)
LIST_NEVER = (
    *NEVER,
    "numpy",
    "pyarrow",
    "http.client",
    "taskloom.data",
    "taskloom.experiments",
    "taskloom.learners.pretrained",
    "taskloom.learners.scratch",
    "taskloom.papers.ctlpp",
    "taskloom.analysis.finding",
    "taskloom.suites.taskbench.language",
)
REPORT_NEVER = (
    *NEVER,
    "taskloom.data.audit",
    "taskloom.experiments.spec.cells",
    "taskloom.experiments.execute.engines",
    "taskloom.experiments.execute.worker",
    "taskloom.learners",
    "taskloom.suites.babi",
)
SHOW_NEVER = (
    *NEVER,
    "taskloom.experiments",
    "taskloom.learners.scratch",
    "taskloom.analysis",
    "taskloom.suites.babi",
    "taskloom.suites.taskbench",
)


def test_commands_import_no_more_than_they_need() -> None:
    """One process for all lines, those that need least first."""
    lines = {
        "--help": ("pydantic", *LIST_NEVER),
        "show ctl/A": SHOW_NEVER,
        "report --help": SHOW_NEVER,
        "report no-runs --json": REPORT_NEVER,
        "list": NEVER,
    }
    imported = json.loads(printed_elsewhere(IMPORTED, json.dumps(list(lines))))
    listed = json.loads(printed_elsewhere(IMPORTED, json.dumps(["list"])))
    for line, modules, never in [
        *((n, imported[n], lines[n]) for n in lines),
        ("list", listed["list"], LIST_NEVER),
    ]:
        status, printed, names = modules
        assert (status, printed) == ((2, False) if "no-runs" in line else (0, True)), line
        heavy = [n for n in names if any(n == one or n.startswith(f"{one}.") for one in never)]
        assert not heavy, f"'taskloom {line}' imports {heavy}"


def test_auditing_and_verifying_import_no_pandas(tmp_path: Path) -> None:
    """Some of Arrow's functions import it if it is installed, 0.2 CPU-s."""
    tl.make("ctl/A-independent", tmp_path, set=["splits.train.n=2000"])
    lines = [f"verify --all {tmp_path}", f"audit {tmp_path}"]
    imported = json.loads(printed_elsewhere(IMPORTED, json.dumps(lines)))
    for line in lines:
        status, printed, names = imported[line]
        assert (status, printed) == (0, True)
        assert "pandas" not in names


@pytest.mark.parametrize("registry", [LEARNERS, STUDIES], ids=lambda registry: registry.kind)
def test_the_index_is_current(registry: Registry[Any]) -> None:
    """`make index` writes it; a name that it lacks is not listed."""
    for package, folder in registry.folders():
        assert (folder / INDEX).read_text(encoding="utf-8") == SCRIPT["index"](registry, package)


@pytest.mark.parametrize("registry", [LEARNERS, STUDIES], ids=lambda registry: registry.kind)
def test_lists_are_those_of_the_things_themselves(registry: Registry[Any]) -> None:
    assert registry.descriptions() == [(thing.name, thing.describe) for thing in registry]
    assert registry.names() == [thing.name for thing in registry]


def test_a_name_of_the_index_belongs_to_its_module() -> None:
    """Also before that module is imported: a package that takes the name is refused at once."""
    registry: Registry[Any] = Registry("study", *STUDIES.packages, indexed=True)
    Registry.every.remove(registry)
    study = STUDIES.get("ctlpp/table1")
    with pytest.raises(
        TaskloomError,
        match=r"'ctlpp/table1' is defined twice: in taskloom\.papers.* and in mine; rename",
    ):
        registry.add("ctlpp/table1", study, "mine")
    registry.add("ctlpp/table1", study, STUDIES.origin("ctlpp/table1"))
    registry.add("mine/table1", study, "mine")
    assert "mine/table1" in registry.names()


def test_options_of_suites_are_known_behind_those_of_the_program(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["--verbose", "make", "--help"]) == 0
    assert "--source" in capsys.readouterr().out
    assert run(["--help", "make"]) == 0
    assert "doctor" in capsys.readouterr().out
