"""Task 19, path finding: how to go from one room to another.

World: rooms on a map. "The A is north of the B" means that going north from B leads to A, and going
south from A leads to B. A path is valid if every step of it was told, and the answer is the
shortest path. A room has at most one neighbour in each direction. The map need not be to scale: 71
published stories would put two rooms into one cell of a square grid, so distances may differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pydantic import Field, field_validator, model_validator

from taskloom.core.example import Step
from taskloom.core.seeding import Random
from taskloom.recipe import Span
from taskloom.suites.babi.numbered.order_inference import MANY, Edge, conflict
from taskloom.suites.babi.numbered.task import (
    UNKNOWN,
    WORD,
    Names,
    NumberedTask,
    Proof,
    Share,
    Statement,
    TaskKnobs,
    distinct,
)

DIRECTIONS = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}
OPPOSITE = {"n": "s", "s": "n", "e": "w", "w": "e"}
_WORDS = {name[0]: name for name in DIRECTIONS}
_WAYS = {move: name[0] for name, move in DIRECTIONS.items()}
_STEPS = tuple(_WAYS)

_TELLS = re.compile(rf"The ({WORD}) is ({'|'.join(DIRECTIONS)}) of the ({WORD})\.")
_ASKS = re.compile(rf"How do you go from the ({WORD}) to the ({WORD})\?")


@dataclass(frozen=True, slots=True)
class Door:
    """A door: going `way` (n or e) from `room` leads to `to`. South and west are inverted, so that
    every door has a single form.
    """

    room: str
    way: str
    to: str

    def __str__(self) -> str:
        return f"{self.room} {self.way} {self.to}"


@dataclass(frozen=True, slots=True)
class HowToGo:
    """Asks how to get from one room to another."""

    start: str
    goal: str


class PathKnobs(TaskKnobs):
    """Settings of task 19.

    Attributes:
        rooms: Names of rooms.
        size: Number of rooms in a story. The path needs one more than `hops`, and the others are
            distractors. Default: all rooms.
        hops: Number of steps in the path.
        unknown: Share of stories in which no path leads to the goal.
    """

    rooms: Names = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
    size: int | None = Field(default=None, ge=2)
    hops: Span = Span(2, 2)
    unknown: Share = 0.0

    @field_validator("rooms")
    @classmethod
    def _two(cls, rooms: tuple[str, ...]) -> tuple[str, ...]:
        distinct(rooms, least=2)
        return rooms

    @model_validator(mode="after")
    def _reachable(self) -> PathKnobs:
        size = self.size or len(self.rooms)
        if size > len(self.rooms):
            raise ValueError(f"size {size} is more than the {len(self.rooms)} names in 'rooms'")
        if self.hops.low < 1 or self.hops.high > size - 1:
            raise ValueError(
                f"hops {self.hops} is outside 1..{size - 1}: a longer path needs more than {size} "
                "rooms"
            )
        if self.unknown and size < 4:
            raise ValueError("two parts without a path between them need at least 4 rooms")
        return self


@lru_cache(maxsize=1 << 12)
def sentence(text: str) -> Door | None:
    """Parse the fact in a sentence. None if the sentence does not belong to this task."""
    match = _TELLS.fullmatch(text)
    if match is None:
        return None
    way = match[2][0]
    return Door(match[3], way, match[1]) if way in "ne" else Door(match[1], OPPOSITE[way], match[3])


@lru_cache(maxsize=1 << 12)
def question(text: str) -> HowToGo | None:
    """Parse a question. None if it does not belong to this task."""
    match = _ASKS.fullmatch(text)
    return HowToGo(match[1], match[2]) if match else None


def _doors(statements: Sequence[Statement[Door]]) -> dict[str, list[tuple[str, str, int]]]:
    doors: dict[str, list[tuple[str, str, int]]] = {}
    for item in statements:
        door = item.fact
        doors.setdefault(door.room, []).append((door.way, door.to, item.number))
        doors.setdefault(door.to, []).append((OPPOSITE[door.way], door.room, item.number))
    return doors


def derive(statements: Sequence[Statement[Door]], query: HowToGo) -> Proof:
    """Derive all shortest paths by breadth-first search."""
    doors = _doors(statements)
    seen = {query.start}
    ring: dict[str, dict[str, list[tuple[int, ...]]]] = {query.start: {"": [()]}}
    while ring and query.goal not in ring:
        wider: dict[str, dict[str, list[tuple[int, ...]]]] = {}
        for room, walks in ring.items():
            for way, to, number in doors.get(room, []):
                if to in seen:
                    continue
                for moves, uses in walks.items():
                    kept = wider.setdefault(to, {}).setdefault(moves + way, [])
                    kept += [(*use, number) for use in uses[: MANY - len(kept)]]
        seen |= set(wider)
        ring = wider
    if not ring:
        return Proof(UNKNOWN, why=f"no sentences lead from the {query.start} to the {query.goal}")
    walks = {moves: sorted(uses, key=sorted) for moves, uses in ring[query.goal].items()}
    best = sorted(walks, key=lambda moves: (sorted(walks[moves][0]), moves))
    return _proof(query, best, walks[best[0]])


def _proof(query: HowToGo, best: list[str], uses: list[tuple[int, ...]]) -> Proof:
    answers = [",".join(moves) for moves in best]
    path = [_WORDS[way] for way in best[0]]
    steps = []
    for i, word in enumerate(path):
        # Each step follows from its sentence and the previous step. Steps are numbered after the
        # sentences, with one sentence per step.
        of = (i,) if i == 0 else (i, len(path) + i - 1)
        steps.append(Step("go", word, of))
    numbers = ", ".join(map(str, uses[0]))
    why = f"from the {query.start} go {', '.join(path)}, by sentences {numbers}"
    return Proof(answers[0], tuple(uses), tuple(steps), why, tuple(answers[1:]))


def second(statements: Sequence[Statement[Door]], query: HowToGo) -> tuple[str, ...]:
    """Answer by trying every sequence of moves, shortest first, and following it on the map."""
    leads = {(d.fact.room, d.fact.way): d.fact.to for d in statements}
    leads |= {(d.fact.to, OPPOSITE[d.fact.way]): d.fact.room for d in statements}

    def walks(room: str, left: int, seen: frozenset[str]) -> Iterator[str]:
        if left == 0:
            if room == query.goal:
                yield ""
            return
        for way in "nesw":
            # No shortest path visits a room twice. A wall leads back to the room itself.
            there = leads.get((room, way), room)
            if there not in seen:
                for rest in walks(there, left - 1, seen | {there}):
                    yield way + rest

    for length in range(len({room for room, _ in leads})):
        right = [",".join(moves) for moves in walks(query.start, length, frozenset({query.start}))]
        if right:
            return tuple(right)
    return (UNKNOWN,)


def clash(statements: Sequence[Statement[Door]], new: Statement[Door]) -> tuple[int, ...] | None:
    """Return the sentence that a new one contradicts: a room has at most one neighbour in each
    direction, and a room to the north of it is never also to the south of it.
    """
    fact = new.fact
    for old in statements:
        told = old.fact
        # The same exit of a room, or the same entrance, must connect it to the same other room.
        same_from = told.way == fact.way and told.room == fact.room
        same_to = told.way == fact.way and told.to == fact.to
        if (same_from and told.to != fact.to) or (same_to and told.room != fact.room):
            return (old.number,)
    for axis in "ne":
        edges = [Edge(t.fact.room, t.fact.to, t.fact.way == axis, t.number) for t in statements]
        against = conflict(edges, Edge(fact.room, fact.to, fact.way == axis, new.number))
        if against is not None:
            return against
    return None


_Cell = tuple[int, int]


def draw_story(rng: Random, knobs: PathKnobs) -> list[str]:
    """Draw a path of the requested length on a grid, then other rooms next to it. Every door is
    told once, in random order.
    """
    rooms = rng.sample(knobs.rooms, knobs.size or len(knobs.rooms))
    hops = rng.randint(knobs.hops.low, knobs.hops.high)
    blocked = rng.random() < knobs.unknown
    start, goal = rooms[0], rooms[hops]
    way = _way(rng, rooms[: hops + 1])
    while True:
        cells, doors = dict(way[0]), list(way[1])
        for room in rooms[hops + 1 :]:
            doors.append(_aside(rng, cells, room, way[2], hops))
        if blocked:
            doors.pop(rng.randrange(hops))
        elif knobs.unknown and len(doors) > hops:
            # Remove one door here too, because otherwise the number of sentences would reveal which
            # questions are open.
            doors.pop(rng.randrange(hops, len(doors)))
        if {start, goal} <= {room for door in doors for room in (door.room, door.to)}:
            break
    rng.shuffle(doors)
    return [_say(rng, door) for door in doors] + [f"How do you go from the {start} to the {goal}?"]


def _way(rng: Random, rooms: list[str]) -> tuple[dict[_Cell, str], list[Door], _Cell]:
    """Draw a self-avoiding walk of rooms that does not touch itself. It starts again when it gets
    stuck.

    Returns the rooms by cell, the doors, and the last cell. The first cell is the origin.
    """
    while True:
        cells: dict[_Cell, str] = {(0, 0): rooms[0]}
        here, doors = (0, 0), []
        for room in rooms[1:]:
            if not _free(cells, here):
                break
            doors.append(_attach(rng, cells, here, room))
            here = next(reversed(cells))
        if len(cells) == len(rooms) and _plain(cells, here, len(rooms) - 1):
            return cells, doors, here


def _aside(rng: Random, cells: dict[_Cell, str], room: str, goal: _Cell, length: int) -> Door:
    """Place a room next to an existing one where it does not open another path. Only its position
    is drawn again, never the path. Otherwise straight paths, which other rooms cannot spoil, would
    become more frequent.
    """
    while True:
        candidates = list(cells)
        # With up to four rooms, no room can have a neighbour on each side.
        if len(cells) > len(_STEPS):
            candidates = [cell for cell in cells if _free(cells, cell)]
        beside = rng.choice(candidates)
        door = _attach(rng, cells, beside, room)
        if _plain(cells, goal, length):
            return door
        cells.popitem()


def _plain(cells: dict[_Cell, str], goal: _Cell, length: int) -> bool:
    """True if exactly one shortest path leads from the origin to the goal and it has this length,
    even for a reader who assumes that all neighbouring cells are connected.
    """
    ring, seen = {(0, 0): 1}, {(0, 0)}
    for _ in range(length):
        if goal in ring:
            return False
        wider: dict[_Cell, int] = {}
        for (x, y), count in ring.items():
            for dx, dy in _STEPS:
                there = (x + dx, y + dy)
                if there in cells and there not in seen:
                    wider[there] = wider.get(there, 0) + count
        seen.update(wider)
        ring = wider
    return ring.get(goal) == 1


def _attach(rng: Random, cells: dict[_Cell, str], beside: _Cell, room: str) -> Door:
    move = rng.choice(_free(cells, beside))
    cells[beside[0] + move[0], beside[1] + move[1]] = room
    return _door(cells[beside], room, move)


def _free(cells: dict[_Cell, str], cell: _Cell) -> list[_Cell]:
    x, y = cell
    return [move for move in _STEPS if (x + move[0], y + move[1]) not in cells]


def _door(room: str, to: str, move: _Cell) -> Door:
    way = _WAYS[move]
    return Door(room, way, to) if way in "ne" else Door(to, OPPOSITE[way], room)


def _say(rng: Random, door: Door) -> str:
    if rng.random() < 0.5:
        return f"The {door.to} is {_WORDS[door.way]} of the {door.room}."
    return f"The {door.room} is {_WORDS[OPPOSITE[door.way]]} of the {door.to}."


def mentions(item: Door | HowToGo) -> tuple[str, ...]:
    """Return the two rooms."""
    return (item.room, item.to) if isinstance(item, Door) else (item.start, item.goal)


TASK: NumberedTask[Door, HowToGo] = NumberedTask(
    19,
    "path finding",
    "Read the story and give the way as letters n, s, e and w with commas between.",
    PathKnobs,
    draw_story,
    sentence,
    question,
    derive,
    second,
    clash,
    mentions,
    lambda query: "path",
    ("The kitchen is north of the hallway.", "How do you go from the kitchen to the garden?"),
)
