"""Every task of the paper, by the fast evaluation and by the second solver, on a sample of inputs
of each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taskloom.core import shards
from taskloom.core.seeding import Key
from taskloom.recipe import read


def differences(name: str, *changes: str, each: int = 12) -> tuple[int, list[str]]:
    """Compare a sample of the rows of every task with the second solver; say how many were compared
    and which differ.
    """
    plan = read(name, changes).plan(0)
    assert plan.check is not None
    split = plan.split("train")
    table = shards.to_table(split.rows(0, split.n), 0, plan.traits)
    places: dict[str, list[int]] = {}
    for place, task in enumerate(table.column("task").to_pylist()):
        places.setdefault(task, []).append(place)
    wrong, compared = [], 0
    for task, rows in places.items():
        rng = Key("sample").random(task)
        for example in shards.to_examples(
            table.take(sorted(rng.sample(rows, min(each, len(rows)))))
        ):
            compared += 1
            if sorted(plan.check(example)) != sorted(example.targets):
                wrong.append(f"{task}: {example.input}")
            elif plan.scorer.score(example.target, example) != 1.0:
                wrong.append(f"{task}: {example.input} (score)")
    return compared, wrong


FEW: tuple[Any, ...] = ("sequences.n=40", "few_shot=null", "answers=false")


@pytest.mark.slow
def test_lexical_and_random_tasks(shared: Path) -> None:
    compared, wrong = differences("taskbench/words", *FEW)
    # One of the 211 has a single word, and so a single sequence.
    assert compared == 210 * 12
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("facts", ["synthetic", "wikidata"])
def test_factual_tasks(facts: str, shared: Path) -> None:
    compared, wrong = differences(
        "taskbench/500", f"facts={facts}", "catalog={families: [factual]}", *FEW
    )
    assert compared > 180 * 12
    assert wrong == []


@pytest.mark.slow
def test_all_tasks_over_invented_words_and_facts() -> None:
    assert read("taskbench/500-synthetic").plan(0).left_out == {}
    compared, wrong = differences("taskbench/500-synthetic", *FEW)
    assert compared == 496 * 12
    assert wrong == []


def test_a_few_of_each_kind() -> None:
    names = [
        "hyponyms[eng]",
        "chain(hyponyms[eng], antonyms[eng])",
        "map(union(random1[eng], entailments[eng]))",
    ]
    names += [
        "filter(is_pos_adjective[eng])",
        "lor(is_birthplace_la, is_birthplace_london)",
        "chain(record_label, mother)",
    ]
    compared, wrong = differences("taskbench/english", f"functions={names}", *FEW)
    assert compared == 6 * 12
    assert wrong == []
