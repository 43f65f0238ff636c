"""From the SVG text that matplotlib writes to a short file, or to a part of a page.

Files are written in about half the bytes. Matplotlib gives every corner of a path as `L 123.456789
234.567891`. A hundredth of a point is finer than any printer, and most steps are straight, so
`h4.72` is the same. Coordinates are rounded before steps are taken: errors do not add up. Every
label names ten fonts; here the drawing does, once.

In a page a drawing has the page's font and colours, also in dark mode. It has neither a style sheet
nor style attributes, which the viewer's security policy forbids.
"""

from __future__ import annotations

import re
from collections import Counter
from html import escape

from taskloom.analysis.palette import ON_PAGES

TIP = "tip "
"""The gid of an artist that begins so is shown as the tooltip of its shape."""

_PATH = re.compile(r' d="([MLz\d.\s-]+)"')
_COMMAND = re.compile(r"([MLz])\s*(-?[\d.]+)?\s*(-?[\d.]+)?")
_FONTS = re.compile(r"font-family: ([^;\"]+); ")
_NOT_TURNED = re.compile(r' transform="rotate\(-0 [^)"]*\)"')
_EMPTY = re.compile(r'\n *<g id="\w+"/>')
_AROUND_TEXT = re.compile(r'<g id="(?:text|[xy]tick)_\d+">\n *(<text [^\n]*</text>)\n *</g>')
_PLACE = re.compile(r' ([xy])="(-?\d+\.\d{3,})"')
_INDENT = re.compile(r"\n +<")


def shorten(svg: str) -> str:
    """Return the same drawing in fewer bytes.

    Args:
        svg: The text of an `<svg>` element that matplotlib wrote.
    """
    short = _PATH.sub(lambda match: f' d="{spelled_as_steps(match[1])}"', svg)
    fonts = Counter(_FONTS.findall(short)).most_common(1)
    if fonts:
        family = fonts[0][0]
        short = short.replace(f"font-family: {family}; ", "").replace(
            "<svg ", f'<svg font-family="{family}" ', 1
        )
    short = _PLACE.sub(
        lambda match: f' {match[1]}="{_number(round(float(match[2]) * 100))}"', short
    )
    short = _EMPTY.sub("", _NOT_TURNED.sub("", short))
    for _ in range(2):  # a label is in a group of its own, which is in that of its tick
        short = _AROUND_TEXT.sub(r"\1", short)
    return _INDENT.sub("\n<", short)


def spelled_as_steps(path: str) -> str:
    """Return a path of `M`, `L` and `z` as steps, in hundredths of its unit.

    >>> spelled_as_steps("M 10.001 5 L 14.72 5 L 14.72 9.5 z M 0 0 L 1 -2 ")
    'M10 5h4.72v4.5zM0 0l1-2'
    """
    out, x, y = [], 0, 0
    for command, across, up in _COMMAND.findall(path):
        if command == "z":
            out.append("z")
            continue
        to_x, to_y = (round(float(place) * 100) for place in (across, up))
        out.append(f"M{_pair(to_x, to_y)}" if command == "M" else _step(to_x - x, to_y - y))
        x, y = to_x, to_y
    return "".join(out)


def _step(across: int, up: int) -> str:
    if not up:
        return f"h{_number(across)}"
    return f"l{_pair(across, up)}" if across else f"v{_number(up)}"


def _pair(across: int, up: int) -> str:
    return f"{_number(across)}{'' if up < 0 else ' '}{_number(up)}"


def _number(hundredths: int) -> str:
    """Return a number of hundredths in the fewest letters.

    >>> _number(472), _number(-5), _number(300), _number(0)
    ('4.72', '-.05', '3', '0')
    """
    sign, (whole, rest) = "-" if hundredths < 0 else "", divmod(abs(hundredths), 100)
    decimals = f".{rest:02}".rstrip("0") if rest else ""
    return f"{sign}{whole or ('' if decimals else 0)}{decimals}"


_TIP = re.compile(f'<g id="{TIP}([^"]*)">')


def with_tips(svg: str) -> str:
    """The same drawing with its tooltips.

    >>> with_tips('<g id="tip iid: 0.5"><path/></g>')
    '<g><title>iid: 0.5</title><path/></g>'
    """
    return _TIP.sub(r"<g><title>\1</title>", svg)


_METADATA = re.compile(r"<metadata>.*?</metadata>\n?", re.S)
_STYLE_SHEET = re.compile(r"<defs>\s*<style.*?</style>\s*</defs>\n?", re.S)
_TAG = re.compile(r"<[^>]+>")
"""What is in quotes inside of a tag has no `>`, and labels are outside of tags."""
_SIZE = re.compile(r' (?:width|height|viewBox)="[^"]*"')
_ID = re.compile(r' id="([^"]*)"')
_USED = re.compile(r'href="#([^"]+)"|url\(#([^)]+)\)')
_STYLE = re.compile(r' style="([^"]*)"')
_HEX = re.compile(r"#[0-9a-f]{6}\b")


def for_page(svg: str, alt: str) -> str:
    """A drawing as a part of an HTML page.

    A drawing with other colours than those of the palette, such as a heat map, keeps them all: it
    has the class `on-white`, so that the page gives it a white background.

    Args:
        svg: The text of an `<svg>` element, with tooltips.
        alt: What it shows, in words.
    """
    body = _STYLE_SHEET.sub("", _METADATA.sub("", svg))
    tags = _TAG.findall(body)
    used = {name for tag in tags for pair in _USED.findall(tag) for name in pair if name}
    follows = all(colour in ON_PAGES for tag in tags for colour in _HEX.findall(tag))

    def on_page(match: re.Match[str]) -> str:
        # Other drawings of the page have the same names for their parts.
        tag = _ID.sub(lambda part: part[0] if part[1] in used else "", match[0])
        tag = _STYLE.sub(lambda part: _as_attributes(part[1]), tag).replace("xlink:href", "href")
        return _HEX.sub(lambda part: ON_PAGES[part[0]], tag) if follows else tag

    size = "".join(_SIZE.findall(tags[0]))
    kind = "" if follows else ' class="on-white"'
    root = f'<svg{size}{kind} role="img" aria-label="{escape(alt[:1500])}" stroke-linejoin="round">'
    return root + _TAG.sub(on_page, body[len(tags[0]) :])


def _as_attributes(style: str) -> str:
    """A style as attributes of its element; the font's name is left to the page.

    >>> _as_attributes("fill: none; stroke: #000000; font-family: 'A'")
    ' fill="none" stroke="#000000"'
    """
    pairs = [part.split(":", 1) for part in style.split(";") if ":" in part]
    kept = [(name.strip(), value.strip()) for name, value in pairs]
    return "".join(f' {name}="{value}"' for name, value in kept if name != "font-family")
