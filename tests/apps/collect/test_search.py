"""Passages: paragraphs by BM25, grown to at most 300 words, no entity above its share."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from taskloom.apps.collect.search import PassageIndex, entity_limit, grow, paragraphs, sentences
from taskloom.core.seeding import Key

LONG = " ".join(
    f"Sentence {i} tells about the weather of that day and of the next one." for i in range(60)
)


def test_a_short_paragraph_is_the_passage() -> None:
    assert grow("Dogs are allowed. Cats are not.", ["dog"], 300, Key("x").random(0)) == (0, 31)


def test_of_a_long_paragraph_the_best_sentence_grows_by_up_to_three_on_either_side() -> None:
    text = LONG.replace("Sentence 30 tells about the weather", "Sentence 30 tells about otters")
    counts = set()
    for number in range(40):
        start, end = grow(text, ["otter"], 300, Key("x").random(number))
        assert "otters" in text[start:end]
        counts.add(len(sentences(text[start:end])))
    assert min(counts) >= 1
    assert max(counts) <= 7
    assert len(counts) > 3


@given(st.text(alphabet="ab .\n", max_size=400), st.integers(20, 40))
def test_a_passage_is_never_longer_than_allowed(text: str, most: int) -> None:
    for begin, end in paragraphs(text):
        part = text[begin:end]
        start, stop = grow(part, ["a"], most, Key("x").random(0))
        assert 0 <= start <= stop <= len(part)
        assert len(part[start:stop].split()) <= most


@given(st.text(alphabet="ab \n", max_size=300))
def test_paragraphs_cover_the_text_once(text: str) -> None:
    spans = list(paragraphs(text))
    assert [w for a, b in spans for w in text[a:b].split()] == text.split()


def index(entities: int, each: int) -> PassageIndex:
    filler = (
        "and many more words that fill the paragraph until it is long enough to stand alone, which"
        " takes a while here now"
    )
    documents = []
    for e in range(entities):
        blocks = [
            f"Number {i} of place {e}: otters{' and herons' if i % 2 else ''} {filler}."
            for i in range(each)
        ]
        documents.append((f"d{e}", f"Place {e}", "\n\n".join(blocks)))
    return PassageIndex(documents)


def test_no_entity_has_more_than_its_share() -> None:
    searched = index(30, 8)
    used: Counter[str] = Counter()
    for number in range(10):
        limit = entity_limit(10 * 20, 0.05, 30)
        chosen = searched.choose(
            "Are there otters or herons?", 20, 0.3, 300, used, limit, Key("c").child(number)
        )
        assert len(chosen) == 20
        assert sum(c.near_miss for c in chosen) == 6
        assert len({(c.document, c.start) for c in chosen}) == 20
        used.update(c.entity for c in chosen)
    assert max(used.values()) <= 10
    assert sum(used.values()) == 200


def test_few_entities_share_equally() -> None:
    assert entity_limit(100, 0.05, 40) == 5
    assert entity_limit(100, 0.05, 4) == 25
    assert entity_limit(3, 0.05, 100) == 1


def test_stop_words_find_nothing() -> None:
    assert index(2, 2).rank("What is there in this?", 10) == []
