"""Learning without training: a language model that is shown a description and k examples, or nothing but the input."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from taskloom.core.example import Example
from taskloom.core.seeding import Key
from taskloom.learners.inputs import columns, examples, texts
from taskloom.learners.interface import (
    Fitted,
    LearnerError,
    Pairs,
    Point,
    Untrained,
    check_settings,
    later_setting,
    register_learner,
)
from taskloom.learners.pretrained.prompts import (
    KNOWN,
    Prompt,
    check_extract,
    known_answers,
    read_prompt,
    save_prompt,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def shown(train: Pairs, shots: int, seed: int) -> tuple[tuple[str, str], ...]:
    """Choose by the seed the k examples that every prompt shows."""
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

    def __init__(self, learner: InContext, prompt: Prompt, writer: Any) -> None:
        self.learner, self.prompt, self.writer = learner, prompt, writer

    def answer(self, inputs: Sequence[str]) -> list[str]:
        """Return greedy answers, extracted by the prompt."""
        from taskloom.learners.pretrained.encoding import read_sources

        whole = [self.prompt.before(text) for text in texts(inputs)]
        prompts = read_sources(self.writer.base, whole, self.learner.join)
        replies = self.writer.say(prompts, first_line=self.prompt.how in ("line", KNOWN))
        return [self.prompt.extract(reply) for reply in replies]

    def logprob(
        self, inputs: Sequence[str], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Return the log-probability of each candidate as the continuation."""
        logprobs: list[list[float]] = self.writer.logprob(
            [self.prompt.before(text) for text in texts(inputs)], candidates
        )
        return logprobs

    def represent(self, inputs: Sequence[str], where: str = "readout") -> NDArray[np.float32]:
        """Return the states of the last token of the whole prompt."""
        states: NDArray[np.float32] = self.writer.represent(
            [self.prompt.before(text) for text in texts(inputs)], where
        )
        return states

    def save(self, folder: Path) -> None:
        """Write the card and the examples shown; the model is named, not copied."""
        save_prompt(folder, self.learner, self.prompt)


def load_in_context(folder: Path) -> Fitted:
    """Load it from its folder."""
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
class InContext(Untrained[FittedInContext]):
    """Zero-shot (`shots: 0`), k-shot and described prompts for any language model.

    Attributes:
        model: `smollm2`, a local folder, or a hub id.
        shots: How many training examples are shown, chosen by the seed.
        describe: The instruction that the model gets; empty: none.
        join: What stands between an input and its answer.
        longest_answer: The most tokens that are written.
        extract: How the answer is cut out of a reply. `line`: its first line; `known`: the answer of the training split that it
            names first; `last-line`, `final`, `boxed`, `tag:NAME`, `regex:PATTERN`, `whole`: see docs/reference/scorers.md.
        batch: Inputs that are answered at once.
        device: `auto` takes a GPU where there is one.
        pretrained: False takes the same architecture with random weights, which are the same in every run.
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
        from taskloom.learners.pretrained.fitted import Writer
        from taskloom.learners.pretrained.models import open_base
        from taskloom.learners.training.step import pick_device

        base = open_base(self.model, self.pretrained)
        base.model.to(pick_device(self.device))
        writer = Writer(dataclasses.replace(self), base, batch=self.batch, keeps_prefix=True)
        return FittedInContext(self, prompt, writer)
