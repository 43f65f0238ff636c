"""The doctor command: what is installed, what is missing and how to get it, where data and caches
are, and whether a GPU is usable.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from taskloom.cli.options import Json

PACKAGE = "taskloom"
SKIPPED = ("all", "dev", "docs", "browser")
"""Extras that are not for using a part of Taskloom."""


@dataclass(frozen=True, slots=True)
class DoctorLine:
    """One line of the doctor.

    Attributes:
        what: What was looked at.
        ok: Whether it is usable as it is.
        state: What was seen.
        remedy: What to type where something is missing; empty where nothing is.
    """

    what: str
    ok: bool
    state: str
    remedy: str = ""


def doctor(as_json: Json = False) -> None:
    """Say what is installed, what is missing and how to get it, where data and caches are, and
    whether a GPU is usable.

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
    remedy = "" if writable else "export TASKLOOM_CACHE=FOLDER that can be written"
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
    """Requirements of the package by extra; empty if it is not installed as a package.

    Of a checkout the project file is read: what an editable installation wrote down may be older
    than the code.
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
    """Return the libraries of an extra, those of the extras that it names included."""
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
    """Say whether a GPU is usable, without importing torch, which would take seconds."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=10)  # noqa: S603 - a constant command
    except (OSError, subprocess.TimeoutExpired):
        return DoctorLine("GPU", False, "none (nvidia-smi is not there); learners use the CPU")
    names = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or not names:
        return DoctorLine("GPU", False, "none that the driver shows; learners use the CPU")
    torch = _version("torch")
    if torch is None:
        return DoctorLine("GPU", False, "; ".join(names), f"pip install '{PACKAGE}[scratch]'")
    if "+cpu" in torch:
        return DoctorLine(
            "GPU",
            False,
            f"{'; '.join(names)}, but torch {torch} is for the CPU",
            "install torch for CUDA",
        )
    return DoctorLine("GPU", True, f"{'; '.join(names)}, torch {torch}")
