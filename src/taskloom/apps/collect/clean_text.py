"""Text from outside: what a page or a file may carry, without what only confuses or deceives a
reader.
"""

from __future__ import annotations

import re
import unicodedata

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters but tab and line ends, and halves of surrogate pairs, which no file can
hold.
"""

_INVISIBLE = re.compile(
    "[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e007f]"
)
"""Marks that reverse the order of what is seen, and characters without a width. Joiners stay: some
scripts need them.
"""


def clean(text: str) -> str:
    """Return a text in composed form, with plain line ends and without control and direction marks.

    >>> clean("a\\x00b\\r\\nc\\u202ed")
    'ab\\ncd'
    """
    text = (
        text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n").replace("\x85", "\n")
    )
    return unicodedata.normalize("NFC", _INVISIBLE.sub("", _CONTROLS.sub("", text)))


def clean_line(text: str) -> str:
    """Return a text on one line, without double blanks.

    >>> clean_line(" Is it\\n open? ")
    'Is it open?'
    """
    return " ".join(clean(text).split())
