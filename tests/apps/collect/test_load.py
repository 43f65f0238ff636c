"""Many people at once, and a project with many items."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from taskloom.apps.collect.annotation import gather_passages
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.records import CollectedTask, GivenAnswer, Item, Person
from taskloom.apps.collect.web.site import Site, build_app
from tests.apps.collect.projects import add_people, open_project, write_base_tasks
from tests.apps.collect.servers import RunningServer, Visitor

PEOPLE = 50
SECONDS = 60.0
PAUSE = 1.0
"""Between two answers of one person: faster than anybody reads a passage."""


def many_items(c: Collection, people: dict[str, Person], count: int) -> None:
    """Add items to the first task without searching for passages."""
    first = next(c.store.each(Item))
    for start in range(0, count, 5_000):
        with c.store.change(people["Olga"].id, "passages") as change:
            for number in range(start, min(count, start + 5_000)):
                change.put(
                    Item(f"many-{number:06d}", first.task, first.document, first.start, first.end)
                )


def work(visitor: Visitor, until: float, times: list[float], acknowledged: list[str]) -> None:
    while time.monotonic() < until:
        began = time.monotonic()
        _, _, address = visitor.get("/annotate")
        visitor.get(address)
        item = address.partition("?")[0].removeprefix("/annotate/")
        middle = time.monotonic()
        status, _ = visitor.post(
            f"/annotate/{item}", {"version": "0", "choice": "yes", "spans": "0-4"}
        )
        end = time.monotonic()
        times += [(middle - began) / 2, end - middle]
        if status == 200:
            acknowledged.append(item)
        time.sleep(PAUSE)


@pytest.mark.slow
def test_fifty_annotators_for_a_minute(tmp_path: Path) -> None:
    c = open_project(tmp_path)
    people = add_people(c)
    write_base_tasks(c, people, 2)
    gather_passages(c, people["Olga"].id)
    many_items(c, people, 3_000)
    crowd = [
        c.add_person(people["Olga"].id, f"Annotator {n}", ["annotator"]) for n in range(PEOPLE)
    ]
    server = RunningServer(tmp_path)
    times: list[float] = []
    answers: dict[str, list[str]] = {p.id: [] for p in crowd}
    try:
        until = time.monotonic() + SECONDS
        threads = [
            threading.Thread(
                target=work, args=(Visitor(c, p, server.port), until, times, answers[p.id])
            )
            for p in crowd
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS + 60)
    finally:
        server.stop()
    times.sort()
    p95 = times[int(0.95 * len(times))]
    counted = sum(map(len, answers.values()))
    print(
        f"{counted} answers, median {1e3 * times[len(times) // 2]:.1f} ms, p95 {1e3 * p95:.1f} ms"
    )
    saved = sorted((a.person, a.item) for a in c.store.each(GivenAnswer))
    assert saved == sorted((p, i) for p, items in answers.items() for i in items), (
        "an answer was lost or doubled"
    )
    assert len(saved) > PEOPLE * 10
    assert all(i.answered <= 3 for i in c.store.each(Item))
    assert c.store.check() == []
    assert p95 < 0.2
    c.close()


@pytest.mark.slow
def test_the_first_page_of_a_project_with_100_000_items(tmp_path: Path) -> None:
    c = open_project(tmp_path)
    people = add_people(c)
    write_base_tasks(c, people, 2)
    gather_passages(c, people["Olga"].id)
    many_items(c, people, 100_000)
    task = next(t for t in c.store.each(CollectedTask))
    for number in range(0, 30_000, 1_000):  # an annotator far into the work
        with c.store.change(people["Ann"].id, "answer") as change:
            for n in range(number, number + 1_000):
                change.put(
                    GivenAnswer(
                        f"many-{n:06d}/{people['Ann'].id}",
                        f"many-{n:06d}",
                        people["Ann"].id,
                        "yes",
                        1.0,
                    )
                )
    assert task
    site = Site(c)
    client = TestClient(build_app(c), base_url="http://127.0.0.1", follow_redirects=False)
    for name, address in (
        ("Olga", "/"),
        ("Ann", "/"),
        ("Ann", "/annotate"),
        ("Rita", "/"),
        ("Olga", "/log"),
        ("Olga", "/passages"),
    ):
        headers = {"cookie": f"{site.cookie}={site.signer.token(people[name], 'session')}"}
        client.get(address, headers=headers)
        began = time.perf_counter()
        assert client.get(address, headers=headers).status_code in (200, 303)
        spent = time.perf_counter() - began
        print(f"{name} {address}: {1e3 * spent:.0f} ms")
        assert spent < 0.3, (name, address, spent)
    c.close()
