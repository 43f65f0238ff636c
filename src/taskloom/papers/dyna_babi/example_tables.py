"""Table 5 and Figures 1, 5 and 6 of Dyna-bAbI: its building blocks, and example stories from its
sets. They need no trained models.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from taskloom.analysis.finding import Finding
from taskloom.analysis.study import study
from taskloom.core.example import Example
from taskloom.experiments.result_table import ResultTable
from taskloom.papers.dyna_babi.data_tables import examples_of, fields_of
from taskloom.suites.babi.story.events import (
    CONSTRUCTS,
    EVENT_TYPES,
    EVENTS,
    KINDS,
    QUESTIONS,
    Event,
)
from taskloom.suites.babi.story.grammar import parse_passage
from taskloom.suites.babi.story.text_format import split_passage

SEARCHED = 2_000
"""Maximum number of stories searched for a building block."""


def _story(example: Example) -> str:
    """The story of an example without its question."""
    return example.input.removesuffix(example.question).strip()


def _row(name: str, example: Example) -> dict[str, Any]:
    return {
        "set": f"babi/{name}",
        "story": _story(example),
        "question": example.question,
        "answer": example.target,
        "support": example.traits["support_lines"],
    }


ENRICHED = 12_000
"""Maximum number of inject(T7) stories read for Figure 6, which covers all stories of task 1 and
some of task 2.
"""

SAMPLED = 10
"""Table 5 reads every tenth story."""

STORY = ("set", "story", "question", "answer", "support")
"""Columns of a table of stories. `support` contains the lines from which the answer follows."""


@study(
    "dyna-babi/table5",
    describe="Events, linguistic constructs and questions, each with an example",
    place="Dyna-bAbI, Table 5",
    from_recipes=True,
)
def table5(scale: str) -> Finding:
    """List the building blocks, each with the shortest sentence or question that contains it."""
    # Only task 5 has questions about gifts, and only task 13 has compound co-reference without
    # other constructs.
    examples = [e for name in ("mix-T12", "5", "13") for e in islice(examples_of(name), SEARCHED)]
    rows = list(_blocks(examples))
    return Finding(
        "Dyna-bAbI Table 5",
        "The building blocks of stories. A template is the form of the sentence that tells an"
        " event; words in {brackets} are slots. Examples are sentences and questions of generated stories."
        " A construct with a pronoun is shown with the sentence before it.",
        ResultTable(("kind", "name", "template", "example"), rows),
    )


def _blocks(examples: list[Example]) -> Iterator[dict[str, Any]]:
    sentences = [pair for e in examples[::SAMPLED] for pair in _told(e)]
    for kind, names in (("event", EVENTS), ("construct", CONSTRUCTS)):
        for name in names:
            texts = [text for event, text in sentences if name in _blocks_of(event)]
            form = EVENT_TYPES[KINDS[name]].form if name in KINDS else ""
            template = form.replace("{there}", "").replace("{or_at}", "")
            shortest = min(texts, key=len, default="")
            yield {"kind": kind, "name": name, "template": template, "example": shortest}
    for question in QUESTIONS:
        asked = [e.question for e in examples if e.traits["question"] == question]
        shortest = min(asked, key=len, default="")
        yield {"kind": "question", "name": question, "template": "", "example": shortest}


def _told(example: Example) -> Iterator[tuple[Event, str]]:
    """Yield the events of a story with their sentences. Sentences with a pronoun include the
    preceding sentence.
    """
    before = ""
    for event in _events(example):
        yield event, f"{before} {event.text}" if event.pronoun else event.text
        before = event.text


def _events(example: Example) -> tuple[Event, ...]:
    sentences, question = split_passage(example.input)
    return parse_passage(" ".join(sentences), question).events


def _blocks_of(event: Event) -> tuple[str, ...]:
    """Return the event type of a sentence, and its constructs."""
    compound = ("COMPOUND",) if event.compound else ()
    return (
        EVENT_TYPES[event.kind].name,
        *set(event.concepts()).intersection(CONSTRUCTS),
        *compound,
    )


@study(
    "dyna-babi/figure1",
    describe="What the generator controls: groups of mix(T7), each with a story",
    place="Dyna-bAbI, Figure 1",
    from_recipes=True,
)
def figure1(scale: str) -> Finding:
    """List the groups of mix(T7), with the concepts that they require and a story of each."""
    stories: dict[str, Example] = {}
    for example in examples_of("mix-T7"):
        stories.setdefault(str(example.traits["group"]), example)
    rows = []
    for group in fields_of("mix-T7").groups:
        if group.name in stories:
            concepts = ", ".join(sorted(group.concepts()))
            story = _row("mix-T7", stories[group.name])
            rows.append({"group": group.name, "concepts": concepts, **story})
    return Finding(
        "Dyna-bAbI Figure 1",
        "The paper's figure is a drawing of task generation. Each row is a group of a recipe: the"
        " concepts that it asks for, and a story that the generator wrote for it.",
        ResultTable(("group", "concepts", *STORY), rows),
    )


@study(
    "dyna-babi/figure5",
    describe="A story of bAbI 1.0 whose 'there' is confusing",
    place="Dyna-bAbI, Figure 5",
    from_recipes=True,
)
def figure5(scale: str) -> Finding:
    """Show a short story of task 2 with an ambiguous 'there', which Dyna-bAbI leaves out."""
    stories = list(islice(examples_of("2"), SEARCHED))
    confusing = [e for e in stories if _misleads(e)]
    used = [e for e in islice(examples_of("mix-T12"), SEARCHED) if " there." in _story(e)]
    shown = min(confusing, key=lambda e: len(e.input))
    return Finding(
        "Dyna-bAbI Figure 5",
        "In stories of bAbI 1.0, 'there' means the place of the person. In this one another place"
        " is mentioned last, so that it can be misunderstood. Dyna-bAbI leaves the word out.",
        ResultTable(STORY, [_row("2", shown)]),
        notes=(
            f"In {len(confusing):,} of the first {SEARCHED:,} stories of babi/2 a 'there' follows"
            f" the mention of another place. {len(used):,} of those of babi/mix-T12 have the word.",
        ),
    )


def _misleads(example: Example) -> bool:
    """True if a sentence with "there" follows a mention of a place other than the one where its
    subject is.
    """
    places: dict[str, str] = {}
    last = ""
    for event in _events(example):
        if event.places:
            last = event.places[0]
            places |= dict.fromkeys(event.who, last)
        elif event.text.endswith(" there.") and last != places.get(event.who[0], last):
            return True
    return False


@study(
    "dyna-babi/figure6",
    describe="A story of each kind of set: concat, inject, diverse, mix",
    place="Dyna-bAbI, Figure 6",
    from_recipes=True,
)
def figure6(scale: str) -> Finding:
    """Show a short story from each set of T7. The inject story is the concat story with one more
    question.
    """
    own, further = min(_enriched(), key=lambda pair: len(pair[0].input))
    rows = [_row("concat-T7", own), _row("inject-T7", further)]
    for name in ("diverse-T7", "mix-T7"):
        first = islice(examples_of(name), SEARCHED // 10)
        rows.append(_row(name, min(first, key=lambda example: len(example.input))))
    return Finding(
        "Dyna-bAbI Figure 6",
        "A story of each kind of set. inject has the stories of concat with further questions about"
        " persons and objects. diverse withholds combinations of concepts that mix tests.",
        ResultTable(STORY, rows),
    )


def _enriched() -> Iterator[tuple[Example, Example]]:
    """Yield questions of concat(T7), each with a question of another type that inject asks about
    the same story. They come from stories of task 2, the first task to which questions are added.
    """
    stories: dict[str, dict[str, Example]] = {}
    for example in examples_of("inject-T7"):
        kinds = stories.setdefault(_story(example), {})
        kinds.setdefault(str(example.traits["question"]), example)
        if {"where-O", "where-P"} <= kinds.keys():
            yield kinds["where-O"], kinds["where-P"]
        if len(stories) > ENRICHED:
            return
