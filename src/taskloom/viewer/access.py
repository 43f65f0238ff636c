"""Who may ask: this machine, by its own name, and elsewhere whoever has the token; and what browsers may do with an answer.

A page that somebody else serves can make a browser send requests here. So the host that a request names must be this machine
(a name that was rebound to 127.0.0.1 is refused), and requests that other sites cause are refused unless they open a page.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names of this machine that no other machine can answer to."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing that stands in a page runs or loads, only the two files of ours."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # under "no-referrer" browsers hide the origin of our own forms, too
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

TOKEN = "token"  # noqa: S105 - the name of a query parameter


class AccessGuard:
    """Middleware that refuses requests from elsewhere and puts the security headers on every response.

    Args:
        app: What answers the others.
        token: What every request must bring, in the query once and then in a cookie; None on the loopback interface.
        hosts: Names under which the server is reached, besides those of the loopback interface. Not checked where there is a
            token, which no other site has.
    """

    def __init__(self, app: ASGIApp, token: str | None = None, hosts: Iterable[str] = ()) -> None:
        self.app = app
        self.token = token
        self.hosts = LOOPBACK | set(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
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
        await (refusal or self.app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self.token is None and hostname(headers.get("host", "")) not in self.hosts:
            return _refused("this viewer answers only under a name of this machine, such as 127.0.0.1", 421)
        if _caused_elsewhere(headers) or (scope["method"] not in ("GET", "HEAD") and _of_another_origin(headers)):
            return _refused("this request came from another site", 403)
        return self._without_token(scope, headers) if self.token is not None else None

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        """Return a refusal, or the redirection that turns the token of a link into a cookie; None where all is right."""
        assert self.token is not None
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        name = f"taskloom_view_{(scope.get('server') or ('', 0))[1]}"
        for key, value in query:
            if key == TOKEN and _equal(value, self.token):
                rest = urlencode([pair for pair in query if pair[0] != TOKEN])
                path = "/" + scope["path"].lstrip("/")  # two slashes would name another host
                response = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
                response.set_cookie(name, self.token, httponly=True, samesite="strict")
                return response
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if _equal(bearer, self.token) or _equal(_cookies(headers).get(name, ""), self.token):
            return None
        return _refused("open the address with its token, which 'taskloom view' prints", 401)


def hostname(host: str) -> str:
    """Return the name in a Host header, without its port.

    >>> hostname("127.0.0.1:8600"), hostname("[::1]:8600"), hostname("LocalHost")
    ('127.0.0.1', '::1', 'localhost')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _caused_elsewhere(headers: Headers) -> bool:
    """Return whether another site made the browser send this; opening a page by a link is fine, reading parts of it is not."""
    if headers.get("sec-fetch-site", "none") not in ("cross-site", "same-site"):
        return False
    return headers.get("sec-fetch-mode") != "navigate" or headers.get("sec-fetch-dest", "document") != "document"


def _of_another_origin(headers: Headers) -> bool:
    """Return whether a page of another origin sends this; programs that are no browsers name no origin."""
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host", "")


def _cookies(headers: Headers) -> dict[str, str]:
    pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return {name: value for name, _, value in pairs}


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


def _refused(sentence: str, status: int) -> Response:
    return PlainTextResponse(f"taskloom view: {sentence}\n", status)
