"""Finding and trying tasks: list, show, apply, solve, data. `doctor` checks the installation."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from taskloom.cli.options import (
    NOTHING,
    Json,
    RecipeName,
    Seed,
    Set,
    TaskFile,
    complete_recipes,
    complete_things,
    of_suite,
)
from taskloom.core.errors import TaskloomError


def list_(
    what: Annotated[
        str,
        typer.Argument(
            metavar="KIND|NAME",
            help=(
                "suites, recipes, tasks, learners, scorers or studies [everything]; or the name "
                "or file of one of them, to show its fields or settings."
            ),
            autocompletion=complete_things,
        ),
    ] = "",
    set: Set = None,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema",
            help=(
                "Print the JSON schema of the files of a suite, recipe or task, or of "
                "'experiment', for editors."
            ),
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """List suites, recipes, tasks, learners, scorers and studies, or show one of them by name.

    \b
    Examples:
      $ taskloom list
      $ taskloom list recipes --json
      $ taskloom list ctl
      $ taskloom list babi/1
      $ taskloom list bilstm
      $ taskloom list ctl --schema
    """
    from taskloom.cli.listing import KINDS, listing, thing

    if set and (not what or what in KINDS):
        raise TaskloomError(
            "--set changes a recipe; name one: taskloom list RECIPE --set KEY=VALUE"
        )
    if what and what not in KINDS:
        thing(what, set, as_json, schema)
    elif schema:
        raise TaskloomError(
            "--schema goes with a suite, a recipe, a task, or 'experiment': taskloom list NAME"
            " --schema"
        )
    else:
        listing(what, as_json)


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|DIR",
            help="Recipe, or folder of a dataset.",
            autocompletion=complete_recipes,
        ),
    ],
    n: Annotated[int, typer.Option("-n", help="Number of examples, at most 10,000.", min=1)] = 3,
    split: Annotated[str | None, typer.Option("--split", help="Split [the first].")] = None,
    start: Annotated[int, typer.Option("--start", help="Index of the first example.", min=0)] = 0,
    seed: Seed = None,
    set: Set = None,
    task: TaskFile = None,
    variants: Annotated[
        bool,
        typer.Option(
            "--variants",
            help=(
                "Also print the variants of each example: simpler ones, ones that change the"
                " answer, and ones that must not."
            ),
        ),
    ] = False,
    as_json: Json = False,
    given: Mapping[str, str] = NOTHING,
) -> None:
    """Print examples in readable form, with the derivation of each answer.

    \b
    Examples:
      $ taskloom show ctl/A -n 2
      $ taskloom show ctl/S --split ood --set overlap=8 --json
      $ taskloom show babi/mix-T7 -n 1 --variants
    """
    from taskloom.display import examples, views

    if given:
        views(name, given, set or (), as_json, task)
        return
    examples(name, n, split, start, seed, set or (), as_json, task, variants)


def apply(
    name: RecipeName,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT", help="Inputs [standard input, one per line]."),
    ] = None,
    set: Set = None,
    as_json: Json = False,
    given: Mapping[str, str] = NOTHING,
) -> None:
    """Answer single inputs of a task that is a function.

    \b
    Examples:
      $ taskloom apply ctl/A "c b a 3"
      $ printf 'b a 3\\na 0\\n' | taskloom apply ctl/A --json
    """
    from taskloom import display as printing
    from taskloom.recipe.overrides import option_changes, parse_changes
    from taskloom.verbs import answerer

    answer = answerer(name, {**parse_changes(set or ()), **option_changes(given, "apply")})
    for number, text in enumerate(inputs if inputs else _lines(), 1):
        try:
            result = answer(text)
        except TaskloomError as error:
            where = f"input {number}" if inputs else f"standard input, line {number}"
            raise TaskloomError(f"{where}: {error}") from error
        printing.answer(text, result, as_json)


def _lines() -> Iterator[str]:
    if sys.stdin is None:
        raise TaskloomError("standard input is closed; give inputs as arguments")
    if sys.stdin.isatty():
        typer.echo("reading inputs from the terminal, one per line; Ctrl-D ends", err=True)
    for line in sys.stdin:
        if line.strip():
            yield line.rstrip("\r\n")


def solve(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="File of questions, or - for standard input.")
    ],
    suite: Annotated[
        str, typer.Option("--suite", help="Suite whose solver to use, if several have one.")
    ] = "",
    as_json: Json = False,
    given: Mapping[str, str] = NOTHING,
) -> None:
    """Answer every question of a file, with supporting facts, and report which of the file's own
    answers are wrong or undetermined.

    \b
    Examples:
      $ printf '1 Mary went to the park.\\n2 Where is Mary?\\n' | taskloom solve -
      $ printf '1 Mary got the milk.\\n2 What is Mary carrying?\\tapple\\t1\\n' | taskloom solve - --json
    """
    from taskloom.core.registry import suite_that
    from taskloom.core.tables import emit
    from taskloom.verbs import solve as solve_file

    solver = suite_that("solve", suite).name
    report = solve_file(file, solver, **of_suite(given, "solve", solver))
    if as_json:
        emit(report.to_dict())
    else:
        typer.echo(report.text())


def data(
    action: Annotated[
        str,
        typer.Argument(metavar="status|get|build", help="status (the default), get or build."),
    ] = "status",
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="With get and build: name of the resource.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help="With build: source file, or - for stdin."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="With build: new folder [in the cache]."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List external resources: which are present, which are missing, and how to get them. Nothing
    is downloaded unless you name it.

    \b
    Examples:
      $ taskloom data
      $ taskloom data status --json
      $ W=http://www.wikidata.org; printf "<$W/entity/Q1> <$W/prop/direct/P22> <$W/entity/Q2> .\\n" | tee dump.nt
      $ taskloom data build facts --from dump.nt -o facts
    """
    from taskloom.core import resources
    from taskloom.core.tables import emit
    from taskloom.display import resource_status

    if action == "status" and name is None:
        resource_status(as_json)
    elif action == "get" and name:
        folder = resources.get(name)
        if as_json:
            emit({"name": name, "found": str(folder)})
        else:
            typer.echo(f"{name} is in {folder}")
    elif action == "build" and name and source:
        folder, built = resources.build(name, source, out)
        if as_json:
            emit({"name": name, "found": str(folder), **built})
        else:
            typer.echo(f"{name} is in {folder}: {built['summary']}; digest {built['digest']}")
    else:
        raise TaskloomError(
            "write 'taskloom data', 'taskloom data status', 'taskloom data get NAME' or 'taskloom"
            " data build NAME --from FILE'"
        )


PACKAGE = "taskloom"
SKIPPED = ("all", "dev", "docs", "browser")
"""Extras that doctor does not list, because users do not need them to run Taskloom."""


@dataclass(frozen=True, slots=True)
class DoctorLine:
    """One line of the output of doctor.

    Attributes:
        what: What was checked.
        ok: True if it is usable.
        state: Result of the check.
        remedy: Command that fixes a problem; empty if there is none.
    """

    what: str
    ok: bool
    state: str
    remedy: str = ""


def doctor(as_json: Json = False) -> None:
    """Check the installation: what is installed, what is missing and how to get it, where data and
    caches are, and whether a GPU is usable.

    \b
    Examples:
      $ taskloom doctor
      $ taskloom doctor --json
    """
    from taskloom.core.tables import console, emit, table

    lines = [*_program(), *_folders(), *_extras(), _gpu()]
    if as_json:
        emit([asdict(line) for line in lines])
        return
    rows = [("ok" if f.ok else "-", f.what, f.state, f.remedy) for f in lines]
    console().print(table(("", "what", "state", "to get it"), rows))


def _program() -> Iterator[DoctorLine]:
    import taskloom

    place = Path(str(taskloom.__file__)).parent
    yield DoctorLine("taskloom", True, f"{taskloom.__version__} in {place}")
    yield DoctorLine(
        "python", True, f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    )


def _folders() -> Iterator[DoctorLine]:
    from taskloom.core.files import cache_folder
    from taskloom.core.resources import resources

    data = os.environ.get("TASKLOOM_DATA", "")
    there = bool(data) and Path(data).is_dir()
    state = data or "TASKLOOM_DATA is not set"
    if data and not there:
        state = f"{data} is not there"
    yield DoctorLine(
        "data folder",
        there,
        state,
        "" if there else "export TASKLOOM_DATA=FOLDER, for recipes that need it",
    )
    cache = cache_folder()
    first = next(p for p in (cache, *cache.parents) if p.exists())
    writable = os.access(first, os.W_OK)
    free = shutil.disk_usage(first).free / 2**30
    remedy = "" if writable else "export TASKLOOM_CACHE=WRITABLE_FOLDER"
    yield DoctorLine(
        "cache folder",
        writable,
        f"{cache} ({free:.0f} GiB free)" if writable else f"{cache}: no right",
        remedy,
    )
    for resource in resources().values():
        path = resource.find()
        remedy = f"taskloom data get {resource.name}" if resource.fetch else "set TASKLOOM_DATA"
        if path:
            remedy = ""
        yield DoctorLine(
            f"resource {resource.name}", path is not None, str(path) if path else "missing", remedy
        )


def _extras() -> Iterator[DoctorLine]:
    wanted = requirements()
    if not wanted:
        yield DoctorLine("extras", False, "not installed as a package", "pip install taskloom")
    for extra in sorted(set(wanted) - {*SKIPPED, ""}):
        versions = {name: _version(name) for name in sorted(libraries(extra, wanted))}
        missing = [name for name, version in versions.items() if version is None]
        there = (
            ", ".join(f"{name} {version}" for name, version in versions.items())
            or "needs nothing more"
        )
        state = "missing: " + ", ".join(missing) if missing else there
        yield DoctorLine(
            f"extra {extra}",
            not missing,
            state,
            f"pip install '{PACKAGE}[{extra}]'" if missing else "",
        )


def requirements() -> dict[str, list[str]]:
    """Requirements of the package by extra. Empty if Taskloom is not installed as a package.

    In a checkout they are read from the project file, because the metadata of an editable
    installation may be older than the code.
    """
    declared = _declared(Path(__file__).parents[3] / "pyproject.toml")
    if declared:
        return declared
    try:
        lines = metadata.requires(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return {}
    by_extra: dict[str, list[str]] = {}
    for line in lines:
        named = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        by_extra.setdefault(named[1] if named else "", []).append(line.partition(";")[0].strip())
    return by_extra


def _declared(file: Path) -> dict[str, list[str]]:
    """Requirements in Taskloom's project file by extra; empty if there is no such file."""
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError):
        return {}
    if project.get("name") != PACKAGE:
        return {}
    return {"": list(project.get("dependencies", ())), **project.get("optional-dependencies", {})}


def libraries(extra: str, wanted: dict[str, list[str]]) -> set[str]:
    """Libraries of an extra, including those of the extras that it includes."""
    names: set[str] = set()
    for line in wanted.get(extra, []):
        inner = re.match(rf"{PACKAGE}\[([\w,-]+)\]", line)
        if inner:
            names |= {
                library for name in inner[1].split(",") for library in libraries(name, wanted)
            }
        elif name := re.match(r"[\w.-]+", line):
            names.add(name[0])
    return names


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _gpu() -> DoctorLine:
    """Check whether a GPU is usable, without importing torch, which would take seconds."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=10)  # noqa: S603 - a constant command
    except (OSError, subprocess.TimeoutExpired):
        return DoctorLine("GPU", False, "none (nvidia-smi is not installed); learners use the CPU")
    names = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or not names:
        return DoctorLine("GPU", False, "none reported by the driver; learners use the CPU")
    torch = _version("torch")
    if torch is None:
        return DoctorLine("GPU", False, "; ".join(names), f"pip install '{PACKAGE}[scratch]'")
    if "+cpu" in torch:
        return DoctorLine(
            "GPU",
            False,
            f"{'; '.join(names)}, but torch {torch} is built for the CPU",
            "install torch for CUDA",
        )
    return DoctorLine("GPU", True, f"{'; '.join(names)}, torch {torch}")
