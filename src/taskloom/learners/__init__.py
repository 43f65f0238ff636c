"""Learners: every model and every way to adapt it, behind one small interface.

from taskloom.learners import load, read

settings = {"learner": "bilstm", "steps": 2000}
fitted = read(settings).fit(train, evaluate={"iid": iid, "ood": ood}, seed=0)
fitted.answer(["c b a 3"])
fitted.save("model")
load("model").answer(["c b a 3"])
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from taskloom.learners.config import LEARNERS, Entry, find_learner, read, register_preset
from taskloom.learners.interface import (
    Fitted,
    Learner,
    LearnerError,
    Paused,
    Point,
    Progress,
    TrainingError,
)
from taskloom.learners.saved import load

if TYPE_CHECKING:
    from taskloom.learners.scratch.module_learner import learner as learner

__all__ = [
    "LEARNERS",
    "Entry",
    "Fitted",
    "Learner",
    "LearnerError",
    "Paused",
    "Point",
    "Progress",
    "TrainingError",
    "find_learner",
    "learner",
    "load",
    "read",
    "register_preset",
]


def __getattr__(name: str) -> Any:
    if name != "learner":
        raise AttributeError(f"module 'taskloom.learners' has no attribute '{name}'")
    # Listing learners must not import the networks.
    from taskloom.learners.scratch.module_learner import learner

    return learner


class CallablePackage(ModuleType):
    """A package that can be called: `tl.learners()` lists the learners.

    `taskloom.learners` becomes this package as soon as anything imports it, so a function of that
    name would be overwritten.
    """

    def __call__(self) -> dict[str, str]:
        """Return the names of all learners with their descriptions, as `taskloom list learners`
        prints them.
        """
        return dict(LEARNERS.descriptions())


sys.modules[__name__].__class__ = CallablePackage
