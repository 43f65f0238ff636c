"""bAbI's tasks with worlds of their own: 4 (rooms and directions) here, 14 to 20 in the folder `classic`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations

from taskloom.errors import RecipeError
from taskloom.example import Example, Step
from taskloom.plan import Plan, Split
from taskloom.scoring import any_of
from taskloom.seeding import Key
from taskloom.suites.babi.fields import BabiFields
from taskloom.suites.babi.numbered.task04_relations import Query, RoomFact, read_fact, read_query
from taskloom.suites.babi.show import show_derived, split_text
from taskloom.suites.babi.splits import role_of


def plan_number(fields: BabiFields, key: Key) -> Plan:
    """The plan of a recipe that names a task by its number."""
    sizes = {name: size.n for name, size in fields.splits.items() if hasattr(size, "n")}
    if len(sizes) < len(fields.splits):
        raise RecipeError(f"number: {fields.number} has no groups; give each split a plain size")
    if fields.number == 4:
        return _rooms_plan(fields, key, sizes)
    from taskloom.suites.babi.numbered import TASKS
    from taskloom.suites.babi.numbered.classic_plan import plan

    if fields.number not in TASKS:
        raise RecipeError(
            f"number: there is no task {fields.number} with a world of its own; known: 4, {', '.join(map(str, TASKS))}"
        )
    return plan(
        fields.number, sizes, key, TASKS[fields.number].read_knobs(fields.knobs, f"task {fields.number}, knobs")
    )


def _splits(sizes: dict[str, int], rows: Mapping[str, Callable[[int, int], Iterator[Example]]]) -> tuple[Split, ...]:
    return tuple(Split(name, n, rows[name], role_of(name)) for name, n in sizes.items())


# Task 4


def _rooms_plan(fields: BabiFields, key: Key, sizes: dict[str, int]) -> Plan:
    rooms = fields.vocabulary.places
    triples = len(rooms) * (len(rooms) - 1) * (len(rooms) - 2)
    space = triples * 2 * 64
    if sum(sizes.values()) > space:
        raise RecipeError(
            f"number: 4 has {triples} triples of {len(rooms)} rooms x 2 axes x 64 ways to say and ask = {space} stories, "
            f"fewer than the {sum(sizes.values())} asked for; add places or ask for fewer"
        )
    starts, reached = {}, 0
    for name, n in sizes.items():
        starts[name] = reached
        reached += n
    rows = {name: partial(_room_rows, rooms, key, space, starts[name]) for name in sizes}
    return Plan(
        splits=_splits(sizes, rows),
        traits={"number": int, "question": str, "support": int, "support_lines": str, "sentences": int},
        describe="Read which room lies where and answer the question.",
        scorer=any_of,
        check=check_rooms,
        show=show_derived,
    )


def _room_rows(rooms: tuple[str, ...], key: Key, space: int, first: int, start: int, stop: int) -> Iterator[Example]:
    triples = list(permutations(rooms, 3))
    order = key.permutation(space, "rooms")
    for index in range(first + start, first + stop):
        yield _room_example(triples, int(order(index)))


def _room_example(triples: Sequence[tuple[str, ...]], rank: int) -> Example:
    """Story number `rank` of all that there are: three rooms in a row, two facts, one question."""
    rank, which = divmod(rank, len(triples))
    rank, axis = divmod(rank, 2)
    flips = [rank >> i & 1 for i in range(6)]
    a, b, c = triples[which]
    direction = "north" if axis else "east"
    facts = [RoomFact(a, direction, b), RoomFact(b, direction, c)]
    facts = [f.inverted() if flips[i] else f for i, f in enumerate(facts)]
    if flips[2]:
        facts.reverse()
    asked = facts[flips[3]]
    if flips[4]:
        asked = asked.inverted()
    query = Query(asked.direction, asked.other, turned=bool(flips[5]))
    text = " ".join(f.text() for f in facts)
    steps = [Step("told", facts[flips[3]].text(), ()), Step("inverse" if asked not in facts else "same", asked.room)]
    traits = {
        "number": 4,
        "question": "of-what" if query.turned else "what",
        "support": 1,
        "support_lines": str(flips[3] + 1),
        "sentences": 2,
    }
    question = query.text()
    return Example(f"{text} {question}", asked.room, traits, question=question, derivation=steps, task="babi/4")


def check_rooms(example: Example) -> tuple[str, ...]:
    """The second solver: rooms on a grid, by coordinates instead of by inverse facts."""
    sentences, question = split_text(example.input)
    query = read_query(question)
    facts = [f for f in map(read_fact, sentences) if f]
    if query is None or len(facts) < len(sentences):
        raise RecipeError(f"cannot read {example.input!r}")
    step = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}
    at = {facts[0].other: (0, 0)}
    for _ in facts:
        for fact in facts:
            (dx, dy) = step[fact.direction]
            if fact.other in at:
                x, y = at[fact.other]
                at.setdefault(fact.room, (x + dx, y + dy))
            elif fact.room in at:
                x, y = at[fact.room]
                at.setdefault(fact.other, (x - dx, y - dy))
    x, y = at[query.other]
    dx, dy = step[query.direction]
    return tuple(room for room, place in at.items() if place == (x + dx, y + dy))
