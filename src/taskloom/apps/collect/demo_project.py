"""The demonstration project: packaged documents, people in all roles, and a half-finished round."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

from taskloom.apps.collect.annotation import (
    EnteredAnswer,
    Leases,
    gather_passages,
    next_item,
    save_answer,
)
from taskloom.apps.collect.collection import Collection
from taskloom.apps.collect.errors import CollectError, phrase
from taskloom.apps.collect.output_structure import OutputStructure, StructureAttribute
from taskloom.apps.collect.project_file import FILE
from taskloom.apps.collect.records import AnswerFormat, CollectedTask, Item, Person
from taskloom.apps.collect.task_workflow import Wording, review, submit_base, submit_variant
from taskloom.core.seeding import Key

PROJECT = """\
# The demonstration project of `make collect-demo`: two domains of invented places.
name: Gardens and museums
domains:
  - name: gardens
    entity: this garden
    documents: documents/gardens
    good: ["Are dogs allowed in this garden?", "Which animals can be seen in this garden?"]
    bad: ["Is the maze of Carrow Castle large? (about one entity)", "Is this garden beautiful? (no passage says it)"]
  - name: museums
    entity: this museum
    documents: documents/museums.jsonl
    good: ["On which days is this museum closed?"]
    bad: ["Is this museum older than others? (compares)"]
instructions:
  writer: Write before you have read the documents; ask what a visitor would want to know.
  annotator: Answer from the passage alone, never from what you know. If it does not say, choose “not answered by the passage”.
  reviewer: Approve questions that fit every entity and that a passage can answer.
annotators: 3
passages: 6
near_misses: 0.3
qualification:
  share: 0.6
  items:
    - question: Is this garden open in winter?
      passage: The garden is open from May to September. Goats keep the meadow short.
      answer: "no"
    - question: Who founded this garden?
      passage: The garden was founded by the climber Oskar Brandt in 1925, after his last expedition.
      format: span
      answer: Oskar Brandt
    - question: Does this garden have a café?
      passage: The tallest tree is a giant fir of fifty-eight metres.
      answer: n/a
"""

PEOPLE = (
    ("Olga Owner", "owner"),
    ("Wim Writer", "writer"),
    ("Wanda Writer", "writer"),
    ("Ann Annotator", "annotator"),
    ("Abe Annotator", "annotator"),
    ("Ada Annotator", "annotator"),
    ("Rita Reviewer", "reviewer"),
)

QUESTIONS: tuple[tuple[str, str, AnswerFormat], ...] = (
    ("gardens", "Are dogs allowed in this garden?", "yes/no"),
    ("gardens", "What plants grow in this garden?", "span"),
    ("gardens", "Who founded or planted this garden?", "span"),
    ("gardens", "Can people in wheelchairs visit this garden?", "yes/no"),
    ("gardens", "Is there a place to eat in this garden?", "yes/no"),
    ("gardens", "Which animals can be seen in this garden?", "span"),
    ("gardens", "How much does a ticket for this garden cost?", "span"),
    ("gardens", "Does this garden have guided tours?", "yes/no"),
    ("gardens", "In which months is this garden open?", "span"),
    ("gardens", "Do children enter this garden free?", "yes/no"),
    ("museums", "On which days is this museum closed?", "span"),
    ("museums", "Does this museum have a lift?", "yes/no"),
    ("museums", "What is the oldest thing in this museum?", "span"),
    ("museums", "Is there a restaurant in this museum?", "yes/no"),
)

WAITING: tuple[tuple[str, str, AnswerFormat], ...] = (
    ("gardens", "When do most flowers bloom in this garden?", "span"),
    ("museums", "Can visitors try something with their own hands in this museum?", "yes/no"),
)

ANIMALS = "otters|butterflies|Seals|Lizards|Swans and coots|Puffins|Bees|Goats"

ANSWERS: dict[str, tuple[str, str]] = {
    "Are dogs allowed in this garden?": ("Dogs (may|are allowed)", "Dogs are not allowed"),
    "Can visitors bring their pets along into this garden?": (
        "Dogs (may|are allowed)",
        "Dogs are not allowed",
    ),
    "Are bicycles allowed in this garden?": ("bicycles travel free", ""),
    "What plants grow in this garden?": (
        (
            "water lilies, reeds and yellow irises|kinds of ferns|lavender, sage, thyme, broom and"
            " many grasses|bananas, orchids|cocoa|palms and tree ferns|beans, pumpkins, kale and"
            " herbs|Artichokes, sea kale and pinks|Gentians|maples|clipped yews"
        ),
        "",
    ),
    "Who founded or planted this garden?": (
        (
            "Ida Marsh|Harriet Fenwick|Oskar Brandt|Maren Toll|Tomas Vell|neighbours of Elm"
            " Street|railway company"
        ),
        "",
    ),
    "Can people in wheelchairs visit this garden?": (
        "wheelchairs can|suitable for wheelchairs",
        "impossible with a wheelchair",
    ),
    "Is there a place to eat in this garden?": ("tea house|restaurant|café in|kiosk", "no café"),
    "Which animals can be seen in this garden?": (ANIMALS, ""),
    "What animals live in this garden, when can they be seen, and do they nest there?": (
        ANIMALS,
        "",
    ),
    "How much does a ticket for this garden cost?": (
        "four coins|three coins|six coins|what one likes",
        "",
    ),
    "Does this garden have guided tours?": ("Guided tours|The tour", ""),
    "In which months is this garden open?": ("April to October|May to September|all year", ""),
    "Do children enter this garden free?": ("children under twelve enter free", ""),
    "On which days is this museum closed?": ("Mondays", ""),
    "Does this museum have a lift?": ("A lift|by lift", "no lift"),
    "What is the oldest thing in this museum?": ("oldest was made in 1540|ship of oak", ""),
    "Is there a restaurant in this museum?": ("restaurant|canteen", ""),
}
"""For each question of the demonstration, a pattern that finds the answer in a passage, and a
pattern that shows that the answer is no.
"""

CARELESS = 0.15
"""Error rate of the demonstration's annotators. It is above 0 so that there are disputes to
settle.
"""

SHARE = 0.55
"""Share of items that the demonstration's annotators have answered."""


def fill_demo(folder: Path) -> None:
    """Fill a new folder with the demonstration project. An existing one is left unchanged."""
    if (folder / FILE).exists():
        return
    if folder.exists() and any(folder.iterdir()):
        raise CollectError(f"{folder} is not empty; choose a new folder for the demonstration")
    folder.mkdir(parents=True, exist_ok=True)
    with as_file(files("taskloom.apps.collect") / "demo" / "documents") as documents:
        try:
            shutil.copytree(documents, folder / "documents")
        except shutil.Error as error:
            # The error lists (source, target, reason) for every file; the first reason is enough.
            reason = error.args[0][0][2]
            raise CollectError(phrase("demo_not_copied", folder=folder, reason=reason)) from error
    (folder / FILE).write_text(PROJECT, encoding="utf-8")
    collection = Collection(folder)
    try:
        _fill(collection)
    finally:
        collection.close()


def _fill(c: Collection) -> None:
    owner = c.first_owner(PEOPLE[0][0])
    people = {name.split()[0]: c.add_person(owner.id, name, [role]) for name, role in PEOPLE[1:]}
    bases = [_approved(c, people, number, *question) for number, question in enumerate(QUESTIONS)]
    _vary(c, people, bases)
    gather_passages(c, owner.id)
    for number, (domain, question, format) in enumerate(WAITING):
        submit_base(
            c, people["Wim"], f"waiting {number}", domain, Wording(question, format, sure=True)
        )
    returned = submit_base(
        c,
        people["Wanda"],
        "returned",
        "gardens",
        Wording("Is this garden nice for a visit in spring?", sure=True),
    )
    assert returned.task is not None
    review(
        c,
        people["Rita"],
        returned.task.id,
        1,
        "return",
        "A passage cannot say whether it is nice; ask what happens in spring.",
    )
    _annotate(c, [people[name] for name in ("Ann", "Abe", "Ada")])


def _approved(
    c: Collection,
    people: dict[str, Person],
    number: int,
    domain: str,
    question: str,
    format: AnswerFormat,
) -> CollectedTask:
    writer = people["Wim" if number % 2 else "Wanda"]
    submission = submit_base(
        c, writer, f"demo {number}", domain, Wording(question, format, sure=True)
    )
    assert submission.task is not None, submission.findings
    return review(c, people["Rita"], submission.task.id, 1, "approve")


def _vary(c: Collection, people: dict[str, Person], bases: Sequence[CollectedTask]) -> None:
    by_question = {b.question: b for b in bases}
    animals = by_question["Which animals can be seen in this garden?"]
    dogs = by_question["Are dogs allowed in this garden?"]
    structure = OutputStructure(
        "animal",
        (StructureAttribute("month or season"), StructureAttribute("nests", ("yes", "no"), True)),
    )
    wanted = (
        (
            "paraphrase",
            [dogs.id],
            Wording("Can visitors bring their pets along into this garden?", sure=True),
        ),
        ("target_semantics", [dogs.id], Wording("Are bicycles allowed in this garden?", sure=True)),
        (
            "structure",
            [animals.id],
            Wording(
                "What animals live in this garden, when can they be seen, and do they nest there?",
                structure=structure,
                sure=True,
            ),
        ),
    )
    for variant, ids, wording in wanted:
        submission = submit_variant(c, people["Wim"], f"demo {variant}", variant, ids, wording)
        assert submission.task is not None, submission.findings
        review(c, people["Rita"], submission.task.id, 1, "approve")


def _annotate(c: Collection, people: Sequence[Person]) -> None:
    """Simulate annotators who qualify and answer some of the items, not always in agreement."""
    leases, key = Leases(), Key("collect", "demo")
    quota = round(SHARE * c.store.count(Item, stage="open"))
    for person in people:
        done = 0
        while done < quota:
            item = next_item(c, c.store.need(Person, person.id).value, leases)
            if item is None:
                break
            rng = key.random(person.name, item.id)
            save_answer(c, person, item.id, _answer(c, item, person, key), 4 + 20 * rng.random(), 0)
            leases.drop(item.id, person.id)
            done += item.known is None


def _answer(c: Collection, item: Item, person: Person, key: Key) -> EnteredAnswer:
    """Answer like a person who reads well but is sometimes careless."""
    if item.known is not None:
        return _known_answer(str(item.known["passage"]), str(item.known["answer"]))
    rng = key.random(item.id, person.name)
    text = c.passage(item)
    task = c.store.need(CollectedTask, item.task).value
    yes, no = ANSWERS[task.question]
    hit = re.search(yes, text)
    refusal = re.search(no, text) if no else None
    # All three annotators differ on the best passage of every yes/no question, so that there are
    # disputes to settle.
    contested = task.format == "yes/no" and item.id.endswith("0000")
    careless = rng.random() < CARELESS or (contested and person.name.startswith("Ada"))
    if (hit is None and refusal is None) or careless:
        return EnteredAnswer(na=True)
    if task.format == "yes/no":
        wrong = rng.random() < CARELESS or (contested and person.name.startswith("Abe"))
        says_no = refusal is not None
        if wrong:
            says_no = not says_no
        return EnteredAnswer(choice="no" if says_no else "yes")
    assert hit is not None
    if task.format == "structure":
        return EnteredAnswer(objects=(_animal_row(hit[0], text),))
    start = hit.start()
    if rng.random() < 0.3 and start:  # one word more than needed
        start = text.rfind(" ", 0, start - 1) + 1
    return EnteredAnswer(spans=((start, hit.end()),))


def _known_answer(passage: str, answer: str) -> EnteredAnswer:
    """Right answer to a qualification item, which is part of the project."""
    start = passage.find(answer)
    spans = ((start, start + len(answer)),) if start >= 0 else ()
    return EnteredAnswer(answer == "n/a", answer, spans)


def _animal_row(animal: str, text: str) -> dict[str, str]:
    """The single object of the demo's structure task, read from a passage."""
    season = re.search("January|June|winter|summer", text)
    nests = re.search("nest|breed", text)
    return {
        "animal": animal,
        "month or season": season[0] if season else "",
        "nests": "yes" if nests else "no",
    }
