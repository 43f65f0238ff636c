"""The pages of a collection project and their server. The pages are a small Starlette application
over the rules in `taskloom.apps.collect`. The server is a single process, on loopback unless
another address and a token are given.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from taskloom.apps.collect.annotation import settle_answered
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.errors import CollectError
from taskloom.apps.collect.project_file import read_project
from taskloom.core.errors import MissingExtra
from taskloom.core.files import locked
from taskloom.core.listener import address, is_loopback, listen

SHORTEST_TOKEN = 16
"""Minimum length of a token that users choose, in characters. Shorter ones could be guessed."""


def serve(
    folder: Path,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str = "",
    report: Callable[[str], None] = print,
) -> None:
    """Serve a project until it is interrupted.

    Args:
        folder: The project's folder.
        host: Address to listen on. Beyond loopback, every request needs the token.
        port: Port; 0 for any free one.
        token: Access token beyond loopback. Default: a random one.
        report: Called with each line of output.
    """
    try:
        import uvicorn

        from taskloom.apps.collect.web.site import Site, build_app
    except ImportError as error:
        raise MissingExtra("the server", error.name or "starlette", "collect") from None
    if not is_loopback(host):
        token = token or secrets.token_urlsafe(24)
        if len(token) < SHORTEST_TOKEN:
            raise CollectError(
                f"token has {len(token)} characters; choose at least {SHORTEST_TOKEN}, or none for"
                " a random one"
            )
    else:
        token = ""
    read_project(folder)  # check before writing anything to a folder that is not a project
    listener = listen(host, [port])
    try:
        with locked(folder / ".lock", patience=0.5):
            collection = Collection(folder)
            try:
                settle_answered(collection)
                app = build_app(collection, token)
                base = address(host, listener)
                site = Site(collection, token)
                for note in collection.notes:
                    report(note)
                report(f"{collection.file.name}: serving {folder} at {base}")
                report(f"your link as owner: {site.link(collection.first_owner(), base)}")
                config = uvicorn.Config(
                    app, log_level="error", access_log=False, server_header=False, lifespan="off"
                )
                with suppress(KeyboardInterrupt):
                    uvicorn.Server(config).run(sockets=[listener])
            finally:
                collection.close()
    except TimeoutError as error:
        raise CollectError(f"another server works on {folder}; stop it first") from error
    finally:
        listener.close()
