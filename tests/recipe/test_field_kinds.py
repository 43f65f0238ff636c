"""The three kinds of fields: what random streams are keyed by, and what they are not."""

from __future__ import annotations

from taskloom.core.seeding import Key
from taskloom.recipe.fields import Fields, draw, presentation, split_key, world


class Sequences(Fields):
    length: int = draw(8)
    separators: bool = presentation(False)


class Example(Fields):
    lexicon: str = world("packaged")
    sequences: Sequences = draw(Sequences())
    layout: str = presentation("t5")
    splits: dict[str, int] = draw(default_factory=dict)
    blocks: dict[str, Sequences] = draw(default_factory=dict)


class Undeclared(Fields):
    lexicon: str = "packaged"
    layout: str = "t5"


def test_a_field_of_a_group_has_the_kind_of_the_group_unless_it_declares_its_own() -> None:
    assert Example.field_kinds() == {
        "lexicon": "world",
        "sequences": "draw",
        "sequences.length": "draw",
        "sequences.separators": "presentation",
        "layout": "presentation",
        "splits": "draw",
        "blocks": "draw",
    }


def test_streams_are_keyed_by_world_fields_alone() -> None:
    plain = Example()
    assert plain.key_fields() == {"lexicon": "packaged"}
    changed = Example(
        sequences=Sequences(length=3, separators=True), layout="bart", splits={"train": 5}
    )
    assert (
        changed.model_copy(update={"blocks": {"a": Sequences()}}).key_fields() == plain.key_fields()
    )
    assert changed.key_fields() == plain.key_fields()
    assert Example(lexicon="nltk").key_fields() != plain.key_fields()


def test_a_suite_without_kinds_is_keyed_by_all_its_fields() -> None:
    assert Undeclared(layout="bart").key_fields() == {"lexicon": "packaged", "layout": "bart"}


def test_the_key_of_a_split_hangs_on_its_name_and_its_own_draw_fields() -> None:
    key = Key("world", 0)
    assert split_key(key, "test") == split_key(key, "test", {})
    assert split_key(key, "test") != split_key(key, "train")
    assert split_key(key, "test", {"length": 3}) != split_key(key, "test", {"length": 4})
    assert split_key(key, "test", {"a": 1, "b": 2}) == split_key(key, "test", {"b": 2, "a": 1})
