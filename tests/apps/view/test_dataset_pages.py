"""Datasets in the browser: the right rows, nothing outside of the folders, nothing that
executes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from html import unescape
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import taskloom as tl
from taskloom.apps.view import datasets
from taskloom.apps.view.folders import ViewedFolders
from taskloom.apps.view.prediction_rows import lit_story
from taskloom.apps.view.recipe_pages import told_apart
from taskloom.apps.view.server import application
from taskloom.apps.view.suite_process import SuiteProcess, SuiteProcessError
from taskloom.core.errors import DataError, TaskloomError
from taskloom.core.registry import SUITES
from tests.apps.view.hostile import EXAMPLES, QUOTES, SCRIPT, TRAITS, assert_harmless, write_dataset


def texts(page: str, css: str) -> list[str]:
    """Return the texts of all elements of a class."""
    return [
        unescape(re.sub("<[^>]*>", "", t)) for t in re.findall(f'class="{css}"[^>]*>(.*?)</', page)
    ]


def open_folder(folder: Path) -> datasets.ViewedDataset:
    [one] = ViewedFolders([folder]).every()
    return datasets.open_dataset(one)


def test_home_lists_suites_datasets_and_their_splits(client: TestClient) -> None:
    page = client.get("/").text
    for word in ("ctl/A-independent, seed 0", "4,560", "babi/15, seed 0", "taskbench", "zest"):
        assert word in page


def test_every_page_of_every_suite_and_recipe_opens(client: TestClient) -> None:
    page = client.get("/suite?name=ctl").text
    recipes = re.findall(r'href="(/recipe\?name=[^"]+)"', page)
    assert len(recipes) >= 8
    assert "variant" in client.get(unescape(recipes[0])).text


@pytest.mark.parametrize("start", [0, 25, 990, 1000, 2_037, 4_499])
def test_a_page_has_the_rows_of_the_dataset(
    client: TestClient, folder: Path, names: dict[str, str], start: int
) -> None:
    page = client.get(f"/data/{names['ctl']}/rows?split=train&start={start}").text
    low = start // 25 * 25
    wanted = [e.input for e in list(tl.load(folder / "ctl")["train"])[low : low + 25]]
    assert texts(page, "row-text") == wanted


@settings(max_examples=15)
@given(st.integers(0, 5_000), st.integers(1, 60))
def test_reading_rows_equals_slicing_them(folder: Path, start: int, count: int) -> None:
    [one] = [f for f in ViewedFolders([folder]).every() if f.path.name == "ctl"]
    rows = datasets.open_dataset(one).split("train").read(start, count)
    table = tl.load(folder / "ctl").table("train").slice(start, count)
    assert [r.index for r in rows] == table["index"].to_pylist()
    assert [r.example.input for r in rows] == table["input"].to_pylist()


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("q=a b", lambda e: "a b" in e.input.lower()),
        ("trait.length=3", lambda e: e.traits["length"] == 3),
        ("trait.length=5..", lambda e: e.traits["length"] >= 5),
        (
            "trait.length=2..3&trait.seen=true",
            lambda e: e.traits["length"] in (2, 3) and e.traits["seen"],
        ),
        ("trait.groups=a b", lambda e: e.traits["groups"] == "a b"),
        ("trait.length=few", lambda e: False),
    ],
)
def test_search_and_filters_find_what_a_loop_finds(
    client: TestClient, folder: Path, names: dict[str, str], query: str, holds: object
) -> None:
    examples = list(tl.load(folder / "ctl")["train"])
    wanted = [e.input for e in examples if holds(e)]  # type: ignore[operator]
    shown: list[str] = []
    address: str | None = f"/data/{names['ctl']}/rows?split=train&{query}"
    while address:
        page = client.get(address).text
        shown += texts(page, "row-text")
        more = re.search(r'rel="next" href="([^"]+)"', page)
        address = unescape(more[1]) if more else None
        if len(shown) > 60:
            wanted, shown = wanted[: len(shown)], shown
            break
    assert shown == wanted


def test_an_example_is_drawn_as_its_suite_draws_it(
    client: TestClient, names: dict[str, str]
) -> None:
    chain = client.get(f"/data/{names['ctl']}/example?split=ood&index=7").text
    assert 'class="chain"' in chain
    story = client.get(f"/data/{names['babi']}/example?split=test&index=1").text
    assert 'class="lit"' in story
    assert "from sentences" in story
    tree = client.get(f"/data/{names['hostile']}/example?index=0").text
    assert 'class="tree"' in tree


def test_nothing_from_data_is_markup(client: TestClient, names: dict[str, str]) -> None:
    pages = [
        client.get("/"),
        client.get(f"/data/{names['hostile']}"),
        client.get(f"/data/{names['hostile']}/rows"),
    ]
    pages += [
        client.get(f"/data/{names['hostile']}/example?index={i}") for i in range(len(EXAMPLES))
    ]
    pages.append(
        client.get(f"/data/{names['hostile']}/rows", params={"q": SCRIPT, "trait.kind": QUOTES})
    )
    for answer in pages:
        assert answer.status_code == 200
        assert_harmless(answer.text)
        assert "49" not in texts(answer.text, "row-text")


def test_hidden_characters_are_shown_by_their_codes(
    client: TestClient, names: dict[str, str]
) -> None:
    page = client.get(f"/data/{names['hostile']}/example?index=2").text
    assert '<span class="code-point">U+202E</span>' in page
    assert '<span class="code-point">U+0007</span>' in page


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/data/none", 404),
        ("/data/../../etc/passwd", 404),
        ("/data/%2e%2e%2f%2e%2e", 404),
        ("/static/..%2fapplication.py", 404),
        ("/static/%2e%2e/application.py", 404),
        ("/data/{ctl}/rows?split=../../etc", 404),
        ("/data/{ctl}/example?split=train&index=4500", 404),
        ("/data/{ctl}/example?split=train&index=-1", 422),
        ("/data/{ctl}/rows?start=x", 422),
        ("/data/{ctl}/rows?start=99999999999999999999999", 422),
        ("/data/{ctl}/rows?trait.none=1", 422),
        ("/suite?name=../../x", 404),
        ("/suite?name=/etc/passwd::x", 404),
        ("/recipe?name=ctl/../babi/1", 404),
        ("/recipe?name=/etc/passwd", 404),
    ],
)
def test_addresses_that_lead_nowhere_are_one_sentence(
    client: TestClient, names: dict[str, str], path: str, status: int
) -> None:
    answer = client.get(path.format(**names))
    assert answer.status_code == status
    assert "root:" not in answer.text


def test_links_that_lead_out_of_the_folders_are_not_followed(tmp_path: Path) -> None:
    outside = write_dataset(tmp_path / "outside", EXAMPLES, TRAITS)
    inside = write_dataset(tmp_path / "viewed" / "mine", EXAMPLES, TRAITS)
    os.symlink(outside, tmp_path / "viewed" / "linked")
    assert [f.path.name for f in ViewedFolders([tmp_path / "viewed"]).every()] == ["mine"]
    shard = inside / "test" / "part-00000.parquet"
    shard.unlink()
    os.symlink(outside / "test" / "part-00000.parquet", shard)
    with pytest.raises(DataError, match="leads out of the folder"):
        open_folder(inside)


def test_a_link_to_a_viewed_folder_may_itself_be_viewed(tmp_path: Path) -> None:
    write_dataset(tmp_path / "real", EXAMPLES, TRAITS)
    os.symlink(tmp_path / "real", tmp_path / "link")
    assert open_folder(tmp_path / "link").split("test").n == len(EXAMPLES)


def test_a_folder_that_vanishes_is_one_sentence_and_can_come_back(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "mine", EXAMPLES, TRAITS)
    app = application([tmp_path])
    with TestClient(app, base_url="http://127.0.0.1") as viewer:
        name = next(f.name for f in ViewedFolders([tmp_path]).every())
        assert viewer.get(f"/data/{name}/rows").status_code == 200
        shutil.move(data, tmp_path / "aside")
        answer = viewer.get(f"/data/{name}/rows")
        assert answer.status_code == 404
        assert "it may have been moved" in answer.text
        shutil.move(tmp_path / "aside", data)
        assert viewer.get(f"/data/{name}/rows").status_code == 200
        (data / "test" / "part-00000.parquet").unlink()
        answer = viewer.get(f"/data/{name}/rows")
        assert answer.status_code == 422
        assert "is missing" in answer.text
    app.state.viewer.close()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(50) + b"PAR1", b"not a table"])
def test_damaged_files_are_one_sentence(tmp_path: Path, content: bytes) -> None:
    data = write_dataset(tmp_path / "mine", EXAMPLES, TRAITS)
    (data / "test" / "part-00000.parquet").write_bytes(content)
    with TestClient(application([tmp_path]), base_url="http://127.0.0.1") as viewer:
        name = next(f.name for f in ViewedFolders([tmp_path]).every())
        assert viewer.get("/").status_code == 200
        assert viewer.get(f"/data/{name}").status_code == 200
        assert viewer.get(f"/data/{name}/rows").status_code == 422


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"format": 1}', '{"format": 1, "splits": {"a": {}}}', "\xff"]
)
def test_a_broken_manifest_is_named_on_the_home_page(tmp_path: Path, text: str) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_bytes(text.encode("latin-1"))
    with TestClient(application([tmp_path]), base_url="http://127.0.0.1") as viewer:
        page = viewer.get("/")
        assert page.status_code == 200
        assert "is not a Taskloom manifest" in page.text
        name = next(f.name for f in ViewedFolders([tmp_path]).every())
        assert viewer.get(f"/data/{name}").status_code == 422


def test_files_of_somebody_else_are_read_too(
    client: TestClient, names: dict[str, str], tmp_path: Path
) -> None:
    page = client.get(f"/data/{names['foreign']}/rows?split=test&trait.size=3..9").text
    assert texts(page, "row-text") == ["say 3", "say 4"]
    (tmp_path / "train").mkdir()
    pq.write_table(
        pa.table({"input": ["a", "b"], "targets": [["1"], ["2"]]}), tmp_path / "train" / "x.parquet"
    )
    data = open_folder(tmp_path)
    assert [r.example.target for r in data.split("train").read(0, 5)] == ["1", "2"]


def test_csv_files_with_examples_are_splits_and_other_tables_are_not(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("input,target,size\na b,c,3\nd,e,4\n")
    (tmp_path / "scores.csv").write_text("learner,score\nmajority,0.5\n")
    data = open_folder(tmp_path)
    assert list(data.splits) == ["test"]
    assert [(r.example.input, dict(r.example.traits)) for r in data.split("test").read(0, 5)] == [
        ("a b", {"size": 3}),
        ("d", {"size": 4}),
    ]


def test_lines_that_are_not_json_are_named(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text('{"input": "a", "target": "b"}\nnonsense\n')
    with pytest.raises(DataError, match=r"test\.jsonl:2 is not JSON"):
        open_folder(tmp_path)


def test_code_that_only_a_manifest_names_is_never_run(tmp_path: Path, client: TestClient) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    recipe = {"name": f"{tmp_path / 'evil.py'}", "task": f"{tmp_path / 'evil.py'}::x", "version": 1}
    write_dataset(tmp_path / "data", EXAMPLES, TRAITS, recipe=recipe)
    app = application([tmp_path])
    with TestClient(app, base_url="http://127.0.0.1") as viewer:
        name = next(f.name for f in ViewedFolders([tmp_path]).every())
        assert viewer.get(f"/data/{name}/example?index=0").status_code == 200
        assert viewer.get(f"/recipe?name={tmp_path / 'evil.py'}").status_code == 404
    app.state.viewer.close()
    assert not (tmp_path / "ran").exists()


def test_a_request_that_takes_too_long_ends_and_the_next_one_is_answered() -> None:
    process = SuiteProcess(patience=0.0)
    with pytest.raises(SuiteProcessError, match="takes longer than"):
        process.request("picture", recipe={}, seed=0, example={})
    process.patience = 30
    with pytest.raises(TaskloomError, match="is never run"):
        process.request("picture", recipe={}, seed=0, example={})
    process.close()


def test_what_one_viewer_reads_another_may_read_at_the_same_time(
    folder: Path, names: dict[str, str]
) -> None:
    before = {p: p.stat().st_mtime_ns for p in sorted(folder.rglob("*"))}
    with (
        TestClient(application([folder]), base_url="http://127.0.0.1") as one,
        TestClient(application([folder]), base_url="http://127.0.0.1") as other,
    ):
        for viewer in (one, other, one):
            assert viewer.get(f"/data/{names['ctl']}/rows").status_code == 200
    assert {p: p.stat().st_mtime_ns for p in sorted(folder.rglob("*"))} == before


def test_the_manifest_may_say_anything_and_the_page_still_stands(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "mine", EXAMPLES, TRAITS)
    path = data / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest |= {"warnings": {"a": 1}, "sources": {"a": [1]}, "describe": "", "scorer": SCRIPT}
    manifest["splits"]["test"]["counts"] = {"kind": [1, 2], "other": {"a": "b"}}
    manifest["splits"]["test"].pop("describe")
    manifest["recipe"] = {"name": ["a", {"b": 1}], "describe": 7}
    path.write_text(json.dumps(manifest))
    with TestClient(application([tmp_path]), base_url="http://127.0.0.1") as viewer:
        name = next(f.name for f in ViewedFolders([tmp_path]).every())
        for address in ("/", f"/data/{name}", f"/data/{name}/rows"):
            assert viewer.get(address).status_code == 200


def test_the_sentences_of_the_proof_are_lit_in_the_text(folder: Path) -> None:
    example = tl.load(folder / "nested" / "babi")["test"][0]
    story = SUITES.get("babi").story
    assert story is not None
    picture = story(example)
    assert picture is not None
    asked = {
        "input": example.input,
        "targets": list(example.targets),
        "traits": dict(example.traits),
    }
    process = SuiteProcess()
    try:
        found = process.request("lit", suite="babi", examples=[asked, {**asked, "input": "?"}])
        assert process.request("lit", suite="ctl", examples=[asked]) == {"lit": []}
        assert process.request("lit", suite="/etc/none.py", examples=[asked]) == {"lit": []}
    finally:
        process.close()
    lit = lit_story(example.input, *found["lit"][0])
    used = {place for step in picture.proof for place in step.sentences}
    assert [text for text, marked in lit.pieces if marked] == [
        picture.sentences[place] for place in sorted(used)
    ]
    assert lit.question == picture.question
    assert found["lit"][1] is None


def test_datasets_of_one_recipe_are_told_apart_on_the_home_page() -> None:
    lines = [
        {"title": "ctl/A, seed 0", "fields": {"draw": draw, "symbols": 4}}
        for draw in ("published", "independent")
    ]
    assert [line["title"] for line in told_apart(lines)] == [
        "ctl/A, seed 0, draw published",
        "ctl/A, seed 0, draw independent",
    ]
