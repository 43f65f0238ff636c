"""Random well-typed expressions, and a small world in which they have values."""

from __future__ import annotations

from functools import lru_cache

from hypothesis import strategies as st

from taskloom.core.plan import Source
from taskloom.suites.taskbench.language.operators import (
    Atom,
    Chain,
    Difference,
    Expression,
    Filter,
    Intersection,
    Inverse,
    Is,
    Land,
    Lnot,
    Lor,
    Map,
    Union,
)
from taskloom.suites.taskbench.worlds.words import Words
from taskloom.suites.taskbench.worlds.words.lexicon import _lexicon, compile_raw
from taskloom.suites.taskbench.worlds.words.wordnet import RawLexicon, WordNet

RELATIONS = {
    ("word[eng]", "word[eng]"): [
        "synonyms[eng]",
        "antonyms[eng]",
        "hyponyms[eng]",
        "hypernyms[eng]",
        "entailments[eng]",
        "random0[eng]",
        "random7[eng]",
    ],
    ("word[spa]", "word[spa]"): [
        "synonyms[spa]",
        "antonyms[spa]",
        "hyponyms[spa]",
        "entailments[spa]",
    ],
    ("word[eng]", "word[spa]"): ["translate[eng->spa]"],
    ("word[spa]", "word[eng]"): ["translate[spa->eng]"],
    ("entity", "entity"): ["father", "original_language_of_film_or_TV_show", "has_part", "P26"],
}
PREDICATES = {
    "word[eng]": [
        "is_pos_noun[eng]",
        "is_pos_adverb[eng]",
        "is_sentiment_positive[eng]",
        "is_sentiment_neutral[eng]",
    ],
    "word[spa]": ["is_pos_verb[spa]", "is_pos_noun[spa]"],
    "entity": ["is_occupation_actor", "is_birthplace_nyc", "is_instance_taxon"],
}
WORD_KINDS = ("word[eng]", "word[spa]")
VALUES = {
    "word[eng]": ["tree", "go fast", "small"],
    "word[spa]": ["árbol", "chico"],
    "entity": ["Q42", "Douglas Adams"],
}


def between(kind: str) -> list[str]:
    """Kinds that a relation may lead to or from."""
    return ["entity"] if kind == "entity" else list(WORD_KINDS)


@st.composite
def relations(draw: st.DrawFn, source: str, target: str, depth: int = 3) -> Expression:
    atoms = RELATIONS[source, target]
    inverses = RELATIONS[target, source]
    choice = draw(st.integers(0, 6)) if depth else draw(st.integers(0, 1))
    if choice == 0:
        return Atom(draw(st.sampled_from(atoms)))
    if choice == 1:
        return Inverse((Atom(draw(st.sampled_from(inverses))),))
    if choice == 2:
        middle = draw(st.sampled_from(between(source)))
        return Chain(
            (draw(relations(middle, target, depth - 1)), draw(relations(source, middle, depth - 1)))
        )
    if choice == 3:
        return Inverse((draw(relations(target, source, depth - 1)),))
    if choice == 6:
        return Difference(
            (draw(relations(source, target, depth - 1)), draw(relations(source, target, depth - 1)))
        )
    operator = Union if choice == 4 else Intersection
    parts = draw(st.lists(relations(source, target, depth - 1), min_size=2, max_size=3))
    return operator(tuple(parts))


@st.composite
def predicates(draw: st.DrawFn, source: str, depth: int = 3) -> Expression:
    choice = draw(st.integers(0, 5)) if depth else draw(st.integers(0, 1))
    if choice == 0:
        return Atom(draw(st.sampled_from(PREDICATES[source])))
    if choice == 1:
        target = draw(st.sampled_from(between(source)))
        return Is(
            Atom(draw(st.sampled_from(RELATIONS[source, target]))),
            draw(st.sampled_from(VALUES[target])),
        )
    if choice == 2:
        return Lnot((draw(predicates(source, depth - 1)),))
    if choice == 3:
        middle = draw(st.sampled_from(between(source)))
        return Chain(
            (draw(predicates(middle, depth - 1)), draw(relations(source, middle, depth - 1)))
        )
    parts = draw(st.lists(predicates(source, depth - 1), min_size=2, max_size=3))
    return (Land if choice == 4 else Lor)(tuple(parts))


@st.composite
def sequences(draw: st.DrawFn, source: str, target: str, depth: int = 3) -> Expression:
    """A sequence function; the second operand is what comes before."""
    if source == target and draw(st.booleans()):
        before = (
            draw(sequences(source, target, depth - 1)) if depth and draw(st.booleans()) else None
        )
        own: Expression = draw(predicates(target, 1))
        return Filter((own,) if before is None else (own, before))
    if depth and draw(st.booleans()):
        middle = draw(st.sampled_from(between(source)))
        return Map((draw(relations(middle, target, 1)), draw(sequences(source, middle, depth - 1))))
    return Map((draw(relations(source, target, 1)),))


@st.composite
def expressions(draw: st.DrawFn, kinds: tuple[str, ...] = (*WORD_KINDS, "entity")) -> Expression:
    source = draw(st.sampled_from(kinds))
    target = draw(st.sampled_from([k for k in between(source) if k in kinds]))
    form = draw(st.integers(0, 2))
    if form == 0:
        return draw(relations(source, target))
    return draw(predicates(source)) if form == 1 else draw(sequences(source, target))


@lru_cache(maxsize=1)
def small_words() -> Words:
    """Nine senses with links of every kind, capitals, inflections and words of two senses."""
    net = WordNet(
        pos=list("nnnvvvaar"),
        lemmas=[
            ["plant"],
            ["tree", "Tree"],
            ["oak", "oak_tree"],
            ["move", "go"],
            ["run", "go_fast"],
            ["step", "tree"],
            ["big", "large"],
            ["small", "Little"],
            ["fast", "quickly"],
        ],
        exceptions={"n": {}, "v": {"ran": ["run"]}, "a": {}, "r": {}},
    )
    net.links["hyponyms"] = [(0, 1), (1, 2), (3, 4), (4, 3)]
    net.links["hypernyms"] = [(b, a) for a, b in net.links["hyponyms"]]
    net.links["entailments"] = [(4, 5), (5, 3)]
    net.links["antonyms"] = [(6, 7), (7, 6), (1, 7)]
    for number, row in enumerate(net.lemmas):
        for lemma in dict.fromkeys(lemma.lower() for lemma in row):
            net.index.setdefault(lemma, []).append(number)
    net.counts = {
        form: [3 * len(row) - i for i in range(len(row))] for form, row in net.index.items()
    }
    spanish = [
        ["planta"],
        ["árbol"],
        ["roble", "tree"],
        ["mover"],
        ["correr"],
        ["paso", "mover"],
        ["grande"],
        ["chico"],
        [],
    ]
    vocabulary = {
        "eng": ["plant", "tree", "go", "run", "big", "small", "fast"],
        "spa": ["árbol", "tree", "mover", "chico"],
    }
    raw = RawLexicon(net, spanish, [0, 1, -1, 0, 1, 0, -1, 1, 0], dict(vocabulary))
    return Words(_lexicon(*compile_raw(raw), (Source("toy", "0"),)))
