"""Procedural ZEST has the proportions of the paper: Table 2, Table 5, the shares of n/a and of
yes.
"""

from __future__ import annotations

from collections import Counter

import pytest

from taskloom.core.example import Example
from taskloom.core.seeding import Key
from taskloom.recipe import read
from taskloom.suites.zest.evaluation import score
from taskloom.suites.zest.fields import ZestFields, context
from taskloom.suites.zest.synthetic.described_tasks import DescribedTask
from taskloom.suites.zest.synthetic.task_world import TaskWorld, answer_kinds, task_world
from taskloom.suites.zest.task_files import (
    CLASSIFICATION_WORDS,
    EXTRACTION_WORDS,
    PAPER,
    Instance,
    ZestTask,
    first_word,
    statistics,
)

ANSWERS = {"na": "n/a", "answer": "park", "yes": "yes", "no": "no"}
"""An answer of each kind, for tasks whose passages are not written."""


def default(seed: int) -> TaskWorld:
    recipe = read("zest/synthetic")
    assert isinstance(recipe.fields, ZestFields)
    return task_world(recipe.fields, Key(recipe.digest, seed))


def without_passages(world: TaskWorld, split: str) -> list[ZestTask]:
    """The tasks of a split with the kinds of their answers, which are settled before a passage is
    written.
    """
    return [
        ZestTask(
            t.id, t.question, t.kind, t.derives_from, t.domain.name, _instances(world, t), line
        )
        for line, t in enumerate(world.splits[split], start=1)
    ]


def _instances(world: TaskWorld, task: DescribedTask) -> tuple[Instance, ...]:
    kinds = answer_kinds(
        world.key, task.source, task.program.yes_no, world.passages, world.mixes[task.source]
    )
    answers = {**ANSWERS, "answer": '[{"park": "x"}]'} if task.kind == "structure" else ANSWERS
    return tuple(Instance("", answers[kind]) for kind in kinds)


def test_table_2(full: TaskWorld, full_examples: dict[str, list[Example]]) -> None:
    """Within 10 % of the paper's proportions (words, n/a, classification), and its numbers of tasks
    exactly.
    """
    for split, paper in PAPER.items():
        row = statistics(without_passages(full, split)).to_dict()
        words = [len(context(e.input).split()) for e in full_examples[split]]
        row["passage_words"] = sum(words) / len(words)
        assert row["tasks"] == paper["tasks"]
        for name in ("pairs", "passage_words", "task_words", "na", "classification"):
            assert row[name] == pytest.approx(paper[name], rel=0.1), (
                split,
                name,
                row[name],
                paper[name],
            )


def test_instances_have_the_kind_of_answer_that_was_settled(
    full: TaskWorld, full_examples: dict[str, list[Example]]
) -> None:
    for split, examples in full_examples.items():
        kinds = {
            task.id: [i.answer for i in task.instances] for task in without_passages(full, split)
        }
        for e in examples:
            settled = kinds[e.task][int(e.traits["instance"])]
            assert (e.target == "n/a") == (settled == "n/a")
            assert (e.target in ("yes", "no")) == (settled in ("yes", "no"))


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 13))]
)
def test_table_2_under_other_seeds(seed: int) -> None:
    """What the seed can move without a passage being written: output types, words of the
    descriptions, n/a.
    """
    world = default(seed)
    for split, paper in PAPER.items():
        tasks = world.splits[split]
        row = statistics(without_passages(world, split)).to_dict()
        for name in ("task_words", "na", "classification"):
            assert row[name] == pytest.approx(paper[name], rel=0.1), (
                split,
                name,
                row[name],
                paper[name],
            )
        yes_no = sum(t.format == "classification" for t in tasks) / len(tasks)
        assert yes_no == pytest.approx(paper["classification"], abs=0.02)
        # n/a throughout is right where nothing answers, but not where a base task counts as well.
        assert not any(
            t.kind == "target_semantics" and world.mixes[t.source].answered == 0 for t in tasks
        )


def test_all_na_scores_as_in_the_paper(full: TaskWorld) -> None:
    """Section 6: one dev task is n/a throughout, so predicting n/a everywhere is worth about 1 / 1
    / 1.
    """
    dev = without_passages(full, "dev")
    predictions = ["n/a"] * sum(len(t.instances) for t in dev)
    silent = sum(full.mixes[t.source].answered == 0 for t in full.splits["dev"])
    for mode in ("official", "corrected"):
        report = score(dev, predictions, mode)
        assert [t.f1 for t in report.tasks].count(1.0) == silent >= 1
        assert all(0 < value < 0.02 for value in report.overall.values())


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))]
)
def test_descriptions_alone_do_as_well_as_in_table_5(seed: int) -> None:
    """The paper's question-only T5 has 12 / 10 / 7 on dev; saying yes to every yes/no question is
    what can be known here.

    Over 40 seeds it is worth 11.9, 9.5 and 5.6 with standard deviations of 0.4, 0.3 and 0.6; the
    least C@90 is 3.8.
    """
    world = default(seed)
    eager = [
        "yes" if t.program.yes_no else "n/a"
        for t in world.splits["dev"]
        for _ in range(world.passages)
    ]
    report = score(without_passages(world, "dev"), eager, "corrected")
    mean, most, nearly_all = (100 * value for value in report.overall.values())
    assert mean == pytest.approx(12, abs=3)
    assert most == pytest.approx(10, abs=3)
    assert nearly_all == pytest.approx(7, abs=4)


def test_passages_and_questions(full: TaskWorld, full_examples: dict[str, list[Example]]) -> None:
    for split, examples in full_examples.items():
        for e in examples:
            assert 60 <= len(context(e.input).split()) <= 180
            assert first_word(e.question) in EXTRACTION_WORDS | CLASSIFICATION_WORDS
            if e.traits["answer_type"] in ("span", "list") and e.traits["operation"] != "both":
                assert all(part.lower() in context(e.input).lower() for part in e.target.split("|"))
        evidence = Counter(e.traits["evidence"] for e in examples)
        assert min(evidence[k] for k in ("stated", "implied", "absent")) > 0
        answers = Counter(i.answer for t in without_passages(full, split) for i in t.instances)
        # As in the nine real yes/no tasks: 54 answers are yes and 17 no.
        assert answers["yes"] / (answers["yes"] + answers["no"]) == pytest.approx(54 / 71, abs=0.05)
