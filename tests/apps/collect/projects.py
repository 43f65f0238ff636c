"""Projects for tests: the package's own documents, people of all roles, and whole rounds played
without a browser.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

import taskloom.apps.collect
from taskloom.apps.collect.annotation import (
    EnteredAnswer,
    Leases,
    adjudicate,
    gather_passages,
    next_item,
    save_answer,
)
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.output_structure import OutputStructure, StructureAttribute
from taskloom.apps.collect.records import CollectedTask, Item, Person
from taskloom.apps.collect.task_workflow import Wording, review, submit_base, submit_variant

DOCUMENTS = Path(taskloom.apps.collect.__file__).parent / "demo" / "documents"

SETTINGS: dict[str, Any] = {
    "name": "Gardens",
    "annotators": 3,
    "passages": 4,
    "near_misses": 0.25,
    "entity_share": (
        0.2
    ),  # with 5 % a task may get fewer passages than it wants, which ones depends on random ids
    "domains": [{"name": "gardens", "entity": "this garden", "documents": "documents/gardens"}],
}

BASES = [
    ("Are dogs allowed in this garden?", "yes/no"),
    ("What plants grow in this garden?", "span"),
    ("Who founded this garden?", "span"),
    ("Can wheelchairs reach all of this garden?", "yes/no"),
    ("When was this garden opened or planted?", "span"),
    ("Is there a café or restaurant in this garden?", "yes/no"),
    ("Which animals can be seen in this garden?", "span"),
    ("Do children enter this garden free?", "yes/no"),
    ("How much does a ticket for this garden cost?", "span"),
    ("Does this garden have guided tours?", "yes/no"),
]


def write_project(folder: Path, **changes: Any) -> Path:
    """Write a project file with the package's documents beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "documents").exists():
        shutil.copytree(DOCUMENTS, folder / "documents")
    (folder / "project.yaml").write_text(yaml.safe_dump({**SETTINGS, **changes}), encoding="utf-8")
    return folder


def open_project(folder: Path, **changes: Any) -> Collection:
    """Open a new project."""
    return Collection(write_project(folder, **changes))


def add_people(c: Collection) -> dict[str, Person]:
    """Add an owner, two writers, three annotators and a reviewer."""
    owner = c.first_owner("Olga")
    roles = {
        "Wim": "writer",
        "Wanda": "writer",
        "Ann": "annotator",
        "Abe": "annotator",
        "Ada": "annotator",
        "Rita": "reviewer",
    }
    return {"Olga": owner} | {
        name: c.add_person(owner.id, name, [role]) for name, role in roles.items()
    }


def write_base_tasks(
    c: Collection, people: dict[str, Person], count: int = 10
) -> list[CollectedTask]:
    """Have the writers write base tasks in turn and the reviewer approve them."""
    tasks = []
    for number, (question, format) in enumerate(BASES[:count]):
        writer = people["Wim" if number % 2 else "Wanda"]
        wording = Wording(question, format, sure=True)  # type: ignore[arg-type]
        submission = submit_base(c, writer, f"ticket {number}", "gardens", wording)
        assert submission.task is not None, submission.findings
        tasks.append(review(c, people["Rita"], submission.task.id, 1, "approve"))
    return tasks


def write_variants(
    c: Collection, people: dict[str, Person], bases: list[CollectedTask]
) -> list[CollectedTask]:
    """Write one variant of each kind."""
    dogs = next(b for b in bases if "dogs" in b.question)
    split = [b for b in bases if b.split == "test"]
    structure = OutputStructure(
        "animal", (StructureAttribute("season"), StructureAttribute("nests", ("yes", "no"), True))
    )
    wanted = [
        (
            "paraphrase",
            [dogs.id],
            Wording("Can visitors bring their dogs into this garden?", sure=True),
        ),
        ("target_semantics", [dogs.id], Wording("Are bicycles allowed in this garden?", sure=True)),
        (
            "combination",
            [split[0].id, split[1].id],
            Wording("Is it free, and are there tours in this garden?", sure=True),
        ),
        (
            "structure",
            [split[2].id],
            Wording(
                "What animals live in this garden, in which season, and do they nest?",
                structure=structure,
                sure=True,
            ),
        ),
    ]
    tasks = []
    for variant, ids, wording in wanted:
        submission = submit_variant(c, people["Wim"], variant, variant, ids, wording)
        assert submission.task is not None, submission.findings
        tasks.append(review(c, people["Rita"], submission.task.id, 1, "approve"))
    return tasks


def entered(c: Collection, item: Item, person: Person) -> EnteredAnswer:
    """Answer an item as a person who agrees with the others on most items, by what the passage
    says.
    """
    text = c.passage(item)
    task = c.store.need(CollectedTask, item.task).value
    number = int(item.id[-1])
    if number == 3:
        return EnteredAnswer(na=True)
    if task.format == "yes/no":
        contrary = number == 2 and person.name == "Ada"
        return EnteredAnswer(choice="no" if "not" in text.split() or contrary else "yes")
    words = text.split()
    start = text.index(words[-3]) if number else 0
    if task.format == "span":
        # Everybody selects the last words, some of them more; on the first passage nobody agrees.
        if number == 0:
            begin = {"Ann": 0, "Abe": text.index(words[4]), "Ada": text.index(words[8])}[
                person.name
            ]
            return EnteredAnswer(spans=((begin, begin + 4),))
        return EnteredAnswer(spans=((start - (4 if person.name == "Abe" else 0), len(text)),))
    return EnteredAnswer(objects=({"animal": words[1], "season": "", "nests": "yes"},))


def annotate_all(c: Collection, people: dict[str, Person]) -> int:
    """Have all annotators answer until nothing is left for them; return how many answers they
    gave.
    """
    leases = Leases()
    count = 0
    for name in ("Ann", "Abe", "Ada"):
        person = c.store.need(Person, people[name].id).value
        while (item := next_item(c, person, leases)) is not None:
            save_answer(c, person, item.id, entered(c, item, person), 5.0, 0)
            leases.drop(item.id, person.id)
            count += 1
    return count


def adjudicate_all(c: Collection, people: dict[str, Person]) -> int:
    """Have the reviewer decide every disputed item as n/a; return how many there were."""
    disputed = list(c.store.each(Item, stage="disputed"))
    for item in disputed:
        adjudicate(
            c, people["Rita"], item.id, c.store.need(Item, item.id).version, EnteredAnswer(na=True)
        )
    return len(disputed)


def play_round(folder: Path, **changes: Any) -> tuple[Collection, dict[str, Person]]:
    """Play a whole round."""
    c = open_project(folder, **changes)
    people = add_people(c)
    write_variants(c, people, write_base_tasks(c, people))
    gather_passages(c, people["Olga"].id)
    annotate_all(c, people)
    adjudicate_all(c, people)
    return c, people
