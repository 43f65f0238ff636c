"""From runs to findings: study, reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taskloom.cli.options import Json

if TYPE_CHECKING:
    from taskloom.experiments.table import Runs

Out = Annotated[
    Path | None,
    typer.Option(
        "-o", "--out", metavar="DIR", help="Write a page, the figures (SVG, PDF) and all data (CSV, JSON) there."
    ),
]
Setting = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the study; may be repeated.")
]


def study(
    name: Annotated[str, typer.Argument(metavar="STUDY", help="A name (taskloom list studies), or FILE.py::NAME.")],
    runs: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUNS", help="The folder of the runs, or scores from elsewhere; not for studies of recipes."
        ),
    ] = None,
    out: Out = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="RULE", help="Only these runs: 'iid > 0.5', 'seed=0', a learner."),
    ] = None,
    set: Setting = None,
    as_json: Json = False,
) -> None:
    """Apply a study to runs: a table, figures, and our numbers beside the published ones.

    \b
    Examples:
      $ taskloom study ctlpp/figure1 -o figure1
      $ taskloom study ctlpp/table2 --json
    """
    from taskloom.analysis import reproduction
    from taskloom.analysis.findings_folder import check_folder
    from taskloom.cli import study_output
    from taskloom.core.errors import ParameterError
    from taskloom.recipe.overrides import parse_changes

    named, settings = reproduction.find_existing(name), parse_changes(set or ())
    named.checked(settings)
    if named.from_recipes and where:
        raise ParameterError("where", f"is not for '{named.name}', which is of recipes and needs no runs")
    if out is not None:
        check_folder(out, named.name)
    source = runs if runs is None or named.from_recipes else _selected(runs, where or [])
    chosen, used, findings = reproduction.analyse(name, source, **settings)
    page = None if out is None else reproduction.write_study(chosen, findings, out, used)
    study_output.findings(findings, page, as_json)


def _selected(path: Path, rules: list[str]) -> Runs:
    """Return the runs that fit all rules; raise where rules that fit some runs each exclude each other."""
    from taskloom.core.errors import ParameterError
    from taskloom.experiments.sources.score_files import open_runs

    selected = open_runs(path).where(*rules)
    if len(rules) > 1 and not len(selected):
        raise ParameterError("where", f"leaves no run of {path}: each rule fits some, and none fits all; leave one out")
    return selected


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="STUDY", help="A table or figure of a paper. A paper alone lists its own, nothing lists all."
        ),
    ] = "",
    scale: Annotated[
        str, typer.Option("--scale", help="quick: minutes on two cores, not the paper's conditions; full: the paper's.")
    ] = "quick",
    model: Annotated[str, typer.Option("--model", help="A learner or model instead of the study's own.")] = "",
    store: Annotated[Path, typer.Option("--store", metavar="DIR", help="The folder of the runs.")] = Path("runs"),
    out: Out = None,
    engine: Annotated[str, typer.Option("--engine", help="local or ray; the results do not depend on it.")] = "local",
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Runs at one time; as many as there are cores by default.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be run and what is there.")] = False,
    set: Setting = None,
    as_json: Json = False,
) -> None:
    """Reproduce a table or figure of a paper: run what is missing, analyse it, write a page beside the published numbers.

    Rerun the command to resume after an interruption.

    \b
    Examples:
      $ taskloom reproduce
      $ taskloom reproduce zest
      $ taskloom reproduce ctlpp/figure1 -o figure1
      $ taskloom reproduce ctlpp/table1 --scale full --model bilstm --dry-run
    """
    from taskloom.analysis import reproduction
    from taskloom.analysis.published_numbers import paper_names
    from taskloom.cli import study_output
    from taskloom.core.errors import ParameterError
    from taskloom.experiments import api
    from taskloom.recipe.overrides import parse_changes

    name = name.removesuffix("/")  # as shells complete folders
    if not name or name in paper_names():
        options = {"scale": scale != "quick", "model": model, "out": out, "dry-run": dry_run, "set": set}
        for option, given in options.items():
            if given:
                raise ParameterError(
                    option, "is for one study, e.g. 'taskloom reproduce ctlpp/table1'; without it, all are listed"
                )
        rows = [row for row in reproduction.catalogue() if not name or row["study"].startswith(f"{name}/")]
        study_output.catalogue(rows, as_json)
        return
    named, settings = reproduction.find_existing(name), parse_changes(set or ())
    named.checked(settings)  # here as well: a key may be the name of a parameter below
    if dry_run:
        experiments = reproduction.experiments_of(named, scale, model)
        plan = api.dry_run(experiments, store) if experiments else None
        study_output.dry_run(named, plan, own_cost=scale == "quick" and not model, as_json=as_json)
        return
    result = reproduction.reproduce(
        name,
        scale=scale,
        model=model,
        store=store,
        out=out,
        engine=engine,
        workers=workers,
        progress=True,
        **settings,
    )
    study_output.findings(result.findings, result.page, as_json, result.note)
