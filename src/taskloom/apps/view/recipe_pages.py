"""The home page, and pages of suites and recipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python
from starlette.requests import Request
from starlette.responses import Response

from taskloom.apps.view.dataset_pages import example_parts
from taskloom.apps.view.datasets import open_dataset
from taskloom.apps.view.folders import VanishedError, ViewedFolder
from taskloom.apps.view.page_templates import render
from taskloom.apps.view.recipe_form import RecipeForm, changed, command, entered_by, form_of
from taskloom.apps.view.state import state_of, whole_number
from taskloom.apps.view.suite_process import example_of
from taskloom.core.errors import TaskloomError
from taskloom.core.registry import SUITES, Suite
from taskloom.data.dataset import MANIFEST
from taskloom.recipe.recipe import counting_order, find
from taskloom.recipe.yaml_files import parse

LISTED = 200
"""Maximum datasets, and maximum stores, on the home page."""


def home(request: Request) -> Response:
    """Show the installed suites, and the datasets and stores of the folders."""
    folders = state_of(request).folders
    datasets = folders.of_kind("dataset")
    stores = folders.of_kind("store")
    own, run_data = _lines_by_use(datasets[:LISTED], stores)
    store_lines = [_store_line(request, one) for one in stores[:LISTED]]
    readable = [line for line in store_lines if line["summary"]]
    comparable = [line for line in readable if line["summary"].runs > 1]
    with_rows = [line for line in own or run_data if line["n"]]
    return render(
        request,
        "home.html",
        first=next(iter(with_rows), None),
        compared=next(iter(comparable), None),
        suites=[{"suite": one, "recipes": len(one.recipe_files())} for one in SUITES],
        datasets=told_apart(own),
        run_data=told_apart(run_data),
        stores=store_lines,
        more=max(0, len(datasets) - LISTED) + max(0, len(stores) - LISTED),
        runs=sum(line["summary"].runs for line in readable),
        roots=[root.name or str(root) for root in folders.roots],
        places=[str(root) for root in folders.roots],
    )


def _lines_by_use(
    datasets: Sequence[ViewedFolder], stores: Sequence[ViewedFolder]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Summaries of datasets, separated into independent ones and those inside a run store."""
    own: list[dict[str, Any]] = []
    run_data: list[dict[str, Any]] = []
    for folder in datasets:
        of_runs = any(_is_in(folder, store) for store in stores)
        (run_data if of_runs else own).append(summary(folder))
    return own, run_data


def summary(folder: ViewedFolder) -> dict[str, Any]:
    """Summary of a dataset: its recipe, seed and sizes, or the problem with it."""
    try:
        data = open_dataset(folder)
    except (TaskloomError, OSError) as error:
        return {
            "folder": folder,
            "problem": str(error),
            "title": folder.short,
            "sizes": [],
            "n": 0,
            "made": 0.0,
            "fields": {},
        }
    sizes = [(name, rows.n) for name, rows in data.splits.items()]
    return {
        "folder": folder,
        "problem": "",
        "title": data.title,
        "sizes": sizes,
        "n": sum(n for _, n in sizes),
        "made": _changed(folder.path / MANIFEST),
        "fields": data.manifest["recipe"],
    }


def told_apart(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the differing fields to the titles of datasets that have the same title.

    >>> told_apart([{"title": "a", "fields": {"n": 1}}, {"title": "a", "fields": {"n": 2}}])[1]["title"]
    'a, n 2'
    """
    by_title: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_title.setdefault(line["title"], []).append(line)
    named = []
    for line in lines:
        alike = [other["fields"] for other in by_title[line["title"]]]
        fields = line["fields"]
        differing = [
            f"{name} {value}"
            for name, value in fields.items()
            if isinstance(value, str | int | float)
            and any(other.get(name) != value for other in alike)
        ]
        named.append({**line, "title": ", ".join([line["title"], *differing])})
    return named


def _store_line(request: Request, folder: ViewedFolder) -> dict[str, Any]:
    """Summary of a store: number of runs, best scores, date; or the problem with it."""
    viewed = state_of(request).store(folder)
    try:
        return {"folder": folder, "problem": "", "summary": viewed.summary()}
    except (TaskloomError, OSError) as error:
        return {"folder": folder, "problem": str(error), "summary": None}


def _is_in(folder: ViewedFolder, store: ViewedFolder) -> bool:
    return not store.logs and folder.path.is_relative_to(store.path)


def _changed(path: Path) -> float:
    """Unix time of a file's last change; 0 if it does not exist."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def suite(request: Request) -> Response:
    """Show a suite with its recipes."""
    chosen = known_suite(request.query_params.get("name", ""))
    return render(request, "suite.html", suite=chosen, recipes=recipes_of(chosen.name))


def known_suite(name: str) -> Suite:
    """Return an installed suite. Raise `VanishedError` for any other name."""
    if name not in SUITES.names():  # not `find`, which would import code from a path
        raise VanishedError(f"there is no suite '{name[:80]}'; known: {', '.join(SUITES.names())}")
    return SUITES.get(name)


@cache
def recipes_of(suite: str) -> list[dict[str, str]]:
    """The recipes of a suite, each with its description."""
    files = SUITES.get(suite).recipe_files()
    rows = []
    for name in sorted(files, key=counting_order):
        data = parse(files[name].read_text(encoding="utf-8"))
        rows.append({"name": name, "describe": str(data.get("describe", "")).strip()})
    return rows


def recipe(request: Request) -> Response:
    """Show a recipe of a suite: its file, and the command that makes it."""
    name = request.query_params.get("name", "")
    head = name.partition("/")[0]
    files = known_suite(head).recipe_files() if head in SUITES.names() else {}
    if name not in files:
        raise VanishedError(f"there is no recipe '{name[:80]}'")
    text = files[name].read_text(encoding="utf-8")
    describe = next((r["describe"] for r in recipes_of(head) if r["name"] == name), "")
    return render(request, "recipe.html", name=name, suite=head, text=text, describe=describe)


EXAMPLES = 2
"""Examples of each split in a preview."""

FIELD = "f."
"""Prefix of the names of fields in a query."""


def new(request: Request) -> Response:
    """Show the form of a suite's fields, with a preview once it is submitted."""
    chosen = known_suite(request.query_params.get("suite", ""))
    sent = "sent" in request.query_params
    if not sent and "from" not in request.query_params:
        base = _starters(chosen.name)[0]["name"]
        base_data = find(base).data
    else:
        base, base_data = _base(request, chosen)
    asked = request.query_params
    entered = changed(_entered(request), asked.get("add", ""), asked.get("remove", ""))
    form = form_of(
        chosen.name, chosen.fields, entered if sent else entered_by(chosen.fields, base_data)
    )
    recipes, starters = recipes_of(chosen.name), _starters(chosen.name)
    if base not in [row["name"] for row in starters]:  # always list the chosen one
        starters = [*[row for row in recipes if row["name"] == base], *starters][:STARTERS]
    return render(
        request,
        "form.html",
        suite=chosen,
        recipes=recipes,
        starters=starters,
        base=base,
        form=form,
        seed=whole_number(request, "seed"),
        preview=_preview(request, form, base, base_data) if sent else None,
    )


STARTERS = 6
"""Number of recipes that a form offers first as starting points."""


@cache
def _starters(name: str) -> list[dict[str, str]]:
    """Starting points: recipes that a form shows best, evenly spread over the suite's list."""
    suite = SUITES.get(name)
    rows = recipes_of(name)
    forms = [
        form_of(name, suite.fields, entered_by(suite.fields, find(r["name"]).data)) for r in rows
    ]
    best = max(form.ease for form in forms)
    easy = [row for row, form in zip(rows, forms, strict=True) if form.ease == best]
    return (
        [easy[i * len(easy) // STARTERS] for i in range(STARTERS)] if len(easy) > STARTERS else easy
    )


def preview(request: Request) -> Response:
    """Return the preview as a part of the form's page."""
    chosen = known_suite(request.query_params.get("suite", ""))
    base, base_data = _base(request, chosen)
    form = form_of(chosen.name, chosen.fields, _entered(request))
    return render(request, "preview.html", preview=_preview(request, form, base, base_data))


def _base(request: Request, suite: Suite) -> tuple[str, dict[str, Any]]:
    """The recipe that the form starts from, and its data. Both are empty for an empty form."""
    name = request.query_params.get("from", "")
    if not name:
        return "", {}
    if name not in suite.recipe_files():
        raise VanishedError(f"there is no recipe '{name[:80]}' of {suite.name}")
    return name, find(name).data


def _entered(request: Request) -> dict[str, list[str]]:
    entered: dict[str, list[str]] = {}
    for key, value in request.query_params.multi_items():
        if key.startswith(FIELD):
            entered.setdefault(key.removeprefix(FIELD), []).append(value)
    return entered


def _open_group(request: Request, data: Mapping[str, Any]) -> str:
    """Name of the group of the recipe that is open in the form; empty if it has no name."""
    place = request.query_params.get("open", "").partition("groups.")
    groups = data.get("groups")
    if place[0] or not place[2].isdecimal() or not isinstance(groups, list):
        return ""
    number = int(place[2][:6])
    group = groups[number] if number < len(groups) else None
    return str(group.get("name", "")) if isinstance(group, Mapping) else ""


def _preview(
    request: Request, form: RecipeForm, base: str, base_data: Mapping[str, Any]
) -> dict[str, Any]:
    """The recipe file, the command, and either the first examples of each split or the error
    message.
    """
    short = command(form, base, base_data) if base else ""
    shown: dict[str, Any] = {
        "yaml": form.yaml(),
        "command": short or "taskloom make my-recipe.yaml -o data/my-recipe",
        "problem": next(iter(form.problems.values()), ""),
        "field": next(iter(form.problems), ""),
        "splits": [],
        "warnings": [],
        "more": 0,
        "digest": "",
    }
    if shown["problem"]:
        return shown
    try:
        preview = state_of(request).previews.request(
            "preview",
            recipe=to_jsonable_python(form.data),
            seed=whole_number(request, "seed"),
            n=EXAMPLES,
            group=_open_group(request, form.data),
        )
    except TaskloomError as error:
        return {**shown, "problem": str(error), "field": form.field_of(str(error))}
    splits = [
        {
            **split,
            "examples": [
                example_parts(example_of(one), one["picture"]) for one in split["examples"]
            ],
        }
        for split in preview["splits"]
    ]
    return {**shown, **preview, "splits": splits}
