"""Checks of a question's form, made before a second person reads the question.

The criteria are the paper's: a question applies to any entity of its domain, can be answered from a
passage, and differs from the others in meaning. Errors must be corrected. Writers can override
warnings, which the reviewer sees, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from taskloom.apps.collect.errors import phrase
from taskloom.apps.collect.project_file import DomainEntry
from taskloom.apps.collect.records import AnswerFormat, CollectedTask
from taskloom.apps.collect.search import WordIndex, content_words
from taskloom.suites.zest.task_files import (
    CLASSIFICATION_WORDS,
    EXTRACTION_WORDS,
    Kind,
    first_word,
    main_clause,
)

FEWEST_WORDS, MOST_WORDS = 4, 40
"""Minimum and maximum words of a question. ZEST's questions have about 12 words; fewer than four
cannot name an entity and ask about it.
"""

ALIKE = 0.75
"""Minimum similarity of probable duplicates in one domain, reached if one word in four differs."""

FLIPPED_WORDS = 4
"""Maximum number of words that a semantic flip may change without a warning. The paper asks for as
few as possible.
"""

CANDIDATES = 10
"""Number of possible duplicates that BM25 retrieves for a word-by-word comparison."""


@dataclass(frozen=True, slots=True)
class FormFinding:
    """A certain or probable problem with a question's form."""

    level: Literal["error", "warning"]
    text: str


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation.

    >>> words_of("Can I hike to a waterfall?")
    ['can', 'i', 'hike', 'to', 'a', 'waterfall']
    """
    return re.findall(r"\w+(?:['’]\w+)?", text.lower())


def edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """Minimum number of insertions, deletions and substitutions that turn one sequence into the
    other.

    >>> edit_distance("a b c".split(), "a x c d".split())
    2
    """
    row = list(range(len(second) + 1))
    for i, left in enumerate(first, 1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(second, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (left != right))
    return row[-1]


def likeness(first: str, second: str) -> float:
    """Similarity of two questions: 1 if they have the same words, 0 if they share none.

    >>> likeness("Can I camp here?", "can I camp here")
    1.0
    """
    one, other = words_of(first), words_of(second)
    longest = max(len(one), len(other))
    return 1.0 - edit_distance(one, other) / longest if longest else 1.0


def check_question(
    question: str,
    format: AnswerFormat,
    variant: Kind,
    domain: DomainEntry,
    others: Sequence[CollectedTask],
    entities: Iterable[str],
    bases: Sequence[CollectedTask] = (),
) -> list[FormFinding]:
    """List the problems of a question.

    Args:
        question: The question as entered, on one line.
        format: Answer format.
        variant: Generalization type.
        domain: Its domain.
        others: The other tasks of the domain.
        entities: The names of the domain's entities.
        bases: The base tasks that it derives from.
    """
    findings = [*_form(question, format, domain), *_entities(question, domain, entities)]
    if variant == "paraphrase" and bases:
        findings += _paraphrase(question, bases[0])
    if variant == "target_semantics" and bases:
        findings += _flip(question, bases[0])
    # A derived question resembles its base question on purpose.
    compared = others
    if variant in ("paraphrase", "target_semantics", "structure"):
        related = {base.id for base in bases}
        compared = [task for task in others if task.id not in related]
    return findings + _duplicates(question, compared)


def _form(question: str, format: AnswerFormat, domain: DomainEntry) -> list[FormFinding]:
    findings = []
    count = len(question.split())
    if not FEWEST_WORDS <= count <= MOST_WORDS:
        findings.append(
            FormFinding(
                "error",
                phrase("question_length", fewest=FEWEST_WORDS, most=MOST_WORDS, count=count),
            )
        )
    if not question.endswith("?"):
        findings.append(FormFinding("error", phrase("question_mark")))
    if not re.search(rf"\b{re.escape(domain.entity)}\b", question, re.IGNORECASE):
        findings.append(FormFinding("error", phrase("question_entity", entity=domain.entity)))
    if any(c in question for c in "{}|"):
        findings.append(FormFinding("error", phrase("question_marks")))
    return findings + _question_word(question, format)


def _question_word(question: str, format: AnswerFormat) -> list[FormFinding]:
    """Check the first word, because the public evaluation fails on words that it does not
    recognise.
    """
    first = first_word(question)
    if first not in CLASSIFICATION_WORDS | EXTRACTION_WORDS:
        return [FormFinding("error", phrase("question_word", word=first[:30]))]
    main = first_word(main_clause(question))
    if (
        format == "yes/no"
        and main in EXTRACTION_WORDS - CLASSIFICATION_WORDS
        and main not in ("in", "on", "at", "during")
    ):
        return [FormFinding("warning", phrase("rarely_yes_no", word=main))]
    if format == "span" and main in CLASSIFICATION_WORDS and main not in ("while", "after"):
        return [FormFinding("warning", phrase("usually_yes_no", word=main))]
    return []


def _entities(question: str, domain: DomainEntry, entities: Iterable[str]) -> list[FormFinding]:
    """Report names of entities as errors, because a task must apply to every entity of its
    domain.
    """
    words = f" {' '.join(words_of(question))} "
    placeholder = set(words_of(domain.entity))
    for name in entities:
        parts = words_of(name)
        if parts and not set(parts) <= placeholder and f" {' '.join(parts)} " in words:
            return [FormFinding("error", phrase("question_names_entity", name=name[:60]))]
    return []


def _paraphrase(question: str, base: CollectedTask) -> list[FormFinding]:
    if words_of(question) == words_of(base.question):
        return [FormFinding("error", phrase("paraphrase_same"))]
    if likeness(question, base.question) >= ALIKE:
        return [FormFinding("warning", phrase("paraphrase_close"))]
    return []


def _flip(question: str, base: CollectedTask) -> list[FormFinding]:
    distance = edit_distance(words_of(question), words_of(base.question))
    if distance == 0:
        return [FormFinding("error", phrase("flip_same"))]
    if distance > FLIPPED_WORDS:
        return [FormFinding("warning", phrase("flip_words", distance=distance))]
    return []


def _duplicates(question: str, others: Sequence[CollectedTask]) -> list[FormFinding]:
    """Compare with the most similar questions found by BM25. Identical words are an error, similar
    words a warning.
    """
    if not others:
        return []
    index = WordIndex([content_words(t.question) for t in others])
    near = [others[i] for i, _ in index.search(content_words(question), CANDIDATES)]
    for task in near:
        if words_of(task.question) == words_of(question):
            return [FormFinding("error", phrase("duplicate", question=task.question))]
    for task in near:
        if likeness(question, task.question) >= ALIKE:
            return [FormFinding("warning", phrase("near_duplicate", question=task.question))]
    return []
