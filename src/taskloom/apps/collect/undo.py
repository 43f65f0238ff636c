"""Undoing events. An owner can restore the records that an event changed, unless others depend on
the change by now.
"""

from __future__ import annotations

from taskloom.apps.collect.annotation import settle
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.errors import CollectError, ConflictError, phrase
from taskloom.apps.collect.event_store import LogEvent, RowChange
from taskloom.apps.collect.records import (
    CollectedTask,
    Document,
    GivenAnswer,
    Item,
    Person,
    Setup,
    from_json,
    to_json,
)
from taskloom.apps.collect.task_workflow import carries


def undo(c: Collection, who: str, number: int) -> None:
    """Undo an event. An answer can be removed or restored even if others have answered the same
    item since, in which case the item is updated.
    """
    event = c.store.event(number)
    kinds = {change.kind for change in event.changes}
    if GivenAnswer.kind in kinds and Person.kind not in kinds:
        _undo_answers(c, who, event)
    else:
        c.store.undo(who, number, lambda: _refuse_what_carries(c, event))


def _refuse_what_carries(c: Collection, event: LogEvent) -> None:
    """Raise an error if undoing an event would remove something that others depend on."""
    for change in event.changes:
        if change.kind == Person.kind:
            _refuse_person(c, change)
        elif change.kind == CollectedTask.kind:
            _refuse_task(c, change)
        elif change.kind == Document.kind or (
            change.kind == Setup.kind and event.what != "suggestions"
        ):
            raise CollectError(phrase("reading_stays", number=event.number))


def _refuse_person(c: Collection, change: RowChange) -> None:
    new, old = change.new, change.old
    if new is None:
        return
    if old is None and (
        c.store.count(CollectedTask, owner=change.id) or c.store.count(GivenAnswer, owner=change.id)
    ):
        raise ConflictError(phrase("person_worked", name=new["name"]))
    if old is not None and old["link"] < new["link"]:
        raise CollectError(phrase("link_stays"))
    owner_no_more = "owner" in new["roles"] and (old is None or "owner" not in old["roles"])
    if owner_no_more and not any("owner" in p.roles for p in c.people() if p.id != change.id):
        raise CollectError(phrase("last_owner"))


def _refuse_task(c: Collection, change: RowChange) -> None:
    approved = change.new is not None and change.new["state"] == "approved"
    stays = change.old is not None and change.old["state"] == "approved"
    if approved and not stays and carries(c, change.id):
        raise ConflictError(phrase("task_carries"))


def _undo_answers(c: Collection, who: str, event: LogEvent) -> None:
    with c.store.change(
        who, "undo", f"undoes event {event.number} ({event.what})", event.number
    ) as change:
        if c.store.undone(event.number) is not None:
            raise ConflictError(phrase("undone_already", number=event.number))
        for row in event.changes:
            if row.kind != GivenAnswer.kind:
                continue
            there = change.get(GivenAnswer, row.id)
            if (to_json(there.value) if there else None) != row.new:
                raise ConflictError(phrase("answer_changed_later", number=event.number))
            body = row.old or row.new
            assert body is not None, "an event changes something"
            item = c.store.need(Item, body["item"]).value
            if row.old is None:
                change.remove(GivenAnswer, row.id)
            else:
                change.put(from_json(GivenAnswer.kind, row.old))
            if item.known is None:
                settle(c, change, item)
