"""Strategies that several targets share: odd values, and mutations of texts, bytes and JSON
values.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

ODD_TEXTS = (
    "", " ", "\0", "\n", "\t", "\r\n", "\ufeff", "\u202e", "\x1b[31m", "ä", "漢字", "😀", "\ud800", "..", "../../x", "/",
    "/etc/passwd",
    "~", "~nobody/x", "$HOME", "-", "--help", "con", "a/b", "a b", "'", '"', "`", "{}", "[]", "{{7*7}}", "%s", "$x^2$", "<script>",
    "null", "true", "nan", "inf", "-0", "1e400", "1_000", "0x10", "9" * 5_000, "x" * 3_000, "(" * 500, "[" * 500,
    "__import__('os')",
    "!!python/object/apply:os.system ['touch PWNED']", "*a", "&a [*a]", "<<", "?", "|", ">", "evil.py", "evil.py::x",
    "base.py", "1..2", "5..1",
    "train", "test", "0", "1", "-1",
)  # fmt: skip
"""Texts that have broken programs: controls, half a surrogate, paths, numbers that are none,
markup, code.
"""

ODD_NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    20,
    255,
    256,
    10_000,
    2**31,
    2**53,
    2**63,
    2**64,
    10**30,
    -(2**63),
)

odd_numbers = st.one_of(
    st.sampled_from(ODD_NUMBERS),
    st.integers(-5, 40),
    st.sampled_from([0.0, -0.0, 0.5, 1e-9, 1e9, 1e308, -1.5, 0.1]),
)
odd_scalars = st.one_of(
    st.none(),
    st.booleans(),
    odd_numbers,
    st.sampled_from(ODD_TEXTS),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
)
odd_values = st.recursive(
    odd_scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(ODD_TEXTS), inner, max_size=2)
    ),
    max_leaves=5,
)


@st.composite
def mutated_text(
    draw: st.DrawFn, seeds: Sequence[str], tokens: Sequence[str], most: int = 4
) -> str:
    """Draw one of some texts with a few edits: cuts, repeats, tokens put in or exchanged, pieces of
    another text.
    """
    text = draw(st.sampled_from(list(seeds)))
    for _ in range(draw(st.integers(0, most))):
        low = draw(st.integers(0, len(text)))
        high = draw(st.integers(low, min(len(text), low + 40)))
        action = draw(st.sampled_from(["cut", "repeat", "insert", "exchange", "splice"]))
        if action == "cut":
            text = text[:low] + text[high:]
        elif action == "repeat":
            text = text[:high] + text[low:high] * draw(st.sampled_from([1, 2, 50])) + text[high:]
        elif action in ("insert", "exchange"):
            token = draw(st.one_of(st.sampled_from(list(tokens)), st.sampled_from(ODD_TEXTS)))
            text = text[:low] + token + text[low if action == "insert" else high :]
        else:
            other = draw(st.sampled_from(list(seeds)))
            cut = draw(st.integers(0, len(other)))
            text = text[:low] + other[cut:]
    return text[:20_000]


@st.composite
def mutated_bytes(draw: st.DrawFn, seeds: Sequence[bytes], most: int = 6) -> str:
    """Draw the bytes of a file with a few of them changed, cut or repeated, as Latin-1 text."""
    data = bytearray(draw(st.sampled_from(list(seeds))))
    for _ in range(draw(st.integers(1, most))):
        low = draw(st.integers(0, max(0, len(data) - 1)))
        action = draw(st.sampled_from(["flip", "set", "cut", "repeat", "zero"]))
        if action == "flip" and data:
            data[low] ^= 1 << draw(st.integers(0, 7))
        elif action == "set" and data:
            data[low] = draw(st.integers(0, 255))
        elif action == "cut":
            del data[low : low + draw(st.integers(1, 200))]
        elif action == "repeat":
            data[low:low] = data[low : low + draw(st.integers(1, 200))]
        else:
            size = min(len(data) - low, draw(st.integers(1, 8)))
            data[low : low + size] = bytes(size)
    return bytes(data).decode("latin-1")


def places(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the paths to all parts of a JSON value but the whole."""
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path for key, part in inner for path in [(*at, key), *places(part, (*at, key))]]


@st.composite
def mutated_json(
    draw: st.DrawFn,
    bases: Sequence[Any],
    values: st.SearchStrategy[Any] = odd_values,
    most: int = 3,
) -> Any:
    """Draw one of some JSON values with parts of it removed, renamed, repeated or exchanged for odd
    ones.
    """
    root = copy.deepcopy(draw(st.sampled_from(list(bases))))
    for _ in range(draw(st.integers(0, most))):
        paths = places(root)
        if not paths:
            return draw(values)
        path = draw(st.sampled_from(paths))
        holder = root
        for key in path[:-1]:
            holder = holder[key]
        _change(draw, holder, path[-1], values)
    return root


def _change(draw: st.DrawFn, holder: Any, key: Any, values: st.SearchStrategy[Any]) -> None:
    action = draw(st.sampled_from(["set", "set", "set", "remove", "add", "rename"]))
    if action == "set":
        holder[key] = draw(values)
    elif action == "remove":
        del holder[key]
    elif isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]) if action == "rename" else draw(values))
    elif action == "add":
        holder[draw(st.sampled_from(ODD_TEXTS))] = draw(values)
    else:
        holder[draw(st.sampled_from(ODD_TEXTS))] = holder.pop(key)


WORDINGS = (
    "{} again",
    "really {}",
    "{}s",
    "the {}",
    "not {}",
    "{}, too",
    "{{V}} {}",
    "{}?",
    "{} and {}",
)
"""Ways to edit a text that leave it a text of words: what is refused for its meaning, not for its
form.
"""


@st.composite
def reworded_json(draw: st.DrawFn, base: Any, most: int = 3) -> Any:
    """Draw a JSON value with some of its texts edited, numbers moved and lists put in another
    order.
    """
    root = copy.deepcopy(base)
    for _ in range(draw(st.integers(1, most))):
        path = draw(st.sampled_from(places(root)))
        holder = root
        for key in path[:-1]:
            holder = holder[key]
        value = holder[path[-1]]
        if isinstance(value, str):
            holder[path[-1]] = draw(st.sampled_from(WORDINGS)).format(value, value)
        elif isinstance(value, int) and not isinstance(value, bool):
            holder[path[-1]] = value + draw(st.integers(-3, 3))
        elif isinstance(value, list):
            holder[path[-1]] = draw(st.permutations(value))[: draw(st.integers(1, len(value) + 1))]
    return root


def as_text(value: str) -> bytes:
    """Return a text as the bytes of a file; half a surrogate as the bytes that some programs write
    for it.
    """
    return value.encode("utf-8", "surrogatepass")


TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\d+(?:\.\d+)?|\w+|\s+|.', re.DOTALL)
"""Texts in quotes, numbers, words, white space, other characters: what formats and little languages
are made of.
"""


def sibling(value: Any, chance: random.Random) -> Any:
    """Return an input like another one: one of its texts with a token exchanged for one of the same
    kind, cut out or repeated.

    Such an input is as well formed as the other one mostly is, and costs a hundredth of what a draw
    of Hypothesis costs.
    """
    if isinstance(value, str):
        return _exchanged(value, chance)
    if isinstance(value, list) and value:
        at = chance.randrange(len(value))
        return [sibling(part, chance) if place == at else part for place, part in enumerate(value)]
    if isinstance(value, tuple):  # the first says what the others are: a file's name, a task
        at = chance.randrange(1, len(value))
        return tuple(
            sibling(part, chance) if place == at else part for place, part in enumerate(value)
        )
    return value


def _exchanged(text: str, chance: random.Random) -> str:
    tokens = TOKEN.findall(text)
    if not tokens:
        return chance.choice(ODD_TEXTS)
    at = chance.randrange(len(tokens))
    kind = _kind(tokens[at])
    action = chance.randrange(5)
    if action == 0:
        tokens[at] = ""
    elif action == 1:
        tokens[at] *= 2
    elif action == 2:
        tokens[at] = chance.choice([token for token in tokens if _kind(token) == kind])
    elif kind == "quoted":
        tokens[at] = json.dumps(chance.choice(ODD_TEXTS))
    elif kind == "number":
        tokens[at] = str(chance.choice(ODD_NUMBERS))
    else:
        tokens[at] = chance.choice(
            [token for token in tokens if _kind(token) == kind] + ["", *ODD_TEXTS[:8]]
        )
    return "".join(tokens)


def _kind(token: str) -> str:
    if token[0] == '"' and len(token) > 1:
        return "quoted"
    return "number" if token[0].isdigit() else "word" if token[0].isalpha() else "other"


def shorter(value: Any, chance: random.Random) -> Any:
    """Return an input with a piece of one of its texts cut out."""
    if isinstance(value, str):
        low = chance.randrange(len(value) + 1)
        return value[:low] + value[low + chance.choice([1, 1, 4, 16, 64]) :]
    if isinstance(value, list) and value:
        at = chance.randrange(len(value))
        return [shorter(part, chance) if place == at else part for place, part in enumerate(value)]
    if isinstance(value, tuple):
        at = chance.randrange(1, len(value))
        return tuple(
            shorter(part, chance) if place == at else part for place, part in enumerate(value)
        )
    return value
