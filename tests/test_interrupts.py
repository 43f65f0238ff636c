"""Ctrl-C reaches what tests start, also where the tests themselves run in the background of a
script.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

IGNORED = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"


def child_ignores_interrupts() -> bool:
    done = subprocess.run(
        [sys.executable, "-S", "-c", IGNORED], capture_output=True, text=True, check=True
    )
    return done.stdout == "True\n"


def test_interrupts_reach_the_children_of_a_run_in_the_background(
    pytestconfig: pytest.Config,
) -> None:
    conftest: Any = pytestconfig.pluginmanager.get_plugin(
        str(Path(__file__).with_name("conftest.py"))
    )
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert child_ignores_interrupts()
        conftest.heed_interrupts()
        assert not child_ignores_interrupts()
    finally:
        signal.signal(signal.SIGINT, before)
