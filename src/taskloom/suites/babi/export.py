"""Examples in other formats: bAbI text, text-to-text lines, extractive questions, structured
events.

`write` writes a split to a file. The other functions return the same data as lines or objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from taskloom.core.errors import TaskloomError, nearest
from taskloom.core.example import Example
from taskloom.core.files import atomic
from taskloom.core.offers import Export
from taskloom.suites.babi.fields import BabiFields
from taskloom.suites.babi.show import cited
from taskloom.suites.babi.story.events import Event
from taskloom.suites.babi.story.grammar import parse_passage
from taskloom.suites.babi.story.text_format import split_passage
from taskloom.suites.babi.story.vocabulary import DYNA, StoryLexicon, Vocabulary

Words = tuple[Vocabulary, StoryLexicon]
EXTRACTIVE = ("where-P", "where-O", "where-was-O", "give-qs")
"""Question types whose answer is a word of the story (paper, section 4.1)."""


def babi_text(examples: Iterable[Example]) -> Iterator[str]:
    """Yield the lines of a file in the byte layout of bAbI 1.0, each with its line end.

    Successive examples of a growing story become one story with several questions, as in the
    original.
    """
    written: list[str] = []
    numbers: list[int] = []
    line = 0
    for example in examples:
        sentences, question = split_passage(example.input)
        if not written or sentences[: len(written)] != written:
            written, numbers, line = [], [], 0
        for sentence in sentences[len(written) :]:
            line += 1
            numbers.append(line)
            yield f"{line} {sentence}\n"
        written = sentences
        line += 1
        support = " ".join(str(numbers[i]) for i in cited(example))
        yield f"{line} {question} \t{example.target}\t{support}\n"


def text_to_text(examples: Iterable[Example], name: str = "babi") -> Iterator[dict[str, Any]]:
    """Yield one object per question for text-to-text models, with the reference's field names."""
    for i, example in enumerate(examples):
        sentences, question = split_passage(example.input)
        yield {
            "id": f"{name}_{i}",
            "task": str(example.traits.get("group") or name),
            "input": f"{' '.join(sentences)} $question$ {question}",
            "output": example.target,
            "prefix": "answer:",
            "supporting_facts": [n + 1 for n in cited(example)],
            "question_type": example.traits.get("question"),
        }


def squad(examples: Iterable[Example], name: str = "babi") -> tuple[dict[str, Any], int]:
    """Build one object in SQuAD's layout. Also return the number of examples left out because their
    answer is not a word of the story.

    The answer is marked in the last supporting sentence that contains it.
    """
    paragraphs, skipped = [], 0
    for i, example in enumerate(examples):
        sentences, question = split_passage(example.input)
        start = (
            _answer_start(sentences, example)
            if example.traits.get("question") in EXTRACTIVE
            else None
        )
        if start is None:
            skipped += 1
            continue
        answers = [{"text": example.target, "answer_start": start}]
        entry = {
            "id": f"{name}_{i}",
            "question": question,
            "answers": answers,
            "is_impossible": False,
        }
        paragraphs.append({"context": " ".join(sentences), "qas": [entry]})
    return {"version": "2.0", "data": [{"title": name, "paragraphs": paragraphs}]}, skipped


def _answer_start(sentences: list[str], example: Example) -> int | None:
    offsets = [0]
    for sentence in sentences:
        offsets.append(offsets[-1] + len(sentence) + 1)
    for i in reversed(cited(example)):
        at = _rfind_word(sentences[i], example.target)
        if at >= 0:
            return offsets[i] + at
    return None


def _rfind_word(text: str, words: str) -> int:
    """Return the position of the last occurrence of a phrase as whole words ("Al" does not match
    "football"), or -1.
    """
    matches = [match.start() for match in re.finditer(rf"\b{re.escape(words)}\b", text)]
    return matches[-1] if matches else -1


def structured(
    examples: Iterable[Example], vocabulary: Vocabulary | None = None, lexicon: StoryLexicon = DYNA
) -> Iterator[dict[str, Any]]:
    """Yield one object per example: its sentences and question as events, with traits and
    support.
    """
    for example in examples:
        sentences, question = split_passage(example.input)
        story = parse_passage(" ".join(sentences), question, vocabulary, lexicon)
        query = {k: v for k, v in story.questions[0].question._asdict().items() if v}
        yield {
            "events": [_event(i, event) for i, event in enumerate(story.events, 1)],
            "question": query,
            "answer": example.target,
            "support": [n + 1 for n in cited(example)],
            "traits": dict(example.traits),
        }


def _event(number: int, event: Event) -> dict[str, Any]:
    return {
        "line": number,
        **{k: v for k, v in event._asdict().items() if v},
        "concepts": list(event.concepts()),
    }


def _jsonl(objects: Iterable[dict[str, Any]]) -> Iterator[str]:
    return (json.dumps(o, ensure_ascii=False) + "\n" for o in objects)


FORMATS: dict[str, Callable[[list[Example], Words | None], Iterable[str]]] = {
    "babi": lambda rows, _: babi_text(rows),
    "text-to-text": lambda rows, _: _jsonl(text_to_text(rows)),
    "squad": lambda rows, _: [json.dumps(squad(rows)[0], ensure_ascii=False) + "\n"],
    "events": lambda rows, words: _jsonl(_events(rows, words)),
}


def _events(examples: list[Example], words: Words | None) -> Iterable[dict[str, Any]]:
    if examples and "number" in examples[0].traits:
        raise TaskloomError(
            f"events: task {examples[0].traits['number']} has a world without events; use babi or "
            "text-to-text"
        )
    return structured(examples, *words) if words else structured(examples)


def words_of(fields: BabiFields | None) -> Words | None:
    """Return the custom names and verbs of a recipe, which are needed to parse its sentences. None
    if it uses the defaults.
    """
    if fields is None or fields.concat:
        return None
    return fields.vocabulary.vocabulary(), fields.style.lexicon()


def export(kind: str, examples: Sequence[Example], fields: BabiFields | None) -> Export:
    """Return examples in one of the suite's formats, for `taskloom export`."""
    rows = list(examples)
    left_out = squad(rows)[1] if kind == "squad" else 0
    return Export(
        FORMATS[kind](rows, words_of(fields)), left_out, "their answer is not a word of the story"
    )


def write(
    examples: Iterable[Example], path: str | Path, kind: str, words: Words | None = None
) -> Path:
    """Write examples of this suite to a file.

    Args:
        examples: A split of a dataset (`taskloom.load("data/")["train"]`), or any other examples.
        path: Path of the file. It is written atomically.
        kind: `babi`, `text-to-text`, `squad` or `events`.
        words: For `events`: custom names and verbs (`words_of(data.recipe.fields)`).
    """
    if kind not in FORMATS:
        raise TaskloomError(f"unknown format '{kind}'; {nearest(kind, FORMATS)}")
    file = Path(path)
    with atomic(file) as beside, beside.open("w", encoding="utf-8", newline="\n") as handle:
        handle.writelines(FORMATS[kind](list(examples), words))
    return file
