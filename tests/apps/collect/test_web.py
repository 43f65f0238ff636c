"""The pages: who may open what, what forms need, hostile text, odd requests; and the server beyond
loopback.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from taskloom.apps.access import LARGEST_BODY
from taskloom.apps.collect.annotation import gather_passages
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.links import DAY, LINK_DAYS, SESSION_DAYS, Signer
from taskloom.apps.collect.records import ROLES, CollectedTask, GivenAnswer, Item, Person, to_json
from taskloom.apps.collect.web.site import ROUTES, PageRoute, Site, build_app
from tests.apps.collect.projects import (
    add_people,
    annotate_all,
    open_project,
    write_base_tasks,
    write_variants,
)

BASE = "http://127.0.0.1:8765"

ONE_EACH = {"owner": "Olga", "writer": "Wim", "annotator": "Ann", "reviewer": "Rita"}


class Browser:
    """Somebody's browser: keeps cookies, reads the token of forms."""

    def __init__(
        self, c: Collection, person: Person | None = None, token: str = "", clock: Any = None
    ) -> None:
        app = build_app(c, token, clock) if clock else build_app(c, token)
        self.client = TestClient(app, base_url=BASE, follow_redirects=False)
        self.site = Site(c, token, clock) if clock else Site(c, token)
        if person is not None:
            assert self.client.get(self.site.link(person, "")).status_code == 303
            self.session = self.client.cookies[self.site.cookie]

    def get(self, address: str, **options: Any) -> Any:
        return self.client.get(address, **options)

    def post(self, address: str, data: dict[str, Any] | None = None, **options: Any) -> Any:
        token = self.site.signer.form_token(self.session)
        return self.client.post(address, data={"form_token": token, **(data or {})}, **options)


@pytest.fixture(scope="module")
def project(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Collection, dict[str, Person]]]:
    c = open_project(tmp_path_factory.mktemp("web"))
    people = add_people(c)
    write_variants(c, people, write_base_tasks(c, people))
    gather_passages(c, people["Olga"].id)
    annotate_all(c, people)
    yield c, people
    c.close()


@pytest.fixture(scope="module")
def browsers(project: tuple[Collection, dict[str, Person]]) -> dict[str, Browser]:
    c, people = project
    return {"": Browser(c)} | {role: Browser(c, people[name]) for role, name in ONE_EACH.items()}


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[tuple[Collection, dict[str, Person]]]:
    c = open_project(tmp_path)
    yield c, add_people(c)
    c.close()


def address_of(c: Collection, route: PageRoute) -> str:
    """Fill the variable parts of an address with things that exist."""
    known = {
        "task": next(t.id for t in c.store.each(CollectedTask) if not t.bases),
        "item": next(i.id for i in c.store.each(Item)),
        "person": next(p.id for p in c.people()),
        "variant": "paraphrase",
        "event": "1",
        "token": "none",
    }
    return re.sub(r"\{(\w+)\}", lambda m: known[m[1]], route.path)


@pytest.mark.parametrize("route", ROUTES, ids=lambda r: f"{r.method} {r.path}")
def test_who_may_open_what(
    route: PageRoute, project: tuple[Collection, dict[str, Person]], browsers: dict[str, Browser]
) -> None:
    """The matrix of routes and roles: others get 403, nobody signed in 401, and a refused form
    changes nothing.
    """
    c, _ = project
    address = address_of(c, route)
    events = len(list(c.store.events()))
    answer = browsers[""].client.request(
        route.method, address, data={"x": "y"} if route.method == "POST" else None
    )
    assert answer.status_code == 401, "nobody who is not signed in gets a page"
    for role in ROLES:
        browser = browsers[role]
        allowed = not route.roles or role in route.roles
        if route.method == "POST":
            # Without the form's token even the right role is refused, so that nothing happens in
            # this test.
            answer = browser.client.post(address, data={"form_token": "forged"})
            assert answer.status_code == (401 if allowed else 403)
        else:
            answer = browser.get(address)
            assert (answer.status_code == 403) == (
                not allowed
            ) or "somebody else's" in answer.text, (
                role,
                answer.status_code,
            )
    assert len(list(c.store.events())) == events


def test_every_answer_forbids_foreign_scripts(
    project: tuple[Collection, dict[str, Person]],
) -> None:
    c, people = project
    browser = Browser(c, people["Olga"])
    for address in ("/", "/people", "/static/collect.js", "/nowhere", "/static/none"):
        policy = browser.get(address).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert browser.get(address).headers["x-content-type-options"] == "nosniff"
    page = browser.get("/people").text
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", page)


def test_links_and_sessions_expire_and_cannot_be_forged(
    fresh: tuple[Collection, dict[str, Person]],
) -> None:
    c, people = fresh
    now = [1_000_000.0]
    link = Signer(c, lambda: now[0]).token(people["Ann"], "link")
    browser = Browser(c, clock=lambda: now[0])
    for wrong in (
        link[:-1] + ("A" if link[-1] != "A" else "B"),
        link.replace(people["Ann"].id, people["Olga"].id),
        "x",
        "a.b.c.d.e",
    ):
        assert browser.get(f"/enter/{wrong}").status_code == 401
    session = Signer(c, lambda: now[0]).token(people["Ann"], "session")
    assert browser.get(f"/enter/{session}").status_code == 401, "a session is no link"
    browser.client.cookies.set(browser.site.cookie, link)
    assert browser.get("/annotate").status_code == 401, "a link is no session"
    browser.client.cookies.clear()
    assert browser.get(f"/enter/{link}").status_code == 303
    assert browser.get("/").status_code == 200
    now[0] += SESSION_DAYS * DAY + 1
    assert browser.get("/").status_code == 401
    now[0] += LINK_DAYS * DAY
    answer = browser.get(f"/enter/{link}")
    assert answer.status_code == 401
    assert "has expired" in answer.text
    now[0] = 1_000_000.0
    c.renew_link(people["Olga"].id, people["Ann"].id)
    assert "replaced by a newer one" in browser.get(f"/enter/{link}").text


def test_forms_of_other_sites_are_refused(fresh: tuple[Collection, dict[str, Person]]) -> None:
    c, people = fresh
    browser = Browser(c, people["Olga"])
    data = {"name": "New", "role": "writer"}
    assert browser.client.post("/people", data=data).status_code == 401
    other = Browser(c, people["Wim"])
    assert (
        browser.post(
            "/people", {**data, "form_token": other.site.signer.form_token(other.session)}
        ).status_code
        == 401
    )
    for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert browser.post("/people", data, headers=headers).status_code == 403
    assert browser.client.post("/people", json=data).status_code == 415
    assert browser.post("/people", data, headers={"origin": BASE}).status_code == 303
    assert [p.name for p in c.people() if p.name == "New"] == ["New"]


def test_another_host_name_is_refused_on_loopback(
    fresh: tuple[Collection, dict[str, Person]],
) -> None:
    browser = Browser(fresh[0])
    assert browser.get("/", headers={"host": "evil.example"}).status_code == 421
    for host in ("localhost:80", "127.0.0.1", "[::1]:9", "[::1]"):
        assert browser.get("/", headers={"host": host}).status_code == 401


def test_beyond_loopback_nothing_answers_without_the_token(
    fresh: tuple[Collection, dict[str, Person]],
) -> None:
    c, people = fresh
    token = "-".join(["a", "long", "access", "token"])
    client = TestClient(
        build_app(c, token), base_url="http://lab.example:80", follow_redirects=False
    )
    for route in ROUTES:
        address = re.sub(r"\{\w+\}", "x", route.path)
        for query in ("", "?token=wrong", "?token="):
            answer = client.request(route.method, address + query)
            assert (answer.status_code, "access token" in answer.text) == (401, True)
    assert client.get("/static/collect.js").status_code == 401
    link = Site(c, token).link(people["Ann"], "http://lab.example:80")
    answer = client.get(link)
    assert answer.status_code == 303
    assert "token" not in answer.headers["location"], "the token leaves the address at once"
    elsewhere = client.get(f"http://lab.example:80//evil.example/x?token={token}").headers[
        "location"
    ]
    assert elsewhere == "/evil.example/x", "two slashes would name another host"
    assert client.get(answer.headers["location"]).status_code == 303
    assert client.get("/").status_code == 200


def test_bodies_that_are_too_large_are_refused(fresh: tuple[Collection, dict[str, Person]]) -> None:
    c, people = fresh
    browser = Browser(c, people["Olga"])
    answer = browser.post("/people", {"name": "x" * (LARGEST_BODY + 1), "role": "writer"})
    assert (answer.status_code, "nothing was saved" in answer.text) == (413, True)

    def pieces() -> Iterator[bytes]:
        for _ in range(30):
            yield b"x" * 100_000

    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = browser.client.post(
        "/people", content=pieces(), headers=headers
    )  # no length is stated
    assert answer.status_code == 413
    assert browser.get("/" + "x" * 10_000).status_code == 414


HOSTILE = (
    "<script>alert(1)</script>\x00\x1b[2J\u202ethis garden\u2066 &amp; ' \" </textarea> {{7*7}} {%"
    " raw %}?"
)


def test_hostile_text_is_shown_and_never_executed(
    fresh: tuple[Collection, dict[str, Person]],
) -> None:
    c, people = fresh
    owner = Browser(c, people["Olga"])
    assert (
        owner.post("/people", {"name": "<b onclick=x>Eve</b>\u202e", "role": "writer"}).status_code
        == 303
    )
    page = owner.get("/people").text
    assert "&lt;b onclick=x&gt;Eve&lt;/b&gt;" in page
    assert "\u202e" not in page
    writer = Browser(c, people["Wim"])
    answer = writer.post(
        "/write",
        {"question": f"Is {HOSTILE}", "domain": "gardens", "ticket": "t", "format": "yes/no"},
    )
    assert answer.status_code == 422
    assert "<script>alert" not in answer.text
    assert "\x00" not in answer.text
    assert "{{7*7}}" in answer.text
    notice = writer.get("/write?notice=<script>alert(1)</script>").text
    assert "<script>alert" not in notice


def test_hostile_documents_are_text_on_every_page(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir(parents=True)
    for number in range(3):
        text = (
            f"<script>alert({number})</script> Dogs \x1b[2Jare \u202eallowed\u2066 in the garden"
            " {{7*7}} </div>\x00 " * 5
        )
        (tmp_path / "documents" / f"{number}.md").write_text(
            f"# <img src=x onerror=alert({number})>\n\n{text}"
        )
    c = open_project(
        tmp_path, domains=[{"name": "gardens", "entity": "this garden", "documents": "documents"}]
    )
    people = add_people(c)
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    item = next(c.store.each(Item))
    for name, address in (
        ("Ann", f"/annotate/{item.id}"),
        ("Wim", "/write"),
        ("Olga", "/passages"),
        ("Olga", "/log"),
    ):
        page = Browser(c, people[name]).get(address).text
        assert not re.search("<script>alert|<img|\x1b|\x00|\u202e|\u2066", page)
    assert "&lt;script&gt;alert" in Browser(c, people["Ann"]).get(f"/annotate/{item.id}").text
    c.close()


def test_the_start_page_shows_the_progress_of_each_person_and_of_all(
    project: tuple[Collection, dict[str, Person]],
) -> None:
    c, people = project
    page = re.sub(r"<[^>]*>|\s+", " ", Browser(c, people["Olga"]).get("/").text)
    items = c.store.stages(Item)
    total, done = sum(items.values()), items.get("agreed", 0) + items.get("decided", 0)
    assert re.search(rf"{done} of {total} items have a final answer", page)
    assert re.search(r"Ann +annotator +0 +56 ", page)
    assert re.search(r"Wim +writer +9 +0 ", page)
    assert "Ann" not in re.sub(r"<[^>]*>", " ", Browser(c, people["Abe"]).get("/").text), (
        "others' progress is the owners' affair"
    )


def test_writers_see_the_criteria_the_examples_and_some_entities(tmp_path: Path) -> None:
    domain = {
        "name": "gardens",
        "entity": "this garden",
        "documents": "documents/gardens",
        "good": ["Are dogs allowed in this garden?"],
        "bad": ["Is this garden nice? (no passage says it)"],
    }
    c = open_project(tmp_path, domains=[domain], instructions={"writer": "Write before you read."})
    people = add_people(c)
    page = Browser(c, people["Wim"]).get("/write").text
    for text in (
        "answered from a passage",
        "not one of them",
        "not nearly always yes",
        "Alder Hollow Garden",
    ):
        assert text in page
    for text in (
        "Are dogs allowed in this garden?",
        "Is this garden nice? (no passage says it)",
        "Write before you read.",
    ):
        assert text in page
    c.close()


def test_a_name_is_all_that_is_kept_of_a_person(
    project: tuple[Collection, dict[str, Person]],
) -> None:
    c, people = project
    Browser(c, people["Ann"]).get(
        "/", headers={"user-agent": "curious/1.0", "x-forwarded-for": "203.0.113.9"}
    )
    assert set(to_json(people["Ann"])) == {"id", "name", "roles", "link", "qualified"}
    data = b"".join(path.read_bytes() for path in c.folder.glob("collect.sqlite*"))
    assert b"curious/1.0" not in data
    assert b"203.0.113.9" not in data


def test_two_reviewers_at_once(fresh: tuple[Collection, dict[str, Person]]) -> None:
    c, people = fresh
    Browser(c, people["Wim"]).post(
        "/write",
        {
            "question": "Are dogs allowed in this garden?",
            "domain": "gardens",
            "ticket": "t",
            "format": "yes/no",
        },
    )
    task = next(c.store.each(CollectedTask))
    other = c.add_person(people["Olga"].id, "Rob", ["reviewer"])
    one, two = Browser(c, people["Rita"]), Browser(c, other)
    assert 'name="version" value="1"' in one.get(f"/review/{task.id}").text
    assert (
        one.post(f"/review/{task.id}", {"version": "1", "decision": "approve"}).status_code == 303
    )
    answer = two.post(f"/review/{task.id}", {"version": "1", "decision": "return", "reason": "no"})
    assert answer.status_code == 409
    assert next(c.store.each(CollectedTask)).state == "approved"


def test_an_annotator_goes_through_items_and_sees_nobody_elses_answer(
    fresh: tuple[Collection, dict[str, Person]],
) -> None:
    c, people = fresh
    write_base_tasks(c, people, 2)
    gather_passages(c, people["Olga"].id)
    ann, abe = Browser(c, people["Ann"]), Browser(c, people["Abe"])
    first = ann.get("/annotate").headers["location"]
    page = ann.get(first).text
    spans = 'id="spans"' in page
    data = (
        {"version": "0", "opened": "1", "seconds": "2.5", "spans": "0-6"}
        if spans
        else {"version": "0", "choice": "yes"}
    )
    assert ann.post(first, data).headers["location"].startswith("/annotate?last=")
    again = ann.post(first, data, headers={"accept": "application/json"})
    assert again.json()["next"].startswith("/annotate")
    assert c.store.count(GivenAnswer) == 1
    assert "checked" not in abe.get(first).text
    assert abe.get("/annotate").headers["location"] == first
    second = ann.get("/annotate").headers["location"]
    assert second != first
    assert "You have answered this item before" in ann.get(first).text
    problem = ann.post(second, {"version": "0"}, headers={"accept": "application/json"})
    assert problem.status_code == 422
    assert problem.json()["error"]


def test_a_full_disk_is_reported_and_the_form_can_be_sent_again(
    fresh: tuple[Collection, dict[str, Person]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    c, people = fresh
    browser = Browser(c, people["Olga"])

    def full(*_: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("taskloom.apps.collect.event_store._apply", full)
        answer = browser.post("/people", {"name": "New", "role": "writer"})
    assert answer.status_code == 507
    assert "Nothing was saved" in answer.text
    assert browser.post("/people", {"name": "New", "role": "writer"}).status_code == 303
    assert c.store.check() == []


def test_the_owner_undoes_a_change_and_downloads_the_log(
    fresh: tuple[Collection, dict[str, Person]],
) -> None:
    c, people = fresh
    browser = Browser(c, people["Olga"])
    browser.post("/people", {"name": "Mistake", "role": "writer"})
    number = next(c.store.events()).number
    assert browser.post(f"/log/{number}/undo").status_code == 303
    assert all(p.name != "Mistake" for p in c.people())
    assert browser.post(f"/log/{number}/undo").status_code == 409
    assert browser.post("/log/99999/undo").status_code == 404
    lines = browser.get("/log.jsonl").text.splitlines()
    assert len(lines) == len(list(c.store.events()))


def test_an_owner_exports_from_the_page(project: tuple[Collection, dict[str, Person]]) -> None:
    c, people = project
    browser = Browser(c, people["Olga"])
    assert browser.post("/export", {"name": "../evil"}).status_code == 422
    assert browser.post("/export", {"name": "first"}).status_code == 303
    assert (c.folder / "exports" / "first" / "zest" / "test.jsonl").is_file()
    assert browser.post("/export", {"name": "first"}).status_code == 422


def test_signing_out_ends_the_session_on_the_server(
    fresh: tuple[Collection, dict[str, Person]],
) -> None:
    c, people = fresh
    browser, elsewhere = Browser(c, people["Wim"]), Browser(c, people["Wim"])
    copied = browser.session
    assert browser.get("/write").status_code == 200
    assert browser.post("/leave").status_code == 303
    browser.client.cookies.set(browser.site.cookie, copied)
    assert browser.get("/write").status_code == 401
    assert elsewhere.get("/write").status_code == 200, "another browser's session goes on"
    later = Browser(c)
    later.client.cookies.set(browser.site.cookie, copied)
    assert later.get("/write").status_code == 401, "also for a server that starts later"
