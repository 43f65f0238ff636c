"""Pages for reviewers: approval of questions, decision of items on which annotators disagree."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from taskloom.apps.collect.annotation import adjudicate, format_of
from taskloom.apps.collect.errors import CollectError
from taskloom.apps.collect.output_structure import from_form
from taskloom.apps.collect.phrases import phrase
from taskloom.apps.collect.records import CollectedTask, GivenAnswer, Item, Suggestion
from taskloom.apps.collect.suggestions import suggest_answer
from taskloom.apps.collect.task_workflow import find_problems, review
from taskloom.apps.collect.web.annotator_pages import entered_answer
from taskloom.apps.collect.web.page_requests import PageRequest, paged

LISTED = 500
"""Disputed items that the list shows; what is decided leaves it."""


def queue(request: PageRequest) -> Response:
    """List the questions that wait for a second person."""
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
    """Show an item with what its annotators answered, without their names."""
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
    """Decide an item: by one of its answers, or by another one."""
    c, form = request.c, request.form
    item = c.store.need(Item, request.path["item"]).value
    take = form.text("take")
    entered = None if take else entered_answer(c, item, form)
    adjudicate(c, request.me, item.id, form.number("version"), entered, take)
    following = next(iter(c.store.each(Item, stage="disputed", limit=1)), None)
    where = f"/adjudicate/{following.id}" if following else "/adjudicate"
    return request.to(where, notice=request.site.phrases["saved_decision"])


def suggest(request: PageRequest) -> Response:
    """Let the configured model suggest an answer, to look at while deciding."""
    item = request.c.store.need(Item, request.path["item"]).value
    suggestion = suggest_answer(request.c, request.me, item)
    return JSONResponse({"text": suggestion.text, "model": suggestion.model})
