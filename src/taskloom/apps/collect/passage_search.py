"""Passages for a task: paragraphs of the corpus that BM25 ranks by the task's description (section 4.3 and appendix A).

The paper asked search engines, took the paragraph around each snippet, and where that is too long 0 to 3 sentences before and after
the snippet. Here the engine is BM25 over paragraphs, and the snippet of a long paragraph is its best sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor

from taskloom.apps.collect.bm25 import WordIndex, content_words
from taskloom.core.seeding import Key, Random

FEWEST_WORDS = 25
"""Words below which a paragraph is joined with the next one: a heading or a line of a list answers nothing alone."""

SPREAD = 3
"""Sentences that are added at most before and after a snippet (appendix A)."""

DEPTH = 12
"""How many times the wanted number of paragraphs is ranked: near misses are taken from the lower part."""

_BLANK = re.compile(r"\n\s*\n")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]?[A-Z0-9])")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph: where it stands, and the entity that its document is about."""

    document: str
    entity: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PassageChoice:
    """A passage that was chosen for a task."""

    document: str
    entity: str
    start: int
    end: int
    near_miss: bool


def paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the paragraphs of a text begin and end; short ones are joined with what follows.

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
    if start is not None:  # a short end belongs to the paragraph before it
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
    """Return where the sentences of a text begin and end.

    >>> [a for a, b in sentences("It is big. Dr. Low saw it! It cost 3.50 dollars.")]
    [0, 11, 15, 27]
    """
    cuts = [0, *(m.end() for m in _SENTENCE_END.finditer(text)), len(text)]
    return [(a, a + len(text[a:b].rstrip())) for a, b in pairwise(cuts) if text[a:b].strip()]


def grow(text: str, query: Sequence[str], most_words: int, rng: Random) -> tuple[int, int]:
    """Return the part of a paragraph that becomes the passage: all of it, or 0 to 3 sentences around its best one.

    Args:
        text: The paragraph.
        query: The words of the query.
        most_words: The longest passage.
        rng: Draws how many sentences are added on either side.
    """
    if len(text.split()) <= most_words:
        return 0, len(text)
    spans = sentences(text)
    wanted = set(query)
    hits = [len(wanted & set(content_words(text[a:b]))) for a, b in spans]
    best = hits.index(max(hits))
    first, last = max(0, best - rng.randint(0, SPREAD)), min(len(spans) - 1, best + rng.randint(0, SPREAD))
    while first < last and len(text[spans[first][0] : spans[last][1]].split()) > most_words:
        if best - first >= last - best:
            first += 1
        else:
            last -= 1
    start, end = spans[first][0], spans[last][1]
    words = [m.end() for m in re.finditer(r"\S+", text[start:end])]
    return start, start + words[most_words - 1] if len(words) > most_words else end


class PassageIndex:
    """The paragraphs of a domain, ready to be searched."""

    def __init__(self, documents: Iterable[tuple[str, str, str]]) -> None:
        """Index documents, each given by its id, its entity and its text."""
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
        """Return the paragraphs that share a content word with a question, best first."""
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
        """Choose passages for a task: the best ranked ones, and near misses that rank well below them.

        Args:
            question: The task's description.
            count: How many passages are wanted.
            near_misses: The share of near misses among them.
            most_words: The longest passage.
            used: How many passages of the domain each entity has already.
            most_per_entity: How many an entity may have in all.
            key: Of the random choices.
        """
        ranked = self.rank(question, count * DEPTH)
        misses = min(floor(count * near_misses + 0.5), max(0, len(ranked) - count))
        taken = Counter(used)
        chosen = [
            self._passage(p, question, most_words, False, key)
            for p in _take(ranked, count - misses, taken, most_per_entity)
        ]
        places = {(c.document, c.start) for c in chosen}
        # The lower the rank, the less a passage answers; the very end shares one common word and is no near miss.
        rest = [p for p in ranked[count:] if not self._overlaps(p, places)]
        key.random("near", question).shuffle(rest)
        near = list(_take(rest, misses, taken, most_per_entity))
        return chosen + [self._passage(p, question, most_words, True, key) for p in near]

    def _overlaps(self, paragraph: Paragraph, places: set[tuple[str, int]]) -> bool:
        return any(d == paragraph.document and paragraph.start <= s < paragraph.end for d, s in places)

    def _passage(self, place: Paragraph, question: str, most_words: int, near: bool, key: Key) -> PassageChoice:
        text = self.texts[place.document][place.start : place.end]
        rng = key.random("grow", question, place.document, place.start)
        start, end = grow(text, content_words(question), most_words, rng)
        return PassageChoice(place.document, place.entity, place.start + start, place.start + end, near)


def _take(ranked: Sequence[Paragraph], count: int, taken: Counter[str], most: int) -> Iterator[Paragraph]:
    for place in ranked:
        if count <= 0:
            return
        if taken[place.entity] < most:
            taken[place.entity] += 1
            count -= 1
            yield place


def entity_limit(total: int, share: float, entities: int) -> int:
    """Return how many of a domain's passages one entity may have.

    With fewer entities than the share allows for (20 for 5 %), an equal part each is the least that fills the quota.
    """
    return max(1, floor(total * share), ceil(total / entities) if entities and entities * share < 1 else 0)
