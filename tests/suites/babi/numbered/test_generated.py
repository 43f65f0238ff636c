"""What the generators make: proven answers, minimal supports, text that reads back, the same
everywhere.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.core.errors import RecipeError
from taskloom.core.example import Example
from taskloom.core.seeding import Key
from taskloom.suites.babi.numbered import (
    NUMBERED_TRAITS,
    TASKS,
    UNKNOWN,
    plan_number,
    task14_time,
    task17_positions,
    task18_sizes,
    task19_paths,
)
from taskloom.suites.babi.numbered.task import TaskKnobs, as_story, pieces
from tests.processes import printed_elsewhere, printed_here

MANY_ROOMS = [f"room{c}" for c in "abcdefghijkl"]
MANY_THINGS = ["ant", "bee", "cow", "dog", "elk", "fox", "gnu", "hen"]

SETTINGS: list[tuple[int, dict[str, Any]]] = [
    *((number, {}) for number in sorted(TASKS)),
    (14, {"people": ["Ada"], "places": ["park", "zoo"], "questions": 2, "pause": 1}),
    (14, {"people": [f"P{c}" for c in "abcdefgh"], "questions": 10}),
    (14, {"unknown": 0.5}),
    (14, {"since": "last year", "questions": 12}),
    (15, {"people": ["Ada", "Bo"], "animals": ["fox", "goose"], "repeats": True}),
    (
        15,
        {
            "people": [f"P{c}" for c in "abcdefgh"],
            "animals": ["mouse", "wolf", "dog", "horse", "lion"],
            "unknown": 0.4,
        },
    ),
    (16, {"mixed": True}),
    (16, {"unknown": 0.5}),
    (16, {"people": ["Ada", "Bo"], "kinds": ["owl"]}),
    (17, {"repeats": True}),
    (17, {"facts": 5, "hops": "1..5"}),
    (17, {"facts": 7, "hops": 6, "shapes": MANY_THINGS}),
    (17, {"facts": 4, "hops": "2..3", "unknown": 0.3}),
    (18, {"repeats": True}),
    (18, {"things": MANY_THINGS, "fixed": 0, "facts": 12, "hops": "3..6"}),
    (18, {"facts": 8, "hops": 5}),
    (18, {"unknown": 0.3, "hops": "1..2"}),
    (19, {"hops": "1..5"}),
    (19, {"rooms": MANY_ROOMS, "hops": 7}),
    (19, {"rooms": MANY_ROOMS, "size": 8, "hops": "2..4", "unknown": 0.5}),
    (19, {"rooms": [f"room{c}" for c in "abcdefghijklmnopqrst"], "hops": "9..12", "unknown": 0.3}),
    (20, {"people": ["Ada", "Bo"], "states": ["tired"]}),
    (20, {"unknown": 0.5}),
]
IDS = [f"{number}-{'-'.join(values) or 'published'}" for number, values in SETTINGS]


def knobs(number: int, values: dict[str, Any]) -> TaskKnobs:
    return TASKS[number].read_knobs(values)


def examples(number: int, values: dict[str, Any], stories: int) -> list[Example]:
    chosen = knobs(number, values)
    key = Key("generated", number)
    return [e for i in range(stories) for e in TASKS[number].make(key.random(i), chosen)]


@pytest.mark.parametrize(("number", "values"), SETTINGS, ids=IDS)
def test_answers_by_the_second_solver(number: int, values: dict[str, Any]) -> None:
    made = examples(number, values, 15)
    assert made
    for example in made:
        assert sorted(TASKS[number].check(example)) == sorted(example.targets), example
        if "unknown" not in values:
            assert example.target != UNKNOWN, example


@pytest.mark.parametrize(("number", "values"), SETTINGS, ids=IDS)
def test_support_is_sufficient_and_minimal(number: int, values: dict[str, Any]) -> None:
    """By the second solver: the supporting sentences alone give the answer, and none of them can be
    spared.
    """
    task = TASKS[number]
    for example in examples(number, values, 8):
        if example.target == UNKNOWN:
            assert example.traits["support"] == 0
            continue
        *told, _ = pieces(example.input)
        lines = [int(n) for n in str(example.traits["support_lines"]).split()]
        assert lines
        assert len(lines) == example.traits["support"]
        query = task.question(example.question)
        # Of long proofs only the parts that lack one sentence: there are thousands of others.
        for size in range(len(lines) + 1) if len(lines) < 7 else (len(lines) - 1, len(lines)):
            for part in combinations(sorted(lines), size):
                facts = task.understand(as_story([told[n - 1] for n in part])).facts
                known = {n for t in facts for n in task.mentions(t.fact)}
                entails = known.issuperset(task.mentions(query)) and example.target in task.second(
                    facts, query
                )
                assert entails == (size == len(lines)), (example, part)


@pytest.mark.parametrize(("number", "values"), SETTINGS, ids=IDS)
def test_text_reads_back(number: int, values: dict[str, Any]) -> None:
    task, chosen = TASKS[number], knobs(number, values)
    for index in range(10):
        texts = task.draw_story(Key("back", number).random(index), chosen)
        story = task.story(Key("back", number).random(index), chosen)
        (parsed,) = task.parse(story.text(task.gap).splitlines(keepends=True))
        assert [x.text for x in parsed.story.lines] == texts
        assert parsed.facts == task.understand(as_story(texts)).facts
        for asked, found in zip(parsed.story.questions, task.solve(parsed), strict=True):
            assert (asked.answer, asked.support) == (found.answer, found.support)


NAME = st.sampled_from(["box", "cup", "red jar", "tin of tea"])
PAIR = st.lists(NAME, min_size=2, max_size=2, unique=True)
RANDOM = st.integers(0, 2**32).map(lambda n: Key("say", n).random())


@given(RANDOM, PAIR, st.sampled_from("xy"), st.sampled_from("ne"), st.integers(0, 3))
def test_a_fact_survives_its_wording(
    rng: Any, pair: list[str], axis: str, way: str, slot: int
) -> None:
    one, other = pair
    beyond = task17_positions.Beyond(one, other, axis)
    assert task17_positions.sentence(task17_positions._say(rng, beyond)) == beyond
    bigger = task18_sizes.Bigger(one, other)
    assert task18_sizes.sentence(task18_sizes._say(rng, bigger)) == bigger
    door = task19_paths.Door(one.split()[0], way, other.split()[0])
    assert task19_paths.sentence(task19_paths._say(rng, door)) == door
    visit = task14_time.Visit("Ada", one.split()[0], slot)
    assert task14_time.sentence(task14_time._say(rng, visit)) == visit


POOL = ["ant", "bee", "cow", "dog", "elk", "fox", "gnu", "hen", "ibis"]
SHARE = st.sampled_from([0.0, 0.0, 0.4, 1.0])


def _some(least: int, most: int = 8) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(POOL), min_size=least, max_size=most, unique=True)


@st.composite
def any_knobs(draw: st.DrawFn) -> tuple[int, dict[str, Any]]:
    """Settings that may be impossible together: those must be refused, all others must work."""
    small = st.integers(1, 6)
    span = st.tuples(st.integers(1, 5), st.integers(0, 2)).map(lambda t: f"{t[0]}..{t[0] + t[1]}")
    animals = st.lists(
        st.sampled_from(["cat", "wolf", "sheep", "goose", "lion"]), min_size=2, unique=True
    )
    asking = {"questions": small, "repeats": st.booleans(), "unknown": SHARE}
    choices: dict[int, dict[str, st.SearchStrategy[Any]]] = {
        14: {
            "people": _some(1, 4),
            "places": _some(2, 4),
            "questions": small,
            "pause": st.integers(1, 3),
            "unknown": SHARE,
        },
        15: {"people": _some(1, 5), "animals": animals, **asking},
        16: {
            "people": _some(2, 6),
            "kinds": _some(1, 3),
            "colors": _some(2, 4),
            "mixed": st.booleans(),
            "unknown": SHARE,
        },
        17: {"shapes": _some(2), "facts": small, "hops": span, **asking},
        18: {
            "things": _some(2),
            "fixed": st.integers(0, 4),
            "facts": st.integers(1, 10),
            "hops": span,
            **asking,
        },
        19: {"rooms": _some(2), "hops": span, "unknown": SHARE},
        20: {"people": _some(1, 5), "unknown": SHARE},
    }
    number = draw(st.sampled_from(sorted(choices)))
    return number, {name: draw(values) for name, values in choices[number].items()}


@given(any_knobs(), st.integers(0, 1000))
def test_any_possible_knobs_work(setting: tuple[int, dict[str, Any]], index: int) -> None:
    number, values = setting
    try:
        chosen = knobs(number, values)
    except RecipeError:
        return
    made = TASKS[number].make(Key("any").random(index), chosen)
    assert made
    for example in made:
        assert sorted(TASKS[number].check(example)) == sorted(example.targets)
        assert values["unknown"] or example.target != UNKNOWN


@pytest.mark.parametrize(
    ("number", "values", "lengths"),
    [
        (17, {"facts": 7, "hops": 6, "shapes": MANY_THINGS}, {6}),
        (18, {"facts": 8, "hops": 5}, {5}),
        (18, {"hops": "1..3"}, {1, 2, 3}),
        (19, {"rooms": MANY_ROOMS, "hops": "3..5"}, {3, 4, 5}),
    ],
)
def test_hops_are_what_was_asked_for(
    number: int, values: dict[str, Any], lengths: set[int]
) -> None:
    assert {e.traits["support"] for e in examples(number, values, 40)} == lengths


@pytest.mark.parametrize("number", [17, 18])
@pytest.mark.parametrize("repeats", [False, True])
def test_yes_and_no_are_balanced(number: int, repeats: bool) -> None:
    answers = Counter(e.target for e in examples(number, {"repeats": repeats}, 200))
    share = answers["yes"] / answers.total()
    assert 0.47 < share < 0.53


def test_no_question_twice_unless_asked_for() -> None:
    for number in (15, 17, 18):
        story = TASKS[number].make(Key("twice").random(number))
        assert len({e.question for e in story}) == len(story)
    repeated = examples(17, {"repeats": True}, 20)
    assert len(repeated) == 160
    assert len({e.input for e in repeated}) < 160


@pytest.mark.parametrize("number", sorted(TASKS))
def test_share_of_open_questions(number: int) -> None:
    values: dict[str, Any] = {"unknown": 0.3} | ({"facts": 5} if number == 17 else {})
    answers = Counter(e.target == UNKNOWN for e in examples(number, values, 200))
    assert 0.15 < answers[True] / answers.total() < 0.45


def test_ways_stay_right_for_a_reader_of_grids() -> None:
    """Taking every two neighbouring cells for connected gives the same shortest way, and no
    other.
    """
    task = TASKS[19]
    chosen = task.read_knobs({"rooms": MANY_ROOMS, "hops": "2..5"})
    for index in range(60):
        example = task.one(Key("grid").random(index), chosen, lambda content: True)
        assert example is not None
        parsed = task.understand(as_story(pieces(example.input)))
        at = {parsed.queries[0].start: (0, 0)}
        while len(at) < len(MANY_ROOMS):
            for told in parsed.facts:
                dx, dy = next(
                    move for move, way in task19_paths._WAYS.items() if way == told.fact.way
                )
                if told.fact.room in at:
                    x, y = at[told.fact.room]
                    at[told.fact.to] = (x + dx, y + dy)
                elif told.fact.to in at:
                    x, y = at[told.fact.to]
                    at[told.fact.room] = (x - dx, y - dy)
        cells = {cell: room for room, cell in at.items()}
        assert len(cells) == len(at)
        assert _grid_ways(cells, at[parsed.queries[0].goal], example.target.count(",") + 1) == {
            example.target.replace(",", "")
        }


def _grid_ways(cells: dict[tuple[int, int], str], goal: tuple[int, int], length: int) -> set[str]:
    """All ways from (0, 0) of at most that length over neighbouring cells, by trying every move."""
    found, walks = set(), {"": (0, 0)}
    for _ in range(length):
        walks = {
            moves + way: (x + dx, y + dy)
            for moves, (x, y) in walks.items()
            for way, (dx, dy) in {"n": (0, 1), "e": (1, 0), "s": (0, -1), "w": (-1, 0)}.items()
            if (x + dx, y + dy) in cells
        }
        found |= {moves for moves, cell in walks.items() if cell == goal}
    return found


GOLDEN = """
import hashlib
from taskloom.core.seeding import Key
from taskloom.suites.babi.numbered import TASKS
out = hashlib.blake2b(digest_size=16)
for number, task in sorted(TASKS.items()):
    for index in range(20):
        out.update(repr(task.make(Key("golden", number).random(index))).encode())
print(out.hexdigest())
"""


def test_same_bytes_in_another_process_and_hash_seed() -> None:
    assert printed_here(GOLDEN) == printed_elsewhere(GOLDEN)


SIZES = {"train": 60, "dev": 20, "test": 20}


@pytest.mark.parametrize("number", sorted(TASKS))
def test_plan(number: int) -> None:
    plan = plan_number(number, SIZES, Key("plan", 0))
    rows = {s.name: list(s.rows(0, s.n)) for s in plan.splits}
    assert {name: len(made) for name, made in rows.items()} == SIZES
    keys = [{e.content for e in made} for made in rows.values()]
    inputs = [{e.input for e in made} for made in rows.values()]
    for some in (keys, inputs):
        assert len(set.union(*some)) == sum(map(len, some))
    split = plan.split("dev")
    assert list(split.rows(5, 9)) == rows["dev"][5:9]
    assert plan.check is not None
    assert plan.answer is not None
    for example in rows["test"]:
        assert {k: type(v) for k, v in example.traits.items()} == NUMBERED_TRAITS
        assert sorted(plan.check(example)) == sorted(example.targets)
        assert plan.answer(example.input).targets == example.targets
        assert plan.answer(example.input).derivation == example.derivation
    assert rows["train"] != list(
        plan_number(number, SIZES, Key("plan", 1)).split("train").rows(0, 60)
    )


@pytest.mark.parametrize(
    ("number", "values", "words"),
    [
        (14, {"poeple": ("A",)}, "did you mean 'people'"),
        (14, {"places": ("park",)}, "at least 2 names"),
        (15, {"animals": ("cat", "yeti")}, "the plural of 'yeti'"),
        (16, {"people": ("Ann", "ann")}, "'ann' is listed twice"),
        (16, {"unknown": 1.5}, "unknown"),
        (16, {"colors": ("a", "red")}, "'a' is not a single word"),
        (20, {"people": ("Ann Lee",)}, "'Ann Lee' is not a single word"),
        (17, {"facts": 9}, "9 facts need 10 shapes, but 'shapes' lists 6"),
        (17, {"hops": 3}, "hops 3 is outside 1..2"),
        (17, {"unknown": 0.5}, "set facts to 3 or more"),
        (18, {"hops": 6}, "hops 6 is outside 1..5"),
        (18, {"facts": 2, "hops": 3}, "3 hops need at least 3 facts, not 2"),
        (18, {"things": ("box", "the box")}, "must consist of words"),
        (19, {"hops": "2..6"}, "needs more than 6 rooms"),
        (19, {"size": 7}, "size 7 is more than the 6 names"),
        (20, {"states": ("tired", "sad")}, "'sad' is not a known state"),
    ],
)
def test_impossible_knobs_say_why(number: int, values: dict[str, Any], words: str) -> None:
    with pytest.raises(RecipeError, match=r"r\.yaml: ") as caught:
        TASKS[number].read_knobs(values, "r.yaml")
    assert words in str(caught.value)


def test_golden_digest() -> None:
    """Changes whenever the same knobs and key give other examples: then the suite's version must be
    raised.
    """
    out = hashlib.blake2b(digest_size=8)
    for number, task in sorted(TASKS.items()):
        for index in range(5):
            out.update(task.story(Key("golden", number).random(index)).text(task.gap).encode())
    assert out.hexdigest() == "c48df0de879d806e"
