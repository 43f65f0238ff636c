"""Code shared by all learners that ask a chat model: settings, the prompt, and extracting answers
from replies.

A fitted learner records every reply in `replies`, which runs write to `replies.parquet`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from taskloom.core.errors import ParameterError, nearest
from taskloom.core.extraction import (
    ANSWER_FORMAT,
    DESCRIBED,
    EXTRACT,
    Extraction,
    boxed,
    chat_prompt,
    divide_thinking,
    shown_answer,
    tagged,
    thought_marks,
)
from taskloom.core.files import path_of
from taskloom.learners.config import ASIDE, later_setting
from taskloom.learners.interface import (
    LearnerError,
    Pairs,
    Point,
    WithoutSteps,
    columns,
    noting,
    report_answers,
    texts,
)
from taskloom.learners.models.client import TOO_LONG, Message, ModelReply, Question
from taskloom.learners.pretrained.in_context import (
    KNOWN,
    Prompt,
    check_extract,
    known_answers,
    save_prompt,
    shown,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ANSWERED = "answered"
"""Outcome of a reply with an answer. The other outcomes are `refused`, `filtered`, `too long`,
`cut off`, `only thinking`, `empty` and `no answer` (the extraction finds no answer in the text).
"""

SHOTS_AS = ("messages", "prompt")
"""Ways to show training examples: as earlier turns of the conversation, or in a single prompt."""

GUIDED = ("", "schema", "choice")
"""Ways to constrain the form of replies: not at all, by a JSON schema, or to a choice of the known
answers.
"""

MOST_CHOICES = 200
"""Maximum number of known answers for a constrained choice."""

MILLION = 1_000_000
"""Number of tokens to which a price refers."""


def is_finished(said: str, how: str) -> bool:
    """True if a reply that was cut off contains a complete answer, that is if the extracted line,
    box or tag is whole.

    >>> is_finished("kitchen\\nBecause she", "line"), is_finished("kitch", "line")
    (True, False)
    """
    if how in ("line", KNOWN):
        return len(f"{said.lstrip()}.".splitlines()) > 1
    if how.startswith("tag:"):
        return tagged(said, how.partition(":")[2]) is not None
    if how == "boxed":
        return boxed(said) is not None
    if how.startswith("json:"):
        return bool(Extraction.read(how)(said))
    return how == "final" and (boxed(said) or tagged(said, "answer")) is not None


def read_prices(prices: Mapping[str, float] | str | None, model: str) -> tuple[float, float] | None:
    """Return the prices of a million input and output tokens, or None if they are not known.

    Args:
        prices: `{in: 0.25, out: 2}`, or a JSON file in LiteLLM's format, which gives
            `input_cost_per_token` and `output_cost_per_token` for each model.
        model: The model's name.
    """
    if not prices:
        return None
    if isinstance(prices, Mapping):
        if set(prices) != {"in", "out"} or not all(_is_price(p) for p in prices.values()):
            raise LearnerError(
                "prices: write the price of a million tokens as {in: 0.25, out: 2}, or name a JSON"
                " file"
            )
        return float(prices["in"]), float(prices["out"])
    return _price_of_table(path_of(prices), model)


def _price_of_table(path: Path, model: str) -> tuple[float, float] | None:
    """Return a model's price from a table in LiteLLM's format, or None if the model is not in
    it.
    """
    try:
        table = json.loads(path.read_bytes())
    except OSError as error:
        raise LearnerError(f"prices: {path} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise LearnerError(f"prices: {path} is not a JSON file ({error})") from error
    if not isinstance(table, dict):
        raise LearnerError(f"prices: {path} must have one JSON object, with a key for each model")
    row = table.get(model) or table.get(model.partition("/")[2])
    if row is None:
        return None
    costs = []
    for name in ("input_cost_per_token", "output_cost_per_token"):
        cost = row.get(name) if isinstance(row, dict) else None
        if cost is None or not _is_price(cost):
            raise LearnerError(
                f"prices: {path} has no number of at least 0 as '{name}' of '{model}'"
            )
        costs.append(cost * MILLION)
    return costs[0], costs[1]


def _is_price(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < float("inf")


class Asker(Protocol):
    """Answers questions: a connection to a server, or a model in this process."""

    def ask(
        self,
        questions: Sequence[Question],
        most_tokens: int,
        progress: Callable[[int, int], None] | None = None,
        note: Callable[[str], None] | None = None,
        sample: int = 0,
    ) -> list[ModelReply]:
        """Return one reply per question; see `ModelClient.ask`."""


class FittedChat:
    """A chat model with a fixed prompt around every input."""

    curve: tuple[Point, ...] = ()

    def __init__(self, learner: ChatLearner, prompt: Prompt, seed: int = 0) -> None:
        self.learner, self.prompt, self.seed = learner, prompt, seed
        # One record per input of the last call of `answer`, which runs store.
        self.replies: list[dict[str, Any]] = []

    @cached_property
    def asker(self) -> Asker:
        """The connection, which also counts the spending, or the local model."""
        return self.learner.client(self.prompt.answers)

    def messages(self, text: str) -> list[Message]:
        """Conversation that asks for the answer to an input."""
        how = self.learner
        turns = [{"role": "system", "content": how.system}] if how.system else []
        if how.shots_as == "prompt":
            asked = chat_prompt(self.prompt.fill(text), how.answer_format)
            return [*turns, {"role": "user", "content": asked}]
        instruction = f"{how.describe}\n\n" if how.describe else ""  # only before the first turn
        for shown_input, target in self.prompt.examples:
            asked = instruction + chat_prompt(shown_input + how.join, how.answer_format)
            turns.append({"role": "user", "content": asked})
            reply = shown_answer(target, how.answer_format)
            turns.append({"role": "assistant", "content": reply})
            instruction = ""
        asked = instruction + chat_prompt(text + how.join, how.answer_format)
        return [*turns, {"role": "user", "content": asked}]

    def answer(self, inputs: Sequence[str]) -> list[str]:
        """Return one answer per input, extracted from the model's replies; empty for replies
        without an answer.
        """
        asked = [self.messages(text) for text in texts(inputs)]
        note = noting()
        if self.learner.prices and self.learner.price is None:
            name = self.learner.model
            note(f"prices: {self.learner.prices} has no price of '{name}', so costs are unknown")
        longest = self.learner.longest_answer
        received = self.asker.ask(asked, longest, report_answers, note, self.seed)
        pairs = zip(asked, received, strict=True)
        self.replies = [self._record(messages, reply) for messages, reply in pairs]
        missing = Counter(one["outcome"] for one in self.replies if one["outcome"] != ANSWERED)
        if missing:
            counts = ", ".join(f"{count} {outcome}" for outcome, count in missing.most_common())
            remedy = "; a larger longest_answer has room for more" if "cut off" in missing else ""
            note(
                f"{missing.total()} of {len(self.replies)} replies have no answer: {counts}{remedy}"
            )
        return [one["answer"] for one in self.replies]

    def _record(self, messages: list[Message], reply: ModelReply) -> dict[str, Any]:
        """Return a row of replies.parquet, which has everything that is kept of a reply."""
        said, thought = divide_thinking(reply.text, thought_marks(self.learner.thinking))
        outcome = self._outcome(reply, said)
        answer, rule = self.prompt.cut(said) if outcome == ANSWERED else ("", "")
        if outcome == ANSWERED and not answer.strip():
            outcome, rule = "no answer", ""
        return {
            "messages": json.dumps(messages, ensure_ascii=False),
            "reply": reply.text,
            "thinking": "\n".join(text for text in (reply.thinking, thought) if text),
            "finish": reply.finish,
            "outcome": outcome,
            "answer": answer,
            "rule": rule,
            "tokens_in": reply.tokens_in,
            "tokens_out": reply.tokens_out,
            "tokens_thinking": reply.tokens_thinking,
            "seconds": reply.seconds,
            "cost": self.learner.cost(reply.tokens_in, reply.tokens_out),
        }

    def _outcome(self, reply: ModelReply, said: str) -> str:
        """`answered`, or the reason why a reply has no answer."""
        if reply.finish == "refusal":
            return "refused"
        if reply.finish == "content_filter":
            return "filtered"
        if reply.finish == TOO_LONG:
            return TOO_LONG
        if reply.finish == "length" and not is_finished(said, self.prompt.how):
            return "cut off"
        if said.strip():
            return ANSWERED
        return "only thinking" if reply.text.strip() or reply.thinking.strip() else "empty"

    def logprob(
        self, inputs: Sequence[str], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Raise an error: endpoints do not score given answers."""
        raise LearnerError(
            "an endpoint answers but does not give the probability of given answers; use a local"
            " model"
        )

    def represent(self, inputs: Sequence[str], where: str = "readout") -> NDArray[np.float32]:
        """Raise an error: endpoints do not expose their states."""
        raise LearnerError("an endpoint does not expose its states; use a local model")

    def save(self, folder: Path) -> None:
        """Write the card and the examples shown, but never the key."""
        save_prompt(folder, self.learner, self.prompt)


@dataclass(frozen=True)
class ChatLearner(WithoutSteps[FittedChat]):
    """Base class of learners that ask a chat model; see `taskloom.core.extraction` for the
    extraction of answers.

    Attributes:
        model: Name of the model, also used in tables and on pages.
        described: Put the description of the task before each input, in experiments.
        describe: Your own instruction before the first input.
        answer_format: Sentence after each input that asks for an answer format; empty: none.
        system: A system message before the prompt.
        shots: Number of training examples to show, chosen by the seed.
        shots_as: `messages` shows the examples as earlier turns of the conversation, `prompt` in
            the same prompt.
        join: Separator between an input and its answer.
        extract: How the answer is extracted from a reply. `final`: the answer at its end; `line`:
            its first line; `known`: the first answer of the training split that it names;
            `last-line`, `boxed`, `tag:NAME`, `json:KEY`, `regex:PATTERN`, `whole`: see
            docs/reference/scorers.md.
        guided: Constrain the form of replies, if the server can: `schema` (a JSON object with
            `answer`) or `choice` (one of the answers of the training split).
        longest_answer: Maximum tokens of a reply, including thinking.
        requests: Budget in requests, including repeated ones; 0: no limit.
        tokens: Budget in tokens; 0: no limit.
        at_once: Maximum concurrent requests; fewer run if the endpoint limits the rate.
        attempts: Maximum attempts per question.
        timeout: Timeout of a request in seconds.
        pause: Seconds before a second attempt, doubled each time.
        cache: File that caches replies by the content of the request. If empty, experiments use a
            file in the store of the runs, and other calls cache in memory.
        request: Parameters to send unchanged, such as `{temperature: 0, seed: 1, reasoning_effort:
            low, stop: [";"]}`; null leaves one out. By default only the maximum answer length is
            sent, so the server's own temperature applies.
        thinking: Additional marks around thoughts, such as `<plan> </plan>`.
        prices: Price of a million tokens, `{in: 0.25, out: 2}`, or a JSON file in LiteLLM's format
            with the prices of many models. It does not affect runs.
    """

    model: str = ""
    described: bool = DESCRIBED
    describe: str = ""
    answer_format: str = ANSWER_FORMAT
    system: str = later_setting("")
    shots: int = 0
    shots_as: str = later_setting("messages")
    join: str = ""
    extract: str = EXTRACT
    guided: str = later_setting("")
    longest_answer: int = 2048
    requests: int = 0
    tokens: int = 0
    at_once: int = 16
    attempts: int = 6
    timeout: float = 60.0
    pause: float = 0.5
    cache: str = ""
    # Mappings are not hashable.
    request: dict[str, Any] | None = field(default=None, hash=False, metadata={"later": True})
    thinking: str = later_setting("")
    prices: dict[str, float] | str | None = field(default=None, hash=False, metadata={ASIDE: True})

    name: ClassVar[str] = ""
    keeps_replies: ClassVar[bool] = True
    """True if replies are cached, because they cost money or take a while."""

    @property
    def label(self) -> str:
        """Name of the learner in tables, pages and files: the model's name, or the last part of the
        name if it is a path, as on some local servers.
        """
        if self.model.startswith(("/", "./", "../", "~")):
            return PurePosixPath(self.model).name
        return self.model or self.name

    @cached_property
    def price(self) -> tuple[float, float] | None:
        """Prices of a million input and output tokens, or None if they are not known."""
        return read_prices(self.prices, self.model)

    def cost(self, tokens_in: int | None, tokens_out: int | None) -> float | None:
        """Cost of a reply, or None if the prices or the numbers of tokens are not known."""
        if self.price is None or tokens_in is None or tokens_out is None:
            return None
        return (tokens_in * self.price[0] + tokens_out * self.price[1]) / MILLION

    def __post_init__(self) -> None:
        check_extract(self.extract)
        try:
            thought_marks(self.thinking)
        except ParameterError as error:
            raise LearnerError(str(error)) from error
        for name, known in (("shots_as", SHOTS_AS), ("guided", GUIDED)):
            value = getattr(self, name)
            if value not in known:
                raise LearnerError(f"{name} is '{value}'; {nearest(value, known)}")
        # raises an error for bad prices before any request
        read_prices(self.prices, self.model)
        for name in ("timeout", "pause"):
            if not 0 < getattr(self, name) < float("inf"):
                raise LearnerError(f"{name} is {getattr(self, name)}; it must be a number above 0")
        for name in ("requests", "tokens", "shots"):
            if getattr(self, name) < 0:
                raise LearnerError(f"{name} is {getattr(self, name)}; it must be at least 0")
        for name in ("at_once", "attempts", "longest_answer"):
            if getattr(self, name) < 1:
                raise LearnerError(f"{name} is {getattr(self, name)}; it must be at least 1")

    def client(self, answers: Sequence[str] = ()) -> Asker:
        """Open the connection.

        Args:
            answers: The known answers, if replies are constrained to them.
        """
        raise NotImplementedError

    def learn(self, train: Pairs, seed: int) -> FittedChat:
        """Choose the examples to show. No request is sent yet."""
        if not self.model:
            raise LearnerError(
                f"{self.name}: name a model, e.g. {{learner: {self.name}, model: my-model}}"
            )
        if self.shots and not len(train):
            raise LearnerError(
                f"shots is {self.shots} and the recipe has no training split to take examples of;"
                " leave shots out, or name a recipe with one and this one under 'evaluate'"
            )
        needs_answers = self.extract == KNOWN or self.guided == "choice"
        answers = known_answers(columns(train)[1]) if needs_answers else ()
        if self.guided == "choice" and len(answers) > MOST_CHOICES:
            raise LearnerError(
                f"guided is 'choice' and the training split has {len(answers)} different answers,"
                f" more than {MOST_CHOICES}; use 'schema'"
            )
        examples = shown(train, self.shots, seed)
        how = "json:answer" if self.guided == "schema" else self.extract
        return FittedChat(self, Prompt(self.describe, examples, self.join, answers, how), seed)
