"""Addresses and headers that a browser may send to the viewer, and datasets that it shows."""

from __future__ import annotations

import asyncio
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from hypothesis import strategies as st

from taskloom.errors import TaskloomError
from taskloom.viewer.application import application
from taskloom.viewer.folders import ViewedFolders
from taskloom.viewer.suite_requests import answer
from tests.fuzz.engine import Refuted, Verdict, target
from tests.fuzz.strategies import as_text, mutated_json, mutated_text
from tests.fuzz.targets_files import _dataset, _manifest
from tests.viewer.hostile import EXAMPLES, SCRIPT, TRAITS, write_dataset

BESIDE = "what lies beside the folders"
HEADERS = {
    "host": ["127.0.0.1:8640", "localhost", "[::1]:1", "evil.example", "", "127.0.0.1.evil.example", "[", "\xff"],
    "sec-fetch-site": ["none", "cross-site", "same-site", "x"],
    "sec-fetch-mode": ["navigate", "cors"],
    "cookie": ["", "taskloom_view_0=x", "=;;=", "\xff"],
    "authorization": ["Bearer ", "Bearer \xff", "Basic x"],
    "range": ["bytes=0-", "bytes=-1", "bytes=9999-0", "bytes=" + "0-1," * 300],
    "if-modified-since": ["x", "Wed, 21 Oct 2015 07:28:00 GMT"],
}
ADDRESSES = [
    "/", "/suite?name=ctl", "/recipe?name=ctl/A", "/static/viewer.css", "/data/DATA", "/data/HOSTILE", "/data/EDITED",
    "/data/DATA/rows?split=train&start=25", "/data/DATA/rows?q=a&trait.length=2", "/data/HOSTILE/rows?trait.kind=<script>",
    "/data/DATA/example?split=iid&index=1", "/data/HOSTILE/example?index=0", "/data/EDITED/rows", "/data/EDITED/example?index=3",
]  # fmt: skip
TOKENS = [
    "%00", "%2e%2e/", "../", "..%2f", "?", "&", "=", "%ff", "%", "//", "\\", "start=", "index=", "trait.", "split=", "name=", "q=",
    "-1", "0x1", "1e9", "999999999999999", "9999999999999999999", SCRIPT, "{{7*7}}", "DATA", "EDITED", "/rows", "/example",
    "suite_requests.py", "/etc/passwd", "secret.txt",
]  # fmt: skip


class Drawer:
    """The process that draws pictures, in this process: it answers by the same function."""

    def request(self, what: str, **values: Any) -> dict[str, Any]:
        reply = answer(json.dumps({"what": what, **values}))
        if "error" in reply:
            raise TaskloomError(str(reply["error"]))
        return reply


@cache
def _viewer(folder: Path) -> tuple[Any, dict[str, str]]:
    """Build a viewer of a dataset, of one as an attacker writes it, and of one whose manifest is edited."""
    viewed = folder / "viewed"
    for name in ("data", "edited"):
        shutil.copytree(_dataset(), viewed / name)
    write_dataset(viewed / "hostile", EXAMPLES, TRAITS)
    (folder / "secret.txt").write_text(BESIDE)
    app = application([viewed])
    app.state.viewer.pictures = app.state.viewer.previews = Drawer()
    return app, {one.path.name.upper(): one.name for one in ViewedFolders([viewed]).every()}


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


requests = st.tuples(
    st.one_of(st.just(""), st.deferred(lambda: mutated_json(_manifest()).map(json.dumps))),
    st.sampled_from(["GET", "GET", "GET", "GET", "HEAD", "POST", "OPTIONS", "BREW"]),
    mutated_text(ADDRESSES, TOKENS),
    st.fixed_dictionaries({"host": st.sampled_from(["127.0.0.1:8640"] * 6 + HEADERS["host"])}).flatmap(
        lambda host: st.dictionaries(st.sampled_from(sorted(HEADERS)[1:]), st.integers(0, 3), max_size=2).map(
            lambda more: {**{name: HEADERS[name][at % len(HEADERS[name])] for name, at in more.items()}, **host}
        )
    ),
)


def _warm() -> None:
    _dataset()
    _loop()
    app = application([])
    _loop().run_until_complete(_ask(app, "GET", "/", {"host": "localhost"}))


async def _ask(app: Any, method: str, address: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    """Send a request as a server hands it over; return status, headers and body of the response."""
    path, _, query = address.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path, errors="replace"),
        "raw_path": path.encode("utf-8", "replace"),
        "root_path": "",
        "query_string": query.encode("utf-8", "replace"),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8640),
    }
    messages: list[Any] = []
    waiting = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not waiting:
            await asyncio.Event().wait()  # the browser stays
        return waiting.pop()

    async def send(message: Any) -> None:
        messages.append(message)

    await app(scope, receive, send)
    sent = {name.decode(): value.decode("latin-1") for name, value in messages[0]["headers"]}
    return messages[0]["status"], sent, b"".join(message.get("body", b"") for message in messages[1:])


@target("pages", requests, weight=8, cost=3, warm=_warm)
def pages(given: tuple[str, str, str, dict[str, str]], folder: Path) -> Verdict:
    """Ask the viewer for a page; none shows markup of the data as markup, nor anything from outside its folders."""
    manifest, method, address, headers = given
    app, names = _viewer(folder)
    place = folder / "viewed" / "edited" / "manifest.json"
    place.write_bytes(as_text(manifest) if manifest else (_dataset() / "manifest.json").read_bytes())
    for name, slug in names.items():
        address = address.replace(name, slug)
    status, sent, body = _loop().run_until_complete(_ask(app, method, address, headers))
    if status >= 500:
        raise Refuted(f"{address!r}: status {status}")
    if SCRIPT.encode() in body or BESIDE.encode() in body:
        raise Refuted(f"{address!r}: the page has markup of the data, or what lies beside the folders")
    if "default-src 'none'" not in sent.get("content-security-policy", ""):
        raise Refuted(f"{address!r}: the page has no policy")
    return "accepted" if status < 400 else "refused"
