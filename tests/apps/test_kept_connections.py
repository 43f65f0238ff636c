"""Answers on a kept connection leave at once: TCP_NODELAY is on in both web applications."""

from __future__ import annotations

import http.client
import queue
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from taskloom.apps.collect.web import serve as collect
from taskloom.apps.view.server import serve as view
from tests.apps.collect.projects import write_project

uvicorn = pytest.importorskip("uvicorn")


def view_folder(folder: Path, ready: Callable[[str], None]) -> None:
    view([folder], port=0, ready=ready)


def collect_project(folder: Path, ready: Callable[[str], None]) -> None:
    write_project(folder)
    collect(folder, port=0, report=lambda line: ready(line.split()[-1]) if "link" in line else None)


@pytest.mark.parametrize("serve", [view_folder, collect_project])
def test_a_page_leaves_without_waiting_for_acknowledgements(
    serve: Callable[[Path, Callable[[str], None]], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With Nagle's algorithm the body of each answer waits about 40 ms behind its head.

    asyncio's own event loop, because uvloop, which need not be installed, always turns it off.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    seen: list[int] = []
    servers: list[Any] = []
    complete = H11Protocol.on_response_complete

    def noted(protocol: Any) -> None:
        accepted = protocol.transport.get_extra_info("socket")
        seen.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        complete(protocol)

    class Server(uvicorn.Server):  # type: ignore[misc, name-defined]
        def __init__(self, config: Any) -> None:
            config.loop, config.http = "asyncio", "h11"
            super().__init__(config)
            servers.append(self)

    monkeypatch.setattr(H11Protocol, "on_response_complete", noted)
    monkeypatch.setattr(uvicorn, "Server", Server)
    addresses: queue.Queue[str] = queue.Queue()
    thread = threading.Thread(target=serve, args=(tmp_path, addresses.put), daemon=True)
    thread.start()
    parts = urlsplit(addresses.get(timeout=60))
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    for _ in range(2):
        connection.request("GET", "/")
        connection.getresponse().read()
        kept = connection.sock
    assert kept is not None
    connection.close()
    servers[0].should_exit = True
    thread.join(timeout=60)
    assert len(seen) == 2
    assert all(seen)
