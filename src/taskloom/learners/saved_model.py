"""A learner that was fitted and saved before: it learns nothing more, and answers as it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from taskloom.core.arguments import path_of
from taskloom.learners.interface import Fitted, LearnerError, Pairs, register_learner
from taskloom.learners.saved import load
from taskloom.learners.untrained import Untrained


@register_learner("saved", describe="a learner that was fitted and saved before, as it is", load=load)
@dataclass(frozen=True)
class SavedModel(Untrained[Fitted]):
    """A saved learner, for recipes that it was not trained on.

    Attributes:
        folder: Where it was saved.
        content: A digest of what the folder holds, for experiments that must not take another learner's runs for its own.
    """

    folder: str = ""
    content: str = ""

    name: ClassVar[str] = "saved"

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str):
            raise LearnerError(f"saved: folder is {self.folder!r}; it must be a text")

    def learn(self, train: Pairs, seed: int) -> Fitted:
        """Load the saved learner."""
        if not self.folder:
            raise LearnerError("saved: set folder to the folder of a saved learner, e.g. {learner: saved, folder: DIR}")
        return load(path_of(self.folder))
