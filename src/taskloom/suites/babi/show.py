"""Stories for people: the support highlighted, the proof in words; and the answer to a story typed in."""

from __future__ import annotations

import re
from typing import Any

from taskloom.errors import InputError
from taskloom.example import Answer, Example
from taskloom.suites.babi.reasoner.answers import answer, supports
from taskloom.suites.babi.reasoner.knowledge import Contradiction, Knowledge, Reading
from taskloom.suites.babi.reasoner.proofs import derivation, in_words
from taskloom.suites.babi.story.grammar import parse_passage
from taskloom.suites.babi.story.vocabulary import StoryLexicon, Vocabulary


def split_text(text: str) -> tuple[list[str], str]:
    """The sentences and the question of a running text.

    Raises:
        InputError: It does not end with a question.
    """
    pieces = re.findall(r"[^.?]+[.?]", text.strip())
    if not pieces or not pieces[-1].endswith("?"):
        raise InputError(
            "the input must be sentences and then a question, e.g. 'Mary went to the park. Where is Mary?'"
        )
    return [p.strip() for p in pieces[:-1]], pieces[-1].strip()


def answer_passage(text: str, vocabulary: Vocabulary, lexicon: StoryLexicon, reading: Reading) -> Answer:
    """The answer to a story and its question in running text, with the derivation."""
    sentences, question = split_text(text)
    story = parse_passage(" ".join(sentences), question, vocabulary, lexicon)
    try:
        knowledge = Knowledge(vocabulary.places, reading).tell_all(story.events)
    except Contradiction as error:
        raise InputError(f"the story contradicts itself in sentence {error.sentence + 1}: {error.reason}") from None
    asked = story.asked[0].question
    verdict = answer(knowledge, asked)
    official = (supports(knowledge, asked, verdict) or [()])[0]
    return Answer((verdict.answer,), tuple(derivation(knowledge.events, official, asked, verdict.answer)))


def show(example: Example, vocabulary: Vocabulary, lexicon: StoryLexicon, reading: Reading) -> Any:
    """An example as a person reads it: numbered sentences, the support in bold, the proof in words."""
    sentences, question = split_text(example.input)
    story = parse_passage(" ".join(sentences), question, vocabulary, lexicon)
    knowledge = Knowledge(vocabulary.places, reading).tell_all(story.events)
    asked, lines = story.asked[0].question, range(1, len(sentences) + 1)
    return _numbered(example, in_words(knowledge, asked, answer(knowledge, asked), _cited(example), lines))


def show_derived(example: Example) -> Any:
    """The same for tasks with worlds of their own, whose proof is the derivation."""
    told = [f"[{i + 1}] {said}" for i, said in enumerate(split_text(example.input)[0]) if i in _cited(example)]
    steps = [f"{step.rule}: {step.value}" for step in example.derivation if step.rule != "told"]
    return _numbered(example, "; ".join([said.rstrip(".") for said in told] + steps))


def _cited(example: Example) -> list[int]:
    return [int(n) - 1 for n in str(example.traits.get("support_lines", "")).split()]


def _numbered(example: Example, proof: str) -> Any:
    from rich.text import Text

    sentences, question = split_text(example.input)
    cited = _cited(example)
    out = Text()
    for i, said in enumerate(sentences):
        out.append(f"{i + 1:3} {said}\n", style="bold green" if i in cited else "")
    out.append(f"    {question} ", style="bold")
    out.append(" or ".join(example.targets) + "\n", style="bold magenta")
    out.append(f"    {proof}", style="dim")
    return out
