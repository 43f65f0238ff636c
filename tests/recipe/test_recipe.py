from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskloom as tl
from taskloom.cli import run
from taskloom.core.errors import RecipeError, TaskloomError
from taskloom.recipe import Recipe, Span, read
from taskloom.recipe.recipe import names


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_recipe_prints_its_suite_by_name() -> None:
    assert "suite=<Suite ctl>" in repr(tl.Recipe("ctl/A"))


def test_digest_ignores_spelling_and_sees_every_field(tmp_path: Path) -> None:
    plain = read("ctl/A").digest
    spelt = write(
        tmp_path / "mine.yaml",
        "suite: ctl\nvariant: A\nmax_length: 6\ndraw: published\ninclude_singles:"
        " false\ninclude_pairs: added\ndescribe: other words\nseed: 5\nsplits: {train: {n: 300000},"
        " iid: {n: 1000}, ood: {n: 1000}, all: {n: 1000}, pairs: {n: every}, all-pairs: {n:"
        " every}}\n",
    )
    assert read(spelt).digest == plain
    assert read(spelt).seed == 5
    assert read("ctl/A", ["max_length=5"]).digest != plain


def test_recipes_rebuild_from_their_dictionary() -> None:
    for name in names():
        recipe = read(name)
        again = Recipe.from_dict(recipe.to_dict())
        assert again.digest == recipe.digest
        assert again.name == name


def test_a_recipe_of_another_version_is_refused() -> None:
    said = read("ctl/A").to_dict() | {"version": 99}
    with pytest.raises(RecipeError, match="version 99"):
        Recipe.from_dict(said)


def test_extends_merges_deeply(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.yaml", "extends: ctl/A-independent\nsplits: {train: {n: 1234}}\n")
    sizes = {s.name: s.n for s in read(path).plan(0).splits}
    assert sizes["train"] == 1234
    assert sizes["iid"] == 1000


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"max_length": 5}, ["max_length=5"]),
        ({"splits.train.n": 500}, ["splits.train.n=500"]),
        (
            {"splits": {"train": {"n": 500}, "iid": {"n": 5}}},
            ["splits={train: {n: 500}, iid: {n: 5}}"],
        ),
        (
            {"splits": {"train": {"n": 9}}, "splits.train.n": 500},
            ["splits={train: {n: 9}}", "splits.train.n=500"],
        ),
        (
            {"splits.train.n": 500, "splits": {"train": {"n": 9}}},
            ["splits.train.n=500", "splits={train: {n: 9}}"],
        ),
        ({"described.unseen": ("a q", "q a")}, ["described={unseen: [a q, q a]}"]),
    ],
)
def test_set_takes_fields_or_text(fields: dict[str, Any], text: list[str]) -> None:
    assert read("ctl/A", fields).digest == read("ctl/A", text).digest != read("ctl/A").digest


def test_set_leaves_the_given_fields_alone() -> None:
    fields: dict[str, Any] = {"splits": {"train": {"n": 9}}, "splits.train.n": 500}
    assert [s.n for s in read("ctl/A-independent", fields).plan(0).splits] == [500]
    assert fields == {"splits": {"train": {"n": 9}}, "splits.train.n": 500}


def test_a_set_that_is_one_text_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"write a list of changes, \['max_length=5'\]"):
        read("ctl/A", "max_length=5")


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("ctl/AA", [], ["no recipe is called 'ctl/AA'", "'ctl/A'"]),
        ("nothing", [], ["no recipe is called 'nothing'"]),
        ("ctl/A", ["max_lenght=8"], ["unknown key 'max_lenght'", "'max_length'"]),
        ("ctl/A", ["splits.train.m=8"], ["unknown key 'splits.train.m'"]),
        # The keys of a group of stories, and those of a split that is a size.
        ("babi/mix-T12", ["splits.mix=[{n: 9, event: [MOVE]}]"], ["mix.0.event'", "'events'"]),
        ("babi/mix-T12", ["splits.mix={n: 9, events: [MOVE]}"], ["mix.events'; known: n"]),
        ("ctl/A", ["max_length=x"], ["max_length", "not 'x'"]),
        ("ctl/A", ["max_length"], ["key=value"]),
        ("ctl/A", ["=3"], ["key=value"]),
        ("ctl/A", ["splits.train.n.x=3"], ["'n' is a value"]),
        ("ctl/A", ["tables=@nowhere.json"], ["no file nowhere.json"]),
        ("ctl/A", ["max_length=[1"], ["set max_length=[1: the value is not YAML: ", "; quote it"]),
        ("ctl/A", ["extends=ctl/R"], ["not a field"]),
        ("ctl/A", ["splits.train.n=true"], ["splits.train.n"]),
        ("ctl/A", ["tables={a: [true, false]}"], ["tables.a.0"]),
        ("ctl/A", ["symbols=1000000000"], ["symbols"]),
        ("gone.yaml", [], ["no recipe file gone.yaml"]),
        ("gone.py", [], ["no file gone.py"]),
    ],
)
def test_mistakes_name_the_place_and_the_remedy(
    name: str, changes: list[str], words: list[str]
) -> None:
    with pytest.raises(RecipeError if not name.endswith(".py") else Exception) as caught:
        read(name, changes)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("suite: [", ":1"),
        ("- a list\n", "mapping"),
        ("variant: A\n", "one 'suite:' or one 'task:'"),
        ("suite: clt\n", "did you mean 'ctl'"),
        (
            "suite: ctl\nvariant: A\nseed: x\nsplits: {train: {n: 10}}\n",
            "seed must be a whole number",
        ),
        ("task: words/none\n", "no task is called"),
        ("", "mapping"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(RecipeError) as caught:
        read(write(tmp_path / "bad.yaml", text))
    assert word in str(caught.value)
    assert "bad.yaml" in str(caught.value)


def test_recipes_beside_each_other_and_in_circles(tmp_path: Path) -> None:
    write(tmp_path / "base.yaml", "extends: ctl/A\nmax_length: 5\n")
    assert (
        read(write(tmp_path / "child.yaml", "extends: base.yaml\n")).digest
        == read("ctl/A", ["max_length=5"]).digest
    )
    write(tmp_path / "one.yaml", "extends: two.yaml\n")
    with pytest.raises(RecipeError, match="extends itself"):
        read(write(tmp_path / "two.yaml", "extends: one.yaml\n"))


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_bytes(b"suite: \xff\xfe")
    with pytest.raises(RecipeError, match="not UTF-8"):
        read(str(tmp_path / "bad.yaml"))


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfextends: ctl/A\r\n")
    assert read(str(tmp_path / "bom.yaml")).digest == read("ctl/A").digest


@given(st.integers(-99, 99), st.integers(-99, 99))
def test_spans(a: int, b: int) -> None:
    low, high = sorted((a, b))
    span = Span.read(f"{low}..{high}")
    assert list(span) == list(range(low, high + 1))
    assert Span.read(str(span)) == span
    assert low in span
    assert high + 1 not in span


@pytest.mark.parametrize("text", ["3..1", "a..b", "1..", "", True, "1.5"])
def test_bad_spans(text: object) -> None:
    with pytest.raises(ValueError, match="range"):
        Span.read(text)


def test_dotted_changes_merge_with_defaults() -> None:
    fields: Any = read("taskbench/antonyms[eng]", ["shares.test=0.05"]).fields
    assert fields.shares == {"train": 0.8, "dev": 0.1, "test": 0.05}
    assert (
        read("taskbench/antonyms[eng]", ["shares.test=0.1"]).digest
        == read("taskbench/antonyms[eng]").digest
    )
    # a change whole takes the place of the old value, as before
    fields = read("taskbench/antonyms[eng]", ["shares={train: 0.5, test: 0.5}"]).fields
    assert fields.shares == {"train": 0.5, "test": 0.5}


def test_recipes_are_listed_as_people_count(capsys: pytest.CaptureFixture[str]) -> None:
    numbered = [name for name in names() if name.startswith("babi/") and name[5:].isdecimal()]
    assert len(numbered) > 10
    assert numbered == sorted(numbered, key=lambda name: int(name[5:]))
    assert run(["list", "recipes", "--json"]) == 0
    listed = [row["name"] for row in json.loads(capsys.readouterr().out)["recipes"]]
    assert [name for name in listed if name in numbered] == numbered


def test_recipes_are_sorted_as_people_count() -> None:
    from taskloom.recipe import names

    numbered = [name for name in names() if name.removeprefix("babi/").isdecimal()]
    assert numbered == [f"babi/{number}" for number in range(1, 21)]


def test_scientific_notation_without_a_dot_is_a_number() -> None:
    assert read("ctl/A", ["fill=1e-1"]).digest == read("ctl/A", {"fill": 0.1}).digest
    assert (
        read("zest/synthetic", ["shares={normal: 5e-1}"]).digest
        == read("zest/synthetic", ["shares.normal=0.5"]).digest
    )


def test_a_name_with_half_of_a_character_is_refused_in_one_sentence() -> None:
    with pytest.raises(TaskloomError, match="half of a surrogate pair"):
        tl.make("ctl/A", set={"splits": {"\ud800": {"n": 3}}})
    with pytest.raises(TaskloomError, match="half of a surrogate pair"):
        tl.run(recipes=["ctl/A"], learners=["bilstm"], grid={"\ud800": [1]})
