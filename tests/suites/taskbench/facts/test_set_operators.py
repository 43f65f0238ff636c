"""The operators against their definitions, by brute force over small relations, whole and
sampled.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.core.errors import RecipeError
from taskloom.suites.taskbench.worlds.facts import set_operators
from taskloom.suites.taskbench.worlds.facts.invented_facts import WorldKnobs, synthetic_world
from taskloom.suites.taskbench.worlds.facts.relation import Predicate, Relation
from taskloom.suites.taskbench.worlds.facts.set_operators import (
    Domain,
    FactComposer,
    chain,
    difference,
    intersection,
    inverse,
    land,
    lnot,
    lor,
    union,
)

IDS = "abcdefg"
pairs = st.sets(st.tuples(st.sampled_from(IDS), st.sampled_from(IDS)), max_size=20)
truths = st.dictionaries(st.sampled_from(IDS), st.booleans())
some = st.sets(st.sampled_from(IDS))
domains = st.sampled_from(["either", "common"])

Pairs = set[tuple[str, str]]


def whole(held: Pairs) -> Relation:
    return Relation.of_pairs(held)


def sample(held: Pairs, inputs: set[str]) -> Relation:
    """The relation as an endpoint knows it: on some inputs, and on the others when asked."""
    everything = whole(held)
    return Relation(
        {x: everything.get(x, ()) for x in inputs},
        ask=lambda ids: {x: everything[x] for x in ids if x in everything},
        flip=lambda: inverse(everything),
    )


def sample_truth(truth: dict[str, bool], inputs: set[str]) -> Predicate:
    return Predicate(
        {x: truth[x] for x in inputs if x in truth},
        ask=lambda ids: {x: truth[x] for x in ids if x in truth},
    )


@given(pairs, pairs)
def test_relations_by_their_definitions(a: Pairs, b: Pairs) -> None:
    f, g = whole(a), whole(b)
    assert set(chain(f, g).pairs()) == {(x, z) for x, y in b for w, z in a if y == w}
    assert set(union(f, g).pairs()) == a | b
    assert set(intersection(f, g).pairs()) == a & b
    assert set(difference(f, g).pairs()) == a - b
    assert set(inverse(f).pairs()) == {(y, x) for x, y in a}
    both = {x for x, _ in a} & {x for x, _ in b}
    assert set(union(f, g, "common").pairs()) == {(x, y) for x, y in a | b if x in both}


@given(pairs, pairs, pairs)
def test_laws(a: Pairs, b: Pairs, c: Pairs) -> None:
    f, g, h = whole(a), whole(b), whole(c)
    assert chain(f, chain(g, h)) == chain(chain(f, g), h)
    assert chain(f, union(g, h)) == union(chain(f, g), chain(f, h))
    assert inverse(chain(f, g)) == chain(inverse(g), inverse(f))
    assert inverse(inverse(f)) == f
    assert union(f, g) == union(g, f)
    assert intersection(f, union(f, g)) == f
    assert difference(difference(f, g), h) == difference(f, union(g, h))
    assert inverse(difference(f, g)) == difference(inverse(f), inverse(g))


@given(truths, truths)
def test_predicates_by_their_definitions(p: dict[str, bool], q: dict[str, bool]) -> None:
    both = p.keys() & q.keys()
    assert dict(land(Predicate(p), Predicate(q))) == {x: p[x] and q[x] for x in sorted(both)}
    assert dict(lor(Predicate(p), Predicate(q))) == {x: p[x] or q[x] for x in sorted(both)}
    assert dict(lnot(Predicate(p))) == {x: not p[x] for x in sorted(p)}
    # Kleene's three values: what is missing is unknown.
    for x in IDS:
        values = (p.get(x), q.get(x))
        conjunction = False if False in values else (None if None in values else True)
        disjunction = True if True in values else (None if None in values else False)
        assert land(Predicate(p), Predicate(q), "either").get(x) == conjunction
        assert lor(Predicate(p), Predicate(q), "either").get(x) == disjunction


@given(truths, truths, domains)
def test_de_morgan(p: dict[str, bool], q: dict[str, bool], domain: Domain) -> None:
    a, b = Predicate(p), Predicate(q)
    assert lnot(land(a, b, domain)) == lor(lnot(a), lnot(b), domain)


@given(pairs, pairs, some, some, some, domains)
def test_a_sample_never_says_anything_else(
    a: Pairs, b: Pairs, known_a: set[str], known_b: set[str], asked: set[str], domain: Domain
) -> None:
    f, g = sample(a, known_a), sample(b, known_b)
    compositions = [
        (chain(f, g), chain(whole(a), whole(b))),
        (chain(f, whole(b)), chain(whole(a), whole(b))),
        (union(f, g, domain), union(whole(a), whole(b), domain)),
        (intersection(f, g), intersection(whole(a), whole(b))),
        (difference(f, g), difference(whole(a), whole(b))),
        (difference(whole(a), g), difference(whole(a), whole(b))),
        (union(chain(f, g), inverse(f)), union(chain(whole(a), whole(b)), inverse(whole(a)))),
    ]
    for ours, theirs in compositions:
        assert ours.items() <= theirs.items()
        assert dict(ours.at(asked)) == {x: theirs[x] for x in sorted(asked) if x in theirs}
        assert all(ours.of(x) == theirs.get(x, ()) for x in asked)


@given(truths, truths, some, some, some, domains)
def test_a_sampled_predicate_never_says_anything_else(
    p: dict[str, bool],
    q: dict[str, bool],
    known_p: set[str],
    known_q: set[str],
    asked: set[str],
    domain: Domain,
) -> None:
    a, b = sample_truth(p, known_p), sample_truth(q, known_q)
    for ours, theirs in [
        (land(a, b, domain), land(Predicate(p), Predicate(q), domain)),
        (lor(a, lnot(b), domain), lor(Predicate(p), lnot(Predicate(q)), domain)),
    ]:
        assert ours.items() <= theirs.items()
        assert ours.at(asked) == theirs.at(asked)


def test_any_value_matches() -> None:
    jobs = Relation({"ann": ["politician", "actor"], "bob": ["politician"], "cid": ["actor"]})
    assert dict(Predicate.matching(jobs, "actor")) == {"ann": True, "bob": False, "cid": True}


def test_order_and_emptiness() -> None:
    relation = Relation({"b": ["z", "y", "z"], "a": ("x",), "c": []})
    assert list(relation.items()) == [("a", ("x",)), ("b", ("y", "z"))]
    assert (len(relation), relation.size, "c" in relation) == (2, 3, False)
    with pytest.raises(KeyError):
        relation["c"]


def test_a_chain_with_too_many_paths_is_refused_before_they_are_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    composer = FactComposer(synthetic_world(WorldKnobs(people=120)))
    text = "chain(inverse(sex_or_gender), sex_or_gender)"
    genders = composer.world.relation("sex_or_gender")
    paths = sum(len(genders.inverse()[y]) for ys in genders.values() for y in ys)
    monkeypatch.setattr(set_operators, "MOST_PATHS", paths - 1)
    with pytest.raises(
        RecipeError, match=f"sex_or_gender.* has {paths:,} paths from inputs to answers"
    ):
        composer.function(text)
    monkeypatch.setattr(set_operators, "MOST_PATHS", paths)
    assert len(composer.function(text)[1]) == len(genders)


def test_everybody_reached_from_everybody_is_refused_at_once() -> None:
    crowd, everybody = (
        {str(x): ["human"] for x in range(30_000)},
        {"human": [str(x) for x in range(50_000)]},
    )
    with pytest.raises(RecipeError, match="has 1,500,000,000 paths"):
        chain(Relation(everybody), Relation(crowd))
