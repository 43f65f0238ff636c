"""Three evaluators, one meaning: arrays, steps and plain sets agree on random expressions over a
small world.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.core.errors import InputError, RecipeError
from taskloom.suites.taskbench import atoms
from taskloom.suites.taskbench.evaluation import evaluator
from taskloom.suites.taskbench.evaluation.derivations import BETWEEN, Deriver
from taskloom.suites.taskbench.evaluation.evaluator import solve
from taskloom.suites.taskbench.evaluation.second_solver import PlainSolver
from taskloom.suites.taskbench.language import normal, read, read_typed, type_of
from taskloom.suites.taskbench.language.operators import Expression
from taskloom.suites.taskbench.language.types import language_of
from taskloom.suites.taskbench.tables import Table
from taskloom.suites.taskbench.worlds import random_relations
from taskloom.suites.taskbench.worlds.words import Rules, Words

from .strategies import WORD_KINDS, expressions, relations, small_words


def everything(words: Words, kind: str = "word[eng]") -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """All words of a language, whether they are in its vocabulary or not."""
    return np.unique(words.lexicon.lemmas[language_of(kind)].values).astype(np.int32)


@given(expressions(WORD_KINDS))
def test_arrays_steps_and_sets_agree_and_normal_form_keeps_the_meaning(
    expression: Expression,
) -> None:
    words = small_words()
    plain = PlainSolver(words)
    kind = type_of(expression, atoms.signature)
    tree = normal(expression)
    rows = everything(words, kind.source)
    if kind.form == "relation":
        table = evaluator.values(tree, rows, words)
        for number, text in enumerate(words.texts[i] for i in rows):
            meant = plain.relation(expression, text)
            assert {words.texts[i] for i in table.row(number)} == meant
            assert set(Deriver(tree, kind, words)._values(tree, (text,), None, [])[0]) == meant
    elif kind.form == "predicate":
        truth = evaluator.holds(tree, rows, words)
        for number, text in enumerate(words.texts[i] for i in rows):
            meant_truth = plain.predicate(expression, text)
            assert bool(truth[number]) == meant_truth
            assert Deriver(tree, kind, words)(text).targets == ("true" if meant_truth else "false",)
    else:
        given = [words.texts[i] for i in rows if "_" not in words.texts[i]]
        meant_sets = [{y.replace("_", " ") for y in ys} for ys in plain.sequence(expression, given)]
        assert [set(p) for p in Deriver(tree, kind, words).positions(" ".join(given))] == meant_sets


@given(expressions(WORD_KINDS))
def test_values_have_the_declared_type(expression: Expression) -> None:
    words = small_words()
    kind = type_of(expression, atoms.signature)
    if kind.form != "relation":
        return
    table = evaluator.values(normal(expression), everything(words, kind.source), words)
    assert set(table.values.tolist()) <= set(everything(words, kind.target).tolist())


def test_every_step_is_listed_with_its_value() -> None:
    words = small_words()
    tree = read("chain(antonyms[eng], hyponyms[eng])")
    found = Deriver(tree, type_of(tree, atoms.signature), words)("plant")
    assert [(s.rule, s.value, s.of) for s in found.derivation] == [
        ("hyponyms[eng]", "Tree | oak | oak tree | tree", ()),
        ("antonyms[eng]", "Little | small", (0,)),
    ]
    assert found.targets == ("Little", "small")
    assert BETWEEN.join(found.targets) == found.derivation[-1].value


def test_a_difference_is_taken_at_each_word_by_itself() -> None:
    """A tree is a direct hyponym of plant, an oak a hyponym of a hyponym."""
    words = small_words()
    tree = read("difference(hyponyms[eng], chain(hyponyms[eng], hyponyms[eng]))")
    answer = Deriver(tree, type_of(tree, atoms.signature), words)("plant")
    assert answer.targets == ("Tree", "tree")
    assert [(s.rule, s.value, s.of) for s in answer.derivation] == [
        ("hyponyms[eng]", "Tree | oak | oak tree | tree", ()),
        ("hyponyms[eng]", "Tree | oak | oak tree | tree", ()),
        ("hyponyms[eng]", "oak | oak tree", (1,)),
        ("difference", "Tree | tree", (0, 2)),
    ]


def test_inflected_and_unknown_inputs() -> None:
    words = small_words()
    tree = read("synonyms[eng]")
    deriver = Deriver(tree, type_of(tree, atoms.signature), words)
    assert deriver("ran").targets == ("go fast", "run")
    assert deriver("Oaks").targets == ("oak", "oak tree")
    with pytest.raises(InputError, match="not an English word"):
        deriver("xyzzy")
    with pytest.raises(InputError, match="outside the domain"):
        deriver("plant")
    mapped = read("map(synonyms[eng])")
    with pytest.raises(InputError, match="'plant' is outside"):
        Deriver(mapped, type_of(mapped, atoms.signature), words)("big plant")
    with pytest.raises(InputError, match="empty"):
        Deriver(mapped, type_of(mapped, atoms.signature), words)(" # ")


def test_rules_change_what_counts() -> None:
    lexicon = small_words().lexicon
    strict = Words(lexicon)
    first = Words(lexicon, Rules(senses="first"))
    limited = Words(lexicon, Rules(outputs="vocabulary"))
    assert strict.look("synonyms[eng]", "tree") == ("step",)
    assert strict.look("antonyms[eng]", "tree") == ("Little", "small")
    # tree as a step of a walk is the rarer sense.
    assert first.look("entailments[eng]", "tree") == ()
    assert strict.look("entailments[eng]", "tree") == ("go", "move")
    assert limited.look("antonyms[eng]", "tree") == ("small",)
    for words in (first, limited, Words(lexicon, Rules(inflections=False))):
        plain = PlainSolver(words)
        for name in (
            "synonyms[eng]",
            "hyponyms[eng]",
            "entailments[eng]",
            "translate[eng->spa]",
            "synonyms[spa]",
        ):
            table = words.relation(name)
            for number in everything(words, f"word[{name.partition('[')[2][:3]}]").tolist():
                text = words.texts[number]
                assert {words.texts[i] for i in table.row(number)} == plain.values(name, text), (
                    name,
                    text,
                )


@pytest.mark.parametrize("pairing", ["other", "any", "permutation"])
def test_random_relations(pairing: random_relations.Pairing) -> None:
    texts = [f"w{i:03}" for i in range(400)]
    hashes = random_relations.text_hashes(texts)
    vocabulary = np.arange(0, 400, 2, dtype=np.int32)
    drawn = [texts[i] for i in vocabulary]
    table = random_relations.relation("random3[eng]", hashes, vocabulary, pairing)
    other = random_relations.relation("random4[eng]", hashes, vocabulary, pairing)
    images = {texts[i]: [texts[j] for j in table.row(i)] for i in range(400)}
    for text, found in images.items():
        alone = random_relations.image("random3[eng]", text, drawn, pairing)
        assert found == ([] if alone is None else [alone])
        assert set(found) <= set(drawn)
    own = [images[t][0] for t in drawn]
    if pairing == "permutation":
        assert sorted(own) == drawn
        assert images["w001"] == []
    else:
        assert len(set(own)) < len(own)
        assert len(images["w001"]) == 1
    if pairing == "other":
        assert all(a != b for a, b in zip(own, drawn, strict=True))
    assert table.values.tolist() != other.values.tolist()


tables = st.lists(st.sets(st.integers(0, 9)), min_size=10, max_size=10)


def of(sets: list[set[int]]) -> Table:
    pairs = np.array([(i, v) for i, s in enumerate(sets) for v in s], dtype=np.int64).reshape(-1, 2)
    return Table.of_pairs(pairs[:, 0], pairs[:, 1], len(sets))


def sets_of(table: Table) -> list[set[int]]:
    rows = [table.row(i).tolist() for i in range(table.rows)]
    assert all(row == sorted(set(row)) for row in rows)
    return [set(row) for row in rows]


@given(
    tables, tables, st.lists(st.integers(0, 9)), st.lists(st.booleans(), min_size=10, max_size=10)
)
def test_table_operations_are_set_operations(
    a: list[set[int]], b: list[set[int]], rows: list[int], mask: list[bool]
) -> None:
    assert sets_of(of(a)) == a
    assert sets_of(of(a).union(of(b))) == [x | y for x, y in zip(a, b, strict=True)]
    assert sets_of(of(a).intersection(of(b))) == [x & y for x, y in zip(a, b, strict=True)]
    assert sets_of(of(a).after(of(b))) == [{z for y in x for z in a[y]} for x in b]
    assert sets_of(of(a).take(np.array(rows, dtype=np.int64))) == [a[i] for i in rows]
    assert sets_of(of(a).flipped(10)) == [{i for i in range(10) if j in a[i]} for j in range(10)]
    assert of(a).any(np.array(mask)).tolist() == [any(mask[v] for v in x) for x in a]
    closed = [set(x) for x in a]
    for _ in range(10):
        closed = [x | {z for y in x for z in closed[y]} for x in closed]
    assert sets_of(of(a).closure()) == closed


def test_composition_in_batches_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import taskloom.suites.taskbench.tables as module

    rng = np.random.Philox(key=5).random_raw
    pairs = (rng(4_000) % 300).astype(np.int64).reshape(-1, 2)
    table = Table.of_pairs(pairs[:, 0], pairs[:, 1], 300)
    whole = table.after(table)
    monkeypatch.setattr(module, "BATCH", 50)
    assert sets_of(table.after(table)) == sets_of(whole)


def test_an_added_atom_is_one_function_with_one_decorator() -> None:
    from taskloom.suites.taskbench import atom

    try:

        @atom("letters[eng]", one="a letter of {x}")
        def letters(word: str) -> set[str]:
            return set(word) - {" "}

        @atom("is_short[eng]", one="is short", many="is not short")
        def is_short(word: str) -> bool:
            return len(word) < 4

        words = Words(small_words().lexicon, own=("letters[eng]", "is_short[eng]"))
        tree = read("chain(letters[eng], antonyms[eng])")
        kind = type_of(tree, atoms.signature)
        assert Deriver(tree, kind, words)("Little").targets == tuple("abegilr")
        rows = np.array([words.numbers["Little"]], dtype=np.int32)
        assert {words.texts[i] for i in evaluator.values(tree, rows, words).row(0)} == set(
            "abegilr"
        )
        assert PlainSolver(words).relation(tree, "Little") == set("abegilr")
        rows = everything(words)
        short = {words.texts[i] for i in rows[evaluator.holds(read("is_short[eng]"), rows, words)]}
        assert short == {"big", "go", "oak", "run"}
        with pytest.raises(InputError):
            words.known_text("zzz", "word[eng]")
    finally:
        atoms.added().clear()


def test_an_atom_in_a_file_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One function with one decorator in a file: show and apply know it; make, verify and workers
    are in test_own_atoms.
    """
    from taskloom.cli import app

    file = tmp_path / "mine.py"
    file.write_text(
        "from taskloom.suites.taskbench import atom\n\n\n"
        '@atom("vowels[eng]", one="a vowel of {x}")\n'
        "def vowels(word: str) -> set[str]:\n"
        '    return {c for c in word if c in "aeiou"}\n'
    )
    name = f"{file}::taskbench/chain(vowels[eng], antonyms[eng])"
    try:
        assert app.run(["apply", name, "hot", "--json"]) == 0
        assert '"targets": ["o"]' in capsys.readouterr().out
        assert app.run(["show", f"{file}::taskbench/vowel[eng]"]) == 2
        assert "did you mean 'vowels[eng]'" in capsys.readouterr().err
    finally:
        atoms.added().pop("vowels[eng]", None)


def test_a_chain_with_too_many_paths_is_refused_before_they_are_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = small_words()
    tree = normal(read("chain(hyponyms[eng], inverse(hyponyms[eng]))"))
    rows = everything(words)
    paths = sum(
        len(PlainSolver(words).relation(read("hyponyms[eng]"), middle))
        for row in rows
        for middle in PlainSolver(words).relation(read("inverse(hyponyms[eng])"), words.texts[row])
    )
    assert paths > 1
    monkeypatch.setattr(evaluator, "MOST_PATHS", paths)
    evaluator.values(tree, rows, words)
    monkeypatch.setattr(evaluator, "MOST_PATHS", paths - 1)
    with pytest.raises(
        RecipeError, match=f"has {paths:,} paths from inputs to answers.*narrow one of them"
    ):
        evaluator.values(tree, rows, words)


def test_the_paths_of_all_steps_of_a_chain_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    words = small_words()
    rows = everything(words)
    pair = normal(read("chain(hyponyms[eng], hyponyms[eng])"))
    triple = normal(read("chain(hyponyms[eng], hyponyms[eng], hyponyms[eng])"))
    hyponyms = words.relation("hyponyms[eng]")
    first = int(hyponyms.counts[hyponyms.take(rows).values].sum())
    second = int(hyponyms.counts[evaluator.values(pair, rows, words).values].sum())
    assert first > 0
    assert second > 0
    monkeypatch.setattr(evaluator, "MOST_PATHS", first + second)
    evaluator.values(triple, rows, words)
    monkeypatch.setattr(evaluator, "MOST_PATHS", first + second - 1)
    with pytest.raises(RecipeError, match=f"has {first + second:,} paths"):
        evaluator.values(triple, rows, words)


@given(st.data())
def test_the_domain_is_known_before_the_answers_are(data: st.DataObject) -> None:
    words = small_words()
    source, target = data.draw(st.sampled_from(WORD_KINDS)), data.draw(st.sampled_from(WORD_KINDS))
    tree = normal(data.draw(relations(source, target)))
    solved = solve(tree, type_of(tree, atoms.signature), words)
    rows = words.vocabulary[language_of(source)]
    table = evaluator.values(tree, rows, words)
    assert solved.domain.tolist() == rows[table.counts > 0].tolist()
    assert [solved.answers.row(i).tolist() for i in range(len(solved.domain))] == [
        table.row(i).tolist() for i in range(table.rows) if len(table.row(i))
    ]


def test_planning_a_chain_does_not_compute_its_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, kind = read_typed("chain(hyponyms[eng], synonyms[eng])")
    words = small_words()
    relation = words.relation("hyponyms[eng]")
    with monkeypatch.context() as patch:
        patch.setattr(
            type(relation),
            "after",
            lambda *_: pytest.fail("computed although nobody asked for answers"),
        )
        solved = solve(normal(tree), kind, words)
    assert len(solved.domain) == solved.answers.rows > 0
