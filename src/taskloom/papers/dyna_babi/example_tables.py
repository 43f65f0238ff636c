"""Table 5 and Figures 1, 5 and 6 of Dyna-bAbI: its building blocks, and stories from its sets. None
of them needs trained models.
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
from taskloom.suites.babi.story.events import CONSTRUCTS, EVENTS, QUESTIONS

SEARCHED = 2_000
"""Maximum stories searched for a building block."""


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


STORY = ("set", "story", "question", "answer", "support")
"""Columns of a table of stories; support: the lines that the answer follows from."""


@study(
    "dyna-babi/table5",
    describe="Events, linguistic constructs and questions, each with an example",
    place="Dyna-bAbI, Table 5",
    from_recipes=True,
)
def table5(scale: str) -> Finding:
    """List the building blocks, each with its shortest example among stories of mix(T12) and tasks 5 and 13."""
    # Only task 5 has questions about gifts, and compound co-reference is shortest in task 13.
    examples = [e for name in ("mix-T12", "5", "13") for e in islice(examples_of(name), SEARCHED)]
    rows = list(_blocks(examples))
    return Finding(
        "Dyna-bAbI Table 5",
        "The building blocks of stories. Events and constructs are shown by a step of a derivation"
        " that uses them, questions by a question.",
        ResultTable(("kind", "name", "example"), rows),
    )


def _blocks(examples: list[Example]) -> Iterator[dict[str, Any]]:
    for kind, names in (("event", EVENTS), ("construct", CONSTRUCTS)):
        for name in names:
            steps = [s.value for e in examples for s in e.derivation if name in s.rule.split("+")]
            found = [e for e in examples if name in str(e.traits["concepts"]).split("+")]
            shortest = min(steps, key=len, default="")
            story = min((_story(e) for e in found), key=len, default="")
            yield {"kind": kind, "name": name, "example": shortest or story}
    for name in QUESTIONS:
        asked = [e.question for e in examples if e.traits["question"] == name]
        yield {"kind": "question", "name": name, "example": min(asked, key=len, default="")}


@study(
    "dyna-babi/figure1",
    describe="What the generator controls: groups of mix(T7), each with a story",
    place="Dyna-bAbI, Figure 1",
    from_recipes=True,
)
def figure1(scale: str) -> Finding:
    """List the groups of mix(T7) with the concepts that they ask for and a story of each."""
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
        "The paper's figure is a drawing of task generation. Here is what the generator is given,"
        " and a story that it makes of it.",
        ResultTable(("group", "concepts", *STORY), rows),
    )


@study(
    "dyna-babi/figure5",
    describe="A story of bAbI 1.0 whose 'there' is confusing",
    place="Dyna-bAbI, Figure 5",
    from_recipes=True,
)
def figure5(scale: str) -> Finding:
    """Show a short story of task 2 with the word that Dyna-bAbI leaves out."""
    confusing = [e for e in islice(examples_of("2"), SEARCHED) if " there." in _story(e)]
    used = [e for e in islice(examples_of("mix-T12"), SEARCHED) if " there." in _story(e)]
    shown = min(confusing, key=lambda e: len(e.input))
    return Finding(
        "Dyna-bAbI Figure 5",
        "'There' in a story of bAbI 1.0 says where an object is taken or left, which the position"
        " of a person already tells.",
        ResultTable(STORY, [_row("2", shown)]),
        notes=(
            f"{len(confusing):,} of the first {SEARCHED:,} stories of babi/2 have the word, and"
            f" {len(used):,} of those of babi/mix-T12.",
        ),
    )


@study(
    "dyna-babi/figure6",
    describe="A story of each kind of set: concat, inject, diverse, mix",
    place="Dyna-bAbI, Figure 6",
    from_recipes=True,
)
def figure6(scale: str) -> Finding:
    """Show the shortest of the first stories of each set of T7."""
    rows = []
    for name in ("concat-T7", "inject-T7", "diverse-T7", "mix-T7"):
        first = islice(examples_of(name), SEARCHED // 10)
        rows.append(_row(name, min(first, key=lambda example: len(example.input))))
    return Finding(
        "Dyna-bAbI Figure 6",
        "A short story of each kind of set. inject has the stories of concat with further"
        " questions; diverse withholds combinations that mix tests.",
        ResultTable(STORY, rows),
    )
