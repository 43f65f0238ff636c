"""The taskset `taskloom-recipes` of verifiers: any recipe as tasks with the recipe's scorer as
their reward.

verifiers finds tasksets by the name of an installed module, so that this one lies beside the
package. From Python, `taskloom.interop.verifiers.load_environment` is shorter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

from taskloom.core.extraction import ANSWER_FORMAT, DESCRIBED, EXTRACT
from taskloom.interop.graded import GradedSplit, from_record, open_split, to_record

__all__ = ["RecipeTaskset"]


class RecipeData(vf.TaskData):  # type: ignore[misc]
    """One example: what scoring needs of it, and where it came from."""

    record: dict[str, Any] = Field(default_factory=dict)
    answer: str = ""


class RecipeConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Which examples: the arguments of `taskloom.interop.graded.open_split`."""

    recipe: str = ""
    split: str | None = None
    n: int | None = None
    seed: int | None = None
    set: dict[str, Any] = Field(default_factory=dict)
    described: bool = DESCRIBED
    extract: str = EXTRACT
    role: str = "train"
    answer_format: str = ANSWER_FORMAT

    def open(self) -> GradedSplit:
        """Open the split that the settings name, once for all who ask for the same."""
        key = self.model_dump_json(include=_OPENED)
        if key not in _opened:
            values = self.model_dump(include=_OPENED)
            _opened[key] = open_split(**values)
        return _opened[key]


_OPENED = {
    "recipe",
    "split",
    "n",
    "seed",
    "set",
    "described",
    "extract",
    "role",
    "answer_format",
}
_opened: dict[str, GradedSplit] = {}


class RecipeTask(vf.Task[RecipeData]):  # type: ignore[misc]
    """One example as a task."""

    def __init__(
        self, data: RecipeData, config: Any = None, graded: GradedSplit | None = None
    ) -> None:
        super().__init__(data, config)
        self.graded = graded

    @vf.reward  # type: ignore[untyped-decorator]
    async def recipe_score(self, task: RecipeData, trace: Any) -> float:
        """Return the recipe's score of the last reply; the reason is on the trace."""
        assert self.graded is not None
        grade = self.graded.grade(trace.last_reply, from_record(task.record))
        trace.info["taskloom"] = {"answer": grade.answer, "reason": grade.reason}
        return grade.score


class RecipeTaskset(vf.Taskset[RecipeTask, RecipeConfig]):  # type: ignore[misc]
    """The examples of a split as tasks, in order."""

    def load(self) -> Iterator[RecipeTask]:
        """Yield the tasks; rows are made as they are asked for."""
        graded = self.config.open()
        for index, example in enumerate(graded):
            data = RecipeData(
                id=f"{graded.name}/{graded.split}/{graded.seed}/{index}",
                name=example.task or graded.name,
                prompt=graded.prompt(example),
                record=to_record(example),
                answer=example.target,
            )
            yield RecipeTask(data, self.config.task, graded)
