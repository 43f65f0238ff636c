"""Fetching resources: from a real server on loopback, interrupted and resumed; archives whole and
damaged.
"""

from __future__ import annotations

import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from taskloom.core import resources
from taskloom.core.errors import DataError, TaskloomError
from taskloom.suites import babi
from taskloom.suites.taskbench.worlds.corpora import WANTED

BODY = bytes(range(256)) * 400


class Handler(BaseHTTPRequestHandler):
    """Serves BODY with ranges; `/short` promises more than it sends."""

    def do_GET(self) -> None:
        if self.path == "/gone":
            self.send_error(404)
            return
        asked = self.headers.get("Range", "")
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        body = BODY[start:]
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:5000] if self.path == "/short" and not asked else body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[str]:
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_download(server: str, tmp_path: Path) -> None:
    resources.download(server + "/file", tmp_path / "x" / "file")
    assert (tmp_path / "x" / "file").read_bytes() == BODY
    assert [p.name for p in (tmp_path / "x").iterdir()] == ["file"]


def test_a_broken_download_goes_on(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="rerun the command to resume"):
        resources.download(server + "/short", tmp_path / "file")
    assert not (tmp_path / "file").exists()
    assert (tmp_path / "file.part").stat().st_size == 5000
    resources.download(server + "/short", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY


def test_what_is_not_there(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="404"):
        resources.download(server + "/gone", tmp_path / "file")
    with pytest.raises(DataError, match="cannot be downloaded"):
        resources.download("http://127.0.0.1:9/none", tmp_path / "file")
    with pytest.raises(TaskloomError, match="did you mean 'nltk'"):
        resources.get("nltkk")


def test_fetching_babi_from_a_server(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The official archive's layout, made here; only the English text files are taken."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for name in ("tasks/en/qa1_train.txt", "tasks/hn/qa1_train.txt", "tasks/en/notes.md"):
            info = tarfile.TarInfo(name)
            info.size = 3
            tar.addfile(info, io.BytesIO(b"1 a"))
    monkeypatch.setattr("tests.core.test_resources.BODY", raw.getvalue())
    monkeypatch.setattr(babi, "URL", server + "/babi.tar.gz")
    monkeypatch.setenv("TASKLOOM_CACHE", str(tmp_path))
    monkeypatch.delenv("TASKLOOM_DATA", raising=False)
    found = resources.get("babi")
    assert [p.name for p in (found / "en").iterdir()] == ["qa1_train.txt"]
    assert resources.get("babi") == found


def test_a_damaged_archive(tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(b"not an archive")
    with pytest.raises(DataError, match="is damaged"):
        babi.unpack(tmp_path / "x.tar.gz", tmp_path / "out")


def test_folders_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tree" / "corpora").mkdir(parents=True)
    monkeypatch.setenv("TASKLOOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TASKLOOM_DATA", raising=False)
    monkeypatch.delenv("NLTK_DATA", raising=False)
    assert resources.resource("nltk").find() is None
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "tree"))
    # A download that broke off in the middle is not the whole tree; a corpus may be a folder or a
    # zip file.
    first, *rest = WANTED
    (tmp_path / "tree" / "corpora" / first).mkdir()
    assert resources.resource("nltk").find() is None
    for corpus in rest:
        (tmp_path / "tree" / "corpora" / f"{corpus}.zip").touch()
    assert resources.resource("nltk").find() == tmp_path / "tree"
