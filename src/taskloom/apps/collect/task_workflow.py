"""Life cycle of tasks: base tasks, their approval by a second person, and variants of approved
tasks.

Approved base tasks are divided among the splits by permuted blocks. A block has slots for the
splits, in random order and in the smallest whole numbers with the requested ratio (for 40, 10, 50:
4, 1 and 5). A base task takes the first free slot of its domain when it is approved. The shares are
therefore right at any time, and neither the writer nor the reviewer knows the split in advance.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from math import gcd

from taskloom.apps.collect.collection import Collection, require
from taskloom.apps.collect.corpus import clean_line
from taskloom.apps.collect.errors import CollectError, ConflictError, phrase
from taskloom.apps.collect.output_structure import OutputStructure
from taskloom.apps.collect.project_file import SplitPercent
from taskloom.apps.collect.question_checks import ALIKE, FormFinding, check_question, likeness
from taskloom.apps.collect.records import AnswerFormat, CollectedTask, Item, Person, Suggestion
from taskloom.core.files import digest
from taskloom.core.seeding import Key
from taskloom.suites.zest.task_files import KINDS, Kind

VARIANTS: tuple[Kind, ...] = tuple(k for k in KINDS if k != "normal")

LONGEST = 500
"""Maximum characters of a question or a reason."""

TRIPLE = 3
"""Number of base tasks offered for a composition, of which the writer combines two (section 4.2).
"""


@dataclass(frozen=True, slots=True)
class Wording:
    """A writer's input.

    Attributes:
        question: The description.
        format: Answer format. Variants other than structures keep the format of their base task,
            and a composition has its own.
        structure: The output structure of a structure task.
        suggested: Model that suggested the wording, if the writer used it.
        sure: True if the writer has seen the warnings and submits anyway.
    """

    question: str
    format: AnswerFormat = "yes/no"
    structure: OutputStructure | None = None
    suggested: str = ""
    sure: bool = False


@dataclass(frozen=True, slots=True)
class Submission:
    """Result of submitting a wording: the task, if it was saved, and the findings of the form
    checks.
    """

    task: CollectedTask | None
    findings: list[FormFinding]


def submit_base(
    c: Collection, writer: Person, ticket: str, domain: str, wording: Wording
) -> Submission:
    """Submit a base task.

    Args:
        c: The project.
        writer: The writer.
        ticket: Random text in the form. It ensures that a form sent twice creates only one task.
        domain: The name of the domain.
        wording: The writer's input.
    """
    require(writer, "writer")
    c.file.domain(domain)
    if wording.format == "structure":
        raise CollectError(phrase("base_structure"))
    return _submit(c, writer, ticket, "normal", domain, (), replace(wording, suggested=""))


def submit_variant(
    c: Collection, writer: Person, ticket: str, variant: str, bases: Sequence[str], wording: Wording
) -> Submission:
    """Submit a variant of approved base tasks: two for a composition, one for the others."""
    require(writer, "writer")
    if variant not in VARIANTS:
        raise CollectError(
            phrase("unknown_variant", variant=variant[:40], variants=", ".join(VARIANTS))
        )
    wanted = 2 if variant == "combination" else 1
    if len(set(bases)) != wanted:
        raise CollectError(phrase("choose_two" if wanted == 2 else "choose_one"))
    tasks = [approved_base(c, id) for id in bases]
    if len({(t.domain, t.split) for t in tasks}) > 1:
        raise CollectError(phrase("composition_splits"))
    if variant == "structure":
        if wording.structure is None:
            raise CollectError(phrase("structure_missing"))
        wording = replace(wording, format="structure")
    elif variant != "combination":
        wording = replace(wording, format=tasks[0].format)
    wording = replace(wording, suggested=suggesting_model(c, bases, wording))
    return _submit(c, writer, ticket, variant, tasks[0].domain, tuple(bases), wording)


def suggesting_model(c: Collection, bases: Sequence[str], wording: Wording) -> str:
    """Return the model that suggested a wording: the author of a similar suggestion or, without
    one, the model that the form names.

    The model named in the form counts only if it did suggest something. Neither a name nor its
    absence can therefore be forged.
    """
    given = [s for id in bases for s in c.store.each(Suggestion, parent=id)]
    close = (s.model for s in given if likeness(s.text, wording.question) >= ALIKE)
    return next(close, next((s.model for s in given if s.model == wording.suggested), ""))


def approved_base(c: Collection, id: str) -> CollectedTask:
    """An approved base task."""
    task = c.store.need(CollectedTask, id).value
    if task.variant != "normal" or task.state != "approved":
        raise CollectError(phrase("base_not_approved"))
    return task


def _submit(
    c: Collection,
    writer: Person,
    ticket: str,
    variant: Kind,
    domain: str,
    bases: tuple[str, ...],
    wording: Wording,
) -> Submission:
    id = digest(f"{writer.id}\n{ticket}", 16)
    existing = c.store.get(CollectedTask, id)
    if existing is not None:  # the form was sent twice, or the user went back to the page
        if existing.value.question == clean_line(wording.question)[:LONGEST]:
            return Submission(existing.value, [])
        raise ConflictError(phrase("submitted_already"))
    question = clean_line(wording.question)[:LONGEST]
    findings = find_problems(c, id, question, wording.format, variant, domain, bases)
    if blocked(findings, wording.sure):
        return Submission(None, findings)
    task = CollectedTask(
        id,
        question,
        variant,
        domain,
        wording.format,
        writer.id,
        bases=bases,
        structure=wording.structure.to_json() if wording.structure else None,
        suggested=clean_line(wording.suggested)[:100],
    )
    with c.store.change(writer.id, "task", question) as change:
        change.put(task, 0)
    return Submission(task, findings)


def find_problems(
    c: Collection,
    id: str,
    question: str,
    format: AnswerFormat,
    variant: Kind,
    domain: str,
    bases: Sequence[str],
) -> list[FormFinding]:
    """Run the form checks on a question."""
    tasks = [t for t in c.store.each(CollectedTask) if t.domain == domain and t.state != "removed"]
    others = [t for t in tasks if t.id != id]
    origin = [t for t in others if t.id in bases]
    return check_question(
        question, format, variant, c.file.domain(domain), others, c.entities(domain), origin
    )


def blocked(findings: Sequence[FormFinding], sure: bool) -> bool:
    """True if the findings prevent a question from being submitted. Errors always do, warnings only
    until the writer confirms.
    """
    return any(f.level == "error" or not sure for f in findings)


def resubmit(c: Collection, writer: Person, id: str, version: int, wording: Wording) -> Submission:
    """Resubmit a task that a reviewer returned, or that has not been reviewed yet."""
    require(writer, "writer")
    task = c.store.need(CollectedTask, id).value
    if task.writer != writer.id:
        raise CollectError(phrase("not_the_writer"))
    if task.state not in ("returned", "submitted"):
        raise ConflictError(phrase("question_fixed", state=task.state))
    question = clean_line(wording.question)[:LONGEST]
    format = wording.format if task.variant in ("normal", "combination") else task.format
    findings = find_problems(c, id, question, format, task.variant, task.domain, task.bases)
    if blocked(findings, wording.sure):
        return Submission(None, findings)
    structure = wording.structure.to_json() if wording.structure else task.structure
    new = replace(
        task, question=question, format=format, structure=structure, state="submitted", reason=""
    )
    with c.store.change(writer.id, "task again", question) as change:
        change.put(new, version)
    return Submission(new, findings)


def review(
    c: Collection, reviewer: Person, id: str, version: int, decision: str, reason: str = ""
) -> CollectedTask:
    """Approve a task, return it to its writer with a reason, or remove it.

    A base task gets its split on approval. A variant has the split of its base task.
    """
    require(reviewer, "reviewer")
    reason = clean_line(reason)[:LONGEST]
    with c.store.change(reviewer.id, f"review: {decision[:20]}", reason) as change:
        task = c.store.need(CollectedTask, id).value
        if task.writer == reviewer.id:
            raise CollectError(phrase("own_question"))
        if decision == "approve" and task.state == "submitted":
            new = _approved(c, task)
        elif decision == "return" and task.state == "submitted":
            if not reason:
                raise CollectError(phrase("reason_missing"))
            new = replace(task, state="returned", reason=reason)
        elif decision == "remove" and task.state != "removed":
            if carries(c, id):
                raise ConflictError(phrase("task_carries"))
            new = replace(task, state="removed", reason=reason)
        else:
            raise ConflictError(phrase("review_late", state=task.state))
        change.put(new, version)
    return new


def _approved(c: Collection, task: CollectedTask) -> CollectedTask:
    if task.bases:
        return replace(
            task, state="approved", split=approved_base(c, task.bases[0]).split, reason=""
        )
    taken = {
        t.slot for t in c.store.each(CollectedTask, stage="approved") if t.domain == task.domain
    }
    slot = free_slot(taken)
    split = split_of(slot, task.domain, c.file.splits, c.file.seed)
    return replace(task, state="approved", slot=slot, split=split, reason="")


def _approved_bases(c: Collection) -> list[CollectedTask]:
    """Approved base tasks of the domains that are still in the project file."""
    domains = {d.name for d in c.file.domains}
    return [
        t
        for t in c.store.each(CollectedTask, stage="approved")
        if t.variant == "normal" and t.domain in domains
    ]


def carries(c: Collection, id: str) -> bool:
    """True if a task has passages or variants that are not removed. Such a task must stay."""
    derived = (t for t in c.store.each(CollectedTask) if id in t.bases and t.state != "removed")
    return bool(c.store.count(Item, parent=id)) or next(derived, None) is not None


def offer_base(c: Collection, writer: Person, variant: str, turn: int) -> CollectedTask | None:
    """Offer a base task for a variant, preferably one without such a variant and by another writer.

    Args:
        c: The project.
        writer: Person who requests a base task.
        variant: Type of variant.
        turn: Number of offers that the writer has declined.
    """
    bases = _approved_bases(c)
    if not bases:
        return None
    has = {
        t.parent
        for t in c.store.each(CollectedTask)
        if t.variant == variant and t.state != "removed"
    }
    key = Key("collect", "offer", c.file.seed).child(writer.id, variant)
    order = sorted(bases, key=lambda t: (t.id in has, t.writer == writer.id, key.hash64(t.id)))
    return order[turn % len(order)]


def offer_triple(c: Collection, writer: Person, turn: int) -> tuple[CollectedTask, ...]:
    """Draw three base tasks of one domain and one split, from which the writer combines two. Empty
    if there are too few.
    """
    groups: dict[tuple[str, str], list[CollectedTask]] = {}
    for task in _approved_bases(c):
        groups.setdefault((task.domain, task.split), []).append(task)
    large = [tasks for _, tasks in sorted(groups.items()) if len(tasks) >= TRIPLE]
    if not large:
        return ()
    rng = Key("collect", "triple", c.file.seed).random(writer.id, turn)
    tasks = rng.choices(large, weights=[len(tasks) for tasks in large])[0]
    return tuple(rng.sample(tasks, TRIPLE))


def split_of(slot: int, domain: str, percent: SplitPercent, seed: int) -> str:
    """Split of a slot in a domain."""
    counts = {"train": percent.train, "dev": percent.dev, "test": percent.test}
    unit = gcd(*counts.values())
    block = [name for name, count in counts.items() for _ in range(count // unit)]
    number, place = divmod(slot, len(block))
    Key("collect", "splits", seed).random(domain, number).shuffle(block)
    return block[place]


def free_slot(taken: Set[int]) -> int:
    """First slot that no base task has taken."""
    slot = 0
    while slot in taken:
        slot += 1
    return slot
