"""What every request passes before a page sees it: size, host, access token; and the headers that every answer carries."""

from __future__ import annotations

import hmac
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 1_000_000
"""Bytes of a form: the longest answer to a passage of 5,000 words has a tenth of it."""

DRAINED = 256_000_000
"""Bytes of a body that is too large that are still read and thrown away, so that its sender gets to read the answer."""

LONGEST_PATH = 4_000
"""Characters of a path or a query: longer ones are no links of ours."""

LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""No script or style but our own files, nothing from or to other sites; a personal link is never sent on as a referrer."""

COOKIE = "collect-access"
"""Holds the access token after its first use, on a server that listens beyond loopback."""


class Guard:
    """Wraps an application in all checks.

    Args:
        app: The application.
        token: What every request must carry; empty where the server listens on loopback only.
    """

    def __init__(self, app: ASGIApp, token: str = "") -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with what is wrong with it."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = await self._refusal(scope, receive)
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        await self.app(scope, await _limited(receive), send_with_headers)

    async def _refusal(self, scope: Scope, receive: Receive) -> ASGIApp | None:
        headers = Headers(scope=scope)
        if len(scope["path"]) > LONGEST_PATH or len(scope["query_string"]) > LONGEST_PATH:
            return PlainTextResponse("this address is too long; go back to the start page", 414)
        if not self.token and _host(headers.get("host", "")) not in LOOPBACK:
            # Another site could point its own name at this machine and read our pages in its visitor's browser.
            return PlainTextResponse("open this server as http://127.0.0.1 with its port", 421)
        if self.token and (answer := self._access(scope, headers)) is not None:
            return answer
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            return PlainTextResponse("the length of the request is not a number", 400)
        if int(length) > LARGEST_BODY:
            await _drain(receive)
            return PlainTextResponse(f"nothing was saved: a form has at most {LARGEST_BODY // 1000:,} kB", 413)
        return None

    def _access(self, scope: Scope, headers: Headers) -> ASGIApp | None:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if given and self._right(given):
            answer = RedirectResponse("/" + scope["path"].lstrip("/"), 303)  # two slashes would name another host
            answer.set_cookie(COOKIE, self.token, httponly=True, samesite="lax", max_age=30 * 86_400)
            return answer
        cookies = dict(part.strip().partition("=")[::2] for part in headers.get("cookie", "").split(";"))
        if self._right(cookies.get(COOKIE, "")):
            return None
        return PlainTextResponse("this server needs the access token that was printed at its start", 401)

    def _right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


def _host(header: str) -> str:
    return header.rsplit(":", 1)[0] if not header.endswith("]") and header.count(":") != 0 else header


async def _drain(receive: Receive) -> None:
    size = 0
    while size < DRAINED:
        message = await receive()
        if message["type"] != "http.request":
            return
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            return


class TooLargeError(Exception):
    """A body without a stated length that turned out too large."""


async def _limited(receive: Receive) -> Receive:
    """Return a `receive` that counts: a request need not state its length."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > LARGEST_BODY:
            raise TooLargeError
        return message

    return counted
