"""Pages for writers: base tasks and their variants."""

from __future__ import annotations

import secrets
from typing import Any

from starlette.responses import JSONResponse, Response

from taskloom.apps.collect.errors import CollectError, phrase
from taskloom.apps.collect.output_structure import OutputStructure, compile_structure
from taskloom.apps.collect.question_checks import FormFinding
from taskloom.apps.collect.records import AnswerFormat, CollectedTask
from taskloom.apps.collect.suggestions import can_suggest_wording, suggest_wording
from taskloom.apps.collect.task_workflow import (
    VARIANTS,
    Wording,
    approved_base,
    offer_base,
    offer_triple,
    resubmit,
    submit_base,
    submit_variant,
)
from taskloom.apps.collect.web.page_requests import PageFields, PageRequest

ATTRIBUTES = (1, 2, 3)
"""Row numbers of the structure editor."""

EXAMPLES = 6
"""Number of entities shown to a writer. The paper showed six pictures."""


def _format(form: PageFields) -> AnswerFormat:
    return "span" if form.text("format") == "span" else "yes/no"


def _wording(form: PageFields, structure: OutputStructure | None = None) -> Wording:
    sure = form.text("sure") == "yes"
    return Wording(form.line("question"), _format(form), structure, form.line("suggested"), sure)


def write(request: PageRequest) -> Response:
    """Show the form for a base task and the writer's earlier questions."""
    return _write_page(request, PageFields({}), secrets.token_hex(8), [])


def _write_page(
    request: PageRequest,
    form: PageFields,
    ticket: str,
    findings: list[FormFinding],
    status: int = 200,
) -> Response:
    c = request.c
    tasks = sorted(
        c.store.each(CollectedTask, owner=request.me.id),
        key=lambda t: (t.state != "returned", t.question),
    )
    formats: dict[str, int] = {}
    for task in c.store.each(CollectedTask):
        if task.variant == "normal" and task.state != "removed":
            formats[task.format] = formats.get(task.format, 0) + 1
    entities = {d.name: c.entities(d.name)[:EXAMPLES] for d in c.file.domains}
    return request.page(
        "write.html",
        status,
        form=form,
        ticket=ticket,
        findings=findings,
        tasks=tasks,
        formats=formats,
        entities=entities,
    )


def submit(request: PageRequest) -> Response:
    """Submit a base task."""
    form = request.form
    submission = submit_base(
        request.c, request.me, form.line("ticket"), form.text("domain"), _wording(form)
    )
    if submission.task is None:
        return _write_page(request, form, form.line("ticket"), submission.findings, 422)
    return request.to("/write", notice=request.site.phrases["saved_task"])


def edit(request: PageRequest) -> Response:
    """Show one of the writer's tasks for editing."""
    return _edit_page(request, [], None)


def _edit_page(
    request: PageRequest, findings: list[FormFinding], form: PageFields | None, status: int = 200
) -> Response:
    stored = request.c.store.need(CollectedTask, request.path["task"])
    if stored.value.writer != request.me.id:
        raise CollectError(phrase("others_question"))
    bases = [request.c.store.need(CollectedTask, b).value for b in stored.value.bases]
    return request.page(
        "edit.html",
        status,
        task=stored.value,
        version=stored.version,
        findings=findings,
        form=form,
        bases=bases,
    )


def submit_again(request: PageRequest) -> Response:
    """Resubmit a task."""
    form = request.form
    submission = resubmit(
        request.c, request.me, request.path["task"], form.number("version"), _wording(form)
    )
    if submission.task is None:
        return _edit_page(request, submission.findings, form, 422)
    return request.to("/write", notice=request.site.phrases["saved_task"])


def vary(request: PageRequest) -> Response:
    """Offer base tasks for a variant."""
    variant = _variant(request)
    turn = request.query.number("turn")
    if variant == "combination":
        bases = list(offer_triple(request.c, request.me, turn))
    else:
        offered = offer_base(request.c, request.me, variant, turn)
        bases = [offered] if offered else []
    return _vary_page(request, variant, bases, PageFields({}), secrets.token_hex(8), [], turn)


def _variant(request: PageRequest) -> str:
    variant = request.path["variant"]
    if variant not in VARIANTS:
        raise CollectError(
            phrase("unknown_variant", variant=variant[:40], variants=", ".join(VARIANTS))
        )
    return variant


def _vary_page(
    request: PageRequest,
    variant: str,
    bases: list[CollectedTask],
    form: PageFields,
    ticket: str,
    findings: list[FormFinding],
    turn: int,
    status: int = 200,
) -> Response:
    values: dict[str, Any] = {
        "variant": variant,
        "variants": VARIANTS,
        "bases": bases,
        "turn": turn,
        "rows": ATTRIBUTES,
    }
    known = {
        t.id: t
        for t in request.c.store.each(CollectedTask, owner=request.me.id)
        if t.variant == variant
    }
    domain = request.c.file.domain(bases[0].domain) if bases else None
    suggestions = can_suggest_wording(request.c, variant)
    return request.page(
        "vary.html",
        status,
        form=form,
        ticket=ticket,
        findings=findings,
        mine=list(known.values()),
        domain=domain,
        suggestions=suggestions,
        **values,
    )


def submit_variant_form(request: PageRequest) -> Response:
    """Submit a variant."""
    variant, form = _variant(request), request.form
    offered = [approved_base(request.c, id) for id in form.all("offered")[:3]]
    chosen = form.all("base") if variant == "combination" else form.all("offered")[:1]
    structure = None
    if variant == "structure" and offered:
        rows = [
            (form.line(f"name{n}"), form.line(f"values{n}"), form.text(f"complete{n}") == "yes")
            for n in ATTRIBUTES
        ]
        structure = compile_structure(
            form.line("main"), rows, request.c.file.domain(offered[0].domain).entity
        )
    ticket = form.line("ticket")
    submission = submit_variant(
        request.c, request.me, ticket, variant, chosen, _wording(form, structure)
    )
    if submission.task is None:
        turn = form.number("turn")
        return _vary_page(request, variant, offered, form, ticket, submission.findings, turn, 422)
    return request.to(
        f"/vary/{variant}", turn=form.number("turn"), notice=request.site.phrases["saved_task"]
    )


def suggest(request: PageRequest) -> Response:
    """Request a wording from the configured model."""
    task = approved_base(request.c, request.path["task"])
    variant = (
        "target_semantics" if request.form.text("variant") == "target_semantics" else "paraphrase"
    )
    suggestion = suggest_wording(request.c, request.me, task, variant)
    return JSONResponse({"text": suggestion.text, "model": suggestion.model})
