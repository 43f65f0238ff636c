"""The wordings of a task: its plain questions, statements asked for their truth, and frames that leave the meaning alone.

Compositions and output structures are built of plain questions (`programs.py`); paraphrases and flips choose among all wordings.
"""

from __future__ import annotations

from collections.abc import Iterator

from taskloom.suites.zest.synthetic.domain import Domain, Flag, Members, Number, Text
from taskloom.suites.zest.synthetic.programs import JOINING, Program, wordings

CONFIRMS = ("Is it true that {S}?", "Is it right that {S}?", "Can one say that {S}?")
"""Yes/no questions for the truth of a statement."""

ENDINGS = (", as described?", " or not?", " at all?")
"""What may follow a yes/no question; the last only where it does not compare."""

SPAN_ENDINGS = (", exactly?", ", as described?", ", if stated?")
STARTS = ("In the text, {q}", "Per the text, {q}")
"""Frames of questions that are answered by words of the passage; the public script knows their first words."""


def framed(domain: Domain, program: Program) -> list[str]:
    """Return every wording of a program that reads facts, the plain ones first; compositions have plain ones only."""
    plain = wordings(domain, program)
    if program.op in JOINING:
        return plain
    more = _of_yes_no(domain, program, plain) if program.yes_no else _of_spans(plain)
    return list(dict.fromkeys([*plain, *more]))


def overlap(one: str, other: str) -> float:
    """Return the share of words that two questions have in common, of all that they have."""
    a, b = (set(text.lower().replace(",", "").replace("?", "").split()) for text in (one, other))
    return len(a & b) / len(a | b)


def _of_yes_no(domain: Domain, program: Program, plain: list[str]) -> Iterator[str]:
    compares = program.op in ("more", "less", "any_over", "any_under")
    for text in plain:
        yield from (text[:-1] + ending for ending in (ENDINGS[:-1] if compares else ENDINGS))
    for statement in _statements(domain, program):
        yield from (frame.replace("{S}", statement) for frame in CONFIRMS)


def _of_spans(plain: list[str]) -> Iterator[str]:
    for text in plain:
        yield from (text[:-1] + ending for ending in SPAN_ENDINGS)
        yield from (start.replace("{q}", text[0].lower() + text[1:]) for start in STARTS)


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


def _comparisons(number: Number, program: Program) -> Iterator[str]:
    """Yield "weighs more than 20 pounds" for "weighs 24 pounds", and "was opened after 1900" for "was opened in 1911"."""
    value = number.text(program.args[1])
    above = program.op == "more"
    for clause in number.says:
        if " in {V}" in clause and not number.commas:
            yield clause.replace(" in {V}", f" {'after' if above else 'before'} {value}")
        elif number.commas and number.unit:
            yield clause.replace("{V}", f"{'more than' if above else 'under'} {value}")
