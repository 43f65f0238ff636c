"""Models behind an OpenAI-compatible endpoint, prompted with an instruction and k examples."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from taskloom.core.arguments import path_of
from taskloom.core.errors import ParameterError
from taskloom.core.extraction import boxed, divide_thinking, tagged, thought_marks
from taskloom.learners.interface import (
    Fitted,
    LearnerError,
    Pairs,
    Point,
    WithoutSteps,
    columns,
    later_setting,
    noting,
    register_learner,
    report_answers,
    texts,
)
from taskloom.learners.models.client import Limits, ModelClient, ModelReply, RequestForm
from taskloom.learners.pretrained.in_context import (
    KNOWN,
    Prompt,
    check_extract,
    known_answers,
    read_prompt,
    save_prompt,
    shown,
)

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


ANSWERED = "answered"
"""Outcome of a reply that has an answer. The others: `refused`, `filtered`, `cut off`, `only
thinking` and `empty`.
"""

OURS = ("model", "messages", "stream", "n")
"""Parameters of a request that `request` cannot change."""

_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)\}")


def is_finished(said: str, how: str) -> bool:
    """True if a reply that was cut off had finished its answer before: the line, box or tag that is
    extracted is whole.

    >>> is_finished("kitchen\\nBecause she", "line"), is_finished("kitch", "line")
    (True, False)
    """
    if how in ("line", KNOWN):
        return len(f"{said.lstrip()}.".splitlines()) > 1
    if how.startswith("tag:"):
        return tagged(said, how.partition(":")[2]) is not None
    if how == "boxed":
        return boxed(said) is not None
    return how == "final" and (boxed(said) or tagged(said, "answer")) is not None


class FittedEndpoint:
    """An endpoint with a fixed prompt before every input."""

    curve: tuple[Point, ...] = ()

    def __init__(self, learner: Endpoint, prompt: Prompt) -> None:
        self.learner, self.prompt = learner, prompt
        # One record per input of the last call of `answer`, which runs keep: see `answer`.
        self.replies: list[dict[str, Any]] = []

    @cached_property
    def asker(self) -> ModelClient:
        """Return the connection, with what has been spent through it."""
        how = self.learner
        key = os.environ.get(how.key_variable, "")
        limits = Limits(how.requests, how.tokens, how.at_once, how.attempts, how.timeout, how.pause)
        headers, secrets = how.read_headers()
        return ModelClient(
            how.url,
            how.model,
            key,
            limits,
            path_of(how.cache) if how.cache else None,
            RequestForm(how.request or {}, how.limit_name, how.system),
            headers,
            secrets,
        )

    def answer(self, inputs: Sequence[str]) -> list[str]:
        """Return one answer per input, extracted from what the model writes; empty for replies that
        have none.
        """
        prompts = [self.prompt.fill(text) for text in texts(inputs)]
        note = noting()
        received = self.asker.ask(prompts, self.learner.longest_answer, report_answers, note)
        answers = []
        self.replies = []
        for reply in received:
            said, thought = divide_thinking(reply.text, thought_marks(self.learner.thinking))
            outcome = self._outcome(reply, said)
            answers.append(self.prompt.extract(said) if outcome == ANSWERED else "")
            self.replies.append(
                {
                    "reply": reply.text,
                    "thinking": "\n".join(text for text in (reply.thinking, thought) if text),
                    "finish": reply.finish,
                    "outcome": outcome,
                    "tokens_in": reply.tokens_in,
                    "tokens_out": reply.tokens_out,
                    "seconds": reply.seconds,
                }
            )
        missing = Counter(one["outcome"] for one in self.replies if one["outcome"] != ANSWERED)
        if missing:
            counts = ", ".join(f"{count} {outcome}" for outcome, count in missing.most_common())
            remedy = "; a larger longest_answer has room for more" if "cut off" in missing else ""
            note(f"{missing.total()} of {len(answers)} replies have no answer: {counts}{remedy}")
        return answers

    def _outcome(self, reply: ModelReply, said: str) -> str:
        """`answered`, or why there is no answer in a reply that says something or nothing."""
        if reply.finish == "refusal":
            return "refused"
        if reply.finish == "content_filter":
            return "filtered"
        if reply.finish == "length" and not is_finished(said, self.prompt.how):
            return "cut off"
        if said.strip():
            return ANSWERED
        return "only thinking" if reply.text.strip() or reply.thinking.strip() else "empty"

    def logprob(
        self, inputs: Sequence[str], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Refuse: endpoints do not score given answers."""
        raise LearnerError(
            "an endpoint answers but does not give the probability of given answers; use a local"
            " model"
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
class Endpoint(WithoutSteps[FittedEndpoint]):
    """Zero-shot, k-shot and described prompts for an endpoint.

    Attributes:
        url: Up to and including `/v1`.
        model: As the endpoint calls it.
        key_variable: The environment variable that holds the key; the key itself is never written
            anywhere.
        shots: How many training examples are shown, chosen by the seed.
        describe: The instruction that the model gets.
        join: What stands between an input and its answer.
        longest_answer: The most tokens of an answer.
        extract: How the answer is cut out of a reply. `line`: its first line; `known`: the answer
            of the training split that it names first; `last-line`, `final`, `boxed`, `tag:NAME`,
            `regex:PATTERN`, `whole`: see docs/reference/scorers.md.
        requests: Budget in requests, repeated ones included; 0: no limit.
        tokens: Budget in tokens; 0: no limit.
        at_once: The most requests at one time; fewer run when the endpoint says that it is too
            much.
        attempts: How often a question is tried.
        timeout: Seconds for one request.
        pause: Seconds before a second attempt, doubled each time.
        cache: A file for replies, by content; empty: one in the store of the runs, or only in
            memory outside of experiments.
        request: Parameters that are sent as they are, such as `{temperature: 0, seed: 1,
            reasoning_effort: low, stop: [";"]}`; null leaves one out. None are sent by default but
            the longest answer: a server's own temperature counts.
        limit_name: What the server calls the longest answer: `max_tokens`, or
            `max_completion_tokens` for newer models of OpenAI.
        system: A system message before the prompt.
        headers: Headers of every request. `$NAME` stands for an environment variable, and its value
            is hidden like the key.
        thinking: Marks before and after a thought that are not known, such as `<plan> </plan>`.
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
    # Mappings have no hash.
    request: dict[str, Any] | None = field(default=None, hash=False, metadata={"later": True})
    limit_name: str = later_setting("max_tokens")
    system: str = later_setting("")
    headers: dict[str, str] | None = field(default=None, hash=False, metadata={"later": True})
    thinking: str = later_setting("")

    name: ClassVar[str] = "endpoint"

    def __post_init__(self) -> None:
        check_extract(self.extract)
        try:
            thought_marks(self.thinking)
        except ParameterError as error:
            raise LearnerError(str(error)) from error
        for name in self.request or {}:
            if name in OURS:
                raise LearnerError(
                    f"request has '{name}', which cannot be set there: model has a setting of its"
                    " own, and a request asks one question for one whole reply"
                )
        for name, value in (self.headers or {}).items():
            if _SECRET_HEADER.search(name) and not _VARIABLE.search(value):
                raise LearnerError(
                    f"headers: write an environment variable for '{name}', such as $MY_KEY;"
                    " settings are kept with the runs"
                )
        if not self.limit_name:
            raise LearnerError(
                "limit_name is empty; to send no limit, write 'request: {max_tokens: null}'"
            )
        if not _is_address(self.url):
            raise LearnerError(
                f"url is '{self.url}'; it must begin with http:// or https:// and a host, and end"
                " with /v1"
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

    def read_headers(self) -> tuple[dict[str, str], list[str]]:
        """Return the headers with the values of their environment variables, and these values."""
        headers = {}
        secrets: list[str] = []

        def value_of(found: re.Match[str]) -> str:
            name = found[1] or found[2]
            if not os.environ.get(name):
                raise LearnerError(f"headers: the environment variable {name} is not set")
            secrets.append(os.environ[name].strip())
            return secrets[-1]

        for name, value in (self.headers or {}).items():
            headers[name] = _VARIABLE.sub(value_of, value)
        return headers, secrets

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
