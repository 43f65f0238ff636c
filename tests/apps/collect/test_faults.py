"""A real server that is killed, flooded with a large body, or asked nonsense."""

from __future__ import annotations

import http.client
import random
import re
import threading
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from taskloom.apps.collect.annotation import gather_passages
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.records import GivenAnswer, Item, Person
from taskloom.apps.collect.web.site import ROUTES, Site, build_app
from tests.apps.collect.projects import add_people, open_project, write_base_tasks, write_variants
from tests.apps.collect.servers import RunningServer, Visitor


def ready(folder: Path, **changes: object) -> tuple[Collection, dict[str, Person]]:
    """Open a project whose items wait for answers."""
    c = open_project(folder, **changes)
    people = add_people(c)
    write_variants(c, people, write_base_tasks(c, people))
    gather_passages(c, people["Olga"].id)
    return c, people


def answer_until_killed(visitor: Visitor, acknowledged: list[tuple[str, str]], person: str) -> None:
    """Answer items with n/a as fast as the server allows; note what it acknowledged."""
    try:
        while True:
            _, _, address = visitor.get("/annotate")
            if not address:
                return
            item = address.partition("?")[0].removeprefix("/annotate/")
            status, _ = visitor.post(f"/annotate/{item}", {"version": "0", "choice": "n/a"})
            if status == 200:
                acknowledged.append((item, person))
    except (OSError, http.client.HTTPException):
        return


def kill_and_check(folder: Path, kills: int, seed: int, writers: int = 3, load: int = 1) -> int:
    """Kill a server at random moments while people answer, each time after at least `load` answers;
    return how many answers were acknowledged.
    """
    rng = random.Random(seed)
    # Enough items that nobody runs out of work: each wants the answers of up to 25 people.
    c, people = ready(folder, passages=8, annotators=min(writers, 25))
    answering = [people[name] for name in ("Ann", "Abe", "Ada")]
    for number in range(len(answering), writers):
        answering.append(c.add_person(people["Olga"].id, f"Writer {number}", ["annotator"]))
    acknowledged: list[tuple[str, str]] = []
    for _ in range(kills):
        server = RunningServer(folder)
        threads = [
            threading.Thread(
                target=answer_until_killed,
                args=(Visitor(c, person, server.port), acknowledged, person.id),
            )
            for person in answering
        ]
        for thread in threads:
            thread.start()
        before = len(acknowledged)
        patience = time.monotonic() + 60  # on a busy machine the first answer takes a while
        while (
            len(acknowledged) < before + load
            and any(t.is_alive() for t in threads)
            and time.monotonic() < patience
        ):
            time.sleep(0.01)
        time.sleep(0.3 * rng.random())
        server.kill()
        for thread in threads:
            thread.join(30)
        assert not any(t.is_alive() for t in threads)
        again = Collection(folder)
        saved = {(a.item, a.person) for a in again.store.each(GivenAnswer)}
        assert set(acknowledged) <= saved, "an answer was acknowledged and is gone"
        assert len(acknowledged) == len(set(acknowledged)), "an answer was taken twice"
        assert again.store.check() == []
        for item in again.store.each(Item):
            assert item.answered == sum(i == item.id for i, _ in saved)
        again.close()
    c.close()
    return len(acknowledged)


def test_a_killed_server_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    assert kill_and_check(tmp_path, 1, 0) > 0


@pytest.mark.slow
def test_twenty_kills_under_fifty_writers_lose_nothing(tmp_path: Path) -> None:
    assert kill_and_check(tmp_path, 20, 1, writers=50, load=20) >= 400


def test_a_copied_cookie_is_worth_nothing_after_signing_out(tmp_path: Path) -> None:
    c, people = ready(tmp_path)
    server = RunningServer(tmp_path)
    try:
        visitor, thief = (Visitor(c, people["Wim"], server.port) for _ in range(2))
        elsewhere = thief.cookie
        thief.cookie = visitor.cookie
        thief.form_token = visitor.form_token
        assert thief.get("/write")[0] == 200
        assert visitor.post("/leave", {})[0] in (200, 303)
        assert thief.get("/write")[0] == 401
        assert thief.post("/write", {"question": "Is it?"})[0] == 401
        thief.cookie = elsewhere
        assert thief.get("/write")[0] == 200, "another session of the same person goes on"
        server.kill()
        server = RunningServer(tmp_path)
        assert Visitor(c, people["Wim"], server.port).get("/write")[0] == 200
        later = Visitor(c, people["Wim"], server.port)
        later.cookie = visitor.cookie
        assert later.get("/write")[0] == 401, "also after the server was killed"
    finally:
        server.stop()
        c.close()


@pytest.mark.slow
def test_a_body_of_100_mb_gets_a_clear_answer_and_takes_no_memory(tmp_path: Path) -> None:
    c, people = ready(tmp_path)
    server = RunningServer(tmp_path)
    try:
        visitor = Visitor(c, people["Olga"], server.port)
        visitor.get("/")
        before = server.memory()
        status, reply = visitor.post("/people", {"name": "x" * 100_000_000, "role": "writer"})
        assert status == 413
        assert "nothing was saved" in reply["error"]
        assert server.memory() - before < 30_000_000
        assert Visitor(c, people["Olga"], server.port).get("/people")[0] == 200
    finally:
        server.stop()
        c.close()


@pytest.mark.slow
def test_a_disk_that_fills_up_keeps_what_was_saved(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the server's database cannot grow beyond
    it.
    """
    import resource

    c, people = ready(tmp_path)
    c.close()  # merges what SQLite has written ahead into the database file
    size = (tmp_path / "collect.sqlite").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1_000_000, hard))
    try:
        server = RunningServer(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    try:
        visitor = Visitor(c, people["Olga"], server.port)
        statuses = [
            visitor.post("/people", {"name": f"Person {n}", "role": "writer"})[0]
            for n in range(800)
        ]
        assert statuses[0] == 200
        assert statuses[-1] == 507, statuses[-1]
        assert set(statuses) == {200, 507}
        assert visitor.get("/people")[0] == 200
    finally:
        server.stop()
    again = Collection(tmp_path)
    assert sum(p.name.startswith("Person") for p in again.people()) == statuses.count(200)
    assert again.store.check() == []
    again.close()
    c.close()


WORDS = [
    "", "0", "-1", "1", "999999999999999999999", "yes", "no", "n/a", "span", "\x00", "\ud800", "💥" * 50, "<script>", "a" * 5000,
    "../../etc/passwd", "0-5", "5-1,7-9", "0-99999999", "null", "[]", "{}", "%", "approve", "return", "remove", "writer", "owner",
    "nan", "inf", "1e309", "\r\nSet-Cookie: x=y", "' OR 1=1 --",
]  # fmt: skip

FIELDS = [
    "version", "choice", "spans", "typed", "key0", "key1", "key2", "seconds", "opened", "question", "domain", "format", "ticket",
    "sure", "decision", "reason", "name", "role", "take", "base", "offered", "main", "name1", "values1", "complete1", "turn",
    "allowed", "despite", "suggested", "variant", "part", "before", "notice", "last",
]  # fmt: skip


EXPORTS = {("GET", "/export"), ("POST", "/export")}
"""Routes that make and audit a dataset, which takes a second: they are asked seldom."""


def fuzz(folder: Path, requests: int, seed: int, exports: int = 0) -> None:
    """Ask every route for nonsense as every role; no answer is a 500, and the log stays sound."""
    c, people = ready(folder)
    rng = random.Random(seed)
    known = [*(i.id for i in c.store.each(Item)), *(p.id for p in c.people())]
    parts = (
        [w for w in WORDS if not re.search(r"[\x00\ud800\r%/]", w)]
        + known * 3
        + ["paraphrase", "structure", "1"]
    )
    site, app = Site(c), build_app(c)
    roles = {n: site.signer.token(people[n], "session") for n in ("Olga", "Wim", "Ann", "Rita")}
    routes = [r for r in ROUTES if (r.method, r.path) not in EXPORTS]
    turns = [rng.choice(routes) for _ in range(requests)]
    turns += [
        rng.choice([r for r in ROUTES if (r.method, r.path) in EXPORTS]) for _ in range(exports)
    ]
    rng.shuffle(turns)
    with TestClient(
        app, base_url="http://127.0.0.1", follow_redirects=False, raise_server_exceptions=True
    ) as client:
        for route in turns:
            fitting = [n for n in roles if set(people[n].roles) & set(route.roles)] or list(roles)
            session = roles[rng.choice(fitting)]
            path = re.sub(r"\{\w+\}", lambda _: rng.choice(parts) or "x", route.path)
            data = {
                f: [rng.choice(WORDS + known) for _ in range(rng.randint(1, 3))]
                for f in rng.sample(FIELDS, rng.randint(0, 12))
            }
            data["form_token"] = [site.signer.form_token(session)]
            plain = {
                f: [v.encode("utf-8", "replace").decode() for v in values]
                for f, values in data.items()
            }
            headers = {
                "cookie": f"{site.cookie}={session}",
                "accept": rng.choice(["*/*", "application/json"]),
            }
            if route.method == "POST":
                answer = client.post(path, data=plain, headers=headers)
            else:
                answer = client.get(path, params=plain, headers=headers)
            assert answer.status_code < 500, (route.method, path, plain, answer.text[:300])
    assert c.store.check() == []
    c.close()


def test_nonsense_gives_no_server_error(tmp_path: Path) -> None:
    fuzz(tmp_path, 250, 0, exports=2)


@pytest.mark.slow
def test_much_nonsense_gives_no_server_error(tmp_path: Path) -> None:
    fuzz(tmp_path, 8_000, 1, exports=60)
