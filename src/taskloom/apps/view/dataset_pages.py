"""Pages of datasets: an overview, the rows, one example, and the audit's certificate as tables,
with the verdict first and then the evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from taskloom.apps.view.datasets import ViewedDataset, filter_choices, open_dataset
from taskloom.apps.view.folders import VanishedError
from taskloom.apps.view.page_templates import render, shown
from taskloom.apps.view.split_rows import NumberedExample, SearchResult, SplitRows
from taskloom.apps.view.state import (
    chosen_filters,
    dataset_folder,
    page_start,
    state_of,
    whole_number,
)
from taskloom.apps.view.suite_process import example_to_dict
from taskloom.core.errors import TaskloomError
from taskloom.core.example import Example
from taskloom.core.pictures import derivation_tree, to_dict
from taskloom.core.tables import Table
from taskloom.data.audit import certificate_tables
from taskloom.data.audit.shortcuts import shortcut_count

LONGEST = 200
"""Maximum characters of any cell."""


@dataclass(frozen=True, slots=True)
class CertificatePage:
    """A certificate as shown on a page.

    Attributes:
        passed: True if no test split contains training examples and all held-out examples are in
            the right splits.
        verdict: One sentence.
        tables: The findings.
        notes: Further remarks.
    """

    passed: bool
    verdict: str
    tables: list[Table]
    notes: list[str]


def certificate_page(audit: Mapping[str, Any]) -> CertificatePage:
    """Build the shown certificate from the result of `Audit.to_dict`."""
    leaks, pairs, misplaced = audit["leaks"], audit["pairs"], audit["misplaced"]
    trained = any(split["role"] == "train" for split in audit["splits"].values())
    repeats = sum(one["exact"] for one in audit["repeats"])
    parts = [
        f"{len(leaks)} leaks" if trained else "leaks were not looked for, without a training split",
        *([f"{len(pairs)} splits with pairs of training"] if pairs else []),
        *([f"{len(misplaced)} splits with misplaced held-out examples"] if misplaced else []),
        f"{repeats:,} duplicates",
        shortcut_count((one["baseline"], bool(one["flagged"])) for one in audit["shortcuts"]),
    ]
    tables = [_shown(table) for table in certificate_tables(audit)]
    return CertificatePage(
        not audit["failed"], ", ".join(parts), tables, [str(note) for note in audit["notes"]]
    )


def _shown(table: Table) -> Table:
    """The table with the hidden characters in its cells made visible."""
    cells = tuple(tuple(shown(cell, LONGEST) for cell in row) for row in table.cells)
    return replace(table, cells=cells)


PAGE = 25
"""Examples per page."""

BARS = 12
"""Maximum values of a trait in the overview."""


def overview(request: Request) -> Response:
    """Show the overview of a dataset: recipe, digests, splits, traits."""
    data = open_dataset(dataset_folder(request))
    splits = [
        {"name": name, "entry": entry, "traits": _distributions(data.counts(name))}
        for name, entry in data.manifest["splits"].items()
    ]
    recipe = dict(data.manifest["recipe"])
    fields = {
        k: v
        for k, v in recipe.items()
        if k not in ("name", "suite", "task", "version", "describe", "code")
    }
    warnings = data.manifest.get("warnings", [])
    return render(
        request,
        "dataset.html",
        data=data,
        splits=splits,
        recipe=recipe,
        fields=fields,
        warnings=warnings[:10] if isinstance(warnings, list) else [],
        **_audit(request, data),
    )


def audit(request: Request) -> Response:
    """Return the part of a dataset's page with its certificate. A POST starts the audit and
    redirects to the page.
    """
    data = open_dataset(dataset_folder(request))
    if request.method == "POST":
        state_of(request).audits.start(data)
        return RedirectResponse(f"/data/{data.folder.name}#audit", 303)
    return render(request, "audit.html", data=data, **_audit(request, data))


def _audit(request: Request, data: ViewedDataset) -> dict[str, Any]:
    state = state_of(request).audits.state(data)
    return {
        "audit": state,
        "certificate": certificate_page(state.certificate) if state.certificate else None,
    }


def _distributions(counts: Mapping[str, dict[str, int] | None]) -> list[dict[str, Any]]:
    """The traits of a split with the shares of their most frequent values."""
    shown = []
    for name, values in counts.items():
        if values is None or len(values) < 2:
            continue
        total = max(1, sum(values.values()))
        most = sorted(values.items(), key=lambda pair: -pair[1])[:BARS]
        if all(value.replace(".", "", 1).isdigit() for value, _ in most):
            most = sorted(most, key=lambda pair: float(pair[0]))
        bars = [{"value": value, "n": n, "share": n / total} for value, n in most]
        shown.append({"name": name, "bars": bars, "more": len(values) - len(most)})
    return shown


def rows(request: Request) -> Response:
    """Show the rows of a split, or those that match a search, in pages."""
    data = open_dataset(dataset_folder(request))
    name, split = chosen_split(data, request)
    text = request.query_params.get("q", "").strip()
    filters = chosen_filters(request)
    start = whole_number(request, "start")
    searched: SearchResult | None = None
    if text or filters:
        searched = split.search(text, filters, start, PAGE)
        examples = split.take(searched.rows)
    else:
        start = page_start(request, split.n, PAGE)
        examples = split.read(start, PAGE)
    return render(
        request,
        "rows.html",
        data=data,
        split=name,
        n=split.n,
        rows=examples,
        start=start,
        page=PAGE,
        q=text,
        filters=filters,
        searched=searched,
        choices=filter_choices(data.counts(name), split.traits()),
        named=str(data.manifest["recipe"].get("suite", "")),
    )


def chosen_split(data: ViewedDataset, request: Request) -> tuple[str, SplitRows]:
    """The split named in the query. Default: the first one."""
    name = request.query_params.get("split") or next(iter(data.splits))
    return name, data.split(name)


def example(request: Request) -> Response:
    """Show one example, drawn by its suite, with everything that the dataset records about it."""
    data = open_dataset(dataset_folder(request))
    name, split = chosen_split(data, request)
    index = whole_number(request, "index")
    read = split.read(index, 1)
    if not read:
        raise VanishedError(
            f"the split '{name[:80]}' has {split.n:,} examples, from 0 on; {index:,} is not one of"
            " them"
        )
    return render(
        request,
        "example.html",
        data=data,
        split=name,
        index=index,
        n=split.n,
        part=example_parts(read[0].example, _picture(request, data, read[0])),
    )


def _picture(
    request: Request, data: ViewedDataset, row: NumberedExample
) -> Mapping[str, Any] | None:
    """Picture drawn by the dataset's suite. None if the suite is unknown or takes too long."""
    if "seed" not in data.manifest:
        return None
    try:
        answer = state_of(request).pictures.request(
            "picture",
            recipe=data.manifest["recipe"],
            seed=data.manifest["seed"],
            example=example_to_dict(row.example),
        )
    except TaskloomError:
        return None
    picture: Mapping[str, Any] | None = answer["picture"]
    return picture


@dataclass(frozen=True, slots=True)
class ExampleParts:
    """Values of the template that shows an example.

    Attributes:
        example: The example.
        picture: The suite's picture in the form of `pictures.to_dict`; None if there is none.
        context: The input without the question, or the whole input if there is no separate
            question.
        question: The question, if the input begins or ends with it.
    """

    example: Example
    picture: Mapping[str, Any] | None
    context: str
    question: str


def example_parts(example: Example, picture: Mapping[str, Any] | None) -> ExampleParts:
    """Prepare an example for its template. If the suite draws nothing, a derivation with branches
    is drawn as a tree.
    """
    context, question = example.input, ""
    if (
        example.question
        and example.input.endswith(example.question)
        and example.input != example.question
    ):
        context, question = example.input.removesuffix(example.question).rstrip(), example.question
    if picture is None and any(step.of for step in example.derivation):
        tree = derivation_tree(example.derivation, example.input)
        picture = None if tree is None else to_dict(tree)
    return ExampleParts(example, picture, context, question)
