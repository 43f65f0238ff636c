"""Build the site of the documentation in site/: `make docs`.

Pages are plain Markdown that reads well on GitHub. The site needs a little more, so the pages are
copied to build/docs first: fences lose the mark that keeps tests from running them, links to stored
scores and to files outside docs/ lead to the repository, pictures that have a dark version follow
the page's colours, numbers in tables are not broken inside, numbers of results have minus signs,
and the page of the Python names gets their signatures and docstrings, from the code.
Zensical then builds the site from the copy. A page or an anchor that does not exist is an error;
links to other files are checked by tests/test_docs.py.
"""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
COPY = ROOT / "build" / "docs"
"""`docs_dir` of mkdocs.yml."""

REPOSITORY = "https://github.com/taskloom/taskloom/blob/main"
FENCE = re.compile(r"^```(\w+) no-test[^\n]*$", re.M)
OUTSIDE = re.compile(
    r"\]\((?:\.\./)+([A-Z][\w.-]+(?:#[\w-]+)?|examples/[\w./-]+|src/[\w./-]+|benchmarks/[\w./-]+)\)"
)
STORED = re.compile(r"\]\(([\w./-]+\.(?:json|npz))\)")
"""Links to stored scores. They are 8 MB and stay out of the site."""
PICTURE = re.compile(r"(!\[[^\]]*\]\()([\w./-]+)\.webp\)")
TABLE_ROW = re.compile(r"^\|.*\|$", re.M)
INSIDE_NUMBERS = re.compile(
    r"(?<=\[)([-+−]?[\d.,]+,) (?=[-+−]?[\d.,]+\])|(?<=\d) (±) (?=\d)|(?<=\d) (?=(%))"
)
"""The spaces of `[0.1, 0.2]`, `0.1 ± 0.2` and `12 %`; a line may still break before the bracket."""
NUMBER_CELL = re.compile(r"(?<=\| )([-+−]?[\d.,]+) (?=\[[^\[\]|]*\] \|)")
"""The number of a cell that has nothing else but its interval."""
HYPHENS = re.compile(r"(?<![\w.\-])-(?=[\d∞])|(?<=\S )-(?= )")
"""Hyphens that mean minus: before a number, and between the two sides of a difference."""
NOT_PROSE = re.compile(r"(```.*?```|`[^`\n]*`|\]\([^)\n]*\)|<!--.*?-->|<[^>\n]*>)", re.S)
"""Code, link targets and tags, which keep their hyphens."""

NAMES = "reference/python.md"


def site_markdown(text: str, name: str) -> str:
    """The Markdown of a page as the site needs it.

    Args:
        text: The page.
        name: Its path in docs/.
    """
    text = FENCE.sub(r"```\1", text)
    text = OUTSIDE.sub(rf"]({REPOSITORY}/\1)", text)
    folder = (DOCS / name).parent
    text = STORED.sub(lambda link: _in_repository(folder / link[1]), text)
    text = PICTURE.sub(lambda picture: _light_and_dark(picture, folder), text)
    text = TABLE_ROW.sub(lambda row: _table_row(row[0]), text)
    if name.startswith("results/"):
        parts = NOT_PROSE.split(text)
        parts[::2] = [HYPHENS.sub("−", part) for part in parts[::2]]
        text = "".join(parts)
    return f"{text}\n\n{public_names()}" if name == NAMES else text


def _in_repository(file: Path) -> str:
    """The end of a link to a file that the site does not have."""
    return f"]({REPOSITORY}/{file.resolve().relative_to(ROOT).as_posix()})"


def _light_and_dark(picture: re.Match[str], folder: Path) -> str:
    """A picture, or two if it has a dark version: Zensical shows the one for the page's colours."""
    start, name = picture.groups()
    if not (folder / f"{name}-dark.webp").exists():
        return picture[0]
    return f"{start}{name}.webp#only-light){start}{name}-dark.webp#only-dark)"


def _table_row(row: str) -> str:
    """A row of a table whose numbers are not broken, and whose lines are a little apart."""
    row = INSIDE_NUMBERS.sub(_unbroken, NUMBER_CELL.sub("\\1\u00a0", row))
    return row.replace("<br>", '<br><span class="gap"></span>')


def _unbroken(match: re.Match[str]) -> str:
    """The matched part of a number with spaces that do not break."""
    low, sign, _ = match.groups()
    if low:
        return f"{low}\u00a0"
    return f"\u00a0{sign}\u00a0" if sign else "\u00a0"


def public_names() -> str:
    """A section for every public function and class: its signature and its docstring."""
    import taskloom

    parts = ["## Signatures", "Generated from the code."]
    for name in sorted(n for n in taskloom.__all__ if not n.startswith("_")):
        thing = getattr(taskloom, name)
        if not (inspect.isfunction(thing) or inspect.isclass(thing)):
            continue
        try:
            signature = re.sub(r"'", "", str(inspect.signature(thing)))
        except ValueError:
            signature = "(…)"
        parts += [
            f"### tl.{name}",
            f"```python\ntl.{name}{signature}\n```",
            f"```text\n{inspect.getdoc(thing) or ''}\n```",
        ]
    return "\n\n".join(parts)


def copy_pages() -> None:
    """Copy docs/ to build/docs, with every page as the site needs it."""
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(DOCS, COPY, ignore=shutil.ignore_patterns("*.json", "*.npz"))
    for page in COPY.rglob("*.md"):
        name = page.relative_to(COPY).as_posix()
        page.write_text(site_markdown(page.read_text(encoding="utf-8"), name), encoding="utf-8")


if __name__ == "__main__":
    copy_pages()
    command = [str(Path(sys.executable).parent / "zensical"), "build", "--strict", "--clean"]
    sys.exit(subprocess.run(command, cwd=ROOT, check=False).returncode)  # noqa: S603 - fixed words
