"""The paper's concept sets C = E ∪ L ∪ Q: which events, constructs and questions a task has, by its recipe."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from taskloom.analysis.published_numbers import published
from taskloom.analysis.verdict import Judgement, judge_number
from taskloom.papers.dyna_babi.story_samples import fields_of
from taskloom.suites.babi.story.events import CONSTRUCTS, EVENTS, QUESTIONS

POSS = ("GRAB", "DROP")
"""What the paper's Table 1 calls POSS, for possession."""


@dataclass(frozen=True, slots=True)
class PaperConcepts:
    """Concepts as the paper's Table 1 names them, each in the suite's order.

    Attributes:
        events: MOVE, POSS, GIVE.
        constructs: COREF, CONJ, NEGATE, INDEF; COMPOUND is COREF and CONJ together.
        questions: Kinds of questions.
    """

    COLUMNS: ClassVar = ("events", "constructs", "questions")

    events: tuple[str, ...]
    constructs: tuple[str, ...]
    questions: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return all of them."""
        return (*self.events, *self.constructs, *self.questions)

    def cells(self) -> dict[str, str]:
        """Return them as the cells of a row."""
        return {name: ", ".join(getattr(self, name)) for name in self.COLUMNS}


def paper_concepts(concepts: Iterable[str]) -> PaperConcepts:
    """Return concepts of the suite in the paper's words."""
    names = {*concepts}
    events = tuple(dict.fromkeys("POSS" if e in POSS else e for e in EVENTS if e in names))
    constructs = tuple(c for c in CONSTRUCTS if c in names and c != "COMPOUND")
    return PaperConcepts(events, constructs, tuple(q for q in QUESTIONS if q in names))


def task_concepts(task: int | str) -> PaperConcepts:
    """Return the concepts that the groups of a recipe list: of task 5, of `mix-T7`."""
    return paper_concepts(concept for group in fields_of(str(task)).groups for concept in group.concepts())


def judge_concepts(task: int, concepts: PaperConcepts) -> Judgement:
    """Judge the concepts of a task against Table 1: it agrees where both have the same ones.

    The number is how many concepts of the paper the recipe has or, where it has all of them, how many it has altogether.
    """
    (number,) = published("dyna-babi", "Table 1", task=task, what="concepts")
    theirs, ours = number.of["names"].split(), concepts.names
    lacking = [name for name in theirs if name not in ours]
    further = [name for name in ours if name not in theirs]
    count = len(theirs) - len(lacking) if lacking else len(theirs) + len(further)
    conditions = [f"the recipe lacks {name}" for name in lacking] + [f"the recipe has {name} too" for name in further]
    return judge_number(count, number, claim=f"task {task}: concepts", conditions=conditions)
