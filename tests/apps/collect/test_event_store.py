"""The log: append-only, whole, undone only by further events; the records are its fold."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from taskloom.apps.collect.errors import CollectError, ConflictError, DiskError, UnknownError
from taskloom.apps.collect.event_store import EventStore
from taskloom.apps.collect.records import GivenAnswer, Item, Person


@pytest.fixture
def store(tmp_path: Path) -> EventStore:
    return EventStore(tmp_path / "collect.sqlite")


def put(store: EventStore, record: Item | Person | GivenAnswer, version: int | None = None) -> None:
    with store.change("me", "put") as change:
        change.put(record, version)


def test_a_record_comes_back_as_it_was_saved(store: EventStore) -> None:
    person = Person("p", "Zoë 🦉", ("writer", "owner"))
    put(store, person, 0)
    assert store.need(Person, "p").value == person
    assert [e.what for e in store.events()] == ["put"]
    assert store.check() == []


def test_two_people_cannot_save_over_each_other(store: EventStore) -> None:
    put(store, Item("i", "t"), 0)
    put(store, Item("i", "t", start=1), 1)
    with pytest.raises(ConflictError, match="somebody else saved"):
        put(store, Item("i", "t", start=2), 1)
    assert store.need(Item, "i").value.start == 1


def fail_half_way(store: EventStore) -> None:
    with store.change("me", "half") as change:
        change.put(Item("i", "t"))
        raise ZeroDivisionError


def test_a_block_that_fails_changes_nothing(store: EventStore) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_half_way(store)
    assert store.get(Item, "i") is None
    assert list(store.events()) == []


def test_saving_the_same_again_is_no_event(store: EventStore) -> None:
    put(store, Item("i", "t"))
    put(store, Item("i", "t"))
    assert len(list(store.events())) == 1


def test_nobody_can_change_or_delete_an_event(store: EventStore) -> None:
    put(store, Item("i", "t"))
    with sqlite3.connect(store.path) as other:
        for statement in ("UPDATE events SET who = 'x'", "DELETE FROM events"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                other.execute(statement)


def test_an_undone_event_leaves_what_was_before_and_can_be_redone(store: EventStore) -> None:
    put(store, Item("i", "t"))
    put(store, replace(Item("i", "t"), start=5))
    store.undo("owner", 2)
    assert store.need(Item, "i").value.start == 0
    with pytest.raises(ConflictError, match="undone already"):
        store.undo("owner", 2)
    store.undo("owner", 3)
    assert store.need(Item, "i").value.start == 5
    assert [e.undoes for e in store.events(oldest_first=True)] == [None, None, 2, 3]
    assert store.check() == []


def test_an_event_that_a_later_one_builds_on_is_not_undone(store: EventStore) -> None:
    put(store, Item("i", "t"))
    put(store, replace(Item("i", "t"), start=5))
    with pytest.raises(ConflictError, match="event 2 changed the same item"):
        store.undo("owner", 1)
    store.undo("owner", 2)
    store.undo("owner", 1)  # event 3 left the row as event 1 had made it
    assert store.get(Item, "i") is None
    with pytest.raises(ConflictError, match="event 2 is undone already"):
        store.undo("owner", 2)
    assert store.check() == []
    with pytest.raises(UnknownError, match="no event 99"):
        store.undo("owner", 99)


def test_the_check_finds_a_record_that_was_changed_behind_the_logs_back(store: EventStore) -> None:
    put(store, Item("i", "t"))
    with sqlite3.connect(store.path) as other:
        other.execute("UPDATE records SET version = 7")
    assert store.check() == ["item i is not what the log says"]


def test_a_full_disk_saves_nothing_and_says_so(store: EventStore) -> None:
    put(store, Item("i", "t"))
    pages = store._connection().execute("PRAGMA page_count").fetchone()[0]
    store._connection().execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(DiskError, match=r"nothing was saved.*full"):
        put(store, Person("p", "x" * 100_000, ("writer",)))
    assert store.get(Person, "p") is None
    store._connection().execute("PRAGMA max_page_count = 1000000")
    put(store, Person("p", "x" * 100_000, ("writer",)))
    assert store.check() == []


def test_the_exported_log_has_who_when_and_what(store: EventStore, tmp_path: Path) -> None:
    put(store, Item("i", "t"))
    assert store.write_log(tmp_path / "log.jsonl") == 1
    row = json.loads((tmp_path / "log.jsonl").read_text())
    assert (row["who"], row["what"], row["changes"][0]["after"]["task"]) == ("me", "put", "t")
    assert row["at"].startswith("20")


def test_what_was_saved_is_there_after_the_store_is_opened_again(store: EventStore) -> None:
    put(store, Item("i", "t"))
    store.close()
    again = EventStore(store.path)
    assert again.need(Item, "i").version == 1
    with pytest.raises(UnknownError, match="no item 'j'"):
        again.need(Item, "j")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(CollectError, match="file is not a database"):
        EventStore(tmp_path / "x.sqlite")


def test_items_that_a_person_has_not_answered(store: EventStore) -> None:
    for id in "abc":
        put(store, Item(id, "t"))
    put(store, GivenAnswer("a/p", "a", "p", "yes", 1.0))
    assert [i.id for i in store.unanswered("p", "open")] == ["b", "c"]
    assert [i.id for i in store.unanswered("q", "open", after="a", limit=1)] == ["b"]
