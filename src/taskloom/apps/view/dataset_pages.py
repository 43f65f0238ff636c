"""Pages of datasets: what is in one, its rows in pages, one example, and the certificate of its audit
as tables: the verdict first, then what it rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from taskloom.apps.view.datasets import ViewedDataset, filter_choices, open_dataset
from taskloom.apps.view.folders import VanishedError
from taskloom.apps.view.page_templates import number, percent, render, shown
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
from taskloom.core.tables import Table, cell_text
from taskloom.data.audit import SPLIT_HEADS, split_rows
from taskloom.data.audit.shortcuts import shortcut_count

Rows = Sequence[Mapping[str, Any]]

EXAMPLE = 160
"""Maximum characters of an example that a table shows."""

LONGEST = 200
"""Maximum characters of any cell."""


@dataclass(frozen=True, slots=True)
class CertificatePage:
    """A certificate for people.

    Attributes:
        passed: Whether nothing of training was found in a test, and held-out parts are where they
            should be.
        verdict: One sentence.
        tables: What was found, table by table.
        notes: What a person should know besides.
    """

    passed: bool
    verdict: str
    tables: list[Table]
    notes: list[str]


def certificate_page(audit: Mapping[str, Any]) -> CertificatePage:
    """Return the certificate that `Audit.to_dict` describes."""
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
    tables = [table for make in TABLES if (table := make(audit)) is not None]
    return CertificatePage(
        not audit["failed"], ", ".join(parts), tables, [str(note) for note in audit["notes"]]
    )


def _table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[Any]],
    bad: Sequence[bool] = (),
) -> Table | None:
    """A table whose cells show hidden characters; None without rows.

    Args:
        title: The line that unfolds it.
        heads: The heads of its columns.
        rows: The values of each row.
        bad: True for each row that makes the audit fail; none by default.
    """
    if not rows:
        return None
    cells = tuple(tuple(shown(cell_text(cell), LONGEST) for cell in row) for row in rows)
    marks = tuple("bad" if is_bad else "" for is_bad in bad)
    return Table(tuple(heads), cells, (False,) * len(heads), title, marks=marks)


def _splits(audit: Mapping[str, Any]) -> Table | None:
    heads = SPLIT_HEADS
    return _table("Duplicates within splits, balance of the answers", heads, split_rows(audit))


def _overlaps(audit: Mapping[str, Any]) -> Table | None:
    rows = [
        (
            one["split"],
            one["other"],
            one["exact"],
            one["near"],
            percent(one["share"]),
            _overlap_verdict(one),
            "; ".join(one["examples"][:1])[:EXAMPLE],
        )
        for one in audit["overlaps"]
    ]
    heads = ("rows of", "also in", "exact", "near", "share", "verdict", "for example")
    return _table(
        "Overlaps between splits", heads, rows, [one["leak"] for one in audit["overlaps"]]
    )


def _overlap_verdict(overlap: Mapping[str, Any]) -> str:
    if overlap["leak"]:
        return "LEAK"
    return "by design" if overlap["by_design"] else "note"


def _pairs(audit: Mapping[str, Any]) -> Table | None:
    rows = [
        (
            one["split"],
            one["same"],
            one["reversed"],
            percent(one["share"]),
            "; ".join(one["examples"][:1])[:EXAMPLE],
        )
        for one in audit["pairs"]
    ]
    heads = ("rows of", "same pair", "reversed", "share", "for example")
    return _table("Pairs of input and answer that training has", heads, rows, [True] * len(rows))


def _constants(audit: Mapping[str, Any]) -> Table | None:
    rows = [(one["split"], one["task"], one["like"], one["n"]) for one in audit["constants"]]
    return _table(
        "Tasks that equal a training task but for a constant",
        ("split", "task", "training has", "rows"),
        rows,
    )


def _held_out(audit: Mapping[str, Any]) -> Table | None:
    bad = [one["split"] in audit["misplaced"] for one in audit["held_out"]]
    rows = [
        (
            one["split"],
            one["n"],
            one["held_out"],
            one["expected"],
            "MISPLACED" if wrong else "right",
        )
        for one, wrong in zip(audit["held_out"], bad, strict=True)
    ]
    return _table(
        "Held-out examples", ("split", "examples", "held out", "should be", "verdict"), rows, bad
    )


def _shortcuts(audit: Mapping[str, Any]) -> Table | None:
    shortcuts: Rows = audit["shortcuts"]
    rows = [
        (
            one["split"],
            one["baseline"],
            percent(one["accuracy"]),
            percent(one["majority"]),
            "SHORTCUT" if one["flagged"] else "",
        )
        for one in shortcuts
    ]
    heads = ("split", "without doing the task", "accuracy", "majority answer", "verdict")
    return _table("Shortcuts", heads, rows, [bool(one["flagged"]) for one in shortcuts])


def _coverage(audit: Mapping[str, Any]) -> Table | None:
    rows = [
        (
            one["split"],
            one["trait"],
            one["values"],
            one["unseen_values"],
            percent(one["unseen_rows"]),
            ", ".join(map(str, one["examples"][:3]))[:EXAMPLE],
        )
        for one in audit["coverage"]
        if one["unseen_values"]
    ]
    heads = ("split", "trait", "values", "not in training", "rows", "for example")
    return _table("Coverage: values of traits that training lacks", heads, rows)


def _divergence(audit: Mapping[str, Any]) -> Table | None:
    rows = [
        (
            one["split"],
            number(one["atoms"]),
            number(one["compounds"]),
            percent(one["unseen_compounds"]),
        )
        for one in audit["divergence"]
    ]
    heads = ("split", "atoms", "compounds", "compounds not in training")
    return _table("Divergence from training: 0 equal, 1 disjoint", heads, rows)


TABLES: tuple[Callable[[Mapping[str, Any]], Table | None], ...] = (
    _overlaps,
    _pairs,
    _held_out,
    _shortcuts,
    _splits,
    _constants,
    _coverage,
    _divergence,
)
"""In the order in which a reader wants them: what makes an audit fail comes first."""


PAGE = 25
"""Examples of one page."""

BARS = 12
"""Values of a trait that the overview shows."""


def overview(request: Request) -> Response:
    """Show what a dataset is made of: recipe, digests, splits, traits."""
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
    """Return the part of a dataset's page that shows its certificate; a POST begins the audit and
    leads back to the page.
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
    """Return the traits of a split with the shares of their most frequent values."""
    shown = []
    for name, values in counts.items():
        if values is None or len(values) < 2:
            continue
        total = max(1, sum(values.values()))
        most = sorted(values.items(), key=lambda pair: -pair[1])[:BARS]
        bars = [{"value": value, "n": n, "share": n / total} for value, n in most]
        shown.append({"name": name, "bars": bars, "more": len(values) - len(most)})
    return shown


def rows(request: Request) -> Response:
    """Show the rows of a split, in pages; or those that a search finds."""
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
    )


def chosen_split(data: ViewedDataset, request: Request) -> tuple[str, SplitRows]:
    """Return the split that a query names; the first by default."""
    name = request.query_params.get("split") or next(iter(data.splits))
    return name, data.split(name)


def example(request: Request) -> Response:
    """Show one example: as its suite draws it, and with everything that the dataset says of it."""
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
    """Return what the suite of a dataset draws; None where it is not known, or takes too long."""
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
    """What a template needs to show an example.

    Attributes:
        example: The example.
        picture: What its suite draws, as `pictures.to_dict` gives it; None where it draws nothing.
        context: The input before the question; the whole input where nothing is set apart.
        question: The question, where the input ends with it or begins with it.
    """

    example: Example
    picture: Mapping[str, Any] | None
    context: str
    question: str


def example_parts(example: Example, picture: Mapping[str, Any] | None) -> ExampleParts:
    """Return what a template needs; a derivation that branches is drawn as a tree where the suite
    draws nothing.
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
