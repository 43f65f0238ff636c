"""Serving the viewer: on the loopback interface without a token, elsewhere with one."""

from __future__ import annotations

import importlib
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from taskloom.apps.view.folders import viewed_folders
from taskloom.core import listener
from taskloom.core.errors import MissingExtra
from taskloom.core.listener import address, is_loopback
from taskloom.core.registry import SUITES

if TYPE_CHECKING:
    from taskloom.apps.view.state import ViewerState

PORT = 8640
"""Where the viewer is first looked for; the next free one is taken where another program has it."""

TRIED = 20
"""Ports that are tried from there on."""


def serve(
    folders: Sequence[str | Path],
    host: str = "127.0.0.1",
    port: int | None = None,
    token: bool = False,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve the viewer until it is interrupted.

    Args:
        folders: What may be viewed.
        host: The interface to listen on. Other than the loopback interface, a new token is part of
            the address.
        port: Where to listen; 0 for any free port, None for the usual one or the next free.
        token: Ask for a token on the loopback interface, too: other users of this machine can reach
            it.
        ready: Called with the address before the first request is answered.
    """
    try:
        import jinja2
        import starlette
        import uvicorn

        del jinja2, starlette
    except ImportError as error:
        raise MissingExtra("the viewer", error.name or "starlette", "viewer") from error
    from taskloom.apps.view.application import application

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
        pass  # the way to end it
    finally:
        app.state.viewer.close()
        listening.close()


def warm_up(state: ViewerState) -> None:
    """Pay for what the first page would wait for: templates, libraries that are imported late, the
    process of the suites.
    """
    import pyarrow as pa

    from taskloom.apps.view.page_templates import environment

    pa.array([0])  # imports pandas where it is installed
    importlib.import_module("scipy.special")
    templates = environment()
    for name in templates.list_templates():
        templates.get_template(name)
    SUITES.names()
    state.pictures.start()


def listen(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens on a port, or on the usual one or the next free."""
    return listener.listen(host, range(PORT, PORT + TRIED) if port is None else [port])
