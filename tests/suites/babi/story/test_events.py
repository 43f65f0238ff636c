"""The table of events: what is derived from it, and that a new row changes no recipe."""

from __future__ import annotations

import pytest

from taskloom.suites.babi.fields import Style, event_words
from taskloom.suites.babi.reasoner.answers import says
from taskloom.suites.babi.story.events import (
    CONSTRUCTS,
    EVENT_TYPES,
    EVENTS,
    HANDLING,
    KINDS,
    POSITIONAL,
    Event,
    EventType,
    Kind,
)
from taskloom.suites.babi.story.vocabulary import verb_lists


def test_names_of_the_paper_are_derived() -> None:
    assert EVENTS == ("MOVE", "GRAB", "DROP", "GIVE")
    assert HANDLING == ("GRAB", "DROP", "GIVE")
    assert {"move", "in", "not", "either"} == POSITIONAL
    assert set(KINDS) - set(EVENTS) - set(CONSTRUCTS) == {"AFFIRM"}


def test_a_style_has_the_words_of_every_event() -> None:
    names = {"move", "grab", "drop", "give", "not_grab", "not_drop", "not_give"}
    assert set(verb_lists()) == names
    small = {"negations", "prefixes", "there_grab", "there_drop", "preposition", "double_object"}
    assert set(Style().model_dump()) == names | small


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_a_proof_says_an_event_in_the_words_of_its_type(kind: Kind) -> None:
    thing, to = ("milk", "John") if EVENT_TYPES[kind].handles else ("", "")
    event = Event(kind, ("Mary",), () if thing else ("park", "school"), thing, to)
    assert says(event).startswith("Mary ")
    assert "{" not in says(event)
    if EVENT_TYPES[kind].denied:
        assert says(event._replace(denied=True)).startswith("Mary does not ")


def test_words_of_a_later_event_count_in_a_digest_only_where_they_are_changed() -> None:
    swap = EventType(
        "SWAP",
        "SWAP",
        "{who} {verb} {things}.",
        "",
        verbs=("swapped",),
        denied=("swap",),
        there=True,
        later=True,
    )
    types: dict[Kind, EventType] = {**EVENT_TYPES, "give": swap}
    style = event_words(types).model_validate({"grab": ["seized"], "not_give": ["trade"]})
    written = style.model_dump(mode="json")
    assert written["grab"] == ["seized"]
    assert written["not_give"] == ["trade"]
    assert not {"give", "there_give"} & written.keys()
    assert "not_give" not in event_words(types)().model_dump()
    assert "not_give" in event_words(EVENT_TYPES)().model_dump()
