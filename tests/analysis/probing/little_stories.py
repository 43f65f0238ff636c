"""A suite of very short stories with variants, and models with planted faults, for tests of probes.

A story says who went where and who is not where; the question is if somebody is in a room. Sentences
about one person alone decide, the last of them counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import taskloom as tl
from taskloom.core.plan import Variant

PEOPLE = ("Ada", "Bo", "Cy", "Di", "Ed")
ROOMS = ("attic", "bath", "cellar", "den")

Told = tuple[str, str, bool]
"""A person, a room, and whether the person is there."""


class Stories(tl.fields.Size):
    """One split: how many stories, and how many sentences they have."""

    sentences: tl.fields.Span = tl.fields.Span(2, 14)
    endless: bool = False


class StoryFields(tl.fields.Fields):
    splits: dict[str, Stories] = tl.fields.draw()


def sentence(told: Told) -> str:
    person, room, there = told
    return f"{person} went to the {room}." if there else f"{person} is not in the {room}."


def example(story: list[Told], person: str, room: str) -> tl.Example | None:
    """The item about a story; None if the story does not say where the person is."""
    own = [told for told in story if told[0] == person]
    if not own:
        return None
    _, last, there = own[-1]
    if not there and last != room:
        return None
    question = f"Is {person} in the {room}?"
    concepts = {"MOVE" if there else "NEGATE" for _, _, there in story}
    place = max(i for i, told in enumerate(story) if told[0] == person)
    traits: dict[str, str | int] = {
        "sentences": len(story),
        "concepts": "+".join(sorted(concepts)),
        "distance": len(story) - place,
    }
    text = "\n".join([*map(sentence, story), question])
    answer = "yes" if there and last == room else "no"
    return tl.Example(text, answer, traits, question=question, task="little-stories")


def read(text: str) -> tuple[list[Told], str, str]:
    """The story of a text, and what is asked."""
    *lines, question = text.split("\n")
    told = []
    for line in lines:
        words = line.rstrip(".").split()
        told.append((words[0], words[-1], words[1] == "went"))
    _, person, *_, room = question.rstrip("?").split()
    return told, person, room


def rows(key: tl.Key, split: str, part: Stories, start: int, stop: int) -> Iterator[tl.Example]:
    for index in range(start, stop):
        rng = key.random(split, index)
        item = None
        while item is None:
            count = rng.randint(part.sentences.low, part.sentences.high)
            story = [
                (rng.choice(PEOPLE), rng.choice(ROOMS), rng.random() < 0.8) for _ in range(count)
            ]
            item = example(story, rng.choice(PEOPLE), rng.choice(ROOMS))
        yield item


def variants(item: tl.Example) -> Iterator[Variant]:
    story, person, room = read(item.input)
    for place, told in enumerate(story):
        less = example(story[:place] + story[place + 1 :], person, room)
        if less is not None:
            yield Variant("simpler", "a sentence less", less, before=sentence(told))
    for place, (who, where, there) in enumerate(story):
        if who != person:
            continue
        other = [*story[:place], (who, where, not there), *story[place + 1 :]]
        flipped = example(other, person, room)
        if flipped is not None and flipped.targets != item.targets:
            yield Variant(
                "flip", "a negation", flipped, sentence(story[place]), sentence(other[place])
            )


def solve(text: str) -> str:
    """The right answer, from the text."""
    story, person, room = read(text)
    solved = example(story, person, room)
    return solved.target if solved is not None else "maybe"


def ignores_negation(text: str) -> str:
    *lines, question = text.split("\n")
    return solve("\n".join([*(line.replace("is not in", "went to") for line in lines), question]))


def forgetful(text: str) -> str:
    """Knows the last eight sentences alone."""
    *lines, question = text.split("\n")
    return solve("\n".join([*lines[-8:], question]))


def last_mention(text: str) -> str:
    """Answers by the last sentence, whoever it is about."""
    story, _, room = read(text)
    return "yes" if story[-1][1] == room and story[-1][2] else "no"


class LittleStories(tl.Suite):
    name = "little-stories"
    describe = "Who is where, in very short stories"
    fields = StoryFields

    def weave(self, fields: StoryFields, key: tl.Key) -> tl.Plan:
        return tl.Plan(
            tuple(
                tl.Split(
                    name,
                    part.n,
                    partial(rows, key, name, part),
                    tl.role_of(name),
                    rounds=math.inf if part.endless else 1,
                )
                for name, part in fields.splits.items()
            ),
            {"sentences": int, "concepts": str, "distance": int},
            "Answer yes or no.",
            check=lambda item: (solve(item.input),),
            variants=variants,
        )


RECIPE = {"suite": "little-stories", "splits": {"test": {"n": 2_000}}}
