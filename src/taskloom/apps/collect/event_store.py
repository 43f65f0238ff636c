"""The database of a project: an append-only log of events, and the records derived from it.

Every change is one event (who, when, what) with the rows that it changed, before and after. The
tables contain the result of replaying the log; `check` replays it and compares. An event is
acknowledged only after SQLite has committed it with `synchronous=FULL`, so everything reported as
saved survives a killed process and a power cut.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from taskloom.apps.collect.errors import (
    CollectError,
    ConflictError,
    DiskError,
    UnknownError,
    phrase,
)
from taskloom.apps.collect.records import RECORD_TYPES, Filed, Item, from_json, to_json
from taskloom.core.files import digest

FORMAT = 1
"""Version of the database layout. Later versions must be able to read it."""

PATIENCE = 20.0
"""Seconds that a write waits for another process that has locked the database, such as an export
from the command line.
"""

SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
  number INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL,
  note TEXT NOT NULL, changes TEXT NOT NULL, undoes INTEGER
);
CREATE INDEX events_who ON events (who, number);
CREATE INDEX events_undoes ON events (undoes) WHERE undoes IS NOT NULL;
CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER events_last BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TABLE records (
  kind TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, event INTEGER NOT NULL,
  parent TEXT NOT NULL, stage TEXT NOT NULL, owner TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX records_parent ON records (kind, parent, stage);
CREATE INDEX records_stage ON records (kind, stage, id);
CREATE INDEX records_owner ON records (kind, owner, stage);
CREATE TABLE texts (digest TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
"""

SESSIONS = """
CREATE TABLE IF NOT EXISTS ended_sessions (seal TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID
"""
"""Sessions that were ended by signing out. They are not part of the log and are deleted once they
would have expired. Databases created by version 0.2.0 and earlier do not have this table.
"""

EVENT_COLUMNS = "number, at, who, what, note, changes, undoes"

T = TypeVar("T", bound=Filed)


@dataclass(frozen=True, slots=True)
class Stored(Generic[T]):
    """A record with its version. A form shows the version and must send it back to save."""

    value: T
    version: int


@dataclass(frozen=True, slots=True)
class RowChange:
    """One record before and after an event.

    Attributes:
        kind: Kind of the record.
        id: Its id.
        old_version: Version before the event; 0 if the record did not exist.
        old: Body before the event; None if the record did not exist.
        version: Version after the event; 0 if the record was removed.
        new: Body after the event; None if the record was removed.
    """

    kind: str
    id: str
    old_version: int
    old: dict[str, Any] | None
    version: int
    new: dict[str, Any] | None

    def to_json(self) -> list[Any]:
        """JSON value for the log."""
        return [self.kind, self.id, self.old_version, self.old, self.version, self.new]


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One event of the log."""

    number: int
    at: str
    who: str
    what: str
    note: str
    changes: tuple[RowChange, ...]
    undoes: int | None

    def to_json(self) -> dict[str, Any]:
        """JSON value for the exported log."""
        changes = [
            {"kind": c.kind, "id": c.id, "version": c.version, "before": c.old, "after": c.new}
            for c in self.changes
        ]
        head = {
            "number": self.number,
            "at": self.at,
            "who": self.who,
            "what": self.what,
            "note": self.note,
        }
        return {**head, "undoes": self.undoes, "changes": changes}


class Transaction:
    """An event in progress. Reads return the previous state with the changes made so far."""

    def __init__(self, store: EventStore, connection: sqlite3.Connection) -> None:
        self._store, self._connection = store, connection
        self.changes: dict[tuple[str, str], RowChange] = {}
        self.texts: dict[str, str] = {}

    def get(self, cls: type[T], id: str) -> Stored[T] | None:
        """Return a record, or None if there is no record with this id."""
        change = self.changes.get((cls.kind, id))
        if change is None:
            return self._store.get(cls, id)
        if change.new is None:
            return None
        return Stored(from_json(cls.kind, change.new), change.version)  # type: ignore[arg-type]

    def put(self, record: Filed, version: int | None = None) -> None:
        """Write a record.

        Args:
            record: The new value.
            version: Version that the writer saw (0: the record did not exist). Raises
                `ConflictError` if the record has changed since. None: any version.
        """
        before = self._before(record.kind, record.id)
        if version is not None and version != before[0]:
            raise ConflictError(phrase("saved_meanwhile"))
        self._note(record.kind, record.id, before, to_json(record))

    def remove(self, cls: type[Filed], id: str) -> None:
        """Remove a record."""
        self._note(cls.kind, id, self._before(cls.kind, id), None)

    def put_text(self, text: str) -> str:
        """Store a text and return its digest."""
        key = digest(text)
        self.texts[key] = text
        return key

    def _before(self, kind: str, id: str) -> tuple[int, dict[str, Any] | None]:
        change = self.changes.get((kind, id))
        if change is not None:
            return change.version, change.new
        row = self._connection.execute(
            "SELECT version, body FROM records WHERE kind = ? AND id = ?", (kind, id)
        ).fetchone()
        return (row[0], self._store.parsed(row[1])) if row else (0, None)

    def _note(
        self,
        kind: str,
        id: str,
        before: tuple[int, dict[str, Any] | None],
        new: dict[str, Any] | None,
    ) -> None:
        if before[1] == new:
            return
        # Several changes of a record in one event count as one, starting from its value before the
        # event.
        first = self.changes.get((kind, id))
        old_version, old = (first.old_version, first.old) if first else before
        version = 0 if new is None else old_version + 1
        self.changes[kind, id] = RowChange(kind, id, old_version, old, version, new)


class _Connection(sqlite3.Connection):
    """A thread's connection. It is closed with the thread, because a server creates and ends
    threads all the time.
    """

    def __del__(self) -> None:
        with suppress(sqlite3.Error):
            self.close()


class EventStore:
    """The log and the records of one project, usable from any number of threads.

    Args:
        path: The database.
        new_allowed: True to create an empty database if there is none. Use False for a project that
            already had a database.
    """

    def __init__(self, path: str | Path, new_allowed: bool = True) -> None:
        self.path = Path(path)
        self._new_allowed = new_allowed
        self._local = threading.local()
        self._open: WeakSet[_Connection] = WeakSet()
        self._writing = threading.Lock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._writing:
                self._create()
                self._refuse_damage()
        except CollectError:
            self.close()
            raise
        except (OSError, sqlite3.Error, UnicodeDecodeError) as error:
            self.close()
            if is_damage(error):
                raise self.damaged(error) from error
            raise CollectError(phrase("database_unopened", path=self.path, reason=error)) from error

    def _refuse_damage(self) -> None:
        """Raise an error if pages of the database are damaged. This reads the whole file, at about
        1 GB/s.
        """
        found = self._connection().execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise self.damaged(found)

    def damaged(self, reason: object) -> CollectError:
        """Build the error for a damaged database, with the remedy."""
        lines = str(reason).strip().splitlines()
        return CollectError(
            phrase(
                "database_damaged",
                path=self.path,
                reason=lines[-1] if lines else "its content cannot be read",
                folder=self.path.parent,
            )
        )

    def parsed(self, text: str) -> dict[str, Any]:
        """Parse the body of a record. SQLite does not notice damage in the middle of a text."""
        try:
            body: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise self.damaged(error) from error
        return body

    def record(self, cls: type[T], text: str) -> T:
        """Build a record from its body."""
        try:
            return from_json(cls.kind, self.parsed(text))  # type: ignore[return-value]
        except (TypeError, AttributeError) as error:  # unexpected keys, or not an object
            raise self.damaged(error) from error

    def _create(self) -> None:
        connection = self._connection()
        connection.execute("BEGIN IMMEDIATE")
        try:
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if not tables and not self._new_allowed:
                raise CollectError(
                    phrase("database_empty", path=self.path, folder=self.path.parent)
                )
            if not tables:
                for statement in _statements(SCHEMA):
                    connection.execute(statement)
                connection.execute("INSERT INTO meta VALUES ('format', ?)", (str(FORMAT),))
            connection.execute(SESSIONS)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        row = connection.execute("SELECT value FROM meta WHERE name = 'format'").fetchone()
        if row is None or row[0] != str(FORMAT):
            raise CollectError(phrase("other_version", path=self.path))

    def _connection(self) -> sqlite3.Connection:
        connection: _Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(
                self.path,
                timeout=PATIENCE,
                isolation_level=None,
                check_same_thread=False,
                factory=_Connection,
            )
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            self._local.connection = connection
            self._open.add(connection)
        return connection

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in list(self._open):
            with suppress(sqlite3.Error):
                connection.close()
        self._open.clear()
        self._local = threading.local()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Make all of this thread's reads inside the block see the same state, whatever other
        threads save meanwhile.
        """
        connection = self._connection()
        if connection.in_transaction:  # inside another snapshot or a change
            yield
            return
        connection.execute("BEGIN")
        try:
            yield
        finally:
            connection.execute("COMMIT")

    # Reading.

    def get(self, cls: type[T], id: str) -> Stored[T] | None:
        """Return a record, or None if there is no record with this id."""
        row = (
            self._connection()
            .execute("SELECT version, body FROM records WHERE kind = ? AND id = ?", (cls.kind, id))
            .fetchone()
        )
        return Stored(self.record(cls, row[1]), row[0]) if row else None

    def need(self, cls: type[T], id: str) -> Stored[T]:
        """Return a record. Raises `UnknownError` if there is no record with this id."""
        stored = self.get(cls, id)
        if stored is None:
            raise UnknownError(phrase("unknown_record", kind=cls.kind, id=id[:80]))
        return stored

    def each(
        self,
        cls: type[T],
        *,
        parent: str | None = None,
        stage: str | None = None,
        owner: str | None = None,
        after: str = "",
        limit: int = -1,
    ) -> Iterator[T]:
        """Yield records in the order of their ids, optionally with the given parent, stage and
        owner.
        """
        condition, values = _condition(cls.kind, parent, stage, owner)
        if after:
            condition, values = f"{condition} AND id > ?", [*values, after]
        rows = self._connection().execute(
            f"SELECT body FROM records WHERE {condition} ORDER BY id LIMIT ?",  # noqa: S608 - only column names
            [*values, limit],
        )
        for row in rows:
            yield self.record(cls, row[0])

    def count(
        self,
        cls: type[Filed],
        *,
        parent: str | None = None,
        stage: str | None = None,
        owner: str | None = None,
    ) -> int:
        """Number of records, optionally with the given parent, stage and owner."""
        condition, values = _condition(cls.kind, parent, stage, owner)
        row = (
            self._connection()
            .execute(f"SELECT count(*) FROM records WHERE {condition}", values)  # noqa: S608
            .fetchone()
        )
        return int(row[0])

    def stages(self, cls: type[Filed], parent: str | None = None) -> dict[str, int]:
        """Number of records by stage."""
        condition, values = _condition(cls.kind, parent, None, None)
        rows = self._connection().execute(
            f"SELECT stage, count(*) FROM records WHERE {condition} GROUP BY stage",  # noqa: S608
            values,
        )
        return {str(stage): int(n) for stage, n in rows}

    def owners(self, cls: type[Filed], stage: str) -> dict[str, int]:
        """Number of records in a stage, by owner."""
        rows = self._connection().execute(
            "SELECT owner, count(*) FROM records WHERE kind = ? AND stage = ? GROUP BY owner",
            (cls.kind, stage),
        )
        return {str(owner): int(n) for owner, n in rows}

    def unanswered(self, person: str, stage: str, after: str = "", limit: int = -1) -> list[Item]:
        """Items in a stage that a person has not answered, in the order of their ids."""
        rows = self._connection().execute(
            "SELECT body FROM records AS item WHERE kind = 'item' AND stage = ? AND id > ? AND NOT"
            " EXISTS (SELECT 1 FROM records AS answer WHERE answer.kind = 'answer' AND answer.id ="
            " item.id || '/' || ?) ORDER BY id LIMIT ?",
            (stage, after, person, limit),
        )
        return [Item(**self.parsed(row[0])) for row in rows.fetchall()]

    def answered_enough(self, count: int) -> list[Item]:
        """Open items that have at least this many answers."""
        rows = self._connection().execute(
            "SELECT body FROM records WHERE kind = 'item' AND stage = 'open' AND json_extract(body,"
            " '$.answered') >= ?",
            (count,),
        )
        return [Item(**self.parsed(row[0])) for row in rows.fetchall()]

    def text(self, key: str) -> str:
        """Return the text with a digest."""
        row = (
            self._connection().execute("SELECT text FROM texts WHERE digest = ?", (key,)).fetchone()
        )
        if row is None:
            raise UnknownError(phrase("missing_text", key=key[:40], path=self.path))
        return str(row[0])

    # Writing.

    @contextmanager
    def change(
        self, who: str, what: str, note: str = "", undoes: int | None = None
    ) -> Iterator[Transaction]:
        """Record the changes inside the block as one event. If the block raises, nothing changes.

        Args:
            who: The id of the person.
            what: Short description of the event.
            note: Note for readers of the log.
            undoes: Number of the event that this one undoes.
        """
        with self._writing:
            connection = self._connection()
            try:
                connection.execute("BEGIN IMMEDIATE")
                transaction = Transaction(self, connection)
                try:
                    yield transaction
                    if transaction.changes:
                        self._append(connection, transaction, who, what, note, undoes)
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
            except sqlite3.DatabaseError as error:
                raise DiskError(phrase("not_saved", reason=error)) from error

    def _append(
        self,
        connection: sqlite3.Connection,
        transaction: Transaction,
        who: str,
        what: str,
        note: str,
        undoes: int | None,
    ) -> None:
        for key, text in transaction.texts.items():
            connection.execute("INSERT OR IGNORE INTO texts VALUES (?, ?)", (key, text))
        changes = list(transaction.changes.values())
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        cursor = connection.execute(
            "INSERT INTO events (at, who, what, note, changes, undoes) VALUES (?, ?, ?, ?, ?, ?)",
            (
                at,
                who,
                what,
                note,
                json.dumps([c.to_json() for c in changes], ensure_ascii=False),
                undoes,
            ),
        )
        number = cursor.lastrowid or 0
        for change in changes:
            _apply(connection, change, number)

    # Sessions.

    def is_session_ended(self, seal: str) -> bool:
        """True if the person with this session has signed out."""
        row = (
            self._connection()
            .execute("SELECT 1 FROM ended_sessions WHERE seal = ?", (seal,))
            .fetchone()
        )
        return row is not None

    def end_session(self, seal: str, until: int, now: int) -> None:
        """Record that a session has ended, and delete expired sessions."""
        with self._writing:
            connection = self._connection()
            try:
                connection.execute("DELETE FROM ended_sessions WHERE until < ?", (now,))
                connection.execute(
                    "INSERT OR IGNORE INTO ended_sessions VALUES (?, ?)", (seal, until)
                )
            except sqlite3.DatabaseError as error:
                raise DiskError(phrase("not_saved", reason=error)) from error

    # The log.

    def events(
        self,
        before: int | None = None,
        limit: int = -1,
        *,
        after: int = 0,
        oldest_first: bool = False,
        with_changes: bool = True,
    ) -> Iterator[LogEvent]:
        """Yield the events before number `before` and after number `after`, newest first by
        default.

        Reading is fast without the changes, because an event may have thousands.
        """
        order = "ASC" if oldest_first else "DESC"
        columns = EVENT_COLUMNS if with_changes else EVENT_COLUMNS.replace("changes", "'[]'")
        rows = self._connection().execute(
            # `order` is one of two keywords
            f"SELECT {columns} FROM events"  # noqa: S608
            f" WHERE number < ? AND number > ? ORDER BY number {order} LIMIT ?",
            (before if before is not None else 2**62, after, limit),
        )
        return (self._event(row) for row in rows)

    def event(self, number: int) -> LogEvent:
        """Return one event."""
        row = None
        if 0 < number < 2**62:
            row = (
                self._connection()
                .execute(
                    f"SELECT {EVENT_COLUMNS} FROM events WHERE number = ?",  # noqa: S608 - a constant
                    (number,),
                )
                .fetchone()
            )
        if row is None:
            raise UnknownError(phrase("unknown_event", number=number))
        return self._event(row)

    def _event(self, row: tuple[Any, ...]) -> LogEvent:
        """Build an event from its row. Raises an error if its changes are damaged."""
        try:
            return parse_event(row)
        except (ValueError, TypeError) as error:
            raise self.damaged(error) from error

    def undone(self, number: int) -> int | None:
        """Number of the event that undid this one, unless that event was undone itself."""
        rows = self._connection().execute(
            "SELECT number FROM events WHERE undoes = ? ORDER BY number DESC", (number,)
        )
        for row in rows.fetchall():
            if self.undone(row[0]) is None:
                return int(row[0])
        return None

    def undo(self, who: str, number: int, check: Callable[[], None] = lambda: None) -> None:
        """Undo an event by recording a new event that restores the previous values.

        Args:
            who: The id of the person.
            number: Number of the event to undo.
            check: Called before anything is restored. It raises an error if the event must not be
                undone.

        Raises:
            ConflictError: If the event is already undone, or one of its records has changed since.
        """
        event = self.event(number)
        with self.change(
            who, "undo", f"undoes event {number} ({event.what})", number
        ) as transaction:
            if self.undone(number) is not None:
                raise ConflictError(phrase("undone_already", number=number))
            check()
            for change in reversed(event.changes):
                self._refuse_later(change, number)
                cls = RECORD_TYPES[change.kind]
                if change.old is None:
                    transaction.remove(cls, change.id)
                else:
                    transaction.put(from_json(change.kind, change.old))

    def _refuse_later(self, change: RowChange, number: int) -> None:
        """Raise an error if a record has changed since the event."""
        row = (
            self._connection()
            .execute(
                "SELECT event, body FROM records WHERE kind = ? AND id = ?",
                (change.kind, change.id),
            )
            .fetchone()
        )
        body = self.parsed(row[1]) if row else None
        # Compare content, not versions: a later event that was undone changes the version but not
        # the content.
        if body != change.new:
            later = phrase("event_number", number=row[0]) if row else phrase("later_event")
            raise ConflictError(
                phrase("event_built_on", number=number, later=later, kind=change.kind)
            )

    def write_log(self, path: Path) -> int:
        """Write the log as JSON lines, oldest event first, and return the number of events."""
        from taskloom.core.files import atomic

        number = 0
        with atomic(path, CollectError) as beside, beside.open("w", encoding="utf-8") as file:
            for event in self.events(oldest_first=True):
                file.write(json.dumps(event.to_json(), ensure_ascii=False) + "\n")
                number += 1
        return number

    def restore(self, events: Iterable[LogEvent], texts: Mapping[str, str]) -> None:
        """Fill a new database with the events and texts of another database."""
        with self._writing:
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            for event in events:
                changes = json.dumps([c.to_json() for c in event.changes], ensure_ascii=False)
                head = (event.number, event.at, event.who, event.what, event.note)
                connection.execute(
                    f"INSERT INTO events ({EVENT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
                    (*head, changes, event.undoes),
                )
                for change in event.changes:
                    _apply(connection, change, event.number)
            connection.executemany("INSERT INTO texts VALUES (?, ?)", texts.items())
            connection.execute("COMMIT")

    def check(self) -> list[str]:
        """Replay the log and list every record that differs from its table. The list should be
        empty.
        """
        with self.snapshot():
            return self._differences()

    def _differences(self) -> list[str]:
        state: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
        problems: list[str] = []
        for event in self.events(oldest_first=True):
            for change in event.changes:
                version, body = state.get((change.kind, change.id), (0, None))
                if (version, body) != (change.old_version, change.old):
                    problems.append(
                        f"event {event.number} does not follow from what was before: {change.kind}"
                        f" {change.id}"
                    )
                if change.new is None:
                    state.pop((change.kind, change.id), None)
                else:
                    state[change.kind, change.id] = (change.version, change.new)
        rows = self._connection().execute("SELECT kind, id, version, body FROM records")
        table = {(kind, id): (version, self.parsed(body)) for kind, id, version, body in rows}
        for key in sorted(state.keys() | table.keys()):
            if state.get(key) != table.get(key):
                problems.append(f"{key[0]} {key[1]} is not what the log says")
        for key, text in self._connection().execute("SELECT digest, text FROM texts"):
            if digest(text) != key:
                problems.append(f"text {key} is not the text that was read")
        return problems


def is_damage(error: BaseException) -> bool:
    """True if an error means that the database content is damaged, rather than that the database is
    busy or full.
    """
    if isinstance(error, UnicodeDecodeError):  # raised if the error message itself is damaged
        return True
    code = getattr(error, "sqlite_errorcode", None)
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script. Triggers contain semicolons of their own."""
    statement = ""
    for part in script.strip().split("\n"):
        statement += part + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _condition(
    kind: str, parent: str | None, stage: str | None, owner: str | None
) -> tuple[str, list[Any]]:
    given = {"parent": parent, "stage": stage, "owner": owner}
    wanted = {name: value for name, value in given.items() if value is not None}
    return " AND ".join(["kind = ?", *(f"{name} = ?" for name in wanted)]), [kind, *wanted.values()]


def _apply(connection: sqlite3.Connection, change: RowChange, number: int) -> None:
    if change.new is None:
        connection.execute(
            "DELETE FROM records WHERE kind = ? AND id = ?", (change.kind, change.id)
        )
        return
    record = from_json(change.kind, change.new)
    body = json.dumps(change.new, ensure_ascii=False)
    connection.execute(
        "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            change.kind,
            change.id,
            change.version,
            number,
            record.parent,
            record.stage,
            record.owner,
            body,
        ),
    )


def parse_event(row: tuple[Any, ...]) -> LogEvent:
    """Build an event from its columns."""
    changes = tuple(RowChange(*change) for change in json.loads(row[5]))
    return LogEvent(row[0], row[1], row[2], row[3], row[4], changes, row[6])
