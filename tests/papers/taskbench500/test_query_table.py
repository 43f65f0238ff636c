"""The rules of TaskBench500's Table 2: what they give for known answers, and that queries which
break them are noticed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from taskloom.analysis import find_study
from taskloom.papers.taskbench500.catalogue_tables import (
    RULES,
    Answers,
    answers,
    invented_world,
    pattern,
    ruled,
)

pytest.importorskip("pyoxigraph")

BY_NAME = {rule.name.partition("(")[0]: rule for rule in RULES}
ONE, OTHER = {("a", "x"), ("b", "y")}, {("a", "x"), ("c", "z")}
TRUE, FALSE = (
    {("a", "true"), ("b", "false"), ("c", "true")},
    {("a", "false"), ("b", "false"), ("d", "true")},
)


@pytest.mark.parametrize(
    ("rule", "one", "other", "wanted"),
    [
        ("union", ONE, OTHER, {("a", "x"), ("b", "y"), ("c", "z")}),
        ("intersection", ONE, OTHER, {("a", "x")}),
        ("lor", TRUE, FALSE, {("a", "true"), ("b", "false")}),
        ("land", TRUE, FALSE, {("a", "false"), ("b", "false")}),
    ],
)
def test_a_rule_combines_the_answers_of_the_parts(
    rule: str, one: Answers, other: Answers, wanted: Answers
) -> None:
    """Truth is decided only where both parts decide it."""
    combine = BY_NAME[rule].combine
    assert combine is not None
    assert combine(one, other) == wanted


def test_every_rule_is_followed_and_has_answers() -> None:
    (finding,) = find_study("taskbench500/table2")("quick")
    assert finding.table is not None
    assert all(row["the same"] == "yes" and row["answers"] for row in finding.table)
    assert [judgement.verdict for judgement in finding.judgements] == ["agrees"]


def test_truth_has_both_values_where_rules_are_tried(tmp_path: Path) -> None:
    world = invented_world(tmp_path)
    for name in ("lor", "land"):
        assert {truth for _, truth in answers(world, BY_NAME[name].task)} == {"true", "false"}


def test_a_query_that_breaks_a_rule_is_noticed(tmp_path: Path) -> None:
    world = invented_world(tmp_path)
    assert ruled(world, BY_NAME["union"]) != answers(world, "intersection(mother, father)")
    assert ruled(world, BY_NAME["A"]) != answers(world, "father")


def test_the_pattern_of_an_atom_is_that_of_the_paper() -> None:
    assert pattern("mother") == "SELECT DISTINCT ?x ?y WHERE { ?x wdt:P25 ?y . }"
    assert pattern("union(mother, father)").count("UNION") == 1
