"""The colours of all figures: one for each usual split, the same on every page and in every file.

Drawings have the light colours as they are. On a page each colour is a CSS variable (`--c0`,
`--f0`, …), which the page's style sheet sets for light and dark.
"""

from __future__ import annotations

from collections.abc import Sequence

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
"""Colours of series, light and dark, with a contrast of at least 4 to the page. The first two are
iid and ood: they differ by 0.13 in lightness, so that they differ in grey as well."""

SPLITS = {"iid": 0, "ood": 1, "train": 7}
"""Splits with a colour of their own."""

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
"""Colours of series in studies, light and dark. Neighbours differ in lightness, so that they differ
in grey as well."""


def colour_of(series: Sequence[str]) -> dict[str, int]:
    """Give each series the number of a colour: usual splits always have their own, the others take
    turns.
    """
    own = {name: SPLITS[name] for name in series if name in SPLITS}
    free = [i for i in range(len(COLOURS)) if i not in own.values()]
    others = [name for name in dict.fromkeys(series) if name not in SPLITS]
    return own | {name: free[place % len(free)] for place, name in enumerate(others)}


def series_colours(names: Sequence[object]) -> list[str]:
    """The light colour of each series of a study's figure."""
    if any(name in SPLITS for name in names):
        numbers = colour_of([str(name) for name in names])
        return [COLOURS[numbers[str(name)]][0] for name in names]
    return [SHADES[place % len(SHADES)][0] for place in range(len(names))]


def css_variables(dark: bool) -> str:
    """The colours as declarations of a style sheet.

    >>> css_variables(dark=False)[:25]
    '--c0:#14568a; --c1:#c4472'
    """
    pairs = [(f"--c{i}", pair) for i, pair in enumerate(COLOURS)]
    pairs += [(f"--f{i}", pair) for i, pair in enumerate(SHADES)]
    return " ".join(f"{name}:{pair[int(dark)]};" for name, pair in pairs)


INK, PAPER, GRID, SOFT = "#000000", "#ffffff", "#dddddd", "#444444"
"""Text and axes, background, grid lines, and lines such as a threshold or the score of guessing."""

ON_PAGES = {
    INK: "currentColor",
    PAPER: "var(--paper,#ffffff)",
    GRID: "var(--line,#dddddd)",
    SOFT: "var(--soft,#444444)",
    **{light: f"var(--c{i},{light})" for i, (light, _) in enumerate(COLOURS)},
    **{light: f"var(--f{i},{light})" for i, (light, _) in enumerate(SHADES)},
}
"""From a colour of a drawing to the page's."""
