"""Procedural ZEST: answers, passages, the four generalizations, splits, purity and knobs."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from taskloom.errors import InputError, RecipeError
from taskloom.example import Example
from taskloom.recipe import read
from taskloom.seeding import Key
from taskloom.suites.taskbench.language import ExpressionError, show
from taskloom.suites.zest.dataset_statistics import PAPER, statistics
from taskloom.suites.zest.evaluation import score
from taskloom.suites.zest.fields import ZestFields
from taskloom.suites.zest.layout import context
from taskloom.suites.zest.synthetic import passage_reader, second_solver
from taskloom.suites.zest.synthetic.algebra import expression, program_text
from taskloom.suites.zest.synthetic.answer_mix import (
    answered,
    mixes,
    settled_counts,
    settled_share,
    spread_answers,
)
from taskloom.suites.zest.synthetic.described_tasks import DescribedTask
from taskloom.suites.zest.synthetic.domain_catalog import domain_names, find_domain
from taskloom.suites.zest.synthetic.domain_check import problems as domain_problems
from taskloom.suites.zest.synthetic.flip_groups import flip_of
from taskloom.suites.zest.synthetic.plan import check, plan
from taskloom.suites.zest.synthetic.programs import Program, wordings
from taskloom.suites.zest.synthetic.task_world import TaskWorld, answer_kinds, task_world, zest_tasks
from taskloom.suites.zest.task_files import (
    CLASSIFICATION_WORDS,
    EXTRACTION_WORDS,
    Instance,
    ZestTask,
    first_word,
    problems,
    read_tasks,
    task_of,
    write_tasks,
)

SMALL: dict[str, Any] = {"tasks": {"train": 120, "dev": 60, "test": 120}, "passages": 4}


def small(seed: int = 0, **changes: Any) -> TaskWorld:
    fields = ZestFields.model_validate(SMALL | changes)
    return task_world(fields, Key("small", seed))


def every_task(made: TaskWorld) -> list[tuple[str, DescribedTask]]:
    return [(split, task) for split, found in made.splits.items() for task in found]


def examples(made: TaskWorld) -> list[Example]:
    return [made.example(t, i) for _, t in every_task(made) for i in range(made.passages)]


@pytest.fixture(scope="module")
def full() -> TaskWorld:
    """The default recipe."""
    recipe = read("zest/synthetic")
    fields = recipe.fields
    assert isinstance(fields, ZestFields)
    return task_world(fields, Key(recipe.digest, 0))


@pytest.fixture(scope="module")
def made_full(full: TaskWorld) -> dict[str, list[Example]]:
    return {s: [full.example(t, i) for t in ts for i in range(full.passages)] for s, ts in full.splits.items()}


def test_the_reader_agrees_on_every_answer_of_the_default_recipe(made_full: dict[str, list[Example]]) -> None:
    for found in made_full.values():
        for e in found:
            assert check(e) == e.targets, e.input


@pytest.mark.parametrize("seed", range(3))
def test_the_reader_agrees_under_other_seeds_and_knobs(seed: int) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"composition_depth": "2..3", "facts": "3..6"},
        {"distractors": "0..8", "na_rate": 0.3},
    ]
    for e in examples(small(seed, **changes[seed])):
        assert check(e) == e.targets, e.input


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10, 30))
def test_the_reader_agrees_under_many_seeds(seed: int) -> None:
    for e in examples(small(seed, passages=20, composition_depth="2..3")):
        assert check(e) == e.targets, e.input


def test_the_reader_reads_the_text_and_nothing_else() -> None:
    made = small()
    changed = 0
    for _, task in every_task(made):
        if task.program.op != "value" or task.domain.name != "parks" or task.program.args[0] != "area":
            continue
        for i in range(made.passages):
            e = made.example(task, i)
            if e.target.endswith("acres"):
                other = Example(e.input.replace(e.target, "77,700 acres"), e.targets, e.traits)
                assert check(other) == ("77,700 acres",)
                changed += 1
    program = Program("value", ("area",))
    parks = find_domain("parks")
    text = "Echo Basin covers 9,000 acres. Larch Mesa covers 5,000 acres. It was opened in 1911."
    assert second_solver.solve(parks, program_text(program), text) == "9,000 acres"
    assert second_solver.solve(parks, "opened", text) == "n/a"
    rule = "Echo Basin lies in the Lake District. All parks of the {} close in winter."
    assert second_solver.solve(parks, "is{winter=yes}", rule.format("Lake District")) == "no"
    assert second_solver.solve(parks, "is{winter=yes}", rule.format("River District")) == "n/a"
    with pytest.raises(InputError, match="does not understand"):
        passage_reader.read(parks, "Echo Basin covers 9,000 acres. Echo Basin sings at night.")


@pytest.mark.parametrize("name", domain_names())
def test_every_domain_is_sound(name: str) -> None:
    """Every clause says one thing to the reader, every question names the entity, kin is mutual."""
    assert domain_problems(find_domain(name)) == []


def test_table_2(made_full: dict[str, list[Example]]) -> None:
    """Within 10 % of the paper's proportions (words, n/a, classification), and its numbers of tasks exactly."""
    for split, paper in PAPER.items():
        by_task: dict[str, list[Example]] = {}
        for e in made_full[split]:
            by_task.setdefault(e.task, []).append(e)
        tasks = [
            replace(task_of(es), instances=tuple(Instance(context(e.input), e.target) for e in es))
            for es in by_task.values()
        ]
        found = statistics(tasks).to_dict()
        assert found["tasks"] == paper["tasks"]
        for row in ("pairs", "passage_words", "task_words", "na", "classification"):
            assert found[row] == pytest.approx(paper[row], rel=0.1), (split, row, found[row], paper[row])


def test_all_na_scores_as_in_the_paper(full: TaskWorld) -> None:
    """Section 6: one dev task is n/a throughout, so predicting n/a everywhere is worth about 1 / 1 / 1."""
    dev = zest_tasks(full, "dev")
    said = ["n/a"] * sum(len(t.instances) for t in dev)
    for mode in ("official", "corrected"):
        found = score(dev, said, mode)
        assert [t.f1 for t in found.tasks].count(1.0) == sum(i == 0 for i in _answered(full, "dev")) >= 1
        assert all(0 < value < 0.02 for value in found.overall.values())


def _answered(made: TaskWorld, split: str) -> list[int]:
    return [made.mixes[t.source].answered for t in made.splits[split]]


def test_passages_and_questions(made_full: dict[str, list[Example]]) -> None:
    for found in made_full.values():
        for e in found:
            assert 60 <= len(context(e.input).split()) <= 180
            assert first_word(e.question) in EXTRACTION_WORDS | CLASSIFICATION_WORDS
            if e.traits["answer_type"] in ("span", "list") and e.traits["operation"] != "both":
                assert all(part.lower() in context(e.input).lower() for part in e.target.split("|"))
        evidence = Counter(e.traits["evidence"] for e in found)
        assert min(evidence[k] for k in ("stated", "implied", "absent")) > 0
        yes_no = Counter(e.target for e in found if e.traits["format"] == "classification")
        # As in the nine real yes/no tasks: 54 answers are yes and 17 no.
        assert yes_no["yes"] / (yes_no["yes"] + yes_no["no"]) == pytest.approx(54 / 71, abs=0.05)


def test_a_question_stands_for_one_program(full: TaskWorld) -> None:
    programs: dict[tuple[str, str], set[str]] = {}
    for _, task in every_task(full):
        programs.setdefault((task.domain.name, task.question), set()).add(program_text(task.program))
    assert all(len(p) == 1 for p in programs.values())
    assert len({t.id for _, t in every_task(full)}) == len(every_task(full))


def test_programs_are_expressions_of_the_language_of_functions(full: TaskWorld) -> None:
    """Each is read back to itself, by atoms of its domain and operators of the language; different programs look different."""
    texts: dict[tuple[str, str], Program] = {}
    for _, task in every_task(full):
        text = program_text(task.program)
        assert second_solver.parse_program(task.domain, text) == expression(task.program)
        assert show(second_solver.parse_program(task.domain, text)) == text
        assert texts.setdefault((task.domain.name, text), task.program) == task.program
    used = {word for _, text in texts for word in re.findall(r"(\w+)\(", text)}
    assert used == {"chain", "filter", "land", "lor", "map", "union"}
    with pytest.raises(ExpressionError, match="unknown atom"):
        second_solver.parse_program(find_domain("parks"), "chain(is{surface=gravel}, bridge)")


def test_no_split_knows_a_program_of_another(full: TaskWorld) -> None:
    seen: dict[tuple[str, Program], str] = {}
    for split, task in every_task(full):
        for leaf in (*task.program.leaves, task.program):
            assert seen.setdefault((task.domain.name, leaf), split) == split


def test_no_passage_is_in_two_splits_or_two_seeds(made_full: dict[str, list[Example]]) -> None:
    texts = {split: {context(e.input) for e in found} for split, found in made_full.items()}
    other = {context(e.input) for e in examples(small(1))}
    assert not texts["train"] & texts["test"]
    assert not texts["train"] & texts["dev"]
    assert not texts["dev"] & texts["test"]
    assert not other & (texts["train"] | texts["dev"] | texts["test"])


def test_the_four_generalizations(full: TaskWorld) -> None:
    for found in full.splits.values():
        by_id = {t.id: t for t in found}
        edits = []
        for task in found:
            bases = [by_id[b] for b in task.derives_from]
            assert all(b.kind == "normal" and b.domain is task.domain for b in bases)
            if task.kind == "paraphrase":
                assert task.program == bases[0].program
                assert task.question != bases[0].question
                assert full.passage(task, 3)[0] == full.passage(bases[0], 3)[0]
                assert full.example(task, 3).target == full.example(bases[0], 3).target
            elif task.kind == "target_semantics":
                assert task.program != bases[0].program
                assert task.program.yes_no == bases[0].program.yes_no
                edits.append(changed_words(task.question, bases[0].question))
            elif task.kind == "combination":
                assert set(task.program.leaves) == {b.program for b in bases}
            elif task.kind == "structure":
                assert task.program.op in ("table", "pick")
                assert task.program.args[0] == bases[0].program.args[0]
            else:
                assert not bases
        assert sum(edits) / len(edits) < 2
        # The first one has derivatives of all four kinds, for people who look.
        assert {t.kind for t in found if found[0].id in t.derives_from} == {
            "paraphrase", "target_semantics", "combination", "structure",
        }  # fmt: skip


def changed_words(one: str, other: str) -> int:
    a, b = Counter(one.lower().split()), Counter(other.lower().split())
    return max((a - b).total(), (b - a).total())


def test_rows_are_pure() -> None:
    fields = ZestFields.model_validate(SMALL)
    first, again = plan(fields, Key("x", 1)), plan(fields, Key("x", 1))
    rows = list(first.split("dev").rows(0, 40))
    assert list(again.split("dev").rows(17, 23)) == rows[17:23]
    assert [e.input for e in plan(fields, Key("x", 2)).split("dev").rows(0, 40)] != [e.input for e in rows]


GOLDEN = "ed3f14957120a1fc5fe798b31eac8cb8"
"""The digest of a small recipe. When it changes, the suite's version must be raised: the same recipe gives other data."""


def test_the_same_data_under_every_hash_seed_and_release() -> None:
    code = (
        "import json; from taskloom.recipe import read; from hashlib import blake2b;"
        "p = read('zest/synthetic', ['tasks.train=60', 'tasks.dev=60', 'tasks.test=60', 'passages=2']).plan(3);"
        "rows = [[e.task, e.input, e.targets, dict(e.traits), [[s.rule, s.value, s.of] for s in e.derivation]]"
        " for s in p.splits for e in s.rows(0, 60)];"
        "print(blake2b(json.dumps(rows).encode(), digest_size=16).hexdigest())"
    )
    found = set()
    for seed in ("0", "1"):
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert found == {GOLDEN + "\n"}


@pytest.mark.parametrize("seed", range(30))
def test_small_recipes_are_possible(seed: int) -> None:
    """A draw of four base tasks may lack derivatives of one kind; then others are drawn."""
    made = small(seed, tasks={"train": 20, "dev": 20, "test": 20})
    assert [len(tasks) for tasks in made.splits.values()] == [20, 20, 20]


def test_three_times_the_default_sizes() -> None:
    """Attributes are compared with more numbers and values then; one question in forty is made and read again."""
    made = small(tasks={split: 3 * row["tasks"] for split, row in PAPER.items()}, passages=20)
    assert [len(found) for found in made.splits.values()] == [1_614, 342, 1_797]
    asked: dict[tuple[str, str], Program] = {}
    seen: dict[tuple[str, Program], str] = {}
    for split, task in every_task(made):
        assert asked.setdefault((task.domain.name, task.question), task.program) == task.program
        assert all(seen.setdefault((task.domain.name, leaf), split) == split for leaf in task.program.leaves)
    for _, task in every_task(made)[::2]:
        e = made.example(task, int(task.id, 16) % 20)
        assert check(e) == e.targets, e.input


def test_small_splits_share_their_domains() -> None:
    fields = ZestFields.model_validate({"tasks": {"train": 40, "dev": 30, "test": 60}, "passages": 2})
    for seed in range(5):
        found = {s: {t.domain.name for t in of} for s, of in task_world(fields, Key("x", seed)).splits.items()}
        assert found["train"] == found["dev"] < found["test"]


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_na_rate(rate: float) -> None:
    found = examples(small(na_rate=rate, passages=10))
    assert sum(e.target == "n/a" for e in found) / len(found) == pytest.approx(rate, abs=0.03)


@pytest.mark.parametrize(("size", "classification"), [(20, 1.0), (40, None), (120, 0.3)])
def test_na_rate_is_met_in_every_split_whatever_its_size(size: int, classification: float | None) -> None:
    changes = {"tasks": {"train": size, "dev": size, "test": size}, "classification": classification}
    made = small(3, **changes)
    for rate, passages in product((0.0, 0.005, 0.05, 0.3, 0.62, 0.9, 0.99, 1.0), (1, 2, 5, 20, 50)):
        fields = ZestFields.model_validate(changes | {"na_rate": rate, "passages": passages})
        found = spread_answers(made.splits, fields, made.key)
        for tasks in made.splits.values():
            silent = sum(passages - found[t.source].answered for t in tasks)
            assert silent == pytest.approx(rate * size * passages, abs=max(2, 0.01 * size * passages))


def test_knobs() -> None:
    only = small(domains=["parks", "towns"], tasks={"train": 60, "dev": 0, "test": 60})
    assert {t.domain.name for _, t in every_task(only)} == {"parks", "towns"}
    assert only.splits["dev"] == []
    deep = small(composition_depth=3)
    assert all(len(t.program.leaves) == 3 for _, t in every_task(deep) if t.kind == "combination")
    narrow = small(structure_width=1)
    assert {len(json.loads(e.target)[0]) for e in examples(narrow) if e.traits["answer_type"] == "structure"} == {2}
    for flip, share in (("direction", 0.08), ("value", 0.06), ("attribute", 0.01)):
        made = small(flips=[flip], shares={"target_semantics": share}, tasks={"train": 300, "dev": 0, "test": 0})
        by_id = {t.id: t for _, t in every_task(made)}
        flips = [t for _, t in every_task(made) if t.kind == "target_semantics"]
        assert flips
        assert {flip_of(by_id[t.derives_from[0]].program, t.program) for t in flips} == {flip}
    words = {d: _mean_overlap(small(paraphrase=d)) for d in ("near", "far")}
    assert words["near"] > words["far"] + 0.05
    sparse, dense = small(facts=3, distractors=0), small(facts="8..10", distractors=5)
    lengths = [sum(e.input.count(" ") for e in examples(m)) for m in (sparse, dense)]
    assert lengths[0] * 1.2 < lengths[1]


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("domains", ["parks", "dogs"]),
        ("facts", "2..4"),
        ("distractors", "0..1"),
        ("paraphrase", "far"),
        ("flips", ["value"]),
        ("composition_depth", "3"),
        ("structure_width", "1"),
        ("na_rate", 0.4),
        ("classification", 0.3),
        ("passages", 3),
        ("shares", {"structure": 0.05}),
        ("layout", "bart"),
    ],
)
def test_every_knob_changes_the_data(knob: str, value: Any) -> None:
    def rows(made: TaskWorld) -> list[tuple[str, str]]:
        return [(e.input, e.target) for e in examples(made)]

    plain = small(tasks={"train": 60, "dev": 0, "test": 0})
    assert rows(plain) == rows(small(tasks={"train": 60, "dev": 0, "test": 0}))
    assert rows(plain) != rows(small(**{"tasks": {"train": 60, "dev": 0, "test": 0}, knob: value}))


@pytest.mark.parametrize("depth", [2, 3])
def test_composition_depth_is_the_number_of_joined_tasks(depth: int) -> None:
    made = small(composition_depth=depth)
    joined = [t for _, t in every_task(made) if t.kind == "combination"]
    assert {len(t.derives_from) for t in joined} == {depth}
    assert {len(t.program.leaves) for t in joined} == {depth}
    for e in examples(made):
        assert check(e) == e.targets


@pytest.mark.parametrize("width", [1, 2])
def test_structure_width_is_the_number_of_columns(width: int) -> None:
    made = small(structure_width=width)
    tables = [json.loads(e.target) for e in examples(made) if e.traits["answer_type"] == "structure"]
    assert {len(row) - 1 for rows in tables for row in rows} == {width}


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_classification_share(share: float) -> None:
    made = small(classification=share)
    for tasks in made.splits.values():
        assert sum(t.format == "classification" for t in tasks) == pytest.approx(share * len(tasks), abs=1)


@given(st.integers(1, 200), st.integers(1, 40), st.floats(0, 1), st.integers(0, 3))
def test_mixes_meet_the_rate(tasks: int, passages: int, rate: float, silent: int) -> None:
    wanted = round(tasks * passages * (1 - rate))
    found = answered(tasks, passages, wanted, silent)
    assert all(0 <= n <= passages for n in found)
    assert sum(found) == wanted
    speaking = max(0, tasks - silent)
    if speaking <= wanted <= speaking * (passages - 1):
        assert sum(n == 0 for n in found) == tasks - speaking
        assert max(found, default=0) < passages


def test_yes_and_no_are_equally_many_but_not_in_every_task() -> None:
    names = [str(i) for i in range(200)]
    found = mixes(names, [], 20, 1_520, 2, Key("x"))
    yes, all_ = sum(m.yes for m in found.values()), sum(m.answered for m in found.values())
    assert yes == pytest.approx(all_ / 2, rel=0.02)
    alike = [m for m in found.values() if m.answered > 3 and m.yes in (0, m.answered)]
    assert 0.1 * 200 < len(alike) < 0.4 * 200
    assert [m.answered for m in found.values()].count(0) == 2


@given(st.integers(1, 120), st.integers(1, 40), st.floats(0.001, 0.999), st.data())
def test_settled_tasks_leave_the_rate_as_it_is(tasks: int, passages: int, rate: float, data: st.DataObject) -> None:
    settled = settled_counts(data.draw(st.integers(0, int(settled_share(rate) * tasks))), passages, rate)
    wanted = round(tasks * passages * (1 - rate))
    names = [str(i) for i in range(tasks)]
    found = mixes(names, settled, passages, wanted - sum(settled), 0, Key("x"))
    assert all(0 <= m.yes <= m.answered <= passages for m in found.values())
    assert sorted(found[name].yes for name in names[: len(settled)]) == sorted(settled)
    assert all(0 < n <= passages for n in settled)
    # A settled task has a whole number of answers: with few passages the others may not be able to make up for it.
    assert abs(sum(m.answered for m in found.values()) - wanted) <= len(settled)


@pytest.mark.parametrize("seed", range(6))
def test_descriptions_alone_do_as_well_as_in_table_5(seed: int) -> None:
    """The paper's question-only T5 has 12 / 10 / 7 on dev; saying yes to every yes/no question is what can be known here."""
    recipe = read("zest/synthetic")
    assert isinstance(recipe.fields, ZestFields)
    made = task_world(recipe.fields, Key(recipe.digest, seed))
    tasks, said = [], []
    for line, t in enumerate(made.splits["dev"], start=1):
        wanted = answer_kinds(made.key, t.source, t.program.yes_no, made.passages, made.mixes[t.source])
        answers = ["n/a" if k == "na" else "park" if k == "answer" else k for k in wanted]
        instances = tuple(Instance("", answer) for answer in answers)
        tasks.append(ZestTask(t.id, t.question, t.kind, t.derives_from, t.domain.name, instances, line))
        said += ["yes" if t.program.yes_no else "n/a"] * len(answers)
    mean, most, nearly_all = (100 * value for value in score(tasks, said, "corrected").overall.values())
    assert mean == pytest.approx(12, abs=3)
    assert most == pytest.approx(10, abs=3)
    assert nearly_all == pytest.approx(7, abs=3)


@pytest.mark.parametrize("seed", range(1, 13))
def test_table_2_under_other_seeds(seed: int) -> None:
    """What the seed can move without a passage being written: output types, words of the descriptions, n/a."""
    recipe = read("zest/synthetic")
    assert isinstance(recipe.fields, ZestFields)
    made = task_world(recipe.fields, Key(recipe.digest, seed))
    for split, paper in PAPER.items():
        tasks = made.splits[split]
        words = sum(t.question.count(" ") + 1 for t in tasks) / len(tasks)
        silent = sum(made.passages - made.mixes[t.source].answered for t in tasks) / (len(tasks) * made.passages)
        yes_no = sum(t.format == "classification" for t in tasks) / len(tasks)
        found = {"task_words": words, "na": silent, "classification": yes_no}
        for row, value in found.items():
            assert value == pytest.approx(paper[row], rel=0.1), (split, row, value, paper[row])
        assert yes_no == pytest.approx(paper["classification"], abs=0.02)
        # n/a throughout is right where nothing answers, but not where a base task counts as well.
        assert not any(t.kind == "target_semantics" and made.mixes[t.source].answered == 0 for t in tasks)


def _mean_overlap(made: TaskWorld) -> float:
    by_id = {t.id: t for _, t in every_task(made)}
    pairs = [(t.question, by_id[t.derives_from[0]].question) for _, t in every_task(made) if t.kind == "paraphrase"]
    shared = [len(set(a.split()) & set(b.split())) / len(set(a.split()) | set(b.split())) for a, b in pairs]
    return sum(shared) / len(shared)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (["domains=[parcs]"], "did you mean 'parks'"),
        (["domains=[parks]", "tasks.train=4000"], r"the domains \(parks\) have only"),
        (["flips=[attribute]"], "semantic flips"),
        (["tasks.dev=5"], "asks for"),
        (["tasks.dev=1"], "tasks.dev=1 leaves no base task"),
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
        (["flips=[value, value]"], "twice"),
        (["flips=[direction]"], "lower shares.target_semantics to"),
        (["structure_width=21"], "outside"),
        (["composition_depth=4"], "within 2..3"),
        (["facts=-1"], "outside"),
        (["distractors=3..1"], "empty"),
        (["paraphrase=loud"], "near"),
        (["tasks.train=-1"], "greater than or equal to 0"),
        (["tasks.train=many"], "integer"),
        (["pasages=3"], "did you mean 'passages'"),
        (["facts=8..3"], "empty"),
        (["domains=[parks,parks]"], "twice"),
    ],
)
def test_impossible_recipes(changes: list[str], says: str) -> None:
    with pytest.raises(RecipeError, match=says):
        read("zest/synthetic", changes).plan(0)


@pytest.mark.parametrize("mode", ["official", "corrected"])
def test_the_evaluation_knows_the_generated_files(mode: str, tmp_path: Path) -> None:
    made = small()
    write_tasks(tmp_path / "dev.jsonl", zest_tasks(made, "dev"))
    tasks = read_tasks(tmp_path / "dev.jsonl")
    assert problems(tasks) == []
    right = [str(i.answer) for t in tasks for i in t.instances]
    (tmp_path / "pred.txt").write_text("\n".join(right), encoding="utf-8")
    report = score(tmp_path / "dev.jsonl", tmp_path / "pred.txt", mode)
    assert report.overall == {"mean": 1.0, "75": 1.0, "90": 1.0}
    assert report.differences["instances"] == 0
    nothing = score(tasks, ["n/a"] * len(right), mode)
    all_na = sum(all(i.answer == "n/a" for i in t.instances) for t in tasks)
    assert sum(t.f1 for t in nothing.tasks) == all_na


def test_scorer_of_the_plan() -> None:
    made = plan(ZestFields.model_validate(SMALL), Key("x", 1))
    for e in made.split("train").rows(0, 60):
        assert made.scorer.score(e.target, e) == 1.0
        assert made.scorer.score("nonsense", e) < 1.0
        assert made.scorer.explain(e.target, e).startswith("right")


def test_show_puts_a_family_side_by_side() -> None:
    made = plan(ZestFields.model_validate(SMALL), Key("x", 1))
    assert made.show is not None
    console = Console(width=240, record=True, file=io.StringIO())
    console.print(made.show(next(iter(made.split("train").rows(0, 1)))))
    text = console.export_text()
    for name in (
        "base (this)",
        "paraphrase",
        "semantic flips",
        "composition",
        "output structure",
        "(as the base task)",
    ):
        assert name in text
    # The example itself may be n/a; the derivatives with passages of their own show an answer where they have one.
    answers = [cell.strip() for cell in next(line for line in text.splitlines() if "│ answer" in line).split("│")[3:-1]]
    assert len(answers) == 4
    assert all(answer != "n/a" for answer in answers[1:])


@given(st.sampled_from(domain_names()), st.randoms(use_true_random=False))
def test_wordings_name_the_entity_and_end_as_questions(name: str, rng: Any) -> None:
    from taskloom.seeding import Random
    from taskloom.suites.zest.synthetic.flip_groups import groups

    domain = find_domain(name)
    group = rng.choice(groups(domain, Random(rng.random())))
    for program in group.programs:
        forms = wordings(domain, program)
        assert len(set(forms)) == len(forms) >= 2
        for text in forms:
            assert domain.this in text
            assert first_word(text) in (CLASSIFICATION_WORDS if program.yes_no else EXTRACTION_WORDS), text
            assert text.endswith("?")
            assert "{" not in text
