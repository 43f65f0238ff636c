"""Text from data, as a page may show it: nothing is markup, and what would be invisible or reorder a line is shown by its code."""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup, escape

ORDERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters, marks of direction, characters without a glyph, and halves of characters."""

LONGEST = 20_000
"""Characters of one text on a page; no suite writes one that long, and a browser lays out a megabyte for seconds."""


def clip(text: object, longest: int = LONGEST) -> str:
    """Return the beginning of a text, with a note on what is left out.

    >>> clip("abcdef", 3)
    'abc … (3 more characters)'
    """
    whole = str(text)
    return whole if len(whole) <= longest else f"{whole[:longest]} … ({len(whole) - longest:,} more characters)"


def plain(value: object, longest: int = LONGEST) -> str:
    """Return a value as text for attributes and titles, its hidden characters written as codes.

    >>> plain("a\\u202eb")
    'a⟨U+202E⟩b'
    """
    return ORDERS.sub(_code, clip(value, longest))


def shown(value: Any, longest: int = LONGEST) -> Markup:
    """Return a value as escaped markup, its hidden characters as marked codes.

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
    """Return a value for an attribute that comes back with a form: every character as it is, hidden ones as references.

    >>> str(exact('a"\u202e'))
    'a&#34;&#x202E;'
    """
    return Markup(ORDERS.sub(lambda match: f"&#x{ord(match[0]):X};", str(escape(value))))  # noqa: S704 - escaped before


def _code(match: re.Match[str]) -> str:
    return f"⟨{_name(match[0])}⟩"


def _name(character: str) -> str:
    return f"U+{ord(character):04X}"
