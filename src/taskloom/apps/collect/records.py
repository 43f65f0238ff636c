"""The records of a collection project. Each is a frozen value; the store keeps its versions and who
changed it.

A record names its parent (what it belongs to), its state and its owner, by which the store finds it
fast.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from taskloom.suites.zest.task_files import Kind

Role = Literal["writer", "annotator", "reviewer", "owner"]

ROLES: tuple[Role, ...] = ("writer", "annotator", "reviewer", "owner")

AnswerFormat = Literal["yes/no", "span", "structure"]

NA = "n/a"
"""The answer to a question that the passage does not answer, as ZEST's files write it."""


@dataclass(frozen=True, slots=True)
class Filed:
    """What all records have: an id, and the three things that they are looked up by."""

    kind: ClassVar[str] = ""

    id: str

    @property
    def parent(self) -> str:
        """Return the id of what the record belongs to."""
        return ""

    @property
    def stage(self) -> str:
        """Return how far the record has come."""
        return ""

    @property
    def owner(self) -> str:
        """Return the id of the person whose record it is."""
        return ""


@dataclass(frozen=True, slots=True)
class Person(Filed):
    """Somebody who takes part. A name is all that is known of a person.

    Attributes:
        roles: What the person may do.
        link: The number of the person's current link; a new number makes older links and sessions
            invalid.
        qualified: Whether an annotator may work: "" while qualifying, then "passed" or "failed".
    """

    kind: ClassVar[str] = "person"

    name: str
    roles: tuple[Role, ...]
    link: int = 1
    qualified: str = ""


@dataclass(frozen=True, slots=True)
class Document(Filed):
    """A document of the corpus; its text is kept once, by its digest."""

    kind: ClassVar[str] = "document"

    domain: str
    entity: str
    digest: str
    words: int

    @property
    def parent(self) -> str:
        """Return the domain."""
        return self.domain


TaskStage = Literal["submitted", "returned", "approved", "removed"]


@dataclass(frozen=True, slots=True)
class CollectedTask(Filed):
    """A task that somebody wrote.

    Attributes:
        question: The description, with the domain's place-holder ("this park").
        variant: The generalization type by the name that ZEST's files use.
        domain: The name of the domain.
        format: How it is answered.
        writer: The id of the person who wrote it.
        state: submitted, returned with a reason, approved, or removed.
        bases: The ids of the base tasks that it derives from.
        split: The split; a base task gets it with its approval, and what derives from it has the
            same.
        slot: The place of a base task in the permuted blocks that divide base tasks among splits.
        structure: The output structure as JSON form, for structure tasks.
        reason: Why a reviewer returned it.
        suggested: The name of the model that suggested the wording, if one did.
    """

    kind: ClassVar[str] = "task"

    question: str
    variant: Kind
    domain: str
    format: AnswerFormat
    writer: str
    state: TaskStage = "submitted"
    bases: tuple[str, ...] = ()
    split: str = ""
    slot: int = -1
    structure: dict[str, Any] | None = None
    reason: str = ""
    suggested: str = ""

    @property
    def parent(self) -> str:
        """Return the first base task."""
        return self.bases[0] if self.bases else ""

    @property
    def stage(self) -> str:
        """Return the state."""
        return self.state

    @property
    def owner(self) -> str:
        """Return the writer."""
        return self.writer


ItemStage = Literal["open", "agreed", "disputed", "decided", "qualification"]


@dataclass(frozen=True, slots=True)
class Item(Filed):
    """A task with a passage, to be answered by several annotators.

    Attributes:
        task: The id of the task; empty for a qualification item, which brings its own question.
        document: The id of the passage's document.
        start: Where the passage begins in the document's text.
        end: Where it ends.
        near_miss: Whether it was chosen as a passage that probably does not answer the question.
        state: open until enough people answered; then agreed or disputed; decided by an
            adjudicator; or qualification.
        answered: How many people have answered.
        answer: The final answer, once there is one.
        known: The question, passage, format and answer of a qualification item.
    """

    kind: ClassVar[str] = "item"

    task: str
    document: str = ""
    start: int = 0
    end: int = 0
    near_miss: bool = False
    state: ItemStage = "open"
    answered: int = 0
    answer: str = ""
    known: dict[str, Any] | None = None

    @property
    def parent(self) -> str:
        """Return the task."""
        return self.task

    @property
    def stage(self) -> str:
        """Return the state."""
        return self.state


@dataclass(frozen=True, slots=True)
class GivenAnswer(Filed):
    """What one annotator answered. Its id is `ITEM/PERSON`, so that nobody can answer an item
    twice.

    Attributes:
        value: As ZEST's files write it: yes, no, n/a, spans joined by bars, or the JSON text of a
            structure.
        seconds: How long the person had the item open.
        right: Whether the answer to a qualification item is right; None for work.
    """

    kind: ClassVar[str] = "answer"

    item: str
    person: str
    value: str
    seconds: float
    right: bool | None = None

    @property
    def parent(self) -> str:
        """Return the item."""
        return self.item

    @property
    def stage(self) -> str:
        """Return whether it is work or qualification."""
        return "work" if self.right is None else "qualification"

    @property
    def owner(self) -> str:
        """Return the annotator."""
        return self.person


@dataclass(frozen=True, slots=True)
class Suggestion(Filed):
    """What a model suggested for a task or an item. It is never counted as an answer.

    Attributes:
        about: The id of the task or item.
        model: The model's name.
        text: What it suggested.
    """

    kind: ClassVar[str] = "suggestion"

    about: str
    model: str
    text: str

    @property
    def parent(self) -> str:
        """Return the task or item."""
        return self.about


@dataclass(frozen=True, slots=True)
class Setup(Filed):
    """The project file as it was last read, and the switches that owners set on their page.

    Attributes:
        file: The checked content of the project file.
        sources: The digest of names, sizes and times of the corpus files that were last read.
        suggestions: Whether models may suggest.
        notes: What was left out of the corpus when it was last read, and why.
    """

    kind: ClassVar[str] = "project"

    file: dict[str, Any]
    sources: str = ""
    suggestions: bool = False
    notes: tuple[str, ...] = ()


RECORD_TYPES: dict[str, type[Filed]] = {
    cls.kind: cls for cls in (Person, Document, CollectedTask, Item, GivenAnswer, Suggestion, Setup)
}


def to_json(record: Filed) -> dict[str, Any]:
    """Convert a record to JSON values, tuples to lists included, so that it compares equal to what
    the database holds.
    """
    values: dict[str, Any] = json.loads(json.dumps(asdict(record)))
    return values


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


def from_json(kind: str, body: dict[str, Any]) -> Filed:
    """Build a record from JSON values."""
    return RECORD_TYPES[kind](**{name: _frozen(value) for name, value in body.items()})
