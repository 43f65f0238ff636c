"""Models behind an API: an OpenAI-compatible endpoint (`endpoint`), or any provider that Inspect's
model layer supports (`model`): `openai/…`, `anthropic/…`, `google/…`, `bedrock/…`, `ollama/…`,
`vllm/…` and others.

Prompt, extraction, cache and budgets are the same. `endpoint` reads its API key from the
environment variable that it is given, `model` from those that each provider's package reads.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from taskloom.core.errors import MissingExtra, nearest
from taskloom.core.files import path_of
from taskloom.core.http import Refused, Secrets, TryLater
from taskloom.learners.config import later_setting, register_learner
from taskloom.learners.interface import Fitted, LearnerError
from taskloom.learners.models.chat import ChatLearner, FittedChat
from taskloom.learners.models.client import (
    PROTOCOLS,
    Limits,
    ModelClient,
    ModelReply,
    Question,
    RequestForm,
    messages_of,
    repaired,
)
from taskloom.learners.pretrained.in_context import read_prompt

OURS = ("model", "messages", "input", "stream", "n")
"""Parameters that the setting `request` cannot change."""

_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)\}")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and not re.search(r"\s", url)
            and parts.port != 0
        )
    except ValueError:  # not a port
        return False


def answer_schema(answers: Sequence[str]) -> dict[str, Any]:
    """JSON schema of an object with the answer, one of the given answers if there are any."""
    answer: dict[str, Any] = {"type": "string"}
    if answers:
        answer["enum"] = list(answers)
    return {
        "type": "object",
        "properties": {"answer": answer},
        "required": ["answer"],
        "additionalProperties": False,
    }


def guidance(guided: str, protocol: str, answers: Sequence[str]) -> dict[str, Any]:
    """Return the parameters that constrain the form of replies, for OpenAI, vLLM, llama.cpp and
    Ollama.

    Args:
        guided: `schema`, `choice` (a parameter of vLLM) or empty.
        protocol: The protocol of the request.
        answers: The known answers.
    """
    if guided == "choice":
        return {"structured_outputs": {"choice": list(answers)}}
    if guided != "schema":
        return {}
    named = {"name": "answer", "schema": answer_schema(answers), "strict": True}
    if protocol == "responses":
        return {"text": {"format": {"type": "json_schema", **named}}}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def load_endpoint(folder: Path) -> Fitted:
    """Load the learner from its folder."""
    return FittedChat(*read_prompt(folder))


@register_learner(
    "endpoint",
    describe="a model behind an OpenAI-compatible endpoint, zero-shot or k-shot",
    load=load_endpoint,
)
@dataclass(frozen=True)
class Endpoint(ChatLearner):
    """A model behind an OpenAI-compatible endpoint. It has the settings of `ChatLearner` and the
    following.

    Attributes:
        url: Address, up to and including `/v1`.
        protocol: `chat` (chat completions) or `responses` (the Responses API).
        key_variable: The environment variable that holds the key; the key itself is never written
            anywhere.
        limit_name: The server's name for the maximum answer length; empty: `max_tokens`, or
            `max_output_tokens` for Responses. Newer models of OpenAI: `max_completion_tokens`.
        headers: Headers of every request. `$NAME` stands for an environment variable, and its value
            is hidden like the key.
    """

    url: str = "http://127.0.0.1:8000/v1"
    protocol: str = later_setting("chat")
    key_variable: str = "OPENAI_API_KEY"
    limit_name: str = later_setting("")
    headers: dict[str, str] | None = field(default=None, hash=False, metadata={"later": True})

    name: ClassVar[str] = "endpoint"

    def __post_init__(self) -> None:
        super().__post_init__()
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
        if self.protocol not in PROTOCOLS:
            raise LearnerError(
                f"protocol is '{self.protocol}'; {nearest(self.protocol, PROTOCOLS)}"
            )
        if not _is_address(self.url):
            raise LearnerError(
                f"url is '{self.url}'; it must begin with http:// or https:// and a host, and end"
                " with /v1"
            )

    def client(self, answers: Sequence[str] = ()) -> ModelClient:
        """Open the connection; nothing is sent yet."""
        key = os.environ.get(self.key_variable, "")
        limits = Limits(
            self.requests, self.tokens, self.at_once, self.attempts, self.timeout, self.pause
        )
        headers, secrets = self.read_headers()
        parameters = {**guidance(self.guided, self.protocol, answers), **(self.request or {})}
        return ModelClient(
            self.url,
            self.model,
            key,
            limits,
            path_of(self.cache) if self.cache else None,
            RequestForm(parameters, self.limit_name, self.protocol),
            headers,
            secrets,
        )

    def read_headers(self) -> tuple[Mapping[str, str], list[str]]:
        """Headers with the values of their environment variables, and a list of these values."""
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


FINISHES = {"max_tokens": "length", "model_length": "length"}
"""OpenAI's names for Inspect's stop reasons, if they differ."""

BATCH_AT_ONCE = 1000
"""Maximum concurrent questions in batch mode, unless `at_once` is larger. A batch may take hours,
so all questions of a run should share one batch.
"""

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD")

_SECRET_ARGUMENT = re.compile(
    r"(^|_)(api_?)?key($|_)|secret|password|credential|auth|(^|_)token$|headers", re.IGNORECASE
)
"""Matches names of settings that may hold a key. `max_tokens` and the like do not match."""

_PASSING = re.compile(r"rate.?limit|timeout|overloaded|connection|unavailable", re.IGNORECASE)
"""Matches error messages of providers' packages after which a repeated request may succeed."""


class ProviderClient(ModelClient):
    """Asks one model through Inspect's model layer.

    Args:
        model: The provider and the name, such as `openai/gpt-5-mini`.
        limits: Budgets, timeouts and retries.
        cache: File of cached replies; None to cache in memory.
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
            # Open the gate fully, because the first batch is sent only after a few seconds.
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
        from pydantic import ValidationError

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

    `model` is the provider and the name, such as `anthropic/claude-sonnet-4-5`. `request` has
    settings of Inspect's `GenerateConfig`, such as `{temperature: 0, reasoning_effort: low}`.

    Attributes:
        arguments: Further arguments for the provider, such as `{base_url: …}`.
        batch: Use the provider's batch mode, which is cheaper and may take hours. Up to 1,000
            questions are asked at once, or `at_once` if it is larger.
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
