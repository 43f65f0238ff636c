"""Checks the versions that constraints.txt pins: `make audit-pins`, and `--offline` as part of `make lint`.

Offline it can tell that everything that is declared is pinned, once, to one version that pyproject.toml allows, and that no pin is
older than a release that fixed an advisory known to the authors (`FIXED_IN`). It cannot tell what was yanked or reported since:
that is pip-audit's business, which asks PyPI's advisory service and is used where it is there and reachable. Without `--offline`
the installed packages are compared, too; an environment for another machine may have more of them (CUDA libraries, for one).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent

FIXED_IN = {
    "certifi": "2024.7.4",
    "cryptography": "44.0.1",
    "gitpython": "3.1.41",
    "h11": "0.16.0",
    "idna": "3.7",
    "jinja2": "3.1.6",
    "nltk": "3.9",
    "pillow": "11.3.0",
    "protobuf": "6.31.1",
    "pyarrow": "14.0.1",
    "python-multipart": "0.0.18",
    "pyyaml": "5.4",
    "requests": "2.32.4",
    "scikit-learn": "1.5.0",
    "sqlparse": "0.5.0",
    "starlette": "0.49.1",
    "torch": "2.6.0",
    "tqdm": "4.66.3",
    "transformers": "4.53.0",
    "urllib3": "2.5.0",
    "zipp": "3.19.1",
}
"""The first release without the advisories that the authors knew of when this was written; no substitute for a live check."""

OURS = {"taskloom", "pip", "setuptools", "wheel", "uv", "pip-audit"}
"""What an environment has besides dependencies: this package and installers."""


def pins(text: str) -> dict[str, str]:
    """Return the pinned version of each name; raise a `ValueError` for a line that does not pin one version, or pins again."""
    versions: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!+]+)", line)
        if match is None:
            raise ValueError(f"constraints.txt:{number}: {line!r} does not pin one version; write NAME==VERSION")
        name = canonicalize_name(match[1])
        if name in versions:
            raise ValueError(f"constraints.txt:{number}: {name} is pinned twice")
        versions[name] = match[2]
    return versions


def declared(project: dict[str, object]) -> list[Requirement]:
    """Return what pyproject.toml asks for, extras included, without this package itself."""
    table = project["project"]
    assert isinstance(table, dict)
    texts = [*table["dependencies"], *(text for extra in table["optional-dependencies"].values() for text in extra)]
    return [r for r in map(Requirement, texts) if canonicalize_name(r.name) not in OURS]


def problems(versions: dict[str, str], wanted: list[Requirement], installed: dict[str, str]) -> list[str]:
    """Return what is wrong with the pins, as far as can be told without a network."""
    found = []
    for requirement in wanted:
        name = canonicalize_name(requirement.name)
        if name not in versions:
            found.append(f"{requirement.name} is declared in pyproject.toml and not pinned in constraints.txt")
        elif not requirement.specifier.contains(versions[name], prereleases=True):
            found.append(f"{name}=={versions[name]} is pinned, and pyproject.toml asks for {requirement}")
    for name, version in sorted(installed.items()):
        if name in OURS:
            continue
        if name not in versions:
            found.append(f"{name} {version} is installed and not pinned in constraints.txt")
        elif Version(version).public != Version(versions[name]).public:
            found.append(f"{name} {version} is installed, and constraints.txt pins {versions[name]}")
    for name, fixed in FIXED_IN.items():
        if name in versions and Version(versions[name]) < Version(fixed):
            found.append(f"{name}=={versions[name]} has a known advisory, fixed in {fixed}")
    return found


def installed_versions() -> dict[str, str]:
    """Return what this environment has."""
    return {canonicalize_name(d.metadata["Name"]): d.version for d in metadata.distributions() if d.metadata["Name"]}


def live_audit() -> int:
    """Ask pip-audit, where it is installed and its service can be reached; else say that it was not asked."""
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "-r",
        "constraints.txt",
        "--no-deps",
        "--disable-pip",
        "--progress-spinner=off",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # noqa: S603 - a constant command
    told = done.stdout + done.stderr
    if "No module named pip_audit" in told:
        print("NOT CHECKED for advisories: pip-audit is not installed (pip install pip-audit)")
        return 0
    if done.returncode and "vulnerabilit" not in done.stdout:
        last = told.strip().splitlines()[-1][:200] if told.strip() else f"status {done.returncode}"
        print(f"NOT CHECKED for advisories: pip-audit could not ask its service ({last})")
        return 0
    print(told.strip())
    return done.returncode


def main(arguments: list[str]) -> int:
    """Check the pins; with `--offline` without a network."""
    try:
        versions = pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    except ValueError as error:
        print(error)
        return 1
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    offline = "--offline" in arguments
    found = problems(versions, declared(project), {} if offline else installed_versions())
    for problem in found:
        print(problem)
    if not found:
        print(f"{len(versions)} pins are whole, consistent and free of the advisories that are known offline")
    live = 0 if offline else live_audit()
    return 1 if found or live else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
