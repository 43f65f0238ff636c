"""Asking a model behind an OpenAI-compatible endpoint: many questions at once, politely, within a budget, and never twice.

Concurrency follows what the endpoint bears: it grows by one after as many successes in a row, and is halved when the endpoint says
that it is too much (429). Answers are kept by the content of the question, so a run that was stopped asks only what is open.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from taskloom import __version__
from taskloom.core.files import digest as text_digest
from taskloom.core.http import (
    TOO_MANY,
    AnswerCache,
    Backoff,
    HttpClient,
    Refused,
    Reply,
    TryLater,
    retried,
)
from taskloom.learners.interface import LearnerError

LONGEST_WAIT = 60.0
"""Maximum seconds to wait when an endpoint asks for a wait."""

MOST_BYTES = 2**22
"""Maximum reply size in bytes. Longer replies are rejected."""


class EndpointError(LearnerError):
    """An endpoint that cannot be asked, or gave no usable answer."""


class BudgetSpent(EndpointError):  # noqa: N818 - not a fault: what was granted is used up
    """The requests or tokens granted are used up; what was answered is in the cache."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be spent, and how patiently.

    Attributes:
        requests: The most requests, repeated ones included; 0: no limit.
        tokens: The most tokens, of questions and answers together; 0: no limit. A request is sent only when its worst case fits.
        at_once: The most requests at one time.
        attempts: How often a question is tried.
        timeout: Seconds for one request.
        pause: Seconds before the second attempt; doubled each time.
    """

    requests: int = 0
    tokens: int = 0
    at_once: int = 16
    attempts: int = 6
    timeout: float = 60.0
    pause: float = 0.5


@dataclass(slots=True)
class Spent:
    """What was spent: counted before a request is sent, put right after it."""

    requests: int = 0
    tokens: int = 0
    cached: int = 0


class Gate:
    """How many requests run at once, adapted to what the endpoint bears."""

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
            self._free.notify()  # one place, one that waits: waking all of them costs more than a request

    def went_well(self) -> None:
        """Allow one more after `limit` successes in a row with all places taken: idle places prove nothing."""
        with self._free:
            if self._active + 1 < self.limit:
                return
            self._row += 1
            if self._row >= self.limit and self.limit < self.most:
                self.limit, self._row = self.limit + 1, 0
                self._free.notify()

    def too_much(self) -> None:
        """Allow half as many from now on."""
        with self._free:
            self.limit, self._row = max(1, self.limit // 2), 0


class ModelClient:
    """Asks one model questions."""

    def __init__(
        self, url: str, model: str, key: str, limits: Limits, cache: Path | None = None
    ) -> None:
        self.url, self.model, self.limits, self._key = url, model, limits, key.strip()
        if not (self._key.isascii() and self._key.isprintable()):
            raise EndpointError(
                "the key has a character that a request cannot carry; set its environment variable again"
            )
        self.spent = Spent()
        self.gate = Gate(limits.at_once)
        self.cache = AnswerCache(cache, EndpointError)
        self._backoff = Backoff(limits.pause)
        self._http = HttpClient(limits.timeout, MOST_BYTES, _headers(self._key), secret=self._key)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._fault = ""

    def ask(
        self,
        questions: Sequence[str],
        most_tokens: int,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[str]:
        """Return the answers to some questions, each asked at most once.

        Args:
            questions: Whole prompts.
            most_tokens: The longest answer.
            progress: Told how many are answered, and of how many.
        """
        self._stop.clear()
        digests = [self._digest(q, most_tokens) for q in questions]
        answers: dict[str, str] = {}
        open_: dict[str, str] = {}
        for digest, question in zip(digests, questions, strict=True):
            known = self.cache.get(digest)
            if known is None:
                open_[digest] = question
            else:
                answers[digest] = known.decode("utf-8", "surrogatepass")
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
            answered = len(open_) - len(failed)
            # A budget that went into failures would else hide them.
            why = (
                f"; the last failure: it {self._fault}"
                if self._fault and isinstance(worst, BudgetSpent)
                else ""
            )
            where = (
                f"in the cache {self.cache.path}"
                if self.cache.path
                else "kept in memory; cache: FILE keeps them"
            )
            raise type(worst)(
                f"{worst}{why} ({answered} of {len(open_)} open questions were answered and are {where})"
            )
        return [answers[d] for d in digests]

    def _digest(self, question: str, most_tokens: int) -> str:
        text = json.dumps([self.url, self.model, question, most_tokens], ensure_ascii=False)
        return text_digest(text.encode("utf-8", "surrogatepass"), 20)

    def _one(self, digest: str, question: str, most_tokens: int) -> str:
        """Ask until there is an answer, and keep it."""

        def once() -> str:
            if self._stop.is_set():
                raise _Stopped("stopped")
            try:
                with self.gate:
                    return self._try(question, most_tokens)
            except TryLater as error:
                self._fault = str(error)
                raise

        try:
            answer = retried(once, self.limits.attempts, self._backoff, sleep=self._stop.wait)
        except TryLater as error:
            raise EndpointError(
                f"the endpoint gave no usable answer in {self.limits.attempts} attempts; the last time it {error}"
            ) from error
        except Refused as error:
            self._stop.set()  # every other request would be refused, too
            raise EndpointError(f"the endpoint {error}; check url, model and key") from error
        self.gate.went_well()
        self._keep(digest, answer)
        return answer

    def _keep(self, digest: str, answer: str) -> None:
        """Keep an answer; ask no more where that fails, since every further one would be paid for and lost."""
        try:
            self.cache.put_soon(digest, answer.encode("utf-8", "surrogatepass"))
        except EndpointError:
            self._stop.set()
            raise

    def _try(self, question: str, most_tokens: int) -> str:
        """Ask once, within the budget: return the answer, or raise `TryLater` or `Refused`."""
        # Three bytes a token is more tokens than any current tokeniser makes of ordinary text.
        worst = len(question.encode("utf-8", "surrogatepass")) // 3 + 16 + most_tokens
        self._reserve(worst)
        used = worst
        try:
            answer, total = _read(self._send(question, most_tokens))
            if total is not None:
                used = total
            if not isinstance(answer, str):
                raise TryLater("sent a reply without text")
        except TryLater as error:
            error.wait = min(
                LONGEST_WAIT, error.wait
            )  # a budget of requests outlives a longer wait
            if error.status == TOO_MANY:
                self.gate.too_much()
                used = 0
            raise
        finally:
            with self._lock:
                self.spent.tokens += used - worst
        return answer

    def _send(self, question: str, most_tokens: int) -> Reply:
        """Send a request and return its reply."""
        request = {
            "model": self.model,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": most_tokens,
            "temperature": 0,
        }
        return self._http.post(
            f"{self.url.rstrip('/')}/chat/completions", json.dumps(request).encode()
        )

    def _reserve(self, tokens: int) -> None:
        limits = self.limits
        with self._lock:
            if limits.requests and self.spent.requests >= limits.requests:
                self._stop.set()
                raise BudgetSpent(f"the budget of {limits.requests:,} requests is used up")
            if limits.tokens and self.spent.tokens + tokens > limits.tokens:
                self._stop.set()
                raise BudgetSpent(
                    f"the budget of {limits.tokens:,} tokens is used up ({self.spent.tokens:,} spent, and the next "
                    f"request may take {tokens:,})"
                )
            self.spent.requests += 1
            self.spent.tokens += tokens


class _Stopped(EndpointError):  # noqa: N818 - a question that was not asked because another one ended the run
    pass


def _read(reply: Reply) -> tuple[object, int | None]:
    """Return the answer of a reply, and the tokens that it took unless the reply does not state them."""
    try:
        content = json.loads(reply.body)
        answer = content["choices"][0]["message"]["content"]
        total = (content.get("usage") or {}).get("total_tokens")
    except (ValueError, AttributeError, TypeError, IndexError, KeyError, RecursionError) as error:
        # Truncated JSON, another encoding or another shape.
        raise TryLater(f"sent an unreadable reply ({type(error).__name__})") from error
    return answer, total if isinstance(total, int) and total >= 0 else None


def _headers(key: str) -> dict[str, str]:
    """Return the headers that say who asks: the key, and the organization and project that OpenAI's own tools read too."""
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
