"""Environments: serve-env."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated

import typer

from taskloom.cli.options import Json, RecipeName, Seed, Set


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
    reaches the interface can ask. Clients behind one address can name themselves by "client" in
    each request, and then have their own order of examples.

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
