"""In-context learning: a language model that is shown a description and k examples, or only the
input.

`Prompt` presents a task, and extracts the answer from a model's reply.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from taskloom.core.errors import ParameterError, echo, nearest
from taskloom.core.example import Example
from taskloom.core.extraction import KINDS, Extraction, without_thinking
from taskloom.core.seeding import Key
from taskloom.learners.config import check_settings, later_setting, register_learner
from taskloom.learners.interface import (
    Fitted,
    LearnerError,
    Pairs,
    Point,
    WithoutSteps,
    columns,
    examples,
    texts,
)
from taskloom.learners.saved import read_learner, saving

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


KNOWN = "known"
"""Extraction that needs the training split: the first of its answers that a reply names."""


def check_extract(text: str) -> None:
    """Raise a `LearnerError` unless the setting `extract` is valid."""
    if text == KNOWN:
        return
    try:
        Extraction.read(text)
    except ParameterError as error:
        names = [KNOWN, *KINDS]
        if text.partition(":")[0] in names:  # a known name with a bad argument
            raise LearnerError(str(error)) from error
        raise LearnerError(f"extract is {echo(text)}; {nearest(text, names)}") from error


@dataclass(frozen=True, slots=True)
class Prompt:
    """A description, some examples, and the layout of inputs and answers.

    Attributes:
        describe: The instruction, a separate paragraph at the beginning.
        examples: The (input, answer) pairs to show.
        join: Separator between an input and its answer.
        answers: The known answers. If not empty, the first one named by the reply is extracted.
        how: How an answer is extracted from a reply: `line`, `known` or one of
            `taskloom.core.extraction.KINDS`.
    """

    describe: str = ""
    examples: tuple[tuple[str, str], ...] = ()
    join: str = " |"
    answers: tuple[str, ...] = ()
    how: str = "line"

    def before(self, text: str) -> str:
        """Prompt up to the end of the input, without the separator."""
        head = [self.describe, ""] if self.describe else []
        return "\n".join([*head, *(f"{x}{self.join} {y}" for x, y in self.examples), text])

    def fill(self, text: str) -> str:
        """Whole prompt, including the separator."""
        return self.before(text) + self.join

    def extract(self, reply: str) -> str:
        """Extract the answer from a reply.

        `line` and `known` use its first non-empty line, without a repeated label, quotes or full
        stop.
        """
        return self.cut(reply)[0]

    def cut(self, reply: str) -> tuple[str, str]:
        """Extract the answer, with the name of the rule that found it."""
        if self.how not in ("line", KNOWN):
            return Extraction.read(self.how).cut(reply)
        return self._first_line(reply), self.how

    def _first_line(self, reply: str) -> str:
        spoken = without_thinking(reply)
        lines = [line.strip() for line in spoken.splitlines() if line.strip()]
        if not lines:
            return ""
        line = lines[0]
        mark = self.join.strip()
        if mark and mark in line:
            # A model that continues with the next example repeats the separator, and one that
            # repeats the question puts the question before it.
            head, _, tail = line.partition(mark)
            line = head if head.strip() else tail
        line = re.sub(r"^(the\s+)?answer\s*(is\b|:)\s*", "", line.strip(), flags=re.IGNORECASE)
        line = line.strip().strip("\"'`*").removesuffix(".").strip().strip("\"'`*")
        return line if not self.answers or line in self.answers else self._named(line)

    def _named(self, line: str) -> str:
        """Return the known answer that a line names first, or the longest if several begin there.
        If it names none, return the line itself.
        """
        places = []
        for answer in self.answers:
            match = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", line, re.IGNORECASE)
            if answer and match:
                places.append((match.start(), -len(answer), answer))
        return min(places)[2] if places else line


def save_prompt(folder: Path, learner: Any, prompt: Prompt) -> None:
    """Write a learner that only prompts: its card and the examples. The model is named, not copied,
    and keys are never written.
    """
    with saving(folder, learner, examples=prompt.examples, answers=prompt.answers):
        pass


def read_prompt(folder: Path) -> tuple[Any, Prompt]:
    """Read a learner that only prompts, and its prompt."""
    card, learner = read_learner(folder)
    examples = tuple((x, y) for x, y in card["examples"])
    how = "json:answer" if getattr(learner, "guided", "") == "schema" else learner.extract
    return learner, Prompt(learner.describe, examples, learner.join, tuple(card["answers"]), how)


def known_answers(targets: Sequence[str]) -> tuple[str, ...]:
    """Distinct answers of a training split."""
    return tuple(sorted(set(targets)))


def shown(train: Pairs, shots: int, seed: int) -> tuple[tuple[str, str], ...]:
    """Choose k examples by the seed, the same for every prompt."""
    if not shots:
        return ()
    items: list[Example] = examples(train)
    if shots > len(items):
        raise LearnerError(
            f"shots is {shots} and the training split has {len(items)} examples; lower shots"
        )
    order = Key("shown", seed).permutation(len(items))
    return tuple((items[int(order(i))].input, items[int(order(i))].target) for i in range(shots))


class FittedInContext:
    """A language model with a fixed prompt before every input."""

    curve: tuple[Point, ...] = ()

    def __init__(self, learner: InContext, prompt: Prompt, model: Any) -> None:
        self.learner, self.prompt, self.model = learner, prompt, model

    def answer(self, inputs: Sequence[str]) -> list[str]:
        """Return greedy answers, extracted by the prompt."""
        from taskloom.learners.pretrained.encoding import read_sources

        whole = [self.prompt.before(text) for text in texts(inputs)]
        prompts = read_sources(self.model.base, whole, self.learner.join)
        replies = self.model.say(prompts, first_line=self.prompt.how in ("line", KNOWN))
        return [self.prompt.extract(reply) for reply in replies]

    def logprob(
        self, inputs: Sequence[str], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Return the log-probability of each candidate as the continuation."""
        logprobs: list[list[float]] = self.model.logprob(
            [self.prompt.before(text) for text in texts(inputs)], candidates
        )
        return logprobs

    def represent(self, inputs: Sequence[str], where: str = "readout") -> NDArray[np.float32]:
        """Return the states of the last token of the whole prompt."""
        states: NDArray[np.float32] = self.model.represent(
            [self.prompt.before(text) for text in texts(inputs)], where
        )
        return states

    def save(self, folder: Path) -> None:
        """Write the card and the examples shown. The model is named, not copied."""
        save_prompt(folder, self.learner, self.prompt)


def load_in_context(folder: Path) -> Fitted:
    """Load the learner from its folder."""
    learner, prompt = read_prompt(folder)
    fitted: Fitted = learner.with_prompt(prompt)
    return fitted


@register_learner(
    "zero-shot",
    describe="a language model as it is, with an instruction",
    load=load_in_context,
    shots=0,
)
@register_learner(
    "in-context",
    describe="a language model that is shown k examples in the prompt",
    load=load_in_context,
)
@dataclass(frozen=True)
class InContext(WithoutSteps[FittedInContext]):
    """Zero-shot (`shots: 0`) or k-shot prompts for any language model, with or without an
    instruction.

    Attributes:
        model: `smollm2` (licence: Apache-2.0), `gemma3-270m` (Gemma Terms of Use), a local folder,
            or a hub id.
        shots: Number of training examples to show, chosen by the seed.
        describe: The instruction; empty: none.
        join: Separator between an input and its answer.
        longest_answer: Maximum tokens of a reply.
        extract: How the answer is extracted from a reply. `line`: its first line; `known`: the
            first answer of the training split that it names; `last-line`, `final`, `boxed`,
            `tag:NAME`, `regex:PATTERN`, `whole`: see docs/reference/scorers.md.
        batch: Batch size for answering.
        device: `auto` uses a GPU if there is one.
        pretrained: False replaces the weights with random ones, which are the same in every run.
    """

    model: str = "smollm2"
    shots: int = 8
    describe: str = ""
    join: str = " |"
    longest_answer: int = 32
    extract: str = "line"
    batch: int = 64
    device: str = "auto"
    pretrained: bool = later_setting(True)

    name: ClassVar[str] = "in-context"

    def __post_init__(self) -> None:
        check_settings(self)
        check_extract(self.extract)

    def learn(self, train: Pairs, seed: int) -> FittedInContext:
        """Choose the examples; nothing is trained."""
        answers = known_answers(columns(train)[1]) if self.extract == KNOWN else ()
        return self.with_prompt(
            Prompt(self.describe, shown(train, self.shots, seed), self.join, answers, self.extract)
        )

    def with_prompt(self, prompt: Prompt) -> FittedInContext:
        """Return the fitted learner with a given prompt."""
        from taskloom.learners.pretrained.fitted import FittedLanguageModel
        from taskloom.learners.pretrained.models import open_base
        from taskloom.learners.training.step import pick_device

        base = open_base(self.model, self.pretrained)
        base.model.to(pick_device(self.device))
        model = FittedLanguageModel(
            dataclasses.replace(self), base, batch=self.batch, keeps_prefix=True
        )
        return FittedInContext(self, prompt, model)
