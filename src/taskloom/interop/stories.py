"""Stories that a model asks for sentence by sentence before it answers.

The opening message has the question and the number of sentences. `READ 3` shows the third
sentence; every other reply is the answer. Which sentences are read shows whether a model looks for
the support or reads everything.
"""

from __future__ import annotations

import re
from contextlib import suppress

from taskloom.core.descriptions import Describer
from taskloom.core.errors import InputError, echo
from taskloom.core.example import Example
from taskloom.interop.graded import GradedSplit

_READ = re.compile(r"\W{0,4}read\W{0,4}(\d{1,6})\W{0,4}", re.IGNORECASE)
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def sentences_of(text: str, question: str) -> list[str]:
    """The sentences before a question; an `InputError` if there are none."""
    if not question or not text.rstrip().endswith(question):
        raise InputError(
            f"a dialogue needs a story with a question after it; {echo(text)} has none"
        )
    story = text.rstrip().removesuffix(question).strip()
    sentences = [sentence for sentence in _END_OF_SENTENCE.split(story) if sentence]
    if not sentences:
        raise InputError(f"{echo(text)} has no sentence before its question")
    return sentences


class Dialogue:
    """One story, told on request.

    Attributes:
        sentences: The sentences of the story.
        read: Numbers of the sentences that were asked for, from 1, in order.
    """

    def __init__(self, graded: GradedSplit, example: Example, question: str) -> None:
        bare = example
        with suppress(InputError):  # the input has no description
            bare = Describer(graded.plan, "instruction").bare(example)
        self.description = example.input.removesuffix(bare.input).strip()
        self.sentences = sentences_of(bare.input, question)
        self.read: list[int] = []
        self._graded, self._question = graded, question

    @property
    def opening(self) -> str:
        """The first message."""
        number = len(self.sentences)
        asked = (
            f"A story has {number} sentences. You cannot see them yet. Reply with READ and a number"
            f" from 1 to {number}, such as READ 1, to see one sentence. When you know the answer,"
            f" give it instead.\n\n{self._question}"
        )
        parts = (self.description, asked, self._graded.answer_format)
        return "\n\n".join(part for part in parts if part)

    def respond(self, reply: str) -> str | None:
        """The next message; None if the reply is the answer, or if it asks once too often.

        A model may ask as often as the story has sentences, and one number twice.
        """
        asked = _READ.fullmatch(reply.strip())
        number = len(self.sentences)
        if asked is None or len(self.read) == 2 * number:
            return None
        chosen = int(asked[1])
        self.read.append(chosen)
        if not 1 <= chosen <= number:
            return f"There is no sentence {chosen}. The story has {number}."
        return f"{chosen}: {self.sentences[chosen - 1]}"
