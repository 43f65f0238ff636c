"""External resources: which are installed, which are missing, and how to get them. Nothing is
downloaded unless requested by name.

Suites declare which resources they can use. A resource is searched for in `TASKLOOM_DATA`, then in
the cache folder (`TASKLOOM_CACHE`, by default `~/.cache/taskloom`), then where its own environment
variables point.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskloom.core.errors import DataError, TaskloomError, nearest
from taskloom.core.files import cache_folder
from taskloom.core.registry import SUITES

TIMEOUT = 60.0
"""Seconds without data after which a download is aborted."""


@dataclass(frozen=True, slots=True)
class Resource:
    """External data that a suite can use.

    Attributes:
        name: Name for `taskloom data get`.
        describe: One line: what it is and which suite uses it.
        marks: Paths in a data folder (or zip files with the same names) that must all exist.
        variables: Additional environment variables. Each may name a folder in which to search for
            `marks`, without the first part of their paths.
        fetch: Downloads the resource to a folder. None if it cannot be downloaded without accepting
            an agreement.
        build: Builds the resource from a user's file in a new folder, and returns a `summary` and a
            `digest`. Used by `taskloom data build`.
    """

    name: str
    describe: str
    marks: tuple[str, ...]
    variables: tuple[str, ...] = ()
    fetch: Callable[[Path], None] | None = None
    build: Callable[[str, Path], Mapping[str, Any]] | None = None

    def find(self) -> Path | None:
        """Return the folder that contains the resource, or None."""
        for base in (os.environ.get("TASKLOOM_DATA"), str(cache_folder() / "data")):
            if base and all(_there(Path(base) / mark) for mark in self.marks):
                return Path(base) / self.marks[0].split("/")[0]
        for variable in self.variables:
            for base in filter(None, os.environ.get(variable, "").split(os.pathsep)):
                if all(_there(Path(base) / mark.partition("/")[2]) for mark in self.marks):
                    return Path(base)
        return None


def _there(path: Path) -> bool:
    return path.exists() or path.with_name(path.name + ".zip").exists()


def download(url: str, path: Path) -> None:
    """Download a file. An interrupted download resumes where it stopped."""
    # Imported here because it takes 15 ms, and only downloads need it.
    from taskloom.core.http import HttpClient, Refused, TryLater

    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    done = part.stat().st_size if part.exists() else 0
    rest = {"Range": f"bytes={done}-"} if done else {}
    try:
        with HttpClient(TIMEOUT, redirects=True).stream("GET", url, headers=rest) as answer:
            partial = answer.status_code == 206
            with part.open("ab" if partial else "wb") as file:
                for piece in answer.iter_raw():
                    file.write(piece)
    except (TryLater, Refused) as error:
        raise DataError(
            f"{url} cannot be downloaded: it {error}; rerun the command to resume"
        ) from error
    part.replace(path)


def resources() -> dict[str, Resource]:
    """Return the resources declared by suites, by name."""
    return {resource.name: resource for suite in SUITES for resource in suite.resources}


def resource(name: str) -> Resource:
    """Return the resource with that name."""
    known = resources()
    if name not in known:
        raise TaskloomError(f"no resource is called '{name}'; {nearest(name, known)}")
    return known[name]


def build(name: str, source: str, out: Path | None = None) -> tuple[Path, Mapping[str, Any]]:
    """Build a resource from a file, and return its folder and the build's summary.

    Args:
        name: A resource that can be built.
        source: File to build it from.
        out: New folder. Default: the cache folder, where the resource is found by its name.
    """
    wanted = resource(name)
    if wanted.build is None:
        known = [one.name for one in resources().values() if one.build is not None]
        raise TaskloomError(f"'{name}' is not built from a file; {nearest(name, known)}")
    folder = out or cache_folder() / "data" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder, wanted.build(source, folder)


def get(name: str) -> Path:
    """Download a resource to the cache, unless it is already available."""
    wanted = resource(name)
    folder = wanted.find()
    if folder is not None:
        return folder
    if wanted.fetch is None:
        raise DataError(
            f"'{name}' has no open download: get it from its owners, put it into a folder as"
            f" {' and '.join(wanted.marks)}, and set TASKLOOM_DATA to that folder"
        )
    wanted.fetch(cache_folder() / "data")
    folder = wanted.find()
    if folder is None:
        raise DataError(
            f"'{name}' was downloaded to {cache_folder() / 'data'} but is incomplete; remove it "
            "and try again"
        )
    return folder
