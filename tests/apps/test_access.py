"""The guard that `view` and `collect` share, before any application: what is too long, malformed or
from elsewhere.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from taskloom.apps.access import LARGEST_BODY, AccessGuard, TooLargeError, too_large

SECRET = "-".join(["a", "token"])


async def page(request: Request) -> Response:
    """Answer with what arrived."""
    body = await request.body()
    return PlainTextResponse(f"{request.url.path} {len(body)}")


def client(**options: Any) -> TestClient:
    app = Starlette(
        routes=[Route("/{rest:path}", page, methods=["GET", "POST"])],
        exception_handlers={TooLargeError: too_large},
    )
    return TestClient(
        AccessGuard(app, "view", **options), base_url="http://127.0.0.1:80", follow_redirects=False
    )


@pytest.mark.parametrize("host", ["[", "[::1", "a b", "http://[", "x" * 300 + "/"])
def test_a_host_that_is_no_name_never_reaches_the_application(host: str) -> None:
    assert client().get("/", headers={"host": host}).status_code == 421
    with_token = client(token=SECRET)
    assert (
        with_token.get("/", headers={"host": host, "authorization": f"Bearer {SECRET}"}).status_code
        == 400
    )


def test_a_request_with_two_hosts_never_reaches_the_application() -> None:
    for hosts in (("127.0.0.1", "evil.example"), ("127.0.0.1", "127.0.0.1")):
        headers = [("host", host) for host in hosts]
        assert client().get("/", headers=headers).status_code == 400


def test_nobody_waits_for_a_body_that_is_stated_to_be_endless() -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-length", b"99999999999")],
    }
    asyncio.run(AccessGuard(page, "view")(scope, receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 413


@pytest.mark.parametrize(
    "origin", ["http://[", "null", "http://127.0.0.1:81", "https://evil.example", "127.0.0.1:80"]
)
def test_forms_of_other_origins_are_refused_however_they_are_written(origin: str) -> None:
    assert client().post("/", headers={"origin": origin}).status_code == 403
    assert client().post("/", headers={"origin": "http://127.0.0.1"}, content=b"x").text == "/ 1"


def test_bodies_and_addresses_have_a_limit() -> None:
    assert client().post("/", content=b"x" * (LARGEST_BODY + 1)).status_code == 413
    assert client().post("/", content=iter([b"x" * LARGEST_BODY, b"x"])).status_code == 413
    assert client().post("/", content=iter([b"x" * LARGEST_BODY])).status_code == 200
    assert client().post("/", headers={"content-length": "9" * 5_000}).status_code == 413
    assert client().post("/", headers={"content-length": "-1"}).status_code == 400
    assert client(longest=100).get("/" + "x" * 200).status_code == 414
    assert client(longest=100).get("/", params={"q": "x" * 200}).status_code == 414


def test_the_token_becomes_a_cookie_and_leaves_the_rest_of_the_address() -> None:
    browser = client(token=SECRET)
    assert browser.get("/a").status_code == 401
    moved = browser.get(f"/a?x=1&token={SECRET}&y=%26")
    assert (moved.status_code, moved.headers["location"]) == (303, "/a?x=1&y=%26")
    assert browser.get("/a").status_code == 200
    assert "x-frame-options" in browser.get("/a").headers
