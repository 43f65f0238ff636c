"""Real server processes for tests: started on a free port, killed without warning, started again on
the same project.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.links import Signer
from taskloom.apps.collect.records import Person
from taskloom.apps.collect.web.site import Site


class RunningServer:
    """A server process of a project."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        command = [
            sys.executable,
            "-c",
            "from taskloom.cli import main; main()",
            "collect",
            str(folder),
            "--port",
            str(port),
        ]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        lines: list[str] = []
        while not lines or "your link as owner" not in lines[-1]:
            line = self.process.stdout.readline()
            if not line:
                assert self.process.stderr is not None
                raise AssertionError(
                    f"the server did not start: {lines} {self.process.stderr.read()}"
                )
            lines.append(line.strip())
        self.link = lines[-1].split()[-1]
        self.base = self.link.partition("/enter/")[0]
        self.port = int(urlsplit(self.base).port or 0)
        # Uncollected output would fill the pipe and stop the server.
        for stream in (self.process.stdout, self.process.stderr):
            threading.Thread(target=_drain, args=(stream,), daemon=True).start()

    def kill(self) -> None:
        """Kill the process as a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=10)

    def stop(self) -> None:
        """Stop the process."""
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(timeout=10)

    def memory(self) -> int:
        """Return the resident memory of the process in bytes."""
        fields = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def _drain(stream: Any) -> None:
    with suppress(ValueError):
        for _ in stream:
            pass


class Visitor:
    """Somebody who talks to a server over one connection, as a browser's script does."""

    def __init__(self, c: Collection, person: Person, port: int) -> None:
        signer = Signer(c)
        session = signer.token(person, "session")
        self.cookie = f"{Site(c).cookie}={session}"
        self.form_token = signer.form_token(session)
        self.port = port
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def get(self, address: str) -> tuple[int, str, str]:
        """Return status, body and where a redirection leads."""
        self.connection.request("GET", address, headers={"cookie": self.cookie})
        reply = self.connection.getresponse()
        return reply.status, reply.read().decode(), reply.headers.get("location", "")

    def post(self, address: str, data: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Send a form and return status and reply."""
        headers = {
            "cookie": self.cookie,
            "accept": "application/json",
            "content-type": "application/x-www-form-urlencoded",
        }
        self.connection.request(
            "POST", address, urlencode({"form_token": self.form_token, **data}), headers
        )
        reply = self.connection.getresponse()
        text = reply.read().decode()
        return reply.status, json.loads(text) if text.startswith("{") else {"error": text}
