"""Addresses and headers that a browser may send to the viewer, and datasets that it shows."""

from __future__ import annotations

import asyncio
import json
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from urllib.parse import unquote

from hypothesis import strategies as st

from taskloom.apps.view.folders import ViewedFolders
from taskloom.apps.view.server import application
from taskloom.apps.view.suite_process import answer
from taskloom.core.errors import TaskloomError
from tests.apps.view.hostile import EXAMPLES, SCRIPT, TRAITS, write_dataset
from tests.fuzz.engine import Refuted, Verdict, target
from tests.fuzz.strategies import as_text, mutated_json, mutated_text
from tests.fuzz.targets_files import _dataset, _manifest, _run_files, _runs, damaged_runs

BESIDE = "what lies beside the folders"
HEADERS = {
    "host": [
        "127.0.0.1:8640",
        "localhost",
        "[::1]:1",
        "evil.example",
        "",
        "127.0.0.1.evil.example",
        "[",
        "\xff",
    ],
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
    "/data/EDITED/audit", "/recipe/new?suite=ctl&from=ctl/A", "/recipe/new?suite=babi&sent=1&f.number=17&seed=3",
    "/recipe/preview?suite=ctl&f.symbols=4&f.variant=A", "/runs/RUNS", "/runs/RUNS?q=majority&start=50", "/runs/RUNS/live",
    "/runs/RUNS/run?run=FIRST", "/runs/RUNS/predictions?run=FIRST&show=wrong&by=length&q=a", "/runs/RUNS/compare?a=FIRST&b=LAST",
    "/runs/RUNS/compare?show=both&split=iid", "/runs/RUNS/heat?x=length&y=functions&split=iid",
    "/runs/RUNS/predictions?run=LAST&trait.length=2",
]  # fmt: skip
TOKENS = [
    "%00", "%2e%2e/", "../", "..%2f", "?", "&", "=", "%ff", "%", "//", "\\", "start=", "index=", "trait.", "split=", "name=", "q=",
    "-1", "0x1", "1e9", "999999999999999", "9999999999999999999", SCRIPT, "{{7*7}}", "DATA", "EDITED", "RUNS", "FIRST",
    "/rows", "/example",
    "show=", "by=", "run=", "f.", "sent=1", "seed=",
    "suite_process.py", "/etc/passwd", "secret.txt",
]  # fmt: skip


class Drawer:
    """The process that draws pictures, in this process: it answers by the same function. Previews
    are what `recipes` tries.
    """

    def request(self, what: str, **values: Any) -> dict[str, Any]:
        if what == "preview":
            raise TaskloomError("there are no previews here")
        reply = answer(json.dumps({"what": what, **values}))
        if "error" in reply:
            raise TaskloomError(str(reply["error"]))
        return reply


@cache
def _original() -> Path:
    """Return a folder with a dataset, one as an attacker writes it, one whose manifest is edited,
    and a run store.
    """
    viewed = Path(mkdtemp(prefix="taskloom-fuzz-viewed-"))
    for name in ("data", "edited"):
        shutil.copytree(_dataset(), viewed / name)
    shutil.copytree(_runs(), viewed / "runs")
    write_dataset(viewed / "hostile", EXAMPLES, TRAITS)
    return viewed


@cache
def _viewer(folder: Path) -> tuple[Any, dict[str, str]]:
    """Build a viewer of a copy of these; return it with what the words in addresses stand for."""
    viewed = folder / "viewed"
    shutil.copytree(_original(), viewed)
    (folder / "secret.txt").write_text(BESIDE)
    app = application([viewed])
    state = app.state.viewer
    state.pictures = state.previews = Drawer()
    state.audits.start = lambda data: None
    names = {
        one.path.name.upper(): one.name
        for one in ViewedFolders([viewed]).every()
        if one.path.parent == viewed
    }
    runs = sorted({name.split("/")[1] for name in _run_files() if "/" in name})
    return app, {**names, "FIRST": runs[0], "LAST": runs[-1]}


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def _edits() -> st.SearchStrategy[Any]:
    """Return a strategy of a file of the folder and its new content."""
    manifests = mutated_json(_manifest()).map(
        lambda manifest: ("edited/manifest.json", json.dumps(manifest))
    )
    return st.one_of(manifests, damaged_runs().map(lambda edit: (f"runs/{edit[0]}", edit[1])))


requests = st.tuples(
    st.one_of(st.none(), st.deferred(_edits)),
    st.sampled_from(["GET", "GET", "GET", "GET", "HEAD", "POST", "OPTIONS", "BREW"]),
    mutated_text(ADDRESSES, TOKENS),
    st.fixed_dictionaries(
        {"host": st.sampled_from(["127.0.0.1:8640"] * 6 + HEADERS["host"])}
    ).flatmap(
        lambda host: st.dictionaries(
            st.sampled_from(sorted(HEADERS)[1:]), st.integers(0, 3), max_size=2
        ).map(
            lambda more: {
                **{name: HEADERS[name][at % len(HEADERS[name])] for name, at in more.items()},
                **host,
            }
        )
    ),
)


def _warm() -> None:
    _original()
    app = application([])
    _loop().run_until_complete(_ask(app, "GET", "/", {"host": "localhost"}))


async def _ask(
    app: Any, method: str, address: str, headers: dict[str, str]
) -> tuple[int, dict[str, str], bytes]:
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
    return (
        messages[0]["status"],
        sent,
        b"".join(message.get("body", b"") for message in messages[1:]),
    )


@target("pages", requests, weight=8, cost=8, warm=_warm)
def pages(given: tuple[tuple[str, str] | None, str, str, dict[str, str]], folder: Path) -> Verdict:
    """Ask the viewer for a page; none shows markup of the data as markup, nor anything from outside
    its folders.
    """
    edit, method, address, headers = given
    app, names = _viewer(folder)
    for name, slug in names.items():
        address = address.replace(name, slug)
    if edit is not None:
        (folder / "viewed" / edit[0]).write_bytes(
            edit[1].encode("latin-1") if edit[0].endswith(".parquet") else as_text(edit[1])
        )
    try:
        status, sent, body = _loop().run_until_complete(_ask(app, method, address, headers))
    finally:
        if edit is not None:
            (folder / "viewed" / edit[0]).write_bytes((_original() / edit[0]).read_bytes())
    if status >= 500:
        raise Refuted(f"{address!r}: status {status}")
    if SCRIPT.encode() in body or BESIDE.encode() in body:
        raise Refuted(
            f"{address!r}: the page has markup of the data, or what lies beside the folders"
        )
    if "default-src 'none'" not in sent.get("content-security-policy", ""):
        raise Refuted(f"{address!r}: the page has no policy")
    return "accepted" if status < 400 else "refused"
