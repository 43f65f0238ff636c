"""Small recipes and what is read off their examples, for the tests of the generator."""

from __future__ import annotations

from functools import cache
from typing import Any

from taskloom.core.example import Example
from taskloom.core.plan import Plan
from taskloom.recipe import recipe
from taskloom.suites.babi.story.grammar import parse_passage
from taskloom.suites.babi.story.vocabulary import Vocabulary

AIMED = ["mix-T2", "mix-T7", "mix-T12", "diverse-T7", "diverse-T12"]


GROWN = [str(n) for n in range(1, 14) if n != 4]


@cache
def plan_of(name: str, seed: int = 0) -> Plan:
    return recipe.read(f"babi/{name}").plan(seed)


def custom(**fields: Any) -> Plan:
    return recipe.check({"suite": "babi", **fields}, "mine", "mine").plan(0)


def some(plan: Plan, n: int = 60) -> list[Example]:
    split = plan.splits[0]
    return list(split.rows(0, min(n, split.n)))


def events_of(example: Example, vocabulary: Vocabulary | None = None) -> Any:
    return parse_passage(example.input[: -len(example.question)], example.question, vocabulary)


def group(**fields: Any) -> dict[str, Any]:
    return {
        "events": ["MOVE", "GRAB", "DROP", "GIVE"],
        "wording": ["COREF", "NEGATE", "INDEF"],
        "n": 40,
        **fields,
    }


def cited(example: Example) -> tuple[int, ...]:
    return tuple(int(n) - 1 for n in str(example.traits["support_lines"]).split())
