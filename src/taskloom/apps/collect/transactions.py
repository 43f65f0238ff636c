"""One event in the making, and what an event is: the records that it changed, before and after."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from taskloom.apps.collect.collect_errors import ConflictError
from taskloom.apps.collect.phrases import phrase
from taskloom.apps.collect.records import Filed, from_json, to_json
from taskloom.core.files import digest

if TYPE_CHECKING:
    from taskloom.apps.collect.event_store import EventStore

T = TypeVar("T", bound=Filed)


@dataclass(frozen=True, slots=True)
class Stored(Generic[T]):
    """A record with its version: what a form shows, and must bring back to be saved."""

    value: T
    version: int


@dataclass(frozen=True, slots=True)
class RowChange:
    """One record before and after an event; None where it did not exist."""

    kind: str
    id: str
    old_version: int
    old: dict[str, Any] | None
    version: int
    new: dict[str, Any] | None

    def to_json(self) -> list[Any]:
        """Return it as the log keeps it."""
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
        """Return it for the exported log."""
        changes = [
            {"kind": c.kind, "id": c.id, "version": c.version, "before": c.old, "after": c.new} for c in self.changes
        ]
        head = {"number": self.number, "at": self.at, "who": self.who, "what": self.what, "note": self.note}
        return {**head, "undoes": self.undoes, "changes": changes}


class Transaction:
    """One event in the making: reads see the state before it and what it changed so far."""

    def __init__(self, store: EventStore, connection: sqlite3.Connection) -> None:
        self._store, self._connection = store, connection
        self.changes: dict[tuple[str, str], RowChange] = {}
        self.texts: dict[str, str] = {}

    def get(self, cls: type[T], id: str) -> Stored[T] | None:
        """Return a record, or None."""
        change = self.changes.get((cls.kind, id))
        if change is None:
            return self._store.get(cls, id)
        if change.new is None:
            return None
        return Stored(from_json(cls.kind, change.new), change.version)  # type: ignore[arg-type]

    def put(self, record: Filed, version: int | None = None) -> None:
        """Write a record.

        Args:
            record: Its new value.
            version: The version that the writer saw (0: none); `ConflictError` where it is another by now. None: whatever it is.
        """
        before = self._before(record.kind, record.id)
        if version is not None and version != before[0]:
            raise ConflictError(phrase("saved_meanwhile"))
        self._note(record.kind, record.id, before, to_json(record))

    def remove(self, cls: type[Filed], id: str) -> None:
        """Remove a record."""
        self._note(cls.kind, id, self._before(cls.kind, id), None)

    def put_text(self, text: str) -> str:
        """Keep a text and return its digest."""
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
        return (row[0], json.loads(row[1])) if row else (0, None)

    def _note(self, kind: str, id: str, before: tuple[int, dict[str, Any] | None], new: dict[str, Any] | None) -> None:
        if before[1] == new:
            return
        first = self.changes.get((kind, id))
        old_version, old = (first.old_version, first.old) if first else before
        self.changes[kind, id] = RowChange(kind, id, old_version, old, 0 if new is None else old_version + 1, new)
