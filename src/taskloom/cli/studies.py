"""From runs to findings: study, reproduce, profile."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taskloom.cli.experiments import print_plan
from taskloom.cli.options import Endpoint, Engine, Json, OnlyPlan, RunStore, Where, Workers
from taskloom.core.errors import ParameterError, TaskloomError
from taskloom.core.tables import Table, console, emit, printable, table

if TYPE_CHECKING:
    from taskloom.analysis.finding import Finding
    from taskloom.analysis.profile.profile import ModelProfile
    from taskloom.analysis.study import Study
    from taskloom.experiments.api import DryRun
    from taskloom.experiments.spec.experiment import Experiment
    from taskloom.experiments.table import Runs


Out = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--out",
        metavar="DIR",
        help="Folder for a page, the figures (SVG, PDF) and all data (CSV, JSON).",
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
            help="Folder of the runs, or a file of scores; not for studies of recipes.",
        ),
    ] = None,
    out: Out = None,
    where: Where = None,
    set: Setting = None,
    as_json: Json = False,
) -> None:
    """Apply a study to runs: a table, figures, and a comparison with the published numbers.

    \b
    Examples:
      $ taskloom study ctlpp/figure1 -o figure1
      $ taskloom study ctlpp/table2 --json
    """
    from taskloom.analysis.findings_folder import check_folder
    from taskloom.analysis.study import analyse, find_study
    from taskloom.recipe.overrides import parse_changes

    named, settings = find_study(name), parse_changes(set or ())
    named.checked(settings)
    if named.from_recipes and where:
        raise ParameterError(
            "where", f"is not for '{named.name}', which analyses recipes and needs no runs"
        )
    if out is not None:
        check_folder(out, named.name)
    source = runs if runs is None or named.from_recipes else _selected(runs, where or [])
    chosen, used, findings = analyse(name, source, **settings)
    page = None
    if out is not None:
        from taskloom.analysis.reproduction import write_study

        page = write_study(chosen, findings, out, used)
    print_findings(findings, page, as_json)


def _selected(path: Path, rules: list[str]) -> Runs:
    """Runs that match all rules. Raise an error if each rule matches some runs but no run matches
    all.
    """
    from taskloom.experiments.sources.score_files import open_runs

    selected = open_runs(path).where(*rules)
    if len(rules) > 1 and not len(selected):
        raise ParameterError(
            "where",
            f"leaves no run of {path}: each rule matches some runs, but no run matches all; "
            "leave a rule out",
        )
    return selected


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help=(
                "Table or figure of a paper. A paper's name alone lists its tables and figures;"
                " no name lists all."
            ),
        ),
    ] = "",
    scale: Annotated[
        str,
        typer.Option(
            "--scale",
            help=(
                "quick: minutes on two cores, not the paper's conditions; gpu: the conditions of "
                "our results pages; paper: the paper's conditions."
            ),
        ),
    ] = "quick",
    model: Annotated[
        str, typer.Option("--model", help="Learner or model to use instead of the study's own.")
    ] = "",
    store: RunStore = Path("runs"),
    out: Out = None,
    engine: Engine = "local",
    workers: Workers = None,
    dry_run: OnlyPlan = False,
    set: Setting = None,
    as_json: Json = False,
) -> None:
    """Reproduce a table or figure of a paper: run what is missing, analyse it, and write a page
    that compares it with the published numbers.

    Rerun the command to resume after an interruption.

    \b
    Examples:
      $ taskloom reproduce
      $ taskloom reproduce zest
      $ taskloom reproduce ctlpp/figure1 -o figure1
      $ taskloom reproduce ctlpp/table1 --scale paper --model bilstm --dry-run
    """
    from taskloom.analysis import reproduction
    from taskloom.analysis.published_numbers import paper_names
    from taskloom.analysis.study import FORMER_SCALES, find_study
    from taskloom.core.plan import sharing
    from taskloom.experiments import api
    from taskloom.recipe.overrides import parse_changes

    name = name.removesuffix("/")  # The shell completes folders with a slash.
    if not name or name in paper_names():
        given = {"scale": scale != "quick", "model": model, "out": out}
        _list_studies(name, {**given, "dry-run": dry_run, "set": set}, as_json)
        return
    named, settings = find_study(name), parse_changes(set or ())
    # Checked here as well, because a key may have the name of a parameter below.
    named.checked(settings)
    if scale in FORMER_SCALES:
        print(reproduction.former_scale(scale), file=sys.stderr)
        scale = FORMER_SCALES[scale]
    if dry_run:
        with sharing():
            experiments = reproduction.experiments_of(named, scale, model)
            experiments, missing = reproduction.with_data(experiments, progress=True)
            plan = api.dry_run(experiments, store) if experiments else None
            print_dry_run(named, plan, scale, missing, own_cost=not model, as_json=as_json)
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


def _list_studies(paper: str, given: Mapping[str, Any], as_json: bool) -> None:
    """List the studies of a paper, or all of them. Refuse options that need a single study."""
    from taskloom.analysis import reproduction

    for option, value in given.items():
        if value:
            raise ParameterError(
                option,
                "is for one study, e.g. 'taskloom reproduce ctlpp/table1'; without it, all are"
                " listed",
            )
    rows = reproduction.catalogue()
    if paper:
        rows = [row for row in rows if row["study"].startswith(f"{paper}/")]
    print_catalogue(rows, as_json)


def print_findings(
    results: Sequence[Finding], page: Path | None, as_json: bool, note: str = ""
) -> None:
    """Print findings: tables, judgements and notes.

    Args:
        results: The findings.
        page: The page that was written; None if there is none.
        as_json: True to print JSON.
        note: Printed first, such as a warning that the scale is not the paper's; may be empty.
    """
    if as_json:
        payload = {
            "findings": [finding.to_dict() for finding in results],
            "page": str(page) if page else None,
        }
        emit({**payload, "note": note} if note else payload)
        return
    from taskloom.analysis.verdict import CONDITIONS, differing_conditions, short_judgement_table

    if note:
        print(f"{note}\n")
    for finding in results:
        print(f"{finding.title}\n")
        if finding.text:
            print(f"{finding.text}\n")
        if finding.table is not None:
            _print_table(finding.table.shown())
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
        print(f"the page is {page}; figures and data are next to it")
    elif drawn:
        print(f"not written: {_figures(drawn)}; -o DIR writes a page, figures and data")


def _print_table(shown: Table) -> None:
    """Print a table of a finding. Its cells are wrapped only if it is wider than the terminal."""
    text = printable(str(shown))
    if max(map(len, text.splitlines())) > console().width:
        console().print(shown, "")
    else:
        print(f"{text}\n")


def _figures(names: Sequence[str]) -> str:
    return f"the figure {names[0]}" if len(names) == 1 else f"the figures {', '.join(names)}"


HEADS = {"missing": "not planned", "stated": "conditions and assumptions"}
"""Headings of the parts of a dry run, if they differ from their keys in JSON."""


def _dry_run_parts(
    study: Study,
    plan: DryRun | None,
    scale: str,
    missing: Sequence[tuple[Experiment, str]],
) -> dict[str, list[str]]:
    """Lines of a dry run by heading: settings and data of the runs, what is missing, and costs."""
    from taskloom.analysis import scales

    cells = [] if plan is None else list(plan.cells)
    here = [scales.planned(cell) for cell in cells]
    absent = [run for experiment, _ in missing for run in scales.planned_without_data(experiment)]
    names = {name for run in (*here, *absent) for name in (run.learner, run.model, run.data)}
    reasons = list(dict.fromkeys(reason for _, reason in missing))
    parts = {"missing": reasons}
    if scale != "quick":
        parts = {
            "settings": scales.settings_lines(here),
            "data": scales.data_lines(cells),
            "missing": reasons,
            "settings with the missing data": scales.settings_lines(absent),
            "stated": scales.scale_statements(study.name, scale, names),
        }
    if scale == "paper":
        parts["GPU hours"] = list(scales.gpu_hours(study.name, [*here, *absent]))
    return parts


def print_dry_run(
    study: Study,
    plan: DryRun | None,
    scale: str,
    missing: Sequence[tuple[Experiment, str]] = (),
    *,
    own_cost: bool,
    as_json: bool,
) -> None:
    """Print what a reproduction would run, under which conditions, and its estimated cost.

    Args:
        study: The study.
        plan: Plan of its runs; None if the study needs no runs, or if the data of all runs are
            missing.
        scale: The scale.
        missing: Experiments whose data are not here, with what is missing.
        own_cost: True if the models are the study's own, whose cost at quick scale was measured.
        as_json: True to print JSON.
    """
    from taskloom.analysis.study import quick_costs

    parts = _dry_run_parts(study, plan, scale, missing)
    if as_json:
        if plan is None:
            emit({"cells": [], **parts})
        else:
            print_plan(plan, as_json, parts)
        return
    if study.from_recipes:
        print(f"{study.name} needs no runs, because it is computed from recipes")
        return
    place = f" ({study.place})" if study.place else ""
    print(f"{study.name}{place} at scale {scale}\n")
    if plan is not None:
        print_plan(plan, as_json)
    for head, lines in parts.items():
        if lines:
            print("\n".join(["", HEADS.get(head, head), *(f"- {line}" for line in lines)]))
    if study.follow is not None:
        print("further runs continue these and are planned after these are done")
    seconds = quick_costs().get(study.name) if own_cost and scale == "quick" else None
    if seconds is not None:
        print(
            f"the whole study took {seconds:,} CPU-seconds when it was measured, with none of its"
            " runs present"
        )


def print_catalogue(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    """Print every table and figure of the papers, and whether a study of it exists."""
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
        heads = ("study", "place", "what it shows", "paper scale needs", "CPU time, quick")
        out.print(table(heads, lines, paper or "other studies"), "")
    print(
        "taskloom reproduce STUDY reproduces one, by default at quick scale: small networks, most "
        "of them trained from scratch"
    )
    print("taskloom list STUDY shows its settings")


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help=(
            "smollm2, a model's folder, a hub id, or the folder of a saved learner; with "
            "--endpoint, the model's name there."
        ),
    ),
]
TwoProfiles = Annotated[
    tuple[Path, Path] | None,
    typer.Option("--compare", metavar="A B", help="Compare two existing profiles, A and B."),
]
Gpus = Annotated[
    float,
    typer.Option(
        "--gpus",
        min=0.01,
        help="GPUs per run; with 0.25, four runs of a small model share one.",
    ),
]


def profile(
    model: Model = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="Ask 24 items per split instead of 200.")
    ] = False,
    random: Annotated[
        bool,
        typer.Option(
            "--random", help="Profile the same architecture with random weights, as a baseline."
        ),
    ] = False,
    endpoint: Endpoint = "",
    compare: TwoProfiles = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="DIR", help="Folder for the page [profile-MODEL]."),
    ] = None,
    store: RunStore = Path("runs"),
    workers: Workers = None,
    gpus: Gpus = 1.0,
    dry_run: OnlyPlan = False,
    panel: Annotated[
        bool, typer.Option("--panel", help="Only list the recipes and contrasts of the panel.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Profile a model on a fixed panel from all suites: one page that shows where it holds up and
    where it breaks.

    If the store has a profile of the same architecture with random weights, the page shows both.
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
    from taskloom.analysis.profile import profile as profiles
    from taskloom.experiments import api

    if panel:
        _print_panel(as_json)
        return
    if not model and compare is None:
        raise TaskloomError(
            "name a model, e.g. 'taskloom profile smollm2 --quick', or two profiles with"
            " --compare A B"
        )
    if model and compare is not None:
        raise ParameterError("compare", f"takes two profiles and no model; leave out '{model}'")
    if compare is not None:
        written = [profiles.read_profile(path) for path in compare]
        _write_profile(written, out or Path("profile-comparison"), as_json, own=False)
        return
    asked = profiles.read_model(model, random=random, endpoint=endpoint)
    if dry_run:
        print_plan(api.dry_run(profiles.planned(asked, quick), store), as_json)
        return
    results = [
        profiles.profile(
            model,
            quick=quick,
            random=random,
            endpoint=endpoint,
            store=store,
            workers=workers,
            gpus=gpus,
            progress=True,
        )
    ]
    if asked.twin is not None:
        twin = profiles.gather(asked.twin, store, quick)
        results += [twin] if twin.measurements else []
    _write_profile(results, out or _profile_folder(results[0].name), as_json, own=True)


def _profile_folder(model: str) -> Path:
    """Default folder for the profile of a model: its name, with `-` for characters that do not
    belong in a path.

    >>> _profile_folder("org/model v1.5").name
    'profile-org-model-v1.5'
    """
    name = "".join(c if c.isalnum() or c in "-." else "-" for c in model).strip("-")
    return Path(f"profile-{name}")


def _print_panel(as_json: bool) -> None:
    """Print the recipes of the panel and its contrasts."""
    from taskloom.analysis.profile.panel import packaged_panel

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
        table(("name", "recipe", "splits", "asked"), recipes, f"recipes of panel {asked.version}"),
        "",
    )
    out.print(table(("axis", "contrast", "easy", "hard"), contrasts, "contrasts"))


def _write_profile(results: list[ModelProfile], folder: Path, as_json: bool, *, own: bool) -> None:
    """Write the page, and the profile if it was made by this call, and print the findings."""
    from taskloom.analysis.profile import profile as profiles
    from taskloom.analysis.profile import profile_page
    from taskloom.analysis.profile.panel import packaged_panel

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
