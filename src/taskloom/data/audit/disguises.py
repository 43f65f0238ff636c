"""Disguises: changes of a text that hide a copy from text comparison.

Some never occur by chance: invisible characters, HTML entities, letters of other scripts inside a
word, accents added to a whole text. They are undone before texts are compared, and any match is a
leak. Others do occur by chance: two questions about the same story, or two sums, may differ only in
a number or in word order. Those are leaks only if they are far more frequent between training and
test than within training.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import exp, log

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from taskloom.core.arrow import strings
from taskloom.data.audit.near_duplicates import LONG, Words, fold, scramble

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
Mask = NDArray[np.bool_]

FOLDED = "case, spacing or punctuation"
SIMILAR = "nearly the same words"
SEVERAL = "several disguises"
NUMBERS = "other numbers"
ONE_WORD = "one other word"
SENTENCES = "sentence order"
WORDS = "word order"

UNLIKELY = 1e-6
"""Maximum probability of as many matches by chance. Below it they count as leaks."""

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_MARKS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")
_LATIN_NAME = re.compile(r"LATIN (SMALL|CAPITAL) LETTER (?:SCRIPT |DOTLESS )?([A-Z])(?: WITH .*)?$")
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")

# Letters of other scripts that look like a Latin letter in most fonts, by script.
_PAIRS = (
    ("аеорсухіјѕһԁԛԝӏкгпԍүәв", "aeopcyxijshdqwlkrngyeb"),  # Cyrillic
    ("АВЕКМНОРСТУХІЈЅԌԚԜӀ", "ABEKMHOPCTYXIJSGQWI"),  # Cyrillic
    ("αονρτυικχγεηωϲϳ", "aovptuikxyenwcj"),  # Greek
    ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿ", "ABEZHIKMNOPTYXCJ"),  # Greek
    ("օոսհցքզո", "onuhgqqn"),  # Armenian
    ("ɑᴀʙᴄᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "aabcdeghijklmnoprstuvwyz"),  # Latin
)


class _LookAlikes(dict[int, str]):
    """Translation table for `str.translate` from look-alike characters to Latin letters."""

    def __init__(self) -> None:
        super().__init__()
        for others, latin in _PAIRS:
            self.update({ord(o): one for o, one in zip(others, latin, strict=True)})

    def __missing__(self, code: int) -> str:
        character = chr(code)
        named = _LATIN_NAME.match(unicodedata.name(character, "")) if code >= 0x80 else None
        if named is not None:
            character = named[2] if named[1] == "CAPITAL" else named[2].lower()
        self[code] = character
        return character


_look_alikes = _LookAlikes()


def _without_invisible(text: str) -> str:
    return _INVISIBLE.sub("", text)


def _without_accents(text: str) -> str:
    bare = _MARKS.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", bare)


def _in_latin(text: str) -> str:
    return text.translate(_look_alikes)


def _mixed_in_latin(text: str) -> str:
    """Replace look-alikes only in words that also have an ASCII letter. Other words may belong to
    another language.
    """

    def replaced(match: re.Match[str]) -> str:
        word = match[0]
        mixed = re.search("[A-Za-z]", word) and not word.isascii()
        foreign = any(unicodedata.name(c, "").startswith(_OTHER_SCRIPTS) for c in word)
        return _in_latin(word) if mixed and foreign else word

    return _WORD.sub(replaced, text)


_OTHER_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "LATIN LETTER SMALL CAPITAL")

STEPS: Mapping[str, Callable[[str], str]] = {
    "HTML entities": html.unescape,
    "invisible characters": _without_invisible,
    "accents": _without_accents,
    "look-alike letters": _in_latin,
}
"""Function that undoes each disguise, in the order in which they are applied."""


def _undisguised(text: str) -> str:
    text = _without_invisible(html.unescape(text))
    # In short inputs an accent or a letter of another alphabet carries meaning: `año`, `f α`.
    if len(text.split()) < LONG:
        return _mixed_in_latin(text)
    return _in_latin(_without_accents(text))


def undisguise(texts: pa.Array) -> pa.Array:
    """Undo the disguises in texts. ASCII texts without `&` have none."""
    suspect = pc.match_substring_regex(texts, r"[^\x00-\x7F]|&(#|[A-Za-z])")
    if not pc.any(suspect).as_py():
        return texts
    plain = [
        _undisguised(text) if look and text is not None else text
        for text, look in zip(texts.to_pylist(), suspect.to_pylist(), strict=True)
    ]
    return strings(plain)


def disguises_of(texts: list[str], others: list[str]) -> list[str]:
    """Name the disguise of each pair of texts that are equal after undoing disguises."""
    kinds = [SEVERAL] * len(texts)
    for kind, undo in STEPS.items():
        ours, theirs = (fold(strings([undo(t) for t in side])) for side in (texts, others))
        for at, same in enumerate(pc.equal(ours, theirs).to_pylist()):
            if same and kinds[at] == SEVERAL:
                kinds[at] = kind
    return kinds


def order_of(text: str, other: str) -> str:
    """Name what differs between two texts with the same words: the order of sentences or words."""
    ours, theirs = (sorted(_SENTENCE_END.split(side.strip())) for side in (text, other))
    return SENTENCES if ours == theirs else WORDS


@dataclass(frozen=True, slots=True)
class Forms:
    """Hashes of a split's long texts that ignore some differences; 0 for short texts.

    Attributes:
        numbers: A hash that ignores the values of numbers; 0 also for texts without any.
        bag: A hash that ignores the order of words.
        words: Words of the texts, for `one_word_matches`.
    """

    numbers: U64
    bag: U64
    words: Words


def find_forms(words: Words) -> Forms:
    """Compute the hashes of the long texts of a split."""
    numbers = np.zeros(len(words.sizes), dtype=np.uint64)
    bag = np.zeros(len(words.sizes), dtype=np.uint64)
    at = np.flatnonzero(words.sizes)  # short texts have size 0 and no words
    if len(at):
        sizes = words.sizes[at]
        # The words of all texts follow each other in one array: text i begins at starts[i].
        starts = np.cumsum(sizes) - sizes
        place = (np.arange(len(words.ids)) - np.repeat(starts, sizes)).astype(np.uint64)
        # Sum over the word hashes of each text. The last bit is set because 0 marks short texts.
        bag[at] = np.add.reduceat(scramble(words.ids), starts) | np.uint64(1)
        # Here a word's hash depends on its position, and all numbers count as the same word.
        masked = np.where(words.is_number, np.uint64(0), words.ids)
        ordered = scramble(masked + (place << np.uint64(32)))
        some = np.add.reduceat(words.is_number.astype(np.int64), starts) > 0
        hashes = np.add.reduceat(ordered, starts) | np.uint64(1)
        numbers[at] = np.where(some, hashes, np.uint64(0))
    return Forms(numbers, bag, words)


SAMPLED = 1_000
"""Number of training texts sampled to estimate how often texts differ in one word by chance."""

CHUNK = 1 << 20
"""Words hashed at a time, which limits memory to about 50 MB."""


def one_word_matches(
    mine: Words, theirs: Words, wanted: Mask, their_plain: I64
) -> tuple[Mask, float]:
    """Find the tested texts that differ from a training text in exactly one word, and how often
    that happens by chance.

    A text of w words has w hashes, each leaving out one position. Two texts of the same length that
    differ in one word share the hash that leaves it out.

    Args:
        mine: The words of the tested texts.
        theirs: The words of the training texts.
        wanted: The tested texts to look at.
        their_plain: Id of each training text. Equal texts have the same id.

    Returns:
        The texts, and the share of a sample of training texts that differ in one word from another
        training text.
    """
    asked = np.flatnonzero(wanted & (mine.sizes > 0))
    long_texts = np.flatnonzero(theirs.sizes)
    # Evenly spaced sample, so that the same data always gives the same verdict.
    step = max(1, len(long_texts) // SAMPLED)
    sampled = long_texts[::step]
    tested_hashes, tested_rows = _masked(mine, asked)
    sample_hashes, sample_rows = _masked(theirs, sampled)
    queries = np.unique(np.concatenate((tested_hashes, sample_hashes)))
    # Smallest and largest id of the training texts with each hash. They differ if different texts
    # have the hash, and `highest` stays -1 if no text has it.
    lowest = np.full(len(queries), np.iinfo(np.int64).max)
    highest = np.full(len(queries), -1)
    for part in _parts(theirs, long_texts):
        hashes, rows = _masked(theirs, part)
        at = np.minimum(np.searchsorted(queries, hashes), max(0, len(queries) - 1))
        hit = queries[at] == hashes if len(queries) else np.zeros(0, np.bool_)
        np.minimum.at(lowest, at[hit], their_plain[rows[hit]])
        np.maximum.at(highest, at[hit], their_plain[rows[hit]])
    found = np.zeros(len(mine.sizes), dtype=np.bool_)
    found[tested_rows[highest[np.searchsorted(queries, tested_hashes)] >= 0]] = True
    at = np.searchsorted(queries, sample_hashes)
    # Every sampled text matches itself. It has a neighbour if a different text has the same hash.
    neighbours = len(np.unique(sample_rows[lowest[at] != highest[at]]))
    return found, float((neighbours + 1) / (len(sampled) + 1))


def _parts(words: Words, rows: I64) -> list[I64]:
    """Divide rows into chunks of about `CHUNK` words."""
    total = np.cumsum(words.sizes[rows])
    if not len(total):
        return []
    borders = np.searchsorted(total, np.arange(CHUNK, int(total[-1]), CHUNK))
    return np.split(rows, borders)


def _masked(words: Words, rows: I64) -> tuple[U64, I64]:
    """Hashes of texts with each word masked in turn, and the row of each hash."""
    sizes = words.sizes[rows]
    ends = np.cumsum(words.sizes)
    place = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ids = words.ids[np.repeat(ends[rows] - sizes, sizes) + place]
    place = place.astype(np.uint64)
    hashes = scramble(ids + (place << np.uint64(32)))
    if not len(hashes):
        return hashes, np.zeros(0, dtype=np.int64)
    # A text's hash is the sum of its words' hashes. For each word, subtract its hash and add one
    # that depends on its position and the length of the text.
    whole = np.add.reduceat(hashes, np.cumsum(sizes) - sizes)
    gap = scramble(place + (np.repeat(sizes, sizes).astype(np.uint64) << np.uint64(32)))
    return np.repeat(whole, sizes) - hashes + gap, np.repeat(rows, sizes)


@dataclass(frozen=True, slots=True)
class Alike:
    """Test rows that equal a training row except for numbers, order or one word.

    Attributes:
        split: The test split.
        other: The training split.
        kind: Kind of difference.
        rows: Number of such rows.
        natural: Share of rows expected by chance, estimated from the rate within each split.
        leak: True if `rows` is significantly higher.
    """

    split: str
    other: str
    kind: str
    rows: int
    natural: float
    leak: bool


def matches(form: U64, other: U64, wanted: Mask) -> Mask:
    """Wanted texts whose form also occurs in another split."""
    found = np.zeros(len(form), dtype=np.bool_)
    rows = np.flatnonzero(wanted & (form != 0))
    # Hashes use all 64 bits, and NumPy 2.0.0 overflows when it decides whether to use a lookup
    # table.
    found[rows] = np.isin(form[rows], other, kind="sort")
    return found


def natural_rate(form: U64, plain: I64, other: U64, other_plain: I64) -> float:
    """Share of tested texts that are expected to match a training text in a form by chance.

    Args:
        form: The forms of the tested texts.
        plain: Ids of the tested texts. Equal texts have the same id.
        other: The forms of the training texts.
        other_plain: Ids of the training texts.
    """
    tested, trained = int(np.count_nonzero(form)), int(np.count_nonzero(other))
    # Training texts are compared with as many training texts as test texts are.
    within_train = (_twins(other, other_plain) + 1) / (trained + 1)
    # Test texts are compared with fewer test texts than training texts, and the rate grows with
    # their number.
    within_test = _twins(form, plain) / max(1, tested) * max(1.0, trained / max(1, tested))
    return float(min(1.0, max(within_train, within_test)))


def _twins(form: U64, plain: I64) -> int:
    """Count the texts whose form occurs in another, different text of the same split."""
    rows = np.flatnonzero(form)
    order = rows[np.lexsort((plain[rows], form[rows]))]
    if not len(order):
        return 0
    forms, texts = form[order], plain[order]
    starts = np.flatnonzero(np.concatenate(([True], forms[1:] != forms[:-1])))
    sizes = np.diff(np.concatenate((starts, [len(order)])))
    # Texts are sorted within each form, so they differ if the first and the last do.
    differ = texts[starts] != texts[starts + sizes - 1]
    return int(sizes[differ].sum())


def exceeds(found: int, tested: int, rate: float) -> bool:
    """True if the number of matches is too unlikely at a given rate, by the Chernoff bound.

    >>> exceeds(50, 150, 0.01), exceeds(3, 150, 0.01), exceeds(150, 150, 1.0)
    (True, False, False)
    """
    share = found / max(1, tested)
    if share <= rate or rate >= 1:
        return False
    if rate == 0:
        return True
    distance = share * log(share / rate)
    if share < 1:
        distance += (1 - share) * log((1 - share) / (1 - rate))
    return exp(-tested * distance) < UNLIKELY
