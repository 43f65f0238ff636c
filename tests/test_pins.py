"""The pins of constraints.txt, and that the check of them sees what is wrong."""

from __future__ import annotations

import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "audit_pins.py"), run_name="audit_pins")


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
        ({"numpy": "2.0"}, [], {"numpy": "2.1"}, "numpy 2.1 is installed, and constraints.txt pins 2.0"),
        ({"torch": "2.5.0"}, [], {}, "torch==2.5.0 has a known advisory, fixed in 2.6.0"),
    ],
)
def test_what_is_wrong_with_pins_is_said(
    versions: dict[str, str], wanted: list[str], installed: dict[str, str], says: str
) -> None:
    (problem,) = SCRIPT["problems"](versions, [Requirement(text) for text in wanted], installed)
    assert says in problem


def test_builds_of_one_version_are_one_version() -> None:
    assert SCRIPT["problems"]({"torch": "2.13.0"}, [], {"torch": "2.13.0+cpu"}) == []


@pytest.mark.parametrize("line", ["numpy>=1", "numpy", "numpy==1.*", "https://example.org/x.whl", "a==1\nA==1"])
def test_a_line_that_does_not_pin_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"constraints\.txt:"):
        SCRIPT["pins"](line)
