"""The pins of constraints.txt, and that the check of them sees what is wrong."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
SCRIPT: dict[str, Any] = runpy.run_path(
    str(ROOT / "scripts" / "audit_pins.py"), run_name="audit_pins"
)


def test_every_dependency_is_pinned_once_to_an_allowed_version_without_a_known_advisory() -> None:
    versions = SCRIPT["pins"]((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert SCRIPT["problems"](versions, SCRIPT["declared"](project), {}) == []
    assert len(versions) > 100


@pytest.mark.parametrize(
    ("versions", "wanted", "installed", "says"),
    [
        ({}, ["numpy>=1.26"], {}, "numpy is declared in pyproject.toml and not pinned"),
        ({"numpy": "1.20"}, ["numpy>=1.26"], {}, "pyproject.toml asks for numpy>=1.26"),
        ({}, [], {"left-pad": "1.0"}, "left-pad 1.0 is installed and not pinned"),
        (
            {"numpy": "2.0"},
            [],
            {"numpy": "2.1"},
            "numpy 2.1 is installed, and constraints.txt pins 2.0",
        ),
        (
            {"torch": "2.5.0"},
            [],
            {},
            "torch==2.5.0 has the advisory CVE-2025-32434, fixed in 2.6.0",
        ),
    ],
)
def test_what_is_wrong_with_pins_is_said(
    versions: dict[str, str], wanted: list[str], installed: dict[str, str], says: str
) -> None:
    (problem,) = SCRIPT["problems"](versions, [Requirement(text) for text in wanted], installed)
    assert says in problem


def test_builds_of_one_version_are_one_version() -> None:
    assert SCRIPT["problems"]({"torch": "2.13.0"}, [], {"torch": "2.13.0+cpu"}) == []


@pytest.mark.parametrize(
    "line", ["numpy>=1", "numpy", "numpy==1.*", "https://example.org/x.whl", "a==1\nA==1"]
)
def test_a_line_that_does_not_pin_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"constraints\.txt:"):
        SCRIPT["pins"](line)


def test_every_listed_advisory_has_a_number() -> None:
    numbers = [advisory for _, advisory in SCRIPT["FIXED_IN"].values()]
    assert len(set(numbers)) == len(numbers) > 15
    assert all(re.fullmatch(r"CVE-20\d\d-\d{4,}", number) for number in numbers)


def test_what_pip_audit_finds_is_said_and_what_it_skips_is_no_pass() -> None:
    clean = {"name": "numpy", "version": "2.0", "vulns": []}
    bad = {
        "name": "jinja2",
        "version": "3.1.5",
        "vulns": [{"id": "CVE-2025-27516", "fix_versions": ["3.1.6"]}],
    }
    skipped = {
        "name": "torch",
        "skip_reason": "Dependency not found on PyPI and could not be audited",
    }
    assert SCRIPT["audited"]([clean, bad, skipped]) == (
        ["jinja2==3.1.5 has the advisory CVE-2025-27516, fixed in 3.1.6"],
        2,
    )
    with pytest.raises(SCRIPT["NotAsked"], match="knows none of the pins"):
        SCRIPT["audited"]([skipped])


def page(
    newest: str, releases: dict[str, list[dict[str, Any]]], *advisories: dict[str, Any]
) -> dict[str, Any]:
    return {"info": {"version": newest}, "releases": releases, "vulnerabilities": list(advisories)}


def test_pages_tell_what_was_yanked_and_what_is_wrong_with_the_newest_release() -> None:
    fine, yanked = {"yanked": False}, {"yanked": True, "yanked_reason": "broken"}
    pages = {
        "fine": page(
            "2", {"1": [fine], "2": [fine]}, {"id": "PYSEC-1"}
        ),  # of 2, not of the pinned 1
        "newest": page(
            "2", {"2": [fine]}, {"id": "PYSEC-2"}, {"id": "PYSEC-3", "withdrawn": "2026-01-01"}
        ),
        "yanked": page("2", {"1": [yanked], "2": [fine]}),
        "gone": page("2", {"2": [fine]}),
    }
    versions = {"fine": "1", "newest": "2", "yanked": "1", "gone": "1"}
    assert SCRIPT["ask_pages"](versions, pages.__getitem__) == (
        [
            "newest==2 has the advisory PYSEC-2",
            "yanked==1 was yanked: broken",
            "gone==1 is not a release (any more)",
        ],
        1,
    )

    def unreachable(name: str) -> dict[str, Any]:
        raise OSError("no network")

    with pytest.raises(SCRIPT["NotAsked"], match="no network"):
        SCRIPT["ask_pages"](versions, unreachable)


def test_an_audit_that_could_not_ask_is_no_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> list[dict[str, Any]]:
        raise SCRIPT["NotAsked"]("no network")

    monkeypatch.setitem(SCRIPT["main"].__globals__, "ask_pip_audit", refuse)
    monkeypatch.setitem(SCRIPT["main"].__globals__, "installed_versions", dict)
    assert SCRIPT["main"]([]) == 2
    assert "NOT CHECKED for advisories: no network" in capsys.readouterr().out
    assert SCRIPT["main"](["--offline"]) == 0
