"""The routes of the viewer as an OpenAPI description, fuzzed by schemathesis where it is installed:
no 500.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from taskloom.apps.view.folders import ViewedFolders
from taskloom.apps.view.server import application
from tests.apps.view.hostile import EXAMPLES, TRAITS, write_dataset
from tests.apps.view.hostile_runs import fill

schemathesis = pytest.importorskip("schemathesis", reason="pip install schemathesis")

pytestmark = pytest.mark.slow

REQUESTS = 150
"""Requests to each route."""

QUERIES = {
    "/suite": {"name": "text"},
    "/recipe": {"name": "text"},
    "/recipe/new": {
        "suite": "suite",
        "from": "text",
        "sent": "text",
        "seed": "text",
        "f.variant": "text",
        "f.splits": "text",
    },
    "/recipe/preview": {
        "suite": "suite",
        "from": "text",
        "open": "text",
        "seed": "text",
        "f.variant": "text",
        "f.splits": "text",
    },
    "/data/{name}/rows": {"split": "text", "q": "text", "start": "text", "trait.kind": "text"},
    "/data/{name}/example": {"split": "text", "index": "text"},
    "/runs/{name}": {"q": "text", "start": "text"},
    "/runs/{name}/run": {"run": "run"},
    "/runs/{name}/predictions": (
        dict.fromkeys(["split", "q", "show", "by", "start", "trait.length"], "text")
        | {"run": "run"}
    ),
    "/runs/{name}/compare": (
        dict.fromkeys(["split", "q", "show", "by", "start"], "text") | {"a": "run", "b": "run"}
    ),
    "/runs/{name}/heat": dict.fromkeys(["recipe", "learner", "split", "x", "y"], "text"),
}


def description(app: Starlette, names: list[str], runs: list[str]) -> dict[str, Any]:
    """Describe the routes: which parameters they take, and that they answer with a page or a
    refusal.
    """
    kinds: dict[str, Any] = {
        "text": {"type": "string"},
        "run": {"enum": [*runs, "none"]},
        "suite": {"enum": ["ctl", "zest", "none"]},
    }
    name = {"enum": names}  # other names are the business of test_fuzz.py
    paths: dict[str, Any] = {}
    for route in app.routes:
        if not isinstance(route, Route):
            continue
        inside = [
            {"name": p, "in": "path", "required": True, "schema": name}
            for p in route.param_convertors
        ]
        query = [
            {"name": key, "in": "query", "schema": kinds[kind]}
            for key, kind in QUERIES.get(route.path, {}).items()
        ]
        answers = {code: {"description": ""} for code in ("200", "303", "404", "422")}
        paths[route.path] = {"get": {"parameters": inside + query, "responses": answers}}
    return {"openapi": "3.0.3", "info": {"title": "viewer", "version": "1"}, "paths": paths}


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    base = tmp_path_factory.mktemp("described")
    write_dataset(base / "data", EXAMPLES, TRAITS)
    runs = [run for digests in fill(base / "runs").values() for run in digests]
    app = application([base])
    described = description(app, [one.name for one in ViewedFolders([base]).every()], runs)

    def openapi(request: Request) -> JSONResponse:
        return JSONResponse(described)

    app.router.routes.append(Route("/openapi.json", openapi))
    yield schemathesis.openapi.from_asgi("/openapi.json", app, headers={"host": "127.0.0.1"})
    app.state.viewer.close()


def test_no_described_request_is_a_500(schema: Any) -> None:
    met: set[int] = set()
    for operation in schema.get_all_operations():
        answers = _fuzz(operation.ok())
        assert max(answers) < 500, operation.ok().path
        met |= set(answers)
    assert {200, 404, 422} <= met


def _fuzz(operation: Any) -> list[int]:
    """Return the statuses of the answers to requests that schemathesis makes up."""
    answers: list[int] = []

    @settings(
        max_examples=REQUESTS,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        deadline=None,
    )
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        answers.append(case.call(headers={"host": "127.0.0.1"}).status_code)

    ask()
    return answers
