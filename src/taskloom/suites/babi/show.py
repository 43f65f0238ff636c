"""Shows stories with the support highlighted and the proof in words, and answers stories typed by
the user.
"""

from __future__ import annotations

from typing import Any

from taskloom.core.errors import InputError
from taskloom.core.example import Answer, Example
from taskloom.core.pictures import ProofStep, StoryPicture
from taskloom.suites.babi.reasoner.answers import answer, derivation, in_words, supports
from taskloom.suites.babi.reasoner.knowledge import Contradiction, Knowledge, Reading
from taskloom.suites.babi.story.grammar import parse_passage
from taskloom.suites.babi.story.text_format import split_passage
from taskloom.suites.babi.story.vocabulary import StoryLexicon, Vocabulary


def answer_passage(
    text: str, vocabulary: Vocabulary, lexicon: StoryLexicon, reading: Reading
) -> Answer:
    """Answer a story and its question given as running text, with the derivation."""
    sentences, question = split_passage(text)
    story = parse_passage(" ".join(sentences), question, vocabulary, lexicon)
    try:
        knowledge = Knowledge(vocabulary.places, reading).tell_all(story.events)
    except Contradiction as error:
        raise InputError(
            f"the story contradicts itself in sentence {error.sentence + 1}: {error.reason}"
        ) from None
    query = story.questions[0].question
    verdict = answer(knowledge, query)
    official = (supports(knowledge, query, verdict) or [()])[0]
    return Answer(
        (verdict.answer,), tuple(derivation(knowledge.events, official, query, verdict.answer))
    )


def show(example: Example, vocabulary: Vocabulary, lexicon: StoryLexicon, reading: Reading) -> Any:
    """Format an example for reading: numbered sentences, the support in bold, and the proof in
    words.
    """
    sentences, question = split_passage(example.input)
    story = parse_passage(" ".join(sentences), question, vocabulary, lexicon)
    knowledge = Knowledge(vocabulary.places, reading).tell_all(story.events)
    query, lines = story.questions[0].question, range(1, len(sentences) + 1)
    return _numbered(
        example, in_words(knowledge, query, answer(knowledge, query), cited(example), lines)
    )


def show_derived(example: Example) -> Any:
    """Format an example of a task with its own world, whose proof is the derivation."""
    sentences = split_passage(example.input)[0]
    facts = [
        f"[{i + 1}] {sentence}".rstrip(".")
        for i, sentence in enumerate(sentences)
        if i in cited(example)
    ]
    steps = [f"{step.rule}: {step.value}" for step in example.derivation if step.rule != "told"]
    return _numbered(example, "; ".join(facts + steps))


def cited(example: Example) -> list[int]:
    """Return the indices of the sentences in the official support, from 0."""
    return [int(n) - 1 for n in str(example.traits.get("support_lines", "")).split()]


def lit_story(example: Example) -> StoryPicture | None:
    """Return a story with its proof: what each sentence of the support states, then what follows.

    For an example without a derivation, such as a stored answer, the support is the proof. None for
    inputs with only one part, the question or the story.
    """
    try:
        sentences, question = split_passage(example.input)
    except InputError:
        return None
    support = [place for place in cited(example) if place < len(sentences)]
    if not sentences:
        return None
    proof = []
    for number, step in enumerate(example.derivation):
        # The first steps are the sentences of the support, in order ("told"). Later steps refer to
        # those from which they follow.
        used = (number,) if number < len(support) else step.of or ()
        places = tuple(support[i] for i in used if i < len(support))
        text = sentences[places[0]] if step.rule == "told" and places else step.value
        proof.append(ProofStep(text, "" if step.rule == "told" else step.rule, places))
    if not example.derivation:
        proof = [ProofStep(sentences[place], "", (place,)) for place in support]
    return StoryPicture(tuple(sentences), question, " or ".join(example.targets), tuple(proof))


def _numbered(example: Example, proof: str) -> Any:
    from rich.text import Text

    sentences, question = split_passage(example.input)
    support = cited(example)
    out = Text()
    for i, sentence in enumerate(sentences):
        out.append(f"{i + 1:3} {sentence}\n", style="bold green" if i in support else "")
    out.append(f"    {question} ", style="bold")
    out.append(" or ".join(example.targets) + "\n", style="bold magenta")
    out.append(f"    {proof}", style="dim")
    return out
