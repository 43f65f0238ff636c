"""Every construct on every event, in stories and in their proofs."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from taskloom.core.scoring import set_of
from taskloom.suites.babi.reasoner.answers import supports
from taskloom.suites.babi.reasoner.knowledge import Knowledge
from taskloom.suites.babi.story.vocabulary import Vocabulary
from tests.suites.babi.generator.generated import cited, custom, events_of, group, some

EVERY = {"MOVE": 1, "GRAB": 2, "DROP": 1, "GIVE": 2}


SAID = {**EVERY, "NEGATE": 1, "INDEF": 1, "AFFIRM": 1}


def test_constructs_on_any_event() -> None:
    shape = group(
        questions=["where-P", "where-O", "where-was-O", "yes-no", "list", "counting", "give-qs"],
        events=EVERY,
        wording=["COREF", "CONJ", "COMPOUND", "NEGATE", "INDEF", "AFFIRM"],
        n=400,
    )
    plan = custom(
        splits={"mix": [{**shape, "coref": SAID, "conj": SAID, "negate": EVERY, "indef": EVERY}]}
    )
    made = some(plan, 400)
    text = " ".join(e.input for e in made)
    for words in (
        r"s?he (gave|handed|passed) the",
        r"s?he was no longer in",
        r"s?he was either in",
        r"they were (not|no longer) in",
        r"\w+ and \w+ are in the",
        r"\w+ and \w+ are (not|no longer) in the",
        r"\w+ and \w+ are either in the \w+ or the",
        r"they were in the",
        r"(took|grabbed|got|picked up) the \w+ and the \w+\.",
        r"(left|dropped|discarded|put down) the \w+ and the \w+\.",
        r"(gave|handed|passed) the \w+ and the \w+ to",
        r"s?he (left|dropped|discarded) them",
        r"s?he put them down\.",
        r"s?he (took|grabbed|got) them",
        r"s?he picked them up\.",
        r"s?he (gave|handed|passed) them to",
        r"did not (take|grab|get|pick up) the",
        r"did not (leave|drop|discard|put down) the",
        r"did not (give|hand|pass) the \w+ to",
        r"\w+ and \w+ did not (take|grab|get|pick up) the",
        r"s?he did not",
        r"(took|grabbed|got|picked up) the \w+ in either the",
        r"(left|dropped|discarded|put down) the \w+ in either the",
        r"(gave|handed|passed) the \w+ to \w+ in either the",
    ):
        assert re.search(words, text), words
    assert not re.search(r"(up|down) them", text)
    assert plan.check is not None
    for example in made:
        assert plan.check(example) == example.targets
        story = events_of(example, Vocabulary())
        for before, after in pairwise(
            story.events
        ):  # "Mary gave the milk to Sandra. Then she …": who?
            assert not (after.pronoun and before.to) or Vocabulary().clear(before.who[0], before.to)
        Knowledge(Vocabulary().places, "strict").tell_all(story.events)
        knowledge = Knowledge(Vocabulary().places).tell_all(story.events)
        assert supports(knowledge, story.questions[0].question)[0] == cited(example)


@pytest.mark.parametrize(
    ("construct", "events"),
    [
        ("CONJ", ["GRAB"]),
        ("CONJ", ["DROP", "GRAB"]),
        ("CONJ", ["GIVE", "GRAB"]),
        ("COMPOUND", ["DROP", "GRAB"]),
        ("COMPOUND", ["GIVE", "GRAB"]),
        ("NEGATE", ["GRAB"]),
        ("NEGATE", ["DROP"]),
        ("NEGATE", ["GIVE"]),
        ("INDEF", ["GRAB"]),
        ("INDEF", ["DROP"]),
        ("INDEF", ["GIVE"]),
    ],
)
def test_a_proof_can_be_built_on_any_construct_of_any_event(
    construct: str, events: list[str]
) -> None:
    said = {"conj" if construct in ("CONJ", "COMPOUND") else construct.lower(): events}
    fields = {
        "events": EVERY,
        "wording": [construct],
        "composition": [construct, events[0]],
        "n": 12,
        **said,
    }
    plan = custom(splits={"mix": [group(questions=["where-O"], support="3..6", **fields)]})
    for example in some(plan, 12):
        told = events_of(example, Vocabulary()).events
        ours = [told[i] for i in cited(example)]
        assert any(
            construct in e.concepts() or (construct == "COMPOUND" and e.compound) for e in ours
        )
        assert plan.check is not None
        assert plan.check(example) == example.targets


@pytest.mark.parametrize("kind", ["list", "counting"])
def test_supports_of_lists_grow_with_what_is_denied(kind: str) -> None:
    shape = group(
        questions=[kind], wording=["NEGATE"], negate=["GRAB", "DROP"], support="4..6", n=24
    )
    made = some(custom(splits={"mix": [shape]}), 24)
    assert {e.traits["support"] for e in made} == {4, 5, 6}


def test_two_things_given_at_once_are_one_answer() -> None:
    shape = group(
        questions=["give-qs"],
        wording=["CONJ"],
        conj={"GRAB": 2, "GIVE": 4},
        events={"GRAB": 1, "GIVE": 0},
        n=60,
    )
    plan = custom(splits={"mix": [shape]})
    made = some(plan)
    both = [e for e in made if "," in e.target]
    assert both
    assert all(e.question.startswith("What did") and e.traits["support"] == 1 for e in both)
    assert plan.check is not None
    assert all(plan.check(e) == e.targets for e in made)
    assert plan.scorer is set_of
