"""Pages for annotators: one item after another."""

from __future__ import annotations

import re
import time

from starlette.responses import Response

from taskloom.apps.collect.annotation import (
    MOST_SPANS,
    EnteredAnswer,
    check_qualified,
    format_of,
    next_item,
    save_answer,
)
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.errors import CollectError, ConflictError, ForbiddenError
from taskloom.apps.collect.output_structure import MOST_OBJECTS, from_form
from taskloom.apps.collect.phrases import phrase
from taskloom.apps.collect.records import CollectedTask, GivenAnswer, Item
from taskloom.apps.collect.web.page_requests import PageFields, PageRequest
from taskloom.core.files import digest
from taskloom.suites.zest.task_files import parse_structure

ROWS = 3
"""Empty rows of a structure at first; a script adds more."""

_SPAN = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)


def next_one(request: PageRequest) -> Response:
    """Send the annotator to the next item, or say that all is done."""
    following = next_item(request.c, request.me, request.site.leases)
    if following is None:
        answered = request.c.store.count(GivenAnswer, owner=request.me.id, stage="work")
        return request.page("done.html", answered=answered)
    notice = request.notice
    last = request.query.line("last")
    query = {name: value for name, value in (("notice", notice), ("last", last)) if value}
    return request.to(f"/annotate/{following.id}", **query)


def item(request: PageRequest) -> Response:
    """Show an item, with the annotator's own earlier answer if there is one, and nobody else's."""
    c, me = request.c, request.me
    stored = c.store.need(Item, request.path["item"])
    earlier = c.store.get(GivenAnswer, f"{stored.value.id}/{me.id}")
    if earlier is None and stored.value.state not in ("open", "qualification"):
        raise ForbiddenError(phrase("item_complete"))
    check_qualified(c, me.id, stored.value)
    collected = c.store.get(CollectedTask, stored.value.task) if stored.value.task else None
    structure = (
        from_form(collected.value.structure) if collected and collected.value.structure else None
    )
    passage = c.passage(stored.value)
    last = request.query.line("last")
    return request.page(
        "annotate.html",
        item=stored.value,
        question=c.question(stored.value),
        passage=passage,
        seen=shown_digest(c, stored.value),
        format=format_of(c, stored.value),
        structure=structure,
        version=earlier.version if earlier else 0,
        earlier=_as_form(earlier.value, passage) if earlier else None,
        last=last if last and c.store.get(GivenAnswer, f"{last}/{me.id}") else "",
        answered=c.store.count(GivenAnswer, owner=me.id, stage="work"),
        left=c.store.count(Item, stage="open"),
        opened=int(time.time()),
        rows=range(ROWS),
    )


def shown_digest(c: Collection, item: Item) -> str:
    """Return the digest of what an annotator is shown: an answer is saved only for that."""
    return digest(f"{c.question(item)}\n{c.passage(item)}", 6)


def _as_form(answer: GivenAnswer, passage: str) -> dict[str, object]:
    """Return a saved answer as its form shows it."""
    rows = parse_structure(answer.value) or []
    typed = (
        "\n".join(answer.value.split("|"))
        if not rows and answer.value not in ("yes", "no", "n/a")
        else ""
    )
    return {"value": answer.value, "typed": typed, "rows": rows}


def entered_answer(c: Collection, item: Item, form: PageFields) -> EnteredAnswer:
    """Read an answer from its form."""
    spans = [(int(a), int(b)) for a, b in _SPAN.findall(form.text("spans"))]
    if not spans and form.text("typed").strip():
        lines = [line for line in form.text("typed").split("\n") if line.strip()]
        spans = [_find(c.passage(item), line) for line in lines[:MOST_SPANS]]
    objects: list[dict[str, str]] = []
    if item.task:
        task = c.store.need(CollectedTask, item.task).value
        keys = from_form(task.structure).keys if task.structure else ()
        columns = [form.all(f"key{n}") for n in range(len(keys))]
        for number in range(min(MOST_OBJECTS, max((len(col) for col in columns), default=0))):
            objects.append(
                {
                    k: col[number] if number < len(col) else ""
                    for k, col in zip(keys, columns, strict=True)
                }
            )
    return EnteredAnswer(
        form.text("choice") == "n/a", form.text("choice"), tuple(spans), tuple(objects)
    )


def _find(passage: str, line: str) -> tuple[int, int]:
    """Return where a typed quotation stands, whatever its white space."""
    words = line.split()
    match = None
    if len(" ".join(words)) <= len(passage):  # a longer one is not worth a pattern of its length
        pattern = r"\s+".join(re.escape(word) for word in words)
        match = re.search(pattern, passage) or re.search(pattern, passage, re.IGNORECASE)
    if match is None:
        raise CollectError(phrase("quote_exactly", text=line.strip()[:60]))
    return match.span()


def save(request: PageRequest) -> Response:
    """Save an answer and go on to the next item."""
    c, form = request.c, request.form
    stored = c.store.need(Item, request.path["item"]).value
    seen = form.text("seen")
    if seen and seen != shown_digest(c, stored):
        raise ConflictError(phrase("item_changed"))
    seconds = form.seconds("seconds")
    opened = form.number("opened")
    if opened:
        seconds = min(seconds, time.time() - opened) if seconds else time.time() - opened
    save_answer(
        c, request.me, stored.id, entered_answer(c, stored, form), seconds, form.number("version")
    )
    request.site.leases.drop(stored.id, request.me.id)
    return request.to("/annotate", last=stored.id, notice=request.site.phrases["saved_answer"])
