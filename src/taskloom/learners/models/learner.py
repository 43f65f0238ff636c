"""Models behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from taskloom.core.errors import nearest
from taskloom.core.files import path_of
from taskloom.learners.config import later_setting, register_learner
from taskloom.learners.interface import Fitted, LearnerError
from taskloom.learners.models.chat import ChatLearner, FittedChat
from taskloom.learners.models.client import PROTOCOLS, Limits, ModelClient, RequestForm
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
    """JSON schema of an object with the answer, which is one of the given answers if there are any."""
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
    """Parameters that constrain the form of replies, for OpenAI, vLLM, llama.cpp and Ollama.

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
        """Headers with the values of their environment variables, and these values."""
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
