"""What the site of the documentation adds to its pages, which are plain Markdown: used by
mkdocs.yml.

Fences lose the mark that keeps tests from running them, links that leave docs/ lead to the
repository, numbers and names in tables are not broken inside, numbers of results have minus signs,
and the page of the Python names gets their signatures and docstrings, from the code.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

REPOSITORY = "https://github.com/taskloom/taskloom/blob/main"
FENCE = re.compile(r"^```(\w+) no-test[^\n]*$", re.M)
OUTSIDE = re.compile(
    r"\]\((?:\.\./)+([A-Z][\w.-]+|examples/[\w./-]+|src/[\w./-]+|benchmarks/[\w./-]+)\)"
)
TABLE_ROW = re.compile(r"^\|.*\|$", re.M)
INSIDE_NUMBERS = re.compile(
    r"(?<=\[)([-+−]?[\d.,]+,) (?=[-+−]?[\d.,]+\])|(?<=\d) (±) (?=\d)|(?<=\d) (?=(%))"
)
"""The spaces of `[0.1, 0.2]`, `0.1 ± 0.2` and `12 %`; a line may still break before the bracket."""
NUMBER_CELL = re.compile(r"(?<=\| )([-+−]?[\d.,]+) (?=\[[^\[\]|]*\] \|)")
"""The number of a cell that has nothing else but its interval: of these columns none gets narrower,
those of words do.
"""
HYPHENS = re.compile(r"(?<![\w.\-])-(?=[\d∞])|(?<= )-(?= )")
"""Hyphens that mean minus: before a number, and between two things of which a difference is."""
CODE_AND_TAGS = re.compile(r"(<pre.*?</pre>|<code.*?</code>|<[^>]*>)", re.S)
TABLE_CODE = re.compile(r"(?<=<code>)[^<]{20,}(?=</code>)")
"""A long name in a table, of which columns would be wide."""
BREAKS = re.compile(r"(?<=[/_])(?=\w)")

NAMES = "reference/python.md"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the Markdown of a page as the site needs it."""
    text = FENCE.sub(r"```\1", markdown)
    text = OUTSIDE.sub(rf"]({REPOSITORY}/\1)", text)
    text = TABLE_ROW.sub(
        lambda row: INSIDE_NUMBERS.sub(_unbroken, NUMBER_CELL.sub("\\1\u00a0", row[0])), text
    )
    return f"{text}\n\n{public_names()}" if page.file.src_uri == NAMES else text


def _unbroken(match: re.Match[str]) -> str:
    """Return the end of an interval's first number, a ±, or the space before a %, with spaces that
    do not break.
    """
    low, sign, _ = match.groups()
    return f"{low}\u00a0" if low else f"\u00a0{sign}\u00a0" if sign else "\u00a0"


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Return the HTML of a page in which long names in tables may break after a slash or an
    underscore, and nowhere else.

    Pages of results have minus signs, where the Markdown that studies write has hyphens.
    """
    if page.file.src_uri.startswith("results/"):
        parts = CODE_AND_TAGS.split(html)
        html = "".join(
            part if number % 2 else HYPHENS.sub("−", part) for number, part in enumerate(parts)
        )
    return re.sub(r"<td.*?</td>", lambda cell: _cell(cell[0]), html)


def _cell(html: str) -> str:
    """Return a cell of a table whose long names may break, and whose lines stand a little apart."""
    return TABLE_CODE.sub(lambda name: BREAKS.sub("<wbr>", name[0]), html).replace(
        "<br>", '<br><span class="gap"></span>'
    )


def public_names() -> str:
    """Return a section for every public function and class: its signature and its docstring."""
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
