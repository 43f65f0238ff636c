"""The order of the design: imports point only backwards along the flow of data, and the light stays
light.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.slow import slow_except
from tests.source_files import FILES, SOURCE, nodes_of

ROOMS = [
    {"core"},
    {"recipe"},
    {"suites"},
    {"data"},
    {"learners"},
    {"experiments"},
    {"analysis"},
    # The second ring: built on the first, and imported by nothing in it.
    {"papers", "interop", "apps"},
    {"verbs", "display"},
    {"cli"},
    {"__main__"},
]
"""Packages in the order in which data flows. Imports point backwards, so that there is no cycle of
packages.
"""

RANK = {name: i for i, room in enumerate(ROOMS) for name in room}

LANGUAGE = "taskloom.suites.taskbench.language"
"""The one part of a suite that another may use: ZEST's programs are expressions of the same
algebra.
"""


def room(module: str) -> str:
    """The package of a module: `taskloom.suites.ctl.graphs` -> `suites`."""
    return module.split(".")[1]


def name_of(path: Path) -> str:
    """Return the dotted name of a source file."""
    return ".".join(["taskloom", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(
        ".__init__"
    )


MODULES = {name_of(path): path for path in FILES}


@cache
def imports(path: Path) -> list[tuple[str, int]]:
    """All modules of ours that a file imports, also inside functions; not those for type checkers
    alone.
    """
    nodes = nodes_of(path)
    skipped = {
        id(n)
        for node in nodes
        if isinstance(node, ast.If) and _for_types(node)
        for n in ast.walk(node)
    }
    found = []
    for node in nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found += [(a.name, node.lineno) for a in node.names if a.name.startswith("taskloom.")]
        elif (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.split(".")[0] == "taskloom"
        ):
            names = [f"{node.module}.{a.name}" for a in node.names]
            found += [(n if n in MODULES else node.module, node.lineno) for n in names]
    return [(module, line) for module, line in found if module != "taskloom"]


def _for_types(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def test_every_module_has_a_room() -> None:
    rooms = {p.relative_to(SOURCE).parts[0].removesuffix(".py") for p in FILES} - {"__init__"}
    assert rooms == set(RANK)


def forward_imports(path: Path) -> list[str]:
    """Imports of a file that point forwards, or from one suite to another."""
    if path == SOURCE / "__init__.py":
        return []  # the front door exports what the rooms hold
    name = name_of(path)
    faults = []
    for module, line in imports(path):
        if room(module) != room(name):
            if RANK[room(module)] >= RANK[room(name)]:
                faults.append(f"{path}:{line}: {room(name)} must not import {module}")
        elif (
            room(name) == "suites"
            and not module.startswith(LANGUAGE)
            and _suite(module) not in ("", _suite(name))
        ):
            faults.append(f"{path}:{line}: a suite knows nothing of another")
    return faults


def _suite(module: str) -> str:
    """The suite of a module in `suites`; empty for what all suites share."""
    name = [*module.split("."), ""][2]
    return name if (SOURCE / "suites" / name).is_dir() else ""


def test_imports_point_backwards() -> None:
    assert len(FILES) > 300
    assert [fault for path in FILES for fault in forward_imports(path)] == []


HEAVY = (
    "torch",
    "transformers",
    "nltk",
    "matplotlib",
    "ray",
    "sklearn",
    "datasets",
    "pyoxigraph",
    "scipy",
)
LIGHT = ("numpy", "pyarrow", "pydantic", "typer", "rich", "yaml", "pandas")
SMALL = "splits={train: {n: 50}}"
STEPS = {
    "import": "import taskloom as tl",
    "make": f"tl.make('ctl/A', set=['{SMALL}'])",
    "list": "from taskloom.cli import run; run(['list', '--json'])",
    "commands": (
        f"""
for words in (
    ["make", "ctl/A", "-o", "ctl", "--set", "{SMALL}"],
    ["make", "babi/1", "-o", "babi", "--set", "{SMALL}"],
    ["verify", "ctl"],
    ["show", "ctl"],
):
    assert run(words) == 0
"""
    ),
    "collect": "import taskloom.apps.collect.web.site",
}
"""What a light process does, one after the other: each may import only more than the one before."""


@pytest.fixture(scope="module")
def imported_after(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The packages that a new process has imported after each step."""
    report = "import sys\nprint('IMPORTED', *{m.split('.')[0] for m in sys.modules})\n"
    code = "".join(f"{step}\n{report}" for step in STEPS.values())
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path_factory.mktemp("light"),
    )
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("IMPORTED ")]
    return {step: set(names) for step, names in zip(STEPS, lines, strict=True)}


@pytest.mark.parametrize("step", STEPS)
def test_light_things_import_nothing_heavy(step: str, imported_after: dict[str, set[str]]) -> None:
    assert "taskloom" in imported_after[step]
    assert imported_after[step].isdisjoint(HEAVY)


def test_commands_do_without_pandas_even_where_it_is_installed(
    imported_after: dict[str, set[str]],
) -> None:
    """Arrow imports it at the first `pa.array`: a third of the start of a command."""
    assert "pyarrow" in imported_after["commands"]
    assert "pandas" not in imported_after["commands"]


def test_importing_the_package_pulls_in_not_even_arrow(imported_after: dict[str, set[str]]) -> None:
    assert imported_after["import"].isdisjoint(LIGHT)


@cache
def run_time_imports() -> dict[str, set[str]]:
    """Return what each module of ours imports at run time, at its top or inside functions."""
    return {
        name: {module for module, _ in imports(path)} - {name} for name, path in MODULES.items()
    }


def reachable(start: str, graph: dict[str, set[str]]) -> set[str]:
    """Return the modules that importing `start` may import."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for module in graph.get(waiting.pop(), ()):
            if module not in seen:
                seen.add(module)
                waiting.append(module)
    return seen


def test_there_is_no_cycle_of_imports_at_run_time() -> None:
    """Also inside suites and packages, and counting imports inside functions: what depends on what
    has one direction.
    """
    graph = {**run_time_imports(), "taskloom": set()}  # the front door exports everything
    in_cycles = sorted(name for name in graph if name in reachable(name, graph))
    assert in_cycles == []


INDEPENDENT = {
    "taskloom.suites.ctl.second_solver": ("splits", "draw"),
    "taskloom.suites.babi.reasoner.second_solver": (
        "plan",
        "generator",
        "reasoner.knowledge",
        "reasoner.answers",
    ),
    "taskloom.suites.taskbench.evaluation.second_solver": (
        "plan",
        "evaluation.evaluator",
        "evaluation.derivations",
    ),
    "taskloom.suites.zest.synthetic.second_solver": (
        "synthetic.plan",
        "synthetic.draft",
        "synthetic.prose",
    ),
}
"""Second solvers, with the parts of their suite that make the answers which they check."""


@pytest.mark.parametrize("solver", INDEPENDENT)
def test_a_second_solver_shares_no_code_with_what_makes_the_answers(solver: str) -> None:
    suite = ".".join(solver.split(".")[:3])
    used = reachable(solver, run_time_imports())
    assert solver in MODULES
    for part_of in INDEPENDENT[solver]:
        maker = f"{suite}.{part_of}"
        assert any(name == maker or name.startswith(f"{maker}.") for name in MODULES), (
            f"there is no {maker}"
        )
        assert not [name for name in used if name == maker or name.startswith(f"{maker}.")]


@pytest.mark.parametrize(
    "package", ["core", "recipe", "data", "learners", "experiments", "analysis"]
)
def test_what_serves_all_suites_names_none(package: str) -> None:
    """What a suite does in its own way it offers to the registry; studies of a paper are in a
    package of their own.
    """
    for path in (SOURCE / package).rglob("*.py"):
        if (
            path.name != "registry.py"
        ):  # which finds suites in their package, whatever they are called
            assert "taskloom.suites" not in path.read_text(encoding="utf-8"), path


CORE_JOBS = """
import taskloom as tl
data = tl.make("ctl/A", changes=["splits.train.n=60", "splits.iid.n=20", "splits.ood.n=20"])
tl.audit(data)
tl.show(data, 1)
runs = tl.run(recipes=["ctl/A"], learners=["majority"], store="runs")
assert len(runs) == 1
tl.report(runs, "report.html")
from taskloom.analysis import STUDIES
assert "runs/error-traits" in STUDIES.names()
"""
"""What a researcher does without the second ring."""


SECOND_RING = ("papers", "interop", "apps", "cli")


WHOLE_RING = " ".join(SECOND_RING)


@pytest.mark.parametrize("left_out", slow_except([*SECOND_RING, WHOLE_RING], WHOLE_RING))
def test_the_package_works_without_the_second_ring_or_any_part_of_it(
    left_out: str, tmp_path: Path
) -> None:
    # With the compiled modules, because compiling them again takes two CPU-seconds.
    shutil.copytree(SOURCE, tmp_path / "taskloom")
    for part in left_out.split():
        shutil.rmtree(tmp_path / "taskloom" / part)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    listing = "from taskloom.cli import run; assert run(['list', 'studies']) == 0"
    for code in (CORE_JOBS,) if "cli" in left_out else (listing, CORE_JOBS):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
        )
        assert done.returncode == 0, done.stderr[-2000:]
