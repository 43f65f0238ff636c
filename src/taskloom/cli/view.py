"""Looking at data and runs in a browser: view."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taskloom.cli.options import Json


def view(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDER", help="Folders of datasets and runs; the working folder by default."
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            help="The interface to listen on; any but the loopback interface gets a token.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="The port [8640, or the next that is free]."),
    ] = None,
    token: Annotated[
        bool, typer.Option("--token", help="Require a token on the loopback interface, too.")
    ] = False,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the page in a browser.")
    ] = False,
    only_list: Annotated[
        bool, typer.Option("--list", help="Only list what would be shown.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Browse datasets and runs in a browser: examples with their proofs, predictions, comparisons,
    a form for recipes.

    The viewer only reads, and shows nothing outside of the folders. It listens on this machine
    alone unless --host says otherwise; then its address has a token that every request needs.
    Ctrl-C ends it.

    \b
    Examples:
      $ taskloom view my-data my-runs --list
      $ taskloom view --list --json
    """
    if only_list:
        _list(folders or [Path()], as_json)
        return
    from taskloom.apps.view.server import serve

    def ready(address: str) -> None:
        if as_json:
            from taskloom.cli.output import emit

            emit({"address": address})
        else:
            typer.echo(f"Taskloom viewer: {address} (Ctrl-C ends it)")
        if open_browser:
            import webbrowser

            webbrowser.open(address)

    serve(folders or [Path()], host, port, token, ready)


def _list(folders: list[Path], as_json: bool) -> None:
    from taskloom.apps.view.folders import viewed_folders
    from taskloom.cli.output import console, emit, table

    viewed = viewed_folders(folders).every()
    if as_json:
        emit([{"kind": one.kind, "folder": one.label, "name": one.name} for one in viewed])
    elif not viewed:
        print(f"no datasets and no runs in {', '.join(map(str, folders))}")
    else:
        console().print(
            table(
                "what the viewer shows",
                ("folder", "kind"),
                [(one.label, one.kind) for one in viewed],
            )
        )
