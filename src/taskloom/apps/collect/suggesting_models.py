"""Models that may suggest texts: behind an endpoint, in a Hugging Face folder, the packaged
SmolLM2, or a saved Taskloom learner.

torch and client libraries are imported only when a model is used.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from taskloom.apps.collect.errors import CollectError, phrase
from taskloom.apps.collect.project_file import ModelEntry
from taskloom.core.errors import TaskloomError
from taskloom.suites.zest.fields import layout

TIMEOUT = 30.0
"""Seconds that a request may take, including the wait for a busy local model. A person is waiting
for the page.
"""

SMOLLM2 = "smollm2"
MODEL_FILE, LEARNER_FILE = "config.json", "learner.json"


@dataclass(frozen=True, slots=True)
class ModelTask:
    """Input of a model: a prompt or, for a Taskloom learner, the question and the passage in the
    format on which it was trained.

    Attributes:
        prompt: The complete instruction.
        most_tokens: Maximum tokens of the reply.
        question: The question to answer. Empty if a question is to be reworded.
        passage: The passage that answers it.
    """

    prompt: str
    most_tokens: int
    question: str = ""
    passage: str = ""


Ask = Callable[[ModelTask], str]


def model_name(entry: ModelEntry) -> str:
    """Name with which a model's suggestions are marked."""
    return entry.model or Path(str(entry.local)).name


def rewords(entry: ModelEntry, folder: Path) -> bool:
    """True if a model can suggest wordings. A saved learner can only answer questions."""
    return entry.local is None or not (folder / entry.local / LEARNER_FILE).is_file()


def check_model(entry: ModelEntry, folder: Path) -> None:
    """Raise `CollectError` if a local model does not exist.

    Args:
        entry: The model of the project file.
        folder: The project's folder, to which paths are relative.
    """
    if entry.local is None or entry.local == SMOLLM2:
        return
    place = folder / entry.local
    if not any((place / name).is_file() for name in (MODEL_FILE, LEARNER_FILE)):
        raise CollectError(
            phrase("no_local_model", local=entry.local, model=MODEL_FILE, learner=LEARNER_FILE)
        )


def ask_model(entry: ModelEntry, folder: Path, task: ModelTask) -> str:
    """Return the reply of the project's model.

    Raises:
        CollectError: If there is no reply, with the reason in one sentence.
    """
    check_model(entry, folder)
    try:
        return _opened(entry, folder)(task)
    except CollectError:
        raise
    except TaskloomError as error:
        raise CollectError(phrase("suggestion_failed", reason=error)) from error


_opening = threading.Lock()


def _opened(entry: ModelEntry, folder: Path) -> Ask:
    with _opening:  # two simultaneous first requests must not load the model twice
        return _open(entry, folder)


@lru_cache(maxsize=2)
def _open(entry: ModelEntry, folder: Path) -> Ask:
    if entry.url is not None:
        return _endpoint(entry)
    local = str(entry.local)
    if (folder / local / LEARNER_FILE).is_file():
        return _learner(folder / local)
    return _language_model(SMOLLM2 if local == SMOLLM2 else str((folder / local).resolve()))


def _endpoint(entry: ModelEntry) -> Ask:
    from taskloom.learners.models.client import Limits, ModelClient

    limits = Limits(requests=entry.requests, at_once=4, attempts=2, timeout=TIMEOUT)
    client = ModelClient(
        str(entry.url), entry.model, os.environ.get(entry.key_variable, ""), limits
    )
    return lambda task: client.ask([task.prompt], task.most_tokens)[0].said


def _learner(folder: Path) -> Ask:
    """Load a learner saved by Taskloom. It reads questions and passages in the layout of ZEST's
    recipes.
    """
    from taskloom.learners import load

    fitted = load(folder)

    def answer(task: ModelTask) -> str:
        if not task.question:
            raise CollectError(phrase("learner_only_answers"))
        return fitted.answer([layout(task.question, task.passage)])[0]

    return _one_at_a_time(answer)


def _language_model(name: str) -> Ask:
    """Load a local language model. It is prompted with its chat template if it has one."""
    from taskloom.learners.pretrained.encoding import read_source
    from taskloom.learners.pretrained.fitted import FittedLanguageModel
    from taskloom.learners.pretrained.in_context import InContext
    from taskloom.learners.pretrained.models import open_base
    from taskloom.learners.training.step import pick_device

    base = open_base(name)
    base.model.to(pick_device("auto"))

    def reply(task: ModelTask) -> str:
        settings = InContext(shots=0, join="", longest_answer=task.most_tokens, batch=1)
        return FittedLanguageModel(settings, base, batch=1).say(
            [read_source(base, _chat(base.tokeniser, task.prompt), "")]
        )[0]

    return _one_at_a_time(reply)


def _chat(tokeniser: Any, prompt: str) -> str:
    if not getattr(tokeniser, "chat_template", None):
        return prompt
    text: str = tokeniser.apply_chat_template(
        [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
    )
    return text


def _one_at_a_time(ask: Ask) -> Ask:
    """Run one request at a time, because a local model shares the cores with the page server."""
    lock = threading.Lock()

    def guarded(task: ModelTask) -> str:
        if not lock.acquire(timeout=TIMEOUT):
            raise CollectError(phrase("model_busy"))
        try:
            return ask(task)
        finally:
            lock.release()

    return guarded
