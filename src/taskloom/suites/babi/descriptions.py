"""Stories by description: a task is a question type."""

from __future__ import annotations

from dataclasses import replace

from taskloom.core.descriptions import withhold
from taskloom.core.plan import Level, Plan, Tasks, Withheld, role_of
from taskloom.suites.babi.fields import BabiFields, StoryGroup
from taskloom.suites.babi.splits import groups_of

STORY_TASK = "Read the story and answer the question from it."
"""What a recipe of stories asks for, whatever its question types."""

_STORY: dict[str, tuple[str, str]] = {
    "where-P": (
        "Say where the person is at the end of the story.",
        "Answer with the place, in one word.",
    ),
    "where-O": (
        "Say where the object is at the end of the story.",
        "Answer with the place, in one word.",
    ),
    "where-was-O": (
        "Say where the object was just before it came to the place that the question names.",
        "An object is where the person who carries it is. Answer with the place, in one word.",
    ),
    "yes-no": (
        "Say whether the person is at the end of the story in the place that the question names.",
        "Answer yes or no, or maybe if the story leaves it open.",
    ),
    "list": (
        "Name the objects that the person carries at the end of the story.",
        "Answer with the objects, separated by commas, or with nothing.",
    ),
    "counting": (
        "Count the objects that the person carries at the end of the story.",
        "Answer with the number as a word, such as none, one or two.",
    ),
    "give-qs": (
        "Say who gave the object, who received it or what was given, as the question asks.",
        "The last such gift counts. Answer with one name or object.",
    ),
}
"""Dyna-bAbI's question types: what to do, and how to answer."""

_CURES = (
    "The hungry and the thirsty go to the kitchen, the bored to the garden, the tired to the"
    " bedroom."
)
_FROM = "Answer from the story alone: yes or no."
_NUMBERED: dict[tuple[int, str], tuple[str, str]] = {
    (4, "what"): (
        (
            "Name the room that lies in the direction asked for, seen from the room that the"
            " question names."
        ),
        "",
    ),
    (4, "of-what"): (
        (
            "Name the room from which the room that the question names lies in the direction asked"
            " for."
        ),
        "",
    ),
    (17, "above"): ("Say whether the first thing lies above the second.", _FROM),
    (17, "below"): ("Say whether the first thing lies below the second.", _FROM),
    (17, "to-the-left-of"): ("Say whether the first thing lies to the left of the second.", _FROM),
    (17, "to-the-right-of"): (
        "Say whether the first thing lies to the right of the second.",
        _FROM,
    ),
    (18, "fits"): (
        "Say whether the first thing fits into the second.",
        "Smaller things fit into bigger ones. " + _FROM,
    ),
    (18, "bigger"): (
        "Say whether the first thing is bigger than the second.",
        "What holds a thing is bigger. " + _FROM,
    ),
    (20, "where-will"): ("Say where the person will go.", _CURES),
    (20, "why-go"): (
        "Say why the person went to the place.",
        "Answer with how the person felt before, in one word.",
    ),
    (20, "why-get"): (
        "Say why the person took the object.",
        "Answer with how the person felt before, in one word.",
    ),
}
"""Question types of the numbered tasks that have several; the others are described by the task
itself.
"""


def nothing(kind: str) -> bool:
    """Return False: no question type is withheld."""
    return False


def describe_numbered(plan: Plan, number: int) -> Plan:
    """Add to the plan of a numbered task its question types as its tasks."""
    names = tuple(kind for n, kind in _NUMBERED if n == number)

    def describe(kind: str, level: Level) -> str:
        what, how = _NUMBERED.get((number, kind), (plan.describe, ""))
        return f"{what} {how}".strip() if level == "explicit" else what

    plan = replace(plan, tasks=Tasks("question", describe, names))
    return replace(plan, tasks=Tasks("question", describe, names, without=withhold(plan)))


def describe_question(kind: str, level: Level) -> str:
    """Return the description of one of Dyna-bAbI's question types."""
    what, how = _STORY[kind]
    return f"{what} {how}" if level == "explicit" else what


def without_kinds(fields: BabiFields, withheld: Withheld) -> BabiFields:
    """Take question types out of the training groups; a group that is left with none is dropped."""

    def without(group: StoryGroup) -> StoryGroup:
        return group.model_copy(
            update={"questions": {q: w for q, w in group.questions.items() if not withheld(q)}}
        )

    splits = {
        name: (
            tuple(g for g in map(without, groups_of(fields, name)) if any(g.questions.values()))
            if role_of(name) == "train"
            else value
        )
        for name, value in fields.splits.items()
    }
    return fields.model_copy(update={"splits": splits, "tested_by": ""})
