"""State shared by the pages of a viewer, including audits of datasets. Audits run in separate
processes, one at a time, and their certificates are cached. A certificate is valid only for the
audited files. Its key includes their sizes and times, because the digest in a manifest may be that
of another dataset.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import Any

from starlette.requests import Request

import taskloom
from taskloom.apps.view.datasets import ViewedDataset
from taskloom.apps.view.folders import ViewedFolder, ViewedFolders
from taskloom.apps.view.stores import ViewedStore
from taskloom.apps.view.suite_process import SuiteProcess
from taskloom.core.child_process import ChildProcess, end_with_parent
from taskloom.core.errors import InputError, TaskloomError
from taskloom.core.files import atomic, cache_folder, json_digest
from taskloom.data.dataset import MANIFEST

PATIENCE = 1_800.0
"""Timeout of an audit in seconds. An audit of a million examples takes some minutes."""

LARGEST = 50 * 2**20
"""Maximum bytes of a certificate."""


@dataclass(frozen=True, slots=True)
class AuditState:
    """State of a dataset's audit.

    Attributes:
        state: `none` (not requested), `running`, `done` or `failed`.
        certificate: The result of `Audit.to_dict`, once the audit is done.
        problem: The reason, if it failed.
    """

    state: str
    certificate: dict[str, Any] | None = None
    problem: str = ""


class AuditJobs:
    """The audits of one viewer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the keys of running audits
        self._one = threading.Lock()  # held by the audit that runs; the others wait for it
        self._running: set[str] = set()
        self._problems: dict[str, str] = {}
        self._process: ChildProcess | None = None
        self._closed = False

    def state(self, data: ViewedDataset) -> AuditState:
        """State of a dataset's audit."""
        key = audit_key(data)
        with self._lock:
            if key in self._running:
                return AuditState("running")
        certificate = _read(_place(key))
        if certificate is not None:
            return AuditState("done", certificate)
        problem = self._problems.get(key, "")
        return AuditState("failed", problem=problem) if problem else AuditState("none")

    def start(self, data: ViewedDataset) -> None:
        """Start the audit of a dataset, unless it is running or done."""
        key = audit_key(data)
        with self._lock:
            if key in self._running or _place(key).is_file():
                return
            self._running.add(key)
            self._problems.pop(key, None)
        threading.Thread(target=self._run, args=(key, data.folder.path), daemon=True).start()

    def close(self) -> None:
        """Stop the running audit."""
        self._closed = True
        if self._process is not None:
            self._process.kill()

    def _run(self, key: str, folder: Path) -> None:
        try:
            with self._one:
                problem = self._audit(key, folder)
        finally:
            with self._lock:
                self._running.discard(key)
        if problem:
            self._problems[key] = problem

    def _audit(self, key: str, folder: Path) -> str:
        """Run the process and save its certificate. Returns the problem, or an empty text."""
        if self._closed:
            return "the viewer has ended"
        child = ChildProcess("taskloom.apps.view.state", str(folder), stdout=PIPE, stderr=PIPE)
        self._process = child
        output = child.communicate(PATIENCE)
        if output is None:
            return (
                f"the audit took longer than {PATIENCE / 60:.0f} minutes; run 'taskloom audit'"
                " instead"
            )
        out, errors = output
        if child.end() or len(out) > LARGEST:
            lines = errors.decode("utf-8", "replace").strip().splitlines()
            last = lines[-1] if lines else "it was ended by the system"
            return last[:600]
        with atomic(_place(key)) as beside:
            beside.write_bytes(out)
        return ""


def main() -> None:
    """Audit the folder that the command line names, and print its certificate."""
    from taskloom.data.audit import audit

    end_with_parent()  # do not keep running for half an hour after the viewer has ended
    with suppress(AttributeError, OSError):  # not on Windows
        os.nice(10)
    try:
        result = audit(sys.argv[1])
    except TaskloomError as error:
        sys.exit(str(error))
    certificate = {
        **result.to_dict(),
        "failed": result.failed,
        "misplaced": [one.split for one in result.misplaced],
    }
    print(json.dumps(certificate))


def audit_key(data: ViewedDataset) -> str:
    """Cache key of a certificate: the state of the dataset's files, and Taskloom's version."""
    files = [
        data.folder.path / MANIFEST,
        *(path for rows in data.splits.values() for path, _ in rows.files),
    ]
    marks: list[list[str | int]] = []
    for path in files:
        mark: list[str | int] = [str(path)]
        if path.is_file():
            status = path.stat()
            mark += [status.st_size, status.st_mtime_ns]
        marks.append(mark)
    return json_digest([taskloom.__version__, data.manifest["digest"], marks])


def _place(key: str) -> Path:
    return cache_folder("viewer", "audits", f"{key}.json")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        certificate = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return certificate if isinstance(certificate, dict) else None


FILTER = "trait."
"""Prefix of the names of traits in a query."""


@dataclass
class ViewerState:
    """The viewed folders, and the data that was read from them.

    Attributes:
        folders: The datasets and stores.
        pictures: The process that draws examples.
        previews: The process that previews recipes, which is separate because a preview may take
            long.
        stores: The run stores and logs that were read.
        audits: The requested audits.
    """

    folders: ViewedFolders
    pictures: SuiteProcess = field(default_factory=SuiteProcess)
    previews: SuiteProcess = field(default_factory=SuiteProcess)
    stores: dict[ViewedFolder, ViewedStore] = field(default_factory=dict)
    audits: AuditJobs = field(default_factory=AuditJobs)

    def store(self, folder: ViewedFolder) -> ViewedStore:
        """The store of a folder, with what was read from it."""
        return self.stores.setdefault(folder, ViewedStore(folder))

    def close(self) -> None:
        """Stop the processes."""
        self.pictures.close()
        self.previews.close()
        self.audits.close()


def state_of(request: Request) -> ViewerState:
    """State of the viewer that answers a request."""
    state: ViewerState = request.app.state.viewer
    return state


def dataset_folder(request: Request) -> ViewedFolder:
    """The dataset that the address names."""
    return state_of(request).folders.find(request.path_params["name"], "dataset")


def store_folder(request: Request) -> ViewedFolder:
    """The folder of the store that the address names."""
    return state_of(request).folders.find(request.path_params["name"], "store")


def viewed_store(request: Request) -> ViewedStore:
    """The store that the address names."""
    return state_of(request).store(store_folder(request))


def chosen_filters(request: Request) -> dict[str, str]:
    """The filters in the query, by trait."""
    return {
        key.removeprefix(FILTER): value.strip()
        for key, value in request.query_params.items()
        if key.startswith(FILTER) and value.strip()
    }


def whole_number(request: Request, name: str, default: int = 0) -> int:
    """Read a whole number of at least 0 from the query. Raise `InputError` for anything else."""
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise InputError(f"'{name}' must be a whole number, not '{text[:40]}'")
    return int(text)


def page_start(request: Request, listed: int, page: int) -> int:
    """Position of the first entry on the requested page, or on the last page if the query asks for
    a later one.

    Args:
        request: A request with `start` in its query, the position of any entry on the page.
        listed: Number of entries in the list.
        page: Number of entries per page.
    """
    entry = min(whole_number(request, "start"), max(0, listed - 1))
    return entry // page * page


if __name__ == "__main__":
    main()
