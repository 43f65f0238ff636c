"""Domains of one's own: what is made of them, and what is told about one that cannot be used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from taskloom.errors import RecipeError
from taskloom.seeding import Key
from taskloom.suites.zest import ZestFields
from taskloom.suites.zest.synthetic import domain as domains
from taskloom.suites.zest.synthetic.plan import check, weave, world

PAGE = Path(__file__).parents[3] / "docs" / "zest.md"
SIZES = {"train": 60, "dev": 0, "test": 0}


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Domains that a test loads are not there for the next one."""
    monkeypatch.setattr(domains, "_LOADED", {})


def lighthouses() -> str:
    """The domain that the page shows."""
    return PAGE.read_text(encoding="utf-8").split("lighthouses.py <<'END'\n")[1].split("\nEND\n")[0]


def agree(path: Path) -> None:
    """Make tasks of a domain, and read every passage again."""
    made = world(ZestFields.model_validate({"domains": [str(path)], "tasks": SIZES, "passages": 4}), Key("x", 0))
    for task in made.splits["train"]:
        for i in range(made.passages):
            example = made.example(task, i)
            assert check(example) == example.targets, example.input


CASTLES = """
from dataclasses import replace
from taskloom.suites.zest.synthetic.domain import find
PARKS = find("parks")
DOMAIN = replace(PARKS, name="{name}", noun="castle", short="castle", {change})
"""


def test_a_domain_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "castles.py"
    path.write_text(CASTLES.format(name="castles", change="rules=()"))
    fields = ZestFields.model_validate({"domains": [str(path)], "tasks": SIZES, "passages": 4})
    plan = weave(fields, Key("x", 0))
    found = list(plan.split("train").rows(0, 240))
    assert {e.traits["domain"] for e in found} == {"castles"}
    assert all("this castle" in e.question for e in found)
    assert all(check(e) == e.targets for e in found)
    assert [s.digest for s in plan.sources] == [domains.load(path)[0]]


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("parks", "rules=()", "is taken"),
        ("forts", "heads=('A', 'B')", "fewer than 9 heads"),
        ("forts", "short='trail'", "would mean the entity and a record"),
        ("forts", "fillers=('No stop',)", "lacks a full stop"),
        ("forts", "opens=('It is old',)", "does not say {E}"),
        ("forts", "attributes=PARKS.attributes[1:2], rules=()", "does not name it back"),
        ("forts", "attributes=(replace(PARKS.attributes[0], asks=('How large is it?',)),), rules=()", "does not say"),
        ("forts", "attributes=(PARKS.attributes[0], replace(PARKS.attributes[0], name='plot')), rules=()", "says both"),
        ("forts", "fillers=('Dogs are allowed in Echo Basin.',)", "states a fact"),
        ("forts", "noun=1/0", "cannot be imported"),
        ("forts", "pronoun='ze'", "is none of it, she, he, they"),
        (
            "forts",
            "attributes=(replace(PARKS.attributes[1], asks=PARKS.attributes[1].asks[:2]), PARKS.attributes[2]), rules=()",
            "'height' and its kin 'lowest' have not equally many questions",
        ),
        (
            "forts",
            "records=(PARKS.records[0], replace(PARKS.records[1], asks=()))",
            "'trail' and 'camp' have not equally",
        ),
        (
            "forts",
            "records=(replace(PARKS.records[0], fields=(replace(PARKS.records[0].fields[0], verb='are'),)),)",
            "the verb 'are' of 'length' is none of is, was, has, does",
        ),
        ("forts", "rules=(1,)", "rules must hold Rule, not 1"),
        ("forts", "opens=()", "opens is empty"),
        ("forts", "fillers=()", "fillers is empty"),
        ("forts", "attributes=(replace(PARKS.attributes[0], low=9, high=3),), rules=()", "no two values from 9 to 3"),
        (
            "forts",
            "attributes=(replace(PARKS.attributes[0], says=('{{E covers {{V}}',)),), rules=()",
            "a brace that is not",
        ),
    ],
)
def test_faulty_domains(name: str, change: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(CASTLES.format(name=name, change=change).replace('noun="castle", short="castle", ', ""))
    with pytest.raises(RecipeError, match=says):
        domains.load(path)
    path.write_text("x = 1")
    with pytest.raises(RecipeError, match="must define DOMAIN"):
        domains.load(path)
    with pytest.raises(RecipeError, match="no domain file"):
        domains.find(str(tmp_path / "none.py"))


CHANGES = [
    ('("Northmark", "Eastmark", "Southmark", "Westmark")', '("Northmark",)', "Text 'county' must have 2 values"),
    ('"a siren", "flags", "rockets"', '"a siren"', "Members 'signals' must have 5 values"),
    ('"a bell", "a foghorn"', '"a bell", "a bell"', "none twice"),
    (
        '"loaded with coal", "loaded with grain", "loaded with slate", "loaded with timber"',
        '"loaded with coal",',
        "Quality 'cargo' must have 2 values",
    ),
    ('"depth", 5, 90, 1', '"depth", 5, 6, 1', "no three values from 5 to 6"),
    ('"height", 40, 240, 5', '"height", 40, 243, 50', "steps of 50 from 40 do not come to 243"),
    ('"height", 40, 240, 5', '"height", -40, 240, 5', "begins below 0"),
    ('"height", 40, 240, 5', '"height", "40", 240, 5', "low must be int, not '40'"),
    ('"height", 40, 240, 5', '"the height", 40, 240, 5', "a name is one word"),
    ('"height", 40, 240, 5', '"chain", 40, 240, 5', "cannot be written in the language of functions"),
    ('Rule("county", "visits"', 'Rule("county", "signals"', "a rule leads from a Text"),
    ('Rule("county", "visits"', 'Rule("lit", "visits"', "a rule leads from a Text"),
    ('Rule("county", "visits"', 'Rule("county", "height"', "says is empty, and 'height' needs it"),
    ('Rule("county", "visits"', 'Rule("country", "visits"', "a rule is about 'country'"),
    ("every lighthouse of {V} is", "every lighthouse is", "does not say {V}"),
    (
        "no lighthouse of {V} is",
        "every lighthouse of {V} is",
        "says both rule county visits no and rule county visits yes",
    ),
    (
        'tails=("Head", "Ness", "Point", "Skerry")',
        'tails=("Head")',
        "tails must be a tuple, not 'Head'; one text alone",
    ),
    ('tails=("Head", "Ness", "Point", "Skerry")', "tails=()", "tails is empty"),
    ('no=("{E} is closed to visitors",)', "no=()", "no is empty"),
    ("{E} is {V} high", "{E} is high", "the clause '{E} is high' does not say {V}"),
    ("{E} is {V} high", "it is {V} high", "does not say {E}"),
    ("{E} is {V} high", "{E} is {V} and {V} high", "does not say {V} once"),
    ("{E} is {V} high", "{E} is {V} high.", "has a full stop"),
    ("the {N} sank near {E}", "the {N} sank long ago", "does not say {E}"),
    ("{E} has warned ships for generations", "{E} is 45 feet high", "says both open and value height"),
    ('"loaded with coal"', '"never raised"', "cargo"),
    ("Fog can last for days.", "Fog can last for days. It is thick.", "more than one sentence"),
    ('"a bell"', '"a bell|gong"', "cannot be a value"),
    ('"a bell"', '"St. Mary bell"', "cannot be a value"),
    ('"Northmark"', '"No"', "cannot be a value"),
    ('"flags"', '""', "values must hold str, not ''"),
    ('"When was {this} automated?"', '"When was {this} lit?"', "asks for lit and for automated"),
    ('Feature("raised"', 'Feature("depth"', "two fields are called 'depth'"),
    ('column="cargo"', 'column="ship"', "two columns are called 'ship'"),
    ('name="lighthouses"', 'name=""', "Domain '': name is empty"),
    ("DOMAIN = Domain(", "raise SystemExit(0)\nDOMAIN = Domain(", "cannot be imported: SystemExit"),
]


@pytest.mark.parametrize(("old", "new", "says"), CHANGES)
def test_one_change_that_spoils_a_domain(old: str, new: str, says: str, tmp_path: Path) -> None:
    text = lighthouses()
    assert old in text
    if "never raised" in new:
        text = text.replace("the {N} has never been raised", "the {N} was never raised")
    path = tmp_path / "lighthouses.py"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(RecipeError, match=re.escape(says)):
        domains.load(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ('("Northmark", "Eastmark", "Southmark", "Westmark")', '("Northmark", "Eastmark")'),
        ('"depth", 5, 90, 1', '"depth", 5, 7, 1'),
        ('"height", 40, 240, 5', '"height", 40, 45, 5'),
        ('"depth", 5, 90, 1, "fathoms"', '"depth", 5, 90, 1, ""'),
        ('"a bell", "a foghorn"', '"a bell and a gong", "horns or whistles"'),
        ('"Ardra"', '"Årdra é"'),
        ("{E} is {V} high", "{V} is the height of {E}"),
        ('pronoun="it"', 'pronoun="she"'),
        ('pronoun="it"', 'pronoun="it", article="the"'),
    ],
)
def test_a_domain_at_its_edges_is_read_again(old: str, new: str, tmp_path: Path) -> None:
    """Two counties, three depths, lists of things with "and" in their names, names and sentences that begin otherwise."""
    assert old in lighthouses()
    path = tmp_path / "lighthouses.py"
    path.write_text(lighthouses().replace(old, new, 1), encoding="utf-8")
    agree(path)


def test_a_file_may_be_edited_and_loaded_again(tmp_path: Path) -> None:
    path = tmp_path / "lighthouses.py"
    path.write_text(lighthouses(), encoding="utf-8")
    first = domains.load(path)[1]
    path.write_text(lighthouses().replace("Skerry", "Rock"), encoding="utf-8")
    assert "Rock" in domains.load(path)[1].tails
    assert domains.find("lighthouses") is not first
    other = tmp_path / "other.py"
    other.write_text(lighthouses(), encoding="utf-8")
    with pytest.raises(RecipeError, match="is taken by another domain"):
        domains.load(other)
