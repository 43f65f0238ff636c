"""Any address with any query: no 500, nothing that executes, nothing from outside of the
folders.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import Route
from starlette.testclient import TestClient

from taskloom.apps.view import suite_process
from taskloom.apps.view.folders import ViewedFolders
from taskloom.apps.view.server import application
from tests.apps.view.hostile import EXAMPLES, SCRIPT, TEXTS, TRAITS, assert_harmless, write_dataset
from tests.apps.view.hostile_runs import fill

BESIDE = "the-text-outside-of-the-folders"


@dataclass(frozen=True, slots=True)
class Target:
    """A viewer with hostile data, a secret beside its folder, and the words that addresses are made
    of.
    """

    viewer: TestClient
    names: list[str]
    runs: list[str]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    base = tmp_path_factory.mktemp("fuzzed")
    (base / "secret.yaml").write_text(BESIDE)
    folder = base / "viewed"
    write_dataset(folder / "data", EXAMPLES, TRAITS)
    runs = fill(folder / "runs")
    (folder / "link.yaml").symlink_to(base / "secret.yaml")
    app = application([folder])
    names = [one.name for one in ViewedFolders([folder]).every()]
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=True) as viewer:
        yield Target(viewer, names, [run for digests in runs.values() for run in digests])
    app.state.viewer.close()


ROUTES = sorted(route.path for route in application([Path()]).routes if isinstance(route, Route))

NAMES = (
    "split index start q run a b by x y show recipe learner name suite from seed token sent"
    " f.variant f.splits f.groups"
)

KEYS = st.sampled_from([*NAMES.split(), "trait.length", "trait.kind", f"trait.{SCRIPT}"])

WORDS = [
    *(
        "test",
        "train",
        SCRIPT,
        *TEXTS,
        "0",
        "1",
        "-1",
        "5",
        "99999999999999999",
        "1e9",
        "nan",
        "length",
        "kind",
        "task",
    ),
    *(
        "../../secret.yaml",
        "/etc/passwd",
        "..%2f..%2fsecret.yaml",
        "..",
        ".",
        "%00",
        "\x00",
        "\ud7ff",
        "a" * 3_000,
    ),
    *(
        "ctl",
        "ctl/A",
        "babi",
        "zest/synthetic",
        "wrong",
        "right",
        "a",
        "both",
        "2..3",
        "..",
        "null",
        "true",
        "{",
        "[[[",
    ),
    *("{train: {n: 600}}", "A", "secret.yaml::x", "link.yaml", "data", "runs", "weak", "0" * 32),
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_no_address_is_a_500_or_leads_outside(target: Target, data: st.DataObject) -> None:
    values = st.one_of(
        st.sampled_from([*WORDS, *target.names, *target.runs]),
        st.text(st.characters(codec="utf-8"), max_size=20),
    )
    route = data.draw(st.sampled_from(ROUTES))
    name = data.draw(st.one_of(st.sampled_from(target.names), values))
    path = route.replace("{name}", name).replace("{file}", name)
    query = data.draw(st.lists(st.tuples(KEYS, values), max_size=6))
    answer = target.viewer.get(
        "http://127.0.0.1" + _quoted(path), params=tuple(query), follow_redirects=False
    )
    assert answer.status_code in (200, 303, 307, 404, 405, 422), (path, query)
    assert BESIDE not in answer.text
    assert "root:x:" not in answer.text
    if answer.headers["content-type"].startswith("text/html"):
        assert_harmless(answer.text)


def _quoted(path: str) -> str:
    """Quote what a client may not send, and nothing else: dots and percent signs are part of the
    attack.
    """
    return quote(path, safe="/%.:;,=&+$!'()*@~-_")


def test_the_fuzz_meets_the_pages_and_not_only_their_refusals(target: Target) -> None:
    """What it draws from is right: with fitting words every route answers."""
    assert suite_process.PATIENCE > 1
    data, store = sorted(target.names)
    query = {"split": "test", "run": target.runs[0], "suite": "ctl", "index": "0"}
    for route in ROUTES:
        path = route.replace("{name}", store if route.startswith("/runs") else data).replace(
            "{file}", "viewer.css"
        )
        name = {"/suite": "ctl", "/recipe": "ctl/A"}.get(route, "")
        assert target.viewer.get(path, params={**query, "name": name}).status_code == 200, route
