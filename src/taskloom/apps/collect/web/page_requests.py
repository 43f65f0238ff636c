"""Requests as the pages see them (the person, cleaned fields), page responses, and the pages for
everyone: signing in by a personal link, the start page, and signing out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.corpus import clean, clean_line
from taskloom.apps.collect.errors import CollectError, phrase
from taskloom.apps.collect.links import SESSION_DAYS
from taskloom.apps.collect.records import CollectedTask, GivenAnswer, Item, Person

if TYPE_CHECKING:
    from taskloom.apps.collect.web.site import Site


MOST_FIELDS = 1_000
"""Maximum number of fields in a form. A structure of 30 objects with 4 values has 120."""


@dataclass(frozen=True, slots=True)
class PageFields:
    """Fields of a form or a query. Every text is cleaned, and missing fields are empty."""

    values: Mapping[str, tuple[str, ...]]

    def line(self, name: str) -> str:
        """Return a field as a single line."""
        return clean_line(self.text(name))

    def text(self, name: str) -> str:
        """Return a field."""
        return self.values.get(name, ("",))[0]

    def all(self, name: str) -> tuple[str, ...]:
        """All values of a field."""
        return self.values.get(name, ())

    def number(self, name: str, default: int = 0) -> int:
        """An integer from 0 to a billion, or the default if the field does not contain one."""
        text = self.text(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default

    def seconds(self, name: str) -> float:
        """A time in seconds, or 0 if the field does not contain one."""
        try:
            return float(self.text(name)[:20])
        except ValueError:
            return 0.0


def parse_fields(data: str) -> PageFields:
    """Parse an encoded form or query."""
    try:
        pairs = parse_qsl(
            data, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="replace"
        )
    except ValueError as error:
        raise CollectError(phrase("too_many_fields", reason=error)) from error
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(clean(name), []).append(clean(value))
    return PageFields({name: tuple(given) for name, given in values.items()})


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request to a page.

    Attributes:
        site: The application with its project.
        person: Person who sent the request; None on pages that everyone may see.
        session: The session's signed text.
        path: Variable parts of the address.
        query: Fields after the question mark.
        form: Fields of the submitted form.
        wants_json: True if the request comes from a script, which receives values instead of pages.
        base: Address of the server as the browser sees it.
        here: First part of the page's address, which determines the highlighted menu entry.
    """

    site: Site
    person: Person | None
    session: str
    path: Mapping[str, str]
    query: PageFields
    form: PageFields
    wants_json: bool
    base: str
    here: str = ""

    @property
    def c(self) -> Collection:
        """The project."""
        return self.site.collection

    @property
    def me(self) -> Person:
        """The signed-in person, on pages that require one."""
        assert self.person is not None, "a page with roles has a person"
        return self.person

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """Response with a page."""
        return HTMLResponse(self.site.render(template, self, **values), status)

    @property
    def notice(self) -> str:
        """Notice from the previous page. Notices that were not signed for this session are
        ignored.
        """
        text = self.query.line("notice")
        return (
            text
            if text and self.site.signer.is_notice(self.session, text, self.query.text("seal"))
            else ""
        )

    def to(self, address: str, **query: Any) -> Response:
        """Redirect to another page after something was saved."""
        if query.get("notice"):
            query["notice"] = clean_line(query["notice"])[:300]
            query["seal"] = self.site.signer.notice_seal(self.session, query["notice"])
        where = f"{address}?{urlencode(query)}" if query else address
        return JSONResponse({"next": where}) if self.wants_json else RedirectResponse(where, 303)


def paged(rows: Sequence[Any], number: int, size: int = 50) -> tuple[Sequence[Any], int, int]:
    """One page of a list, its number from 1, and the number of pages."""
    parts = max(1, -(-len(rows) // size))
    number = min(max(1, number), parts)
    return rows[(number - 1) * size : number * size], number, parts


def enter(request: PageRequest) -> Response:
    """Sign a person in with a personal link."""
    signer = request.site.signer
    person = signer.person(request.path["token"], "link")
    answer = RedirectResponse("/", 303)
    keep_session(request, answer, signer.token(person, "session"))
    return answer


def keep_session(request: PageRequest, answer: Response, session: str) -> None:
    """Set the cookie of a session."""
    answer.set_cookie(
        request.site.cookie, session, max_age=SESSION_DAYS * 86_400, httponly=True, samesite="lax"
    )


def leave(request: PageRequest) -> Response:
    """Sign a person out. The session ends on the server, too."""
    answer = request.to("/")
    request.site.signer.end_session(request.session)
    answer.delete_cookie(request.site.cookie)
    return answer


def home(request: PageRequest) -> Response:
    """Show the open work and the progress of the project."""
    if request.person is None:
        return request.page("welcome.html", 401)
    store, me = request.c.store, request.me
    tasks, items = store.stages(CollectedTask), store.stages(Item)
    wanted = sum(items.get(s, 0) for s in ("open", "agreed", "disputed", "decided"))
    done = items.get("agreed", 0) + items.get("decided", 0)
    mine = {
        "answers": store.count(GivenAnswer, owner=me.id, stage="work"),
        "tasks": store.count(CollectedTask, owner=me.id),
        "returned": store.count(CollectedTask, owner=me.id, stage="returned"),
    }
    people = _progress(request) if "owner" in me.roles else []
    return request.page(
        "home.html",
        tasks=tasks,
        items=items,
        wanted=wanted,
        done=done,
        mine=mine,
        people=people,
        fresh=not people,
    )


def _progress(request: PageRequest) -> list[tuple[Person, int, int]]:
    """Return the number of questions written and items answered by each person."""
    store = request.c.store
    answers = store.owners(GivenAnswer, "work")
    written: dict[str, int] = {}
    for stage in ("submitted", "returned", "approved"):
        for owner, count in store.owners(CollectedTask, stage).items():
            written[owner] = written.get(owner, 0) + count
    return [(p, written.get(p.id, 0), answers.get(p.id, 0)) for p in request.c.people()]
