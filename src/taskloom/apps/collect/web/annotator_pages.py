"""Pages for annotators, who answer one item after another, and for reviewers, who approve tasks and
settle disputes.
"""

from __future__ import annotations

import re
import time

from starlette.responses import JSONResponse, Response

from taskloom.apps.collect.annotation import (
    MOST_SPANS,
    EnteredAnswer,
    adjudicate,
    check_qualified,
    format_of,
    next_item,
    save_answer,
)
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.errors import CollectError, ConflictError, ForbiddenError, phrase
from taskloom.apps.collect.output_structure import MOST_OBJECTS, from_form
from taskloom.apps.collect.records import CollectedTask, GivenAnswer, Item, Suggestion
from taskloom.apps.collect.suggestions import suggest_answer
from taskloom.apps.collect.task_workflow import find_problems, review
from taskloom.apps.collect.web.page_requests import PageFields, PageRequest, paged
from taskloom.core.files import digest
from taskloom.suites.zest.task_files import parse_structure

ROWS = 3
"""Initial number of empty rows of a structure. A script adds more."""

_SPAN = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)


def next_one(request: PageRequest) -> Response:
    """Redirect the annotator to the next item, or to a page that states that everything is done."""
    following = next_item(request.c, request.me, request.site.leases)
    if following is None:
        answered = request.c.store.count(GivenAnswer, owner=request.me.id, stage="work")
        return request.page("done.html", answered=answered)
    notice = request.notice
    last = request.query.line("last")
    query = {name: value for name, value in (("notice", notice), ("last", last)) if value}
    return request.to(f"/annotate/{following.id}", **query)


def item(request: PageRequest) -> Response:
    """Show an item, with the annotator's earlier answer if there is one, but never with anyone
    else's.
    """
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
    """Digest of the question and passage shown to an annotator. An answer is only saved if the
    digest is unchanged.
    """
    return digest(f"{c.question(item)}\n{c.passage(item)}", 6)


def _as_form(answer: GivenAnswer, passage: str) -> dict[str, object]:
    """Convert a saved answer to form values."""
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
    """Find the position of a typed quotation, ignoring differences in white space."""
    words = line.split()
    match = None
    if len(" ".join(words)) <= len(passage):  # the pattern would be too slow for longer quotations
        pattern = r"\s+".join(re.escape(word) for word in words)
        match = re.search(pattern, passage) or re.search(pattern, passage, re.IGNORECASE)
    if match is None:
        raise CollectError(phrase("quote_exactly", text=line.strip()[:60]))
    return match.span()


def save(request: PageRequest) -> Response:
    """Save an answer and continue with the next item."""
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


LISTED = 500
"""Maximum number of disputed items in the list. Settled items disappear from it."""


def queue(request: PageRequest) -> Response:
    """List the questions waiting for a reviewer."""
    waiting = [
        t
        for t in request.c.store.each(CollectedTask, stage="submitted")
        if t.writer != request.me.id
    ]
    part, number, parts = paged(waiting, request.query.number("part", 1))
    return request.page(
        "review_list.html", tasks=part, number=number, parts=parts, count=len(waiting)
    )


def task(request: PageRequest) -> Response:
    """Show a question with its form checks."""
    stored = request.c.store.need(CollectedTask, request.path["task"])
    value = stored.value
    findings = find_problems(
        request.c, value.id, value.question, value.format, value.variant, value.domain, value.bases
    )
    bases = [request.c.store.need(CollectedTask, b).value for b in value.bases]
    preview = from_form(value.structure).preview() if value.structure else ""
    return request.page(
        "review.html",
        task=value,
        version=stored.version,
        findings=findings,
        bases=bases,
        preview=preview,
    )


def decide(request: PageRequest) -> Response:
    """Approve, return or remove a question."""
    form = request.form
    review(
        request.c,
        request.me,
        request.path["task"],
        form.number("version"),
        form.text("decision"),
        form.line("reason"),
    )
    waiting = next(
        (
            t
            for t in request.c.store.each(CollectedTask, stage="submitted")
            if t.writer != request.me.id
        ),
        None,
    )
    where = f"/review/{waiting.id}" if waiting else "/review"
    return request.to(where, notice=request.site.phrases["saved_review"])


def disputes(request: PageRequest) -> Response:
    """List the items on which annotators disagree."""
    items = list(request.c.store.each(Item, stage="disputed", limit=LISTED))
    part, number, parts = paged(items, request.query.number("part", 1))
    rows = [(i, request.c.question(i)) for i in part]
    count = request.c.store.count(Item, stage="disputed")
    return request.page("disputes.html", rows=rows, number=number, parts=parts, count=count)


def dispute(request: PageRequest) -> Response:
    """Show an item with the annotators' answers, without names."""
    c = request.c
    stored = c.store.need(Item, request.path["item"])
    item = stored.value
    if item.known is not None:
        raise CollectError(phrase("known_item"))
    answers = sorted(c.store.each(GivenAnswer, parent=item.id), key=lambda a: a.id)
    collected = c.store.need(CollectedTask, item.task).value
    structure = from_form(collected.structure) if collected.structure else None
    suggestions = list(c.store.each(Suggestion, parent=item.id)) if c.setup.suggestions else []
    return request.page(
        "adjudicate.html",
        item=item,
        version=stored.version,
        question=collected.question,
        passage=c.passage(item),
        format=format_of(c, item),
        structure=structure,
        answers=answers,
        suggestions=suggestions,
        can_suggest=c.setup.suggestions,
        earlier=None,
    )


def settle(request: PageRequest) -> Response:
    """Settle an item with one of the annotators' answers or a new answer."""
    c, form = request.c, request.form
    item = c.store.need(Item, request.path["item"]).value
    take = form.text("take")
    entered = None if take else entered_answer(c, item, form)
    adjudicate(c, request.me, item.id, form.number("version"), entered, take)
    following = next(iter(c.store.each(Item, stage="disputed", limit=1)), None)
    where = f"/adjudicate/{following.id}" if following else "/adjudicate"
    return request.to(where, notice=request.site.phrases["saved_decision"])


def suggest(request: PageRequest) -> Response:
    """Request an answer from the configured model, for the reviewer to see while deciding."""
    item = request.c.store.need(Item, request.path["item"]).value
    suggestion = suggest_answer(request.c, request.me, item)
    return JSONResponse({"text": suggestion.text, "model": suggestion.model})
