"""Chat models in this process: the prompts of `endpoint`, formatted by the model's own chat
template and answered by transformers or vLLM.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from taskloom.core.errors import nearest
from taskloom.learners.config import register_learner
from taskloom.learners.interface import Fitted, LearnerError
from taskloom.learners.models.chat import Asker, ChatLearner, FittedChat
from taskloom.learners.models.client import ModelReply, Question, messages_of, repaired
from taskloom.learners.pretrained.in_context import read_prompt

ENGINES = ("transformers", "vllm")
"""Libraries that can compute the replies."""

OF_SERVERS = ("requests", "tokens", "at_once", "attempts", "timeout", "pause", "cache", "guided")
"""Settings of `ChatLearner` that only apply to models behind an API."""


class LocalAsker(ABC):
    """Base class for asking a model in this process, without waits, budgets or several samples.

    Args:
        learner: The settings.
    """

    def __init__(self, learner: LocalChat) -> None:
        self.learner = learner

    def ask(
        self,
        questions: Sequence[Question],
        most_tokens: int,
        progress: Callable[[int, int], None] | None = None,
        note: Callable[[str], None] | None = None,
        sample: int = 0,
    ) -> list[ModelReply]:
        """Return the replies to conversations."""
        return self._reply(questions, most_tokens)

    @abstractmethod
    def _reply(self, questions: Sequence[Question], most_tokens: int) -> list[ModelReply]:
        """Return the replies to conversations."""


class TransformersAsker(LocalAsker):
    """Asks a model loaded by transformers, with greedy decoding."""

    @cached_property
    def _model(self) -> Any:
        from taskloom.learners.pretrained.fitted import FittedLanguageModel
        from taskloom.learners.pretrained.models import open_base
        from taskloom.learners.training.step import pick_device

        class CountingModel(FittedLanguageModel):
            """Records the number of tokens of each reply of the last call."""

            written: Sequence[int] = ()

            def _decoded(self, written: Sequence[list[int]]) -> list[str]:
                self.written = [len(ids) for ids in written]
                return super()._decoded(written)

        base = open_base(self.learner.model)
        if base.kind != "decoder" or not getattr(base.tokeniser, "chat_template", None):
            raise LearnerError(
                f"the model '{self.learner.model}' has no chat template; take its instruction-tuned"
                " version, or the learner in-context"
            )
        base.model.to(pick_device(self.learner.device))
        return CountingModel(self.learner, base, batch=self.learner.batch, keeps_prefix=True)

    def _reply(self, questions: Sequence[Question], most_tokens: int) -> list[ModelReply]:
        model = self._model
        tokeniser = model.base.tokeniser
        sources = []
        for question in questions:
            # The template already writes the beginning-of-text token.
            text = tokeniser.apply_chat_template(
                messages_of(question), add_generation_prompt=True, tokenize=False
            )
            sources.append(list(tokeniser(text, add_special_tokens=False)["input_ids"]))
        replies = model.say(sources)
        received = []
        for source, text, count in zip(sources, replies, model.written, strict=True):
            # The end token is not counted, so a reply that ended by itself is shorter than the
            # limit.
            finish = "length" if count >= most_tokens else "stop"
            received.append(ModelReply(repaired(text), "", finish, len(source), count))
        return received


class VllmAsker(LocalAsker):
    """Asks a model with vLLM in this process, through its `LLM.chat`."""

    @cached_property
    def _vllm(self) -> Any:
        try:
            import vllm
        except ImportError as error:
            raise LearnerError(
                "engine: vllm needs the package vllm, which is not installed: pip install vllm"
            ) from error
        return vllm

    @cached_property
    def _model(self) -> Any:
        return self._vllm.LLM(model=self.learner.model)

    def _reply(self, questions: Sequence[Question], most_tokens: int) -> list[ModelReply]:
        settings = {"temperature": 0, "max_tokens": most_tokens, **(self.learner.request or {})}
        asked = [messages_of(question) for question in questions]
        how = self._vllm.SamplingParams(**settings)
        received = []
        for output in self._model.chat(asked, how, use_tqdm=False):
            reply = output.outputs[0]
            text, finish = repaired(reply.text), str(reply.finish_reason or "")
            asked_tokens = len(output.prompt_token_ids or ())
            received.append(ModelReply(text, "", finish, asked_tokens, len(reply.token_ids)))
        return received


def load_local(folder: Path) -> Fitted:
    """Load the learner from its folder."""
    return FittedChat(*read_prompt(folder))


@register_learner(
    "local-chat",
    describe="an instruction-tuned model in this process, asked as endpoint asks",
    load=load_local,
)
@dataclass(frozen=True)
class LocalChat(ChatLearner):
    """An instruction-tuned model with its own chat template, which runs in this process. Prompts,
    answers and stored replies are like those of `endpoint`.

    Settings of `ChatLearner` for requests and budgets are refused, because nothing is sent.

    Attributes:
        longest_answer: Maximum tokens of a reply.
        engine: `transformers` or, if it is installed, `vllm`. With `vllm`, `request` sets its
            SamplingParams.
        batch: Batch size, for transformers.
        device: `auto` uses a GPU if there is one, for transformers.
    """

    model: str = "smollm2"
    longest_answer: int = 512
    engine: str = "transformers"
    batch: int = 16
    device: str = "auto"

    name: ClassVar[str] = "local-chat"
    keeps_replies: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine not in ENGINES:
            raise LearnerError(f"engine is '{self.engine}'; {nearest(self.engine, ENGINES)}")
        if self.batch < 1:
            raise LearnerError(f"batch is {self.batch}; it must be at least 1")
        defaults = {field.name: field.default for field in fields(ChatLearner)}
        refused = [name for name in OF_SERVERS if getattr(self, name) != defaults[name]]
        if self.engine == "transformers" and self.request:
            refused.append("request")
        if refused:
            raise LearnerError(
                f"{refused[0]} is not a setting of {self.name} with engine {self.engine}; it is for"
                " models behind an API"
            )

    def client(self, answers: Sequence[str] = ()) -> Asker:
        """Return the model, which is loaded with the first question."""
        return VllmAsker(self) if self.engine == "vllm" else TransformersAsker(self)
