"""How chat models are asked: the defaults of the learners `endpoint` and `model` and of every bridge
to another tool, in one place.

A prompt is the description of the task, the input, and the form of the answer:

    Read the story and answer the question from it.
    Fred went to the bedroom. Where is Fred?

    End your reply with a line that has "Answer:" and the answer alone.

docs/reference/prompts.md states the same for people.
"""

from __future__ import annotations

DESCRIBED = True
"""Default of `described`: the description of the task comes before the input."""

ANSWER_FORMAT = 'End your reply with a line that has "Answer:" and the answer alone.'
"""Default of `answer_format`: the sentence after the input."""

EXTRACT = "final"
"""Default of `extract`: how the answer is cut out of a reply (`taskloom.core.extraction`)."""

SHOWN_ANSWER = "Answer: {}"
"""The answer of an example that is shown as an earlier turn of the conversation."""


def chat_prompt(text: str, answer_format: str = ANSWER_FORMAT) -> str:
    """The message that asks for one answer.

    >>> print(chat_prompt("Where is Fred?", "Answer in one word."))
    Where is Fred?
    <BLANKLINE>
    Answer in one word.

    Args:
        text: The input, described or not.
        answer_format: The sentence after it; empty: none.
    """
    return f"{text}\n\n{answer_format}" if answer_format else text


def shown_answer(target: str, answer_format: str = ANSWER_FORMAT) -> str:
    """The reply that an example shows: in the default form if that is asked for."""
    return SHOWN_ANSWER.format(target) if answer_format == ANSWER_FORMAT else target
