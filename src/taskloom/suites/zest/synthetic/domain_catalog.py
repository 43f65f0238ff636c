"""Which domains there are: those of this package by name, a person's own by the path of its file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from taskloom.core.errors import RecipeError, nearest
from taskloom.core.files import digest
from taskloom.suites.zest.synthetic.domain import Domain
from taskloom.suites.zest.synthetic.domain_check import problems
from taskloom.suites.zest.synthetic.domain_files import FOLDER, read_domain

SUFFIXES = (".yaml", ".yml")


@cache
def domain_names() -> tuple[str, ...]:
    """List the domains of this package."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


_LOADED: dict[str, tuple[str, Domain, Path]] = {}
"""Domains from files that recipes name by path, with a digest of the file, so that the reader finds them by name again."""


def is_file_name(name: str) -> bool:
    """Return whether a recipe's `domains` names a file rather than a domain of this package."""
    return name.endswith(SUFFIXES)


def find_domain(name: str, path: Path | None = None) -> Domain:
    """Return the domain of that name, or the one in that file; `path` says where the file is, if not where its name says."""
    if is_file_name(name):
        return load_domain(path or Path(name))[1]
    if name in _LOADED:
        return _LOADED[name][1]
    if name not in domain_names():
        own = "a domain file is YAML" if name.endswith(".py") else "your own is given by its file, ./castles.yaml"
        raise RecipeError(f"there is no domain '{name}'; {nearest(name, domain_names())}; {own}")
    return _packaged(name)


@cache
def _packaged(name: str) -> Domain:
    return read_domain(FOLDER / f"{name}.yaml", ours=True)


def load_domain(path: Path) -> tuple[str, Domain]:
    """Read and check a domain file; return the digest of its bytes and the domain."""
    if not path.is_file():
        raise RecipeError(f"there is no domain file {path} (seen from the folder {Path.cwd()})")
    content = digest(path.read_bytes())
    for known, domain, _place in _LOADED.values():
        if known == content:
            return known, domain
    domain = read_domain(path)
    place = path.resolve()
    # The same file may be edited and loaded again, in a notebook for example.
    if domain.name in domain_names() or (domain.name in _LOADED and _LOADED[domain.name][2] != place):
        raise RecipeError(f"{path}: the name '{domain.name}' is taken by another domain; rename yours")
    faults = problems(domain)
    if faults:
        raise RecipeError(f"{path}: {faults[0]}" + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""))
    _LOADED[domain.name] = content, domain, place
    return content, domain
