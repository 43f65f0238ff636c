"""The tasks of a recipe: the four generalizations, splits that share no program, recipes that
cannot be met.
"""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskloom.core.errors import RecipeError
from taskloom.core.seeding import Key, Random
from taskloom.recipe import read
from taskloom.suites.zest.fields import ZestFields, context
from taskloom.suites.zest.synthetic.algebra import answer, program_text
from taskloom.suites.zest.synthetic.described_tasks import overlap
from taskloom.suites.zest.synthetic.domain_files import domain_names, find_domain
from taskloom.suites.zest.synthetic.flip_groups import form, groups
from taskloom.suites.zest.synthetic.plan import check
from taskloom.suites.zest.synthetic.programs import Program, wordings
from taskloom.suites.zest.synthetic.task_world import TaskWorld, task_world
from taskloom.suites.zest.task_files import (
    CLASSIFICATION_WORDS,
    EXTRACTION_WORDS,
    PAPER,
    first_word,
)
from tests.suites.zest.synthetic.small_worlds import every_task, small


def test_a_question_stands_for_one_program(full: TaskWorld) -> None:
    programs: dict[tuple[str, str], set[str]] = {}
    for _, task in every_task(full):
        programs.setdefault((task.domain.name, task.question), set()).add(
            program_text(task.program)
        )
    assert all(len(p) == 1 for p in programs.values())
    assert len({t.id for _, t in every_task(full)}) == len(every_task(full))


@pytest.mark.parametrize("unseen", ["form", "program"])
def test_no_split_knows_a_program_of_another(full: TaskWorld, unseen: str) -> None:
    """Nor one that differs in a number or value only, unless the recipe says so."""
    world = (
        full
        if unseen == "form"
        else small(unseen=unseen, tasks={"train": 200, "dev": 60, "test": 200})
    )
    owners: dict[tuple[object, ...], str] = {}
    shared = 0
    for split, task in every_task(world):
        for leaf in (*task.program.leaves, task.program):
            assert owners.setdefault((task.domain.name, leaf), split) == split
        if task.kind != "combination":
            shared += owners.setdefault((task.domain.name, *form(task.program)), split) != split
    assert (shared == 0) == (unseen == "form")


def test_the_size_of_a_split_moves_no_other() -> None:
    few, many = (small(tasks={"train": n, "dev": 40, "test": 60}) for n in (40, 200))
    assert few.splits["dev"] == many.splits["dev"]
    assert few.splits["test"] == many.splits["test"]
    task = few.splits["test"][0]
    assert few.example(task, 1) == many.example(task, 1)


def test_a_flip_changes_at_least_half_of_the_answers(full: TaskWorld) -> None:
    """On its own passages the base task answers otherwise; every twelfth flip is looked at (all by
    `zest_new_tasks.py`).
    """
    flips = [(s, t) for s, t in every_task(full) if t.kind == "target_semantics"][::12]
    for split, task in flips:
        base = next(t for t in full.splits[split] if t.id == task.derives_from[0])
        changed = 0
        for i in range(full.passages):
            draft = full.passage(task, i)[1]
            one, other = (
                answer(t.domain, t.program, draft.main, draft.rules) for t in (task, base)
            )
            changed += one != other
        assert 2 * changed >= full.passages, (task.question, base.question)


def test_the_four_generalizations(full: TaskWorld) -> None:
    for found in full.splits.values():
        by_id = {t.id: t for t in found}
        overlaps: dict[str, list[float]] = {"paraphrase": [], "target_semantics": []}
        for task in found:
            bases = [by_id[b] for b in task.derives_from]
            assert all(b.kind == "normal" and b.domain is task.domain for b in bases)
            if task.kind == "paraphrase":
                assert task.program == bases[0].program
                assert task.question != bases[0].question
                assert task.source == bases[0].source
            elif task.kind == "target_semantics":
                assert task.program != bases[0].program
                assert task.program.yes_no == bases[0].program.yes_no
            if task.kind in overlaps:
                overlaps[task.kind].append(overlap(task.question, bases[0].question))
            elif task.kind == "combination":
                assert set(task.program.leaves) == {b.program for b in bases}
            elif task.kind == "structure":
                assert task.program.op in ("table", "pick")
                assert task.program.args[0] == bases[0].program.args[0]
            else:
                assert not bases
        # How many words a task shares with its base does not tell a paraphrase from a flip.
        assert mean(overlaps["paraphrase"]) == pytest.approx(
            mean(overlaps["target_semantics"]), abs=0.1
        )
        # The first one has derivatives of all four kinds, for people who look.
        assert {t.kind for t in found if found[0].id in t.derives_from} == {
            "paraphrase", "target_semantics", "combination", "structure",
        }  # fmt: skip


def test_a_paraphrase_has_the_passages_of_its_base() -> None:
    world = small()
    by_id = {t.id: t for _, t in every_task(world)}
    paraphrases = [t for _, t in every_task(world) if t.kind == "paraphrase"]
    assert paraphrases
    for task in paraphrases:
        one, other = world.example(task, 2), world.example(by_id[task.derives_from[0]], 2)
        assert context(one.input) == context(other.input)
        assert one.target == other.target


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 30))]
)
def test_small_recipes_are_possible(seed: int) -> None:
    """A draw of four base tasks may lack derivatives of one kind; then others are drawn."""
    made = small(seed, tasks={"train": 20, "dev": 20, "test": 20})
    assert [len(tasks) for tasks in made.splits.values()] == [20, 20, 20]


@pytest.mark.parametrize(
    ("sizes", "domains"),
    [
        ({"train": 200, "dev": 0, "test": 200}, ["parks"]),
        pytest.param(
            {split: 3 * int(row["tasks"]) for split, row in PAPER.items()},
            [],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["a domain of which more is asked than usual", "three times the default sizes"],
)
def test_more_tasks_than_the_usual_thresholds_give(
    sizes: dict[str, int], domains: list[str]
) -> None:
    """Attributes are compared with more numbers and values then; of one task in ten a passage is
    made and read again.
    """
    made = small(tasks=sizes, domains=domains, passages=20, unseen="program" if domains else "form")
    assert {split: len(tasks) for split, tasks in made.splits.items()} == sizes
    programs: dict[tuple[str, str], Program] = {}
    homes: dict[tuple[str, Program], str] = {}
    for split, task in every_task(made):
        assert programs.setdefault((task.domain.name, task.question), task.program) == task.program
        assert all(
            homes.setdefault((task.domain.name, leaf), split) == split
            for leaf in task.program.leaves
        )
    for _, task in every_task(made)[::10]:
        e = made.example(task, int(task.id, 16) % 20)
        assert check(e) == e.targets, e.input


def test_small_splits_share_their_domains() -> None:
    fields = ZestFields.model_validate(
        {"tasks": {"train": 40, "dev": 30, "test": 60}, "passages": 2}
    )
    for seed in range(5):
        found = {
            s: {t.domain.name for t in of}
            for s, of in task_world(fields, Key("x", seed)).splits.items()
        }
        assert found["train"] == found["dev"] < found["test"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (["domains=[parcs]"], "did you mean 'parks'"),
        (["domains=[parks]", "tasks.train=4000"], r"the domains \(parks\) have only"),
        (["flips=[attribute]"], "semantic flips"),
        (["tasks={train: 40, dev: 5, test: 40}"], "needs"),
        (["tasks={train: 40, dev: 1, test: 40}"], "tasks.dev=1 leaves no base task"),
        (["tasks.train=2", "shares.combination=1"], "tasks.train=2 leaves no base task"),
        (["composition_depth=1"], "within 2..3"),
        (["structure_width=0"], "at least 1"),
        (["na_rate=1.5"], "na_rate"),
        (["na_rate=.nan"], "na_rate"),
        (["classification=2"], "classification"),
        (["flips=[]"], "at least one kind"),
        (["na_rate=true"], "na_rate: write a number, not true"),
        (["tasks.train=true"], "train: write a number, not true"),
        (["shares.structure=.inf"], "finite"),
        (["flips=[value, value]"], "repeat a name"),
        (["flips=[direction]"], "lower shares.target_semantics to"),
        (["structure_width=21"], "outside"),
        (["composition_depth=4"], "within 2..3"),
        (["facts=-1"], "outside"),
        (["distractors=3..1"], "empty"),
        (["paraphrase=loud"], "near"),
        (["tasks.train=-1"], "greater than or equal to 0"),
        (["tasks.train=many"], "whole number"),
        (["pasages=3"], "did you mean 'passages'"),
        (["facts=8..3"], "empty"),
        (["domains=[parks,parks]"], "repeat a name"),
    ],
)
def test_impossible_recipes(changes: list[str], says: str) -> None:
    with pytest.raises(RecipeError, match=says):
        read("zest/synthetic", changes).plan(0)


@given(st.sampled_from(domain_names()), st.randoms(use_true_random=False))
def test_wordings_name_the_entity_and_end_as_questions(name: str, rng: Any) -> None:

    domain = find_domain(name)
    group = rng.choice(groups(domain, Random(rng.random())))
    for program in group.programs:
        forms = wordings(domain, program)
        assert len(set(forms)) == len(forms) >= 2
        for text in forms:
            assert domain.this in text
            assert first_word(text) in (
                CLASSIFICATION_WORDS if program.yes_no else EXTRACTION_WORDS
            ), text
            assert text.endswith("?")
            assert "{" not in text
