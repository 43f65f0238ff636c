from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from taskloom.recipe import read
from taskloom.suites.taskbench.catalog import (
    catalog,
    composition,
    compositions,
    paper_atoms,
    select,
)
from taskloom.suites.taskbench.fields import TaskbenchFields
from taskloom.suites.taskbench.language import name, parse


def test_the_catalog_is_that_of_the_paper(shared: Path) -> None:
    theirs = {
        t["expr"]: t
        for t in json.loads((shared / "taskbench-tasks.json").read_text())["tasks"]
        if t["expr"]
    }
    ours = {t.expression: t for t in catalog()}
    assert ours.keys() == theirs.keys()
    for expression, task in ours.items():
        listed = theirs[expression]
        assert task.composition == listed["composition"]
        assert task.family == listed["family"]
        assert list(task.operands) == [name.removesuffix(".inv") for name in listed["operands"]]
        assert task.same_as == (listed.get("equivalent_to") or "")
        assert task.printed == (listed["status"] in ("listed", "recovered"))


def test_counts_of_the_papers_tables() -> None:
    wanted = {"atomic": 75, "chain": 67, "union": 57, "intersection": 3, "land": 6, "lor": 16}
    wanted |= {"map": 205, "filter": 7, "map_filter": 63}
    assert Counter(t.composition for t in catalog()) == wanted
    assert sum("factual" not in t.families for t in catalog()) == 211
    assert sum(bool(t.same_as) for t in catalog()) == 3


def test_select() -> None:
    assert len(select(["lexical", "random", "factual"], ["lor"])) == 13
    assert [t.expression for t in select(["random"], ["atomic"])] == [
        f"random{k}[eng]" for k in range(4)
    ]
    assert all("random" not in t.families for t in select(["lexical"], ["union"]))


KINDS = ["atomic", "chain", "union", "intersection", "land", "lor", "map", "filter", "map_filter"]


def test_the_rule_enumerates_every_task_of_the_paper() -> None:
    """All compositions of depth two and their sequences: every named task is one of them, factual
    ones too.
    """
    rule = compositions(paper_atoms(["lexical", "random", "factual"]), KINDS)
    named = {name(parse(t.expression)) for t in catalog()}
    assert len(rule) == len(set(rule)) == 7_656
    assert len(named) == 496
    assert named <= set(rule)
    factual = Counter(
        composition(parse(f)) for f in compositions(paper_atoms(["factual"]), KINDS[:6])
    )
    assert factual == {
        "atomic": 54,
        "chain": 1_521,
        "union": 741,
        "intersection": 741,
        "land": 105,
        "lor": 105,
    }


def test_compositions_of_a_few_atoms_by_hand() -> None:
    found = compositions(["father", "mother", "is_occupation_actor", "antonyms[eng]"], KINDS)
    words = ["father", "mother", "is_occupation_actor", "antonyms[eng]"]
    words += [f"chain({f}, {g})" for f in ("father", "mother") for g in ("father", "mother")]
    words += [
        "chain(antonyms[eng], antonyms[eng])",
        "union(father, mother)",
        "intersection(father, mother)",
    ]
    relations = [f for f in words if f != "is_occupation_actor"]
    sequences = [f"map({f})" for f in relations] + ["filter(is_occupation_actor)"]
    sequences += [f"map({f}, filter(is_occupation_actor))" for f in ("father", "mother")]
    assert sorted(found) == sorted(words + sequences)


def test_a_recipe_of_compositions() -> None:
    made = read(
        "taskbench/composed",
        ["compose={atoms: [father, mother, father.inv], compositions: [chain, union]}"],
    )
    assert isinstance(made.fields, TaskbenchFields)
    assert len(made.fields.tasks()) == 9 + 3
    plan = made.plan(0)
    # Nobody's mother has fathered anybody.
    assert plan.left_out == {"chain(father.inv, mother)": 0}
    assert plan.split("train").n > 1_000


def test_the_rule_pairs_both_orders_of_an_operator_that_is_not_symmetric() -> None:
    named = compositions(["father", "mother", "is_occupation_actor"], ["union", "difference"])
    assert named == [
        "union(father, mother)",
        "difference(father, mother)",
        "difference(mother, father)",
    ]


def test_invented_words_have_examples_of_every_lexical_task() -> None:
    made = read(
        "taskbench/500-synthetic",
        ["catalog={families: [lexical, random]}", "sequences.n=20", "few_shot=null"],
    )
    plan = made.plan(0)
    assert plan.left_out == {}
    assert [warning.partition(":")[0] for warning in plan.warnings] == ["pairs=published"]
    assert isinstance(made.fields, TaskbenchFields)
    assert len(made.fields.tasks()) == 211
