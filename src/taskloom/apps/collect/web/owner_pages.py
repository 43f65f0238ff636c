"""Pages for owners: people, project, passages, results, export and the log."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from starlette.responses import Response, StreamingResponse

from taskloom.apps.collect import annotation
from taskloom.apps.collect.errors import CollectError, ConflictError, phrase
from taskloom.apps.collect.export import (
    Release,
    agreement_report,
    export,
    finished_tasks,
    prepare,
    table2,
    zest_task,
)
from taskloom.apps.collect.quality import PUBLISHED
from taskloom.apps.collect.records import ROLES, CollectedTask, Document, GivenAnswer, Item, Person
from taskloom.apps.collect.suggesting_models import model_name
from taskloom.apps.collect.undo import undo as undo_event
from taskloom.apps.collect.web.page_requests import PageRequest, keep_session, paged
from taskloom.suites.zest.task_files import PAPER_NAMES, statistics

SHOWN = 50
"""Events per page of the log."""


def people(request: PageRequest) -> Response:
    """List the people with their links and roles."""
    rows = []
    for person in request.c.people():
        stored = request.c.store.need(Person, person.id)
        rows.append((stored.value, stored.version, request.site.link(stored.value, request.base)))
    return request.page("people.html", rows=rows, roles=ROLES)


def add_person(request: PageRequest) -> Response:
    """Add a person."""
    person = request.c.add_person(
        request.me.id, request.form.text("name"), list(request.form.all("role"))
    )
    return request.to("/people", notice=phrase("person_added", name=person.name))


def change_roles(request: PageRequest) -> Response:
    """Change a person's roles."""
    form = request.form
    request.c.change_roles(
        request.me.id, request.path["person"], list(form.all("role")), form.number("version")
    )
    return request.to("/people", notice=request.site.phrases["saved"])


def renew_link(request: PageRequest) -> Response:
    """Invalidate a person's previous links."""
    person = request.c.renew_link(request.me.id, request.path["person"])
    if person.id != request.me.id:
        return request.to("/people", notice=request.site.phrases["saved_link"])
    # Owners who renew their own link stay signed in in this browser. Everyone else needs the new
    # link.
    session = request.site.signer.token(person, "session")
    answer = replace(request, session=session).to(
        "/people", notice=request.site.phrases["saved_link"]
    )
    keep_session(request, answer, session)
    return answer


def requalify(request: PageRequest) -> Response:
    """Allow an annotator to work without qualifying."""
    request.c.requalify(request.me.id, request.path["person"])
    return request.to("/people", notice=request.site.phrases["saved"])


def project(request: PageRequest) -> Response:
    """Show the project file, the corpus and the switch for suggestions."""
    c = request.c
    corpus = [
        (
            d,
            c.store.count(Document, parent=d.name),
            sum(x.words for x in c.store.each(Document, parent=d.name)),
        )
        for d in c.file.domains
    ]
    model = model_name(c.file.model) if c.file.model else ""
    return request.page(
        "project.html",
        corpus=corpus,
        notes=c.notes,
        setup=c.setup,
        folder=str(c.folder),
        model=model,
    )


def suggestions(request: PageRequest) -> Response:
    """Switch suggestions on or off."""
    request.c.allow_suggestions(request.me.id, request.form.text("allowed") == "yes")
    return request.to("/project", notice=request.site.phrases["saved"])


def passages(request: PageRequest) -> Response:
    """List the approved tasks with their passages."""
    c = request.c
    tasks = sorted(
        c.store.each(CollectedTask, stage="approved"), key=lambda t: (t.domain, t.split, t.question)
    )
    part, number, parts = paged(tasks, request.query.number("part", 1), 100)
    rows = [(t, c.store.stages(Item, parent=t.id)) for t in part]
    missing = sum(not c.store.count(Item, parent=t.id) for t in tasks)
    names = PAPER_NAMES
    return request.page(
        "passages.html",
        rows=rows,
        number=number,
        parts=parts,
        missing=missing,
        count=len(tasks),
        names=names,
        notes=(),
    )


@contextmanager
def _alone(lock: threading.Lock, refusal: str) -> Iterator[None]:
    """Allow only one request at a time in the block, and refuse the others."""
    if not lock.acquire(blocking=False):
        raise ConflictError(refusal)
    try:
        yield
    finally:
        lock.release()


def gather(request: PageRequest) -> Response:
    """Gather passages for every approved task that has none."""
    with _alone(request.site.gathering, phrase("gathering")):
        notes = annotation.gather_passages(request.c, request.me.id)
    if notes:
        rest = phrase("notes_more", count=len(notes) - 1) if len(notes) > 1 else ""
        return request.to("/passages", notice=f"{notes[0][:240]} {rest}".strip())
    return request.to("/passages", notice=request.site.phrases["saved_passages"])


def results(request: PageRequest) -> Response:
    """Show agreement, the estimate of human performance, statistics and times."""
    c = request.c
    report = agreement_report(c)
    finished, _ = finished_tasks(c)
    tables = {
        name: statistics([zest_task(c, f) for f in tasks])
        for name, tasks in finished.items()
        if tasks
    }
    published = {("overall" if k == "overall" else PAPER_NAMES[k]): v for k, v in PUBLISHED.items()}
    times: dict[str, list[float]] = {}
    for answer in c.store.each(GivenAnswer, stage="work"):
        times.setdefault(answer.person, []).append(answer.seconds)
    names = {p.id: p.name for p in c.people()}
    speeds = [(names.get(p, p), len(t), sorted(t)[len(t) // 2]) for p, t in sorted(times.items())]
    return request.page(
        "results.html",
        report=report,
        tables=tables,
        rows=table2(tables),
        published=published,
        speeds=speeds,
    )


def export_page(request: PageRequest) -> Response:
    """Audit the export, and list the objections to it."""
    release: Release | None = None
    problem = ""
    with tempfile.TemporaryDirectory() as folder:
        try:
            release = prepare(request.c, Path(folder) / "release")
        except CollectError as error:
            problem = str(error)
    folders = sorted(p.name for p in (request.c.folder / "exports").glob("*") if p.is_dir())
    return request.page("export.html", release=release, problem=problem, folders=folders)


def export_now(request: PageRequest) -> Response:
    """Export into the `exports` folder of the project."""
    name = request.form.line("name")
    if (
        not name
        or not all(ch.isascii() and (ch.isalnum() or ch in "-_") for ch in name)
        or len(name) > 60
    ):
        raise CollectError(phrase("release_name"))
    with _alone(request.site.exporting, phrase("exporting")):
        export(
            request.c,
            request.c.folder / "exports" / name,
            despite_leaks=request.form.text("despite") == "yes",
        )
    return request.to("/export", notice=phrase("exported", name=name))


def log(request: PageRequest) -> Response:
    """List the events, newest first."""
    c = request.c
    before = request.query.number("before") or None
    events = list(c.store.events(before, SHOWN, with_changes=False))
    names = {p.id: p.name for p in c.people()}
    rows = [(e, names.get(e.who, e.who), c.store.undone(e.number)) for e in events]
    earlier = events[-1].number if len(events) == SHOWN else None
    return request.page("log.html", rows=rows, earlier=earlier)


def undo(request: PageRequest) -> Response:
    """Undo an event."""
    text = request.path["event"]
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 15 else 0
    undo_event(request.c, request.me.id, number)
    return request.to("/log", notice=request.site.phrases["saved_undo"])


def download_log(request: PageRequest) -> Response:
    """Send the whole log as JSON lines."""
    headers = {"content-disposition": 'attachment; filename="log.jsonl"'}
    return StreamingResponse(_log_lines(request), media_type="application/jsonl", headers=headers)


def _log_lines(request: PageRequest) -> Iterator[str]:
    """Yield the events in batches, because the server may run each step in a different thread with
    its own connection.
    """
    last = 0
    while events := list(request.c.store.events(limit=500, after=last, oldest_first=True)):
        yield "".join(json.dumps(e.to_json(), ensure_ascii=False) + "\n" for e in events)
        last = events[-1].number
