"""Short spellings of what matplotlib writes as SVG: the same drawing in about half the bytes.

Matplotlib gives every corner of a path as `L 123.456789 234.567891`. A hundredth of a point is finer than any printer, and most
steps are straight, so that `h4.72` says the same. Places are rounded before steps are taken: errors do not add up. Every label
names ten fonts; here the drawing does, once.
"""

from __future__ import annotations

import re
from collections import Counter

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
        short = short.replace(f"font-family: {family}; ", "").replace("<svg ", f'<svg font-family="{family}" ', 1)
    short = _PLACE.sub(lambda match: f' {match[1]}="{_number(round(float(match[2]) * 100))}"', short)
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
