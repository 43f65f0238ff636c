"""What the pages of one viewer share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from starlette.requests import Request

from taskloom.apps.view.audit_jobs import AuditJobs
from taskloom.apps.view.folders import ViewedFolder, ViewedFolders
from taskloom.apps.view.stores import ViewedStore
from taskloom.apps.view.suite_process import SuiteProcess
from taskloom.core.errors import InputError

FILTER = "trait."
"""Stands before the names of traits in a query."""


@dataclass
class ViewerState:
    """The folders that are viewed, and what was read of them.

    Attributes:
        folders: The datasets and stores.
        pictures: The process that draws examples.
        previews: The process that previews recipes, apart, since a preview may take long.
        stores: What was read of run stores, by path.
        audits: The audits that were asked for.
    """

    folders: ViewedFolders
    pictures: SuiteProcess = field(default_factory=SuiteProcess)
    previews: SuiteProcess = field(default_factory=SuiteProcess)
    stores: dict[Path, ViewedStore] = field(default_factory=dict)
    audits: AuditJobs = field(default_factory=AuditJobs)

    def close(self) -> None:
        """End the processes."""
        self.pictures.close()
        self.previews.close()
        self.audits.close()


def state_of(request: Request) -> ViewerState:
    """Return the state of the viewer that answers a request."""
    state: ViewerState = request.app.state.viewer
    return state


def dataset_folder(request: Request) -> ViewedFolder:
    """Return the dataset that an address names."""
    return state_of(request).folders.find(request.path_params["name"], "dataset")


def store_folder(request: Request) -> ViewedFolder:
    """Return the store that an address names."""
    return state_of(request).folders.find(request.path_params["name"], "store")


def viewed_store(request: Request) -> ViewedStore:
    """Return what is known of the store that an address names."""
    path = store_folder(request).path
    return state_of(request).stores.setdefault(path, ViewedStore(path))


def chosen_filters(request: Request) -> dict[str, str]:
    """Return the traits that a query filters by."""
    return {
        key.removeprefix(FILTER): value.strip()
        for key, value in request.query_params.items()
        if key.startswith(FILTER) and value.strip()
    }


def whole_number(request: Request, name: str, default: int = 0) -> int:
    """Return a number of the query, 0 or more; raise an `InputError` for anything else."""
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise InputError(f"'{name}' must be a whole number, not '{text[:40]}'")
    return int(text)


def page_start(request: Request, listed: int, page: int) -> int:
    """Return the first place of the page that a query asks for, or of the last page where it asks
    for more.

    Args:
        request: With `start` in its query, any place on the page.
        listed: How many things are listed.
        page: How many of them a page has.
    """
    return min(whole_number(request, "start"), max(0, listed - 1)) // page * page
