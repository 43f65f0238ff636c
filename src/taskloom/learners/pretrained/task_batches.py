"""Answers and scores of many tasks that share a frozen model, in batches that mix their rows.

A pass over a small model costs a GPU about the same for one row as for hundreds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TypeVar

import torch
from torch import Tensor

from taskloom.learners.inputs import texts
from taskloom.learners.interface import LearnerError
from taskloom.learners.pretrained.encoding import EncodedRows
from taskloom.learners.pretrained.fitted import Writer, graded

T = TypeVar("T")


class TaskBatches:
    """The rows of several tasks as one list, each with the adapter of its own task."""

    def __init__(self, writers: Sequence[Writer], sizes: Sequence[int]) -> None:
        self.first = writers[0]
        if any(writer.base is not self.first.base for writer in writers):
            raise LearnerError(
                "tasks answer together where they were trained together; these have models of their own"
            )
        self.sizes = list(sizes)
        # A prompt is found by its place in the stack, a LoRA adapter by the number that it was trained under.
        own = [writer.prompt for writer in writers if writer.prompt is not None]
        self.prompts = torch.stack(own) if own else None
        numbers = list(range(len(writers))) if own else [writer.task for writer in writers]
        self.numbers = [
            number for number, size in zip(numbers, sizes, strict=True) for _ in range(size)
        ]

    def adapters(self, rows: list[int]) -> tuple[Tensor | None, Tensor]:
        """Return the prompts, and the task of each row."""
        return self.prompts, torch.tensor(
            [self.numbers[row] for row in rows], device=self.first.device
        )

    def write(self, sources: Sequence[Sequence[int]]) -> list[str]:
        """Return the answers to all rows."""
        return self.first.extracted(self.first.say(sources, self.adapters))

    def losses(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]]
    ) -> tuple[list[float], list[int]]:
        """Return the summed loss and the number of target tokens of all rows."""
        return self.first.losses(sources, targets, self.adapters)

    def by_task(self, rows: Sequence[T]) -> list[list[T]]:
        """Return the rows of each task."""
        each = iter(rows)
        return [list(islice(each, size)) for size in self.sizes]


def answer_together(writers: Sequence[Writer], inputs: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return each writer's answers to its inputs."""
    batches = TaskBatches(writers, [len(some) for some in inputs])
    sources = [writer.read(texts(some)) for writer, some in zip(writers, inputs, strict=True)]
    known = [writer.recall(own) for writer, own in zip(writers, sources, strict=True)]
    answers = [own for own in known if own is not None]
    return (
        answers
        if len(answers) == len(known)
        else batches.by_task(batches.write([s for own in sources for s in own]))
    )


def score_together(
    writers: Sequence[Writer], splits: Sequence[EncodedRows]
) -> list[tuple[float, float]]:
    """Return each writer's share of acceptable answers, and its mean loss per token of the official answers."""
    batches = TaskBatches(writers, [len(rows.sources) for rows in splits])
    sources = [source for rows in splits for source in rows.sources]
    answers = batches.by_task(batches.write(sources))
    for writer, rows, own in zip(writers, splits, answers, strict=True):
        writer.remember(rows.sources, own)
    sums, counts = batches.losses(
        sources, [target[0] for rows in splits for target in rows.targets]
    )
    each = zip(answers, batches.by_task(sums), batches.by_task(counts), splits, strict=True)
    return [graded(*one) for one in each]
