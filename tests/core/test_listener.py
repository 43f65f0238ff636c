"""Where servers listen: one wording for what cannot be used, one rule for names."""

from __future__ import annotations

import asyncio
import socket

import pytest

from taskloom.core.errors import ParameterError
from taskloom.core.listener import address, hostname, is_loopback, listen


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]:8765", "::1"),
        ("lab.example:80", "lab.example"),
        ("", ""),
        ("[", ""),
        ("[::1", ""),
        ("a b", ""),
        ("evil.example/127.0.0.1", ""),
        ("127.0.0.1:x", ""),
        ("127.0.0.1\r\nx: y", ""),
    ],
)
def test_the_name_of_a_host_header(header: str, name: str) -> None:
    assert hostname(header) == name


def test_a_port_that_is_taken_gives_one_sentence() -> None:
    with listen("127.0.0.1", [0]) as first:
        taken = first.getsockname()[1]
        with pytest.raises(
            ParameterError,
            match=rf"^port {taken} on 127\.0\.0\.1 cannot be used \(.*in use\); choose",
        ):
            listen("127.0.0.1", [taken])
        with listen("127.0.0.1", [taken, 0]) as other:
            assert other.getsockname()[1] != taken
    with pytest.raises(ParameterError, match=r"below 65,536"):
        listen("127.0.0.1", [70_000])
    with pytest.raises(ParameterError, match=r"cannot be used"):
        listen("no.such.host.invalid", [0])


def test_the_address_that_is_shown_can_be_opened() -> None:
    with listen("127.0.0.1", [0]) as listener:
        port = listener.getsockname()[1]
        assert address("127.0.0.1", listener) == f"http://127.0.0.1:{port}"
        assert address("::1", listener) == f"http://[::1]:{port}"
        assert address("0.0.0.0", listener) == f"http://{socket.gethostname()}:{port}"  # noqa: S104 - not listened on
    assert is_loopback("[::1]")
    assert not is_loopback("0.0.0.0")  # noqa: S104


def test_kept_connections_answer_without_waiting_for_acknowledgements() -> None:
    """asyncio sets TCP_NODELAY on accepted sockets only if the listening socket was opened for TCP
    by its number.
    """
    assert asyncio.run(_nodelay_of_answers(2)) == [1, 1]


async def _nodelay_of_answers(requests: int) -> list[int]:
    """TCP_NODELAY of the accepted socket while it answers each of some requests on one
    connection.
    """
    seen: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            accepted = writer.get_extra_info("socket")
            seen.append(int(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0))
            writer.write(b"answer\n")
            await writer.drain()
        writer.close()

    listener = listen("127.0.0.1", [0])
    async with await asyncio.start_server(answer, sock=listener):
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        for _ in range(requests):
            writer.write(b"question\n")
            assert await reader.readline() == b"answer\n"
        writer.close()
        await writer.wait_closed()
    return seen
