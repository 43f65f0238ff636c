"""Which task's adapter the rows of a batch use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(slots=True)
class Choice:
    """One task for all rows, or one for each.

    Attributes:
        task: Whose adapter is used where `rows` says nothing.
        rows: [batch] the task of each row.
        even: Whether the rows are the same number of every task, in the order of the tasks.
    """

    task: int = 0
    rows: Tensor | None = None
    even: bool = False

    @contextlib.contextmanager
    def of(self, rows: Tensor, even: bool) -> Iterator[None]:
        """A task for each row, inside the block only."""
        self.rows, self.even = rows, even
        try:
            yield
        finally:
            self.rows = None
