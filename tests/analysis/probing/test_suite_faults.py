"""Faults that are planted in solvers of chains, functions and passages are found, named, shrunk."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import taskloom as tl
from taskloom.analysis.probing.failures import Falsification
from taskloom.core.errors import TaskloomError

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))]

CHAINS, WORDS, PASSAGES = "ctl/A", "taskbench/map{antonyms[eng]}", "zest/synthetic"

Solver = Callable[[str], str]


def solver(recipe: str, seed: int) -> Solver:
    """The suite's own solver, from the text alone."""
    answer = tl.Recipe(recipe).plan(seed).answer
    assert answer is not None

    def solve(text: str) -> str:
        try:
            return answer(text).targets[0]
        except TaskloomError:  # the fault has made nonsense of it
            return "?"

    return solve


def chain(text: str) -> list[str]:
    """The functions of a chain."""
    return text.split()[:-1]


def context(text: str) -> list[str]:
    """The sentences of a passage."""
    return re.split(r"(?<=\.) ", text.partition("context: ")[2].strip())


def named(result: Falsification) -> set[str]:
    return {str(group.trait) for group in result.groups}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_function_that_is_taken_for_another_is_named(seed: int) -> None:
    solve = solver(CHAINS, seed)

    def confused(text: str) -> str:
        return solve(re.sub(r"\bb\b", "c", text))

    result = tl.falsify(confused, CHAINS, seed=seed, failures=4)
    assert named(result) == {"functions has b"}
    # Alone, b differs from c on some symbol or on none: then another function has to lead there.
    assert max(len(chain(failure.minimal.input)) for failure in result.failures) <= 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_chain_of_four_is_the_shortest_for_who_follows_three(seed: int) -> None:
    solve = solver(CHAINS, seed)

    def short(text: str) -> str:
        *functions, symbol = text.split()
        return solve(" ".join([*functions[-3:], symbol]))

    result = tl.falsify(short, CHAINS, split="ood", seed=seed, failures=4)
    assert named(result) == {"length ≥ 4"}
    assert {len(chain(failure.minimal.input)) for failure in result.failures} == {4}


@pytest.mark.parametrize("seed", SEEDS)
def test_four_words_are_the_shortest_for_who_answers_three(seed: int) -> None:
    solve = solver(WORDS, seed)

    def three(text: str) -> str:
        return solve(" ".join(text.split()[:3]))

    result = tl.falsify(three, WORDS, seed=seed, failures=2)
    assert {len(failure.minimal.input.split()) for failure in result.failures} == {4}
    assert "length ≥ 4" in named(result) or named(result) == {"None"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_passage_is_shrunk_to_what_a_forgetful_reader_cannot_hold(seed: int) -> None:
    solve = solver(PASSAGES, seed)

    def forgetful(text: str) -> str:
        question, _, passage = text.partition("context: ")
        held = re.split(r"(?<=\.) ", passage.strip())[:3]
        return solve(f"{question}context: {' '.join(held)}\n\n")

    result = tl.falsify(forgetful, PASSAGES, seed=seed, failures=4)
    assert result.failures
    assert {len(context(failure.minimal.input)) for failure in result.failures} <= {4, 5}


@pytest.mark.parametrize("recipe", [CHAINS, WORDS, PASSAGES])
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_found_in_the_solver_itself(recipe: str, seed: int) -> None:
    result = tl.falsify(solver(recipe, seed), recipe, seed=seed, items=25)
    assert (result.wrong, result.failures, result.groups) == (0, (), ())
