"""The style of all figures: colours of splits and series, which are the same on every page and in
every file, and compact SVG.

Files use the light colours. On a page each colour is a CSS variable (`--c0`, `--f0`, …), which the
page's style sheet sets for light and dark mode, and the font is the page's. Drawings on pages have
neither a style sheet nor style attributes, because the viewer's security policy forbids them.

SVG is shortened to about half its size. Matplotlib writes every corner of a path as `L 123.456789
234.567891`. A hundredth of a point is finer than any printer resolves, and most segments are
horizontal or vertical, so `h4.72` is equivalent. Coordinates are rounded before differences are
taken, so errors do not add up. Matplotlib also repeats ten font names in every label; here they are
written once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from html import escape

COLOURS = (
    ("#14568a", "#6ab3ec"),
    ("#c4472b", "#f08f76"),
    ("#4f7a1f", "#9bcf6a"),
    ("#7b4ea3", "#c39be8"),
    ("#a8700b", "#e3b457"),
    ("#1f8080", "#62c7c7"),
    ("#a83f6f", "#ec8fb8"),
    ("#5b6b7b", "#a9b6c4"),
)
"""Colours of series, light and dark, with a contrast of at least 4 to the page. The first two, iid
and ood, differ by 0.13 in lightness, so that they can be distinguished in greyscale.
"""

SPLITS = {"iid": 0, "ood": 1, "train": 7}
"""Splits with a fixed colour."""

SHADES = (
    ("#1b1b1b", "#e4e4e2"),
    ("#1b6ca8", "#6ab3ec"),
    ("#e0785c", "#f0a48f"),
    ("#6f6f6f", "#a9adb2"),
    ("#8fbfe0", "#4f87ad"),
    ("#a8361d", "#ff8a6b"),
    ("#a0a0a0", "#85898f"),
    ("#0f4c7a", "#3f8fce"),
)
"""Colours of series in studies, light and dark. Neighbours differ in lightness, so that they can be
distinguished in greyscale.
"""


def colour_of(series: Sequence[str]) -> dict[str, int]:
    """Assign each series the index of a colour. Usual splits have fixed colours; the others take
    the remaining ones in turn.
    """
    own = {name: SPLITS[name] for name in series if name in SPLITS}
    free = [i for i in range(len(COLOURS)) if i not in own.values()]
    others = [name for name in dict.fromkeys(series) if name not in SPLITS]
    return own | {name: free[place % len(free)] for place, name in enumerate(others)}


def series_colours(names: Sequence[object]) -> list[str]:
    """Light colour of each series of a study's figure."""
    if any(name in SPLITS for name in names):
        numbers = colour_of([str(name) for name in names])
        return [COLOURS[numbers[str(name)]][0] for name in names]
    return [SHADES[place % len(SHADES)][0] for place in range(len(names))]


def css_variables(dark: bool) -> str:
    """Colours as declarations of a style sheet.

    >>> css_variables(dark=False)[:25]
    '--c0:#14568a; --c1:#c4472'
    """
    pairs = [(f"--c{i}", pair) for i, pair in enumerate(COLOURS)]
    pairs += [(f"--f{i}", pair) for i, pair in enumerate(SHADES)]
    return " ".join(f"{name}:{pair[int(dark)]};" for name, pair in pairs)


INK, PAPER, GRID, SOFT = "#000000", "#ffffff", "#dddddd", "#444444"
"""Text and axes, background, grid lines, and secondary lines such as a threshold or chance."""

ON_PAGES = {
    INK: "currentColor",
    PAPER: "var(--paper,#ffffff)",
    GRID: "var(--line,#dddddd)",
    SOFT: "var(--soft,#444444)",
    **{light: f"var(--c{i},{light})" for i, (light, _) in enumerate(COLOURS)},
    **{light: f"var(--f{i},{light})" for i, (light, _) in enumerate(SHADES)},
}
"""Page colour for each colour of a drawing."""

TIP = "tip "
"""Prefix of the gid of an artist. The rest of the gid is shown as a tooltip."""

_PATH = re.compile(r' d="([MLz\d.\s-]+)"')
_COMMAND = re.compile(r"([MLz])\s*(-?[\d.]+)?\s*(-?[\d.]+)?")
_FONTS = re.compile(r"font-family: ([^;\"]+); ")
_NOT_TURNED = re.compile(r' transform="rotate\(-0 [^)"]*\)"')
_EMPTY = re.compile(r'\n *<g id="\w+"/>')
_AROUND_TEXT = re.compile(r'<g id="(?:text|[xy]tick)_\d+">\n *(<text [^\n]*</text>)\n *</g>')
_PLACE = re.compile(r' ([xy])="(-?\d+\.\d{3,})"')
_INDENT = re.compile(r"\n +<")


def shorten(svg: str) -> str:
    """Rewrite a drawing in fewer bytes.

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
    for _ in range(2):  # a label's group is nested in the group of its tick
        short = _AROUND_TEXT.sub(r"\1", short)
    return _INDENT.sub("\n<", short)


def spelled_as_steps(path: str) -> str:
    """Rewrite a path of `M`, `L` and `z` with relative steps, in hundredths of its unit.

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
    """Write a number of hundredths in as few characters as possible.

    >>> _number(472), _number(-5), _number(300), _number(0)
    ('4.72', '-.05', '3', '0')
    """
    sign, (whole, rest) = "-" if hundredths < 0 else "", divmod(abs(hundredths), 100)
    decimals = f".{rest:02}".rstrip("0") if rest else ""
    return f"{sign}{whole or ('' if decimals else 0)}{decimals}"


_TIP = re.compile(f'<g id="{TIP}([^"]*)">')


def with_tips(svg: str) -> str:
    """Turn the marked groups of a drawing into tooltips.

    >>> with_tips('<g id="tip iid: 0.5"><path/></g>')
    '<g><title>iid: 0.5</title><path/></g>'
    """
    return _TIP.sub(r"<g><title>\1</title>", svg)


_METADATA = re.compile(r"<metadata>.*?</metadata>\n?", re.S)
_STYLE_SHEET = re.compile(r"<defs>\s*<style.*?</style>\s*</defs>\n?", re.S)
_TAG = re.compile(r"<[^>]+>")
"""Matches a tag: quoted values in tags contain no `>`, and labels are outside tags."""
_SIZE = re.compile(r' (?:width|height|viewBox)="[^"]*"')
_ID = re.compile(r' id="([^"]*)"')
_USED = re.compile(r'href="#([^"]+)"|url\(#([^)]+)\)')
_STYLE = re.compile(r' style="([^"]*)"')
_HEX = re.compile(r"#[0-9a-f]{6}\b")


def for_page(svg: str, alt: str) -> str:
    """Prepare a drawing for an HTML page.

    A drawing with other colours than the palette, such as a heat map, keeps all its colours. It
    gets the class `on-white`, so that the page gives it a white background.

    Args:
        svg: The text of an `<svg>` element, with tooltips.
        alt: Description of what it shows.
    """
    body = _STYLE_SHEET.sub("", _METADATA.sub("", svg))
    tags = _TAG.findall(body)
    used = {match[1] or match[2] for tag in tags for match in _USED.finditer(tag)}
    follows = all(colour in ON_PAGES for tag in tags for colour in _HEX.findall(tag))

    def on_page(match: re.Match[str]) -> str:
        # Other drawings on the page use the same names for their parts.
        tag = _ID.sub(lambda part: part[0] if part[1] in used else "", match[0])
        tag = _STYLE.sub(lambda part: _as_attributes(part[1]), tag).replace("xlink:href", "href")
        return _HEX.sub(lambda part: ON_PAGES[part[0]], tag) if follows else tag

    size = "".join(_SIZE.findall(tags[0]))
    kind = "" if follows else ' class="on-white"'
    root = f'<svg{size}{kind} role="img" aria-label="{escape(alt[:1500])}" stroke-linejoin="round">'
    return root + _TAG.sub(on_page, body[len(tags[0]) :])


def _as_attributes(style: str) -> str:
    """Rewrite a style as attributes of its element. The font's name is left to the page.

    >>> _as_attributes("fill: none; stroke: #000000; font-family: 'A'")
    ' fill="none" stroke="#000000"'
    """
    pairs = [part.split(":", 1) for part in style.split(";") if ":" in part]
    kept = [(name.strip(), value.strip()) for name, value in pairs]
    return "".join(f' {name}="{value}"' for name, value in kept if name != "font-family")
