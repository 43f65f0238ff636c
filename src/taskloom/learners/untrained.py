"""The learners that do not learn in steps: baselines, models that are prompted, endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Generic, TypeVar

from taskloom.learners.inputs import evaluation_splits
from taskloom.learners.interface import Fitted, Pairs, Report

F = TypeVar("F", bound=Fitted)


class Untrained(Generic[F]):
    """A learner that does not learn in steps: there is no curve, nothing to resume and no progress to report."""

    def fit(
        self,
        train: Pairs,
        evaluate: Mapping[str, Pairs] | None = None,
        seed: int = 0,
        *,
        folder: Path | None = None,
        progress: Report | None = None,
    ) -> F:
        """Fit at once; see `Learner.fit`."""
        evaluation_splits(evaluate)
        return self.learn(train, seed)

    def learn(self, train: Pairs, seed: int) -> F:
        """Fit at once."""
        raise NotImplementedError
