"""People and machines at their worst: races, changes in mid-session, undo at the wrong time, torn
files, names that deceive.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from taskloom.apps.collect.annotation import (
    EnteredAnswer,
    Leases,
    gather_passages,
    next_item,
    save_answer,
    settle_answered,
)
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.errors import CollectError, ConflictError, ForbiddenError
from taskloom.apps.collect.event_store import EventStore
from taskloom.apps.collect.export import export
from taskloom.apps.collect.records import CollectedTask, GivenAnswer, Item, Person
from taskloom.apps.collect.task_workflow import (
    Wording,
    offer_base,
    offer_triple,
    review,
    submit_base,
)
from taskloom.apps.collect.undo import undo
from tests.apps.collect.projects import (
    BASES,
    SETTINGS,
    add_people,
    adjudicate_all,
    annotate_all,
    open_project,
    write_base_tasks,
    write_project,
    write_variants,
)
from tests.apps.collect.test_web import Browser

Round = tuple[Collection, dict[str, Person]]


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Round]:
    c = open_project(tmp_path / "project")
    yield c, add_people(c)
    c.close()


@pytest.fixture
def ready(fresh: Round) -> Round:
    """A project with two questions and their passages."""
    c, people = fresh
    write_base_tasks(c, people, 2)
    gather_passages(c, people["Olga"].id)
    return c, people


def at_once(*actions: Callable[[], Any]) -> list[Any]:
    """Run actions in threads that begin together; return what each returned or raised."""
    barrier = threading.Barrier(len(actions))
    results: list[Any] = [None] * len(actions)

    def run(number: int) -> None:
        barrier.wait(10)
        try:
            results[number] = actions[number]()
        except CollectError as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results


def last_event(c: Collection, what: str) -> int:
    return next(e.number for e in c.store.events() if e.what == what)


# Races.


def test_of_reviewers_who_decide_together_one_wins(fresh: Round) -> None:
    c, people = fresh
    reviewers = [c.add_person(people["Olga"].id, f"R{n}", ["reviewer"]) for n in range(6)]
    task = submit_base(c, people["Wim"], "t", "gardens", Wording(BASES[0][0])).task
    assert task is not None
    decisions = ["approve", "return", "remove"] * 2
    results = at_once(
        *(
            lambda r=r, d=d: review(c, r, task.id, 1, d, "why")
            for r, d in zip(reviewers, decisions, strict=True)
        )
    )
    winners = [r for r in results if isinstance(r, CollectedTask)]
    assert len(winners) == 1
    assert all(isinstance(r, ConflictError) for r in results if r not in winners)
    assert c.store.need(CollectedTask, task.id).value == winners[0]


def test_base_tasks_that_are_approved_together_get_places_of_their_own(fresh: Round) -> None:
    c, people = fresh
    tasks = [
        submit_base(c, people["Wim"], str(n), "gardens", Wording(question, format, sure=True)).task  # type: ignore[arg-type]
        for n, (question, format) in enumerate(BASES)
    ]
    results = at_once(*(lambda t=t: review(c, people["Rita"], t.id, 1, "approve") for t in tasks))
    assert sorted(t.slot for t in results) == list(range(10))
    assert sorted(t.split for t in results) == ["dev"] + ["test"] * 5 + ["train"] * 4


def test_an_answer_too_many_does_not_unsettle_an_item(ready: Round) -> None:
    c, people = ready
    late = c.add_person(people["Olga"].id, "Late", ["annotator"])
    item = next(
        i
        for i in c.store.each(Item)
        if c.store.need(CollectedTask, i.task).value.format == "yes/no"
    )
    page = Browser(c, late)
    assert page.get(f"/annotate/{item.id}").status_code == 200, (
        "it was open when the page was loaded"
    )
    for name, choice in (("Ann", "yes"), ("Abe", "yes"), ("Ada", "no")):
        save_answer(c, people[name], item.id, EnteredAnswer(choice=choice), 1, 0)
    answer = page.post(f"/annotate/{item.id}", {"version": "0", "choice": "no"})
    assert (answer.status_code, "all the answers that it needs" in answer.text) == (409, True)
    assert c.store.need(Item, item.id).value.state == "agreed"
    # Whoever has answered can still correct the own answer.
    save_answer(c, people["Ada"], item.id, EnteredAnswer(choice="yes"), 1, 1)
    assert [a.value for a in c.store.each(GivenAnswer, parent=item.id)] == ["yes"] * 3


def test_passages_that_are_gathered_anew_take_no_answer_to_the_old_ones(fresh: Round) -> None:
    c, people = fresh
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    item = next(c.store.each(Item))
    ann = Browser(c, people["Ann"])
    seen = ann.get(f"/annotate/{item.id}").text.split('name="seen" value="')[1].split('"')[0]
    undo(c, people["Olga"].id, last_event(c, "passages"))
    assert (
        ann.post(
            f"/annotate/{item.id}", {"version": "0", "choice": "yes", "seen": seen}
        ).status_code
        == 404
    )
    assert c.store.count(Item) == 0
    with c.store.change(people["Olga"].id, "passages") as change:
        change.put(Item(item.id, item.task, item.document, item.start, item.end - 10))
    answer = ann.post(f"/annotate/{item.id}", {"version": "0", "choice": "yes", "seen": seen})
    assert (answer.status_code, "another passage" in answer.text) == (409, True)
    assert c.store.count(GivenAnswer) == 0


def test_an_export_during_another_one_is_refused(
    fresh: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    c, people = fresh
    owner = Browser(c, people["Olga"])
    inside, leave = threading.Event(), threading.Event()

    def slow(*_: Any, **__: Any) -> None:
        inside.set()
        leave.wait(20)

    with monkeypatch.context() as patch:
        patch.setattr("taskloom.apps.collect.web.owner_pages.export", slow)
        first = threading.Thread(target=owner.post, args=("/export", {"name": "one"}))
        first.start()
        assert inside.wait(20)
        answer = owner.post("/export", {"name": "one"})
        assert (answer.status_code, "being written already" in answer.text) == (409, True)
        leave.set()
        first.join(20)
        assert owner.post("/export", {"name": "two"}).status_code == 303


# Changes in mid-session.


def test_a_role_that_is_taken_away_counts_at_once(ready: Round) -> None:
    c, people = ready
    rita, ann = Browser(c, people["Rita"]), Browser(c, people["Ann"])
    task = submit_base(c, people["Wim"], "x", "gardens", Wording(BASES[5][0], sure=True)).task
    assert task is not None
    item = next(c.store.each(Item))
    assert rita.get(f"/review/{task.id}").status_code == 200
    assert ann.get(f"/annotate/{item.id}").status_code == 200
    c.change_roles(people["Olga"].id, people["Rita"].id, ["writer"], 1)
    c.change_roles(people["Olga"].id, people["Ann"].id, ["reviewer"], 1)
    assert (
        rita.post(f"/review/{task.id}", {"version": "1", "decision": "approve"}).status_code == 403
    )
    assert ann.post(f"/annotate/{item.id}", {"version": "0", "choice": "yes"}).status_code == 403
    assert ann.get("/review").status_code == 200
    assert "/annotate" not in ann.get("/").text


def test_a_renewed_link_ends_the_sessions_of_others_and_keeps_the_owners_own(fresh: Round) -> None:
    c, people = fresh
    owner, ann = Browser(c, people["Olga"]), Browser(c, people["Ann"])
    elsewhere = Browser(c, people["Olga"])
    assert owner.post(f"/people/{people['Ann'].id}/link").status_code == 303
    refused = ann.post("/annotate/x", {"choice": "yes"}, headers={"accept": "application/json"})
    assert (refused.status_code, "open your personal link again" in refused.json()["error"]) == (
        401,
        True,
    )
    answer = owner.post(f"/people/{people['Olga'].id}/link")
    assert "no longer work" in owner.get(answer.headers["location"]).text
    assert elsewhere.get("/people").status_code == 401


def test_nobody_works_without_having_qualified(tmp_path: Path) -> None:
    items = [
        {"question": "Is it open today?", "passage": "It is open on all days.", "answer": "yes"}
    ]
    c = open_project(tmp_path, qualification={"share": 1.0, "items": items})
    people = add_people(c)
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    work = next(c.store.each(Item, stage="open"))
    ann = Browser(c, people["Ann"])
    for answer in (
        ann.get(f"/annotate/{work.id}"),
        ann.post(f"/annotate/{work.id}", {"version": "0", "choice": "yes"}),
    ):
        assert (answer.status_code, "qualification items first" in answer.text) == (403, True)
    assert c.store.count(GivenAnswer) == 0
    known = next(c.store.each(Item, stage="qualification"))
    assert ann.post(f"/annotate/{known.id}", {"version": "0", "choice": "yes"}).status_code == 303
    assert ann.post(f"/annotate/{work.id}", {"version": "0", "choice": "yes"}).status_code == 303
    c.close()


def test_corrected_qualification_items_take_the_place_of_the_old_ones(tmp_path: Path) -> None:
    wrong = {"question": "Is it open today?", "passage": "It is open on all days.", "answer": "no"}
    c = open_project(tmp_path, qualification={"share": 1.0, "items": [wrong]})
    people = add_people(c)
    abe = people["Abe"]
    save_answer(
        c, abe, next(c.store.each(Item, stage="qualification")).id, EnteredAnswer(choice="no"), 1, 0
    )
    assert c.store.need(Person, abe.id).value.qualified == "passed"
    c.close()
    write_project(tmp_path, qualification={"share": 1.0, "items": [{**wrong, "answer": "yes"}]})
    c = Collection(tmp_path)
    (item,) = c.store.each(Item, stage="qualification")
    assert item.known is not None
    assert item.known["answer"] == "yes"
    save_answer(c, people["Ann"], item.id, EnteredAnswer(choice="yes"), 1, 0)
    assert c.store.need(Person, people["Ann"].id).value.qualified == "passed"
    assert c.store.check() == []
    c.close()


def test_items_are_settled_when_the_project_asks_for_fewer_annotators(tmp_path: Path) -> None:
    c = open_project(tmp_path)
    people = add_people(c)
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    for item in list(c.store.each(Item)):
        for name in ("Ann", "Abe"):
            save_answer(c, people[name], item.id, EnteredAnswer(choice="yes"), 1, 0)
    c.close()
    write_project(tmp_path, annotators=2)
    c = Collection(tmp_path)
    assert settle_answered(c) == 4
    assert {i.state for i in c.store.each(Item)} == {"agreed"}
    events = len(list(c.store.events()))
    assert settle_answered(c) == 0
    assert len(list(c.store.events())) == events
    assert next_item(c, people["Ada"], Leases()) is None
    c.close()


def test_a_domain_that_leaves_the_project_file_stops_nobody(tmp_path: Path) -> None:
    museums = {"name": "museums", "entity": "this museum", "documents": "documents/museums.jsonl"}
    c = open_project(tmp_path, domains=[*SETTINGS["domains"], museums])
    people = add_people(c)
    write_base_tasks(c, people, 10)
    c.close()
    write_project(tmp_path, domains=[museums])
    c = Collection(tmp_path)
    assert gather_passages(c, people["Olga"].id) == []
    assert offer_base(c, people["Wim"], "paraphrase", 0) is None
    assert offer_triple(c, people["Wim"], 0) == ()
    for name, address in (
        ("Wim", "/vary/paraphrase"),
        ("Wim", "/write"),
        ("Olga", "/passages"),
        ("Rita", "/review"),
    ):
        assert Browser(c, people[name]).get(address).status_code == 200
    c.close()


# Undo.


def test_what_others_stand_on_is_not_undone(fresh: Round) -> None:
    c, people = fresh
    owner = people["Olga"].id
    bases = write_base_tasks(c, people)
    approvals = [e.number for e in c.store.events(oldest_first=True) if e.what == "review: approve"]
    write_variants(c, people, bases)
    dogs = approvals[0]
    with pytest.raises(ConflictError, match="passages or variants"):
        undo(c, owner, dogs)
    with pytest.raises(ConflictError, match="passages or variants"):
        review(c, people["Rita"], bases[0].id, 2, "remove")
    gather_passages(c, owner)
    for number in approvals:
        with pytest.raises(ConflictError, match="passages or variants"):
            undo(c, owner, number)
    added = {e.note: e.number for e in c.store.events() if e.what == "person"}
    with pytest.raises(ConflictError, match="Wim has written questions or answers"):
        undo(c, owner, added["added Wim"])
    with pytest.raises(CollectError, match="last owner"):
        undo(c, owner, added["added Olga"])
    undo(c, owner, added["added Abe"])
    for what in ("corpus", "project"):
        with pytest.raises(CollectError, match="what the server read at its start"):
            undo(c, owner, last_event(c, what))
    assert c.store.check() == []


def test_undo_leaves_an_owner_and_no_old_link(fresh: Round) -> None:
    c, people = fresh
    second = c.add_person(people["Olga"].id, "Second", ["writer"])
    c.change_roles(people["Olga"].id, second.id, ["owner"], 1)
    made_owner = last_event(c, "roles")
    c.change_roles(second.id, people["Olga"].id, ["writer"], 1)
    with pytest.raises(CollectError, match="last owner"):
        undo(c, second.id, made_owner)
    c.renew_link(second.id, people["Ann"].id)
    with pytest.raises(CollectError, match="stays invalid"):
        undo(c, second.id, last_event(c, "link"))


def test_changes_are_undone_one_after_another_and_done_again(ready: Round) -> None:
    c, people = ready
    owner = people["Olga"].id
    item = next(
        i
        for i in c.store.each(Item)
        if c.store.need(CollectedTask, i.task).value.format == "yes/no"
    )
    save_answer(c, people["Ann"], item.id, EnteredAnswer(choice="yes"), 1, 0)
    first = last_event(c, "answer")
    save_answer(c, people["Ann"], item.id, EnteredAnswer(choice="no"), 1, 1)
    second = last_event(c, "answer")
    with pytest.raises(ConflictError, match="changed later"):
        undo(c, owner, first)
    undo(c, owner, second)
    took_back = last_event(c, "undo")
    undo(c, owner, first)
    assert c.store.count(GivenAnswer) == 0
    assert c.store.need(Item, item.id).value.answered == 0
    save_answer(c, people["Abe"], item.id, EnteredAnswer(choice="no"), 1, 0)
    undo(c, owner, last_event(c, "undo"))  # the answer is there again, beside Abe's
    assert sorted(a.value for a in c.store.each(GivenAnswer)) == ["no", "yes"]
    assert c.store.need(Item, item.id).value.answered == 2
    undo(c, owner, took_back)
    assert [a.value for a in c.store.each(GivenAnswer)] == ["no", "no"]
    assert c.store.check() == []


def test_undo_after_an_export_changes_the_next_one_only(ready: Round, tmp_path: Path) -> None:
    c, people = ready
    annotate_all(c, people)
    assert adjudicate_all(c, people) > 0
    export(c, tmp_path / "first")
    before = {p: p.read_bytes() for p in (tmp_path / "first").rglob("*") if p.is_file()}
    decided = next(e for e in c.store.events() if e.what == "decision")
    undo(c, people["Olga"].id, decided.number)
    item = decided.changes[0].id
    assert c.store.need(Item, item).value.state == "disputed"
    assert {p: p.read_bytes() for p in (tmp_path / "first").rglob("*") if p.is_file()} == before
    release = export(c, tmp_path / "second")
    assert any("1 items have no final answer yet" in text for text in release.remarks)
    assert not any(
        i.id == item for tasks in release.splits.values() for f in tasks for i in f.items
    )


# Names and texts.


@pytest.mark.parametrize(
    "name", ["\u200d", "\u3164\u3164", "\u00ad", "\u2066\u202e", "…", "\x00\x1b"]
)
def test_a_name_that_nobody_can_see_is_refused(fresh: Round, name: str) -> None:
    with pytest.raises(CollectError, match="a person needs a name"):
        fresh[0].add_person("x", name, ["writer"])


@pytest.mark.parametrize("name", ["ANN", "A\u00adnn", "Ａｎｎ", "A\u200dnn", " Ann ", "A nn"])
def test_a_name_that_only_looks_different_is_refused(fresh: Round, name: str) -> None:
    with pytest.raises(CollectError, match="already"):
        fresh[0].add_person("x", name, ["writer"])


def test_people_of_all_scripts_take_part(fresh: Round) -> None:
    c, people = fresh
    names = [
        "Zoë",
        "中村さくら",
        "אורי",
        "محمد علی",
        "Ἀθηνᾶ",
        "🦉 Eule",
        "می‌خواهم",
        "Ǹdidi",
        "o'Neil <b>",
    ]
    for name in names:
        c.add_person(people["Olga"].id, name, ["annotator"])
    page = Browser(c, people["Olga"]).get("/people").text
    assert all(
        name.replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#39;") in page
        for name in names
    )
    assert c.store.check() == []


def test_a_notice_in_a_link_of_somebody_else_is_not_shown(fresh: Round) -> None:
    c, people = fresh
    ann, abe = Browser(c, people["Ann"]), Browser(c, people["Abe"])
    text = "Send your personal link to eve@evil.example"
    assert text not in ann.get("/", params={"notice": text}).text
    seal = abe.site.signer.notice_seal(abe.session, text)
    assert text not in ann.get("/", params={"notice": text, "seal": seal}).text
    seal = ann.site.signer.notice_seal(ann.session, text)
    assert text in ann.get("/", params={"notice": text, "seal": seal}).text


def test_a_flood_of_typed_words_costs_nothing(ready: Round) -> None:
    c, people = ready
    item = next(
        i for i in c.store.each(Item) if c.store.need(CollectedTask, i.task).value.format == "span"
    )
    ann = Browser(c, people["Ann"])
    began = time.process_time()
    for typed in ("a\n" * 200_000, "a " * 400_000, "garden\n" * 80_000):
        assert ann.post(f"/annotate/{item.id}", {"version": "0", "typed": typed}).status_code in (
            303,
            409,
            422,
        )
    assert time.process_time() - began < 5


# Files and disks.


def test_a_log_that_was_torn_in_the_middle_of_a_write_is_a_sound_beginning(tmp_path: Path) -> None:
    """The write-ahead file is cut anywhere, or has a wrong byte: whole events are there up to some
    number, and nothing else.
    """
    store = EventStore(tmp_path / "whole" / "collect.sqlite")
    store._connection().execute("PRAGMA wal_autocheckpoint = 0")
    for number in range(20):
        with store.change("me", "put") as change:
            change.put(Item(f"i{number}", "t"))
            change.put(GivenAnswer(f"i{number}/p", f"i{number}", "p", "x" * 3_000, 1.0))
    wal = (tmp_path / "whole" / "collect.sqlite-wal").read_bytes()
    counts = []
    for number, place in enumerate(range(0, len(wal), len(wal) // 17)):
        folder = tmp_path / f"torn{number}"
        folder.mkdir()
        shutil.copy(tmp_path / "whole" / "collect.sqlite", folder)
        torn = bytearray(wal[: place + 100 * number])
        if number % 2 and len(torn) > 200:
            torn[-150] ^= 0xFF
        (folder / "collect.sqlite-wal").write_bytes(torn)
        again = EventStore(folder / "collect.sqlite")
        numbers = [e.number for e in again.events(oldest_first=True)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert again.count(Item) == again.count(GivenAnswer) == len(numbers)
        assert again.check() == []
        with again.change("me", "put") as change:  # and work goes on
            change.put(Item("new", "t"))
        counts.append(len(numbers))
        again.close()
    assert counts == sorted(counts)
    assert counts[0] == 0 < counts[-1]
    store.close()


def test_a_check_and_an_export_see_one_moment_while_others_work(
    ready: Round, tmp_path: Path
) -> None:
    c, people = ready
    annotate_all(c, people)
    stop = threading.Event()

    def work() -> None:
        other = Collection(c.folder)  # as another process would
        number = 0
        while not stop.is_set():
            other.add_person(people["Olga"].id, f"New {number}", ["writer"])
            number += 1
        other.close()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(20):
            assert c.store.check() == []
        with c.store.snapshot():
            before = c.people()
            time.sleep(0.05)
            assert c.people() == before
        export(c, tmp_path / "release", despite_leaks=True)
    finally:
        stop.set()
        worker.join(20)
    assert len(c.people()) > len(before)


def test_what_was_left_out_of_the_corpus_is_still_said_after_a_new_start(tmp_path: Path) -> None:
    write_project(tmp_path)
    (tmp_path / "documents" / "gardens" / "broken.txt").write_bytes(b"\xff\xfe not UTF-8")
    c = Collection(tmp_path)
    notes = c.notes
    assert "broken.txt is not UTF-8 text" in notes[0]
    people = add_people(c)
    c.close()
    c = Collection(tmp_path)
    assert c.notes == notes
    assert "broken.txt is not UTF-8 text" in Browser(c, people["Olga"]).get("/project").text
    c.close()
    (tmp_path / "documents" / "gardens" / "broken.txt").unlink()
    c = Collection(tmp_path)
    assert c.notes == []
    c.close()


def test_a_first_start_that_was_killed_leaves_no_half_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", killed)
        with pytest.raises(KeyboardInterrupt):
            Collection(tmp_path)
    c = Collection(tmp_path)
    assert len(c.secret) == 32
    assert (tmp_path / ".secret").stat().st_mode & 0o077 == 0
    c.close()


def test_a_damaged_database_and_a_full_disk_are_pages_and_no_traceback(
    ready: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    c, people = ready
    annotate_all(c, people)
    owner = Browser(c, people["Olga"])

    def damaged(*_: Any, **__: Any) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(EventStore, "stages", damaged)
        answer = owner.get("/")
        assert (answer.status_code, "cannot be read" in answer.text) == (507, True)
    with monkeypatch.context() as patch:
        patch.setattr("taskloom.apps.collect.export._write_lines", full)
        for answer in (owner.get("/export"), owner.post("/export", {"name": "x"})):
            assert answer.status_code in (422, 507)
            assert "No space left on device" in answer.text
    assert not (c.folder / "exports" / "x").exists()
    assert owner.post("/export", {"name": "x", "despite": "yes"}).status_code == 303


def test_forms_whose_person_was_undone_are_refused(fresh: Round) -> None:
    c, people = fresh
    c.add_person(people["Olga"].id, "Mistake", ["writer"])
    number = last_event(c, "person")
    browser = Browser(c, next(p for p in c.people() if p.name == "Mistake"))
    undo(c, people["Olga"].id, number)
    answer = browser.post("/write", {"question": BASES[0][0], "domain": "gardens", "ticket": "t"})
    assert answer.status_code == 401
    assert c.store.count(CollectedTask) == 0


def test_a_settings_file_of_another_project_is_checked_again(tmp_path: Path) -> None:
    c = open_project(tmp_path)
    c.close()
    (tmp_path / "project.yaml").write_text(yaml.safe_dump({**SETTINGS, "annotators": "many"}))
    with pytest.raises(CollectError, match="annotators"):
        Collection(tmp_path)


def test_an_answer_of_somebody_who_failed_is_refused_wherever_it_comes_from(tmp_path: Path) -> None:
    items = [
        {"question": "Is it open today?", "passage": "It is open on all days.", "answer": "yes"}
    ]
    c = open_project(tmp_path, qualification={"share": 1.0, "items": items})
    people = add_people(c)
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    known = next(c.store.each(Item, stage="qualification"))
    save_answer(c, people["Ann"], known.id, EnteredAnswer(choice="no"), 1, 0)
    work = next(c.store.each(Item, stage="open"))
    with pytest.raises(ForbiddenError, match="not qualified"):
        save_answer(c, people["Ann"], work.id, EnteredAnswer(choice="yes"), 1, 0)
    c.close()
