"""The little suite is registered while its tests run: others list all suites."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import taskloom as tl
from taskloom.core.registry import SUITES
from tests.analysis.probing.little_stories import LittleStories


@pytest.fixture(scope="module", autouse=True)
def little_stories() -> Iterator[None]:
    tl.suite(LittleStories)
    yield
    SUITES.forget(LittleStories.__module__)
