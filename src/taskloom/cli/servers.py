"""Commands that start a server: view, serve-env."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from taskloom.cli.options import Json, RecipeName, Seed, Set


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
            from taskloom.core.tables import emit

            emit({"address": address})
        else:
            typer.echo(f"Taskloom viewer: {address} (Ctrl-C ends it)")
        if open_browser:
            import webbrowser

            webbrowser.open(address)

    serve(folders or [Path()], host, port, token, ready)


def _list(folders: list[Path], as_json: bool) -> None:
    from taskloom.apps.view.folders import viewed_folders
    from taskloom.core.tables import console, emit, table

    viewed = viewed_folders(folders).every()
    if as_json:
        emit([{"kind": one.kind, "folder": one.label, "name": one.name} for one in viewed])
    elif not viewed:
        print(f"no datasets and no runs in {', '.join(map(str, folders))}")
    else:
        console().print(
            table(
                ("folder", "kind"),
                [(one.label, one.kind) for one in viewed],
                "what the viewer shows",
            )
        )


def serve_env(
    name: RecipeName,
    split: Annotated[
        str | None,
        typer.Option("--split", help="Which split; the first training split by default."),
    ] = None,
    n: Annotated[
        int | None, typer.Option("-n", help="How many examples; all by default.", min=1)
    ] = None,
    seed: Seed = None,
    set: Set = None,
    extract: Annotated[
        str, typer.Option("--extract", help="How answers are cut out of replies.")
    ] = "final",
    host: Annotated[
        str, typer.Option("--host", help="The interface; only this machine by default.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", help="0 takes a free one.", min=0, max=65535)
    ] = 8321,
    only_info: Annotated[
        bool, typer.Option("--info", help="Only print what would be served.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Serve a recipe as an environment over HTTP: POST /reset gives an example, POST /step scores
    the answer. Ctrl-C ends it.

    Web pages of other sites are refused. There is no other access control: every program that
    reaches the interface can ask. A client that names itself by "client" in each request has its
    own order of examples. No client can end the episode of another.

    \b
    Examples:
      $ taskloom serve-env babi/2 --info
      $ taskloom serve-env ctl/A --split iid -n 100 --info --json

    While it runs: curl -s localhost:8321/reset --json '{}'
    """
    from taskloom.cli.dataset import print_exported
    from taskloom.interop.env_server import EnvironmentServer, RecipeEnvironment
    from taskloom.interop.graded import open_split

    graded = open_split(
        name, split, n, seed=seed, changes=set, described=True, extract=extract, role="train"
    )
    environment = RecipeEnvironment(graded)
    sentence = (
        f"{graded.name}, split {graded.split}: {len(graded):,} examples, scored by"
        f" {graded.plan.scorer.name}"
    )
    if only_info:
        print_exported(environment.info(), sentence, as_json)
        return
    with EnvironmentServer(environment, host, port) as server:
        print_exported(
            {**environment.info(), "url": server.url},
            f"{sentence}, at {server.url} (Ctrl-C to stop)",
            as_json,
        )
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):  # the way to end it
            server.serve_forever()
