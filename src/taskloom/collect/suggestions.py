"""Suggestions by a model, where an owner allows them: marked, kept apart from answers, never counted as an annotator.

Writers may ask for a paraphrase or a flip, which they edit and submit, marked with the model's name. Reviewers may ask for
an answer while they decide a dispute. Annotators never see suggestions: their answers must be their own.
"""

from __future__ import annotations

import os
import threading
from functools import lru_cache

from taskloom.collect.clean_text import clean_line
from taskloom.collect.collect_errors import CollectError, ForbiddenError
from taskloom.collect.collection import Collection
from taskloom.collect.output_structure import from_form
from taskloom.collect.phrases import phrase
from taskloom.collect.records import CollectedTask, Item, Person, Suggestion
from taskloom.files import digest
from taskloom.learners.endpoint.client import EndpointError, Limits, ModelClient

LONGEST_QUESTION, LONGEST_ANSWER = 60, 300
"""Tokens that a model may write for a question and for an answer."""

TIMEOUT = 30.0
"""Seconds for a request: somebody waits for it."""

PROMPTS = {
    "paraphrase": (
        "Rewrite this question so that it keeps its meaning but uses other words where possible. Keep the words "
        "“{entity}”. Write only the question.\n\nQuestion: {question}\nRewritten:"
    ),
    "target_semantics": (
        "Change as few words of this question as possible so that it asks for something else of the same kind. Keep the words "
        "“{entity}”. Write only the question.\n\nQuestion: {question}\nChanged:"
    ),
    "answer": (
        "Answer the question from the passage alone. {how} If the passage does not answer it, write n/a. Write only the "
        "answer.\n\nPassage: {passage}\n\nQuestion: {question}\nAnswer:"
    ),
}

HOW = {
    "yes/no": "Write yes or no.",
    "span": "Quote the shortest words of the passage that answer it, several parts joined by |.",
}

_lock = threading.Lock()


@lru_cache(maxsize=4)
def _client(url: str, model: str, variable: str, requests: int) -> ModelClient:
    limits = Limits(requests=requests, at_once=4, attempts=2, timeout=TIMEOUT)
    return ModelClient(url, model, os.environ.get(variable, ""), limits)


def _ask(c: Collection, prompt: str, most_tokens: int) -> tuple[str, str]:
    """Return the model's name and what it wrote, on one line."""
    model = c.file.model
    if model is None or not c.setup.suggestions:
        raise ForbiddenError(phrase("suggestions_switched_off"))
    with _lock:
        client = _client(model.url, model.model, model.key_variable, model.requests)
    try:
        reply = client.ask([prompt], most_tokens)[0]
    except EndpointError as error:
        raise CollectError(phrase("suggestion_failed", reason=error)) from error
    text = clean_line(reply)
    if not text:
        raise CollectError(phrase("suggestion_empty"))
    return model.model, text[:2_000]


def _keep(c: Collection, person: Person, about: str, model: str, text: str) -> Suggestion:
    suggestion = Suggestion(f"{about}/{digest(f'{model}{text}', 6)}", about, model, text)
    with c.store.change(person.id, "suggestion", f"by {model}") as change:
        change.put(suggestion)
    return suggestion


def suggest_wording(c: Collection, person: Person, base: CollectedTask, variant: str) -> Suggestion:
    """Ask the model for a paraphrase or a semantic flip of a base task."""
    entity = c.file.domain(base.domain).entity
    model, text = _ask(c, PROMPTS[variant].format(entity=entity, question=base.question), LONGEST_QUESTION)
    return _keep(c, person, base.id, model, text.strip('"“” '))


def suggest_answer(c: Collection, person: Person, item: Item) -> Suggestion:
    """Ask the model for an answer to an item."""
    task = c.store.need(CollectedTask, item.task).value
    how = HOW.get(task.format)
    if how is None:
        how = f"Write it in this form: {from_form(task.structure or {}).preview()}"
    prompt = PROMPTS["answer"].format(how=how, passage=c.passage(item), question=task.question)
    model, text = _ask(c, prompt, LONGEST_ANSWER)
    return _keep(c, person, item.id, model, text)
