"""Build the site of the documentation in site/: `make docs`.

Pages are plain Markdown that reads well on GitHub. The site needs a little more, so the pages are
copied to build/docs first: fences lose the mark that keeps tests from running them, links to stored
scores and to files outside docs/ lead to the repository, pictures that have a dark version follow
the page's colours, figures that have a narrow version the page's width, numbers in tables are not
broken inside, numbers of results have minus signs, verdicts a colour and a word, and summaries a frame, the front
page gets a head of two columns and cards, and the page of the Python names gets signatures and docstrings, from the
code.
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
ICON = ROOT / "src" / "taskloom" / "apps" / "view" / "static" / "icon.svg"

REPOSITORY = "https://github.com/taskloom/taskloom/blob/main"
FENCE = re.compile(r"^```(\w+) no-test[^\n]*$", re.M)
OUTSIDE = re.compile(
    r"\]\((?:\.\./)+([A-Z][\w.-]+(?:#[\w-]+)?|examples/[\w./-]+|src/[\w./-]+|benchmarks/[\w./-]+)\)"
)
STORED = re.compile(r"\]\(([\w./-]+\.(?:json|npz))\)")
"""Links to stored scores. They are 8 MB and stay out of the site."""
PICTURE = re.compile(r"(!\[[^\]]*\]\()([\w./-]+)\.webp\)")
DRAWING = re.compile(r"(!\[[^\]]*\]\()([\w./-]+)\.svg\)")
VERDICT = re.compile(r"(?<=\| )([✓~✗?]|new)(?= \|$)", re.M)
"""The last cell of a claim."""
VERDICTS = {"✓": "agrees", "~": "partly", "✗": "disagrees", "?": "inconclusive", "new": "new"}
SHORT = re.compile(r"^(\*\*In short\.\*\* .+(?:\n.+)*)", re.M)
"""The summary at the head of a results page."""
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
HOME = "index.md"

HEAD = re.compile(r"^# .+\n\n\*\*(?P<tagline>.+)\*\*\n\n(?P<what>(?:.+\n)+)\n", re.M)
"""The beginning of the front page: name, tagline, and what it is."""
INSTALL = re.compile(r"(?P<install>^You need .*?^```\n\n)(?P<extras>(?:[^\n]+\n)+)\n", re.M | re.S)
CODE = re.compile(r"^```python\n.*?^```\n\n```text\n.*?^```\n", re.M | re.S)
STORY = re.compile(r"^(?:> .*\n)+\n(?P<picture>(?:(?:!\[|<span).*\n)+)", re.M)
USES = re.compile(r"^\| I want to .*\n\| ---.*\n(?P<rows>(?:\|.*\n)+)", re.M)
FINDINGS = re.compile(
    r"(?P<figure>^!\[[^\n]*\.svg[^\n]*\n\n(?:[^\n]+\n)+)\n(?P<list><!-- findings.*?<!-- end -->\n\n[^\n]*\n)",
    re.M | re.S,
)
START = """[Start in ten minutes](tutorial/ten-minutes.md){ .md-button .md-button--primary }
[What we found](results/what-we-found.md){ .md-button }"""


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
    text = DRAWING.sub(lambda drawing: _wide_and_narrow(drawing, folder), text)
    text = TABLE_ROW.sub(lambda row: _table_row(row[0]), text)
    if name.startswith("results/"):
        text = VERDICT.sub(_verdict, text)
        text = SHORT.sub(r'<div class="in-short" markdown>\n\n\1\n\n</div>', text, count=1)
    if name.startswith("results/"):
        parts = NOT_PROSE.split(text)
        parts[::2] = [HYPHENS.sub("−", part) for part in parts[::2]]
        text = "".join(parts)
    if name == HOME:
        text = front_page(text)
    return f"{text}\n\n{public_names()}" if name == NAMES else text


def front_page(text: str) -> str:
    """The front page with a head of two columns, what it is beside a story, and cards.

    It reads well without them too, as README.md. A part that is not found is an error, so that a
    change of README.md cannot lose one unseen.
    """
    head, install, code, story, uses, findings = (
        _found(part, text) for part in (HEAD, INSTALL, CODE, STORY, USES, FINDINGS)
    )
    rows = [row.strip("| \n").split(" | ", 1) for row in uses["rows"].splitlines()]
    cards = "\n\n".join(f"-   {_begun(want)}\n\n    {start}" for want, start in rows)
    first = "\n\n".join([f"# {head['tagline']}", head["what"], install["install"], START])
    top = _columns("hero", first, story["picture"])
    for part in (head, install, story):
        text = text.replace(part[0], "")
    text = text.replace(uses[0], f'<div class="grid cards" markdown>\n\n{cards}\n\n</div>\n')
    text = text.replace(findings[0], _columns("hero", findings["figure"], findings["list"]))
    fences = code[0].partition("```text")
    beside = _columns("beside", fences[0], "".join(fences[1:]))
    text = text.replace(code[0], f"{beside}\n\n{install['extras']}")
    return f"---\nhide: [navigation, toc]\n---\n\n{top}\n\n{text}"


def _found(part: re.Pattern[str], text: str) -> re.Match[str]:
    found = part.search(text)
    if found is None:
        sys.exit(f"docs/{HOME} has no {part.pattern!r}; change scripts/build_docs.py with it")
    return found


def _begun(sentence: str) -> str:
    """The rest of "I want to …" as a beginning of its own."""
    return re.sub(r"[a-z]", lambda letter: letter[0].upper(), sentence, count=1)


def _columns(kind: str, left: str, right: str) -> str:
    """Two columns on a wide screen."""
    parts = "\n\n".join(f"<div markdown>\n\n{part}\n\n</div>" for part in (left, right))
    return f'<div class="{kind}" markdown>\n\n{parts}\n\n</div>'


def _verdict(mark: re.Match[str]) -> str:
    """The mark of a claim with its word, so that nobody has to look the mark up."""
    word = VERDICTS[mark[1]]
    said = word if word == mark[1] else f"{mark[1]} {word}"
    return f'<span class="verdict {word}">{said}</span>'


def _wide_and_narrow(drawing: re.Match[str], folder: Path) -> str:
    """A figure, or two if it has a version for phones (stylesheets/tables.css)."""
    start, name = drawing.groups()
    if not (folder / f"{name}-phone.svg").exists():
        return drawing[0]
    return f"{start}{name}.svg#only-wide){start}{name}-phone.svg#only-narrow)"


def _in_repository(file: Path) -> str:
    """The end of a link to a file that the site does not have."""
    return f"]({REPOSITORY}/{file.resolve().relative_to(ROOT).as_posix()})"


def _light_and_dark(picture: re.Match[str], folder: Path) -> str:
    """A picture in the versions that it has: a dark one, which Zensical shows on dark pages, and
    one for phones (stylesheets/tables.css).
    """
    start, name = picture.groups()
    if not (folder / f"{name}-dark.webp").exists():
        return picture[0]
    shown = f"{start}{name}.webp#only-light){start}{name}-dark.webp#only-dark)"
    if not (folder / f"{name}-phone-dark.webp").exists():
        return shown
    narrow = f"{start}{name}-phone.webp#only-light){start}{name}-phone-dark.webp#only-dark)"
    return f'<span class="wide-screen">{shown}</span><span class="narrow-screen">{narrow}</span>'


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
    shutil.copy(ICON, COPY / "images" / "icon.svg")
    for page in COPY.rglob("*.md"):
        name = page.relative_to(COPY).as_posix()
        page.write_text(site_markdown(page.read_text(encoding="utf-8"), name), encoding="utf-8")


if __name__ == "__main__":
    copy_pages()
    command = [str(Path(sys.executable).parent / "zensical"), "build", "--strict", "--clean"]
    sys.exit(subprocess.run(command, cwd=ROOT, check=False).returncode)  # noqa: S603 - fixed words
