"""`case: lower` writes the same functions in lower case, as in the data that the paper released."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from taskloom.core import shards
from taskloom.core.example import Example
from taskloom.core.plan import Plan
from taskloom.data.audit.leaks import find_pair_leaks
from taskloom.recipe import read
from taskloom.suites.taskbench.scorers import ByTask, Positions, ReferencePositions
from taskloom.suites.taskbench.worlds.facts.fact_functions import FactFunctions
from taskloom.suites.taskbench.worlds.worlds import Worlds

FACTUAL = (
    "father",
    "chain(occupation, father)",
    "union(place_of_birth, place_of_death)",
    "is_birthplace_london",
)
SMALL = {
    "facts": "synthetic#people=600",
    "few_shot": None,
    "sequences.n": 60,
    "sequences.length": 4,
    "minimum": 20,
}


def plan(functions: str | tuple[str, ...], **fields: object) -> Plan:
    return read(
        "taskbench/english", {"catalog": None, "functions": functions, **SMALL, **fields}
    ).plan()


def examples(made: Plan, split: str) -> list[Example]:
    part = made.split(split)
    return list(shards.to_examples(shards.to_table(part.rows(0, part.n), 0, made.traits)))


@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.slow)])
def test_answers_are_those_of_the_oracle_in_lower_case(oracles: Path, every: int) -> None:
    """Rows with capitals, and every so many of the others: a plan for each takes 0.1 seconds."""
    lines = (oracles / "taskbench" / "lexical.jsonl").read_text(encoding="utf-8").splitlines()
    capitals = 0
    for number, row in enumerate(map(json.loads, lines)):
        wanted = {text.lower() for text in row["output"]}
        has_capitals = wanted != set(row["output"])
        capitals += has_capitals
        if number % every and not has_capitals:
            continue
        fields = {"functions": [row["fn"]], "catalog": None, "lexicon": "nltk", "case": "lower"}
        answer = read("taskbench/words", fields).plan().answer
        assert answer is not None
        found = answer(row["input"]).targets
        assert set(found) == wanted, row["fn"]
        assert len(found) == len(wanted), row["fn"]
    assert capitals >= 5  # else the oracle shows nothing


def test_nothing_is_left_in_capitals_and_every_answer_can_be_proved() -> None:
    """Words and facts, with and without separators; the check derives every answer again."""
    for functions in (FACTUAL, ("map(father)",), ("map(hyponyms[eng])", "hyponyms[eng]")):
        for separators in (False, True):
            made = plan(functions, case="lower", **{"sequences.separators": separators})
            rows = examples(made, "test")
            assert rows
            assert made.check is not None
            for row in rows:
                shown = (row.input, row.key, *row.targets, *(step.value for step in row.derivation))
                assert [text for text in shown if text != text.lower()] == []
                assert len(set(row.targets)) == len(row.targets)
                assert set(made.check(row)) == set(row.targets)
                assert all(step.value for step in row.derivation[-1:])


def test_a_wrong_answer_does_not_pass_the_check() -> None:
    made = plan("map(father)", case="lower", **{"sequences.separators": True})
    row = examples(made, "test")[0]
    wrong = Example(
        row.input, ("nobody # " + row.target.partition(" # ")[2],), key=row.key, task=row.task
    )
    assert made.check is not None
    assert made.check(wrong) != wrong.targets


def test_no_tested_pair_is_in_training_in_lower_case() -> None:
    made = plan(("hyponyms[eng]", "synonyms[eng]"), case="lower")
    tables = {
        part.name: shards.to_table(part.rows(0, part.n), 0, made.traits) for part in made.splits
    }
    assert find_pair_leaks(tables, {part.name: part.role for part in made.splits}) == []


def test_inputs_in_any_case_are_understood() -> None:
    made, kept = plan("father", case="lower"), plan("father")
    assert made.answer is not None
    assert kept.answer is not None
    row = examples(kept, "test")[0]
    assert row.input != row.input.lower()
    wanted = tuple(text.lower() for text in kept.answer(row.input).targets)
    assert made.answer(row.input).targets == made.answer(row.input.lower()).targets == wanted


def test_two_inputs_of_one_lower_case_text_are_left_out(tmp_path: Path) -> None:
    """Power and power are different things: in lower case nobody could say which of them is asked
    about.
    """
    pytest.importorskip("pyoxigraph")
    entity, label = "http://www.wikidata.org/entity/", "http://www.w3.org/2000/01/rdf-schema#label"
    names = {"Q1": "Power", "Q2": "power", "Q3": "Iris", "Q4": "Ann", "Q5": "ANN", "Q6": "Bob"}
    lines = [f'<{entity}{q}> <{label}> "{text}"@en .' for q, text in names.items()]
    facts = (("Q1", "Q4"), ("Q2", "Q6"), ("Q3", "Q4"), ("Q3", "Q5"), ("Q3", "Q6"))
    lines += [
        f"<{entity}{x}> <http://www.wikidata.org/prop/direct/P22> <{entity}{y}> ." for x, y in facts
    ]
    (tmp_path / "facts.nt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    fields = {
        "facts": str(tmp_path / "facts.nt"),
        "minimum": 1,
        "shares": {"train": 1.0},
        "pairs": "published",
    }
    (row,) = examples(plan("father", case="lower", **fields), "train")
    assert row.input == "iris"
    assert sorted(row.targets) == ["ann", "bob"]
    assert len(examples(plan("father", **fields), "train")) == 3


def ceilings(
    tasks: tuple[str, ...], case: str, separators: bool, length: int, facts: str
) -> dict[str, float]:
    """Score the official answers by the public code's rule, task by task."""
    shape = {"sequences.n": 400, "sequences.length": length, "sequences.separators": separators}
    made = plan(tasks, case=case, **{**shape, "facts": facts, "pairs": "published"})
    assert isinstance(made.scorer, ByTask)
    scores: dict[str, list[float]] = {}
    for row in examples(made, "test"):
        own = made.scorer.sequences(row.task)
        assert isinstance(own, Positions)
        assert own.score(row.target, row) == 1.0
        public = ReferencePositions(own.sets, separators)
        scores.setdefault(row.task.removeprefix("taskbench/"), []).append(
            public.score(row.target, row)
        )
    assert len(scores) == len(tasks)
    return {task: statistics.fmean(own) for task, own in scores.items()}


@pytest.mark.parametrize("length", [4, 8])
def test_by_the_public_rule_a_perfect_answer_is_right_in_lower_case_with_separators(
    length: int,
) -> None:
    """Without separators answers of several words are missed in any case; invented fathers all have
    two names.
    """
    tasks = ("map(hyponyms[eng])", "map(synonyms[eng])", "map(father)", "map(occupation)")
    assert set(ceilings(tasks, "lower", True, length, "synthetic").values()) == {1.0}
    joined = ceilings(tasks, "lower", False, length, "synthetic")
    assert joined.pop("map(father)") == 0.0
    assert min(joined.values()) > 0
    assert joined["map(hyponyms[eng])"] < 0.5
    assert ceilings(tasks, "as-is", True, length, "synthetic")["map(father)"] == 0.0


def test_on_real_facts_the_public_rule_leaves_no_map_at_nothing_in_lower_case(shared: Path) -> None:
    """The capitals did that: with them a perfect answer to most factual maps scores nothing."""
    tasks = ("map(father)", "map(country)")
    assert min(ceilings(tasks, "lower", False, 4, "wikidata").values()) > 0
    assert set(ceilings(tasks, "lower", True, 4, "wikidata").values()) == {1.0}
    capitals = ceilings(tasks, "as-is", True, 4, "wikidata")
    assert capitals["map(country)"] == capitals["map(father)"] == 0.0


def test_the_default_keeps_the_world_as_it_is() -> None:
    from taskloom.suites.taskbench.plan import functions
    from taskloom.suites.taskbench.worlds.worlds import open_world

    fields = read("taskbench/father", {"facts": "synthetic#people=600"}).fields
    world = open_world(fields, functions(fields))  # type: ignore[arg-type]
    assert isinstance(world, Worlds)
    assert isinstance(world._of(functions(fields)[0]), FactFunctions)  # type: ignore[arg-type]
