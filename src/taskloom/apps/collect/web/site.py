"""The application: its addresses, who may open them, and how it reports errors."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import jinja2
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from taskloom.apps.access import AccessGuard, TooLargeError, too_large
from taskloom.apps.collect.annotation import Leases
from taskloom.apps.collect.collection import Collection, require
from taskloom.apps.collect.errors import CollectError, DiskError, page_phrases, phrase
from taskloom.apps.collect.links import Signer, SignInError
from taskloom.apps.collect.records import Person, Role
from taskloom.apps.collect.web import (
    annotator_pages,
    owner_pages,
    page_requests,
    writer_pages,
)
from taskloom.apps.collect.web.page_requests import PageFields, PageRequest, parse_fields
from taskloom.core.errors import TaskloomError
from taskloom.core.files import digest

STATIC = {"collect.css": "text/css", "collect.js": "text/javascript", "icon.svg": "image/svg+xml"}

LONGEST_ADDRESS = 4_000
"""Maximum characters of a path or a query. The application's own links are shorter."""

Handler = Callable[[PageRequest], Response]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """An address: its method, its handler, and the roles that may use it. With empty roles,
    everyone may use it, signed in or not.
    """

    method: str
    path: str
    handler: Handler
    roles: tuple[Role, ...] = ()


EVERYBODY: tuple[Role, ...] = ("writer", "annotator", "reviewer", "owner")

ROUTES: tuple[PageRoute, ...] = (
    PageRoute("GET", "/", page_requests.home),
    PageRoute("GET", "/enter/{token}", page_requests.enter),
    PageRoute("POST", "/leave", page_requests.leave, EVERYBODY),
    PageRoute("GET", "/write", writer_pages.write, ("writer",)),
    PageRoute("POST", "/write", writer_pages.submit, ("writer",)),
    PageRoute("GET", "/write/{task}", writer_pages.edit, ("writer",)),
    PageRoute("POST", "/write/{task}", writer_pages.submit_again, ("writer",)),
    PageRoute("GET", "/vary/{variant}", writer_pages.vary, ("writer",)),
    PageRoute("POST", "/vary/{variant}", writer_pages.submit_variant_form, ("writer",)),
    PageRoute("POST", "/suggest/{task}", writer_pages.suggest, ("writer",)),
    PageRoute("GET", "/review", annotator_pages.queue, ("reviewer",)),
    PageRoute("GET", "/review/{task}", annotator_pages.task, ("reviewer",)),
    PageRoute("POST", "/review/{task}", annotator_pages.decide, ("reviewer",)),
    PageRoute("GET", "/adjudicate", annotator_pages.disputes, ("reviewer",)),
    PageRoute("GET", "/adjudicate/{item}", annotator_pages.dispute, ("reviewer",)),
    PageRoute("POST", "/adjudicate/{item}", annotator_pages.settle, ("reviewer",)),
    PageRoute("POST", "/adjudicate/{item}/suggest", annotator_pages.suggest, ("reviewer",)),
    PageRoute("GET", "/annotate", annotator_pages.next_one, ("annotator",)),
    PageRoute("GET", "/annotate/{item}", annotator_pages.item, ("annotator",)),
    PageRoute("POST", "/annotate/{item}", annotator_pages.save, ("annotator",)),
    PageRoute("GET", "/people", owner_pages.people, ("owner",)),
    PageRoute("POST", "/people", owner_pages.add_person, ("owner",)),
    PageRoute("POST", "/people/{person}/roles", owner_pages.change_roles, ("owner",)),
    PageRoute("POST", "/people/{person}/link", owner_pages.renew_link, ("owner",)),
    PageRoute("POST", "/people/{person}/qualify", owner_pages.requalify, ("owner",)),
    PageRoute("GET", "/project", owner_pages.project, ("owner",)),
    PageRoute("POST", "/project/suggestions", owner_pages.suggestions, ("owner",)),
    PageRoute("GET", "/passages", owner_pages.passages, ("owner",)),
    PageRoute("POST", "/passages", owner_pages.gather, ("owner",)),
    PageRoute("GET", "/results", owner_pages.results, ("owner", "reviewer")),
    PageRoute("GET", "/export", owner_pages.export_page, ("owner",)),
    PageRoute("POST", "/export", owner_pages.export_now, ("owner",)),
    PageRoute("GET", "/log", owner_pages.log, ("owner",)),
    PageRoute("GET", "/log.jsonl", owner_pages.download_log, ("owner",)),
    PageRoute("POST", "/log/{event}/undo", owner_pages.undo, ("owner",)),
)
"""All addresses of the application except the style sheet and the script."""


class Site:
    """A project with the state that all of its pages share.

    Attributes:
        collection: The project.
        leases: Items that people have open.
        signer: Signs links, sessions and forms.
        token: Access token of a server that listens beyond loopback.
        gathering: Lock that is held while passages are gathered, so that only one request does so
            at a time.
        exporting: Lock that is held while a release is written.
        cookie: Name of the session cookie.
        phrases: Texts of the pages, by name.
        static: Style sheet, script and icon, by name.
        version: Digest of the static files. It is part of their addresses, so that browsers may
            cache them.
        templates: Templates of the pages.
    """

    def __init__(
        self, collection: Collection, token: str = "", clock: Callable[[], float] = time.time
    ) -> None:
        self.collection, self.token = collection, token
        self.leases = Leases()
        self.signer = Signer(collection, clock)
        self.gathering, self.exporting = threading.Lock(), threading.Lock()
        # The name differs between projects, because servers on different ports share the browser's
        # cookies.
        self.cookie = f"collect-{digest(collection.secret, 4)}"
        folder = files("taskloom.apps.collect.web")
        self.phrases = page_phrases()
        self.static = {name: (folder / "static" / name).read_bytes() for name in STATIC}
        self.version = digest(b"".join(self.static.values()), 4)
        self.templates = jinja2.Environment(
            loader=jinja2.PackageLoader("taskloom.apps.collect.web"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.globals.update(
            t=SimpleNamespace(**self.phrases), project=collection.file, assets=self.version
        )

    def render(self, template: str, request: PageRequest, **values: Any) -> str:
        """Render a page to text."""
        token = self.signer.form_token(request.session) if request.session else ""
        known = {
            "me": request.person,
            "form_token": token,
            "notice": request.notice,
            "here": request.here,
        }
        return self.templates.get_template(template).render(**known, **values)

    def link(self, person: Person, base: str) -> str:
        """Return a person's link."""
        access = f"?token={self.token}" if self.token else ""
        return f"{base}/enter/{self.signer.token(person, 'link')}{access}"


def build_app(
    collection: Collection, token: str = "", clock: Callable[[], float] = time.time
) -> ASGIApp:
    """Build the application of a project.

    Args:
        collection: The project.
        token: Token that every request needs; empty for a server on loopback.
        clock: Returns the time in seconds, for the expiry of links.
    """
    site = Site(collection, token, clock)
    routes = [Route(r.path, partial(_answer, site, r), methods=[r.method]) for r in ROUTES]
    routes.append(Route("/static/{name}", partial(_static, site), methods=["GET"]))
    handlers: dict[Any, Any] = {HTTPException: partial(_http_error, site), TooLargeError: too_large}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.state.site = site
    return AccessGuard(app, "collect", token or None, same_site="lax", longest=LONGEST_ADDRESS)


async def _static(site: Site, request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        return PlainTextResponse("there is no such file", 404)
    headers = {}
    if request.query_params.get("v") == site.version:
        headers["cache-control"] = "max-age=86400"
    return Response(site.static[name], media_type=STATIC[name], headers=headers)


async def _http_error(site: Site, request: Request, error: HTTPException) -> Response:
    try:
        # keep the menu for signed-in users
        person = await run_in_threadpool(_visitor, site, request)
        page = _page_request(site, request, person, PageFields({}))
    except (CollectError, sqlite3.Error):
        page = _plain_request(site, PageFields({}))
    names = {404: "no_page", 405: "no_method", 415: "no_form"}
    text = site.phrases[names[error.status_code]] if error.status_code in names else error.detail
    return HTMLResponse(site.render("error.html", page, text=text), error.status_code)


def _page_request(
    site: Site, request: Request, person: Person | None, form: PageFields
) -> PageRequest:
    session = request.cookies.get(site.cookie, "") if person else ""
    base = f"{request.url.scheme}://{request.headers.get('host', '')}"
    wants_json = "application/json" in request.headers.get("accept", "")
    query = parse_fields(request.url.query)
    here = request.url.path.split("/")[1]
    return PageRequest(
        site, person, session, request.path_params, query, form, wants_json, base, here
    )


def _plain_request(site: Site, form: PageFields) -> PageRequest:
    """Request by an unknown person, used for the page of an error that occurred before the request
    was read.
    """
    return PageRequest(
        site,
        person=None,
        session="",
        path={},
        query=PageFields({}),
        form=form,
        wants_json=False,
        base="",
    )


async def _answer(site: Site, route: PageRoute, request: Request) -> Response:
    """Answer a request: parse its form, identify the person, and run the page in a thread."""
    form = PageFields({})
    try:
        if request.method == "POST":
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/x-www-form-urlencoded":
                raise HTTPException(415)
            form = parse_fields((await request.body()).decode("utf-8", "replace"))
    except ClientDisconnect:
        return PlainTextResponse("nothing was saved: the connection broke off", 400)
    except CollectError as error:
        return _report(site, _page_request(site, request, None, form), error)
    return await run_in_threadpool(_work, site, route, request, form)


def _work(site: Site, route: PageRoute, request: Request, form: PageFields) -> Response:
    """Identify the person, check roles and the form's token, and run the page's handler."""
    page: PageRequest | None = None
    try:
        person = _visitor(site, request)
        page = _page_request(site, request, person, form)
        if route.roles:
            if person is None:
                raise SignInError(site.phrases["sign_in_first"])
            require(person, *route.roles)
        if request.method == "POST" and route.roles:
            site.signer.check_form(page.session, form.text("form_token"))
        return route.handler(page)
    except (TaskloomError, OSError, sqlite3.Error, json.JSONDecodeError) as error:
        if page is None:
            page = _plain_request(site, form)
        return _report(site, page, _as_collect_error(error))


def _as_collect_error(error: Exception) -> CollectError:
    """Convert expected errors to a sentence and a status: errors of the rules, of other parts of
    Taskloom, and of the disk.
    """
    if isinstance(error, CollectError):
        return error
    if isinstance(error, sqlite3.Error | json.JSONDecodeError):
        return DiskError(phrase("database_unreadable", reason=error))
    if isinstance(error, OSError):
        return DiskError(phrase("system_refused", reason=error.strerror or error))
    return CollectError(str(error))


def _report(site: Site, page: PageRequest, error: CollectError) -> Response:
    if page.wants_json:
        return JSONResponse({"error": str(error)}, error.status)
    return page.page("error.html", error.status, text=str(error))


def _visitor(site: Site, request: Request) -> Person | None:
    """Return the person identified by the session cookie. A forged or expired cookie is treated as
    missing.
    """
    cookie = request.cookies.get(site.cookie, "")
    if not cookie:
        return None
    try:
        return site.signer.person(cookie, "session")
    except SignInError:
        return None
