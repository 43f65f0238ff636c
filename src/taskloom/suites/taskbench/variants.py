"""Variants of words and sequences: another word, a word with the same answers, one item fewer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from taskloom.core.errors import InputError
from taskloom.core.example import Example
from taskloom.core.plan import Variant, VariantKind
from taskloom.core.seeding import Key, Random
from taskloom.core.shards import to_examples
from taskloom.suites.taskbench.evaluation.derivations import BETWEEN, items, join
from taskloom.suites.taskbench.rows import SequenceRows, WordRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from taskloom.suites.taskbench.evaluation.evaluator import FunctionTable
    from taskloom.suites.taskbench.worlds.worlds import Answerer

OTHERS = 8
"""Number of other words to try for a word, or for an item of a sequence."""


class SequenceEdit(NamedTuple):
    """A varied sequence."""

    kind: VariantKind
    name: str
    items: list[str]
    before: str
    after: str


class FunctionVariants:
    """Generates the candidates of `Plan.variants` for the tasks of a recipe."""

    def __init__(
        self,
        tasks: Iterable[WordRows | SequenceRows],
        answerer: Callable[[str], Answerer],
        separators: bool,
    ) -> None:
        """Set up the tasks.

        Args:
            tasks: Rows of each task.
            answerer: Returns the function of a task for single inputs.
            separators: True if # separates the items of a sequence.
        """
        self._tasks = {rows.task: rows for rows in tasks}
        self._answerer = lru_cache(maxsize=64)(answerer)
        self._separators = separators

    def __call__(self, example: Example) -> Iterator[Variant]:
        """Yield candidates: first simpler ones, then flips, then keeps."""
        rows = self._tasks.get(example.task)
        if not example.task and len(self._tasks) == 1:
            (rows,) = self._tasks.values()
        if rows is None:  # the split `answers` contains additional functions
            return
        rng = Key("taskbench/variants", example.input).random()
        if isinstance(rows, WordRows):
            yield from _word_variants(rows, example, rng)
        else:
            yield from self._sequence_variants(rows, example, rng)

    def _sequence_variants(
        self, rows: SequenceRows, example: Example, rng: Random
    ) -> Iterator[Variant]:
        answerer = self._answerer(rows.task)
        # The key always has separators, so that names of several words are not split.
        given = items(example.key or example.input, True if example.key else self._separators)
        original = answerer.positions(join(given, True))
        for edit in _sequence_edits(rows.sampler.solved, given, rng):
            try:
                accepted = answerer.positions(join(edit.items, True))
            except InputError:
                continue
            if not accepted or not all(accepted):
                continue
            # It is only a flip if no sequence of answers is right for both.
            if edit.kind == "flip" and not _apart(original, accepted):
                continue
            if edit.kind == "keep" and list(map(set, original)) != list(map(set, accepted)):
                continue
            target = example.target if edit.kind == "keep" else ""
            made = self._sequence(rows, example, edit.items, accepted, target)
            yield Variant(edit.kind, edit.name, made, edit.before, edit.after)

    def _sequence(
        self,
        rows: SequenceRows,
        example: Example,
        given: list[str],
        accepted: list[tuple[str, ...]],
        target: str,
    ) -> Example:
        """Build an example of a sequence. Its official answer is `target`, or otherwise consists of
        the first acceptable answers.
        """
        answer = self._answerer(rows.task)(join(given, True))
        target = target or join([answers[0] for answers in accepted], self._separators)
        steps = answer.derivation
        if steps and steps[-1].rule == "map":
            chosen = BETWEEN.join(items(target, self._separators))
            steps = (*steps[:-1], replace(steps[-1], value=chosen))
        traits = {
            **rows.traits,
            "answers": float(np.mean([len(answers) for answers in accepted])),
            "length": len(given),
        }
        return Example(
            join(given, self._separators),
            target,
            traits,
            key=join(given, True),
            derivation=steps,
            task=rows.task,
        )


def _sequence_edits(solved: FunctionTable, given: list[str], rng: Random) -> Iterator[SequenceEdit]:
    """Yield sequences with one item fewer, then with another item in one position."""
    if len(given) > 1:
        for i, item in enumerate(given):
            yield SequenceEdit("simpler", "item removed", given[:i] + given[i + 1 :], item, "")
    words = _some(solved, solved.domain, rng)
    irrelevant = _some(solved, solved.dropped, rng)
    for i in range(len(given)):
        yield from _replaced("flip", "another word", given, i, words)
    for i, item in enumerate(given):
        same = _alike(solved, item)
        yield from _replaced("keep", "word with the same answers", given, i, same)
    for i in range(len(given)):
        yield from _replaced("keep", "irrelevant item", given, i, irrelevant)


def _replaced(
    kind: VariantKind, name: str, given: list[str], i: int, others: list[str]
) -> Iterator[SequenceEdit]:
    """Yield sequences with one word replaced."""
    for other in others:
        if other != given[i]:
            new = [*given[:i], other, *given[i + 1 :]]
            yield SequenceEdit(kind, name, new, given[i], other)


def _apart(one: list[tuple[str, ...]], other: list[tuple[str, ...]]) -> bool:
    """True if no sequence of answers is right for both."""
    if len(one) != len(other):
        return True
    return any(set(a).isdisjoint(b) for a, b in zip(one, other, strict=True))


def _some(solved: FunctionTable, numbers: NDArray[np.int32], rng: Random) -> list[str]:
    """Draw some of the words with these indices."""
    chosen = rng.sample(range(len(numbers)), min(OTHERS, len(numbers)))
    return [solved.inputs[int(numbers[i])] for i in chosen]


def _same_answers(solved: FunctionTable, place: int) -> list[int]:
    """Return the positions of other words in the domain with the same answers."""
    table = solved.answers
    own = np.sort(table.values[table.starts[place] : table.starts[place + 1]])
    having = np.flatnonzero(table.values == own[0])
    found = []
    for other in np.searchsorted(table.starts, having, side="right") - 1:
        theirs = np.sort(table.values[table.starts[other] : table.starts[other + 1]])
        if other != place and np.array_equal(own, theirs):
            found.append(int(other))
        if len(found) == OTHERS:
            break
    return found


def _alike(solved: FunctionTable, word: str) -> list[str]:
    """Return words with the same answers as a word of the domain."""
    place = solved.positions.get(word)
    if place is None:
        return []
    return [solved.inputs[int(solved.domain[i])] for i in _same_answers(solved, place)]


def _word_variants(rows: WordRows, example: Example, rng: Random) -> Iterator[Variant]:
    """Yield other words whose answers are different, or the same."""
    solved = rows.solved
    place = solved.positions.get(example.input)
    if place is None:
        raise InputError(f"'{example.input}' is outside the domain of {rows.task}")
    chosen = rng.sample(range(len(solved.domain)), min(2 * OTHERS, len(solved.domain)))
    same = _same_answers(solved, place)
    others = [i for i in chosen if i not in same]
    made = list(to_examples(rows.table(np.array([*others, *same], dtype=np.int64))))
    for i, varied in enumerate(made):
        if i < len(others):
            yield Variant("flip", "another word", varied, example.input, varied.input)
        else:
            edit = "word with the same answers"
            yield Variant("keep", edit, varied, example.input, varied.input)
