"""Invented people whom several domains name as founders, owners, makers and officials."""

from __future__ import annotations

_FIRST = ("Ada", "Bruno", "Clara", "Dorian", "Edith", "Felix", "Greta", "Hugo", "Ines", "Jonas", "Klara", "Lionel")
_LAST = ("Ashdown", "Bellweather", "Corrigan", "Danforth", "Eastlake", "Farrow", "Greenhalgh", "Holloway")

PEOPLE: tuple[str, ...] = tuple(f"{first} {last}" for first in _FIRST for last in _LAST)
