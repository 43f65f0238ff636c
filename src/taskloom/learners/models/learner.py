"""Models behind an OpenAI-compatible endpoint, prompted with an instruction and k examples."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from taskloom.core.arguments import path_of
from taskloom.learners.inputs import columns, texts
from taskloom.learners.interface import (
    Fitted,
    LearnerError,
    Pairs,
    Point,
    Untrained,
    register_learner,
)
from taskloom.learners.models.client import Limits, ModelClient
from taskloom.learners.pretrained.in_context import shown
from taskloom.learners.pretrained.prompts import (
    KNOWN,
    Prompt,
    check_extract,
    known_answers,
    read_prompt,
    save_prompt,
)
from taskloom.learners.run_watch import report_answers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and not re.search(r"\s", url)
            and parts.port != 0
        )
    except ValueError:  # a port that is none
        return False


class FittedEndpoint:
    """An endpoint with a fixed prompt before every input."""

    curve: tuple[Point, ...] = ()

    def __init__(self, learner: Endpoint, prompt: Prompt) -> None:
        self.learner, self.prompt = learner, prompt

    @cached_property
    def asker(self) -> ModelClient:
        """Return the connection, with what has been spent through it."""
        how = self.learner
        key = os.environ.get(how.key_variable, "")
        limits = Limits(how.requests, how.tokens, how.at_once, how.attempts, how.timeout, how.pause)
        return ModelClient(
            how.url, how.model, key, limits, path_of(how.cache) if how.cache else None
        )

    def answer(self, inputs: Sequence[str]) -> list[str]:
        """Return one answer per input, extracted from what the model writes."""
        prompts = [self.prompt.fill(text) for text in texts(inputs)]
        replies = self.asker.ask(prompts, self.learner.longest_answer, report_answers)
        return [self.prompt.extract(text) for text in replies]

    def logprob(
        self, inputs: Sequence[str], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Refuse: endpoints do not score given answers."""
        raise LearnerError(
            "an endpoint answers but does not give the probability of given answers; use a local model"
        )

    def represent(self, inputs: Sequence[str], where: str = "readout") -> NDArray[np.float32]:
        """Refuse: endpoints do not show states."""
        raise LearnerError("an endpoint does not show its states; use a local model")

    def save(self, folder: Path) -> None:
        """Write the card and the examples shown; never the key."""
        save_prompt(folder, self.learner, self.prompt)


def load_endpoint(folder: Path) -> Fitted:
    """Load it from its folder."""
    return FittedEndpoint(*read_prompt(folder))


@register_learner(
    "endpoint",
    describe="a model behind an OpenAI-compatible endpoint, zero-shot or k-shot",
    load=load_endpoint,
)
@dataclass(frozen=True)
class Endpoint(Untrained[FittedEndpoint]):
    """Zero-shot, k-shot and described prompts for an endpoint.

    Attributes:
        url: Up to and including `/v1`.
        model: As the endpoint calls it.
        key_variable: The environment variable that holds the key; the key itself is never written anywhere.
        shots: How many training examples are shown, chosen by the seed.
        describe: The instruction that the model gets.
        join: What stands between an input and its answer.
        longest_answer: The most tokens of an answer.
        extract: How the answer is cut out of a reply. `line`: its first line; `known`: the answer of the training split that it
            names first; `last-line`, `final`, `boxed`, `tag:NAME`, `regex:PATTERN`, `whole`: see docs/reference/scorers.md.
        requests: Budget in requests, repeated ones included; 0: no limit.
        tokens: Budget in tokens; 0: no limit.
        at_once: The most requests at one time; fewer run when the endpoint says that it is too much.
        attempts: How often a question is tried.
        timeout: Seconds for one request.
        pause: Seconds before a second attempt, doubled each time.
        cache: A file for answers, by content; empty: one in the store of the runs, or only in memory outside of experiments.
    """

    url: str = "http://127.0.0.1:8000/v1"
    model: str = ""
    key_variable: str = "OPENAI_API_KEY"
    shots: int = 0
    describe: str = ""
    join: str = " |"
    longest_answer: int = 32
    extract: str = "line"
    requests: int = 0
    tokens: int = 0
    at_once: int = 16
    attempts: int = 6
    timeout: float = 60.0
    pause: float = 0.5
    cache: str = ""

    name: ClassVar[str] = "endpoint"

    def __post_init__(self) -> None:
        check_extract(self.extract)
        if not _is_address(self.url):
            raise LearnerError(
                f"url is '{self.url}'; it must begin with http:// or https:// and a host, and end with /v1"
            )
        for name in ("timeout", "pause"):
            if not 0 < getattr(self, name) < float("inf"):
                raise LearnerError(f"{name} is {getattr(self, name)}; it must be a number above 0")
        for name in ("requests", "tokens", "shots"):
            if getattr(self, name) < 0:
                raise LearnerError(f"{name} is {getattr(self, name)}; it must be at least 0")
        for name in ("at_once", "attempts", "longest_answer"):
            if getattr(self, name) < 1:
                raise LearnerError(f"{name} is {getattr(self, name)}; it must be at least 1")

    def learn(self, train: Pairs, seed: int) -> FittedEndpoint:
        """Choose the examples; nothing is asked yet."""
        if not self.model:
            raise LearnerError(
                "endpoint: say which model, e.g. {learner: endpoint, url: …, model: my-model}"
            )
        answers = known_answers(columns(train)[1]) if self.extract == KNOWN else ()
        return FittedEndpoint(
            self,
            Prompt(self.describe, shown(train, self.shots, seed), self.join, answers, self.extract),
        )
