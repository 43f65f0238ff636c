"""A real notebook in a real kernel: everything shows itself, progress included. `make test-browser`
installs what it needs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="make test-browser installs it")
nbclient = pytest.importorskip("nbclient", reason="make test-browser installs it")
pytest.importorskip("ipykernel", reason="make test-browser installs it")

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).parent.parent / "examples" / "first-look.ipynb"


def execute(notebook: Any, folder: Path) -> list[list[Any]]:
    """Run a notebook in a folder, and return what stands below each cell of code."""
    nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(folder)}}
    ).execute()
    return [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]


def html(outputs: list[Any]) -> str:
    return "".join(output.get("data", {}).get("text/html", "") for output in outputs)


def test_the_example_notebook_shows_what_it_names(tmp_path: Path) -> None:
    outputs = execute(nbformat.read(NOTEBOOK, as_version=4), tmp_path)
    shown = [html(one) for one in outputs]
    for number, words in {
        0: "content digest",
        1: "examples",
        2: "<mark",
        4: "majority answer",
        5: "words/backwards",
        6: "4 runs in notebook-runs",
        7: "<table>",
        8: "<table>",
        9: "data:image/svg+xml",
        10: "data:image/svg+xml",
        11: "<iframe srcdoc=",
    }.items():
        assert words in shown[number], (number, shown[number][:300])
    assert (tmp_path / "notebook-report.html").is_file()
    assert [o for one in outputs for o in one if o.output_type in ("error", "stream")] == []


def test_progress_is_one_line_that_changes(tmp_path: Path) -> None:
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    lines = """import taskloom as tl, taskloom.core.progress as shown
shown.NOTEBOOK_AFTER = shown.NOTEBOOK_EVERY = 0.0
data = tl.make("ctl/A", "data", shard_rows=1000, set=["splits={train: {n: 3000}}"])
runs = tl.run(recipes="babi/1", learners="majority", seeds=2, store="runs", workers=1)
quiet = tl.make("ctl/A", progress=False, set={"splits": {"train": {"n": 3000}}})"""
    cells = [nbformat.v4.new_code_cell(line) for line in lines.splitlines()]
    outputs = execute(nbformat.v4.new_notebook(cells=cells), tmp_path)
    assert [len(one) for one in outputs] == [
        0,
        0,
        1,
        1,
        0,
    ], "one element, not a line for every shard"
    assert "7,096 rows in" in html(outputs[2])
    assert 'value="7096" max="7096"' in html(outputs[2])
    assert "2 of 2 runs done" in html(outputs[3])
