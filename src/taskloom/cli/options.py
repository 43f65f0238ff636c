"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def complete_recipes(typed: str) -> list[str]:
    """Return the recipes that begin with what was typed, for the shell's completion."""
    from taskloom.recipe.recipe import names

    return [name for name in names() if name.startswith(typed)]


def complete_things(typed: str) -> list[str]:
    """Return everything that `taskloom list` knows and that begins with what was typed."""
    from taskloom.cli.listing import known_names

    return [name for name in known_names() if name.startswith(typed)]


Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "--changes", metavar="KEY=VALUE", help="Change a recipe field; part of the digest."
    ),
]


Seed = Annotated[
    int | None, typer.Option("--seed", help="Seed of the samples; the recipe's own by default.")
]


RecipeName = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help="A name (taskloom list recipes), a .yaml recipe, or a .py task file.",
        autocompletion=complete_recipes,
    ),
]


Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A dataset's folder.")]


TaskFile = Annotated[
    Path | None,
    typer.Option(
        "--task",
        metavar="FILE",
        help=(
            "The file that the dataset was made with: the Python file of its task (one that only"
            " the dataset names is never run), or a domain of your own."
        ),
    ),
]
