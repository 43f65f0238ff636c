"""Endpoints: against a server that limits, fails, hangs, truncates and garbles, the right answers
within the budget.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from taskloom.core.http import AnswerCache, TryLater
from taskloom.learners import LearnerError, load
from taskloom.learners.config import read
from taskloom.learners.models.client import (
    MOST_FAILED_IN_ROW,
    BudgetSpent,
    EndpointError,
    Gate,
    Limits,
    ModelClient,
)
from taskloom.learners.pretrained.in_context import Prompt

BARE = {"answer_format": "", "join": " |", "extract": "line", "longest_answer": 32}
"""Settings under which a prompt is the input alone and the answer a reply's first line."""


class Faulty(ThreadingHTTPServer):
    """Answers with the last word of the question, upper-cased; faults come from `plan`, then
    none.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.plan: list[str] = []
        self.paths: list[str] = []
        self.callers: set[int] = set()
        self.at_most = 1000
        self.seen = 0
        self.active = 0
        self.most_active = 0
        self.refused = 0
        self.ended = threading.Event()
        self.lock = threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is what these tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Faulty

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        server = self.server
        server.paths.append(self.path)
        server.callers.add(self.client_address[1])
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.seen += 1
            server.active += 1
            server.most_active = max(server.most_active, server.active)
            fault = server.plan.pop(0) if server.plan else ""
            if server.active > server.at_most:
                server.refused += 1
                fault = "429"
        try:
            time.sleep(0.01)
            self.reply(fault, body)
        finally:
            with server.lock:
                server.active -= 1

    def reply(self, fault: str, body: dict[str, Any]) -> None:
        if "poison" in body["messages"][-1]["content"]:
            fault = "500"
        word = body["messages"][-1]["content"].removesuffix(" |").split()[-1].upper()
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        message = {"role": "assistant", "content": f"{word}.\nnext line"}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        answer = {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": choices,
            "usage": usage,
        }
        raw = json.dumps(answer, ensure_ascii=False).encode()
        if fault.isdigit():
            return self.send(int(fault), b'{"error": {"message": "no"}}')
        if fault == "hang":
            self.server.ended.wait()
        if fault == "truncated":
            return self.send(200, raw[: len(raw) // 2])
        if fault == "cut":
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw[:20])
            self.close_connection = True
            return None
        if fault == "charset":
            return self.send(
                200, json.dumps({**answer, "model": "é"}, ensure_ascii=False).encode("latin-1")
            )
        if fault == "shape":
            return self.send(200, b'{"choices": []}')
        if fault == "long":
            message["content"] = "A" * 2**23
            return self.send(200, json.dumps(answer).encode())
        if fault == "null":
            return self.send(200, b'{"choices": [{"message": {"content": null}}], "usage": null}')
        if fault == "list":
            return self.send(200, b"[1]")
        if fault == "drip":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            while not self.server.ended.wait(0.05):  # until the client hangs up
                self.wfile.write(b" ")
            return None
        if fault == "owing":
            return self.send(
                200, json.dumps({**answer, "usage": {"total_tokens": -(10**6)}}).encode()
            )
        if fault == "page":
            return self.send(200, b"<html>maintenance</html>", "text/html")
        return self.send(200, raw)

    def send(self, status: int, raw: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


@pytest.fixture
def server() -> Iterator[Faulty]:
    found = Faulty()
    thread = threading.Thread(
        target=found.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    yield found
    found.ended.set()
    found.shutdown()
    found.server_close()
    thread.join()


def endpoint(server: Faulty, **more: Any) -> Any:
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    # A busy machine may take a second for a good reply, which must not count as one that hangs.
    quick = {**BARE, "url": url, "model": "m", "pause": 0.01, "timeout": 30, **more}
    return read({"learner": "endpoint", **quick}).fit([("one", "ONE"), ("two", "TWO")])


FAULTS = [
    "429",
    "500",
    "hang",
    "truncated",
    "cut",
    "charset",
    "shape",
    "page",
    "long",
    "null",
    "list",
    "drip",
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_survived(server: Faulty, fault: str) -> None:
    server.plan = [fault, "", fault]
    timeout = 2 if fault in ("hang", "drip") else 30
    fitted = endpoint(server, at_once=2, timeout=timeout)
    assert fitted.answer(["alpha", "beta", "gamma"]) == ["ALPHA", "BETA", "GAMMA"]
    assert server.seen == 5
    assert fitted.asker.spent.requests == 5


def test_all_faults_together(server: Faulty) -> None:
    server.plan = ["429", "500", "hang", "truncated", "cut", "charset", "shape", "page"] * 2
    words = [f"word{i}" for i in range(20)]
    fitted = endpoint(server, at_once=4, attempts=12, timeout=2)
    assert fitted.answer(words) == [w.upper() for w in words]


def test_concurrency_adapts_to_what_the_endpoint_bears(server: Faulty) -> None:
    server.at_most = 3
    words = [f"word{i}" for i in range(40)]
    fitted = endpoint(server, at_once=16, attempts=20)
    assert fitted.answer(words) == [w.upper() for w in words]
    assert server.most_active <= 16
    # Halving and growing by one swings about the limit: most requests get through, where sixteen at
    # once would not.
    assert server.refused < len(words)


def test_the_gate_halves_and_grows_by_one() -> None:
    gate = Gate(16)
    assert gate.limit == 4
    for left in (2, 1, 1):
        gate.too_much()
        assert gate.limit == left
    gate.went_well()
    assert gate.limit == 2
    with gate:  # a second place is taken while another request succeeds
        gate.went_well()
        assert gate.limit == 2
        gate.went_well()
        assert gate.limit == 3
    for _ in range(9):  # idle places prove nothing
        gate.went_well()
    assert gate.limit == 3


def test_concurrency_grows_where_it_may(server: Faulty) -> None:
    fitted = endpoint(server, at_once=8)
    fitted.answer([f"word{i}" for i in range(60)])
    assert fitted.asker.gate.limit == 8
    assert server.most_active <= 8


def test_answers_are_asked_once(server: Faulty, tmp_path: Path) -> None:
    cache = str(tmp_path / "answers.sqlite")
    fitted = endpoint(server, cache=cache)
    assert fitted.answer(["a", "b", "a"]) == ["A", "B", "A"]
    assert server.seen == 2
    again = endpoint(server, cache=cache)
    assert again.answer(["b", "a", "c"]) == ["B", "A", "C"]
    assert server.seen == 3
    assert again.asker.spent.cached == 2
    other = endpoint(server, cache=cache, model="n")
    other.answer(["a"])
    assert server.seen == 4  # another model is another question
    here = ModelClient("http://localhost:1/v1", "m", "", Limits())
    there = ModelClient("http://localhost:2/v1", "m", "", Limits())
    assert here._digest("a", 5) != there._digest("a", 5)  # and so is a model of that name elsewhere
    (tmp_path / "broken").write_bytes(
        b"no database at all, but long enough to be taken for one" * 40
    )
    with pytest.raises(EndpointError, match="cannot be used"):
        AnswerCache(tmp_path / "broken", EndpointError)


def test_connections_stay_open_and_a_closed_one_is_opened_again(server: Faulty) -> None:
    client = endpoint(server, at_once=1).asker
    for _ in range(3):
        assert client._request("a word", 5)[0].text
    assert len(server.callers) == 1
    server.plan = ["cut"]
    with pytest.raises(TryLater, match=r"sent 20 of \d+ bytes"):
        client._request("a word", 5)
    assert client._request("a word", 5)[0].text
    assert len(server.callers) == 2


def test_a_server_that_moved_is_not_followed(server: Faulty) -> None:
    server.plan = ["301"]
    with pytest.raises(EndpointError, match=r"the endpoint has moved .*status 301.*check url"):
        endpoint(server).answer(["one"])


def test_requests_go_through_the_proxy_of_the_environment(
    server: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://me:pass@127.0.0.1:{server.server_address[1]}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    here = {"url": "http://far.example/v1", "model": "m", "timeout": 5}
    block = {"learner": "endpoint", **BARE, **here}
    assert read(block).fit([("one", "ONE")]).answer(["alpha"]) == ["ALPHA"]
    assert server.paths == ["http://far.example/v1/chat/completions"]


def test_the_budget_of_requests_is_hard(server: Faulty, tmp_path: Path) -> None:
    server.plan = ["500"] * 3
    cache = str(tmp_path / "answers.sqlite")
    words = [f"word{i}" for i in range(30)]
    with pytest.raises(BudgetSpent, match=r"10 requests is used up.*in the cache"):
        endpoint(server, requests=10, cache=cache, at_once=8).answer(words)
    assert server.seen <= 10
    assert endpoint(server, cache=cache).answer(words) == [w.upper() for w in words]
    assert server.seen <= 10 + 30 - 5


def test_the_budget_of_tokens_is_hard(server: Faulty) -> None:
    fitted = endpoint(server, tokens=500, at_once=4)
    with pytest.raises(BudgetSpent, match="500 tokens"):
        fitted.answer([f"word{i}" for i in range(100)])
    assert 12 * server.seen <= 500
    assert fitted.asker.spent.tokens <= 500
    assert server.seen > 20  # reservations are given back


def test_a_reply_cannot_give_tokens_back(server: Faulty) -> None:
    server.plan = ["owing"]
    fitted = endpoint(server, tokens=120, at_once=1)
    with pytest.raises(
        BudgetSpent, match=r"120 tokens is used up \(\d+ spent, and the next request may take \d+\)"
    ):
        fitted.answer(
            ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
        )
    assert 0 < fitted.asker.spent.tokens <= 120


@pytest.mark.parametrize("status", ["402", "413", "422"])
def test_other_refusals_are_not_repeated_either(server: Faulty, status: str) -> None:
    server.plan = [status] * 3
    with pytest.raises(
        EndpointError, match=f"the endpoint refuses .*{status}.*check url, model and key"
    ):
        endpoint(server).answer(["one"])
    assert server.seen == 1


def test_keys_are_checked_and_never_shown(server: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", " secret-1\n")  # as out of a file
    assert endpoint(server, key_variable="A_KEY").answer(["one"]) == ["ONE"]
    for key in ("sec\nret", "s\u00e9cret"):
        monkeypatch.setenv("A_KEY", key)
        with pytest.raises(EndpointError, match="the key has a character") as caught:
            endpoint(server, key_variable="A_KEY").answer(["one"])
        assert key not in str(caught.value)


def test_why_there_is_no_connection_is_said() -> None:
    block = {
        "learner": "endpoint",
        "url": "http://127.0.0.1:9/v1",
        "model": "m",
        "pause": 0.01,
        "attempts": 1,
    }
    with pytest.raises(EndpointError, match=r"the last time it cannot be reached \(.*refused"):
        read(block).fit([("one", "ONE")]).answer(["one"])
    for url in (
        "http://exa mple/v1",
        "http://",
        "http://host:99999/v1",
        "ftp://host/v1",
        "host/v1",
        "",
    ):
        with pytest.raises(LearnerError, match="it must begin with http:// or https:// and a host"):
            read({**block, "url": url})


def test_a_cache_of_something_else(server: Faulty, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other") as base:
        base.execute("create table answers (x int)")
    with pytest.raises(
        EndpointError,
        match=r"the cache of answers .* cannot be used \(no such column.*name another",
    ):
        endpoint(server, cache=str(tmp_path / "other")).answer(["one"])


def test_refusals_are_not_repeated(server: Faulty) -> None:
    server.plan = ["401"] * 50
    with pytest.raises(EndpointError, match=r"refuses.*check url, model and key"):
        endpoint(server, at_once=2).answer([f"w{i}" for i in range(20)])
    assert server.seen <= 3


def test_patience_ends(server: Faulty) -> None:
    server.plan = ["500"] * 9
    with pytest.raises(EndpointError, match=r"in 3 attempts.*0 of 1"):
        endpoint(server, attempts=3).answer(["x"])
    assert server.seen == 3


def test_nobody_there() -> None:
    block = {
        "learner": "endpoint",
        "url": "http://127.0.0.1:9/v1",
        "model": "m",
        "attempts": 2,
        "pause": 0.01,
    }
    fitted = read(block).fit([("a", "b")])
    with pytest.raises(EndpointError, match="in 2 attempts; the last time it cannot be reached"):
        fitted.answer(["x"])


def test_a_server_that_is_down_is_not_asked_every_question() -> None:
    client = ModelClient("http://127.0.0.1:9/v1", "m", "", Limits(attempts=2, pause=0.01))
    notes: list[str] = []
    with pytest.raises(EndpointError, match=r"cannot be reached .* \(0 of 300 open"):
        client.ask([f"w{i}" for i in range(300)], 8, note=notes.append)
    assert client.spent.requests <= 2 * 2 * client.limits.at_once
    assert len(notes) == 1
    assert "cannot be reached" in notes[0]


def test_a_server_that_always_fails_is_not_asked_every_question(server: Faulty) -> None:
    server.plan = ["500"] * 1000
    with pytest.raises(EndpointError, match=r"in 2 attempts.*\(0 of 300 open"):
        endpoint(server, attempts=2, at_once=4, pause=0.001).answer([f"w{i}" for i in range(300)])
    assert server.seen <= 2 * (MOST_FAILED_IN_ROW + 4)


def test_single_questions_that_fail_do_not_end_the_others(server: Faulty) -> None:
    """One that a server fails at again and again costs only itself."""
    server.plan = ["500", "500", "", "500", "500"]
    fitted = endpoint(server, attempts=2, at_once=1, pause=0.001)
    with pytest.raises(EndpointError, match=r"\(18 of 20 open"):
        fitted.answer([f"w{i}" for i in range(20)])


@pytest.mark.parametrize("at_once", [1, 4])
def test_many_bad_questions_in_a_row_do_not_end_the_others(
    server: Faulty, tmp_path: Path, at_once: int
) -> None:
    """Nor do they in a rerun, in which the good ones before them are in the cache."""
    bad = [f"poison{i}" for i in range(2 * MOST_FAILED_IN_ROW + 1)]
    more = {"attempts": 2, "at_once": at_once, "pause": 0.001, "cache": str(tmp_path / "kept")}
    with pytest.raises(EndpointError, match=rf"\(12 of {len(bad) + 12} open"):
        endpoint(server, **more).answer(["a", "b", *bad, *(f"w{i}" for i in range(10))])
    with pytest.raises(EndpointError, match=rf"\(5 of {len(bad) + 5} open"):
        endpoint(server, **more).answer(["a", *bad, *(f"v{i}" for i in range(5))])


def test_a_server_that_fails_later_on_is_not_asked_every_question(server: Faulty) -> None:
    server.plan = [""] * 5 + ["500"] * 1000
    with pytest.raises(EndpointError, match=r"\(5 of 300 open"):
        endpoint(server, attempts=2, at_once=1, pause=0.001).answer([f"w{i}" for i in range(300)])
    assert server.seen <= 5 + 2 * (MOST_FAILED_IN_ROW + 2)


def test_saved_and_loaded_without_its_key(
    server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "very-secret")
    fitted = endpoint(server, key_variable="MY_KEY", shots=2, describe="Shout.")
    fitted.save(tmp_path)
    assert "very-secret" not in (tmp_path / "learner.json").read_text()
    assert load(tmp_path).answer(["hey"]) == ["HEY"]
    with pytest.raises(LearnerError, match="probability"):
        fitted.logprob(["x"], [["y"]])
    with pytest.raises(LearnerError, match="say which model"):
        endpoint(server, model="")


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("cold", "cold"),
        (" cold.\nhot | warm", "cold"),
        ("\n\nThe answer is 'cold'.", "cold"),
        ("Answer: cold", "cold"),
        ("hot | cold", "hot"),
        ("| cold", "cold"),
        ("**cold**", "cold"),
        ("<think>\nThe answer is hot.\n</think>\n\ncold", "cold"),
        ("<think>The answer is cold", ""),
        ("", ""),
    ],
)
def test_answers_are_cut_out(said: str, answer: str) -> None:
    assert Prompt().extract(said) == answer


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("The football is in the Living Room, I think.", "living room"),
        ("room", "room"),
        ("It is not in the bedroom but in the living room", "living room"),
        ("kitchen", "kitchen"),  # none of those that are known: as it was said
        ("Answer: Room", "room"),
    ],
)
def test_answers_are_cut_out_by_those_that_there_are(said: str, answer: str) -> None:
    assert Prompt(answers=("living room", "living", "room")).extract(said) == answer


def test_an_answer_is_extracted_as_the_settings_say_and_the_card_keeps_it(
    server: Faulty, tmp_path: Path
) -> None:
    fitted = endpoint(server, extract="tag:answer")
    assert fitted.prompt.extract("It seems to be THREE.\n<answer>ONE</answer>") == "ONE"
    assert fitted.prompt.extract("ONE") == ""
    fitted.save(tmp_path)
    again: Any = load(tmp_path)
    assert again.prompt == fitted.prompt
    assert again.prompt.how == "tag:answer"


def test_known_answers_come_from_training_and_are_saved(server: Faulty, tmp_path: Path) -> None:
    fitted = endpoint(server, extract="known", join=" is")
    assert fitted.prompt.answers == ("ONE", "TWO")
    fitted.save(tmp_path)
    again: Any = load(tmp_path)
    assert again.prompt == fitted.prompt
    with pytest.raises(
        LearnerError, match="extract is 'first'; known: boxed, final, json, known, last-line"
    ):
        endpoint(server, extract="first")


def test_prompts_show_everything_in_order() -> None:
    prompt = Prompt("Say the opposite.", (("hot", "cold"), ("up", "down")), " ->")
    assert prompt.fill("big") == "Say the opposite.\n\nhot -> cold\nup -> down\nbig ->"
