"""Items and their answers: assigning items to annotators, and deriving final answers from the
annotators' answers.

Section 4.4 of the paper defines final answers. Yes/no: the majority. Spans: "the answer that was
the subset of the other answers, preferring shorter responses over longer responses". The paper does
not say what happens if no answer is a subset of the others, or if some annotators answer n/a. Here
an answer counts if more than half of the annotators support it. An adjudicator decides all other
items.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from taskloom.apps.collect.collection import SYSTEM, Collection, require
from taskloom.apps.collect.errors import CollectError, ConflictError, ForbiddenError, phrase
from taskloom.apps.collect.event_store import Transaction
from taskloom.apps.collect.output_structure import compile_answer, from_form
from taskloom.apps.collect.records import (
    NA,
    AnswerFormat,
    CollectedTask,
    Document,
    GivenAnswer,
    Item,
    Person,
)
from taskloom.apps.collect.search import PassageChoice, entity_limit
from taskloom.core.seeding import Key
from taskloom.suites.zest.evaluation.official import judge
from taskloom.suites.zest.evaluation.spans import normalise
from taskloom.suites.zest.task_files import parse_structure


def resolve(values: Sequence[str], format: AnswerFormat) -> str | None:
    """Return the final answer, or None if an adjudicator must decide.

    >>> resolve(["yes", "no", "yes"], "yes/no")
    'yes'
    >>> resolve(["the Blue Lake", "Blue Lake", "Lake"], "span")
    'Lake'
    >>> resolve(["n/a", "Blue Lake", "Red Rock"], "span") is None
    True
    """
    if not values:
        return None
    if format == "yes/no":
        return _majority(values)
    na = sum(v == NA for v in values)
    if 2 * na > len(values):
        return NA
    if format == "span":
        return _shortest_subset(values)
    return _structure(values)


def _majority(values: Sequence[str]) -> str | None:
    value, count = Counter(values).most_common(1)[0]
    return value if 2 * count > len(values) else None


def span_words(value: str) -> frozenset[str]:
    """Normalised words of an answer's spans."""
    return frozenset(word for part in value.split("|") for word in normalise(part).split())


def _shortest_subset(values: Sequence[str]) -> str | None:
    """Return the shortest answer whose words are contained in more than half of the answers,
    including itself.

    An answer of only articles and punctuation has no words in the sense of the evaluation, so only
    identical answers support it.
    """
    bags = [(v, span_words(v)) for v in values if v != NA]
    supported = []
    for value, words in bags:
        if words:
            support = sum(words <= other for _, other in bags)
        else:
            support = sum(value == text for text, _ in bags)
        if 2 * support > len(values):
            supported.append((len(words), len(value), value))
    return min(supported)[2] if supported else None


def _structure(values: Sequence[str]) -> str | None:
    """Return the objects that more than half of the annotators name, or None if there are none or
    an attribute cannot be settled.

    More than half of the annotators must name the same main objects. Each value is then settled
    among these annotators like a span.
    """
    parsed = [rows for v in values if v != NA and (rows := parse_structure(v))]
    by_objects: dict[frozenset[str], list[list[dict[str, str]]]] = {}
    for rows in parsed:
        names = frozenset(_object_name(row) for row in rows)
        by_objects.setdefault(names, []).append(rows)
    group = max(by_objects.values(), key=len, default=[])
    if 2 * len(group) <= len(values):
        return None
    all_rows = [row for rows in group for row in rows]
    result = []
    for first in group[0]:
        same = [row for row in all_rows if _object_name(row) == _object_name(first)]
        settled = {key: _settled([row[key] for row in same]) for key in first}
        if any(value is None for value in settled.values()):
            return None
        result.append(settled)
    return json.dumps(result, ensure_ascii=False)


def _object_name(row: dict[str, str]) -> str:
    """Normalised main object of a row, which is its first value."""
    return normalise(next(iter(row.values())))


def _settled(values: Sequence[str]) -> str | None:
    if set(values) <= {"yes", "no", NA}:
        return _majority(values)
    na = sum(v == NA for v in values)
    if 2 * na > len(values):
        return NA
    return _shortest_subset(values)


LEASE = 900.0
"""Seconds for which an open item counts as answered, so that not everyone gets the same item."""

LONGEST_TIME = 3_600.0
"""Maximum seconds recorded for one item, because annotators may leave a page open over lunch."""

RIGHT = 0.8
"""Minimum score for an answer to a qualification item to count as right. Spans may differ by a
word.
"""

BATCH = 40
"""Number of candidates read in one query for the next item. At three answers per item, 50 people
working at the same time have about 17 items open.
"""

MOST_SPANS = 50
"""Maximum spans in one answer."""


# Passages.


def gather_passages(
    c: Collection, who: str, progress: Callable[[int, int], None] | None = None
) -> list[str]:
    """Choose passages for every approved task that has none, and return notes for the owner.

    Base tasks come first, since a paraphrase uses the passages of its base task.
    """
    notes: list[str] = []
    order = {"normal": 0}
    domains = {d.name for d in c.file.domains}
    waiting = (t for t in c.store.each(CollectedTask, stage="approved") if t.domain in domains)
    tasks = [t for t in waiting if not c.store.count(Item, parent=t.id)]
    tasks.sort(key=lambda t: (order.get(t.variant, 1), t.id))
    for number, task in enumerate(tasks):
        note = _gather(c, who, task)
        notes += [note] if note else []
        if progress:
            progress(number + 1, len(tasks))
    return notes


def _gather(c: Collection, who: str, task: CollectedTask) -> str:
    index = c.index(task.domain)
    wanted = c.file.passages
    if task.variant == "paraphrase":
        base = list(c.store.each(Item, parent=task.bases[0]))
        entities = {d.id: d.entity for d in c.store.each(Document, parent=task.domain)}
        choices = [
            PassageChoice(i.document, entities.get(i.document, ""), i.start, i.end, i.near_miss)
            for i in base
        ]
    else:
        searched = [
            t for t in c.store.each(CollectedTask, stage="approved") if t.variant != "paraphrase"
        ]
        total = wanted * sum(t.domain == task.domain for t in searched)
        limit = entity_limit(total, c.file.entity_share, len(index.entities))
        key = Key("collect", "passages", c.file.seed)
        used = entity_counts(c, task.domain)
        choices = index.choose(
            task.question,
            wanted,
            c.file.near_misses,
            c.file.longest_passage,
            used,
            limit,
            key.child(task.id),
        )
    with c.store.change(who, "passages", f"{len(choices)} passages for: {task.question}") as change:
        if (
            c.store.count(Item, parent=task.id)
            or c.store.need(CollectedTask, task.id).value.state != "approved"
        ):
            return ""  # another request gathered them or removed the task a moment ago
        for number, choice in enumerate(choices):
            id = f"{task.id[:16]}-{number:04d}"
            change.put(
                Item(id, task.id, choice.document, choice.start, choice.end, choice.near_miss)
            )
    if len(choices) < wanted:
        return phrase("few_passages", question=task.question, count=len(choices), wanted=wanted)
    return ""


def entity_counts(c: Collection, domain: str) -> Counter[str]:
    """Count a domain's passages by entity. Passages that paraphrases share with their base tasks
    count once.
    """
    entities = {d.id: d.entity for d in c.store.each(Document, parent=domain)}
    tasks = {
        t.id
        for t in c.store.each(CollectedTask)
        if t.domain == domain and t.variant != "paraphrase"
    }
    return Counter(entities.get(i.document, "") for i in c.store.each(Item) if i.task in tasks)


# Assignment of items.


class Leases:
    """Items that people have open. They are only kept in memory, because losing them costs at most
    one superfluous answer.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, dict[str, float]] = {}
        self._lock = threading.Lock()

    def take(self, item: str, person: str, free: int) -> bool:
        """Lease an item to a person unless `free` others have it. True if it succeeded."""
        with self._lock:
            now = self._clock()
            holders = {p: t for p, t in self._until.get(item, {}).items() if t > now}
            possible = person in holders or len(holders) < free
            if possible:
                holders[person] = now + LEASE
            self._until[item] = holders
            return possible

    def holders(self, item: str) -> int:
        """Number of people who have the item open."""
        with self._lock:
            now = self._clock()
            return sum(t > now for t in self._until.get(item, {}).values())

    def drop(self, item: str, person: str) -> None:
        """End a lease."""
        with self._lock:
            holders = self._until.get(item, {})
            holders.pop(person, None)
            if not holders:
                self._until.pop(item, None)


def next_item(c: Collection, person: Person, leases: Leases) -> Item | None:
    """Return the next item for an annotator, or None if everything is done.

    Qualification items come first. An item is given to at most as many people as the project
    requires answers, counting those who have it open.
    """
    require(person, "annotator")
    if not person.qualified:
        qualification = c.store.unanswered(person.id, "qualification", limit=1)
        if qualification:
            return qualification[0]
    if person.qualified == "failed":
        raise CollectError(phrase("qualification_failed"))
    after = ""
    while candidates := c.store.unanswered(person.id, "open", after=after, limit=BATCH):
        for item in candidates:
            if not leases.take(item.id, person.id, c.file.annotators - item.answered):
                continue
            # The item may have been answered since it was read, because a lease is dropped only
            # after its answer is saved.
            current = c.store.get(Item, item.id)
            if (
                current is not None
                and leases.holders(item.id) <= c.file.annotators - current.value.answered
            ):
                return current.value
            leases.drop(item.id, person.id)
        after = candidates[-1].id
    return None


# Answers.


@dataclass(frozen=True, slots=True)
class EnteredAnswer:
    """An answer as entered in a form.

    Attributes:
        na: True if the passage does not answer the question.
        choice: yes or no.
        spans: Start and end of each selected span in the passage.
        objects: Rows of a structure.
    """

    na: bool = False
    choice: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    objects: tuple[Mapping[str, str], ...] = ()


def format_of(c: Collection, item: Item) -> AnswerFormat:
    """Answer format of an item."""
    if item.known is not None:
        return "span" if item.known["format"] == "span" else "yes/no"
    return c.store.need(CollectedTask, item.task).value.format


def value_of(c: Collection, item: Item, entered: EnteredAnswer) -> str:
    """Check an entered answer and return it in the format of ZEST's files."""
    if entered.na:
        return NA
    format = format_of(c, item)
    if format == "yes/no":
        if entered.choice not in ("yes", "no"):
            raise CollectError(phrase("choose_answer"))
        return entered.choice
    passage = c.passage(item)
    if format == "span":
        return _spans(passage, entered.spans)
    structure = from_form(c.store.need(CollectedTask, item.task).value.structure or {})
    if not any(any(v.strip() for v in row.values()) for row in entered.objects):
        raise CollectError(phrase("empty_rows"))
    return compile_answer(structure, entered.objects, passage)


def _spans(passage: str, spans: Sequence[tuple[int, int]]) -> str:
    texts: list[str] = []
    last = -1
    for start, end in sorted(set(spans))[:MOST_SPANS]:
        if not 0 <= start < end <= len(passage):
            raise CollectError(phrase("selection_outside"))
        text = " ".join(passage[start:end].split())
        if start < last:
            raise CollectError(phrase("selection_overlaps", text=text[:60]))
        if any(mark in text for mark in "|{}"):
            raise CollectError(phrase("selection_marks", text=text[:60]))
        last = end
        if text and text not in texts:
            texts.append(text)
    if not texts:
        raise CollectError(phrase("nothing_selected"))
    return "|".join(texts)


def save_answer(
    c: Collection, person: Person, id: str, entered: EnteredAnswer, seconds: float, version: int
) -> GivenAnswer:
    """Save an annotator's answer. With the last required answer, the item becomes agreed or
    disputed.

    The same answer sent twice is saved once. Changing a saved answer requires its version.
    """
    require(person, "annotator")
    item = c.store.need(Item, id).value
    value = value_of(c, item, entered)
    answer_id = f"{id}/{person.id}"
    seconds = round(min(max(seconds, 0.0), LONGEST_TIME), 1) if seconds == seconds else 0.0
    right = _is_right(item, value) if item.known is not None else None
    answer = GivenAnswer(answer_id, id, person.id, value, seconds, right)
    with c.store.change(person.id, "answer", c.question(item)) as change:
        before = change.get(GivenAnswer, answer_id)
        if before is not None and before.value.value == value:
            return before.value
        item = c.store.need(Item, id).value
        if before is not None and (item.state == "decided" or item.known is not None):
            raise ConflictError(phrase("item_decided"))
        if before is None and item.state not in ("open", "qualification"):
            # Others gave the last answers while this page was open. One more answer could change
            # what is already settled or exported.
            raise ConflictError(phrase("item_complete"))
        check_qualified(c, person.id, item)
        change.put(answer, version)
        if item.known is not None:
            _qualify(c, change, person)
        else:
            settle(c, change, item)
    return answer


def check_qualified(c: Collection, person: str, item: Item) -> None:
    """Raise `ForbiddenError` if the project has qualification items and the person has not
    qualified.
    """
    qualified = c.store.need(Person, person).value.qualified
    if qualified == "failed":
        raise ForbiddenError(phrase("not_qualified"))
    if item.known is None and qualified != "passed" and c.store.count(Item, stage="qualification"):
        raise ForbiddenError(phrase("qualify_first"))


def _is_right(item: Item, value: str) -> bool:
    assert item.known is not None
    judged = judge(str(item.known["answer"]), value, Random(0))  # noqa: S311 - the official evaluator's stream
    return judged.score >= RIGHT


def _qualify(c: Collection, change: Transaction, person: Person) -> None:
    """Decide whether an annotator qualifies once all qualification items are answered."""
    items = {i.id for i in c.store.each(Item, stage="qualification")}
    wanted = len(items)
    # Answers to items that were removed from the project file do not count.
    given = {
        a.id: a
        for a in c.store.each(GivenAnswer, owner=person.id, stage="qualification")
        if a.item in items
    }
    for kind, id in list(change.changes):
        if kind == GivenAnswer.kind and (stored := change.get(GivenAnswer, id)) is not None:
            given[id] = stored.value
    if len(given) < wanted or person.qualified:
        return
    right = sum(bool(a.right) for a in given.values())
    passed = right >= c.file.qualification.share * wanted
    current = c.store.need(Person, person.id).value
    change.put(replace(current, qualified="passed" if passed else "failed"))


def settle_answered(c: Collection) -> int:
    """Settle open items that have enough answers because the project file now requires fewer.
    Returns the number of items.
    """
    items = c.store.answered_enough(c.file.annotators)
    with c.store.change(
        SYSTEM, "settle", f"{len(items)} items have all the answers that are wanted now"
    ) as change:
        for item in items:
            settle(c, change, item)
    return len(items)


def settle(c: Collection, change: Transaction, item: Item) -> None:
    """Update the number of answers to an item, and resolve them if there are enough."""
    answers = {a.id: a for a in c.store.each(GivenAnswer, parent=item.id)}
    for kind, id in list(change.changes):
        if kind == GivenAnswer.kind and id.startswith(f"{item.id}/"):
            stored = change.get(GivenAnswer, id)
            answers.pop(id, None)
            answers |= {id: stored.value} if stored else {}
    count = len(answers)
    if item.state == "decided":
        change.put(replace(item, answered=count))
        return
    if count < c.file.annotators:
        change.put(replace(item, answered=count, state="open", answer=""))
        return
    values = [answers[id].value for id in sorted(answers)]
    final = resolve(values, format_of(c, item))
    state = "agreed" if final is not None else "disputed"
    change.put(replace(item, answered=count, state=state, answer=final or ""))  # type: ignore[arg-type]


def adjudicate(
    c: Collection,
    reviewer: Person,
    id: str,
    version: int,
    entered: EnteredAnswer | None,
    take: str = "",
) -> Item:
    """Decide the answer to an item on which the annotators disagree.

    Args:
        c: The project.
        reviewer: Person who decides. The reviewer must not have answered the item.
        id: The item.
        version: The version of the item that the reviewer saw.
        entered: The answer, or None to use an annotator's answer.
        take: Id of the annotator's answer to use.
    """
    require(reviewer, "reviewer")
    item = c.store.need(Item, id).value
    if c.store.get(GivenAnswer, f"{id}/{reviewer.id}") is not None:
        raise CollectError(phrase("own_dispute"))
    if item.state not in ("disputed", "agreed", "decided"):
        raise ConflictError(phrase("item_not_ready"))
    if entered is None:
        answer = c.store.need(GivenAnswer, take).value
        if answer.item != id:
            raise CollectError(phrase("answer_elsewhere"))
        value = answer.value
    else:
        value = value_of(c, item, entered)
    new = replace(item, state="decided", answer=value)
    with c.store.change(reviewer.id, "decision", c.question(item)) as change:
        change.put(new, version)
    return new
