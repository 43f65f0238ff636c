"""Personal links, sessions and form tokens. They are signed texts that cannot be forged and that
expire.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Literal

from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.errors import CollectError, phrase
from taskloom.apps.collect.records import Person

LINK_DAYS = 30
"""Days for which a personal link works. A round of collection takes weeks, and an owner can send a
new link at any time.
"""

SESSION_DAYS = 14

DAY = 86_400

Purpose = Literal["link", "session"]


class SignInError(CollectError):
    """A link or a session that is invalid or has expired."""

    status = 401


class Signer:
    """Signs and checks texts with a project's secret."""

    def __init__(self, collection: Collection, clock: Callable[[], float] = time.time) -> None:
        self._collection, self._clock = collection, clock

    def _seal(self, text: str) -> str:
        mac = blake2b(text.encode(), key=self._collection.secret, digest_size=18).digest()
        return base64.urlsafe_b64encode(mac).decode()

    def token(self, person: Person, purpose: Purpose) -> str:
        """Signed text that identifies a person until it expires."""
        days = LINK_DAYS if purpose == "link" else SESSION_DAYS
        text = f"{purpose}.{person.id}.{person.link}.{int(self._clock()) + days * DAY}"
        if purpose == "session":
            # Two sessions that begin in the same second need different tokens, so that ending one
            # does not end the other.
            text += f".{secrets.token_hex(8)}"
        return f"{text}.{self._seal(text)}"

    def person(self, token: str, purpose: Purpose) -> Person:
        """Return the person whom a signed text identifies."""
        text, _, seal = token.rpartition(".")
        if not hmac.compare_digest(seal.encode("utf-8", "replace"), self._seal_any(text).encode()):
            raise SignInError(phrase("link_invalid"))
        kind, id, number, until, *_ = text.split(".")
        if kind != purpose or self._collection.store.is_session_ended(seal):
            raise SignInError(phrase("link_invalid"))
        if int(until) < self._clock():
            raise SignInError(phrase("link_expired"))
        stored = self._collection.store.get(Person, id)
        if stored is None or stored.value.link != int(number):
            raise SignInError(phrase("link_replaced"))
        return stored.value

    def end_session(self, token: str) -> None:
        """Invalidate a session, so that a copy of its cookie is useless."""
        self.person(token, "session")
        text, _, seal = token.rpartition(".")
        until = int(text.split(".")[3])
        self._collection.store.end_session(seal, until, int(self._clock()))

    def _seal_any(self, text: str) -> str:
        return self._seal(text.encode("utf-8", "replace").decode())

    def form_token(self, session: str) -> str:
        """Token that a session's forms contain, so that no other site can submit them."""
        return self._seal(f"form.{session}")

    def notice_seal(self, session: str, text: str) -> str:
        """Signature of a notice in an address, so that external links cannot make our pages show
        other notices.
        """
        return self._seal(f"notice.{session}.{text}")

    def is_notice(self, session: str, text: str, seal: str) -> bool:
        """True if a notice was signed for this session."""
        return hmac.compare_digest(
            seal.encode("utf-8", "replace"), self.notice_seal(session, text).encode()
        )

    def check_form(self, session: str, token: str) -> None:
        """Raise `SignInError` unless the form was created for this session."""
        if not hmac.compare_digest(
            token.encode("utf-8", "replace"), self.form_token(session).encode()
        ):
            raise SignInError(phrase("form_old"))
