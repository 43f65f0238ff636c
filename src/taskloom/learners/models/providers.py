"""Models of all providers that Inspect's model layer supports: `openai/…`, `anthropic/…`,
`google/…`, `bedrock/…`, `ollama/…`, `vllm/…` and others.

The prompt, the extraction, the cache and the budgets are those of `endpoint`. API keys are those
that each provider's package reads from the environment.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ValidationError

from taskloom.core.errors import MissingExtra
from taskloom.core.files import path_of
from taskloom.core.http import Refused, Secrets, TryLater
from taskloom.learners.config import later_setting, register_learner
from taskloom.learners.interface import Fitted, LearnerError
from taskloom.learners.models.chat import ChatLearner, FittedChat
from taskloom.learners.models.client import (
    Limits,
    ModelClient,
    ModelReply,
    Question,
    RequestForm,
    messages_of,
    repaired,
)
from taskloom.learners.models.learner import answer_schema
from taskloom.learners.pretrained.in_context import read_prompt

FINISHES = {"max_tokens": "length", "model_length": "length"}
"""OpenAI's names for Inspect's stop reasons."""

BATCH_AT_ONCE = 1000
"""Concurrent questions in batch mode, unless `at_once` is larger. A batch may take hours, so the
questions of a run should share one.
"""

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD")

_SECRET_ARGUMENT = re.compile(
    r"(^|_)(api_?)?key($|_)|secret|password|credential|auth|(^|_)token$|headers", re.IGNORECASE
)
"""Matches names of settings that may hold a key. `max_tokens` and the like do not match."""

_PASSING = re.compile(r"rate.?limit|timeout|overloaded|connection|unavailable", re.IGNORECASE)
"""Matches errors of providers' packages after which the same request may succeed later."""


class ProviderClient(ModelClient):
    """Asks one model through Inspect's model layer.

    Args:
        model: Provider and name: `openai/gpt-5-mini`.
        limits: What may be spent.
        cache: The file of replies; None: in memory.
        settings: Settings of Inspect's `GenerateConfig`.
        arguments: Further arguments of its `get_model`, such as `base_url`.
        batch: Use the provider's batch mode.
    """

    def __init__(
        self,
        model: str,
        limits: Limits,
        cache: Path | None,
        settings: dict[str, Any],
        arguments: dict[str, Any],
        batch: bool,
    ) -> None:
        identity = {**settings, **({"arguments": arguments} if arguments else {})}
        keys = [value for name, value in os.environ.items() if _SECRET_NAME.search(name)]
        seconds = max(1, round(limits.timeout))
        # Inspect gives up an attempt after `attempt_timeout`, and retries until `timeout`.
        how: dict[str, Any] = {"attempt_timeout": seconds, "timeout": seconds}
        is_batch = bool(batch or settings.get("batch"))
        if is_batch:
            how = {"batch": True}
            limits = replace(limits, at_once=max(limits.at_once, BATCH_AT_ONCE))
        super().__init__("inspect", model, "", limits, cache, RequestForm(identity), secrets=keys)
        self._hidden = Secrets(*keys)
        self._arguments = arguments
        self._settings = {**how, **settings}
        self._opening = threading.Lock()
        if is_batch:
            # all at once, since the first batch is sent after seconds
            self.gate.limit = limits.at_once

    @cached_property
    def _opened(self) -> tuple[Any, asyncio.AbstractEventLoop]:
        """The model, and the event loop in its own thread that all requests share, because the
        connections of providers' packages belong to one loop.
        """
        try:
            from inspect_ai.model import get_model
        except ImportError as error:
            raise MissingExtra("the learner model", "inspect-ai", "inspect") from error
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name="inspect", daemon=True).start()
        try:
            return get_model(self.model, **self._arguments), loop
        except Exception as error:  # an unknown provider, a missing package or a missing key
            raise LearnerError(f"model: {self._sentence(error)}") from error

    def _request(self, question: Question, most_tokens: int) -> tuple[ModelReply, int | None]:
        with self._opening:
            model, loop = self._opened
        config = self._config(most_tokens)
        try:
            asked = _generate(model, messages_of(question), config)
            output = asyncio.run_coroutine_threadsafe(asked, loop).result()
        except Exception as error:  # each provider's package has its own exceptions
            cause = _cause(error)
            kind = type(cause).__name__
            if kind == "AttemptTimeoutError":
                problem = f"gave no whole answer within {self.limits.timeout:g} seconds"
                raise TryLater(problem) from error
            if _PASSING.search(f"{kind} {cause}"):
                raise TryLater(f"failed: {self._sentence(cause)}") from error
            raise Refused(f"refuses the request: {self._sentence(cause)}", 400) from error
        return _read_output(output)

    def _config(self, most_tokens: int) -> Any:
        """Inspect's settings of a request."""
        from inspect_ai.model import GenerateConfig

        try:
            return GenerateConfig(**{"max_tokens": most_tokens, **self._settings})
        except ValidationError as error:
            first = error.errors()[0]
            names = "".join(f"{name}: " for name in first["loc"])
            raise LearnerError(f"request: {names}{first['msg']}") from error

    def _sentence(self, error: BaseException) -> str:
        text = " ".join(str(error).split()) or type(error).__name__
        return self._hidden.hide_in_message(text)[:200]


def _cause(error: Exception) -> BaseException:
    """The error of Inspect's last attempt, which it wraps."""
    last = getattr(error, "last_attempt", None)
    return (last.exception() if last is not None else None) or error


async def _generate(model: Any, messages: Sequence[dict[str, str]], config: Any) -> Any:
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

    kinds: dict[str, Any] = {
        "system": ChatMessageSystem,
        "user": ChatMessageUser,
        "assistant": ChatMessageAssistant,
    }
    turns = [kinds[one["role"]](content=one["content"]) for one in messages]
    return await model.generate(turns, config=config)


def _read_output(output: Any) -> tuple[ModelReply, int | None]:
    """Parse an output of Inspect, with the tokens that it took."""
    thoughts: list[str] = []
    said: list[str] = []
    content = output.choices[0].message.content if output.choices else ""
    for part in [content] if isinstance(content, str) else content:
        if isinstance(part, str):
            said.append(part)
        elif part.type == "reasoning":
            thoughts.append(str(getattr(part, "summary", None) or part.reasoning))
        elif part.type == "text":
            kind = thoughts if getattr(part, "refusal", False) else said
            kind.append(part.text)
    finish = str(output.stop_reason or "")
    usage = output.usage
    reply = ModelReply(
        repaired("".join(said)),
        repaired("\n".join(thoughts)),
        FINISHES.get(finish, finish),
        usage.input_tokens if usage else None,
        usage.output_tokens if usage else None,
        usage.reasoning_tokens if usage else None,
    )
    return reply, usage.total_tokens if usage else None


def load_model(folder: Path) -> Fitted:
    """Load the learner from its folder."""
    return FittedChat(*read_prompt(folder))


@register_learner(
    "model",
    describe="a model of any provider (openai/…, anthropic/…, google/…), by Inspect's model layer",
    load=load_model,
)
@dataclass(frozen=True)
class ProviderModel(ChatLearner):
    """A model of any provider that Inspect supports. It has the settings of `ChatLearner` and the
    following.

    `model` is provider and name, such as `anthropic/claude-sonnet-4-5`; `request` has settings of
    Inspect's `GenerateConfig`, such as `{temperature: 0, reasoning_effort: low}`.

    Attributes:
        arguments: Further arguments for the provider, such as `{base_url: …}`.
        batch: Use the provider's batch mode, which is cheaper and may take hours. Up to 1,000
            questions are asked at once, or `at_once` if that is more.
    """

    arguments: dict[str, Any] | None = field(default=None, hash=False, metadata={"later": True})
    batch: bool = later_setting(False)

    name: ClassVar[str] = "model"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model and "/" not in self.model:
            raise LearnerError(
                f"model is '{self.model}'; write provider and name, such as 'openai/{self.model}'"
            )
        for name in {**(self.arguments or {}), **(self.request or {})}:
            if _SECRET_ARGUMENT.search(name):
                raise LearnerError(
                    f"{name} cannot be set here, since settings are kept with the runs; put the key"
                    " into the environment variable that the provider's package reads"
                )
        if self.guided == "choice":
            raise LearnerError("guided: 'choice' is for the learner endpoint; use 'schema'")

    def client(self, answers: Sequence[str] = ()) -> ModelClient:
        """Open the connection; nothing is sent yet."""
        limits = Limits(
            self.requests, self.tokens, self.at_once, self.attempts, self.timeout, self.pause
        )
        settings = dict(self.request or {})
        if self.guided == "schema":
            schema = answer_schema(answers)
            settings["response_schema"] = {"name": "answer", "json_schema": schema, "strict": True}
        cache = path_of(self.cache) if self.cache else None
        return ProviderClient(
            self.model, limits, cache, settings, dict(self.arguments or {}), self.batch
        )
