"""Findings and the catalogue of studies, as people and machines read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskloom.cli.output import console, emit, table

if TYPE_CHECKING:
    from taskloom.studies.findings import Finding


def findings(results: Sequence[Finding], page: Path | None, as_json: bool) -> None:
    """Print findings: the table, the judgements and the notes."""
    if as_json:
        emit({"findings": [finding.to_dict() for finding in results], "page": str(page) if page else None})
        return
    from taskloom.studies.findings import judgement_table

    for finding in results:
        print(f"{finding.title}\n")
        if finding.text:
            print(f"{finding.text}\n")
        if finding.table is not None:
            print(f"{finding.table}\n")
        if finding.judgements:
            heads, cells = judgement_table(finding.judgements).shown()
            console().print(table("beside the published numbers", heads, cells), "")
        for note in finding.notes:
            print(f"- {note}")
        if finding.notes:
            print()
    if page is not None:
        print(f"the page is {page}; figures and data lie beside it")


def catalogue(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    """Print every table and figure of the papers, and whether there is a study of it."""
    if as_json:
        emit(list(rows))
        return
    from taskloom.studies.quick_costs import shown_cost

    out = console()
    for paper in dict.fromkeys(row["paper"] for row in rows):
        own = [row for row in rows if row["paper"] == paper]
        costs = [shown_cost(r["quick_cpu_seconds"]) if r["exists"] else "no study yet" for r in own]
        lines = [(r["study"], r["place"], r["shows"], r["needs"], cost) for r, cost in zip(own, costs, strict=True)]
        heads = ("study", "place", "what it shows", "needs", "CPU time, quick")
        out.print(table(paper or "other studies", heads, lines), "")
