"""Access control for the viewer and the collection server. Requests from this machine must use one
of its names, all others need the token. Security headers limit what browsers do with a response.
The rules against cross-site requests are in `core/listener.py`.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Literal
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taskloom.core.listener import (
    LOOPBACK,
    caused_elsewhere,
    content_length,
    hostname,
    of_another_origin,
)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content security policy: a page loads only our own files, and inline scripts and styles do not
run.
"""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With "no-referrer", browsers would also hide the origin of our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

TOKEN = "token"  # noqa: S105 - the name of a query parameter

COOKIE_DAYS = 30
"""Days for which a browser keeps the token, the same as for personal links of a collection project.
"""

LARGEST_BODY = 1_000_000
"""Maximum bytes of a form. The longest answer to a passage of 5,000 words has a tenth of this."""

DRAINED = 256_000_000
"""Maximum bytes of an oversized body that are read and discarded, so that the client gets to read
the response.
"""

LONGEST_ADDRESS = 64_000
"""Maximum characters of a path or a query. Servers do not read longer request lines."""


class TooLargeError(Exception):
    """A body without a Content-Length that turned out to be too large."""


class AccessGuard:
    """Middleware that refuses requests from elsewhere and puts the security headers on every
    response.

    Args:
        app: The application that answers accepted requests.
        command: The command that started the server, for error messages and the name of the cookie.
        token: Token that every request needs, once in the query and then in a cookie. None on the
            loopback interface.
        hosts: Names of the server besides those of the loopback interface. Not checked if there is
            a token, which no other site has.
        same_site: Whether browsers send the token's cookie when a link on another site is followed
            ("lax") or not ("strict").
        longest: Maximum characters of a path or a query.
    """

    def __init__(
        self,
        app: ASGIApp,
        command: str,
        token: str | None = None,
        hosts: Iterable[str] = (),
        same_site: Literal["strict", "lax"] = "strict",
        longest: int = LONGEST_ADDRESS,
    ) -> None:
        self.app, self.command, self.token = app, command, token
        self.hosts = LOOPBACK | set(hosts)
        self.same_site, self.longest = same_site, longest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            if refusal.status_code == 413 and _stated_length(scope) <= DRAINED:
                await _drain(receive)
            await refusal(scope, receive, send_guarded)
            return
        await self.app(scope, _limited(receive), send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """The response to a request that the application must not see. None if it may."""
        headers = Headers(scope=scope)
        if max(len(scope["path"]), len(scope["query_string"])) > self.longest:
            return self._refused("this address is too long; go back to the start page", 414)
        if len(headers.getlist("host")) > 1:  # a proxy may have checked the other one
            return self._refused("the request names more than one host", 400)
        name = hostname(headers.get("host", ""))
        if self.token is None and name not in self.hosts:
            return self._refused(
                "this server answers only under a name of this machine, such as 127.0.0.1", 421
            )
        if not name:
            return self._refused("the request names no host", 400)
        changes_something = scope["method"] not in ("GET", "HEAD")
        if caused_elsewhere(headers) or (changes_something and of_another_origin(headers)):
            return self._refused("this request came from another site", 403)
        if self.token is not None:
            answer = self._without_token(scope, headers, self.token)
            if answer is not None:
                return answer
        length = content_length(headers.get("content-length", "0"))
        if length is None:
            return self._refused("the length of the request is not a number", 400)
        if length > LARGEST_BODY:
            return self._refused(
                f"nothing was saved: a form has at most {LARGEST_BODY // 1000:,} kB", 413
            )
        return None

    def _without_token(self, scope: Scope, headers: Headers, token: str) -> Response | None:
        """Return a refusal, or the redirection that turns the token of a link into a cookie. None
        if the request has a valid cookie.
        """
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        # Servers on other ports share the browser's cookies.
        name = f"taskloom_{self.command}_{(scope.get('server') or ('', 0))[1]}"
        for key, value in query:
            if key == TOKEN and _equal(value, token):
                rest = urlencode([pair for pair in query if pair[0] != TOKEN])
                path = "/" + scope["path"].lstrip("/")  # two slashes would redirect to another host
                response = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
                age = COOKIE_DAYS * 86_400
                response.set_cookie(
                    name, token, httponly=True, samesite=self.same_site, max_age=age
                )
                return response
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if _equal(bearer, token) or _equal(_cookies(headers).get(name, ""), token):
            return None
        return self._refused(
            f"open the address with its access token, which 'taskloom {self.command}' prints", 401
        )

    def _refused(self, sentence: str, status: int) -> Response:
        return PlainTextResponse(f"taskloom {self.command}: {sentence}\n", status)


async def too_large(request: Request, error: Exception) -> Response:
    """Answer a request with an oversized body. Applications register it as an exception handler."""
    return PlainTextResponse("nothing was saved: the form is too large", 413)


def _cookies(headers: Headers) -> dict[str, str]:
    pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return {name: value for name, _, value in pairs}


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


def _stated_length(scope: Scope) -> int:
    return content_length(Headers(scope=scope).get("content-length", "0")) or 0


async def _drain(receive: Receive) -> None:
    size = 0
    while size < DRAINED:
        message = await receive()
        if message["type"] != "http.request":
            return
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            return


def _limited(receive: Receive) -> Receive:
    """Wrap `receive` to count the bytes of the body. A request need not state its length."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > LARGEST_BODY:
            raise TooLargeError
        return message

    return counted
