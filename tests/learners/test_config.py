"""Settings as people find them: by name, with defaults and meanings."""

from __future__ import annotations

import pytest

from taskloom.learners import LEARNERS
from taskloom.learners.config import read, settings

OURS = [e.name for e in LEARNERS if e.settings.__module__.startswith("taskloom.")]


@pytest.mark.parametrize("name", OURS)
def test_every_setting_says_what_it_is(name: str) -> None:
    found = settings(name)
    assert [n for n, _, meaning in found if not meaning] == []
    assert len({n for n, _, _ in found}) == len(found)
    assert read({"learner": name, **{n: default for n, default, _ in found}}) == read(name)


def test_defaults_are_those_of_the_name() -> None:
    assert [d for n, d, _ in settings("zero-shot") if n == "shots"] == [0]
    assert [d for n, d, _ in settings("in-context") if n == "shots"] == [8]
    assert [d for n, d, _ in settings("ndr") if n == "clip"] == [1.0]
    assert settings("majority") == []
