"""The tables of docs/papers lead a reader of a paper from each of its concepts to the file that
implements it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "docs" / "papers"
REPRODUCED = ["ctlpp", "dyna-babi", "taskbench500", "zest"]
"""The papers that Taskloom implements whole; each has a page with a table of at least ten
concepts.
"""

CODE = re.compile(r"`([^`]+)`")
BAR = re.compile(r"(?<!\\)\|")
"""Between cells; `\\|` is a bar within one."""


def concepts(page: str) -> list[tuple[str, list[str]]]:
    """Return the rows of the tables headed `| concept | file |`: each concept with the files that
    it names.
    """
    rows: list[tuple[str, list[str]]] = []
    inside = False
    for line in page.splitlines():
        cells = [cell.strip() for cell in BAR.split(line.strip().strip("|"))]
        if [cell.lower() for cell in cells[:2]] == ["concept", "file"]:
            inside = True
        elif not line.lstrip().startswith("|"):
            inside = False
        elif inside and not set(cells[0]) <= set("-: "):
            rows.append((cells[0], CODE.findall(cells[1])))
    return rows


def exists(name: str) -> bool:
    """Tell whether a path exists, written from the repository's root or from the package."""
    path = name.split("::")[0].split("#")[0]
    return any((base / path).exists() for base in (ROOT, ROOT / "src" / "taskloom"))


@pytest.mark.parametrize("paper", REPRODUCED)
def test_every_concept_of_a_paper_names_files_that_exist(paper: str) -> None:
    rows = concepts((PAPERS / f"{paper}.md").read_text(encoding="utf-8"))
    assert len(rows) >= 10
    for concept, files in rows:
        assert files, f"{paper}: '{concept}' names no file"
        missing = [file for file in files if not exists(file)]
        assert not missing, f"{paper}: '{concept}' names {missing}"


def test_the_index_lists_every_paper() -> None:
    index = (PAPERS / "index.md").read_text(encoding="utf-8")
    for page in PAPERS.glob("*.md"):
        assert page.stem == "index" or f"({page.name})" in index, page.name


def test_a_table_is_read_up_to_its_end() -> None:
    head = "| Concept | File |\n| --- | --- |\n"
    page = (
        head
        + "| a \\| f | `x.py` and `y.py` |\n| b | nowhere |\n\n| other | file |\n| c | `z.py` |\n"
    )
    assert concepts(page) == [("a \\| f", ["x.py", "y.py"]), ("b", [])]
