"""BM25 search (with bm25s) over questions, to find duplicates, and over paragraphs, to find
passages for a task.

Passages are paragraphs of the corpus, ranked by the task's description (section 4.3 and appendix
A). The paper used search engines, and took the paragraph around each snippet or, if that was too
long, 0 to 3 sentences before and after the snippet. Here the search engine is BM25 over paragraphs,
and the snippet of a long paragraph is its best sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor
from typing import Any

from taskloom.core.errors import MissingExtra
from taskloom.core.seeding import Key, Random

FEWEST_WORDS = 25
"""Minimum words of a paragraph. Shorter ones, such as headings, are joined with the next paragraph,
because they contain no answers on their own.
"""

SPREAD = 3
"""Maximum sentences added before and after a snippet (appendix A)."""

DEPTH = 12
"""Number of paragraphs to rank, as a multiple of the requested number. Near misses are taken from
the lower ranks.
"""

_BLANK = re.compile(r"\n\s*\n")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]?[A-Z0-9])")

STOP_WORDS = frozenset(
    re.findall(
        r"\S+",
        """
        a about after all also am an and any are as at be because been before being between both
        but by can could did do does doing during each few for from further had has have having he
        her here hers him his how i if in into is it its itself just me more most my no nor not of
        off on once only or other our out over own per same she should so some such than that the
        their them then there these they this those through to too under until up very was we were
        what when where which while who whom whose why will with would you your
        """,
    )
)
"""Words that are removed from a description to make a query (appendix A of the paper): articles,
pronouns, auxiliaries and question words. They match every paragraph and do not help to find the one
with the answer.
"""


def content_words(text: str) -> list[str]:
    """Words of a text that are not stop words, with plural endings removed.

    >>> content_words("What are the hiking trails in this park?")
    ['hiking', 'trail', 'park']
    """
    return [_stem(w) for w in re.findall(r"\w+", text.lower()) if w not in STOP_WORDS]


def _stem(word: str) -> str:
    """Remove a plural ending, so that campgrounds matches campground. Anything beyond that would
    need a stemmer for each language.
    """
    is_plural = len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    if not is_plural:
        return word
    if word.endswith("ies") and len(word) > 4:  # berries, but not ties
        return f"{word[:-3]}y"
    return word[:-1]


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
        """Texts that share a word with a query, best first, with their scores. Ties keep their
        order.
        """
        if self._index is None or not words:
            return []
        import numpy as np

        scores = self._index.get_scores(list(words))
        order = np.argsort(-scores, kind="stable")[:most]
        return [(int(i), float(scores[i])) for i in order if scores[i] > 0]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph: its position and its document's entity."""

    document: str
    entity: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PassageChoice:
    """A passage chosen for a task."""

    document: str
    entity: str
    start: int
    end: int
    near_miss: bool


def paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each paragraph in a text. Short ones are joined with the next one.

    >>> text = "# Title\\n\\n" + "One two three. " * 10 + "\\n\\n" + "Four five. " * 15
    >>> [text[a:b].split()[0] for a, b in paragraphs(text)]
    ['#', 'Four']
    """
    start: int | None = None
    last: tuple[int, int] | None = None
    for begin, end in _blocks(text):
        start = begin if start is None else start
        if len(text[start:end].split()) >= FEWEST_WORDS:
            if last is not None:
                yield last
            last, start = (start, end), None
    if start is not None:  # a short last paragraph is joined with the one before it
        end = len(text.rstrip())
        last = (last[0], end) if last is not None else (start, end)
    if last is not None:
        yield last


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    position = 0
    for gap in [*_BLANK.finditer(text), None]:
        begin, end = position, gap.start() if gap else len(text)
        position = gap.end() if gap else len(text)
        block = text[begin:end]
        if block.strip():
            yield begin + len(block) - len(block.lstrip()), begin + len(block.rstrip())


def sentences(text: str) -> list[tuple[int, int]]:
    """Start and end of the sentences of a text.

    >>> [a for a, b in sentences("It is big. Dr. Low saw it! It cost 3.50 dollars.")]
    [0, 11, 15, 27]
    """
    cuts = [0, *(m.end() for m in _SENTENCE_END.finditer(text)), len(text)]
    return [(a, a + len(text[a:b].rstrip())) for a, b in pairwise(cuts) if text[a:b].strip()]


def grow(text: str, query: Sequence[str], most_words: int, rng: Random) -> tuple[int, int]:
    """Select a passage from a paragraph: all of it, or its best sentence with 0 to 3 sentences
    before and after.

    Args:
        text: The paragraph.
        query: The words of the query.
        most_words: Maximum words of a passage.
        rng: Draws the number of sentences added on either side.
    """
    if len(text.split()) <= most_words:
        return 0, len(text)
    spans = sentences(text)
    wanted = set(query)
    hits = [len(wanted & set(content_words(text[a:b]))) for a, b in spans]
    best = hits.index(max(hits))
    first, last = (
        max(0, best - rng.randint(0, SPREAD)),
        min(len(spans) - 1, best + rng.randint(0, SPREAD)),
    )
    while first < last and len(text[spans[first][0] : spans[last][1]].split()) > most_words:
        if best - first >= last - best:
            first += 1
        else:
            last -= 1
    start, end = spans[first][0], spans[last][1]
    words = [m.end() for m in re.finditer(r"\S+", text[start:end])]
    return start, start + words[most_words - 1] if len(words) > most_words else end


class PassageIndex:
    """The paragraphs of a domain, indexed for search."""

    def __init__(self, documents: Iterable[tuple[str, str, str]]) -> None:
        """Index documents, given by id, entity and text."""
        self.texts: dict[str, str] = {}
        self.places: list[Paragraph] = []
        words = []
        for id, entity, text in documents:
            self.texts[id] = text
            for start, end in paragraphs(text):
                self.places.append(Paragraph(id, entity, start, end))
                words.append(content_words(text[start:end]))
        self.entities = {p.entity for p in self.places}
        self._index = WordIndex(words)

    def rank(self, question: str, most: int) -> list[Paragraph]:
        """Paragraphs that share a content word with a question, best first."""
        return [self.places[i] for i, _ in self._index.search(content_words(question), most)]

    def choose(
        self,
        question: str,
        count: int,
        near_misses: float,
        most_words: int,
        used: Mapping[str, int],
        most_per_entity: int,
        key: Key,
    ) -> list[PassageChoice]:
        """Choose passages for a task: the best ranked ones, and near misses with much lower ranks.

        Args:
            question: The task's description.
            count: Number of passages.
            near_misses: Share of near misses among the passages.
            most_words: Maximum words of a passage.
            used: Number of the domain's passages that each entity already has.
            most_per_entity: Maximum number of passages per entity.
            key: Key of the random choices.
        """
        ranked = self.rank(question, count * DEPTH)
        misses = min(floor(count * near_misses + 0.5), max(0, len(ranked) - count))
        taken = Counter(used)
        chosen = [
            self._passage(p, question, most_words, False, key)
            for p in _take(ranked, count - misses, taken, most_per_entity)
        ]
        places = {(c.document, c.start) for c in chosen}
        # The lower a passage ranks, the less likely it is to contain the answer. The last ones only
        # share a single word with the question and are not near misses.
        rest = [p for p in ranked[count:] if not self._overlaps(p, places)]
        key.random("near", question).shuffle(rest)
        near = list(_take(rest, misses, taken, most_per_entity))
        return chosen + [self._passage(p, question, most_words, True, key) for p in near]

    def _overlaps(self, paragraph: Paragraph, places: set[tuple[str, int]]) -> bool:
        return any(
            d == paragraph.document and paragraph.start <= s < paragraph.end for d, s in places
        )

    def _passage(
        self, place: Paragraph, question: str, most_words: int, near: bool, key: Key
    ) -> PassageChoice:
        text = self.texts[place.document][place.start : place.end]
        rng = key.random("grow", question, place.document, place.start)
        start, end = grow(text, content_words(question), most_words, rng)
        return PassageChoice(
            place.document, place.entity, place.start + start, place.start + end, near
        )


def _take(
    ranked: Sequence[Paragraph], count: int, taken: Counter[str], most: int
) -> Iterator[Paragraph]:
    for place in ranked:
        if count <= 0:
            return
        if taken[place.entity] < most:
            taken[place.entity] += 1
            count -= 1
            yield place


def entity_limit(total: int, share: float, entities: int) -> int:
    """Maximum number of a domain's passages for one entity.

    If there are fewer entities than the share allows for (20 for 5 %), every entity gets an equal
    share, which is just enough to fill the quota.
    """
    return max(
        1, floor(total * share), ceil(total / entities) if entities and entities * share < 1 else 0
    )
