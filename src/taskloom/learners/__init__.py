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

from taskloom.learners.config import learner, read, register_preset
from taskloom.learners.interface import (
    LEARNERS,
    Entry,
    Fitted,
    Learner,
    LearnerError,
    Paused,
    Point,
    Progress,
    TrainingError,
    find_learner,
)
from taskloom.learners.saved import load

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


class CallablePackage(ModuleType):
    """Makes `tl.learners()` list the learners.

    `taskloom.learners` is this package as soon as anything imports it, so a function of that name
    would be lost.
    """

    def __call__(self) -> dict[str, str]:
        """The names of all learners with their descriptions, as `taskloom list learners` prints
        them.
        """
        return dict(LEARNERS.descriptions())


sys.modules[__name__].__class__ = CallablePackage
