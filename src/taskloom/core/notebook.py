"""HTML for notebooks: plain tables and texts that follow the notebook's own style; nothing of the data is markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

LONGEST = 1_500
"""Characters of a text; a notebook is for looking, not for printing a corpus."""


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table; whole numbers in groups of three digits, on the right, and heads on the side of what is below them.

    >>> print(table(["n"], [[1000]]).replace("><", ">\\n<"))
    <table>
    <thead>
    <tr>
    <th style="text-align:right">n</th>
    </tr>
    </thead>
    <tbody>
    <tr>
    <td style="text-align:right">1,000</td>
    </tr>
    </tbody>
    </table>
    """
    body = [list(row) for row in rows]
    sides = [
        "right" if all(map(_is_whole, column)) else "left" for column in zip(*body, strict=True)
    ]
    sides = sides or ["left"] * len(heads)
    head = "".join(
        f'<th style="text-align:{side}">{escape(h)}</th>'
        for h, side in zip(heads, sides, strict=True)
    )
    cells = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in body)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>"


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    if _is_whole(value):
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
