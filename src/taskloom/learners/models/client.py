"""Client for a model behind an OpenAI-compatible endpoint, by chat completions or the Responses
API. Requests are concurrent, rate-limited and within a budget, and replies are cached, so that no
question is asked twice.

The number of concurrent requests adapts to the endpoint: it grows by one after as many successes in
a row, and is halved when the endpoint answers 429 (too many requests). Replies are cached by the
content of the request, so a stopped run asks only the remaining questions.

Empty, refused, filtered and cut-off replies are kept like any other and have no answer. Only a
failing server ends a run. If the server cannot be reached, the run ends as soon as a question has
used up its attempts. Otherwise it ends after `MOST_FAILED_IN_ROW` such questions, if the server
then also fails on a question that it has answered before. Secrets are removed before anything is
stored or shown.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from taskloom import __version__
from taskloom.core.extraction import without_thinking
from taskloom.core.files import digest as text_digest
from taskloom.core.http import (
    TOO_MANY,
    AnswerCache,
    Backoff,
    HttpClient,
    Refused,
    Reply,
    Secrets,
    TryLater,
    retried,
)
from taskloom.learners.interface import LearnerError

LONGEST_WAIT = 60.0
"""Maximum seconds of one wait. If an endpoint asks for a longer wait, it is tried again earlier, up
to `attempts` times.
"""

LONGEST_REQUESTED_WAIT = 600.0
"""Maximum seconds of a requested wait. Above it the run stops, since the quota may be for a day.
Nothing is lost, because the cache has all answers so far.
"""

NOTED_WAIT = 5.0
"""Minimum seconds of a requested wait that is announced to the user."""

MOST_FAILED_IN_ROW = 8
"""Maximum consecutive questions without a usable answer, after all their attempts. Then a question
that was answered before is asked again. If the server answers it, only the failed questions are at
fault, and the run continues. If not, the server is failing, and the run ends. Without this check, a
server that is down would be asked all questions six times each, which takes minutes for hundreds of
questions.
"""

MOST_BYTES = 2**22
"""Maximum reply size in bytes. Longer replies are rejected."""


FILTER_CODES = ("content_filter", "content_policy_violation", "invalid_prompt")
"""Error codes of content filters that refuse a single question, as used by Azure OpenAI and by
OpenAI's image and reasoning models.
"""

TOO_LONG = "too long"
"""`finish` of a reply to a question that does not fit the model's context."""

_TOO_LONG = re.compile(
    r"context.length|context.size|context.window|maximum.context|too.many.(?:input.)?tokens"
    r"|(?:prompt|input|request).is.too.long|string_above_max_length",
    re.IGNORECASE,
)
"""Matches the error messages of OpenAI, vLLM, llama.cpp, Anthropic and others for such a
question.
"""


SHORTER = "set a smaller longest_answer, or give the server a larger context"
"""Remedy if no question fits the context."""


class EndpointError(LearnerError):
    """Raised if an endpoint cannot be reached, or gave no usable answer."""


class BudgetSpent(EndpointError):  # noqa: N818 - not a fault: what was granted is used up
    """Raised when the budget of requests or tokens is used up. Replies so far are in the cache."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets, timeouts and retries.

    Attributes:
        requests: Maximum requests, including repeated ones; 0: no limit.
        tokens: Maximum tokens of questions and answers together; 0: no limit. A request is sent
            only if its worst case fits.
        at_once: Maximum concurrent requests.
        attempts: Maximum attempts per question.
        timeout: Timeout of a request in seconds.
        pause: Seconds before the second attempt, doubled each time.
    """

    requests: int = 0
    tokens: int = 0
    at_once: int = 16
    attempts: int = 6
    timeout: float = 60.0
    pause: float = 0.5


@dataclass(slots=True)
class Spent:
    """Requests and tokens spent, counted before a request is sent and corrected after it."""

    requests: int = 0
    tokens: int = 0
    cached: int = 0


@dataclass(frozen=True, slots=True)
class ModelReply:
    """An endpoint's reply to one question.

    Attributes:
        text: Text of the model, including thoughts; may be empty.
        thinking: Thoughts that the endpoint sent separately.
        finish: Why the model stopped, as reported by the endpoint (`stop`, `length`,
            `content_filter`). `refusal` means that a refusal was sent in place of a text, and
            `TOO_LONG` that the question was not accepted. May be empty.
        tokens_in: Tokens of the question; None if not reported.
        tokens_out: Tokens of the reply, including thinking.
        tokens_thinking: Tokens of the thoughts alone.
        seconds: Duration of the request.
    """

    text: str = ""
    thinking: str = ""
    finish: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_thinking: int | None = None
    seconds: float | None = None

    @property
    def said(self) -> str:
        """The text without thoughts."""
        return without_thinking(self.text)

    @classmethod
    def of_cache(cls, kept: bytes) -> ModelReply | None:
        """Parse a cached reply. Earlier versions cached only the text. Return None if the reply is
        damaged.
        """
        try:
            if not kept.startswith(_KEPT):
                return cls(repaired(kept.decode("utf-8", "surrogatepass")))
            return cls(**json.loads(kept.removeprefix(_KEPT)))
        except (ValueError, TypeError):
            return None

    def for_cache(self) -> bytes:
        """Serialize for the cache."""
        return _KEPT + json.dumps(asdict(self)).encode()


_KEPT = b"\0taskloom reply\n"
"""Prefix of cached replies that are JSON."""


Message = Mapping[str, str]
"""One turn of a conversation: its `role` and `content`."""

Question = str | Sequence[Message]
"""A prompt, or the messages of a conversation."""

PROTOCOLS = {"chat": "chat/completions", "responses": "responses"}
"""Path of the endpoint for each protocol."""


@dataclass(frozen=True, slots=True)
class RequestForm:
    """Form of the requests: everything that is sent with each question.

    Attributes:
        parameters: Parameters of the request; None omits one that would be sent by default.
        limit_name: The endpoint's name for the maximum answer length; empty: that of the protocol.
        protocol: One of `PROTOCOLS`.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    limit_name: str = ""
    protocol: str = "chat"

    @property
    def limit(self) -> str:
        """Name of the parameter for the maximum answer length."""
        usual = "max_output_tokens" if self.protocol == "responses" else "max_tokens"
        return self.limit_name or usual

    def settings(self, most_tokens: int) -> dict[str, Any]:
        """All parameters except the model and the messages."""
        given = {self.limit: most_tokens, **self.parameters}
        return {name: value for name, value in given.items() if value is not None}

    def body(self, model: str, question: Question, most_tokens: int) -> dict[str, Any]:
        """Body of the request."""
        turns = "input" if self.protocol == "responses" else "messages"
        return {"model": model, turns: messages_of(question), **self.settings(most_tokens)}


def messages_of(question: Question) -> list[dict[str, str]]:
    """Return the messages that ask a question."""
    if isinstance(question, str):
        return [{"role": "user", "content": question}]
    return [dict(message) for message in question]


class Gate:
    """Limits the number of concurrent requests, adapted to what the endpoint can handle."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit = min(4, most)
        self._active = 0
        self._row = 0
        self._free = threading.Condition()

    def __enter__(self) -> None:
        with self._free:
            self._free.wait_for(lambda: self._active < self.limit)
            self._active += 1

    def __exit__(self, *error: object) -> None:
        with self._free:
            self._active -= 1
            # one slot, one waiter: waking all of them costs more than a request
            self._free.notify()

    def went_well(self) -> None:
        """Allow one more request after `limit` successes in a row while all slots were in use. Idle
        slots prove nothing.
        """
        with self._free:
            if self._active + 1 < self.limit:
                return
            self._row += 1
            if self._row >= self.limit and self.limit < self.most:
                self.limit, self._row = self.limit + 1, 0
                self._free.notify()

    def too_much(self) -> None:
        """Halve the number of concurrent requests."""
        with self._free:
            self.limit, self._row = max(1, self.limit // 2), 0


class ModelClient:
    """Asks one model questions."""

    def __init__(
        self,
        url: str,
        model: str,
        key: str,
        limits: Limits,
        cache: Path | None = None,
        form: RequestForm | None = None,
        headers: Mapping[str, str] | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        """Open the cache. No request is sent yet.

        Args:
            url: Address, up to and including `/v1`.
            model: Name of the model at the endpoint.
            key: API key, hidden wherever it would be shown or stored.
            limits: Budgets, timeouts and retries.
            cache: File of cached replies; None to cache in memory.
            form: Form of the requests.
            headers: Headers of every request, in addition to our own or replacing them.
            secrets: Parts of the headers that are hidden like the key.
        """
        self.form = form or RequestForm()
        self.url, self.model, self.limits, self._key = url, model, limits, key.strip()
        sent = {"key": self._key, **(headers or {})}
        for name, value in sent.items():
            if not (value.isascii() and value.isprintable()):
                raise EndpointError(
                    f"the {name} has a character that a request cannot carry; set its environment"
                    " variable again"
                )
        self.spent = Spent()
        self.gate = Gate(limits.at_once)
        self.cache = AnswerCache(cache, EndpointError)
        self._backoff = Backoff(limits.pause)
        self._secrets = Secrets(self._key, *secrets)
        self._http = HttpClient(
            limits.timeout,
            MOST_BYTES,
            {**_headers(self._key), **(headers or {})},
            secrets=self._secrets,
        )
        self._note: Callable[[str], None] | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._fault = ""
        self._is_noted = False
        self._answered = 0
        self._failed_in_row = 0
        self._too_long: list[str] = []
        self._answerable: Question | None = None

    def ask(
        self,
        questions: Sequence[Question],
        most_tokens: int,
        progress: Callable[[int, int], None] | None = None,
        note: Callable[[str], None] | None = None,
        sample: int = 0,
    ) -> list[ModelReply]:
        """Return the replies to the given questions, each asked at most once.

        Args:
            questions: Whole prompts, or conversations.
            most_tokens: Maximum tokens of an answer.
            progress: Called with the number of answered questions and the total.
            note: Called with a sentence, from any thread, when there is a wait.
            sample: Index of the reply among several independent replies to the same question.
        """
        self._stop.clear()
        self._note, self._is_noted, self._failed_in_row = note, False, 0
        self._too_long.clear()
        digests = [self._digest(q, most_tokens, sample) for q in questions]
        answers: dict[str, ModelReply] = {}
        open_: dict[str, Question] = {}
        for digest, question in zip(digests, questions, strict=True):
            kept = self.cache.get(digest)
            known = None if kept is None else ModelReply.of_cache(kept)
            if known is None:
                open_[digest] = question
            else:
                answers[digest] = self._without_secrets(known)
                self._answerable = question
        self.spent.cached += len(answers)
        different = len(set(digests))
        failed: list[BaseException] = []
        try:
            with ThreadPoolExecutor(
                max_workers=max(1, min(self.limits.at_once, len(open_)))
            ) as pool:
                running = {d: pool.submit(self._one, d, q, most_tokens) for d, q in open_.items()}
                for digest, job in running.items():
                    try:
                        answers[digest] = job.result()
                    except EndpointError as error:
                        failed.append(error)
                    except BaseException:
                        self._stop.set()
                        raise
                    if progress:
                        progress(len(answers), different)
        finally:
            self.cache.flush()
        if failed:
            worst = next((e for e in failed if not isinstance(e, _Stopped)), failed[0])
            raise type(worst)(self._failure(worst, len(open_) - len(failed), len(open_)))
        if answers and all(reply.finish == TOO_LONG for reply in answers.values()):
            raise EndpointError(f"the endpoint {self._too_long[0]}; {SHORTER}")
        return [answers[d] for d in digests]

    def _failure(self, worst: BaseException, answered: int, asked: int) -> str:
        """State why asking ended, how many open questions were answered, and where the replies
        are.
        """
        why = where = ""
        if self._fault and isinstance(worst, BudgetSpent):
            # Without this, a budget that was spent on failures would hide them.
            why = f"; the last failure: it {self._fault}"
        if answered and self.cache.path:
            where = f" and are in the cache {self.cache.path}"
        elif answered:
            where = " and are kept in memory; cache: FILE keeps them"
        return f"{worst}{why} ({answered} of {asked} open questions were answered{where})"

    def _digest(self, question: Question, most_tokens: int, sample: int = 0) -> str:
        settings = self.form.settings(most_tokens)
        messages = messages_of(question)
        asked: Any = messages
        if [message["role"] for message in messages] == ["user"]:
            asked = messages[0]["content"]
        parts: list[Any] = [self.url, self.model, asked, most_tokens]
        # Parameters that all requests of earlier versions had are left out of the digest, so that
        # replies cached by those versions are found.
        if settings != {"max_tokens": most_tokens, "temperature": 0}:
            parts.append(sorted(settings.items()))
        if self.form.protocol != "chat":
            parts.append(self.form.protocol)
        if sample:
            parts.append({"sample": sample})
        text = json.dumps(parts, ensure_ascii=False)
        return text_digest(text.encode("utf-8", "surrogatepass"), 20)

    def _one(self, digest: str, question: Question, most_tokens: int) -> ModelReply:
        """Ask until there is a reply, and store it."""
        before = self._answered

        def once() -> ModelReply:
            if self._stop.is_set():
                raise _Stopped("stopped")
            try:
                with self.gate:
                    return self._try(question, most_tokens)
            except TryLater as error:
                self._fault = str(error)
                self._note_failure(error)
                raise

        try:
            reply = retried(once, self.limits.attempts, self._backoff, sleep=self._stop.wait)
            self._answerable = question
        except _NoText:
            reply = ModelReply()  # one item without a text must not end the whole run
        except TryLater as error:
            self._count_failure(error, before, most_tokens)
            raise EndpointError(
                f"the endpoint gave no usable answer in {self.limits.attempts} attempts; the last"
                f" time it {error}"
            ) from error
        except Refused as error:
            if error.code in FILTER_CODES:
                return self._received(digest, ModelReply(finish="content_filter"))
            if _is_too_long(error) and self._others_fit(str(error)):
                # not stored, because a server's context may grow
                return ModelReply(finish=TOO_LONG)
            self._stop.set()  # every other request would be refused, too
            remedy = self._remedy(error, question, most_tokens)
            raise EndpointError(f"the endpoint {error}; {remedy}") from error
        return self._received(digest, reply)

    def _received(self, digest: str, reply: ModelReply) -> ModelReply:
        """Count a reply and store it."""
        with self._lock:
            self._answered += 1
            self._failed_in_row = 0
        self.gate.went_well()
        self._keep(digest, reply)
        return reply

    def _others_fit(self, problem: str) -> bool:
        """Count a question that does not fit the context. Return False if it seems that no question
        fits.

        Args:
            problem: The server's message.
        """
        with self._lock:
            self._too_long.append(problem)
            are_few = len(self._too_long) < MOST_FAILED_IN_ROW
            return are_few or self._answered + self.spent.cached > 0

    def _note_failure(self, error: TryLater) -> None:
        """Announce the first failure, because the attempts that follow take a while."""
        is_expected = isinstance(error, _NoText) or error.wait or self.limits.attempts == 1
        if self._is_noted or self._note is None or is_expected:
            return
        self._is_noted = True
        self._note(f"trying up to {self.limits.attempts} times, because the endpoint {error}")

    def _count_failure(self, error: TryLater, answered_before: int, most_tokens: int) -> None:
        """Raise an error if no other question can be expected to succeed.

        Args:
            error: Error of the last attempt at a question.
            answered_before: Number of questions answered before its first attempt.
            most_tokens: Maximum tokens of an answer.
        """
        with self._lock:
            self._failed_in_row += 1
            is_down = error.is_unreachable and self._answered == answered_before
            are_many = self._failed_in_row >= MOST_FAILED_IN_ROW
            if are_many:
                self._failed_in_row = 0
        if is_down or (are_many and not self._still_answers(most_tokens)):
            self._stop.set()

    def _still_answers(self, most_tokens: int) -> bool:
        """True if the server answers a question that it has answered before."""
        if self._answerable is None:
            return False
        try:
            self._try(self._answerable, most_tokens)
        except _NoText:
            return True
        except (TryLater, Refused, EndpointError):
            return False
        return True

    def _remedy(self, error: Refused, question: Question, most_tokens: int) -> str:
        """Return a remedy for a refusal: to change the parameter that it names."""
        if error.status not in (400, 422):
            return "check url, model and key"
        if _is_too_long(error):
            return SHORTER
        sent = self.form.settings(most_tokens)
        named = [name for name in sent if name == error.parameter]
        named = named or [name for name in sent if _names(str(error), name)]
        if named and named[0] == self.form.limit:
            other = "max_completion_tokens" if named[0] == "max_tokens" else "max_tokens"
            return (
                f"it does not accept the parameter {named[0]}: rename it by the setting"
                f" 'limit_name: {other}', or leave it out by 'request: {{{named[0]}: null}}'"
            )
        if named:
            return (
                f"it does not accept the parameter {named[0]} as it is: change or remove it in the"
                " setting 'request'"
            )
        has_system = any(message["role"] == "system" for message in messages_of(question))
        if has_system and _names(str(error), "system"):
            return (
                "it does not accept a system message: use the setting 'describe' in place of"
                " 'system'"
            )
        return "check url, model and key, and the parameters in the setting 'request'"

    def _keep(self, digest: str, reply: ModelReply) -> None:
        """Store a reply. If that fails, stop, because every further reply would be paid for and
        lost.
        """
        try:
            self.cache.put_soon(digest, reply.for_cache())
        except EndpointError:
            self._stop.set()
            raise

    def _try(self, question: Question, most_tokens: int) -> ModelReply:
        """Ask once within the budget, and return the reply. Raise `TryLater` or `Refused` on
        failure.
        """
        # Three bytes per token overestimates the tokens of ordinary text with any current
        # tokeniser.
        asked = "".join(message["content"] for message in messages_of(question))
        worst = len(asked.encode("utf-8", "surrogatepass")) // 3 + 16 + most_tokens
        self._reserve(worst)
        used = worst
        began = time.monotonic()
        try:
            reply, total = self._request(question, most_tokens)
            if total is not None:
                used = total
            if not (reply.text or reply.thinking or reply.finish):
                raise _NoText("sent a reply without text")
        except TryLater as error:
            self._check_wait(error)
            if error.status == TOO_MANY:
                self.gate.too_much()
                used = 0
            raise
        finally:
            with self._lock:
                self.spent.tokens += used - worst
        return self._without_secrets(replace(reply, seconds=time.monotonic() - began))

    def _check_wait(self, error: TryLater) -> None:
        """Limit the wait that an endpoint asks for, and announce it. Raise an error if the wait is
        too long.
        """
        requested = error.wait
        if requested > LONGEST_REQUESTED_WAIT:
            self._stop.set()
            raise EndpointError(
                f"the endpoint {error}, more than the {LONGEST_REQUESTED_WAIT:.0f} that a run"
                " waits; rerun the command later"
            ) from error
        error.wait = min(LONGEST_WAIT, requested)
        if requested >= NOTED_WAIT and self._note is not None:
            self._note(
                f"the endpoint asks to wait {requested:.0f} seconds; trying again in"
                f" {error.wait:.0f} to {1.5 * error.wait:.0f}"
            )

    def _without_secrets(self, reply: ModelReply) -> ModelReply:
        hide = self._secrets.hide
        return replace(
            reply, text=hide(reply.text), thinking=hide(reply.thinking), finish=hide(reply.finish)
        )

    def _request(self, question: Question, most_tokens: int) -> tuple[ModelReply, int | None]:
        """Send a request. Return the reply and the tokens used, if reported."""
        request = self.form.body(self.model, question, most_tokens)
        address = f"{self.url.rstrip('/')}/{PROTOCOLS[self.form.protocol]}"
        return READERS[self.form.protocol](self._http.post(address, json.dumps(request).encode()))

    def _reserve(self, tokens: int) -> None:
        limits = self.limits
        with self._lock:
            if limits.requests and self.spent.requests >= limits.requests:
                self._stop.set()
                raise BudgetSpent(f"the budget of {limits.requests:,} requests is used up")
            if limits.tokens and self.spent.tokens + tokens > limits.tokens:
                self._stop.set()
                raise BudgetSpent(
                    f"the budget of {limits.tokens:,} tokens is used up ({self.spent.tokens:,}"
                    f" spent, and the next request may take {tokens:,})"
                )
            self.spent.requests += 1
            self.spent.tokens += tokens


class _Stopped(EndpointError):  # noqa: N818 - a question that was not asked because another one ended the run
    pass


class _NoText(TryLater):
    """A reply without a text and without a reason. Another attempt may give a text."""


def _is_too_long(error: Refused) -> bool:
    """True if a server refuses a question because it does not fit the context."""
    by_words = error.status in (400, 413, 422) and _TOO_LONG.search(f"{error.code} {error}")
    return bool(by_words)


def _names(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


NOT_A_REPLY = (ValueError, AttributeError, TypeError, IndexError, KeyError, RecursionError)
"""Exceptions raised when a reply is truncated JSON, in another encoding or in another structure."""


def _read_chat(reply: Reply) -> tuple[ModelReply, int | None]:
    """Parse a reply of the chat completions protocol. Return it with the tokens used, if
    reported.
    """
    try:
        content = json.loads(reply.body)
        choice = content["choices"][0]
        message = choice["message"]
        text, thinking = _parts(message.get("content"))
        apart = message.get("reasoning_content") or message.get("reasoning")
        refusal = message.get("refusal")
        finish = choice.get("finish_reason")
        usage = content.get("usage") or {}
        counts = _counts(usage, "prompt", "completion")
    except NOT_A_REPLY as error:
        raise TryLater(f"sent an unreadable reply ({type(error).__name__})") from error
    if isinstance(apart, str):
        thinking = f"{thinking}{apart}"
    reason = finish if isinstance(finish, str) else ""
    if isinstance(refusal, str) and refusal.strip():
        text, reason = text or refusal, "refusal"
    return _reply(text, thinking, reason, counts), counts.total


def _read_response(reply: Reply) -> tuple[ModelReply, int | None]:
    """Parse a reply of the Responses protocol. Return it with the tokens used, if reported."""
    try:
        content = json.loads(reply.body)
        said, thought, refusals = _response_texts(content["output"])
        cut = (content.get("incomplete_details") or {}).get("reason")
        counts = _counts(content.get("usage") or {}, "input", "output")
        status = str(content.get("status") or "")
    except NOT_A_REPLY as error:
        raise TryLater(f"sent an unreadable reply ({type(error).__name__})") from error
    reason = "stop" if status == "completed" else status
    if isinstance(cut, str):
        reason = "length" if cut == "max_output_tokens" else cut
    text = "".join(said)
    if refusals:
        text, reason = text or "".join(refusals), "refusal"
    return _reply(text, "\n".join(thought), reason, counts), counts.total


def _response_texts(output: Any) -> tuple[list[str], list[str], list[str]]:
    """Texts of a response: what the model said, its thoughts, and its refusals."""
    said: list[str] = []
    thought: list[str] = []
    refusals: list[str] = []
    for item in output:
        parts = [*(item.get("content") or ()), *(item.get("summary") or ())]
        if item.get("type") == "reasoning":
            thought += [str(part.get("text") or "") for part in parts]
        elif item.get("type") == "message":
            said += [str(part["text"]) for part in parts if _kind(part) in TEXT_PARTS]
            refusals += [str(part["refusal"]) for part in parts if _kind(part) == "refusal"]
    return said, thought, refusals


READERS: Mapping[str, Callable[[Reply], tuple[ModelReply, int | None]]] = {
    "chat": _read_chat,
    "responses": _read_response,
}
"""Parser of replies for each protocol."""


@dataclass(frozen=True, slots=True)
class _TokenCounts:
    asked: int | None
    replied: int | None
    thought: int | None
    total: int | None


def _counts(usage: Mapping[str, Any], asked: str, replied: str) -> _TokenCounts:
    """Read the token counts of a reply, using the protocol's names for them."""
    details = usage.get(f"{replied}_tokens_details")
    thought = details.get("reasoning_tokens") if isinstance(details, dict) else None
    return _TokenCounts(
        _count(usage.get(f"{asked}_tokens")),
        _count(usage.get(f"{replied}_tokens")),
        _count(thought),
        _count(usage.get("total_tokens")),
    )


def _reply(text: str, thinking: str, reason: str, counts: _TokenCounts) -> ModelReply:
    return ModelReply(
        repaired(text),
        repaired(thinking),
        repaired(reason[:100]),
        counts.asked,
        counts.replied,
        counts.thought,
    )


def _parts(content: object) -> tuple[str, str]:
    """Text and thoughts in a message's content, which may be a text, a list of typed parts, or
    nothing.
    """
    if isinstance(content, str):
        return content, ""
    if content is None:
        return "", ""
    if not isinstance(content, list):
        raise TypeError("content")
    said = [str(part.get("text") or "") for part in content if _kind(part) in TEXT_PARTS]
    thought = [json.dumps(part) for part in content if _kind(part) in ("thinking", "reasoning")]
    return "".join(said), "\n".join(thought)


TEXT_PARTS = ("text", "output_text")
"""Types of the parts of a message's content that hold the model's text."""


def _kind(part: Any) -> Any:
    return part.get("type")


def _count(value: object) -> int | None:
    """Return a number of tokens, or None if the value is not a valid count."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return value if is_count and isinstance(value, int) else None


def repaired(text: str) -> str:
    """Replace lone surrogates, as left by a cut emoji, so that the text can be written."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _headers(key: str) -> dict[str, str]:
    """Headers that identify the user: the key, and the organization and project that OpenAI's own
    tools also read.
    """
    names = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
    groups = {
        name: value
        for name, variable in names.items()
        if (value := os.environ.get(variable, "").strip())
    }
    kind = "application/json"
    return {
        "Authorization": f"Bearer {key or 'none'}",
        "User-Agent": f"taskloom/{__version__}",
        "Content-Type": kind,
        "Accept": kind,
        **groups,
    }
