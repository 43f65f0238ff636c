"""The generator: right answers, the traits that the reasoner finds, the paper's sizes and means,
purity.
"""

from __future__ import annotations

import pytest

from taskloom.recipe import recipe
from taskloom.suites.babi.fields import BabiFields
from taskloom.suites.babi.reasoner.answers import answer, cited_support, supports
from taskloom.suites.babi.reasoner.knowledge import Knowledge
from taskloom.suites.babi.splits import groups_of
from taskloom.suites.babi.story.vocabulary import Vocabulary
from tests.processes import printed_elsewhere, printed_here
from tests.suites.babi.generator.generated import (
    AIMED,
    GROWN,
    custom,
    events_of,
    group,
    plan_of,
    some,
)

CITED = ["7", "8", "mix-T12", "diverse-T12"]


@pytest.mark.parametrize("name", [*AIMED, *GROWN, "4"])
def test_the_second_solver_agrees(name: str) -> None:
    plan = plan_of(name)
    assert plan.check is not None
    for split in plan.splits:
        for example in split.rows(0, min(25, split.n)):
            assert plan.check(example) == example.targets, example.input


@pytest.mark.parametrize("name", [*AIMED, *GROWN])
def test_traits_are_what_the_reasoner_finds(name: str) -> None:
    for example in some(plan_of(name), 40):
        story = events_of(example)
        knowledge = Knowledge(Vocabulary().places).tell_all(story.events)
        asked = story.questions[0].question
        sets = supports(knowledge, asked)
        official = cited_support(knowledge, asked) if name in CITED else None
        official = sets[0] if official is None else official
        assert answer(knowledge, asked).answer == example.target
        assert example.traits["support"] == len(official)
        assert example.traits["minimal"] == len(sets[0])
        assert example.traits["supports"] == len(sets)
        assert example.traits["support_lines"] == " ".join(str(i + 1) for i in official)
        assert example.traits["sentences"] == len(story.events)
        assert len(example.derivation) == len(official) + 1


@pytest.mark.parametrize("name", AIMED)
def test_groups_have_their_numbers_and_their_supports(name: str) -> None:
    fields = recipe.read(f"babi/{name}").fields
    assert isinstance(fields, BabiFields)
    split = plan_of(name).splits[0]
    groups = {g.name: g for g in groups_of(fields, split.name)}
    assert sum(g.n for g in groups.values()) == split.n
    for example in split.rows(0, 300):
        group = groups[str(example.traits["group"])]
        assert example.traits["question"] in group.questions
        assert group.support is None or example.traits["support"] in group.support
        assert example.traits["sentences"] in group.length
        concepts = {*str(example.traits["concepts"]).split("+")}
        assert concepts <= group.concepts() | {"COREF", "CONJ"}


def test_paper_sizes() -> None:
    sizes = {name: [s.n for s in plan_of(name).splits] for name in AIMED}
    assert sizes == {
        "mix-T2": [1000],
        "mix-T7": [3000],
        "mix-T12": [6000],
        "diverse-T7": [17000, 1700, 1700],
        "diverse-T12": [24772, 2477, 2477],
    }


# Paper, Table 2: mean number of sentences and mean size of the support.
TABLE_2 = {
    "mix-T2": (13.25, 2.05),
    "mix-T7": (20, 2.50),
    "mix-T12": (20, 3.70),
    "diverse-T7": (20, 2.17),
    "diverse-T12": (20, 2.45),
}


@pytest.mark.parametrize("name", AIMED)
def test_means_are_those_of_table_2(name: str) -> None:
    split = plan_of(name).splits[0]
    rows = list(split.rows(0, min(900, split.n)))
    length, support = TABLE_2[name]
    assert sum(int(e.traits["sentences"]) for e in rows) / len(rows) == pytest.approx(
        length, rel=0.03
    )
    assert sum(int(e.traits["support"]) for e in rows) / len(rows) == pytest.approx(
        support, rel=0.05
    )


@pytest.mark.parametrize("name", ["mix-T12", "diverse-T7", "1", "3", "13", "4"])
def test_rows_are_a_pure_function_of_their_index(name: str) -> None:
    split = plan_of(name).splits[0]
    whole = list(split.rows(0, 30))
    assert list(split.rows(7, 19)) == whole[7:19]
    assert list(recipe.read(f"babi/{name}").plan(0).splits[0].rows(0, 30)) == whole
    other = list(recipe.read(f"babi/{name}").plan(1).splits[0].rows(0, 30))
    assert not {e.input for e in other} & {e.input for e in whole}


def test_the_hash_seed_does_not_matter() -> None:
    code = (
        "from taskloom import recipe; from hashlib import blake2b\nrows = [e for n in ('mix-T12',"
        " 'diverse-T12', '7', '3') for e in recipe.read('babi/' + n).plan(0).splits[0].rows(0,"
        " 15)]\nprint(blake2b(repr(rows).encode()).hexdigest())"
    )
    assert printed_elsewhere(code) == printed_here(code)


@pytest.mark.parametrize("name", AIMED)
def test_stories_are_true_in_the_strict_reading_too(name: str) -> None:
    for example in some(plan_of(name), 80):
        Knowledge(Vocabulary().places, "strict").tell_all(events_of(example).events)


def test_words_of_ones_own() -> None:
    words = {
        "persons": ["Aiko", "Björn", "Chidi"],
        "objects": ["key", "lamp"],
        "places": ["attic", "cellar", "porch"],
    }
    plan = custom(
        vocabulary={**words, "pronouns": {"Aiko": "she"}},
        style={"move": ["wandered"], "preposition": "at", "double_object": True},
        splits={
            "train": [group(questions=["where-P", "yes-no", "list", "where-was-O"], length="6..9")]
        },
    )
    assert plan.check is not None
    text = ""
    for example in some(plan):
        assert plan.check(example) == example.targets
        text += example.input
    assert "wandered" in text
    assert "they" in text
    assert " at the " in text


def test_the_strict_reading_knows_more() -> None:
    plan = custom(
        reading="strict",
        splits={"mix": [group(questions=["where-O"], wording=["NEGATE", "COREF"], support="2..4")]},
    )
    assert plan.check is not None
    assert all(plan.check(e) == e.targets for e in some(plan))


def test_free_questions_of_every_type() -> None:
    kinds = ["where-P", "where-O", "where-was-O", "yes-no", "list", "counting", "give-qs"]
    made = some(custom(splits={"mix": [group(questions=kinds, n=120)]}), 120)
    assert {e.traits["question"] for e in made} == set(kinds)
