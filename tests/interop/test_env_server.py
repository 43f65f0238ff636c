"""A recipe behind HTTP: episodes, bad requests, names of hosts."""

from __future__ import annotations

import json
import socket
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from taskloom.cli import run
from taskloom.core.errors import InputError, ParameterError
from taskloom.interop import env_server
from taskloom.interop.env_server import (
    MOST_BYTES,
    Asker,
    BusyError,
    EnvironmentServer,
    RecipeEnvironment,
)
from taskloom.interop.graded import open_split

SPLIT = open_split("babi/8", n=5)


@pytest.fixture
def server() -> Iterator[EnvironmentServer]:
    with EnvironmentServer(RecipeEnvironment(SPLIT)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(
    server: EnvironmentServer, path: str, body: Any = None, **headers: str
) -> tuple[int, dict[str, Any]]:
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    if data is not None:
        headers.setdefault("Content-Type", "application/json")
    request = urllib.request.Request(server.url + path, data, headers)  # noqa: S310 - our own server
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_an_episode_is_an_example_and_its_score(server: EnvironmentServer) -> None:
    assert ask(server, "/health") == (200, {"status": "healthy"})
    assert ask(server, "/info")[1]["scorer"] == "set"
    for index in [0, 1, 2, 3, 4, 0]:
        _, begun = ask(server, "/reset", {})
        assert begun["observation"]["prompt"] == SPLIT.prompt(SPLIT[index])
        assert not begun["done"]
        _, ended = ask(
            server,
            "/step",
            {"episode": begun["episode"], "action": {"text": f"Answer: {SPLIT[index].target}"}},
        )
        assert (ended["reward"], ended["done"]) == (1.0, True)
    _, third = ask(server, "/reset", {"index": 3})
    _, wrong = ask(server, "/step", {"episode": third["episode"], "action": "I do not know"})
    assert wrong["reward"] == 0
    assert wrong["info"]["targets"] == list(SPLIT[3].targets)


@pytest.mark.parametrize("action", [None, 7, [], {}, {"text": None}, "", "x" * 200_000])
def test_a_hostile_action_gets_no_reward_and_a_reason(
    server: EnvironmentServer, action: Any
) -> None:
    _, begun = ask(server, "/reset", {})
    status, ended = ask(server, "/step", {"episode": begun["episode"], "action": action})
    assert (status, ended["reward"]) == (200, 0.0)
    assert ended["info"]["reason"]


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("/step", {"episode": "x", "action": "y"}, 400, "there is no open episode 'x'"),
        ("/step", {}, 400, "there is no open episode None"),
        ("/reset", {"index": 5}, 400, "index is 5; it must be a whole number from 0 to 4"),
        ("/reset", {"index": "0"}, 400, "index is '0'"),
        ("/reset", b"{", 400, "the request is not JSON"),
        ("/reset", b"[]", 400, "it must be a JSON object"),
        ("/reset", b" " * (MOST_BYTES + 1), 400, "bytes; at most"),
        ("/other", {}, 404, "there is no /other"),
        ("/other", None, 404, "there is no /other"),
    ],
)
def test_a_bad_request_is_refused_with_a_sentence(
    server: EnvironmentServer, path: str, body: Any, status: int, sentence: str
) -> None:
    try:
        answer = ask(server, path, body)
    except urllib.error.URLError:  # what is too long is not read to its end
        assert sentence == "bytes; at most"
        return
    assert answer[0] == status
    assert sentence in answer[1]["error"]


def test_an_episode_ends_once_and_other_hosts_are_refused(server: EnvironmentServer) -> None:
    _, begun = ask(server, "/reset", {})
    assert ask(server, "/step", {"episode": begun["episode"], "action": "x"})[0] == 200
    assert ask(server, "/step", {"episode": begun["episode"], "action": "x"})[0] == 400
    assert ask(server, "/info", Host="evil.example:80")[0] == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Origin": "null"},
    ],
)
def test_a_web_page_of_another_site_gets_no_episode(
    server: EnvironmentServer, headers: dict[str, str]
) -> None:
    status, answer = ask(server, "/reset", {}, **headers)
    assert (status, "another site" in answer["error"]) == (403, True)


def test_forms_and_plain_text_are_refused_since_any_page_can_send_them(
    server: EnvironmentServer,
) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        status, answer = ask(server, "/reset", {}, **{"Content-Type": kind})
        assert (status, "application/json" in answer["error"]) == (400, True)


@pytest.mark.parametrize("length", ["²".encode("latin-1"), b"9" * 5_000, b"-1", b"1e3"])
def test_a_length_that_is_no_number_is_refused(server: EnvironmentServer, length: bytes) -> None:
    host, port = server.socket.getsockname()[:2]
    with socket.create_connection((host, port), timeout=10) as client:
        head = b"POST /reset HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: "
        client.sendall(head + length + b"\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.0 400")


@pytest.mark.parametrize("more", ["Host: evil.example", "Content-Length: 3"])
def test_a_header_that_two_readers_may_read_differently_is_refused(
    server: EnvironmentServer, more: str
) -> None:
    host, port = server.socket.getsockname()[:2]
    with socket.create_connection((host, port), timeout=10) as client:
        head = f"POST /reset HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n{more}\r\n\r\n"
        client.sendall(head.encode() + b"{}")
        assert client.recv(65_536).startswith(b"HTTP/1.0 400 ")


def test_a_client_that_hangs_up_leaves_no_traceback(
    server: EnvironmentServer, capfd: pytest.CaptureFixture[str]
) -> None:
    host, port = server.socket.getsockname()[:2]
    for _ in range(20):
        client = socket.create_connection((host, port), timeout=10)
        # Close with a reset, so that the server fails while it reads or writes.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(b"POST /reset HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
        client.close()
    assert ask(server, "/health")[0] == 200
    assert capfd.readouterr().err == ""


def test_no_client_ends_or_reorders_the_episodes_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(env_server, "MOST_EPISODES", 10)
    environment = RecipeEnvironment(SPLIT)
    me, other = Asker(name="mine"), Asker(name="other")
    mine = environment.reset(client=me)
    flood = [environment.reset(client=other) for _ in range(50)]
    assert environment.reset(client=me)["observation"]["index"] == 1
    with pytest.raises(InputError, match="no open episode"):
        environment.step(mine["episode"], "x", client=other)
    assert environment.step(mine["episode"], SPLIT[0].target, client=me)["reward"] == 1
    with pytest.raises(InputError, match="no open episode"):
        environment.step(flood[0]["episode"], "x", client=other)
    assert environment.step(flood[-1]["episode"], "x", client=other)["done"]


def test_ten_thousand_resets_of_a_stranger_end_and_reorder_nothing() -> None:
    """Neither without a name nor with one, though all ask from one address."""
    now = 0.0
    environment = RecipeEnvironment(SPLIT, clock=lambda: now)
    nameless, named, stranger = Asker("::1"), Asker("::1", "mine"), Asker("::1", "stranger")
    mine = [environment.reset(client=nameless), environment.reset(client=named)]
    refused = 0
    for _ in range(env_server.MOST_EPISODES):
        environment.reset(client=stranger)
        try:
            environment.reset(client=nameless)
        except BusyError:
            refused += 1
    assert refused == 1
    assert environment.reset(client=named)["observation"]["index"] == 1
    for begun, client in zip(mine, (nameless, named), strict=True):
        assert environment.step(begun["episode"], SPLIT[0].target, client=client)["reward"] == 1
    environment.reset(client=nameless)  # there is room for one again
    with pytest.raises(BusyError, match="without a name"):
        environment.reset(client=nameless)
    now = env_server.IDLE_SECONDS
    assert environment.reset(client=nameless)["done"] is False


def test_a_stranger_over_http_does_not_end_an_episode(
    server: EnvironmentServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env_server, "MOST_EPISODES", 5)
    _, begun = ask(server, "/reset", {})
    statuses = [ask(server, "/reset", {})[0] for _ in range(10)]
    assert statuses == [200] * 4 + [503] * 6
    assert ask(server, "/reset", {"client": "named"})[0] == 200
    answer = {"episode": begun["episode"], "action": SPLIT[0].target}
    assert ask(server, "/step", answer)[1]["reward"] == 1


def test_the_episodes_of_all_clients_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env_server, "MOST_OPEN", 3)
    environment = RecipeEnvironment(SPLIT)
    first = Asker(name="first")
    begun = environment.reset(client=first)
    for number in range(2):
        environment.reset(client=Asker(name=f"stranger {number}"))
    with pytest.raises(BusyError, match="3 episodes are open"):
        environment.reset(client=first)
    assert environment.step(begun["episode"], "x", client=first)["done"]
    assert environment.reset(client=first)["observation"]["index"] == 1


def test_a_new_client_waits_until_an_idle_one_can_be_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(env_server, "MOST_CLIENTS", 2)
    now = 0.0
    environment = RecipeEnvironment(SPLIT, clock=lambda: now)
    a, b, c = (Asker(name=name) for name in "abc")
    environment.reset(client=a)
    begun = environment.reset(client=b)
    with pytest.raises(BusyError, match="try again later"):
        environment.reset(client=c)
    now = env_server.IDLE_SECONDS - 1
    assert environment.step(begun["episode"], "x", client=b)["done"]
    now = env_server.IDLE_SECONDS
    environment.reset(client=c)  # forgets a, which was idle, and keeps b
    with pytest.raises(BusyError):
        environment.reset(client=a)


def test_a_port_that_is_taken_is_named(server: EnvironmentServer) -> None:
    with pytest.raises(ParameterError, match="cannot be used"):
        EnvironmentServer(RecipeEnvironment(SPLIT), port=server.server_address[1])


def test_interrupting_the_server_is_the_way_to_end_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: EnvironmentServer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EnvironmentServer, "serve_forever", interrupted)
    assert run(["serve-env", "ctl/A", "-n", "5", "--port", "0"]) == 0
    assert not capsys.readouterr().err


def test_answers_leave_without_waiting_for_acknowledgements(
    server: EnvironmentServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Nagle's algorithm the body of an answer may wait 40 ms behind its head."""
    seen: list[int] = []
    answer = env_server.EnvironmentHandler.do_GET

    def noted(handler: env_server.EnvironmentHandler) -> None:
        seen.append(handler.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        answer(handler)

    monkeypatch.setattr(env_server.EnvironmentHandler, "do_GET", noted)
    urllib.request.urlopen(f"{server.url}/health").close()  # noqa: S310 - our own server
    assert seen
    assert all(seen)


@pytest.fixture
def socket_of(server: EnvironmentServer) -> Iterator[Any]:
    client = pytest.importorskip("websockets.sync.client", reason="needs websockets")
    with client.connect(server.url.replace("http", "ws") + "/ws", proxy=None) as connection:
        yield connection


def say(connection: Any, message: Any) -> dict[str, Any]:
    connection.send(message if isinstance(message, str) else json.dumps(message))
    answer: dict[str, Any] = json.loads(connection.recv(timeout=10))
    return answer


def test_a_session_has_one_episode_at_a_time(server: EnvironmentServer, socket_of: Any) -> None:
    begun = say(socket_of, {"type": "reset", "data": {"seed": 3}})
    assert begun["data"]["observation"]["prompt"] == SPLIT.prompt(SPLIT[3])
    assert say(socket_of, {"type": "state"})["data"]["step_count"] == 0
    right = {"type": "step", "data": {"text": f"Answer: {SPLIT[3].target}"}}
    ended = say(socket_of, right)
    assert (ended["data"]["reward"], ended["data"]["done"]) == (1.0, True)
    assert say(socket_of, {"type": "state"})["data"]["step_count"] == 1
    assert say(socket_of, right)["data"]["code"] == "EXECUTION_ERROR"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{", "INVALID_JSON"),
        ("[" * 100_000, "INVALID_JSON"),
        ("[]", "VALIDATION_ERROR"),
        ({"type": "reset", "data": 7}, "VALIDATION_ERROR"),
        ({"type": ["reset"]}, "UNKNOWN_TYPE"),
        ({"type": "reset", "data": {"index": 5}}, "EXECUTION_ERROR"),
        ({"type": "step", "data": {"text": "x"}}, "EXECUTION_ERROR"),
    ],
)
def test_a_bad_message_is_answered_and_the_session_goes_on(
    socket_of: Any, message: Any, code: str
) -> None:
    answer = say(socket_of, message)
    assert (answer["type"], answer["data"]["code"]) == ("error", code)
    assert say(socket_of, {"type": "reset"})["type"] == "observation"


def test_a_plain_request_for_the_socket_is_answered(server: EnvironmentServer) -> None:
    pytest.importorskip("websockets", reason="needs websockets")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{server.url}/ws", timeout=10)  # noqa: S310 - our own server
    assert refused.value.code == 426
    refused.value.close()


def test_paths_of_openenv_are_answered(server: EnvironmentServer) -> None:
    assert set(ask(server, "/schema")[1]) == {"action", "observation", "state"}
    assert ask(server, "/metadata")[1]["name"] == "babi/8"
    assert ask(server, "/state")[1] == {"episode_id": None, "step_count": 0}


def test_openenv_s_client_connects_resets_and_steps(server: EnvironmentServer) -> None:
    openenv = pytest.importorskip("openenv.core", reason="needs openenv-core: make test-interop")
    client = openenv.GenericEnvClient(base_url=server.url)
    with client.sync() as environment:
        for index in range(len(SPLIT)):
            begun = environment.reset()
            assert begun.observation["prompt"] == SPLIT.prompt(SPLIT[index])
            right = index % 2 == 0
            ended = environment.step({"text": SPLIT[index].target if right else "nowhere"})
            assert (ended.reward, ended.done) == (float(right), True)
