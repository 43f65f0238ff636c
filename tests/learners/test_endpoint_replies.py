"""What endpoints may send back: every reply is kept and none ends a run, keys are never written, and
requests have the parameters that were asked for.
"""

from __future__ import annotations

import html
import json
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest
from tests.learners.test_endpoint import BARE

from taskloom.cli.app import run
from taskloom.core.http import AnswerCache
from taskloom.experiments.execute import engines
from taskloom.experiments.execute.engines import HereEngine
from taskloom.learners import LearnerError, find_learner
from taskloom.learners.config import read
from taskloom.learners.models.client import EndpointError, ModelReply

KEY = "sk-SECRET-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c"

Answer = Callable[["Request"], "tuple[int, dict[str, str], object]"]


class Request:
    """A request as the server saw it."""

    def __init__(self, headers: Any, body: dict[str, Any]) -> None:
        self.headers, self.body = headers, body

    @property
    def question(self) -> str:
        text: str = self.body["messages"][-1]["content"]
        return text.removesuffix(" |")


class Server(ThreadingHTTPServer):
    """Answers every request by a function of a test."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer: Answer = lambda request: (200, {}, completion("kitchen"))
        self.seen: list[Request] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = Request(self.headers, body)
        self.server.seen.append(request)
        status, headers, content = self.server.answer(request)
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status, headers.pop("reason", None))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def completion(content: object, finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": content, **message}
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    return {"choices": [{"index": 0, "message": said, "finish_reason": finish}], "usage": usage}


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    thread = threading.Thread(
        target=found.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    yield found
    found.shutdown()
    found.server_close()
    thread.join()


def endpoint(server: Server, **more: Any) -> Any:
    quick = {**BARE, "url": server.url, "model": "m", "pause": 0.01, "timeout": 5, **more}
    return read({"learner": "endpoint", **quick}).fit([("one", "ONE"), ("two", "TWO")])


def experiment(server: Server, folder: Path, **settings: Any) -> list[str]:
    """Write an experiment of four questions; return the command that runs it."""
    small = {"splits": {"train": {"n": 300}, "iid": {"n": 4}}}
    quick = {"model": "m", "attempts": 2, "pause": 0.01}
    learner = {"learner": "endpoint", **BARE, "url": server.url, **quick}
    content = {
        "recipes": [{"recipe": "ctl/A-independent", "set": small}],
        "learners": [{**learner, **settings}],
    }
    file = folder / "e.yaml"
    file.write_text(json.dumps(content))
    return ["run", str(file), "--store", str(folder / "runs"), "--workers", "1"]


# Keys


def pieces(text: str, size: int = 8) -> set[str]:
    return {text[i : i + size] for i in range(len(text) - size + 1)}


def files_with(folder: Path, wanted: set[str]) -> list[str]:
    """Files below a folder that have one of some texts in their bytes or, of tables, in their
    values.
    """
    found = []
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        raw = path.read_bytes()
        if path.suffix == ".parquet":
            raw += str(pq.read_table(path).to_pylist()).encode()
        if any(piece.encode() in raw for piece in wanted):
            found.append(str(path))
    return found


ENCODINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "percent-encoded": lambda key: "".join(f"%{ord(letter):02X}" for letter in key),
    "of an address": lambda key: quote(f"{key}/{key}", safe=""),
    "base64": lambda key: b64encode(f"Bearer {key}".encode()).decode(),
    "JSON-escaped": lambda key: "".join(f"\\u{ord(letter):04x}" for letter in key),
    "HTML entities": lambda key: html.escape("".join(f"&#{ord(letter)};" for letter in key)),
}


def echoed(how: str, said: str) -> tuple[int, dict[str, str], object]:
    """A reply with a text that has the key in it."""
    if how == "message":
        return 401, {}, {"error": {"message": f"{'x' * 158} {said}"}}
    if how == "page":
        return 401, {}, f"<html>{'x' * 950} {said}</html>".encode()
    if how == "reason":
        return 401, {"reason": f"Wrong key {said}"}, b""
    if how == "failing":
        return 500, {}, {"error": {"message": f"{'x' * 158} {said}"}}
    if how == "location":
        return 302, {"Location": f"http://127.0.0.1:9/{'x' * 150}?{said}"}, b""
    if how == "refusal":
        return 200, {}, completion(None, refusal=f"Not with {said}")
    if how == "thinking":
        return 200, {}, completion("kitchen", reasoning_content=f"The key is {said}")
    return 200, {}, completion(f"kitchen {said}")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_piece_of_the_key_is_shown_or_written(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    encoding: str,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    said = ENCODINGS[encoding](KEY)
    leaked = pieces(KEY)
    if encoding != "as it is":
        leaked |= pieces(said, 24)
    places = ["message", "answer"]
    if encoding == "as it is":
        places += ["page", "reason", "failing", "location", "refusal", "thinking"]
    for place in places:
        server.answer = lambda request, place=place: echoed(place, said)  # type: ignore[misc]
        folder = tmp_path / place
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            # One run has a worker process, which could show the key in another place.
            if (encoding, place) != ("as it is", "message"):
                patch.setattr(engines, "start", lambda name, **options: HereEngine())
            run(experiment(server, folder))
        shown = "".join(capfd.readouterr())
        assert not leaked & (pieces(shown) | pieces(shown, 24)), place
        assert not files_with(folder / "runs", leaked), place
    assert server.seen[0].headers["Authorization"] == f"Bearer {KEY}"


def test_a_placeholder_for_a_key_does_not_change_answers(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "kitchen")
    assert endpoint(server).answer(["one"]) == ["kitchen"]


# Thinking


@pytest.mark.parametrize(
    ("message", "answer", "outcome"),
    [
        ({"content": "<think>Is the answer garden?</think>\n\nkitchen"}, "kitchen", "answered"),
        ({"content": "<think>The answer is kitchen"}, "", "only thinking"),
        ({"content": "kitchen", "reasoning_content": "garden"}, "kitchen", "answered"),
        ({"content": "kitchen", "reasoning": "garden"}, "kitchen", "answered"),
        ({"content": None, "reasoning_content": "the answer is kitchen"}, "", "only thinking"),
        ({"content": "", "reasoning": "the answer is kitchen"}, "", "only thinking"),
        ({"content": "{garden}kitchen"}, "kitchen", "answered"),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "garden"}]},
                    {"type": "text", "text": "kitchen"},
                ]
            },
            "kitchen",
            "answered",
        ),
        (
            {
                "content": "<|channel|>analysis<|message|>garden<|end|><|start|>assistant"
                "<|channel|>final<|message|>kitchen"
            },
            "kitchen",
            "answered",
        ),
    ],
)
@pytest.mark.parametrize("extract", ["line", "final", "whole", "last-line"])
def test_thinking_is_not_the_answer(
    server: Server, message: dict[str, Any], answer: str, outcome: str, extract: str
) -> None:
    server.answer = lambda request: (200, {}, completion(**message))
    fitted = endpoint(server, extract=extract, thinking="{ }")
    assert fitted.answer(["one"]) == [answer]
    assert len(server.seen) == 1
    (kept,) = fitted.replies
    assert kept["outcome"] == outcome
    has_thought = message["content"] is None or "garden" in str(message)
    assert bool(kept["thinking"]) == (has_thought or outcome == "only thinking")
    assert (kept["tokens_in"], kept["tokens_out"]) == (10, 2)
    assert kept["seconds"] > 0


# Replies without an answer


REPLIES = {
    "half a pair": (completion("kitchen \ud83d"), "answered"),
    "empty": (completion(""), "empty"),
    "blank": (completion(" \n"), "empty"),
    "null": (completion(None), "empty"),
    "null without a reason": (completion(None, None), "empty"),
    "filtered": (completion(None, "content_filter"), "filtered"),
    "filtered half": (completion("kitchen", "content_filter"), "filtered"),
    "refused": (completion(None, refusal="I cannot help with that."), "refused"),
    "cut off": (completion("The ball may be in the kit", "length"), "cut off"),
    "cut off before it began": (completion(None, "length"), "cut off"),
}


@pytest.mark.usefixtures("runs_here")
@pytest.mark.parametrize("name", REPLIES)
def test_no_reply_ends_a_run_or_the_one_after_it(
    server: Server, tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    reply, outcome = REPLIES[name]
    odd = ""

    def answer(request: Request) -> tuple[int, dict[str, str], object]:
        nonlocal odd
        odd = odd or request.question
        return 200, {}, reply if request.question == odd else completion("kitchen")

    server.answer = answer
    command = experiment(server, tmp_path, at_once=1)
    assert run(command) == 0, capfd.readouterr()
    asked = len(server.seen)
    (folder,) = [path.parent for path in (tmp_path / "runs").glob("??/*/scores.json")]
    scores = json.loads((folder / "scores.json").read_text())
    counts = scores["replies"]["iid"]
    assert counts == ({"answered": 4} if outcome == "answered" else {"answered": 3, outcome: 1})
    replies = pq.read_table(folder / "replies.parquet").to_pylist()
    predictions = pq.read_table(folder / "predictions.parquet").to_pylist()
    assert [row["index"] for row in replies] == [row["index"] for row in predictions]
    for row, predicted in zip(replies, predictions, strict=True):
        assert (predicted["prediction"] != "") == (row["outcome"] == "answered")
    # Another run on the same questions finds all replies, the odd one too.
    command = experiment(server, tmp_path, at_once=2)
    assert run(command) == 0
    assert len(server.seen) == asked


REFUSALS = {
    "filtered by Azure": ("the prompt triggered the policy", "content_filter", "", "filtered"),
    "flagged by OpenAI": ("Invalid prompt: flagged", "invalid_prompt", "", "filtered"),
    "too long for OpenAI": ("Too many", "context_length_exceeded", "", "too long"),
    "too long for vLLM": (
        "'max_tokens' is too large: 2048. This model's maximum context length is 2048 tokens",
        400,
        "BadRequestError",
        "too long",
    ),
    "too long for llama.cpp": (
        "the request exceeds the available context size, try increasing it",
        400,
        "exceed_context_size_error",
        "too long",
    ),
}
"""What servers say, with status 400, to one question that they refuse: message, code, type; and the
outcome.
"""


def refusal(name: str) -> tuple[int, dict[str, str], object]:
    message, code, kind, _ = REFUSALS[name]
    return 400, {}, {"error": {"message": message, "code": code, "type": kind}}


@pytest.mark.usefixtures("runs_here")
@pytest.mark.parametrize("name", REFUSALS)
def test_a_question_that_is_refused_does_not_end_a_run(
    server: Server, tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    odd = ""

    def answer(request: Request) -> tuple[int, dict[str, str], object]:
        nonlocal odd
        odd = odd or request.question
        return refusal(name) if request.question == odd else (200, {}, completion("kitchen"))

    server.answer = answer
    assert run(experiment(server, tmp_path, at_once=1)) == 0, capfd.readouterr()
    (path,) = (tmp_path / "runs").glob("??/*/scores.json")
    scores = json.loads(path.read_text())
    assert scores["replies"]["iid"] == {"answered": 3, REFUSALS[name][-1]: 1}


@pytest.mark.parametrize("name", [name for name in REFUSALS if "long" in name])
def test_questions_that_never_fit_end_a_run_with_the_setting_to_change(
    server: Server, name: str
) -> None:
    server.answer = lambda request: refusal(name)
    for questions in (2, 100):
        server.seen.clear()
        with pytest.raises(EndpointError, match="set a smaller longest_answer"):
            endpoint(server, at_once=2).answer([f"w{i}" for i in range(questions)])
        assert len(server.seen) <= 10


@pytest.mark.parametrize(
    ("extract", "content", "answer"),
    [
        ("line", "kitchen\nThat is because sh", "kitchen"),
        ("line", "kitch", ""),
        ("known", "ONE\nThat is", "ONE"),
        ("final", r"So it is \boxed{kitchen}. That is becau", "kitchen"),
        ("final", "The answer is kitch", ""),
        ("boxed", r"\boxed{kitchen} is", "kitchen"),
        ("tag:out", "<out>kitchen</out> or", "kitchen"),
        ("tag:out", "<out>kitch", ""),
        ("last-line", "First\nkitch", ""),
        ("whole", "kitch", ""),
    ],
)
def test_a_reply_that_was_cut_off_has_an_answer_only_if_that_was_finished(
    server: Server, extract: str, content: str, answer: str
) -> None:
    server.answer = lambda request: (200, {}, completion(content, "length"))
    fitted = endpoint(server, extract=extract)
    assert fitted.answer(["one"]) == [answer]
    assert fitted.replies[0]["outcome"] == ("answered" if answer else "cut off")
    assert fitted.replies[0]["finish"] == "length"


def test_replies_without_an_answer_are_announced_with_their_number(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {"one": completion("a", "length"), "two": completion(""), "three": completion("b")}
    server.answer = lambda request: (200, {}, said[request.question])
    endpoint(server).answer(["one", "two", "three", "one"])
    assert (
        "3 of 4 replies have no answer: 2 cut off, 1 empty; a larger longest_answer"
        in capsys.readouterr().err
    )


def test_a_cache_of_an_earlier_version_is_read_and_a_damaged_entry_is_asked_again(
    server: Server, tmp_path: Path
) -> None:
    file = tmp_path / "answers.sqlite"
    fitted = endpoint(server, cache=str(file), request={"temperature": 0})
    client = fitted.asker
    prompts = [fitted.prompt.fill(text) for text in ("one", "two", "three")]
    digests = [client._digest(prompt, 32) for prompt in prompts]
    cache = AnswerCache(file, EndpointError)
    cache.put(digests[0], b"garden")
    cache.put(digests[1], "garden \ud800".encode("utf-8", "surrogatepass"))
    cache.put(digests[2], ModelReply("garden").for_cache()[:-4])
    assert fitted.answer(["one", "two", "three"]) == ["garden", "garden \ufffd", "kitchen"]
    assert len(server.seen) == 1


# Requests


def test_a_request_has_what_the_settings_say(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("GATE_KEY", "gate-secret-123456")
    endpoint(server).answer(["one"])
    assert server.seen[0].body == {
        "model": "m",
        "messages": [{"role": "user", "content": "one |"}],
        "max_tokens": 32,
    }
    request = {
        "temperature": 0.5,
        "seed": 3,
        "stop": [";"],
        "reasoning_effort": "low",
        "top_p": None,
        "extra": {"a": [1]},
    }
    server.answer = lambda request: (200, {}, completion(request.headers["api-key"]))
    fitted = endpoint(
        server,
        request=request,
        limit_name="max_completion_tokens",
        system="Answer in one word.",
        headers={"api-key": "$GATE_KEY", "X-Team": "a ${GATE_KEY}"},
    )
    assert fitted.answer(["one"]) == ["…"]
    sent = server.seen[-1]
    assert sent.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Answer in one word."},
            {"role": "user", "content": "one |"},
        ],
        "max_completion_tokens": 32,
        **{name: value for name, value in request.items() if value is not None},
    }
    assert (sent.headers["api-key"], sent.headers["X-Team"]) == (
        "gate-secret-123456",
        "a gate-secret-123456",
    )
    endpoint(server, request={"max_tokens": None}).answer(["one"])
    assert "max_tokens" not in server.seen[-1].body


def test_other_parameters_are_other_questions(server: Server, tmp_path: Path) -> None:
    cache = str(tmp_path / "answers.sqlite")
    forms: list[dict[str, Any]] = [
        {},
        {"request": {"temperature": 0}},
        {"request": {"temperature": 1}},
        {"system": "Shout."},
        {"limit_name": "max_completion_tokens"},
    ]
    for form in [*forms, *forms]:
        endpoint(server, cache=cache, **form).answer(["one"])
    assert len(server.seen) == len(forms)


def test_settings_that_were_added_leave_digests_as_they_were() -> None:
    entry = find_learner("endpoint")
    plain = entry.identity(entry(model="m"))
    added = {"request", "limit_name", "system", "headers", "thinking", "prices", "protocol"}
    assert not added & set(plain[2])
    assert plain[1] == 1
    changed = entry.identity(entry(model="m", request={"temperature": 0}))
    assert changed[2] == {**plain[2], "request": {"temperature": 0}}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"request": {"messages": []}}, "request has 'messages'"),
        ({"request": {"stream": True}}, "request has 'stream'"),
        ({"headers": {"api-key": "abc"}}, "write an environment variable for 'api-key'"),
        ({"protocol": "smtp"}, "protocol is 'smtp'"),
        ({"guided": "tightly"}, "guided is 'tightly'"),
        ({"shots_as": "songs"}, "shots_as is 'songs'"),
        ({"prices": {"in": 1}}, "prices: write the price"),
        ({"thinking": "<plan>"}, "thinking is '<plan>'"),
        ({"headers": {"api-key": "$NO_SUCH_VARIABLE"}}, "variable NO_SUCH_VARIABLE is not set"),
    ],
)
def test_a_bad_setting_is_one_sentence(
    server: Server, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(LearnerError, match=message):
        endpoint(server, **settings).answer(["one"])


def refused(name: str, message: str) -> tuple[int, dict[str, str], object]:
    error = {"message": message, "type": "invalid_request_error", "param": name}
    return 400, {}, {"error": {**error, "code": "unsupported_parameter"}}


@pytest.mark.parametrize(
    ("settings", "message", "param", "remedy"),
    [
        (
            {},
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
            " 'max_completion_tokens' instead.",
            "max_tokens",
            r"'limit_name: max_completion_tokens'.*'request: \{max_tokens: null\}'",
        ),
        (
            {"request": {"temperature": 0}},
            "Unsupported value: 'temperature' does not support 0 with this model.",
            "temperature",
            r"parameter temperature .*remove it in the setting 'request'",
        ),
        (
            {"request": {"top_k": 5}},
            "Extra inputs are not permitted: top_k",
            None,
            r"parameter top_k .*remove it in the setting 'request'",
        ),
        ({"system": "Hi."}, "System role not supported", None, r"'describe' in place of 'system'"),
        ({}, "Bad request", None, r"check url, model and key, and the parameters"),
    ],
)
def test_a_refused_parameter_is_named_with_the_setting_that_changes_it(
    server: Server, settings: dict[str, Any], message: str, param: Any, remedy: str
) -> None:
    server.answer = lambda request: refused(param, message)
    with pytest.raises(EndpointError, match=remedy):
        endpoint(server, **settings).answer(["one"])
    assert len(server.seen) == 1


# Waits


@pytest.mark.parametrize("wait", ["Fri, 31 Dec 9999 23:59:59 GMT", "86400", "1e300"])
def test_a_wait_out_of_reach_ends_the_run_at_once(server: Server, wait: str) -> None:
    server.answer = lambda request: (429, {"Retry-After": wait}, b"{}")
    begin = time.monotonic()
    with pytest.raises(
        EndpointError, match=r"asks to wait \d+ seconds, more than the 600 .*rerun the command"
    ):
        endpoint(server).answer(["one", "two", "three", "four"])
    assert time.monotonic() - begin < 5
    assert len(server.seen) <= 4


def test_a_wait_is_announced(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    server.answer = lambda request: (
        (429, {"Retry-After": "90"}, b"{}") if not waits else (200, {}, completion("kitchen"))
    )
    fitted = endpoint(server)
    monkeypatch.setattr(fitted.asker._stop, "wait", waits.append)
    assert fitted.answer(["one"]) == ["kitchen"]
    assert 60 <= waits[0] <= 90
    assert (
        "the endpoint asks to wait 90 seconds; trying again in 60 to 90" in capsys.readouterr().err
    )
