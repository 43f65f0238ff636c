"""Findings and the catalogue of studies, as people and machines read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskloom.cli.output import console, emit, table

if TYPE_CHECKING:
    from taskloom.analysis.finding import Finding
    from taskloom.analysis.study import Study
    from taskloom.experiments.api import DryRun


def findings(results: Sequence[Finding], page: Path | None, as_json: bool, note: str = "") -> None:
    """Print findings: the table, the judgements and the notes.

    Args:
        results: What was found.
        page: The page that was written; None for none.
        as_json: Whether machines read it.
        note: What goes before all, such as that the scale is not the paper's; empty for nothing.
    """
    if as_json:
        payload = {"findings": [finding.to_dict() for finding in results], "page": str(page) if page else None}
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
            heads, cells = short_judgement_table(finding.judgements).shown()
            console().print(table("beside the published numbers", heads, cells), "")
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


def dry_run(study: Study, plan: DryRun | None, *, own_cost: bool, as_json: bool) -> None:
    """Print what a reproduction would run, and what the study took where it was measured.

    Args:
        study: The study.
        plan: Of its runs; None where it needs none.
        own_cost: Whether it is what was measured: the study's own models at quick scale.
        as_json: Whether machines read it.
    """
    from taskloom.analysis.study import quick_costs
    from taskloom.cli import run_output

    if plan is None:
        emit({"cells": []}) if as_json else print(f"{study.name} needs no runs: it is computed from recipes")
        return
    run_output.experiment(plan, as_json)
    if as_json:
        return
    if study.follow is not None:
        print("further runs continue these; they are known when these are done")
    seconds = quick_costs().get(study.name) if own_cost else None
    if seconds is not None:
        print(f"the whole study took {seconds:,} CPU-seconds when it was measured, with none of its runs present")


def catalogue(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    """Print every table and figure of the papers, and whether there is a study of it."""
    if as_json:
        emit(list(rows))
        return
    from taskloom.analysis.study import shown_cost

    out = console()
    for paper in dict.fromkeys(row["paper"] for row in rows):
        own = [row for row in rows if row["paper"] == paper]
        costs = [shown_cost(r["quick_cpu_seconds"]) if r["exists"] else "no study yet" for r in own]
        lines = [(r["study"], r["place"], r["shows"], r["needs"], cost) for r, cost in zip(own, costs, strict=True)]
        heads = ("study", "place", "what it shows", "full scale needs", "CPU time, quick")
        out.print(table(paper or "other studies", heads, lines), "")
    print(
        "taskloom reproduce STUDY makes one, at quick scale unless --scale full: with small networks, most of them from scratch"
    )
    print("taskloom list STUDY shows its settings")
