"""From runs to findings: study, reproduce."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taskloom.cli.options import Json
from taskloom.cli.output import console, emit, table

if TYPE_CHECKING:
    from taskloom.analysis.finding import Finding
    from taskloom.analysis.study import Study
    from taskloom.experiments.api import DryRun

if TYPE_CHECKING:
    from taskloom.experiments.table import Runs


Out = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--out",
        metavar="DIR",
        help="Write a page, the figures (SVG, PDF) and all data (CSV, JSON) there.",
    ),
]
Setting = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a setting of the study; may be repeated."
    ),
]


def study(
    name: Annotated[
        str,
        typer.Argument(metavar="STUDY", help="A name (taskloom list studies), or FILE.py::NAME."),
    ],
    runs: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUNS",
            help="The folder of the runs, or scores from elsewhere; not for studies of recipes.",
        ),
    ] = None,
    out: Out = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where", metavar="RULE", help="Only these runs: 'iid > 0.5', 'seed=0', a learner."
        ),
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
    from taskloom.core.errors import ParameterError
    from taskloom.recipe.overrides import parse_changes

    named, settings = reproduction.find_existing(name), parse_changes(set or ())
    named.checked(settings)
    if named.from_recipes and where:
        raise ParameterError(
            "where", f"is not for '{named.name}', which is of recipes and needs no runs"
        )
    if out is not None:
        check_folder(out, named.name)
    source = runs if runs is None or named.from_recipes else _selected(runs, where or [])
    chosen, used, findings = reproduction.analyse(name, source, **settings)
    page = None if out is None else reproduction.write_study(chosen, findings, out, used)
    print_findings(findings, page, as_json)


def _selected(path: Path, rules: list[str]) -> Runs:
    """Return the runs that fit all rules; raise where rules that fit some runs each exclude each
    other.
    """
    from taskloom.core.errors import ParameterError
    from taskloom.experiments.sources.score_files import open_runs

    selected = open_runs(path).where(*rules)
    if len(rules) > 1 and not len(selected):
        raise ParameterError(
            "where",
            f"leaves no run of {path}: each rule fits some, and none fits all; leave one out",
        )
    return selected


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="A table or figure of a paper. A paper alone lists its own, nothing lists all.",
        ),
    ] = "",
    scale: Annotated[
        str,
        typer.Option(
            "--scale",
            help="quick: minutes on two cores, not the paper's conditions; full: the paper's.",
        ),
    ] = "quick",
    model: Annotated[
        str, typer.Option("--model", help="A learner or model instead of the study's own.")
    ] = "",
    store: Annotated[
        Path, typer.Option("--store", metavar="DIR", help="The folder of the runs.")
    ] = Path("runs"),
    out: Out = None,
    engine: Annotated[
        str, typer.Option("--engine", help="local or ray; the results do not depend on it.")
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, help="Runs at one time; as many as there are cores by default."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be run and what is there.")
    ] = False,
    set: Setting = None,
    as_json: Json = False,
) -> None:
    """Reproduce a table or figure of a paper: run what is missing, analyse it, write a page beside
    the published numbers.

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
    from taskloom.core.errors import ParameterError
    from taskloom.experiments import api
    from taskloom.recipe.overrides import parse_changes

    name = name.removesuffix("/")  # as shells complete folders
    if not name or name in paper_names():
        options = {
            "scale": scale != "quick",
            "model": model,
            "out": out,
            "dry-run": dry_run,
            "set": set,
        }
        for option, given in options.items():
            if given:
                raise ParameterError(
                    option,
                    "is for one study, e.g. 'taskloom reproduce ctlpp/table1'; without it, all are"
                    " listed",
                )
        rows = [
            row
            for row in reproduction.catalogue()
            if not name or row["study"].startswith(f"{name}/")
        ]
        print_catalogue(rows, as_json)
        return
    named, settings = reproduction.find_existing(name), parse_changes(set or ())
    named.checked(settings)  # here as well: a key may be the name of a parameter below
    if dry_run:
        experiments = reproduction.experiments_of(named, scale, model)
        plan = api.dry_run(experiments, store) if experiments else None
        print_dry_run(named, plan, own_cost=scale == "quick" and not model, as_json=as_json)
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
    print_findings(result.findings, result.page, as_json, result.note)


def print_findings(
    results: Sequence[Finding], page: Path | None, as_json: bool, note: str = ""
) -> None:
    """Print findings: the table, the judgements and the notes.

    Args:
        results: What was found.
        page: The page that was written; None for none.
        as_json: Whether machines read it.
        note: What goes before all, such as that the scale is not the paper's; empty for nothing.
    """
    if as_json:
        payload = {
            "findings": [finding.to_dict() for finding in results],
            "page": str(page) if page else None,
        }
        emit({**payload, "note": note} if note else payload)
        return
    from taskloom.analysis.finding import CONDITIONS, differing_conditions, short_judgement_table

    if note:
        print(f"{note}\n")
    for finding in results:
        print(f"{finding.title}\n")
        if finding.text:
            print(f"{finding.text}\n")
        if finding.table is not None:
            print(f"{finding.table}\n")
        if finding.judgements:
            judged = short_judgement_table(finding.judgements).shown()
            console().print(replace(judged, title="beside the published numbers"), "")
            lines = differing_conditions(finding.judgements)
            if lines:
                print("\n".join([CONDITIONS, *(f"- {line}" for line in lines), ""]))
        for caveat in finding.notes:
            print(f"- {caveat}")
        if finding.notes:
            print()
    drawn = [figure.name for finding in results for figure in finding.figures]
    if page is not None:
        print(f"the page is {page}; figures and data lie beside it")
    elif drawn:
        print(f"not written: {_figures(drawn)}; -o DIR writes a page, figures and data")


def _figures(names: Sequence[str]) -> str:
    return f"the figure {names[0]}" if len(names) == 1 else f"the figures {', '.join(names)}"


def print_dry_run(study: Study, plan: DryRun | None, *, own_cost: bool, as_json: bool) -> None:
    """Print what a reproduction would run, and what the study took where it was measured.

    Args:
        study: The study.
        plan: Of its runs; None where it needs none.
        own_cost: Whether it is what was measured: the study's own models at quick scale.
        as_json: Whether machines read it.
    """
    from taskloom.analysis.study import quick_costs
    from taskloom.cli.runs import print_plan

    if plan is None:
        (
            emit({"cells": []})
            if as_json
            else print(f"{study.name} needs no runs: it is computed from recipes")
        )
        return
    print_plan(plan, as_json)
    if as_json:
        return
    if study.follow is not None:
        print("further runs continue these; they are known when these are done")
    seconds = quick_costs().get(study.name) if own_cost else None
    if seconds is not None:
        print(
            f"the whole study took {seconds:,} CPU-seconds when it was measured, with none of its"
            " runs present"
        )


def print_catalogue(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    """Print every table and figure of the papers, and whether there is a study of it."""
    if as_json:
        emit(list(rows))
        return
    from taskloom.analysis.study import shown_cost

    out = console()
    for paper in dict.fromkeys(row["paper"] for row in rows):
        own = [row for row in rows if row["paper"] == paper]
        costs = [shown_cost(r["quick_cpu_seconds"]) if r["exists"] else "no study yet" for r in own]
        lines = [
            (r["study"], r["place"], r["shows"], r["needs"], cost)
            for r, cost in zip(own, costs, strict=True)
        ]
        heads = ("study", "place", "what it shows", "full scale needs", "CPU time, quick")
        out.print(table(paper or "other studies", heads, lines), "")
    print(
        "taskloom reproduce STUDY makes one, at quick scale unless --scale full: with small"
        " networks, most of them from scratch"
    )
    print("taskloom list STUDY shows its settings")
