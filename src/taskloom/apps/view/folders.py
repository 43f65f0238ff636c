"""The contents of the viewed folders: datasets, run stores and logs of other tools, each with a
unique name for its address. All logs below one folder are one store, so that models whose logs are
in different subfolders can be compared.

Addresses contain these names, never paths, so that no address can lead out of the folders. Links
that lead out of the folders are not followed.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from taskloom.core.errors import DataError
from taskloom.core.files import digest, path_of
from taskloom.data.dataset import MANIFEST
from taskloom.data.foreign import is_split_csv
from taskloom.experiments.files import STORE
from taskloom.experiments.sources import runs as read_runs
from taskloom.experiments.sources.eval_logs import is_log

DEPTH = 4
"""Maximum levels of subfolders that are searched, enough for `data/suite/recipe/seed-0`."""

MOST_FOLDERS = 5_000
"""Maximum folders that are searched. A home folder given by mistake must not take minutes."""

FRESH = 2.0
"""Seconds for which the list of folders is cached."""

MOST_TABLES = 20
"""Maximum CSV files of a folder whose headers are read. Most CSV files are other tables."""

DATA_FILES = (".parquet", ".jsonl")


class VanishedError(DataError):
    """Raised if a dataset, a store or a part of one does not exist, or no longer exists."""


@dataclass(frozen=True, slots=True)
class ViewedFolder:
    """A dataset or a run store.

    Attributes:
        name: Its name in addresses.
        kind: `dataset` or `store`.
        path: Its path, links resolved.
        label: Its path as shown on pages.
        logs: The logs, if the runs were read from another tool's logs.
    """

    name: str
    kind: Literal["dataset", "store"]
    path: Path
    label: str
    logs: tuple[Path, ...] = ()

    @property
    def short(self) -> str:
        """Last two parts of its path, for titles."""
        return "/".join(self.path.parts[-2:]).lstrip("/")


class ViewedFolders:
    """The datasets and stores in the given folders, which are searched again after a few seconds.

    Args:
        roots: The folders. Logs and other files of runs are shown as stores.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = [Path(os.path.abspath(root)) for root in roots]
        self._lock = threading.Lock()
        self._known: dict[str, ViewedFolder] = {}
        self._when = -FRESH

    def every(self) -> list[ViewedFolder]:
        """Return all datasets and stores, by label."""
        with self._lock:
            if time.monotonic() - self._when >= FRESH:
                self._known = {folder.name: folder for folder in self._search()}
                self._when = time.monotonic()
            return sorted(self._known.values(), key=lambda folder: folder.label)

    def of_kind(self, kind: str) -> list[ViewedFolder]:
        """Return all datasets or all stores."""
        return [folder for folder in self.every() if folder.kind == kind]

    def find(self, name: str, kind: str) -> ViewedFolder:
        """Return the dataset or store with a name. Raise `VanishedError` if it does not exist."""
        folder = next((one for one in self.every() if one.name == name and one.kind == kind), None)
        if folder is None or not folder.path.exists():
            raise VanishedError(
                f"there is no {kind} '{name[:80]}' in the folders that are viewed; it may have been"
                " moved"
            )
        return folder

    def _search(self) -> Iterator[ViewedFolder]:
        left = [MOST_FOLDERS]  # a list, so that all recursive calls count down the same number
        named = [root for root in self.roots if root.is_file() and is_log(root)]
        if named:
            yield _viewed_logs(named)
        for root in self.roots:
            if root.is_dir():
                logs: list[Path] = []
                yield from _walk(root, root.resolve(), DEPTH, left, logs)
                if logs:
                    yield _viewed_logs(logs)
            elif root.is_file() and root not in named:
                yield _viewed(root, root.resolve(), "store")


def viewed_folders(folders: Sequence[str | Path]) -> ViewedFolders:
    """Find the datasets and stores of the given folders and files.

    Raises:
        DataError: If a folder or file does not exist, or a file cannot be read.
    """
    paths = [path_of(folder) for folder in folders]
    for path in paths:
        if path.is_file():
            read_runs(path)  # report a faulty file before the server starts
        elif not path.is_dir():
            raise DataError(
                f"there is no file or folder {path}; name folders of datasets and runs, or logs"
            )
    return ViewedFolders(paths)


def _listed(folder: Path) -> tuple[set[str], list[Path]]:
    """Names of the entries of a folder, and its subfolders in order. Both are empty if it cannot be
    read.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        inner = [Path(e.path) for e in entries if e.is_dir() and not e.name.startswith(".")]
    except OSError:
        return set(), []  # no permission, or deleted in the meantime
    return {entry.name for entry in entries}, inner


def _walk(
    folder: Path, root: Path, depth: int, left: list[int], logs: list[Path]
) -> Iterator[ViewedFolder]:
    """Yield the datasets and stores in a folder.

    Args:
        folder: The folder.
        root: The folder that links must not lead out of.
        depth: Remaining levels of subfolders to search.
        left: Number of folders that may still be opened.
        logs: List to which logs of other tools are added.
    """
    left[0] -= 1
    resolved = folder.resolve()
    if left[0] < 0 or not resolved.is_relative_to(root):
        return
    names, inner = _listed(folder)
    if not names & {MANIFEST, STORE}:
        found = [folder / name for name in sorted(names) if is_log(Path(name))]
        logs += [path for path in found if path.resolve().is_relative_to(root)]
        names -= {path.name for path in found}
    if MANIFEST in names:
        yield _viewed(folder, resolved, "dataset")
    elif STORE in names:
        yield _viewed(folder, resolved, "store")
        if "data" in names and depth:
            yield from _walk(folder / "data", root, depth - 1, left, logs)
    elif _has_examples(folder, names) or (resolved == root and _has_splits(inner)):
        yield _viewed(folder, resolved, "dataset")
    elif depth:
        for path in inner:
            yield from _walk(path, root, depth - 1, left, logs)


def _has_examples(folder: Path, names: Set[str]) -> bool:
    """True if a folder holds files of examples that Taskloom did not write. Only the first few CSV
    files are checked.
    """
    if any(name.endswith(DATA_FILES) for name in names):
        return True
    return any(
        is_split_csv(folder / name)
        for name in sorted(n for n in names if n.endswith(".csv"))[:MOST_TABLES]
    )


def _has_splits(folders: Sequence[Path]) -> bool:
    """True if folders contain Parquet files that Taskloom did not write, with one folder per split,
    as in many datasets from elsewhere.
    """
    ours = any((folder / MANIFEST).exists() or (folder / STORE).exists() for folder in folders)
    if ours:
        return False
    return any(name.endswith(".parquet") for folder in folders for name in _names(folder))


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _viewed(folder: Path, resolved: Path, kind: Literal["dataset", "store"]) -> ViewedFolder:
    slug = re.sub(r"[^A-Za-z0-9]+", "-", folder.name).strip("-")[:40]
    return ViewedFolder(
        f"{slug or kind}-{digest(os.fsencode(resolved), 4)}", kind, resolved, _label(folder)
    )


def _viewed_logs(logs: Sequence[Path]) -> ViewedFolder:
    """A store of all logs, named after the single log or after the folder that holds them all."""
    path = logs[0]
    if len(logs) > 1:
        path = Path(os.path.commonpath([log.parent for log in logs]))
    one = _viewed(path, path.resolve(), "store")
    # The same folder may also be shown as a dataset, or with other logs.
    name = f"{one.name}-logs-{digest(os.fsencode(str(sorted(logs)[0])), 4)}"
    return replace(one, name=name, logs=tuple(sorted(logs)))


def _label(folder: Path) -> str:
    """Path of a folder as shown on pages, relative to the working directory if it is below it."""
    here = Path.cwd()
    if folder.is_relative_to(here) and folder != here:
        return str(folder.relative_to(here))
    return str(folder)
