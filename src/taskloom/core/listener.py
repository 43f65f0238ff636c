"""Listening sockets and request filters for Taskloom's servers, without a web framework.

Other sites can make a browser send requests to this machine. So the Host header must name this
machine, which defeats DNS rebinding, and cross-site requests are refused unless they open a page.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence

from taskloom.core.errors import ParameterError

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names of this machine that cannot refer to another one."""

BACKLOG = 512
"""Maximum connections that wait while a server starts or is busy."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?", re.IGNORECASE | re.ASCII)


def is_loopback(host: str) -> bool:
    """True if an interface is reachable from this machine only."""
    return host.strip("[]").lower() in LOOPBACK


def hostname(header: str) -> str:
    """Name in a Host header without its port, or an empty text if it is not a name.

    >>> hostname("127.0.0.1:8600"), hostname("[::1]:8600"), hostname("LocalHost"), hostname("[")
    ('127.0.0.1', '::1', 'localhost', '')
    """
    if _HOST.fullmatch(header) is None:
        return ""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def caused_elsewhere(headers: Mapping[str, str]) -> bool:
    """True for a cross-site request that does not open a page through a link.

    Args:
        headers: Request headers, with case-insensitive lookup.
    """
    if headers.get("sec-fetch-site", "none") not in ("cross-site", "same-site"):
        return False
    opens_a_page = headers.get("sec-fetch-mode") == "navigate"
    return not opens_a_page or headers.get("sec-fetch-dest", "document") != "document"


def of_another_origin(headers: Mapping[str, str]) -> bool:
    """True if a page of another origin sent this request. Programs other than browsers do not send
    an origin.
    """
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host", "")


def content_length(header: str) -> int | None:
    """Parse a Content-Length header. None if it is not a plain decimal number.

    >>> content_length("12"), content_length("²"), content_length("-1")
    (12, None, None)
    """
    # `isdigit` accepts superscripts, and `int` rejects more than 4,300 digits.
    if not header.isascii() or not header.isdigit():
        return None
    return int(header[:18]) if len(header) > 18 else int(header)


def listen(host: str, ports: Sequence[int]) -> socket.socket:
    """Return a socket that listens on the first free port of those given.

    Args:
        host: Name or address of the interface.
        ports: Ports to try in order. 0 means any free port.

    Raises:
        ParameterError: If none of them can be used. The error names the parameter `port`.
    """
    reason = ""
    for port in ports:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # With the default protocol 0, accepted sockets have protocol 0 too, and asyncio sets
        # TCP_NODELAY only on IPPROTO_TCP. Nagle's algorithm and delayed acknowledgements would then
        # add about 40 ms per answer on a persistent connection.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host.strip("[]"), port))
            listener.listen(BACKLOG)  # from now on connections wait instead of being refused
        except OSError as error:
            listener.close()
            reason = error.strerror or str(error)
        except OverflowError:
            listener.close()
            reason = "a port is a number below 65,536"
        else:
            return listener
    raise ParameterError(
        "port", f"{ports[0]} on {host} cannot be used ({reason}); choose another port or host"
    )


def address(host: str, listener: socket.socket) -> str:
    """Return the address to open in a browser, without a trailing slash. If the server listens on
    all interfaces, it contains this machine's name.
    """
    name = host.strip("[]")
    if name in ("0.0.0.0", "::"):  # noqa: S104 - the user asked for all interfaces
        name = socket.gethostname()
    if ":" in name:  # an IPv6 address
        name = f"[{name}]"
    return f"http://{name}:{listener.getsockname()[1]}"
