"""Reading text: every form of both wordings, and what is refused with its line."""

from __future__ import annotations

import random
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.core.errors import InputError, RecipeError
from taskloom.core.seeding import Key
from taskloom.suites.babi.story.events import GIVE_FORMS, Event, Question
from taskloom.suites.babi.story.grammar import parse, parse_passage, parse_path
from taskloom.suites.babi.story.sentences import SentenceWriter, ask
from taskloom.suites.babi.story.vocabulary import (
    DYNA,
    PUBLISHED,
    StoryLexicon,
    Vocabulary,
    verb_lists,
)

from ..reasoner.small_stories import small_story

PEOPLE = Vocabulary(
    ("Mary", "John", "Anna"),
    ("milk", "apple"),
    ("park", "school", "office"),
    {"Mary": "she", "John": "he"},
)


@given(
    st.integers(0, 10_000),
    st.sampled_from([DYNA, PUBLISHED, StoryLexicon(preposition="at", double_object=True)]),
)
def test_what_is_written_is_read_back(seed: int, lexicon: StoryLexicon) -> None:
    events = small_story(random.Random(seed), 8, strict=False)
    rng = Key("words", seed).random()
    texts = SentenceWriter(PEOPLE, lexicon).write(events, rng)
    told = [e._replace(text=text) for e, text in zip(events, texts, strict=True)]
    text = "".join(f"{i} {e.text}\n" for i, e in enumerate(told, 1))
    (story,) = parse(text, vocabulary=PEOPLE)
    assert list(story.events) == told
    assert list(parse(text)[0].events) == told
    again = parse_passage(" ".join(e.text for e in told), "Where is Mary?", PEOPLE)
    assert list(again.events) == told


def test_verbs_of_two_words_take_a_pronoun_between_them() -> None:
    verbs = {"drop": ("put down", "let go of"), "grab": ("picked up",), "give": ("handed over",)}
    words = StoryLexicon(verbs=verb_lists() | verbs)
    two = {"thing": "milk", "also": "apple", "pronoun": True, "them": True}
    told = [Event("grab", ("Mary",), thing="milk", also="apple"), Event("drop", ("Mary",), **two)]  # type: ignore[arg-type]
    told += [Event("grab", ("Mary",), **two), Event("give", ("Mary",), to="John", **two)]  # type: ignore[arg-type]
    texts = SentenceWriter(PEOPLE, words).write(told * 9, Key("verbs").random())
    seen = {text.split(" she ")[-1] for text in texts}
    assert seen == {
        "Mary picked up the milk and the apple.",
        "put them down.",
        "let go of them.",
        "picked them up.",
        "handed them over to John.",
    }
    passage = (
        "Mary picked the milk and the apple up. Then she put them down. Then she picked them up. "
    )
    story = parse_passage(
        passage + "Then she handed them over to John.", "Where is Mary?", PEOPLE, words
    )
    assert [e._replace(text="") for e in story.events] == told


@pytest.mark.parametrize(
    "question",
    [
        Question("where-P", "Mary"),
        Question("where-O", thing="milk"),
        Question("where-was-O", thing="milk", place="park"),
        Question("yes-no", "Mary", place="park"),
        Question("list", "Mary"),
        Question("counting", "Mary"),
        *[
            Question(
                "give-qs",
                "Mary" if form in ("given-to", "given") else "",
                "" if form == "given" else "milk",
                other="John" if form in ("gave-to", "given") else "",
                form=form,
            )
            for form in GIVE_FORMS
        ],
    ],
)
def test_every_question_is_read_back(question: Question) -> None:
    asked = question._replace(text=ask(question, DYNA))
    (story,) = parse(f"1 Mary went to the park.\n2 {asked.text}\n")
    assert story.questions[0].question == asked


def test_small_variations_are_read() -> None:
    (story,) = parse(
        "1 John travelled to the park.\n2 Following that, he got the milk there.\n3 He then gave"
        " Mary the milk.\n"
    )
    assert [(e.kind, e.who, e.to) for e in story.events] == [
        ("move", ("John",), ""),
        ("grab", ("John",), ""),
        ("give", ("John",), "Mary"),
    ]


def test_byte_order_mark_and_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "story.txt"
    file.write_bytes(
        b"\xef\xbb\xbf1 Mary went to the park.\r\n2 Where is Mary? \tpark\t1\r\n\r\n1 John is in"
        b" the park.\r\n"
    )
    stories = parse_path(file)
    assert [len(s.events) for s in stories] == [1, 1]
    assert stories[0].questions[0].support == (1,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "1 Mary flew to the park.\n",
            "story:1: cannot read 'Mary flew to the park.': 'flew' is a word of none of the",
        ),
        (
            "1 Mary went to the park.\n2 Is Mary running in the park?\n",
            "'running' is a word of none of the question forms",
        ),
        (
            "1 Mary went to the park.\n2 Then he went to the school.\n",
            "story:2: .*'he' cannot refer to Mary",
        ),
        ("1 Then he went to the school.\n", "story:1: .*no previous sentence"),
        (
            "1 Mary and John went to the park.\n2 Then he got the milk.\n",
            "story:2: .*'he' cannot refer to Mary and John",
        ),
        ("1 Mary and John took the milk.\n", "two persons cannot hold one thing"),
        ("1 Mary gave the milk to Mary.\n", "Mary gives something to Mary"),
        ("1 Mary took either the apple or the milk.\n", "'either' is only possible for places"),
        ("1 Either Mary or John took the milk.\n", "'either' is only possible for places"),
        ("1 Mary did not take the apple and the milk.\n", "none of the sentence forms"),
        ("1 Mary gave the milk to John and Bill.\n", "none of the sentence forms"),
        ("1 Mary took the milk and the milk.\n", "the milk is named twice"),
        (
            "1 Mary took the milk.\n2 Then she dropped them.\n",
            "story:2: .*'them' has no previous sentence with two things",
        ),
        (
            "1 Mary and John went to the park.\n2 Then they took the milk.\n",
            "two persons cannot hold one thing",
        ),
        (f"{'9' * 5000} Mary went to the park.\n", "does not start with its number"),
        (
            f"1 Mary went to the park.\n2 Where is Mary?\tpark\t{'9' * 5000}\n",
            "story:2: supporting numbers must be integers",
        ),
        (
            "1 Mary went to the park.\n2 Where is Mary?\tpark\t\u00b2\n",
            "story:2: supporting numbers must be integers",
        ),
        ("\u0663 Mary went to the park.\n", "does not start with its number"),
        ("1 Mary went to the park", "story:1: .*the file is cut off here"),
        ("2 Mary went to the park.\n", "story:1: a story begins with number 1, not 2"),
        (
            "1 Mary went to the park.\n3 Mary is in the park.\n2 Mary is in the park.\n",
            "story:2: expected number 2, or 1 for a new story, not 3",
        ),
        (
            "1 Mary went to the park.\n2 Where is Mary?\tpark\t7\n",
            "supporting number 7 is not an earlier sentence",
        ),
        (
            "1 Mary went to the park.\n2 Where is Mary?\tpark\tone\n",
            "integers separated by spaces, not 'one'",
        ),
        ("1 Mary went to the park.\n2 Why is Mary?\tpark\t1\n", "none of the question forms"),
        ("1 Mary went to the park.\n2 Where is Ma", "story:2: .*the file is cut off here"),
        (
            "1 Mary went to the park.\nWhere is Mary?\n",
            "story:2: 'Where is Mary.' does not start with its number",
        ),
    ],
)
def test_bad_text_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("raw", "message"),
    [(b"", "has no story"), (b"1 Mar\xff", "not UTF-8"), (None, "there is no file")],
)
def test_bad_files_are_refused(tmp_path: Path, raw: bytes | None, message: str) -> None:
    file = tmp_path / "story.txt"
    if raw is not None:
        file.write_bytes(raw)
    with pytest.raises(InputError, match=message):
        parse_path(file)


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        (Vocabulary(places=("garden", "Garden shed")), "'garden' and 'Garden shed' collide"),
        (Vocabulary(objects=("apple", "apple")), "collide"),
        (Vocabulary(places=("park",)), "at least 2 places"),
        (Vocabulary(persons=("Mary.",)), "is not a valid name"),
        (Vocabulary(pronouns={"Mary": "it"}), "he, she or they"),
    ],
)
def test_vocabularies_that_cannot_be_told_apart(vocabulary: Vocabulary, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        vocabulary.check()


class CountedName(str):
    """A name that counts how often names are made comparable."""

    folded = 0

    def casefold(self) -> str:
        CountedName.folded += 1
        return super().casefold()


def test_the_time_to_check_names_grows_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountedName, "folded", 0)
    Vocabulary(persons=tuple(CountedName(f"Name{i}") for i in range(500))).check()
    assert CountedName.folded <= 5 * 500


NAMES = st.lists(
    st.text("xyX ", min_size=1, max_size=5).filter(lambda n: n == n.strip()), max_size=6
)


@given(NAMES)
def test_the_first_two_names_that_collide_are_named(names: list[str]) -> None:
    expected = None
    for one, other in combinations(names, 2):
        a, b = f" {one.casefold()} ", f" {other.casefold()} "
        if a in b or b in a:
            expected = (one, other)
            break
    vocabulary = Vocabulary(persons=("Mary", *names), objects=(), places=("park", "school"))
    if expected is None:
        vocabulary.check()
        return
    with pytest.raises(RecipeError, match=f"'{expected[0]}' and '{expected[1]}' collide"):
        vocabulary.check()


def test_default_vocabulary_is_sound() -> None:
    Vocabulary().check()


def test_concepts_follow_the_paper() -> None:
    assert Event("in", ("Bill",), ("park",)).concepts() == ("MOVE",)
    assert Event("move", ("Bill", "Mary"), ("park",), pronoun=True).concepts() == (
        "MOVE",
        "CONJ",
        "COREF",
    )
