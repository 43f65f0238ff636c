"""What the generators share: checked vocabularies, and drawing questions evenly over their answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from taskloom.core.seeding import Random
from taskloom.recipe import Fields

WORD = r"[^\W\d_]+(?:-[^\W\d_]+)*"
"""A name of one word."""

_PART = rf"(?!(?:is|the|fits?|bigger)\b){WORD}"
PHRASE = rf"({_PART}(?: {_PART})*)"
"""A thing's name in a sentence: words, but not those that hold sentences together, so that two sentences never read as one."""


def distinct(names: Sequence[str], least: int = 1) -> None:
    """Refuse a vocabulary that repeats itself or is too small."""
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise ValueError(f"'{name}' is listed twice")
        seen.add(name.casefold())
    if len(names) < least:
        raise ValueError(f"at least {least} names are needed, here are {len(names)}")


def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not re.fullmatch(WORD, name) or name.casefold() in ("a", "an", "the"):
            raise ValueError(f"'{name}' is not a name of one word of letters")
    distinct(names)
    return names


def _phrases(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not re.fullmatch(PHRASE, name):
            raise ValueError(
                f"'{name}' is not made of words of letters, with none of is, the, fit, fits, bigger among them"
            )
    distinct(names)
    return names


Names = Annotated[tuple[str, ...], AfterValidator(_names)]
"""Different single words."""

Phrases = Annotated[tuple[str, ...], AfterValidator(_phrases)]
"""Different names of one or more words."""

Share = Annotated[float, Field(ge=0.0, le=1.0)]
"""A probability."""


class TaskKnobs(Fields):
    """What the knobs of every numbered task derive from."""


class Asking(TaskKnobs):
    """The knobs that say how questions are drawn.

    Attributes:
        questions: How many a story has at most.
        repeats: Draw with replacement, as the published files do; otherwise no question stands twice in a story.
        unknown: The share of questions that the text leaves open, where a story allows any.
    """

    questions: int = Field(default=5, ge=1)
    repeats: bool = False
    unknown: Share = 0.0


def pick_questions(
    rng: Random, pools: Sequence[Sequence[str]], open_ones: Sequence[str], knobs: Asking
) -> list[str]:
    """Draw questions from pools (one for each answer that should be equally frequent) and from those that the text leaves open.

    Without repeats every round takes one question of each pool and the drawing ends when a pool is used up, so that the
    answers stay balanced even where one of them has more questions.
    """
    picked: list[str] = []
    fresh = [rng.sample(pool, len(pool)) for pool in pools if pool]
    left = rng.sample(open_ones, len(open_ones))
    turn: list[int] = []
    while len(picked) < knobs.questions:
        # Where only one sort of question is possible, it is asked whatever the coin says.
        if (rng.random() < knobs.unknown or not fresh) and open_ones:
            if not (left or knobs.repeats):
                break
            picked.append(rng.choice(open_ones) if knobs.repeats else left.pop())
            continue
        if not fresh:
            break
        if not turn:
            if not knobs.repeats and not all(fresh):
                break
            turn = rng.sample(range(len(fresh)), len(fresh))
        i = turn.pop()
        picked.append(rng.choice(fresh[i]) if knobs.repeats else fresh[i].pop())
    return picked


def article(noun: str) -> str:
    """Return the noun with a or an before it."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def capital(word: str) -> str:
    """Return the word with a capital first letter, the rest as it is."""
    return word[:1].upper() + word[1:]
