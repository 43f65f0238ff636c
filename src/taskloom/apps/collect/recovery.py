"""Rebuilding the database of a project if it is damaged or missing.

The records of a project are derived from its log, so only the log has to be recovered. Events are
read one by one from the damaged database or from an exported log. Unreadable events are counted and
listed. Passages are recovered from the database or, if they are missing there, read again from the
project's documents. The damaged file is kept next to the new one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskloom.apps.collect.corpus import read_documents
from taskloom.apps.collect.errors import CollectError, phrase
from taskloom.apps.collect.event_store import (
    EVENT_COLUMNS,
    EventStore,
    LogEvent,
    RowChange,
    parse_event,
)
from taskloom.apps.collect.project_file import DATABASE, read_project
from taskloom.apps.collect.records import Document, from_json
from taskloom.core.files import digest, locked

MOST_MISSES = 10_000
"""Number of consecutive missing events after which the log is assumed to end, if the damaged
database does not tell how many events it has.
"""

SMALLEST_EVENT = 32
"""Minimum bytes of an event in the database (a time, a person, a change). Together with the size of
the file, it limits the number of events that a damaged database can claim to have.
"""

UNREADABLE = (sqlite3.Error, ValueError, TypeError, KeyError, AttributeError)
"""Exceptions raised for damaged pages by SQLite, by the JSON parser, or for an event with the wrong
structure.
"""


@dataclass(frozen=True, slots=True)
class Recovery:
    """Result of a recovery.

    Attributes:
        events: Number of events in the new database.
        lost: Numbers of events that could not be read.
        missing_texts: Number of documents whose text was neither in the database nor among the
            project's documents.
        kept: New path of the damaged database; None if there was no database.
        problems: Problems that `check` finds in the new database, in records that depend on lost
            events.
    """

    events: int
    lost: tuple[int, ...]
    missing_texts: int
    kept: Path | None
    problems: tuple[str, ...]


def recover(folder: str | Path, log: str | Path | None = None) -> Recovery:
    """Rebuild a project's database from the readable part of its log.

    Args:
        folder: The project's folder. No server may be working on it.
        log: A log written by `taskloom collect log`, to use instead of the log in the database.
    """
    folder = Path(folder)
    project = read_project(folder)
    with locked(folder / ".lock"):
        old = folder / DATABASE
        new = folder / f"{DATABASE}.new"
        new.unlink(missing_ok=True)
        texts: dict[str, str] = {}
        lost: list[int] = []
        if log is not None:
            events = list(_exported(Path(log)))
        elif old.exists():
            most = old.stat().st_size // SMALLEST_EVENT
            with closing(sqlite3.connect(f"file:{old}?mode=ro", uri=True)) as connection:
                events = list(_readable(connection, most, lost))
        else:
            raise CollectError(phrase("no_database", path=old))
        if not events:
            source = old if log is None else log
            raise CollectError(phrase("no_events", source=source))
        wanted = _documents(events)
        if old.exists():
            with closing(sqlite3.connect(f"file:{old}?mode=ro", uri=True)) as connection:
                texts |= _stored_texts(connection, wanted)
        for domain in project.domains:
            with suppress(CollectError):
                found = read_documents(folder / domain.documents)[0]
                texts |= {digest(document.text): document.text for document in found}
        store = EventStore(new)
        try:
            store.restore(events, {key: text for key, text in texts.items() if key in wanted})
            problems = tuple(store.check())
        finally:
            store.close()
        kept = _set_aside(old) if old.exists() else None
        new.rename(old)
    missing = len(wanted - texts.keys())
    return Recovery(len(events), tuple(lost), missing, kept, problems)


def _readable(connection: sqlite3.Connection, most: int, lost: list[int]) -> Iterator[LogEvent]:
    """Yield the readable events of a damaged database in order, and add the numbers of unreadable
    ones to `lost`.

    Args:
        connection: The damaged database.
        most: Maximum number of events that the database file can contain.
        lost: List to which the numbers of unreadable events are added.
    """
    last = _last_number(connection)
    if last is not None and last > most:
        last = None  # the number itself is damaged
    end = most if last is None else last
    misses: list[int] = []
    for number in range(1, end + 1):
        try:
            row = connection.execute(
                f"SELECT {EVENT_COLUMNS} FROM events WHERE number = ?",  # noqa: S608 - a constant
                (number,),
            ).fetchone()
            if row is None:
                raise ValueError(number)
            event = parse_event(row)
            _check_records(event)
        except UNREADABLE:
            misses.append(number)
            if last is None and len(misses) >= MOST_MISSES:
                return
            continue
        # Missing numbers before a readable event are lost events.
        lost += misses
        misses.clear()
        yield event
    # So are missing numbers after the last readable event, unless the log may simply end there.
    if last is not None:
        lost += misses


def _check_records(event: LogEvent) -> None:
    """Build the event's records, raising one of the `UNREADABLE` errors if that fails."""
    for change in event.changes:
        for body in (change.old, change.new):
            if body is not None:
                record = from_json(change.kind, body)
                _ = record.parent, record.stage, record.owner


def _last_number(connection: sqlite3.Connection) -> int | None:
    """Number of the last event, or None if the database is too damaged to determine it."""
    for query in (
        "SELECT seq FROM sqlite_sequence WHERE name = 'events'",
        "SELECT max(number) FROM events",
    ):
        with suppress(*UNREADABLE):
            row = connection.execute(query).fetchone()
            if row is not None and isinstance(row[0], int):
                return row[0]
    return None


def _exported(path: Path) -> Iterator[LogEvent]:
    """Yield the events of an exported log, which has one JSON object per line."""
    versions: dict[tuple[str, str], int] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CollectError(phrase("log_unread", path=path, reason=error)) from error
    for place, line in enumerate(lines, 1):
        try:
            event = _event_of_line(json.loads(line), versions)
            _check_records(event)
        except UNREADABLE as error:
            raise CollectError(phrase("no_event", path=path, place=place)) from error
        yield event


def _event_of_line(line: dict[str, Any], versions: dict[tuple[str, str], int]) -> LogEvent:
    """Build an event from a line of an exported log. Lines omit the previous version of a record,
    which is its most recent version in the log.
    """
    changes = []
    for change in line["changes"]:
        key = (str(change["kind"]), str(change["id"]))
        before = versions.get(key, 0)
        changes.append(
            RowChange(*key, before, change["before"], change["version"], change["after"])
        )
        versions[key] = change["version"]
    return LogEvent(
        number=line["number"],
        at=line["at"],
        who=line["who"],
        what=line["what"],
        note=line["note"],
        changes=tuple(changes),
        undoes=line["undoes"],
    )


def _documents(events: list[LogEvent]) -> set[str]:
    """Digests of all documents' texts."""
    digests = set()
    for event in events:
        for change in event.changes:
            if change.kind == Document.kind and change.new is not None:
                digests.add(change.new["digest"])
    return digests


def _stored_texts(connection: sqlite3.Connection, wanted: set[str]) -> dict[str, str]:
    """Return the readable texts, each verified against its digest."""
    texts: dict[str, str] = {}
    for key in wanted:
        with suppress(*UNREADABLE):
            row = connection.execute("SELECT text FROM texts WHERE digest = ?", (key,)).fetchone()
            if row is not None and digest(row[0]) == key:
                texts[key] = row[0]
    return texts


def _set_aside(path: Path) -> Path:
    """Rename a database with its journal files, and return its new name."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        journal = path.with_name(path.name + suffix)
        if journal.exists():
            journal.rename(aside.with_name(aside.name + suffix))
    return aside
