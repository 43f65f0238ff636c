"""Search by BM25, with the library bm25s: over questions for duplicates, over paragraphs for passages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from taskloom.core.errors import MissingExtra

STOP_WORDS = frozenset(
    re.findall(
        r"\S+",
        """
        a about after all also am an and any are as at be because been before being between both but by can could did do does
        doing during each few for from further had has have having he her here hers him his how i if in into is it its itself
        just me more most my no nor not of off on once only or other our out over own per same she should so some such than that
        the their them then there these they this those through to too under until up very was we were what when where which
        while who whom whose why will with would you your
        """,
    )
)
"""What is removed from a description before it is a query (appendix A of the paper): articles, pronouns, auxiliaries, question
words. They match every paragraph and say nothing about the one that answers."""


def content_words(text: str) -> list[str]:
    """Return the words of a text that are not stop words, with plural endings removed.

    >>> content_words("What are the hiking trails in this park?")
    ['hiking', 'trail', 'park']
    """
    return [_stem(w) for w in re.findall(r"\w+", text.lower()) if w not in STOP_WORDS]


def _stem(word: str) -> str:
    """Remove a plural ending: campgrounds match campground; anything cleverer would need a stemmer for each language."""
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return f"{word[:-3]}y" if word.endswith("ies") and len(word) > 4 else word[:-1]
    return word


class WordIndex:
    """An index over texts given as lists of words."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        try:
            import bm25s
        except ImportError:
            raise MissingExtra("collecting tasks", "bm25s", "collect") from None
        self.size = len(texts)
        self._index: Any = None
        if any(texts):
            self._index = bm25s.BM25()
            self._index.index([list(t) for t in texts], show_progress=False)

    def search(self, words: Sequence[str], most: int) -> list[tuple[int, float]]:
        """Return the texts that share a word with a query, best first, with their scores; equal scores in their order."""
        if self._index is None or not words:
            return []
        import numpy as np

        scores = self._index.get_scores(list(words))
        order = np.argsort(-scores, kind="stable")[:most]
        return [(int(i), float(scores[i])) for i in order if scores[i] > 0]
