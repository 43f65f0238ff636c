"""Pace, waits and the cache of answers; what servers do wrong is tested with real ones in the facts
and the endpoint learner.
"""

from __future__ import annotations

import html
import json
import os
import sqlite3
import threading
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.core.errors import DataError, InputError
from taskloom.core.http import (
    AnswerCache,
    Backoff,
    HttpClient,
    Pace,
    Refused,
    Secrets,
    TryLater,
    check_url,
    retried,
    retry_after,
)
from tests.processes import printed_elsewhere


@given(st.integers(1, 12), st.floats(0, 100), st.floats(0.01, 10))
def test_waits_grow_and_never_undercut_the_server(tries: int, asked: float, first: float) -> None:
    longest = 60.0
    pause = Backoff(first, longest).pause(tries, asked)
    if asked > longest:
        assert pause is None
    else:
        assert pause is not None
        base = max(asked, min(first * 2 ** (tries - 1), longest))
        assert base <= pause <= 1.5 * base


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7", 7), ("0.5", 0.5), ("", 0), ("soon", 0), ("-3", 0), ("inf", 0), ("nan", 0)],
)
def test_the_wait_that_a_server_asks_for(text: str, seconds: float) -> None:
    assert retry_after({"Retry-After": text}) == seconds
    assert retry_after({"retry-after": text}) == seconds


def test_the_wait_may_be_a_date() -> None:
    assert 25 < retry_after({"Retry-After": formatdate(time.time() + 30, usegmt=True)}) <= 30
    assert retry_after({"Retry-After": formatdate(time.time() - 30, usegmt=True)}) == 0


def test_threads_share_one_pace() -> None:
    pace = Pace(100)
    started = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: pace.wait(), range(21)))
    assert time.monotonic() - started >= 0.2


def test_answers_survive_their_process_and_their_threads(tmp_path: Path) -> None:
    path = tmp_path / "new" / "answers.sqlite"
    cache = AnswerCache(path, DataError)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: cache.put(str(i), b"\xff%d" % i), range(50)))
    again = AnswerCache(path, DataError)
    assert [again.get(str(i)) for i in range(50)] == [b"\xff%d" % i for i in range(50)]
    assert again.get("50") is None
    again.put("0", b"other")
    assert cache.get("0") == b"other"


def test_what_is_no_cache_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("something else" * 100)
    with pytest.raises(
        DataError, match=r"the cache of answers .*x cannot be used .*delete it, or name another"
    ):
        AnswerCache(tmp_path / "x", DataError)


@pytest.mark.parametrize(
    "url", ["", "host", "ftp://h/x", "http://", "http://h:0/", "http://a b/", "http://h:x/"]
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(InputError, match="write 'https://host/sparql'"):
        check_url(url, "https://host/sparql")
    with pytest.raises(InputError, match="must not contain a password"):
        check_url("https://me:secret@host/", "x")


def test_an_address_never_opens_a_file_of_this_machine(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    for url in (secret.as_uri(), "ftp://localhost/secret", "data:text/plain,secret"):
        with pytest.raises(Refused, match="not an http or https address"):
            HttpClient(timeout=1).post(url, b"")


@pytest.fixture
def server() -> Iterator[str]:
    """Address of a server that replies with the status in the path and the key in the header."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            text = json.dumps(
                {"error": {"message": f"not with {self.headers['Authorization']}"}}
            ).encode()
            self.send_response(int(self.path[1:]))
            self.send_header("Retry-After", "2")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(
        target=listening.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    yield f"http://127.0.0.1:{listening.server_address[1]}"
    listening.shutdown()
    listening.server_close()
    thread.join()


def test_a_failure_names_its_status_and_reason_and_hides_the_key(server: str) -> None:
    client = HttpClient(
        5, headers={"Authorization": "Bearer top-secret"}, secrets=Secrets("top-secret")
    )
    assert client.post(f"{server}/200", b"x").status == 200
    with pytest.raises(Refused, match=r"status 401 \(Unauthorized: not with Bearer …\)"):
        client.post(f"{server}/401", b"x")
    with pytest.raises(TryLater, match=r"status 503 .*asks to wait 2 seconds") as caught:
        client.post(f"{server}/503", b"x")
    assert (caught.value.wait, caught.value.status) == (2, 503)
    assert "top-secret" not in str(caught.value)


def test_a_forked_process_opens_connections_of_its_own(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = HttpClient(5)
    client.post(f"{server}/200", b"x")
    ours = client._client()
    assert client._client() is ours
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert client._client() is not ours


def test_a_request_is_repeated_until_patience_ends() -> None:
    waits: list[float] = []
    failures = [TryLater("is busy"), TryLater("is busy", wait=3)]

    def request() -> str:
        if failures:
            raise failures.pop(0)
        return "answer"

    assert retried(request, 3, Backoff(1), sleep=waits.append) == "answer"
    assert 1 <= waits[0] <= 1.5
    assert waits[1] >= 3
    failures += [TryLater("is overloaded", overloaded=True) for _ in range(5)]
    with pytest.raises(TryLater) as caught:
        retried(request, 5, Backoff(1), overloaded_tries=2, sleep=waits.append)
    assert caught.value.tries == 2


def test_generating_data_does_not_import_httpx() -> None:
    code = (
        "import sys, taskloom as tl\n"
        "tl.make('babi/1', changes={'splits': {'train': {'n': 5}}})['train'][0]\n"
        "print('httpx' in sys.modules)"
    )
    assert printed_elsewhere(code).strip() == "False"


def test_answers_that_are_put_soon_are_on_disk_after_a_flush(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "answers", DataError)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: cache.put_soon(f"q{i}", str(i).encode()), range(200)))
    cache.flush()
    other = AnswerCache(tmp_path / "answers", DataError)
    assert [other.get(f"q{i}") for i in range(200)] == [str(i).encode() for i in range(200)]


def test_a_disk_that_fails_is_reported_with_the_next_answer_and_none_is_lost(
    tmp_path: Path,
) -> None:
    cache = AnswerCache(tmp_path / "answers", DataError)
    works, cache._base = (
        cache._base,
        sqlite3.connect(":memory:", check_same_thread=False),
    )  # it has no table
    cache.put_soon("a", b"1")
    assert cache._writer is not None
    cache._writer.join()
    with pytest.raises(DataError, match="cannot be used"):
        cache.put_soon("b", b"2")
    cache._base = works
    cache.flush()
    assert cache.get("a") == b"1"


KEY = "sk-proj-4f9a+8b7c/6d5e\"4f3a'2b1c&0d9e<8f7a"


def pieces(text: str, size: int = 8) -> set[str]:
    return {text[i : i + size] for i in range(len(text) - size + 1)}


def entities(text: str, form: str) -> str:
    return "".join(form.format(ord(letter)) for letter in text)


ECHOES = {
    "as it is": KEY,
    "upper case": KEY.upper(),
    "in part": f"{KEY[:15]}***",
    "percent-encoded": quote(KEY, safe=""),
    "percent-encoded twice": quote(quote(KEY, safe=""), safe=""),
    "percent-encoded whole": entities(KEY, "%{:02x}"),
    "JSON": json.dumps(KEY),
    "JSON, all escaped": entities(KEY, "\\u{:04X}"),
    "JSON in JSON": json.dumps(json.dumps(KEY)),
    "Python": entities(KEY, "\\x{:02x}"),
    "HTML": html.escape(KEY),
    "HTML, decimal": entities(KEY, "&#{};"),
    "HTML, hex": entities(KEY, "&#x{:X};"),
    "mixed": KEY[:6] + quote(KEY[6:12], safe="") + entities(KEY[12:], "&#{};"),
    "hex": KEY.encode().hex(),
    "base64": b64encode(KEY.encode()).decode(),
    "base64 with a name": b64encode(f"me:{KEY}".encode()).decode(),
    "base64 of the header": b64encode(f"Bearer {KEY}".encode()).decode(),
    "base64 for addresses": urlsafe_b64encode(f"x{KEY}x".encode()).decode(),
}


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
def test_no_piece_of_a_key_is_shown_in_any_encoding(echo: str) -> None:
    hidden = Secrets(KEY).hide(f"wrong key: {echo} (see the page)")
    assert hidden.startswith("wrong key: ")
    assert hidden.endswith(" (see the page)")
    undone = html.unescape(unquote(unquote(hidden))).lower()
    assert not pieces(KEY.lower()) & pieces(undone)
    # Short pieces of an encoding may stay, such as the ends of base64 that belong to other bytes.
    assert not pieces(echo, 16) & pieces(hidden, 16)


def test_texts_without_a_key_stay_as_they_are() -> None:
    text = "50% off: caf\u00e9 &amp; İ, \\u0041 %41 …"
    assert Secrets(KEY).hide(text) == text
    assert Secrets("EMPTY").hide("the box is EMPTY") == "the box is EMPTY"
    assert Secrets("EMPTY").hide_in_message("no such key: EMPTY") == "no such key: …"
    assert Secrets("").hide_in_message("none") == "none"


def test_hiding_takes_little_time_for_a_long_reply() -> None:
    begin = time.process_time()
    Secrets(KEY).hide("%41&#65;a" * 50_000)
    assert time.process_time() - begin < 5
