"""Records of a collection project. Each is an immutable value; the store keeps its versions and
their authors.

A record has a parent (the record that it belongs to), a stage and an owner. The store can look
records up by these.
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
"""Answer to a question that the passage does not answer, in the format of ZEST's files."""


@dataclass(frozen=True, slots=True)
class Filed:
    """Base class of records: an id and three lookup keys."""

    kind: ClassVar[str] = ""

    id: str

    @property
    def parent(self) -> str:
        """Id of the record that this one belongs to."""
        return ""

    @property
    def stage(self) -> str:
        """Stage that the record has reached."""
        return ""

    @property
    def owner(self) -> str:
        """Id of the person who owns the record."""
        return ""


@dataclass(frozen=True, slots=True)
class Person(Filed):
    """A participant. The name is the only personal data stored.

    Attributes:
        roles: Roles of the person.
        link: Number of the person's current link. A new number invalidates older links and
            sessions.
        qualified: Qualification of an annotator: "" while qualifying, then "passed" or "failed".
    """

    kind: ClassVar[str] = "person"

    name: str
    roles: tuple[Role, ...]
    link: int = 1
    qualified: str = ""


@dataclass(frozen=True, slots=True)
class Document(Filed):
    """A document of the corpus. Its text is stored once, by its digest."""

    kind: ClassVar[str] = "document"

    domain: str
    entity: str
    digest: str
    words: int

    @property
    def parent(self) -> str:
        """The domain."""
        return self.domain


TaskStage = Literal["submitted", "returned", "approved", "removed"]


@dataclass(frozen=True, slots=True)
class CollectedTask(Filed):
    """A task written by a participant.

    Attributes:
        question: The description, with the domain's place-holder ("this park").
        variant: The generalization type by the name that ZEST's files use.
        domain: The name of the domain.
        format: Answer format.
        writer: Id of the person who wrote it.
        state: submitted, returned with a reason, approved, or removed.
        bases: Ids of the base tasks that it derives from.
        split: The split, which a base task gets on approval and its variants share.
        slot: Position of a base task in the permuted blocks that divide base tasks among splits.
        structure: The output structure as JSON form, for structure tasks.
        reason: Why a reviewer returned the task.
        suggested: Name of the model that suggested the wording. Empty if no model did.
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
        """The first base task."""
        return self.bases[0] if self.bases else ""

    @property
    def stage(self) -> str:
        """The state."""
        return self.state

    @property
    def owner(self) -> str:
        """The writer."""
        return self.writer


ItemStage = Literal["open", "agreed", "disputed", "decided", "qualification"]


@dataclass(frozen=True, slots=True)
class Item(Filed):
    """A task with a passage, to be answered by several annotators.

    Attributes:
        task: The id of the task; empty for a qualification item, which brings its own question.
        document: The id of the passage's document.
        start: Start of the passage in the document's text.
        end: End of the passage.
        near_miss: True if it was chosen as a passage that probably does not answer the question.
        state: open until enough people have answered, then agreed or disputed; decided if an
            adjudicator settled it; or qualification.
        answered: Number of people who have answered.
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
        """The task."""
        return self.task

    @property
    def stage(self) -> str:
        """The state."""
        return self.state


@dataclass(frozen=True, slots=True)
class GivenAnswer(Filed):
    """One annotator's answer. Its id is `ITEM/PERSON`, so that no one can answer an item twice.

    Attributes:
        value: In the format of ZEST's files: yes, no, n/a, spans joined by bars, or the JSON text
            of a structure.
        seconds: Time for which the person had the item open.
        right: True if the answer to a qualification item is right; None for other items.
    """

    kind: ClassVar[str] = "answer"

    item: str
    person: str
    value: str
    seconds: float
    right: bool | None = None

    @property
    def parent(self) -> str:
        """The item."""
        return self.item

    @property
    def stage(self) -> str:
        """Work or qualification."""
        return "work" if self.right is None else "qualification"

    @property
    def owner(self) -> str:
        """The annotator."""
        return self.person


@dataclass(frozen=True, slots=True)
class Suggestion(Filed):
    """A model's suggestion for a task or an item. It never counts as an answer.

    Attributes:
        about: The id of the task or item.
        model: The model's name.
        text: The suggestion.
    """

    kind: ClassVar[str] = "suggestion"

    about: str
    model: str
    text: str

    @property
    def parent(self) -> str:
        """The task or item."""
        return self.about


@dataclass(frozen=True, slots=True)
class Setup(Filed):
    """The project file as last read, and the settings that owners changed on their page.

    Attributes:
        file: The checked content of the project file.
        sources: Digest of names, sizes and times of the corpus files when they were last read.
        suggestions: True if models may suggest texts.
        notes: Documents that were skipped when the corpus was last read, and why.
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
    """Convert a record to JSON values. Tuples become lists, so that the result compares equal to a
    value from the database.
    """
    values: dict[str, Any] = json.loads(json.dumps(asdict(record)))
    return values


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


def from_json(kind: str, body: dict[str, Any]) -> Filed:
    """Build a record from JSON values."""
    return RECORD_TYPES[kind](**{name: _frozen(value) for name, value in body.items()})
