"""HTML for notebooks: plain tables and texts that follow the notebook's own style; nothing of the data is markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

LONGEST = 1_500
"""Characters of a text; a notebook is for looking, not for printing a corpus."""


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table; whole numbers in groups of three digits, on the right.

    >>> table(["n"], [[1000]])
    '<table><thead><tr><th>n</th></tr></thead><tbody><tr><td style="text-align:right">1,000</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td style="text-align:right">{value:,}</td>'
    return f'<td style="text-align:left">{text(str(value))}</td>'


def text(value: str) -> str:
    """Return a text as it is, cut where it is long, with its line breaks."""
    short = value if len(value) <= LONGEST else f"{value[:LONGEST]} … ({len(value):,} characters)"
    return escape(short).replace("\n", "<br>")


def paragraph(value: str, *, strong: bool = False) -> str:
    """Return a paragraph."""
    inner = f"<b>{text(value)}</b>" if strong else text(value)
    return f"<p>{inner}</p>"
