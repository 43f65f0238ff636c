"""Batches of nearly one length each, in an order that is a pure function of the order seed and the
epoch.

As in the reference: shuffle, drop the remainder, sort by length (stably), cut, shuffle the batches.
So a batch has one length except where two lengths meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from taskloom.core.seeding import Key
from taskloom.learners.interface import LearnerError
from taskloom.learners.scratch.tokens import Encoded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from taskloom.learners.training.settings import Training


class Order:
    """The batches of a run, epoch by epoch."""

    def __init__(
        self, lengths: NDArray[np.int64], batch: int, seed: int, shortest: int = 0
    ) -> None:
        if len(lengths) < batch:
            batch = len(lengths)  # a set that is smaller than a batch is one batch
        if batch == 0:
            raise LearnerError("there is nothing to learn from: the split is empty")
        self.lengths = lengths
        self.batch = batch
        self.shortest = min(shortest, int(lengths.max()))
        self.per_epoch = len(lengths) // batch
        # Small numbers are sorted by counting, ten times as fast; a GPU waits for an epoch's order.
        self._short = lengths.astype(np.uint16) if lengths.max() < 1 << 16 else lengths
        self._key = Key("batches", seed)
        self._epoch = -1
        self._rows: NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)
        self._widths: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def epoch(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows [batches, batch] of an epoch, and the width of each batch in tokens."""
        if number != self._epoch:
            key = self._key.child("epoch", number)
            n = self.per_epoch * self.batch
            # Sorting by random words shuffles.
            shuffled = np.argsort(key.words(0, len(self.lengths)), kind="stable")[:n]
            by_length = shuffled[np.argsort(self._short[shuffled], kind="stable")]
            batches = by_length.reshape(self.per_epoch, self.batch)
            order = np.argsort(key.child("batches").words(0, self.per_epoch), kind="stable")
            rows = batches[order]
            self._epoch, self._rows = number, rows
            self._widths = np.maximum(self.lengths[rows].max(1), self.shortest)
        return self._rows, self._widths

    def position(self, step: int) -> tuple[int, int]:
        """The epoch of a step and the index of its batch in the epoch."""
        return divmod(step, self.per_epoch)


@dataclass(frozen=True, slots=True)
class LearningData:
    """Training data of some members of a stack, framed, and the splits of their learning curves."""

    train: Encoded
    evaluate: Mapping[str, Encoded]


def joined(datasets: Sequence[Encoded]) -> Encoded:
    """Put datasets one after the other."""
    if len(datasets) == 1:
        return datasets[0]
    longest = max(one.tokens.shape[1] for one in datasets)
    tokens = [np.pad(one.tokens, ((0, 0), (0, longest - one.tokens.shape[1]))) for one in datasets]
    return Encoded(
        np.concatenate(tokens),
        np.concatenate([one.lengths for one in datasets]),
        np.concatenate([one.labels for one in datasets]),
    )


class StackBatches:
    """The rows of each step: the same for all members, or each member's own."""

    def __init__(
        self, sources: Sequence[LearningData], members: Sequence[tuple[int, int]], how: Training
    ) -> None:
        self.orders = [
            Order(source.train.lengths, how.batch, how.order_seed, how.shortest)
            for source in sources
        ]
        if len({order.batch for order in self.orders}) > 1:
            raise LearnerError("a dataset of a stack is smaller than a batch; set a smaller batch")
        self.members = torch.tensor([source for source, _ in members])
        self.firsts = np.cumsum([0] + [len(source.train) for source in sources])
        self._epochs = [-1] * len(sources)
        self._rows = [torch.zeros(0)] * len(sources)
        self._widths = [np.zeros(0, dtype=np.int64)] * len(sources)

    def at(self, step: int, device: torch.device) -> tuple[Tensor, int]:
        """Return the rows [batch] or [members, batch] of a step, in all datasets one after the
        other, and their width.
        """
        positions = [order.position(step) for order in self.orders]
        new = [i for i, (epoch, _) in enumerate(positions) if epoch != self._epochs[i]]
        # All epochs are sorted before anything is copied: a copy waits for the device, which can
        # work on the steps before it while we sort.
        sorted_epochs = [self.orders[i].epoch(positions[i][0]) for i in new]
        for i, (epoch_rows, widths) in zip(new, sorted_epochs, strict=True):
            self._rows[i] = torch.from_numpy(epoch_rows + self.firsts[i]).to(device)
            self._widths[i] = widths
            self._epochs[i] = positions[i][0]
        rows, width = [], 0
        for i, (_, batch) in enumerate(positions):
            rows.append(self._rows[i][batch])
            width = max(width, int(self._widths[i][batch]))
        if len(rows) == 1:
            return rows[0], width
        if self.members.device != device:
            self.members = self.members.to(device)
        return torch.stack(rows)[self.members], width
