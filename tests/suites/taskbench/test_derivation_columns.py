"""Derivations of rows: every value follows from the ones before it, and the last one is the
official answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.core import shards
from taskloom.core.example import Answer, Example, Step
from taskloom.data import make as making
from taskloom.data.audit import audit
from taskloom.recipe import read
from taskloom.suites.taskbench.evaluation import evaluator
from taskloom.suites.taskbench.evaluation.derivation_columns import WordPaths, outline
from taskloom.suites.taskbench.evaluation.evaluator import FunctionTable
from taskloom.suites.taskbench.evaluation.second_solver import PlainSolver
from taskloom.suites.taskbench.language import Type, normal, read_typed
from taskloom.suites.taskbench.language.operators import Atom, Inverse
from taskloom.suites.taskbench.language.types import language_of
from taskloom.verbs import answerer
from tests.slow import slow_except

from .strategies import WORD_KINDS, relations, small_words

PEOPLE = "facts=synthetic#people=1500"


def rows(name: str, *changes: str, split: str = "train", most: int = 150) -> list[Example]:
    made = read(f"taskbench/{name}", [PEOPLE, "sequences.n=100", "minimum=1", *changes]).plan(0)
    part = made.split(split)
    return list(
        shards.to_examples(shards.to_table(part.rows(0, min(part.n, most)), 0, made.traits))
    )


@lru_cache(maxsize=64)
def single(rule: str) -> Callable[[str], Answer]:
    return answerer(f"taskbench/{rule}", [PEOPLE])


def follows(step: Step, steps: tuple[Step, ...], given: str, place: int | None) -> bool:
    """Whether an atom gives a step's value at the value before it, by the answers to single
    inputs.
    """

    def at(value: str) -> str:
        return value if place is None else value.split(" | ")[place]

    rule = step.rule.removeprefix("map(").removesuffix(")") if place is not None else step.rule
    value = at(step.value)
    used = [at(steps[i].value) for i in step.of or ()]
    if not value:
        return True
    if rule == "union":
        return value in used
    if rule == "intersection":
        return set(used) == {value}
    if rule == "difference":
        return used == [value, ""]
    if rule.startswith("filter("):
        return True
    return value in single(rule)(used[0] if used else given).targets


WORDS = [
    "antonyms[eng]",
    "chain(antonyms[eng], hyponyms[eng])",
    "chain(hyponyms[eng], antonyms[eng], synonyms[eng])",
    "union(antonyms[eng], chain(synonyms[eng], entailments[eng]))",
    "intersection(hyponyms[eng], synonyms[eng])",
    "chain(union(antonyms[eng], random0[eng]), hypernyms[eng])",
    "chain(inverse(entailments[eng]), synonyms[eng])",
    "chain(occupation, father)",
    "chain(mother, union(father, mother))",
    "union(father, chain(father, mother))",
    "intersection(union(father, mother), child.inv)",
    "chain(synonyms[eng], label, occupation)",
    "difference(union(antonyms[eng], synonyms[eng]), chain(hyponyms[eng], antonyms[eng]))",
    "difference(chain(occupation, father), occupation)",
]


@pytest.mark.parametrize("name", slow_except(WORDS, *WORDS[1::3]))
def test_every_step_follows_from_those_before(name: str) -> None:
    tree = normal(read_typed(name)[0])
    examples = rows(name, most=40)
    assert examples
    for example in examples:
        steps = example.derivation
        assert [(s.rule, s.of) for s in steps] == outline(tree)
        assert steps[-1].value == example.target
        assert all(follows(s, steps, example.input, None) for s in steps), example


@pytest.mark.parametrize(
    "name",
    [
        "map(chain(antonyms[eng], hyponyms[eng]), filter(is_pos_noun[eng]))",
        "map(union(father, mother))",
        "map(father)",
    ],
)
def test_steps_of_sequences_are_sequences(name: str) -> None:
    for example in rows(name, "sequences.separators=true", most=15):
        steps = example.derivation
        assert steps[-1].value.replace(" | ", " # ") == example.target
        items = (
            steps[0].value
            if steps[0].rule.startswith("filter")
            else example.input.replace(" # ", " | ")
        ).split(" | ")
        assert all(follows(s, steps, item, i) for i, item in enumerate(items) for s in steps)


@pytest.mark.parametrize(
    "name",
    [
        "land(is_pos_noun[eng], lnot(is_pos_verb[eng]))",
        "chain(is_pos_noun[eng], antonyms[eng])",
        "lor(is_occupation_actor, is_birthplace_la)",
        "chain(is_occupation_actor, father)",
        "is{place_of_birth=Q84}",
    ],
)
def test_predicates_end_with_their_truth(name: str) -> None:
    seen = set()
    for example in rows(name, most=60):
        steps = example.derivation
        assert steps[-1].value == example.target
        truths = [s.value == "true" for s in steps[:-1]]
        if steps[-1].rule == "land":
            assert all(steps[i].value == "true" for i in steps[-1].of or ()) == (
                example.target == "true"
            )
        if steps[-1].rule == "lor":
            assert any(truths) == (example.target == "true")
        seen.add(example.target)
    assert seen == {"true", "false"}


def test_rows_whose_labels_were_shuffled_have_no_derivation() -> None:
    assert {e.derivation for e in rows("antonyms[eng]", "labels=permuted")} == {()}


def test_balanced_unions_derive_by_their_own_side() -> None:
    for example in rows("union(antonyms[eng], synonyms[eng])", "balanced=true"):
        (step,) = example.derivation
        assert (step.rule, step.value) == (example.traits["side"], example.target)


def test_the_audit_measures_divergence(tmp_path: Path) -> None:
    functions = (
        "functions=['antonyms[eng]', 'chain(antonyms[eng], hyponyms[eng])', 'map(synonyms[eng])']"
    )
    changes = [functions, "sequences.n=400", "few_shot=null", "answers=false"]
    making.make("taskbench/english", tmp_path / "x", set=changes)
    found = {d.split: d for d in audit(tmp_path / "x").divergence}
    assert found.keys() == {"dev", "test"}
    assert all(d.atoms < 0.01 and d.unseen_compounds == 0 for d in found.values())


@given(st.data())
def test_every_path_of_any_relation_is_walked_by_plain_sets(data: st.DataObject) -> None:
    """In a small world, for every pair of every relation that the language can say, against the
    second solver.
    """
    words = small_words()
    plain = PlainSolver(words)
    source, target = data.draw(st.sampled_from(WORD_KINDS)), data.draw(st.sampled_from(WORD_KINDS))
    tree = normal(data.draw(relations(source, target)))
    inputs = words.vocabulary[language_of(source)]
    table = evaluator.values(tree, inputs, words)
    xs, ys = inputs[table.owners()], table.values
    steps = outline(tree)
    solved = FunctionTable(
        "x", Type("relation", source, target), words.shown, words.shown, inputs, table, inputs[:0]
    )
    columns = [
        [t.replace(" ", "_") for t in c.to_pylist()]
        for c in WordPaths(words).columns(tree, solved, xs, ys)
    ]
    assert len(columns) == len(steps)
    for row, (x, y) in enumerate(zip(xs.tolist(), ys.tolist(), strict=True)):
        values = [column[row] for column in columns]
        assert values[-1] == words.texts[y]
        for (rule, of), value in zip(steps, values, strict=True):
            used = [values[i] for i in of]
            if rule == "difference":
                assert value == used[0]
                assert used[1] == ""
            elif rule in ("union", "intersection"):
                assert value == "" or (value in used and (rule == "union" or set(used) == {value}))
            elif value:
                atom = Inverse((Atom(rule[:-4]),)) if rule.endswith(".inv") else Atom(rule)
                assert value in plain.relation(atom, used[0] if used else words.texts[x])
