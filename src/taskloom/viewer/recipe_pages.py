"""The home page, and pages of suites and recipes."""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml
from starlette.requests import Request
from starlette.responses import Response

from taskloom.errors import TaskloomError
from taskloom.recipe.finder import counting_order
from taskloom.recipe.yaml_files import parse
from taskloom.registry import SUITES, Suite
from taskloom.viewer.folders import VanishedError, ViewedFolder
from taskloom.viewer.page_templates import render
from taskloom.viewer.shared_state import state_of
from taskloom.viewer.viewed_datasets import open_dataset

LISTED = 200
"""Datasets and stores that the home page lists."""


def home(request: Request) -> Response:
    """Show what there is: suites, and the datasets and stores of the folders."""
    folders = state_of(request).folders
    datasets = folders.of_kind("dataset")
    stores = folders.of_kind("store")
    return render(
        request,
        "home.html",
        suites=[{"suite": one, "recipes": len(one.recipe_files())} for one in SUITES],
        datasets=[summary(one) for one in datasets[:LISTED]],
        stores=stores[:LISTED],
        more=max(0, len(datasets) - LISTED) + max(0, len(stores) - LISTED),
        roots=[str(root) for root in folders.roots],
    )


def summary(folder: ViewedFolder) -> dict[str, Any]:
    """Return a line on a dataset: its recipe, seed and sizes, or what is wrong with it."""
    try:
        data = open_dataset(folder)
    except (TaskloomError, OSError) as error:
        return {"folder": folder, "problem": str(error), "title": "", "sizes": [], "n": 0}
    sizes = [(name, rows.n) for name, rows in data.splits.items()]
    return {"folder": folder, "problem": "", "title": data.title, "sizes": sizes, "n": sum(n for _, n in sizes)}


def suite(request: Request) -> Response:
    """Show a suite: what it is, its recipes."""
    found = known_suite(request.query_params.get("name", ""))
    return render(request, "suite.html", suite=found, recipes=recipes_of(found.name))


def known_suite(name: str) -> Suite:
    """Return an installed suite; raise a `VanishedError` for any other name."""
    if name not in SUITES.names():  # never `find`, which would import what a path names
        raise VanishedError(f"there is no suite '{name[:80]}'; known: {', '.join(SUITES.names())}")
    return SUITES.get(name)


@cache
def recipes_of(suite: str) -> list[dict[str, str]]:
    """Return the recipes of a suite, each with its line for people."""
    files = SUITES.get(suite).recipe_files()
    rows = []
    for name in sorted(files, key=counting_order):
        data = parse(files[name].read_text(encoding="utf-8"))
        rows.append({"name": name, "describe": str(data.get("describe", "")).strip()})
    return rows


def recipe(request: Request) -> Response:
    """Show a recipe of a suite: its file, and a look at what it makes."""
    name = request.query_params.get("name", "")
    head = name.partition("/")[0]
    files = known_suite(head).recipe_files() if head in SUITES.names() else {}
    if name not in files:
        raise VanishedError(f"there is no recipe '{name[:80]}'")
    text = files[name].read_text(encoding="utf-8")
    describe = next((r["describe"] for r in recipes_of(head) if r["name"] == name), "")
    return render(request, "recipe.html", name=name, suite=head, text=text, describe=describe)


def as_yaml(value: Any) -> str:
    """Return a value as people write it in a recipe."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100).strip()
