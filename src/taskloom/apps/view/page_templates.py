"""Templates: values in, a page out. Everything is escaped; text from data goes through `shown` or `plain`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

import taskloom
from taskloom.apps.view.safe_text import clip, exact, plain, shown
from taskloom.core.files import digest

HERE = Path(__file__).parent
STATIC = HERE / "static"

STEPS = 20
"""Shades of a scale from 0 to 1: the style sheet has a class for each, since a page may not hold styles of its own."""


def render(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page made from a template."""
    here = {"path": request.url.path, "query": dict(request.query_params)}
    text = environment().get_template(template).render(**values, here=here)
    return HTMLResponse(text.encode("utf-8", "replace"), status)


@cache
def environment() -> Environment:
    """Build the templates' environment."""
    templates = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "shown": shown,
        "plain": plain,
        "exact": exact,
        "clip": clip,
        "count": count,
        "percent": percent,
        "number": number,
    }
    templates.globals |= {
        "url": address,
        "shade": shade,
        "version": taskloom.__version__,
        "asset": asset,
    }
    return templates


@cache
def asset(name: str) -> str:
    """Return the address of a file of ours, which changes with its content, so that browsers may keep it."""
    return f"/static/{name}?{digest((STATIC / name).read_bytes(), 4)}"


def address(path: str, query: Mapping[str, Any] | None = None, /, **more: Any) -> Markup:
    """Return an address with its query; values that are None or empty are left out.

    >>> str(address("/rows", q="a b", start=None))
    '/rows?q=a+b'
    """
    values = {key: value for key, value in {**(query or {}), **more}.items() if value not in (None, "")}
    text = quote(path, safe="/") + (f"?{urlencode(values, errors='replace')}" if values else "")
    return Markup(text.replace("&", "&amp;"))  # noqa: S704 - quoted: no character of it is markup


def count(value: Any) -> str:
    """Format a whole number in groups of three digits.

    >>> count(1234567)
    '1,234,567'
    """
    return f"{value:,}" if isinstance(value, int) else str(value)


def percent(value: float | None) -> str:
    """Format a share with one decimal; a dash where there is none."""
    return "–" if value is None or value != value else f"{100 * value:.1f} %"


def number(value: float | None, digits: int = 3) -> str:
    """Format a measure; a dash where there is none."""
    return "–" if value is None or value != value else f"{value:.{digits}f}"


def shade(value: float | None) -> int:
    """Return the step of a share on the scale of colours; -1 for none.

    >>> shade(0.0), shade(0.5), shade(1.0), shade(None)
    (0, 10, 20, -1)
    """
    if value is None or value != value:
        return -1
    return round(min(1.0, max(0.0, value)) * STEPS)
