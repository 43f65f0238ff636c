"""The form of a recipe: generated from the fields, checked, previewed within bounds, and written as
a file or a command.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.testclient import TestClient

from taskloom.apps.view.recipe_form import command, entered_by, form_of
from taskloom.apps.view.server import application
from taskloom.core.registry import SUITES
from taskloom.recipe import read
from taskloom.recipe.recipe import check, find
from tests.apps.view.hostile import SCRIPT, TEXTS, assert_harmless

RECIPES = [name for suite in SUITES for name in suite.recipe_files()]


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    app = application([tmp_path_factory.mktemp("empty")])
    with TestClient(app, base_url="http://127.0.0.1") as client:
        yield client
    app.state.viewer.close()


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_survives_the_form(name: str) -> None:
    """Loaded into the form and read back, every recipe of ours is the same recipe."""
    suite, data = SUITES.get(name.partition("/")[0]), find(name).data
    form = form_of(suite.name, suite.fields, entered_by(suite.fields, data))
    assert not form.problems
    assert check(yaml.safe_load(form.yaml()), "form", "form").fields == read(name).fields


def test_every_field_of_every_suite_has_a_control_and_a_meaning() -> None:
    for suite in SUITES:
        form = form_of(suite.name, suite.fields, {})
        assert {one.path.partition(".")[0] for one in form.fields} == set(suite.fields.model_fields)
        assert all(one.help for one in form.fields)
    controls = {one.path: one for one in form_of("ctl", SUITES.get("ctl").fields, {}).fields}
    assert controls["variant"].control == "choice"
    assert controls["variant"].options == ("A", "R", "S", "length")
    assert controls["include_singles"].control == "flag"
    assert controls["max_length"].default == "6"
    assert dict(controls["splits"].members).keys() == {"n"}


def test_changes_of_a_recipe_are_a_command() -> None:
    suite, data = SUITES.get("ctl"), find("ctl/A-independent").data
    entered: dict[str, Any] = entered_by(suite.fields, data) | {
        "max_length": ["5"],
        "splits": ["{train: {n: 7}}"],
    }
    form = form_of("ctl", suite.fields, entered)
    words = shlex.split(command(form, "ctl/A-independent", data))
    assert words[:3] == ["taskloom", "make", "ctl/A-independent"]
    changes = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
    assert read("ctl/A-independent", changes).fields == check(form.data, "form", "form").fields


def preview(viewer: TestClient, suite: str, **fields: str) -> str:
    answer = viewer.get(
        "/recipe/preview", params={"suite": suite, **{f"f.{k}": v for k, v in fields.items()}}
    )
    assert answer.status_code == 200
    assert_harmless(answer.text)
    return unescape(answer.text)


def test_a_right_recipe_is_previewed_with_its_first_examples(viewer: TestClient) -> None:
    page = preview(
        viewer, "ctl", variant="A", splits="{train: {n: 600}, ood: {n: 9}}", max_length="3"
    )
    assert "A valid recipe: train 600, ood 9" in page
    assert page.count('class="chain"') == 4
    fields = {"variant": "A", "splits": {"train": {"n": 600}, "ood": {"n": 9}}, "max_length": 3}
    plan = check({"suite": "ctl", **fields}, "x", "x").plan(0)
    first: Any = plan.split("train").rows(0, 1)
    assert first["input"][0].as_py() in page


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"variant": "B"}, "variant", "should be 'A', 'R', 'S' or 'length'"),
        ({"variant": "A", "splits": "{train: {n: -1}}"}, "splits", "greater than or equal to 0"),
        ({"variant": "A", "splits": "{train"}, "splits", "is not YAML"),
        ({"variant": "A", "max_length": SCRIPT}, "max_length", "should be a whole number"),
        ({}, "variant", "is required"),
        ({"variant": "A", "splits": "{train: {n: 10, n: 20}}"}, "splits", "twice"),
    ],
)
def test_a_wrong_field_is_named_with_its_sentence(
    viewer: TestClient, fields: dict[str, str], field: str, words: str
) -> None:
    page = preview(viewer, "ctl", **fields)
    assert f'data-problem="{field}"' in page
    assert words in page


@pytest.mark.parametrize(
    "text",
    [
        "!!set .nan",
        "!!omap a",
        "!!binary 7f8=",
        "!!binary /w==",
        "? [a]\n: b",
        "2020-01-01",
        ".nan",
        "!!python/name:os.system x",
        "*a",
    ],
)
def test_what_yaml_can_say_and_a_recipe_cannot_is_one_sentence(
    viewer: TestClient, text: str
) -> None:
    for field in ("variant", "symbols", "splits"):
        assert "Not a recipe yet." in preview(viewer, "ctl", **{field: text})


def test_a_preview_opens_no_file_and_asks_no_server(viewer: TestClient, tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text("name: secret\nwords: top-secret\n")
    assert "does not open files" in preview(viewer, "zest", files=f"{{train: {secret}}}")
    assert "does not open files" in preview(viewer, "zest", domains=f"[{secret}]")
    assert "does not ask other servers" in preview(
        viewer, "taskbench", functions="[father]", facts="http://127.0.0.1:1/sparql"
    )


def test_what_takes_too_long_is_ended_and_the_next_preview_comes(viewer: TestClient) -> None:
    state = viewer.app.state.viewer  # type: ignore[attr-defined]
    # None at all: a fast machine answers within a millisecond.
    patience, state.previews.patience = state.previews.patience, 0.0
    try:
        assert "takes longer than" in preview(
            viewer, "ctl", variant="A", splits="{train: {n: 600}}"
        )
    finally:
        state.previews.patience = patience
    assert "A valid recipe" in preview(viewer, "ctl", variant="A", splits="{train: {n: 600}}")


def test_the_form_shows_what_was_entered_and_nothing_of_it_is_markup(viewer: TestClient) -> None:
    for text in TEXTS:
        query = {
            "suite": "ctl",
            "sent": "1",
            "f.variant": text,
            "f.splits": text,
            "f.nonsense": text,
            "seed": "1",
        }
        answer = viewer.get("/recipe/new", params=query)
        assert answer.status_code == 200
        assert_harmless(answer.text)
    assert viewer.get("/recipe/new", params={"suite": SCRIPT}).status_code == 404
    assert viewer.get("/recipe/new", params={"suite": "ctl", "from": "babi/1"}).status_code == 404
    assert (
        viewer.get("/recipe/preview", params={"suite": "ctl", "from": "/etc/passwd"}).status_code
        == 404
    )


@pytest.mark.parametrize("suite", ["babi", "ctl", "taskbench", "zest"])
def test_the_form_of_every_suite_opens(viewer: TestClient, suite: str) -> None:
    page = viewer.get("/recipe/new", params={"suite": suite}).text
    for name in SUITES.get(suite).fields.model_fields:
        assert f"f.{name}" in page


def test_a_long_form_folds_what_has_its_default_and_no_problem() -> None:
    suite = SUITES.get("babi")
    entered = entered_by(suite.fields, find("babi/mix-T7").data)
    form = form_of("babi", suite.fields, {**entered, "window": ["{"]})
    shown = [one.path for _, fields in form.parts() for one in fields]
    folded = [one.path for _, fields in form.parts(folded=True) for one in fields]
    assert {"groups", "splits", "window"} <= set(shown)
    assert "tested_by" in folded
    assert sorted([*shown, *folded]) == sorted(one.path for one in form.fields)
    assert "*id" not in form.yaml()
