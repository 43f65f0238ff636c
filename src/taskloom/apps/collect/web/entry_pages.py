"""Pages for everybody: signing in by a personal link, the start page, signing out."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from taskloom.apps.collect.links import SESSION_DAYS
from taskloom.apps.collect.records import CollectedTask, GivenAnswer, Item, Person
from taskloom.apps.collect.web.page_requests import PageRequest


def enter(request: PageRequest) -> Response:
    """Sign a person in by a personal link."""
    signer = request.site.signer
    person = signer.person(request.path["token"], "link")
    answer = RedirectResponse("/", 303)
    keep_session(request, answer, signer.token(person, "session"))
    return answer


def keep_session(request: PageRequest, answer: Response, session: str) -> None:
    """Have the browser keep a session."""
    answer.set_cookie(
        request.site.cookie, session, max_age=SESSION_DAYS * 86_400, httponly=True, samesite="lax"
    )


def leave(request: PageRequest) -> Response:
    """Sign a person out: the session ends on the server, too."""
    answer = request.to("/")
    request.site.signer.end_session(request.session)
    answer.delete_cookie(request.site.cookie)
    return answer


def home(request: PageRequest) -> Response:
    """Show what there is to do, and how far the project has come."""
    if request.person is None:
        return request.page("welcome.html", 401)
    store, me = request.c.store, request.me
    tasks, items = store.stages(CollectedTask), store.stages(Item)
    wanted = sum(items.get(s, 0) for s in ("open", "agreed", "disputed", "decided"))
    done = items.get("agreed", 0) + items.get("decided", 0)
    mine = {
        "answers": store.count(GivenAnswer, owner=me.id, stage="work"),
        "tasks": store.count(CollectedTask, owner=me.id),
        "returned": store.count(CollectedTask, owner=me.id, stage="returned"),
    }
    people = _progress(request) if "owner" in me.roles else []
    return request.page(
        "home.html",
        tasks=tasks,
        items=items,
        wanted=wanted,
        done=done,
        mine=mine,
        people=people,
        fresh=not people,
    )


def _progress(request: PageRequest) -> list[tuple[Person, int, int]]:
    """Return for each person how many questions were written and how many items answered."""
    store = request.c.store
    answers = store.owners(GivenAnswer, "work")
    written: dict[str, int] = {}
    for stage in ("submitted", "returned", "approved"):
        for owner, count in store.owners(CollectedTask, stage).items():
            written[owner] = written.get(owner, 0) + count
    return [(p, written.get(p.id, 0), answers.get(p.id, 0)) for p in request.c.people()]
