"""The input text of a task and a passage, by the paper (appendix B) and by its public code."""

from __future__ import annotations

from typing import Literal

from taskloom.core.plan import Level

Layout = Literal["t5", "bart", "reference-t5", "reference-bart"]
"""t5 and bart follow the paper. The reference layouts follow the code, which has another prefix and
doubles the question mark for T5.
"""

Parts = Literal["both", "question", "context"]
"""Parts of an input: question and passage, or one of them, as in the ablations of the paper's Table
5.
"""


def layout(question: str, context: str, style: Layout = "t5", parts: Parts = "both") -> str:
    """Join question and passage into the input text. An omitted part is empty.

    >>> layout("Is it open?", "The park is open.", "bart")
    'zeroshot question: Is it open? zeroshot context: The park is open.'
    """
    question, context = (
        question if parts != "context" else "",
        context if parts != "question" else "",
    )
    if style == "t5":
        return f"zeroshot question: {question}\n\nzeroshot context: {context}\n\n"
    if style == "bart":
        return f"zeroshot question: {question} zeroshot context: {context}"
    if style == "reference-t5":
        return f"zest question: {question}?\n\nzest context: {context}\n\n"
    return f" zest question: {question} zest context: {context}".replace("\n", " ")


def context(text: str) -> str:
    """Return the passage of an input text, whatever its layout."""
    return text.partition("context: ")[2].strip()


def question(text: str) -> str:
    """Return the question of an input text, whatever its layout.

    >>> question(layout("Is it open?", "The park is open.", "reference-t5"))
    'Is it open?'
    """
    start = text.partition("context: ")[0].partition("question: ")[2].strip()
    # What is left at the end is the name of the next part; the public code doubles the question
    # mark.
    words = start.removesuffix("zeroshot").removesuffix("zest").strip()
    return words.removesuffix("?") if words.endswith("??") else words


def described_in_input(task: str, level: Level) -> str:
    """Empty description for recipes with `described`, because every ZEST input already contains its
    task's description.
    """
    return ""
