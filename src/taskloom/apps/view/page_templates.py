"""Rendering of pages from templates. Everything is escaped. Text from data goes through `shown`,
`plain` or `exact`, so that none of it is interpreted as markup. Characters that are invisible or
reorder a line are shown as their code points.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

import taskloom
from taskloom.core.files import digest
from taskloom.core.offers import TraitName
from taskloom.core.registry import SUITES, trait_name

HERE = Path(__file__).parent
STATIC = HERE / "static"

STEPS = 20
"""Number of steps of the colour scale from 0 to 1. The style sheet has a class for each step,
because the security policy forbids inline styles.
"""

ORDERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters, direction marks, characters without a glyph, and lone surrogates."""

LONGEST = 20_000
"""Maximum characters of one text on a page. No suite writes longer ones, and browsers take seconds
to lay out a megabyte.
"""


def render(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a template as a page."""
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
        "broken": broken,
        "in_order": in_order,
        "plain": plain,
        "exact": exact,
        "clip": clip,
        "count": count,
        "percent": percent,
        "number": number,
        "day": day,
    }
    templates.globals |= {
        "url": address,
        "shade": shade,
        "trait": named_trait,
        "version": taskloom.__version__,
        "asset": asset,
    }
    return templates


@cache
def asset(name: str) -> str:
    """Address of a static file. It contains a digest of the content, so that browsers may cache the
    file.
    """
    return f"/static/{name}?{digest((STATIC / name).read_bytes(), 4)}"


def address(path: str, query: Mapping[str, Any] | None = None, /, **more: Any) -> Markup:
    """Build an address with a query. Values that are None or empty are omitted.

    >>> str(address("/rows", q="a b", start=None))
    '/rows?q=a+b'
    """
    values = {
        key: value for key, value in {**(query or {}), **more}.items() if value not in (None, "")
    }
    text = quote(path, safe="/") + (f"?{urlencode(values, errors='replace')}" if values else "")
    return Markup(text.replace("&", "&amp;"))  # noqa: S704 - quoted: no character of it is markup


def count(value: Any) -> str:
    """Format a whole number in groups of three digits.

    >>> count(1234567)
    '1,234,567'
    """
    return f"{value:,}" if isinstance(value, int) else str(value)


def percent(value: float | None) -> str:
    """Format a share as a percentage with one decimal; a dash for None and NaN."""
    return "–" if value is None or value != value else f"{100 * value:.1f} %"


def number(value: float | None, digits: int = 3) -> str:
    """Format a measure; a dash for None and NaN."""
    return "–" if value is None or value != value else f"{value:.{digits}f}"


def day(seconds: float) -> str:
    """Format a Unix time as local date and time; a dash for 0.

    >>> day(0)
    '–'
    """
    return time.strftime("%d %b %Y, %H:%M", time.localtime(seconds)) if seconds else "–"


def named_trait(recipe: str, name: str) -> TraitName:
    """Label and explanation of a trait, as the suite of a recipe or task gives them.

    >>> named_trait("babi/1", "question").label, named_trait("none", "question").label
    ('question type', 'question')
    """
    suite = str(recipe).partition("/")[0]
    if suite not in SUITES.names():  # the name comes from data, so nothing is imported for it
        return TraitName(name)
    return trait_name([suite], name)


def trait_order(recipe: str) -> list[str]:
    """The traits that the suite of a recipe or task explains, in its order.

    >>> trait_order("babi/1")[0], trait_order("none")
    ('minimal', [])
    """
    suite = str(recipe).partition("/")[0]
    return list(SUITES.get(suite).trait_names) if suite in SUITES.names() else []


def in_order(traits: Mapping[str, Any], recipe: str) -> list[tuple[str, Any]]:
    """The traits of an example, starting with those that its suite explains."""
    order = {name: place for place, name in enumerate(trait_order(recipe))}
    return sorted(traits.items(), key=lambda item: order.get(item[0], len(order)))


def broken(value: Any, longest: int = LONGEST) -> Markup:
    """A name as escaped markup that allows line breaks after plus signs."""
    return Markup("+<wbr>").join(shown(value, longest).split("+"))


def shade(value: float | None) -> int:
    """Step of a share on the colour scale; -1 for None.

    >>> shade(0.0), shade(0.5), shade(1.0), shade(None)
    (0, 10, 20, -1)
    """
    if value is None or value != value:
        return -1
    return round(min(1.0, max(0.0, value)) * STEPS)


def clip(text: object, longest: int = LONGEST) -> str:
    """Shorten a text, with a note on the number of omitted characters.

    >>> clip("abcdef", 3)
    'abc … (3 more characters)'
    """
    whole = str(text)
    return (
        whole
        if len(whole) <= longest
        else f"{whole[:longest]} … ({len(whole) - longest:,} more characters)"
    )


def plain(value: object, longest: int = LONGEST) -> str:
    """Format a value as text for attributes and titles, with hidden characters as code points.

    >>> plain("a\\u202eb")
    'a⟨U+202E⟩b'
    """
    return ORDERS.sub(_code, clip(value, longest))


def shown(value: Any, longest: int = LONGEST) -> Markup:
    """Format a value as escaped markup, with hidden characters as highlighted code points.

    >>> str(shown("<b>\\x07"))
    '&lt;b&gt;<span class="code-point">U+0007</span>'
    """
    text = clip(value, longest)
    parts: list[Markup] = []
    end = 0
    for match in ORDERS.finditer(text):
        parts.append(escape(text[end : match.start()]))
        parts.append(Markup('<span class="code-point">{}</span>').format(_name(match[0])))
        end = match.end()
    return Markup("").join([*parts, escape(text[end:])])


def exact(value: object) -> Markup:
    """Escape a value for a form field that is sent back: every character is preserved, hidden ones
    as character references.

    >>> str(exact('a"\u202e'))
    'a&#34;&#x202E;'
    """
    return Markup(ORDERS.sub(lambda match: f"&#x{ord(match[0]):X};", str(escape(value))))  # noqa: S704 - escaped before


def _code(match: re.Match[str]) -> str:
    return f"⟨{_name(match[0])}⟩"


def _name(character: str) -> str:
    return f"U+{ord(character):04X}"
