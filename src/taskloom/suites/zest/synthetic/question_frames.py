"""The wordings of a task: its own questions, and statements asked for their truth.

Compositions and output structures are built of the plainest questions (`programs.py`); paraphrases and flips choose among all
wordings. A domain with few questions gets frames around them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from taskloom.suites.zest.synthetic.domain import Domain, Flag, Members, Number, Text
from taskloom.suites.zest.synthetic.programs import JOINING, Program, wordings

CONFIRMS = ("Is it true that {S}?", "Can you confirm that {S}?", "Is it correct that {S}?")
"""Yes/no questions for the truth of a statement; each statement has one, in turn."""

ENOUGH = 8
"""Wordings of a program from which no frames are put around its questions."""

ENDINGS = (", as described?", " or not?")
SPAN_ENDINGS = (", as described?", ", if stated?")
STARTS = ("In the text, {q}", "Per the text, {q}")
"""Frames that leave the meaning alone: of yes/no questions, and of those that are answered by words of the passage."""


def framed(domain: Domain, program: Program) -> list[str]:
    """Return every wording of a program that reads facts, its own questions first; compositions have these only."""
    plain = wordings(domain, program)
    if program.op in JOINING:
        return plain
    texts = [*plain, *(_of_statements(domain, program) if program.yes_no else ())]
    if len(texts) < ENOUGH:
        texts += _of_yes_no(plain) if program.yes_no else _of_spans(plain)
    return list(dict.fromkeys(texts))


@lru_cache(maxsize=1 << 14)
def word_set(text: str) -> frozenset[str]:
    """Return the words of a question."""
    return frozenset(text.lower().replace(",", "").replace("?", "").split())


def overlap(one: str, other: str) -> float:
    """Return the share of words that two questions have in common, of all that they have."""
    a, b = word_set(one), word_set(other)
    return len(a & b) / len(a | b)


def _of_yes_no(plain: list[str]) -> Iterator[str]:
    for text in plain:
        yield from (text[:-1] + ending for ending in ENDINGS)


def _of_spans(plain: list[str]) -> Iterator[str]:
    for text in plain:
        yield from (text[:-1] + ending for ending in SPAN_ENDINGS)
        yield from (start.replace("{q}", text[0].lower() + text[1:]) for start in STARTS)


def _of_statements(domain: Domain, program: Program) -> Iterator[str]:
    for i, statement in enumerate(_statements(domain, program)):
        yield CONFIRMS[i % len(CONFIRMS)].replace("{S}", statement)


def _statements(domain: Domain, program: Program) -> Iterator[str]:
    """Yield what a yes/no program asks as statements, by the clauses that state it; those of records have none."""
    attribute = domain.by_name.get(program.args[0])
    if isinstance(attribute, Flag):
        clauses = attribute.affirms
    elif isinstance(attribute, Text | Members):
        clauses = tuple(c.replace("{V}", program.args[1]) for c in attribute.says)
    elif isinstance(attribute, Number):
        clauses = tuple(_comparisons(attribute, program))
    else:
        return
    yield from (clause.replace("{E}", domain.this) for clause in clauses)


YEARS = (("after", "before"), ("later than", "earlier than"), ("in the years following", "in the years preceding"))
AMOUNTS = (("more than", "under"), ("over", "under"))
"""How statements in turn compare with a number: above it, and below it."""


def _comparisons(number: Number, program: Program) -> Iterator[str]:
    """Yield "weighs more than 20 pounds" for "weighs 24 pounds", and "was opened after 1900" for "was opened in 1911"."""
    value = number.text(program.args[1])
    below = program.op == "less"
    for i, clause in enumerate(number.says):
        if " in {V}" in clause and not number.commas:
            yield clause.replace(" in {V}", f" {YEARS[i % len(YEARS)][below]} {value}")
        elif number.commas and number.unit:
            yield clause.replace("{V}", f"{AMOUNTS[i % len(AMOUNTS)][below]} {value}")
