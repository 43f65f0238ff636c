"""Batches of nearly one length each, in an order that is a pure function of the order seed and the epoch.

As in the reference: shuffle, drop the remainder, sort by length (stably), cut, shuffle the batches. So a batch has one length
except where two lengths meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from taskloom.learners.interface import LearnerError
from taskloom.seeding import Key

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Order:
    """The batches of a run, epoch by epoch."""

    def __init__(self, lengths: NDArray[np.int64], batch: int, seed: int, shortest: int = 0) -> None:
        if len(lengths) < batch:
            batch = len(lengths)  # a set that is smaller than a batch is one batch
        if batch == 0:
            raise LearnerError("there is nothing to learn from: the split is empty")
        self.lengths = lengths
        self.batch = batch
        self.shortest = min(shortest, int(lengths.max()))
        self.per_epoch = len(lengths) // batch
        self._key = Key("batches", seed)
        self._epoch = -1
        self._rows: NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)
        self._widths: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def epoch(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows [batches, batch] of an epoch, and the width of each batch in tokens."""
        if number != self._epoch:
            key = self._key.child("epoch", number)
            n = self.per_epoch * self.batch
            rows = np.argsort(key.words(0, len(self.lengths)), kind="stable")[:n]
            rows = rows[np.argsort(self.lengths[rows], kind="stable")].reshape(self.per_epoch, self.batch)
            rows = rows[np.argsort(key.child("batches").words(0, self.per_epoch), kind="stable")]
            self._epoch, self._rows = number, rows
            self._widths = np.maximum(self.lengths[rows].max(1), self.shortest)
        return self._rows, self._widths

    def place(self, step: int) -> tuple[int, int]:
        """Return the epoch of a step and its place in it."""
        return divmod(step, self.per_epoch)
