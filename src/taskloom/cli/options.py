"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from taskloom.core.errors import TaskloomError

NOTHING: Mapping[str, str] = {}
"""Default for `given`: no options of suites."""


def complete_recipes(typed: str) -> list[str]:
    """Recipes that begin with the typed text, for shell completion."""
    from taskloom.recipe.recipe import names

    return [name for name in names() if name.startswith(typed)]


def complete_things(typed: str) -> list[str]:
    """Names known to `taskloom list` that begin with the typed text, for shell completion."""
    from taskloom.cli.listing import known_names

    return [name for name in known_names() if name.startswith(typed)]


Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "--changes",
        metavar="KEY=VALUE",
        help="Change a field of the recipe; may be repeated. Changes the digest.",
    ),
]


Seed = Annotated[int | None, typer.Option("--seed", help="Random seed [the recipe's own].")]


RecipeName = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help="A name (taskloom list recipes), a .yaml recipe, or a .py task file.",
        autocompletion=complete_recipes,
    ),
]


Endpoint = Annotated[
    str,
    typer.Option(
        "--endpoint",
        metavar="URL",
        help="Address of an OpenAI-compatible endpoint, up to and including /v1.",
    ),
]


Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A dataset's folder.")]


TaskFile = Annotated[
    Path | None,
    typer.Option(
        "--task",
        metavar="FILE",
        help=(
            "File that the dataset was made with: the Python file of its task, which is never run "
            "unless you name it, or your own domain."
        ),
    ),
]


RunStore = Annotated[Path, typer.Option("--store", metavar="DIR", help="Folder of the runs.")]


Engine = Annotated[
    str, typer.Option("--engine", help="local or ray; the results do not depend on it.")
]


Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Number of parallel runs [number of cores]."),
]


OnlyPlan = Annotated[
    bool, typer.Option("--dry-run", help="Only print which runs are missing and which are present.")
]


Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="RULE",
        help="Select runs: 'iid > 0.5', 'seed=0', or a learner; may be repeated.",
    ),
]


Threshold = Annotated[
    float | None,
    typer.Option("--threshold", help="Also show the share of seeds with a score above this."),
]


def of_suite(given: Mapping[str, str], command: str, suite: str) -> Mapping[str, str]:
    """Options of a suite's `solve` or `score`, after checking that the suite has them."""
    from taskloom.core.registry import SUITES

    owner = SUITES.find(suite)
    known = (
        {option.name for option in owner.options if option.command == command} if owner else set()
    )
    for name in given:
        if name not in known:
            owners = [
                s.name
                for s in SUITES
                if any(o.name == name and o.command == command for o in s.options)
            ]
            raise TaskloomError(
                f"--{name.replace('_', '-')} is for {' and '.join(owners)}, not for {suite}"
            )
    return given
