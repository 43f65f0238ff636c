"""Suggestions of a model: only where an owner allows them, marked, never an annotator's answer, never seen by annotators."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from taskloom.collect import suggestions
from taskloom.collect.annotation import EnteredAnswer, gather_passages, save_answer
from taskloom.collect.collect_errors import CollectError, ForbiddenError
from taskloom.collect.collection import Collection
from taskloom.collect.export import agreement_report
from taskloom.collect.records import CollectedTask, GivenAnswer, Item, Person, Suggestion
from taskloom.collect.suggestions import suggest_answer, suggest_wording
from taskloom.learners.endpoint.client import EndpointError
from tests.collect.projects import add_people, open_project, write_base_tasks
from tests.collect.test_web import Browser

MODEL = {"url": "http://127.0.0.1:9/v1", "model": "tiny-model"}


class Parrot:
    """Stands for a model: repeats what it is told to say."""

    def __init__(self) -> None:
        self.reply: str | EndpointError = '"May visitors take dogs\u202e along into this garden?"\n'
        self.prompts: list[str] = []

    def ask(self, questions: list[str], most_tokens: int) -> list[str]:
        self.prompts += questions
        if isinstance(self.reply, EndpointError):
            raise self.reply
        return [self.reply]


@pytest.fixture
def parrot(monkeypatch: pytest.MonkeyPatch) -> Parrot:
    model = Parrot()
    monkeypatch.setattr(suggestions, "_client", lambda *_: model)
    return model


@pytest.fixture
def project(tmp_path: Path) -> Iterator[tuple[Collection, dict[str, Person]]]:
    c = open_project(tmp_path, model=MODEL)
    people = add_people(c)
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    yield c, people
    c.close()


def test_nothing_is_asked_until_an_owner_allows_it(
    project: tuple[Collection, dict[str, Person]], parrot: Parrot
) -> None:
    c, people = project
    task = next(c.store.each(CollectedTask))
    with pytest.raises(ForbiddenError, match="switched off"):
        suggest_wording(c, people["Wim"], task, "paraphrase")
    assert parrot.prompts == []
    writer = Browser(c, people["Wim"])
    assert "Suggest one" not in writer.get("/vary/paraphrase").text
    assert writer.post(f"/suggest/{task.id}").status_code == 403
    assert Browser(c, people["Olga"]).post("/project/suggestions", {"allowed": "yes"}).status_code == 303
    assert "Suggest one" in writer.get("/vary/paraphrase").text
    reply = writer.post(f"/suggest/{task.id}", {"variant": "paraphrase"}).json()
    assert reply == {"text": "May visitors take dogs along into this garden?", "model": "tiny-model"}
    assert "this garden" in parrot.prompts[0]
    data = {
        "offered": task.id,
        "ticket": "t",
        "question": "Can dogs come along into this garden?",
        "suggested": "tiny-model",
    }
    assert writer.post("/vary/paraphrase", data).status_code == 303
    saved = next(t for t in c.store.each(CollectedTask) if t.bases)
    assert saved.suggested == "tiny-model"
    assert "suggested by tiny-model" in Browser(c, people["Rita"]).get(f"/review/{saved.id}").text


def test_a_suggested_answer_is_shown_to_reviewers_and_counts_for_nothing(
    project: tuple[Collection, dict[str, Person]], parrot: Parrot
) -> None:
    c, people = project
    c.allow_suggestions(people["Olga"].id, True)
    item = next(c.store.each(Item))
    for name, choice in (("Ann", "yes"), ("Abe", "no")):
        save_answer(c, people[name], item.id, EnteredAnswer(choice=choice), 1, 0)
    parrot.reply = "yes"
    assert suggest_answer(c, people["Rita"], item).text == "yes"
    assert c.passage(item) in parrot.prompts[0]
    assert c.store.need(Item, item.id).value.answered == 2
    assert c.store.count(GivenAnswer) == 2
    save_answer(c, people["Ada"], item.id, EnteredAnswer(na=True), 1, 0)
    assert c.store.need(Item, item.id).value.state == "disputed", "the model's yes is no vote"
    assert agreement_report(c)["human_performance"] == []
    assert "suggested by tiny-model" in Browser(c, people["Rita"]).get(f"/adjudicate/{item.id}").text
    assert "tiny-model" not in Browser(c, people["Ann"]).get(f"/annotate/{item.id}").text
    assert c.store.count(Suggestion) == 1


def test_a_model_that_fails_is_one_sentence(project: tuple[Collection, dict[str, Person]], parrot: Parrot) -> None:
    c, people = project
    c.allow_suggestions(people["Olga"].id, True)
    item = next(c.store.each(Item))
    for reply, problem in (
        (EndpointError("no answer within 30 s"), "no answer within 30 s"),
        (" \n", "empty suggestion"),
    ):
        parrot.reply = reply
        with pytest.raises(CollectError, match=problem):
            suggest_answer(c, people["Rita"], item)
    assert c.store.count(Suggestion) == 0


def test_without_a_model_in_the_project_file_nothing_can_be_allowed(tmp_path: Path) -> None:
    c = open_project(tmp_path)
    with pytest.raises(CollectError, match="configures no model"):
        c.allow_suggestions("x", True)
    c.close()


class Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"choices": [{"message": {"content": "n/a"}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.nightly  # importing the endpoint's library takes more than a second
def test_a_real_endpoint_is_asked(tmp_path: Path) -> None:
    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    c = open_project(tmp_path, model={**MODEL, "url": f"http://127.0.0.1:{server.server_address[1]}/v1"})
    people = add_people(c)
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    c.allow_suggestions(people["Olga"].id, True)
    assert suggest_answer(c, people["Rita"], next(c.store.each(Item))).text == "n/a"
    c.close()
    server.shutdown()
    server.server_close()
