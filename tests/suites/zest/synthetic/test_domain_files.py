"""Domains of one's own: what is made of them, and what is said about one that cannot be used."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from taskloom.core.errors import RecipeError
from taskloom.core.seeding import Key
from taskloom.suites.zest.fields import ZestFields
from taskloom.suites.zest.synthetic import domain_files
from taskloom.suites.zest.synthetic.domain_files import (
    FOLDER,
    domain_names,
    find_domain,
    load_domain,
)
from taskloom.suites.zest.synthetic.domain_files import problems as domain_problems
from taskloom.suites.zest.synthetic.plan import check, plan
from taskloom.suites.zest.synthetic.task_world import task_world

PAGE = Path(__file__).parents[4] / "docs" / "suites" / "zest.md"
SIZES = {"train": 40, "dev": 0, "test": 0}
PARKS: dict[str, Any] = yaml.safe_load((FOLDER / "parks.yaml").read_text(encoding="utf-8"))
AREA, HEIGHT, LOWEST = PARKS["attributes"][:3]
FOUNDER = next(a for a in PARKS["attributes"] if a["name"] == "founder")
TRAIL, CAMP = PARKS["records"]
FORTS = PARKS | {
    "name": "forts",
    "attributes": [AREA, HEIGHT, LOWEST],
    "records": [TRAIL, CAMP],
    "rules": [],
}


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Domains that a test loads are not there for the next one."""
    monkeypatch.setattr(domain_files, "_LOADED", {})


def lighthouses() -> str:
    """The domain that the page shows."""
    return (
        PAGE.read_text(encoding="utf-8").split("lighthouses.yaml <<'END'\n")[1].split("\nEND\n")[0]
    )


def agree(path: Path) -> None:
    """Make tasks of a domain, and read every passage again."""
    world = task_world(
        ZestFields.model_validate(
            {"domains": [str(path)], "tasks": SIZES, "passages": 4, "unseen": "program"}
        ),
        Key("x", 0),
    )
    for task in world.splits["train"]:
        for i in range(world.passages):
            example = world.example(task, i)
            assert check(example) == example.targets, example.input


def test_a_domain_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "castles.yaml"
    path.write_text(
        yaml.safe_dump(
            PARKS | {"name": "castles", "noun": "castle", "short": "castle", "rules": []}
        )
    )
    recipe = ZestFields.model_validate(
        {"domains": [str(path)], "tasks": SIZES, "passages": 4, "unseen": "program"}
    )
    made = plan(recipe, Key("x", 0))
    examples = list(made.split("train").rows(0, 160))
    assert {e.traits["domain"] for e in examples} == {"castles"}
    assert all("this castle" in e.question for e in examples)
    assert all(check(e) == e.targets for e in examples)
    assert [s.digest for s in made.sources] == [load_domain(path)[0]]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "parks"}, "already named"),
        ({"heads": ["A", "B"]}, "fewer than 9 heads"),
        ({"short": "trail"}, "could mean the entity or a record"),
        ({"fillers": ["No stop"]}, "has no full stop"),
        (
            {"opens": ["It is old"]},
            r"opens.0: the clause 'It is old' must contain {E} exactly once",
        ),
        ({"attributes": [HEIGHT]}, "as its kin, but not"),
        (
            {"attributes": [AREA | {"asks": ["How large is it?"]}]},
            "attributes.area.asks.0: the question",
        ),
        ({"attributes": [AREA, AREA | {"name": "plot"}]}, " both "),
        ({"fillers": ["Echo Basin covers 9,000 acres."]}, "states a fact"),
        ({"pronoun": "ze"}, "pronoun: must be 'it', 'she', 'he' or 'they', not 'ze'"),
        (
            {"attributes": [HEIGHT | {"asks": HEIGHT["asks"][:2]}, LOWEST], "rules": []},
            "'height' and its kin 'lowest' need the same number",
        ),
        ({"records": [TRAIL, CAMP | {"asks": []}]}, "'trail' and 'camp' need the same"),
        (
            {"records": [TRAIL | {"fields": [TRAIL["fields"][0] | {"verb": "are"}]}]},
            "records.trail.fields.length.verb: must be 'is', 'was', 'has' or 'does', not 'are'",
        ),
        (
            {"records": [TRAIL | {"fields": [TRAIL["fields"][0] | {"less": "shorter than"}]}]},
            "'length' needs the same number of phrases for more as for less",
        ),
        ({"rules": [1]}, "rules.0: must be a valid dictionary"),
        ({"opens": []}, "opens: must not be empty"),
        ({"fillers": []}, "fillers: must not be empty"),
        ({"attributes": [AREA | {"low": 9, "high": 3}]}, "fewer than 2 values from 9 to 3"),
        ({"attributes": [AREA | {"says": ["{E covers {V}"]}]}, "a brace that is not"),
        ({"colour": "red"}, "unknown key 'colour'"),
        ({"record": []}, "unknown key 'record'; did you mean 'records'"),
        (
            {"attributes": [AREA | {"ask": []}]},
            "attributes.area: unknown key 'ask'; did you mean 'asks'",
        ),
        (
            {"records": [TRAIL | {"feilds": []}]},
            "records.trail: unknown key 'feilds'; did you mean 'fields'",
        ),
        ({"rules": [{"wen": "area"}]}, "rules.0: unknown key 'wen'; did you mean 'when'"),
        (
            {"attributes": [{**AREA, "type": "nummer"}]},
            "attributes.area: type must be one of number, text, members, flag",
        ),
        (
            {"attributes": [{"name": "x", True: ["a"], "type": "flag"}]},
            "attributes.x: unknown key 'yes'",
        ),
        ({"rules": [{"when": "area"}]}, "rules.0.then: this key is missing"),
        ({"heads": [False] * 9}, "heads.0: must be a valid string, not False; put it in quotes"),
        ({"noun": 7}, "noun: must be a valid string, not 7; put it in quotes"),
        (
            {"attributes": [FOUNDER | {"values": "peeple"}]},
            "attributes.founder.values: there is no word list 'peeple'; did you mean 'people'",
        ),
    ],
)
def test_faulty_domains(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(FORTS | changes))
    with pytest.raises(RecipeError, match=says) as caught:
        load_domain(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x", "must be a mapping"),
        ("", "must be a mapping"),
        ("name: a\nname: b\n", "gives 'name' twice"),
        ("name: [", "is not YAML"),
        ("!!python/object/apply:os.system [echo]", "is not YAML"),
        ("*" * 3, "is not YAML"),
        ("[" * 600, "nested too deeply"),
    ],
)
def test_files_that_are_no_domain(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(RecipeError, match=says):
        load_domain(tmp_path / "mine.yaml")
    with pytest.raises(RecipeError, match="no domain file"):
        find_domain(str(tmp_path / "none.yaml"))


def test_python_files_are_never_run(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(RecipeError, match="a domain file is YAML"):
        find_domain(str(path))
    assert not (tmp_path / "ran").exists()


CHANGES = [
    (
        "[Northmark, Eastmark, Southmark, Westmark]",
        "[Northmark]",
        "attributes.county.values: must have at least 2 values",
    ),
    (
        "a siren, flags, rockets",
        "a siren",
        "attributes.signals.values: must have at least 5 values",
    ),
    ("a bell, a foghorn", "a bell, a bell", "without duplicates"),
    (
        "[loaded with coal, loaded with grain, loaded with slate, loaded with timber]",
        "[loaded with coal]",
        "records.wreck.fields.cargo.values: must have at least 2 values",
    ),
    ("low: 5\n        high: 90", "low: 5\n        high: 6", "fewer than 3 values from 5 to 6"),
    ("high: 240\n    step: 5", "high: 243\n    step: 50", "steps of 50 from 40 do not reach 243"),
    ("low: 40", "low: -40", "attributes.height.low: must be greater than or equal to 0, not -40"),
    ("low: 40", 'low: "40"', "attributes.height.low: must be a valid integer, not '40'"),
    ("low: 40", "low: true", "low: write a number, not true"),
    ("step: 5", "step: 0", "attributes.height.step: must be greater than or equal to 1"),
    ("name: height", "name: the height", "a name must be one word"),
    ("name: height", "name: chain", "cannot be written in the function language"),
    ("then: visits", "then: signals", "a rule must lead from a text"),
    ("when: county", "when: lit", "a rule must lead from a text"),
    ("then: visits", "then: height", "says is empty, and 'height' needs it"),
    ("when: county", "when: country", "a rule is about 'country'"),
    ("every lighthouse of {V} is", "every lighthouse is", "must contain {V} exactly once"),
    (
        "no lighthouse of {V} is",
        "every lighthouse of {V} is",
        "both rule county visits no and rule county visits yes",
    ),
    (
        "tails: [Head, Ness, Point, Skerry]",
        "tails: Head",
        "tails: must be a valid tuple, not 'Head'",
    ),
    ("tails: [Head, Ness, Point, Skerry]", "tails: []", "tails: must not be empty"),
    (
        'denies: ["{E} is closed to visitors"]',
        "denies: []",
        "attributes.visits.denies: must not be empty",
    ),
    (
        "{E} is {V} high",
        "{E} is high",
        "attributes.height.says.0: the clause '{E} is high' must contain {V}",
    ),
    ("{E} is {V} high", "it is {V} high", "must contain {E}"),
    ("{E} is {V} high", "{E} is {V} and {V} high", "must contain {V} exactly once"),
    ("{E} is {V} high", "{E} is {V} high.", "has a full stop"),
    ("the {N} sank near {E}", "the {N} sank long ago", "must contain {E}"),
    (
        "{E} has warned ships for generations",
        "{E} is 45 feet high",
        "both open and value height",
    ),
    ("loaded with coal", "never raised", "cargo"),
    ("Fog can last for days.", "Fog can last for days. It is thick.", "several sentences"),
    ("[a bell", "[a bell|gong", "cannot be a value"),
    ("[a bell", "[St. Mary bell", "cannot be a value"),
    ("[Northmark", '["No"', "cannot be a value"),
    ("[Northmark", "[No", "values.0: must be a valid string, not False; put it in quotes"),
    ("flags, rockets", '"", rockets', "attributes.signals.values.4: must not be empty"),
    ("When was {this} automated?", "When was {this} lit?", "asks for lit and for automated"),
    ("name: raised", "name: depth", "two fields are called 'depth'"),
    ("column: cargo", "column: ship", "two columns are called 'ship'"),
    ("name: lighthouses", 'name: ""', "name: a name must be one word"),
    (
        'affirms: ["{E} is open',
        'yes: ["{E} is open',
        "attributes.visits: unknown key 'yes'; known: affirms, asks, denies",
    ),
]


@pytest.mark.parametrize(("old", "new", "says"), CHANGES)
def test_one_change_that_spoils_a_domain(old: str, new: str, says: str, tmp_path: Path) -> None:
    text = lighthouses()
    assert old in text
    if "never raised" in new:
        text = text.replace("the {N} has never been raised", "the {N} was never raised")
    path = tmp_path / "lighthouses.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(RecipeError, match=re.escape(says)):
        load_domain(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("[Northmark, Eastmark, Southmark, Westmark]", "[Northmark, Eastmark]"),
        ("[Northmark, Eastmark, Southmark, Westmark]", "people"),
        (
            "[Northmark, Eastmark, Southmark, Westmark]",
            "{combine: [[North, South], [mark, shire]]}",
        ),
        ("high: 90", "high: 7"),
        ("high: 240", "high: 45"),
        ("unit: fathoms", 'unit: ""'),
        ("a bell, a foghorn", "a bell and a gong, horns or whistles"),
        ("Ardra", "Årdra é"),
        ("{E} is {V} high", "{V} is the height of {E}"),
        ("pronoun: it", "pronoun: she"),
        ("pronoun: it", "pronoun: it\narticle: the"),
    ],
)
def test_a_domain_at_its_edges_is_read_again(old: str, new: str, tmp_path: Path) -> None:
    """Two counties, three depths, lists of things with "and" in their names, names and sentences
    that begin otherwise.
    """
    assert old in lighthouses()
    path = tmp_path / "lighthouses.yaml"
    path.write_text(lighthouses().replace(old, new, 1), encoding="utf-8")
    agree(path)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("name: lighthouses", "x: &a [1,1,1,1,1,1,1,1,1,1]\n" + "\n".join(
            f"{name}: &{name} [{', '.join([f'*{below}'] * 10)}]" for below, name in zip("abcd", "bcde", strict=True)
        ), "more than 100,000 values"),
        ("name: lighthouses", "# " + "x" * 1_000_001, "more than 1,000,000 bytes"),
        ("[Northmark, Eastmark, Southmark, Westmark]",
         f"{{combine: {[[f'w{i}' for i in range(50)]] * 3}}}", "more than 10,000 values"),
    ],
)  # fmt: skip
def test_a_file_cannot_stand_for_more_than_memory_holds(
    old: str, new: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "lighthouses.yaml"
    path.write_text(lighthouses().replace(old, new, 1), encoding="utf-8")
    with pytest.raises(RecipeError, match=re.escape(says)) as caught:
        load_domain(path)
    assert len(str(caught.value)) < 1_000


def test_a_file_may_be_edited_and_loaded_again(tmp_path: Path) -> None:
    path = tmp_path / "lighthouses.yaml"
    path.write_text(lighthouses(), encoding="utf-8")
    first = load_domain(path)[1]
    path.write_text(lighthouses().replace("Skerry", "Rock"), encoding="utf-8")
    assert "Rock" in load_domain(path)[1].tails
    assert find_domain("lighthouses") is not first
    other = tmp_path / "other.yaml"
    other.write_text(lighthouses(), encoding="utf-8")
    with pytest.raises(RecipeError, match="another domain is already named"):
        load_domain(other)


@pytest.mark.parametrize("name", domain_names())
def test_every_domain_is_sound(name: str) -> None:
    """Every clause says one thing to the reader, every question names the entity, kin is mutual."""
    assert domain_problems(find_domain(name)) == []
