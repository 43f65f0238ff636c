"""`make` with several workers in a script: no `__main__` guard is needed, and where one is, that is
said at once.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import taskloom as tl
from tests.slow import slow_except

CHANGES = ["splits={train: {n: 3000}}"]
CALL = f'tl.make(NAME, "d", workers=2, shard_rows=1000, set={CHANGES!r})'
TASK = """
@tl.task("script/echo", describe="Say it again.")
def echo(rng):
    word = str(rng.random())
    return tl.Example(word, word)
"""


def run_script(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text("import taskloom as tl\nprint('top', flush=True)\n" + text)
    return subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=100
    )


def test_a_script_without_a_guard_may_have_workers(tmp_path: Path) -> None:
    done = run_script(tmp_path, "print(" + CALL.replace("NAME", "'ctl/A'") + ".digest)\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["top", tl.make("ctl/A", set=CHANGES).digest]


def test_a_task_of_an_unguarded_script_is_refused_at_once(tmp_path: Path) -> None:
    done = run_script(tmp_path, TASK + CALL.replace("NAME", "'script/echo'"))
    assert done.returncode == 1
    assert "workers must be 1 for a task that the running script defines" in done.stderr
    assert done.stdout.split() == ["top"]


@pytest.mark.parametrize("guarded", slow_except([True, False], False))
def test_a_task_of_a_script_with_a_guard(tmp_path: Path, guarded: bool) -> None:
    """A call outside the guard ends with an error and not in a worker that waits for its parent."""
    call = CALL.replace("NAME", "'script/echo'")
    text = (
        f"if __name__ == '__main__':\n    {call}\n"
        if guarded
        else f"{call}\nif __name__ == '__main__':\n    pass\n"
    )
    done = run_script(tmp_path, TASK + text)
    assert (done.returncode == 0) == guarded, done.stderr
    if not guarded:
        assert "move the call under if __name__ == '__main__'" in done.stderr
