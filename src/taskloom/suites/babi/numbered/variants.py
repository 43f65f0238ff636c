"""Variants of the tasks 14 to 20: a sentence fewer, another name, another order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, count, pairwise, product
from typing import Any

from taskloom.core.errors import InputError
from taskloom.core.example import Example
from taskloom.core.plan import Variant
from taskloom.suites.babi.numbered.task import UNKNOWN, NumberedTask, Parsed, as_story, pieces
from taskloom.suites.babi.variants import StoryEdit


class NumberedVariants:
    """The candidates of `Plan.variants` for one of the tasks 14 to 20, by edits of whole sentences
    and of names.
    """

    def __init__(self, task: NumberedTask[Any, Any]) -> None:
        self._task = task

    def __call__(self, example: Example) -> Iterator[Variant]:
        """Yield candidates: simpler ones, then flips, then keeps."""
        *sentences, question = pieces(example.input)
        parsed = self._task.understand(as_story([*sentences, question]), "the example")
        proof = self._task.solve(parsed)[-1]
        support = [number - 1 for number in proof.support]
        for edit in self._edits(sentences, support, parsed):
            varied = self._example([text for text, _ in edit.sentences], question)
            if varied is None:
                continue
            if varied.target == UNKNOWN and proof.answer != UNKNOWN:
                continue
            yield Variant(edit.kind, edit.edit, varied, edit.before, edit.after)

    def _edits(
        self, sentences: list[str], support: list[int], parsed: Parsed[Any, Any]
    ) -> Iterator[StoryEdit]:
        numbered: list[tuple[str, int | None]] = list(zip(sentences, count()))
        removals = [(text, numbered[:i] + numbered[i + 1 :]) for i, text in enumerate(sentences)]
        for text, rest in removals:
            yield StoryEdit("simpler", "sentence removed", rest, text, "")
        names = [self._task.mentions(statement.fact) for statement in parsed.facts]
        every = dict.fromkeys(chain.from_iterable(names))
        for i in support:
            others = [(name, other) for name, other in product(names[i], every) if name != other]
            for word, other in dict.fromkeys([*others, *_other_words(sentences, i)]):
                text = re.sub(rf"\b{re.escape(word)}\b", other, sentences[i])
                changed = [*numbered[:i], (text, None), *numbered[i + 1 :]]
                yield StoryEdit("flip", "another word", changed, word, other)
        for i, (text, rest) in enumerate(removals):
            if i not in support:
                yield StoryEdit("keep", "irrelevant sentence removed", rest, text, "")
        for i, (one, two) in enumerate(pairwise(sentences)):
            swapped = [*numbered[:i], (two, None), (one, None), *numbered[i + 2 :]]
            yield StoryEdit("keep", "another order", swapped, f"{one} {two}", f"{two} {one}")

    def _example(self, sentences: list[str], question: str) -> Example | None:
        """The edited story; None if it cannot be read or contradicts itself."""
        if not sentences:
            return None
        try:
            parsed = self._task.understand(as_story([*sentences, question]), "the variant")
        except InputError:
            return None
        return self._task.example(parsed, 0)


def _other_words(sentences: list[str], i: int) -> Iterator[tuple[str, str]]:
    """Words of sentence i, each with what another sentence of that length has in its place.

    Names may be inflected ("mice"), so not all of them are found in the text by name.
    """
    words = _WORD.findall(sentences[i])
    for sentence in sentences:
        others = _WORD.findall(sentence)
        if len(others) == len(words):
            yield from ((a, b) for a, b in zip(words, others, strict=True) if a != b)


_WORD = re.compile(r"\w+")
