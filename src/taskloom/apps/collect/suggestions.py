"""Suggestions by a model, if an owner enables them. They are marked, stored separately from
answers, and never counted as an annotator's answer.

Writers may request a paraphrase or a flip, which they edit and submit, marked with the model's
name. Reviewers may request an answer while they settle a dispute. Annotators never see suggestions,
because their answers must be independent.
"""

from __future__ import annotations

from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.corpus import clean_line
from taskloom.apps.collect.errors import CollectError, ForbiddenError, phrase
from taskloom.apps.collect.output_structure import from_form
from taskloom.apps.collect.records import CollectedTask, Item, Person, Suggestion
from taskloom.apps.collect.suggesting_models import ModelTask, ask_model, model_name, rewords
from taskloom.core.files import digest

LONGEST_QUESTION, LONGEST_ANSWER = 60, 300
"""Maximum tokens of a suggested question and of a suggested answer."""

REWORDED = ("paraphrase", "target_semantics")
"""Variants for which a model may suggest a wording."""

PROMPTS = {
    "paraphrase": (
        "Rewrite this question so that it keeps its meaning but uses other words where possible."
        " Keep the words “{entity}”. Write only the question.\n\nQuestion: {question}\nRewritten:"
    ),
    "target_semantics": (
        "Change as few words of this question as possible so that it asks for something else of the"
        " same kind. Keep the words “{entity}”. Write only the question.\n\nQuestion:"
        " {question}\nChanged:"
    ),
    "answer": (
        "Answer the question from the passage alone. {how} If the passage does not answer it, write"
        " n/a. Write only the answer.\n\nPassage: {passage}\n\nQuestion: {question}\nAnswer:"
    ),
}

HOW = {
    "yes/no": "Write yes or no.",
    "span": "Quote the shortest words of the passage that answer it, several parts joined by |.",
}


def can_suggest_wording(c: Collection, variant: str) -> bool:
    """True if writers may request a wording for this type of variant."""
    model = c.file.model
    return (
        model is not None
        and variant in REWORDED
        and c.setup.suggestions
        and rewords(model, c.folder)
    )


def _ask(c: Collection, task: ModelTask) -> tuple[str, str]:
    """Return the name of the model, and its reply on one line."""
    model = c.file.model
    if model is None or not c.setup.suggestions:
        raise ForbiddenError(phrase("suggestions_switched_off"))
    text = clean_line(ask_model(model, c.folder, task))
    if not text:
        raise CollectError(phrase("suggestion_empty"))
    return model_name(model), text[:2_000]


def _keep(c: Collection, person: Person, about: str, model: str, text: str) -> Suggestion:
    suggestion = Suggestion(f"{about}/{digest(f'{model}{text}', 6)}", about, model, text)
    with c.store.change(person.id, "suggestion", f"by {model}") as change:
        change.put(suggestion)
    return suggestion


def suggest_wording(c: Collection, person: Person, base: CollectedTask, variant: str) -> Suggestion:
    """Ask the model for a paraphrase or a semantic flip of a base task."""
    prompt = PROMPTS[variant].format(
        entity=c.file.domain(base.domain).entity, question=base.question
    )
    model, text = _ask(c, ModelTask(prompt, LONGEST_QUESTION))
    question, mark, _ = text.partition("?")  # small models continue with an explanation
    if not mark:
        raise CollectError(phrase("suggestion_no_question"))
    return _keep(c, person, base.id, model, f"{question}{mark}".strip('"“” '))


def suggest_answer(c: Collection, person: Person, item: Item) -> Suggestion:
    """Ask the model for an answer to an item."""
    task = c.store.need(CollectedTask, item.task).value
    how = HOW.get(task.format)
    if how is None:
        how = f"Write it in this form: {from_form(task.structure or {}).preview()}"
    passage = c.passage(item)
    prompt = PROMPTS["answer"].format(how=how, passage=passage, question=task.question)
    model, text = _ask(c, ModelTask(prompt, LONGEST_ANSWER, task.question, passage))
    return _keep(c, person, item.id, model, text)
