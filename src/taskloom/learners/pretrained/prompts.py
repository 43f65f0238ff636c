"""How a task is shown in a prompt, and how the answer is cut out of what a model writes back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskloom.core.errors import ParameterError, echo, nearest
from taskloom.core.extraction import KINDS, Extraction
from taskloom.learners.interface import LearnerError
from taskloom.learners.saved import read_learner, saving

KNOWN = "known"
"""The extraction that needs the training split: the answer of it that a reply names first."""


def check_extract(text: str) -> None:
    """Raise a `LearnerError` where a setting `extract` is not one."""
    if text == KNOWN:
        return
    try:
        Extraction.read(text)
    except ParameterError as error:
        known = [KNOWN, *KINDS]
        hint = f"; {nearest(text, known)}" if text.partition(":")[0] not in known else ""
        raise LearnerError(f"extract is {echo(text)}{hint}" if hint else str(error)) from error


@dataclass(frozen=True, slots=True)
class Prompt:
    """A description, some examples, and the form in which inputs and answers stand.

    Attributes:
        describe: The instruction, first and in a paragraph of its own.
        examples: (input, answer) pairs that are shown.
        join: What stands between an input and its answer.
        answers: Where not empty, the answers that there are: the one that is named first is cut out of a whole sentence.
        how: How an answer is cut out of a reply: `line`, `known` or one of `taskloom.core.extraction.KINDS`.
    """

    describe: str = ""
    examples: tuple[tuple[str, str], ...] = ()
    join: str = " |"
    answers: tuple[str, ...] = ()
    how: str = "line"

    def before(self, text: str) -> str:
        """Return everything up to the end of the input; the caller adds the join."""
        head = [self.describe, ""] if self.describe else []
        return "\n".join([*head, *(f"{x}{self.join} {y}" for x, y in self.examples), text])

    def fill(self, text: str) -> str:
        """Return the whole prompt, join included."""
        return self.before(text) + self.join

    def extract(self, reply: str) -> str:
        """Extract the answer from what a model wrote.

        `line` and `known` take its first non-empty line, without a repeated label, quotes or full stop.
        """
        if self.how not in ("line", KNOWN):
            return Extraction.read(self.how)(reply)
        lines = [line.strip() for line in reply.strip().splitlines() if line.strip()]
        if not lines:
            return ""
        line = lines[0]
        mark = self.join.strip()
        if mark and mark in line:
            # A model that continues with the next example repeats the join; one that repeats the question puts it first.
            head, _, tail = line.partition(mark)
            line = head if head.strip() else tail
        line = re.sub(r"^(the\s+)?answer\s*(is\b|:)\s*", "", line.strip(), flags=re.IGNORECASE)
        line = line.strip().strip("\"'`*").removesuffix(".").strip().strip("\"'`*")
        return line if not self.answers or line in self.answers else self._named(line)

    def _named(self, line: str) -> str:
        """Find the known answer that a line names first, the longest of those that begin there; else return the line itself."""
        places = []
        for answer in self.answers:
            match = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", line, re.IGNORECASE)
            if answer and match:
                places.append((match.start(), -len(answer), answer))
        return min(places)[2] if places else line


def save_prompt(folder: Path, learner: Any, prompt: Prompt) -> None:
    """Write a learner that only prompts: its card and the examples. The model is named, not copied; a key is never written."""
    with saving(folder, learner, examples=prompt.examples, answers=prompt.answers):
        pass


def read_prompt(folder: Path) -> tuple[Any, Prompt]:
    """Read a learner that only prompts, and its prompt."""
    card, learner = read_learner(folder)
    examples = tuple((x, y) for x, y in card["examples"])
    return learner, Prompt(
        learner.describe, examples, learner.join, tuple(card["answers"]), learner.extract
    )


def known_answers(targets: Sequence[str]) -> tuple[str, ...]:
    """Return the different answers of a training split."""
    return tuple(sorted(set(targets)))
