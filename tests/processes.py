"""What a program prints here and in another process: for tests that nothing depends on the seed of
Python's hashes.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys


def printed_here(code: str) -> str:
    """Run a program in this process, which costs no start, and return what it prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, {"__name__": "__main__"})
    return output.getvalue()


def printed_elsewhere(code: str, *arguments: str) -> str:
    """Run a program in another process with another seed of hashes, and return what it prints."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
