"""Checks the versions that constraints.txt pins: `make audit-pins`, and `--offline` as part of
`make lint`.

Offline it can tell that everything that is declared is pinned, once, to one version that
pyproject.toml allows, and that no pin is older than a release that fixed one of the advisories
listed here (`FIXED_IN`). It cannot tell what was yanked or reported since. With a network pip-audit
asks for the advisories of every pinned release. `--pages ADDRESS` asks the JSON page of each
project instead, which a mirror has more often: it tells whether the pinned release was yanked, and
has the advisories of the newest release alone. What could not be asked is counted and is no pass.
Without `--offline` the installed packages are compared, too; an environment for another machine may
have more of them (CUDA libraries, for one).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent

FIXED_IN = {
    "certifi": ("2024.7.4", "CVE-2024-39689"),
    "cryptography": ("44.0.1", "CVE-2024-12797"),
    "gitpython": ("3.1.41", "CVE-2024-22190"),
    "h11": ("0.16.0", "CVE-2025-43859"),
    "idna": ("3.7", "CVE-2024-3651"),
    "jinja2": ("3.1.6", "CVE-2025-27516"),
    "nltk": ("3.9", "CVE-2024-39705"),
    "pillow": ("11.3.0", "CVE-2025-48379"),
    "protobuf": ("6.31.1", "CVE-2025-4565"),
    "pyarrow": ("14.0.1", "CVE-2023-47248"),
    "python-multipart": ("0.0.18", "CVE-2024-53981"),
    "pyyaml": ("5.4", "CVE-2020-14343"),
    "requests": ("2.32.4", "CVE-2024-47081"),
    "scikit-learn": ("1.5.0", "CVE-2024-5206"),
    "sqlparse": ("0.5.0", "CVE-2024-4340"),
    "starlette": ("0.49.1", "CVE-2025-62727"),
    "torch": ("2.6.0", "CVE-2025-32434"),
    "tqdm": ("4.66.3", "CVE-2024-34062"),
    "transformers": ("4.53.0", "CVE-2025-6638"),
    "urllib3": ("2.5.0", "CVE-2025-50181"),
    "zipp": ("3.19.1", "CVE-2024-5569"),
}
"""The first release without an advisory, and the advisory's number in the CVE list.

Written from memory in November 2026, one advisory a package, those of starlette and transformers
looked up: it keeps pins from going back behind these releases, and is no substitute for asking.
"""

OURS = {"taskloom", "pip", "setuptools", "wheel", "uv", "pip-audit"}
"""What an environment has besides dependencies: this package and installers."""


def pins(text: str) -> dict[str, str]:
    """Return the pinned version of each name; raise a `ValueError` for a line that does not pin one
    version, or pins again.
    """
    versions: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!+]+)", line)
        if match is None:
            raise ValueError(
                f"constraints.txt:{number}: {line!r} does not pin one version; write NAME==VERSION"
            )
        name = canonicalize_name(match[1])
        if name in versions:
            raise ValueError(f"constraints.txt:{number}: {name} is pinned twice")
        versions[name] = match[2]
    return versions


def declared(project: dict[str, object]) -> list[Requirement]:
    """Return what pyproject.toml asks for, extras included, without this package itself."""
    table = project["project"]
    assert isinstance(table, dict)
    texts = [
        *table["dependencies"],
        *(text for extra in table["optional-dependencies"].values() for text in extra),
    ]
    return [r for r in map(Requirement, texts) if canonicalize_name(r.name) not in OURS]


def problems(
    versions: dict[str, str], wanted: list[Requirement], installed: dict[str, str]
) -> list[str]:
    """Return what is wrong with the pins, as far as can be told without a network."""
    found = []
    for requirement in wanted:
        name = canonicalize_name(requirement.name)
        if name not in versions:
            found.append(
                f"{requirement.name} is declared in pyproject.toml and not pinned in"
                " constraints.txt"
            )
        elif not requirement.specifier.contains(versions[name], prereleases=True):
            found.append(
                f"{name}=={versions[name]} is pinned, and pyproject.toml asks for {requirement}"
            )
    for name, version in sorted(installed.items()):
        if name in OURS:
            continue
        if name not in versions:
            found.append(f"{name} {version} is installed and not pinned in constraints.txt")
        elif Version(version).public != Version(versions[name]).public:
            found.append(
                f"{name} {version} is installed, and constraints.txt pins {versions[name]}"
            )
    for name, (fixed, advisory) in FIXED_IN.items():
        if name in versions and Version(versions[name]) < Version(fixed):
            found.append(f"{name}=={versions[name]} has the advisory {advisory}, fixed in {fixed}")
    return found


def installed_versions() -> dict[str, str]:
    """Return what this environment has."""
    return {
        canonicalize_name(d.metadata["Name"]): d.version
        for d in metadata.distributions()
        if d.metadata["Name"]
    }


class NotAsked(Exception):  # noqa: N818 - what became of the audit
    """No advisory could be asked for."""


def ask_pip_audit() -> list[dict[str, Any]]:
    """Return what pip-audit says of every pin: `name`, `version` and `vulns`, or `name` and
    `skip_reason`.
    """
    options = [
        "-r",
        "constraints.txt",
        "--no-deps",
        "--disable-pip",
        "--progress-spinner=off",
        "-f",
        "json",
    ]
    command = [sys.executable, "-m", "pip_audit", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # noqa: S603 - a constant command
    if "No module named pip_audit" in done.stderr:
        raise NotAsked("pip-audit is not installed (pip install pip-audit)")
    try:
        entries: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise NotAsked(f"pip-audit could not ask its service ({last[0][:200]})") from None
    return entries


def audited(entries: list[dict[str, Any]]) -> tuple[list[str], int]:
    """Return what is wrong by pip-audit, and how many pins it knows; raise `NotAsked` where it
    knows none.
    """
    wrong = [
        f"{one['name']}=={one['version']} has the advisory {vulnerability['id']}, fixed in "
        f"{', '.join(vulnerability.get('fix_versions') or ['no release'])}"
        for one in entries
        for vulnerability in one.get("vulns", ())
    ]
    known = [one for one in entries if "skip_reason" not in one]
    if not known:
        raise NotAsked(
            "pip-audit's service knows none of the pins; --pages ADDRESS asks the pages of a mirror"
        )
    return wrong, len(known)


def read_page(address: str, name: str) -> dict[str, Any]:
    """Return the JSON page of a project."""
    with urllib.request.urlopen(f"{address.rstrip('/')}/{name}/json", timeout=60) as reply:  # noqa: S310 - checked by main
        page: dict[str, Any] = json.load(reply)
    return page


def ask_pages(
    versions: dict[str, str], read: Callable[[str], dict[str, Any]]
) -> tuple[list[str], int]:
    """Return what is wrong by the pages of all projects, and how many pins are the newest release,
    whose advisories are known.
    """
    try:
        with ThreadPoolExecutor(8) as threads:
            pages = list(threads.map(read, versions))
    except (OSError, ValueError) as error:
        raise NotAsked(f"a page could not be read ({error})") from error
    wrong, newest = [], 0
    for (name, version), page in zip(versions.items(), pages, strict=True):
        files = page["releases"].get(version)
        if not files:
            wrong.append(f"{name}=={version} is not a release (any more)")
        elif all(file.get("yanked") for file in files):
            wrong.append(
                f"{name}=={version} was yanked:"
                f" {files[0].get('yanked_reason') or 'no reason given'}"
            )
        if page["info"]["version"] == version:
            newest += 1
            advisories = [one["id"] for one in page["vulnerabilities"] if not one.get("withdrawn")]
            wrong += [f"{name}=={version} has the advisory {advisory}" for advisory in advisories]
    return wrong, newest


def main(arguments: list[str]) -> int:
    """Check the pins; return 1 where something is wrong, 2 where advisories could not be asked
    for.
    """
    parser = argparse.ArgumentParser(prog="audit_pins.py")
    parser.add_argument(
        "--offline", action="store_true", help="only what can be told without a network"
    )
    parser.add_argument(
        "--pages", metavar="ADDRESS", help="where NAME/json is the page of a project (https)"
    )
    given = parser.parse_args(arguments)
    if given.pages and not given.pages.startswith("https://"):
        parser.error("--pages: the address must begin with https://")
    try:
        versions = pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    except ValueError as error:
        print(error)
        return 1
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = problems(versions, declared(project), {} if given.offline else installed_versions())
    status = (
        f"{len(versions)} pins are whole, consistent and free of the {len(FIXED_IN)} advisories"
        " listed here"
    )
    print(*(found or [status]), sep="\n")
    if given.offline:
        return 1 if found else 0
    try:
        if given.pages:
            wrong, known = ask_pages(versions, lambda name: read_page(given.pages, name))
        else:
            wrong, known = audited(ask_pip_audit())
    except NotAsked as error:
        print(f"NOT CHECKED for advisories: {error}")
        return 1 if found else 2
    print(*wrong, f"advisories are known of {known} of {len(versions)} pins", sep="\n")
    return 1 if found or wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
