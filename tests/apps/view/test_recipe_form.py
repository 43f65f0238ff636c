"""The form of a recipe: generated from the fields, checked, previewed within bounds, and written as
a file or a command.
"""

from __future__ import annotations

import re
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
    assert controls["variant"].options == tuple((name, "") for name in ("A", "R", "S", "length"))
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


@pytest.mark.parametrize("name", ["babi/mix-T7", "babi/1", "ctl/A-independent"])
def test_an_untouched_recipe_has_a_short_command(name: str) -> None:
    suite, data = SUITES.get(name.partition("/")[0]), find(name).data
    form = form_of(suite.name, suite.fields, entered_by(suite.fields, data))
    assert command(form, name, data) == f"taskloom make {name} -o data/{name.replace('/', '-')}"
    assert check(form.data, "form", "form").fields == read(name).fields


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


STORY = {
    "f.groups.0.n": "100",
    "f.groups.0.events": ["", "MOVE", "GRAB"],
    "f.groups.0.questions": ["", "where-P"],
    "f.splits.0.": "test",
    "f.splits.0.n": "20",
}
"""What a browser sends for a group of stories and one split."""


def test_groups_of_stories_are_entered_with_ticks_and_numbers(viewer: TestClient) -> None:
    form = viewer.get("/recipe/new", params={"suite": "babi", "sent": "1", **STORY}).text
    assert "groups" not in re.findall(r'<textarea[^>]* name="f\.([^"]*)"', form)
    ticked = re.findall(r'name="f\.groups\.0\.events" value="(\w+)" checked', form)
    assert ticked == ["MOVE", "GRAB"]
    answer = viewer.get("/recipe/preview", params={"suite": "babi", **STORY})
    page = unescape(answer.text)
    assert "A valid recipe: test 20" in page
    assert "events: [MOVE, GRAB]" in page


@pytest.mark.parametrize("place", [0, 1])
def test_the_open_group_is_previewed_first(viewer: TestClient, place: int) -> None:
    groups: dict[str, Any] = {}
    for number, name in enumerate(("walks", "things")):
        old = {key: value for key, value in STORY.items() if ".groups.0." in key}
        groups |= {key.replace("s.0.", f"s.{number}."): value for key, value in old.items()}
        groups[f"f.groups.{number}.name"] = name
    splits: dict[str, Any] = {key: value for key, value in STORY.items() if ".splits." in key}
    query = {"suite": "babi", **groups, **splits, "open": f"groups.{place}"}
    page = viewer.get("/recipe/preview", params=query).text
    assert "A valid recipe: test 20" in page
    shown = re.findall(r'class="more">group (\w+)<', page)
    assert shown == [["walks", "things"][place]] * 2


def test_weights_are_those_of_ticked_names_that_are_not_equally_frequent() -> None:
    suite = SUITES.get("babi")
    entered = {
        "groups.0.events": ["MOVE", "GRAB"],
        "groups.0.events.MOVE": ["0.5"],
        "groups.0.events.DROP": ["9"],
    }
    plain = form_of("babi", suite.fields, entered).data["groups"]
    assert plain == [{"events": ["MOVE", "GRAB"]}]
    weighted = form_of("babi", suite.fields, {**entered, "groups.0.events.weighted": ["on"]})
    assert weighted.data["groups"] == [{"events": {"MOVE": 0.5, "GRAB": 1}}]


def test_nothing_ticked_is_nothing_and_not_the_default(viewer: TestClient) -> None:
    answer = viewer.get(
        "/recipe/preview", params={"suite": "babi", **STORY, "f.groups.0.events": ""}
    )
    page = unescape(answer.text)
    assert 'data-problem="groups.0.events"' in page
    assert "at least one event or construct" in page


def test_an_error_in_a_split_is_shown_at_the_split(viewer: TestClient) -> None:
    answer = viewer.get("/recipe/preview", params={"suite": "babi", **STORY, "f.splits.0.n": "-1"})
    assert 'data-problem="splits.0.n"' in answer.text
    twice = {"f.splits.1.": "test", "f.splits.1.n": "5"}
    answer = viewer.get("/recipe/preview", params={"suite": "babi", **STORY, **twice})
    assert 'data-problem="splits"' in answer.text


def test_a_member_is_added_as_a_copy_and_removed_again(viewer: TestClient) -> None:
    query = {"suite": "babi", "sent": "1", **STORY}
    two = viewer.get("/recipe/new", params={**query, "add": "splits"}).text
    assert re.findall(r'name="f\.splits\.(\d)\.n" value="(\d+)"', two) == [("0", "20"), ("1", "20")]
    both = {**query, "f.splits.1.": "other", "f.splits.1.n": "7"}
    one = viewer.get("/recipe/new", params={**both, "remove": "splits.0"}).text
    assert re.findall(r'name="f\.splits\.\d\.n" value="(\d+)"', one) == ["7"]


def test_what_the_form_has_no_control_for_is_entered_as_yaml() -> None:
    suite = SUITES.get("babi")
    splits = {"test": [{"n": 3, "events": ["MOVE"]}]}
    form = form_of("babi", suite.fields, entered_by(suite.fields, {"splits": splits}))
    assert form.data["splits"] == splits
    assert next(one for one in form.fields if one.path == "splits").value


@pytest.mark.parametrize("name", ["groups.x.n", "groups.9999.n", "groups..n", "groups.0"])
def test_strange_names_of_fields_are_no_members(name: str) -> None:
    form = form_of("babi", SUITES.get("babi").fields, {name: ["1"]})
    assert "groups" not in form.data


def test_too_many_members_are_refused_in_a_sentence(viewer: TestClient) -> None:
    many = {f"f.groups.{i}.n": "1" for i in range(60)}
    page = viewer.get("/recipe/preview", params={"suite": "babi", **many}).text
    assert "at most 50" in page
