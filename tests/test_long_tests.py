"""Which tests are left to `--nightly`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def test_a_checkout_in_a_folder_called_nightly_runs_its_daily_tests(request: pytest.FixtureRequest) -> None:
    conftest: Any = request.config.pluginmanager.get_plugin(str(Path(__file__).with_name("conftest.py")))
    request.node.keywords["nightly"] = True  # as pytest itself does for every folder above a test
    assert not conftest.is_long(request.node)
    request.node.add_marker("nightly")
    assert conftest.is_long(request.node)
