"""The order of the design: imports point only backwards along the flow of data, and the light stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.source_files import FILES, SOURCE, nodes_of

LAYERS = [
    {"errors"},
    {"files", "arguments", "notebook_html", "arrow", "progress_display", "serving"},
    {"example", "recipe.yaml_files", "prediction_files", "http_client"},
    {"seeding", "scoring", "offers", "extraction", "pictures"},
    {"plan", "task_splits"},
    {"dataset.shards"},
    {"descriptions"},
    {"registry"},
    {"recipe.overrides", "recipe.validation_errors", "resources", "recipe.fields"},
    {"recipe.finder"},
    {"recipe"},
    {"tasks"},
    {"suites.draws"},
    {"suites"},
    {
        "dataset.foreign",
        "dataset.dataset_dict",
        "dataset.example_sequence",
        "dataset.json_lines",
        "dataset.processes",
        "recipe.apply",
        "ray_cluster",
    },
    {"dataset.folder"},
    {"dataset.dataset"},
    {"dataset.workers"},
    {"dataset.manifest"},
    {"dataset", "audits"},
    {"learners"},
    {"experiments"},
    {"reports.charts"},
    {"reports.page"},
    {"studies"},
    {"reports", "viewer", "collect", "interop", "profiles"},
    {"verbs"},
    {"cli"},
    {"__main__"},
]
"""recipe -> suite -> dataset -> learner -> predictions -> scores -> run store -> study -> report, and what they stand on."""

LANGUAGE = "taskloom.suites.taskbench.language"
"""The one part of a suite that another may use: ZEST's programs are expressions of the same algebra."""

RANK = {name: i for i, layer in enumerate(LAYERS) for name in layer}


def part(module: str) -> str:
    """Return the layer's name of a module: `taskloom.suites.ctl.graphs` -> `suites`, `taskloom.data.shards` -> itself."""
    parts = module.split(".")[1:]
    return ".".join(parts[:2]) if ".".join(parts[:2]) in RANK else parts[0]


def name_of(path: Path) -> str:
    """Return the dotted name of a source file."""
    return ".".join(["taskloom", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")


MODULES = {name_of(path): path for path in FILES}


@cache
def imports(path: Path) -> list[tuple[str, int]]:
    """All modules of ours that a file imports, also inside functions; not those for type checkers alone."""
    nodes = nodes_of(path)
    skipped = {id(n) for node in nodes if isinstance(node, ast.If) and _for_types(node) for n in ast.walk(node)}
    found = []
    for node in nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found += [(a.name, node.lineno) for a in node.names if a.name.startswith("taskloom.")]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "taskloom":
            names = [f"{node.module}.{a.name}" for a in node.names]
            found += [(n if n in MODULES else node.module, node.lineno) for n in names]
    return [(module, line) for module, line in found if module != "taskloom"]


def _for_types(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def test_every_module_has_a_layer() -> None:
    parts = {p.relative_to(SOURCE).parts[0].removesuffix(".py") for p in FILES} - {"__init__"}
    assert parts <= set(RANK)


def forward_imports(path: Path) -> list[str]:
    """Return the imports of a file that point forwards, or from one suite to another."""
    mine = path.relative_to(SOURCE).parts
    if path.name == "__init__.py" and len(mine) < 3:
        return []  # A package's front door exports what its rooms hold.
    here = part(name_of(path))
    faults = []
    for module, line in imports(path):
        there = part(module)
        if there == here or module == here:
            if here == "suites" and not module.startswith(LANGUAGE) and module.split(".")[2] != Path(mine[1]).stem:
                faults.append(f"{path}:{line}: a suite knows nothing of another")
        elif RANK.get(there, -1) >= RANK[here]:
            faults.append(f"{path}:{line}: {here} must not import {module}")
    return faults


def test_imports_point_backwards() -> None:
    assert len(FILES) > 300
    assert [fault for path in FILES for fault in forward_imports(path)] == []


HEAVY = ("torch", "transformers", "nltk", "matplotlib", "ray", "sklearn", "datasets", "pyoxigraph", "scipy")
LIGHT = ("numpy", "pyarrow", "pydantic", "typer", "rich", "yaml", "pandas")
SMALL = "splits={train: {n: 50}}"
STEPS = {
    "import": "import taskloom as tl",
    "make": f"tl.make('ctl/A', set=['{SMALL}'])",
    "list": "from taskloom.cli import run; run(['list', '--json'])",
    "commands": f"""
for words in (
    ["make", "ctl/A", "-o", "ctl", "--set", "{SMALL}"],
    ["make", "babi/1", "-o", "babi", "--set", "{SMALL}"],
    ["verify", "ctl"],
    ["show", "ctl"],
):
    assert run(words) == 0
""",
    "collect": "import taskloom.apps.collect.web.site",
}
"""What a light process does, one after the other: each may import only more than the one before."""


@pytest.fixture(scope="module")
def imported_after(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The packages that a new process has imported after each step."""
    report = "import sys\nprint('IMPORTED', *{m.split('.')[0] for m in sys.modules})\n"
    code = "".join(f"{step}\n{report}" for step in STEPS.values())
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path_factory.mktemp("light")
    )
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("IMPORTED ")]
    return {step: set(names) for step, names in zip(STEPS, lines, strict=True)}


@pytest.mark.parametrize("step", STEPS)
def test_light_things_import_nothing_heavy(step: str, imported_after: dict[str, set[str]]) -> None:
    assert "taskloom" in imported_after[step]
    assert imported_after[step].isdisjoint(HEAVY)


def test_commands_do_without_pandas_even_where_it_is_installed(imported_after: dict[str, set[str]]) -> None:
    """Arrow imports it at the first `pa.array`: a third of the start of a command."""
    assert "pyarrow" in imported_after["commands"]
    assert "pandas" not in imported_after["commands"]


def test_importing_the_package_pulls_in_not_even_arrow(imported_after: dict[str, set[str]]) -> None:
    assert imported_after["import"].isdisjoint(LIGHT)


@cache
def run_time_imports() -> dict[str, set[str]]:
    """Return what each module of ours imports at run time, at its top or inside functions."""
    return {name: {module for module, _ in imports(path)} - {name} for name, path in MODULES.items()}


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
    """Also inside suites and packages, and counting imports inside functions: what depends on what has one direction."""
    graph = {**run_time_imports(), "taskloom": set()}  # the front door exports everything
    in_cycles = sorted(name for name in graph if name in reachable(name, graph))
    assert in_cycles == []


INDEPENDENT = {
    "taskloom.suites.ctl.second_solver": ("plan", "rows"),
    "taskloom.suites.babi.reasoner.second_solver": ("plan", "generator", "reasoner.knowledge", "reasoner.answers"),
    "taskloom.suites.taskbench.evaluation.second_solver": ("plan", "evaluation.evaluator", "evaluation.derivations"),
    "taskloom.suites.zest.synthetic.second_solver": ("synthetic.plan", "synthetic.draft", "synthetic.prose"),
}
"""Second solvers, with the parts of their suite that make the answers which they check."""


@pytest.mark.parametrize("solver", INDEPENDENT)
def test_a_second_solver_shares_no_code_with_what_makes_the_answers(solver: str) -> None:
    suite = ".".join(solver.split(".")[:3])
    used = reachable(solver, run_time_imports())
    assert solver in MODULES
    for part_of in INDEPENDENT[solver]:
        room = f"{suite}.{part_of}"
        assert any(name == room or name.startswith(f"{room}.") for name in MODULES), f"there is no {room}"
        assert not [name for name in used if name == room or name.startswith(f"{room}.")]


@pytest.mark.parametrize("package", ["studies", "experiments", "reports", "audits", "dataset"])
def test_what_serves_all_suites_names_none(package: str) -> None:
    """What a suite does in its own way it offers to the registry; studies of a paper are in folders of their own."""
    for path in (SOURCE / package).glob("*.py"):
        assert "taskloom.suites" not in path.read_text(encoding="utf-8"), path
