"""The viewer as an ASGI application (routes, error pages), and its server. Requests need a token
unless the server listens on the loopback interface.
"""

from __future__ import annotations

import importlib
import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from taskloom.apps.access import AccessGuard, TooLargeError, too_large
from taskloom.apps.view import comparison_pages, dataset_pages, recipe_pages, run_pages
from taskloom.apps.view.folders import VanishedError, ViewedFolders, viewed_folders
from taskloom.apps.view.page_templates import STATIC, render
from taskloom.apps.view.state import ViewerState
from taskloom.core import listener
from taskloom.core.errors import TaskloomError
from taskloom.core.listener import address, is_loopback
from taskloom.core.registry import SUITES

ASSETS = {"viewer.css": "text/css", "viewer.js": "text/javascript", "icon.svg": "image/svg+xml"}
"""Static files, with their content types."""


def application(
    folders: ViewedFolders | Sequence[Path], *, token: str | None = None, hosts: Iterable[str] = ()
) -> Starlette:
    """Build the application.

    Args:
        folders: Folders to view: datasets, run stores, or folders that contain them.
        token: Token that every request needs; None if only this machine can send requests.
        hosts: Accepted host names besides those of the loopback interface.
    """
    app = Starlette(
        routes=[
            Route("/", recipe_pages.home),
            Route("/suite", recipe_pages.suite),
            Route("/recipe", recipe_pages.recipe),
            Route("/recipe/new", recipe_pages.new),
            Route("/recipe/preview", recipe_pages.preview),
            Route("/data/{name}", dataset_pages.overview),
            Route("/data/{name}/audit", dataset_pages.audit, methods=["GET", "POST"]),
            Route("/data/{name}/rows", dataset_pages.rows),
            Route("/data/{name}/example", dataset_pages.example),
            Route("/runs/{name}", run_pages.store),
            Route("/runs/{name}/live", run_pages.live),
            Route("/runs/{name}/run", run_pages.run),
            Route("/runs/{name}/predictions", run_pages.predictions),
            Route("/runs/{name}/compare", comparison_pages.compare),
            Route("/runs/{name}/heat", comparison_pages.heat),
            Route("/static/{file}", static),
        ],
        middleware=[Middleware(AccessGuard, command="view", token=token, hosts=tuple(hosts))],
        exception_handlers={
            TaskloomError: refused,
            OSError: unreadable,
            HTTPException: failed,
            TooLargeError: too_large,
        },
    )
    app.state.viewer = ViewerState(
        folders if isinstance(folders, ViewedFolders) else ViewedFolders(folders)
    )
    return app


def static(request: Request) -> Response:
    """Serve a static file."""
    name = request.path_params["file"]
    if name not in ASSETS:
        raise HTTPException(404)
    return FileResponse(
        STATIC / name,
        media_type=ASSETS[name],
        headers={"Cache-Control": "max-age=31536000, immutable"},
    )


async def refused(request: Request, error: Exception) -> Response:
    """Show an expected error: its message, and a link back."""
    return render(
        request,
        "error.html",
        status=404 if isinstance(error, VanishedError) else 422,
        sentence=str(error),
    )


async def unreadable(request: Request, error: Exception) -> Response:
    """Show an error of the operating system, such as a missing or unreadable file."""
    assert isinstance(error, OSError)
    gone = isinstance(error, FileNotFoundError | NotADirectoryError)
    sentence = (
        f"{error.strerror or error}:"
        f" {Path(str(error.filename)).name if error.filename else 'a file'}"
    )
    return render(request, "error.html", status=404 if gone else 422, sentence=sentence)


async def failed(request: Request, error: Exception) -> Response:
    """Show that an address does not exist, or does not support a method."""
    assert isinstance(error, HTTPException)
    sentence = "there is no such page" if error.status_code == 404 else error.detail
    return render(request, "error.html", status=error.status_code, sentence=sentence)


PORT = 8640
"""Default port. If it is in use, the next free one is taken."""

TRIED = 20
"""Number of ports that are tried, beginning with the default."""


def serve(
    folders: Sequence[str | Path],
    host: str = "127.0.0.1",
    port: int | None = None,
    token: bool = False,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve the viewer until it is interrupted.

    Args:
        folders: Folders to view.
        host: The interface to listen on. Beyond the loopback interface, the address contains a new
            token.
        port: Port to listen on; 0: any free port; None: the default or the next free one.
        token: Require a token on the loopback interface, too, because other users of this machine
            can reach it.
        ready: Called with the address before the first request is answered.
    """
    import uvicorn

    viewed = viewed_folders(folders)
    secret = secrets.token_urlsafe(24) if token or not is_loopback(host) else None
    listening = listen(host, port)
    app = application(viewed, token=secret)
    threading.Thread(target=warm_up, args=(app.state.viewer,), daemon=True).start()
    ready(f"{address(host, listening)}/" + (f"?token={secret}" if secret else ""))
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, lifespan="off"
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass  # Ctrl-C is the normal way to stop it
    finally:
        app.state.viewer.close()
        listening.close()


def warm_up(state: ViewerState) -> None:
    """Prepare what the first page would otherwise wait for: templates, lazy imports, the suite
    process.
    """
    import pyarrow as pa

    from taskloom.apps.view.page_templates import environment

    pa.array([0])  # imports pandas if it is installed
    importlib.import_module("scipy.special")
    templates = environment()
    for name in templates.list_templates():
        templates.get_template(name)
    SUITES.names()
    state.pictures.start()


def listen(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens on a port. None: the default or the next free one."""
    return listener.listen(host, range(PORT, PORT + TRIED) if port is None else [port])
