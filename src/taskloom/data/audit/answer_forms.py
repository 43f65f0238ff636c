"""The forms in which models write right and wrong answers, to audit scorers with.

A form turns an example into a text, or into None where it does not apply (an order of a list that has one item). Forms of right
answers say the same as an acceptable answer; forms of wrong answers do not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from taskloom.core.example import Example
from taskloom.core.scoring import bare, items, number
from taskloom.core.seeding import Random

AnswerKind = Literal["text", "number", "list", "sequence"]
"""What an answer is: a word or name, a number, items in any order, or items whose order counts."""

_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
_ONES += ["thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_NO_ARTICLE = frozenset(
    ["yes", "no", "maybe", "none", "nothing", "nobody", "nowhere", "true", "false"]
)
_REASONING = (
    "Let me think step by step. There are a few things to look at, and some of them do not matter."
)


@dataclass(frozen=True, slots=True)
class AuditedExample:
    """An example with what forms need besides it.

    Attributes:
        example: The example.
        kind: What its answer is.
        other: An answer of another example that is wrong here.
        draw: Where random choices come from.
    """

    example: Example
    kind: AnswerKind
    other: str
    draw: Random

    @property
    def answer(self) -> str:
        """Return the official answer."""
        return self.example.target

    @property
    def sentence_end(self) -> str:
        """Return the official answer as a sentence ends with it: an abbreviation's full stop is the sentence's, too."""
        return self.answer if self.answer.endswith(".") else f"{self.answer}."

    @property
    def items(self) -> list[str]:
        """Return the items of the official answer."""
        return items(self.answer)


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """One form.

    Attributes:
        name: For tables.
        right: Whether what it writes is right.
        write: From a question to the text; None where the form does not apply.
        reply: Whether it is a reply out of which the answer must be extracted.
    """

    name: str
    right: bool
    write: Callable[[AuditedExample], str | None]
    reply: bool = False


def in_words(value: int) -> str:
    """Return a number from 0 to 99 in English words.

    >>> in_words(7), in_words(40), in_words(42)
    ('seven', 'forty', 'forty-two')
    """
    if value < 20:
        return _ONES[value]
    tens = _TENS[value // 10 - 2]
    return f"{tens}-{_ONES[value % 10]}" if value % 10 else tens


def _article(q: AuditedExample) -> str | None:
    if q.kind == "list":
        return ", ".join(f"the {item}" for item in q.items) if all(map(_is_noun, q.items)) else None
    return f"the {q.answer}" if q.kind == "text" and _is_noun(q.answer) else None


def _is_noun(text: str) -> bool:
    return re.fullmatch(r"[a-z]{3,}( [a-z]{3,})?", text) is not None and text not in _NO_ARTICLE


def _number_word(q: AuditedExample) -> str | None:
    value = number(q.answer) if q.kind == "number" else None
    return (
        in_words(value)
        if value is not None and 0 <= value < 100 and q.answer.strip().isdigit()
        else None
    )


def _digits(q: AuditedExample) -> str | None:
    value = number(q.answer) if q.kind == "number" else None
    return str(value) if value is not None and not q.answer.strip().isdigit() else None


def _another_acceptable(q: AuditedExample) -> str | None:
    return q.draw.choice(q.example.targets[1:]) if len(q.example.targets) > 1 else None


def _many(q: AuditedExample) -> list[str]:
    """Return the items of a list answer that has several, else none."""
    return q.items if q.kind == "list" and len(q.items) > 1 else []


def _reordered(q: AuditedExample) -> str | None:
    return ", ".join(reversed(_many(q))) if len(set(_many(q))) > 1 else None


def _with_and(q: AuditedExample) -> str | None:
    many = _many(q)
    if not many:
        return None
    comma = "," if len(many) > 2 else ""
    return f"{', '.join(many[:-1])}{comma} and {many[-1]}"


def _bullets(q: AuditedExample) -> str | None:
    return "\n".join(f"- {item}" for item in _many(q)) or None


RIGHT = (
    AnswerForm("as it is", True, lambda q: q.answer),
    AnswerForm("another acceptable answer", True, _another_acceptable),
    AnswerForm("white space around", True, lambda q: f"\n  {q.answer} \n"),
    AnswerForm("upper case", True, lambda q: q.answer.upper()),
    AnswerForm("capitalised", True, lambda q: q.answer[:1].upper() + q.answer[1:]),
    AnswerForm("full stop", True, lambda q: q.sentence_end),
    AnswerForm("article", True, _article),
    AnswerForm("number as a word", True, _number_word),
    AnswerForm("number as digits", True, _digits),
    AnswerForm("list in another order", True, _reordered),
    AnswerForm("list with 'and'", True, _with_and),
    AnswerForm(
        "quotes", True, lambda q: f'"{q.answer}"' if '"' not in q.answer else None, reply=True
    ),
    AnswerForm("bold", True, lambda q: f"**{q.answer}**", reply=True),
    AnswerForm("boxed", True, lambda q: f"\\boxed{{{q.answer}}}", reply=True),
    AnswerForm(
        "boxed as text",
        True,
        lambda q: f"{_REASONING} Thus $\\boxed{{\\text{{{q.answer}}}}}$.",
        reply=True,
    ),
    AnswerForm("tag", True, lambda q: f"{_REASONING}\n<answer>{q.answer}</answer>", reply=True),
    AnswerForm("label", True, lambda q: f"Answer: {q.answer}", reply=True),
    AnswerForm("bold label", True, lambda q: f"{_REASONING}\n\n**Answer:** {q.answer}", reply=True),
    AnswerForm("sentence", True, lambda q: f"The answer is {q.sentence_end}", reply=True),
    AnswerForm(
        "explanation, then a sentence",
        True,
        lambda q: f"{_REASONING} So the answer is {q.sentence_end}",
        reply=True,
    ),
    AnswerForm(
        "explanation, then a line", True, lambda q: f"{_REASONING}\n\n{q.answer}", reply=True
    ),
    AnswerForm(
        "a bulleted list",
        True,
        lambda q: (b := _bullets(q)) and f"{_REASONING} These:\n\n{b}",
        reply=True,
    ),
)


def _cut(q: AuditedExample) -> str | None:
    return q.answer[:-2] if q.kind == "text" and len(q.answer) > 5 and " " not in q.answer else None


def _off_by_one(q: AuditedExample) -> str | None:
    value = number(q.answer) if q.kind == "number" else None
    return str(value + 1) if value is not None else None


def _swapped(q: AuditedExample) -> str | None:
    words = q.answer.split() if q.kind == "sequence" else []
    return " ".join(reversed(words)) if words != words[::-1] else None


WRONG = (
    AnswerForm("another answer", False, lambda q: q.other or None),
    AnswerForm(
        "another answer in a sentence",
        False,
        lambda q: f"The answer is {q.other}." if q.other else None,
        reply=True,
    ),
    AnswerForm(
        "another answer, boxed",
        False,
        lambda q: f"{_REASONING} \\boxed{{{q.other}}}" if q.other else None,
        reply=True,
    ),
    AnswerForm(
        "the right one named, another concluded",
        False,
        lambda q: (
            f"It may seem that the answer is {q.answer}. But no: the answer is {q.other}."
            if q.other
            else None
        ),
        reply=True,
    ),
    AnswerForm("two answers", False, lambda q: f"{q.answer} or {q.other}" if q.other else None),
    AnswerForm("negated", False, lambda q: f"not {q.answer}" if q.kind == "text" else None),
    AnswerForm("cut short", False, _cut),
    AnswerForm("one more", False, _off_by_one),
    AnswerForm(
        "an item too many",
        False,
        lambda q: f"{q.answer}, {q.other}" if q.kind == "list" and q.other else None,
    ),
    AnswerForm("an item missing", False, lambda q: ", ".join(_many(q)[1:]) or None),
    AnswerForm("another order", False, _swapped),
    AnswerForm("the question", False, lambda q: q.example.question or q.example.input),
    AnswerForm("nothing", False, lambda q: ""),
    AnswerForm("a refusal", False, lambda q: "I do not know."),
)


def is_wrong(text: str, example: Example) -> bool:
    """Return whether a text says something else than every acceptable answer: another word, number and set of items."""
    pieces, value = _pieces(text), number(text)
    for target in example.targets:
        if pieces & _pieces(target) or (value is not None and value == number(target)):
            return False
    return bool(pieces)


def _pieces(text: str) -> set[str]:
    """Return the items of a text, and the whole of it."""
    return {bare(item) for item in (*items(text), text)} - {""}
