"""How a task and a passage become one input text, by the paper (appendix B) and by its public code."""

from __future__ import annotations

from typing import Literal

from taskloom.plan import Level

Layout = Literal["t5", "bart", "reference-t5", "reference-bart"]
"""t5 and bart: as the paper says. reference-...: as the code does, with another prefix and a doubled question mark for T5."""


def layout(question: str, context: str, style: Layout = "t5") -> str:
    """Join question and passage into the input text.

    >>> layout("Is it open?", "The park is open.", "bart")
    'zeroshot question: Is it open? zeroshot context: The park is open.'
    """
    if style == "t5":
        return f"zeroshot question: {question}\n\nzeroshot context: {context}\n\n"
    if style == "bart":
        return f"zeroshot question: {question} zeroshot context: {context}"
    if style == "reference-t5":
        return f"zest question: {question}?\n\nzest context: {context}\n\n"
    return f" zest question: {question} zest context: {context}".replace("\n", " ")


def context(text: str) -> str:
    """Return the passage of an input text, whatever its layout."""
    return text.partition(" context: ")[2].strip()


def described_in_input(task: str, level: Level) -> str:
    """Return no description for recipes with `described`: every input of ZEST contains that of its task."""
    return ""
