"""A profile of a model: profile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taskloom.cli.options import Json
from taskloom.core.errors import ParameterError, TaskloomError

if TYPE_CHECKING:
    from taskloom.analysis.profile.profile import ModelProfile


def profile(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help=(
                "smollm2, a model's folder, a hub id, or the folder of a saved learner; with"
                " --endpoint, its name there."
            ),
        ),
    ] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="24 items of each split instead of 200.")
    ] = False,
    random: Annotated[
        bool,
        typer.Option("--random", help="The same architecture with random weights, as a baseline."),
    ] = False,
    endpoint: Annotated[
        str,
        typer.Option(
            "--endpoint",
            metavar="URL",
            help="An OpenAI-compatible endpoint, up to and including /v1.",
        ),
    ] = "",
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            "--compare", metavar="A B", help="Two profiles that were written before: A beside B."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="DIR", help="Where the page goes [profile-MODEL]."),
    ] = None,
    store: Annotated[
        Path, typer.Option("--store", metavar="DIR", help="The folder of the runs.")
    ] = Path("runs"),
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, help="Runs at one time; as many as there are cores by default."
        ),
    ] = None,
    gpus: Annotated[
        float,
        typer.Option(
            "--gpus",
            min=0.01,
            help="GPUs of one run; 0.25 lets four runs of a small model share one.",
        ),
    ] = 1.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be run and what is there.")
    ] = False,
    panel: Annotated[
        bool, typer.Option("--panel", help="Only list what is asked: recipes and contrasts.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Profile a model on a fixed panel of all suites: one page that says where it holds and where
    it breaks.

    The same architecture with random weights stands beside it where the store has its profile.
    Rerun the command to resume after an interruption.

    \b
    Examples:
      $ taskloom profile --panel
      $ taskloom profile --panel --json

    \b
    With a model:
      taskloom profile smollm2 --quick
      taskloom profile smollm2 --quick --random
      taskloom profile NAME --endpoint http://127.0.0.1:8000/v1
      taskloom profile --compare profile-a profile-b -o a-beside-b
    """
    if panel:
        _list(as_json)
        return
    from taskloom.analysis.profile import profile as profiles
    from taskloom.analysis.profile.profile import read_model
    from taskloom.cli.runs import print_plan
    from taskloom.experiments import api

    if not model and compare is None:
        raise TaskloomError(
            "name a model, e.g. 'taskloom profile smollm2 --quick', or two profiles with"
            " --compare A B"
        )
    if model and compare is not None:
        raise ParameterError("compare", f"takes two profiles and no model; leave out '{model}'")
    if compare is not None:
        _write(
            [profiles.read_profile(path) for path in compare],
            out or Path("profile-comparison"),
            as_json,
            False,
        )
        return
    asked = read_model(model, random=random, endpoint=endpoint)
    if dry_run:
        print_plan(api.dry_run(profiles.planned(asked, quick), store), as_json)
        return
    result = profiles.profile(
        model,
        quick=quick,
        random=random,
        endpoint=endpoint,
        store=store,
        workers=workers,
        gpus=gpus,
        progress=True,
    )
    twin = asked.twin
    beside = profiles.gather(twin, store, quick) if twin is not None else None
    name = "".join(c if c.isalnum() or c in "-." else "-" for c in result.name).strip("-")
    folder = out or Path(f"profile-{name}")
    _write(
        [result, *([beside] if beside is not None and beside.measurements else [])],
        folder,
        as_json,
        True,
    )


def _list(as_json: bool) -> None:
    """Print the recipes of the panel and its contrasts."""
    from taskloom.analysis.profile.panel import packaged_panel
    from taskloom.cli.output import console, emit, table

    asked = packaged_panel()
    if as_json:
        emit(asked.model_dump(mode="json"))
        return
    recipes = [
        (name, one.recipe, ", ".join(one.split_names), ", ".join(one.ways))
        for name, one in asked.recipes.items()
    ]
    contrasts = [(one.axis, one.name, one.easy.key, one.hard.key) for one in asked.contrasts]
    out = console()
    out.print(
        table(f"recipes of panel {asked.version}", ("name", "recipe", "splits", "asked"), recipes),
        "",
    )
    out.print(table("contrasts", ("axis", "contrast", "easy", "hard"), contrasts))


def _write(results: list[ModelProfile], folder: Path, as_json: bool, own: bool) -> None:
    """Write the page, and the profile itself where it was made here; print what was found."""
    from taskloom.analysis.profile import profile as profiles
    from taskloom.analysis.profile import profile_page
    from taskloom.analysis.profile.panel import packaged_panel
    from taskloom.cli.output import emit

    first, *others = results
    page = profile_page.write_page(folder / profiles.PAGE, results)
    if own:
        profiles.write_profile(first, folder / profiles.PROFILE)
    contrasts = first.contrasts(packaged_panel())
    if as_json:
        emit(
            {
                "page": str(page),
                "model": first.name,
                "contrasts": [profile_page.row_of(c) for c in contrasts],
            }
        )
        return
    print(profile_page.headline(first, contrasts))
    for sentence in profile_page.sentences(first, contrasts, others):
        print(f"- {sentence}")
    print(f"the page is {page}")
