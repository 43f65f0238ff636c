"""The command: where it listens, what it prints, how it ends, and what it says where it cannot
start.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from taskloom.apps.view import server
from taskloom.apps.view.server import listen, serve
from taskloom.cli.app import run
from taskloom.core.errors import ParameterError


@pytest.mark.slow  # three processes: four seconds
def test_the_viewer_serves_until_it_is_interrupted(folder: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from taskloom.cli import main; main()",
        "view",
        str(folder),
        "--port",
        "0",
        "--json",
    ]
    pipes: Any = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "start_new_session": True,
    }
    with subprocess.Popen(command, **pipes) as process:
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["address"]
            assert address.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(address, timeout=30) as answer:  # noqa: S310 - our own address
                assert b"ctl/A-independent" in answer.read()
            preview = f"{address}recipe/preview?suite=ctl&f.variant=A&f.splits=%7Btrain:%20%7Bn:%20600%7D%7D&f.max_length=3"
            with urllib.request.urlopen(preview, timeout=60) as answer:  # noqa: S310 - by a helper, which waits for more
                assert b"A valid recipe" in answer.read()
            os.killpg(
                process.pid, signal.SIGINT
            )  # as a terminal does: to all processes that it started
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert "Traceback" not in errors
    assert process.returncode == 0


def test_the_next_free_port_is_taken_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        monkeypatch.setattr(server, "PORT", taken)
        with listen("127.0.0.1", None) as free:
            assert taken < free.getsockname()[1] < taken + server.TRIED
        with pytest.raises(ParameterError, match="cannot be used"):
            listen("127.0.0.1", taken)


EVERYWHERE = "0.0.0.0"  # noqa: S104 - never listened on


@pytest.mark.parametrize(
    ("host", "token", "wanted"),
    [("127.0.0.1", False, False), ("127.0.0.1", True, True), (EVERYWHERE, False, True)],
)
def test_a_token_is_part_of_every_address_but_that_of_the_loopback_interface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, token: bool, wanted: bool
) -> None:
    import uvicorn

    monkeypatch.setattr(server, "listen", lambda host, port: listen("127.0.0.1", 0))
    monkeypatch.setattr(server, "warm_up", lambda state: None)
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    addresses: list[str] = []
    serve([tmp_path], host, 0, token, addresses.append)
    assert ("?token=" in addresses[0]) is wanted


def test_what_is_missing_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["view", str(tmp_path / "none"), "--list"]) == 2
    message = capsys.readouterr().err
    assert f"there is no file or folder {tmp_path / 'none'}" in message
    assert "--folder" not in message  # folders are arguments, not an option
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    monkeypatch.delitem(sys.modules, "taskloom.apps.view.server")
    assert run(["view", str(tmp_path)]) == 2
    assert "pip install 'taskloom[viewer]'" in capsys.readouterr().err
