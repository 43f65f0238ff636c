"""The taskset `taskloom-recipes` of verifiers: any recipe as tasks with the recipe's scorer as
their reward.

    vf-eval taskloom-recipes --env.taskset.recipe babi/2 --no-push -n 10 -m MODEL

verifiers finds tasksets by the name of an installed module, so that this one lies beside the
package. From Python, `taskloom.interop.verifiers.load_environment` is shorter. Packages that
`taskloom export --format verifiers` writes subclass what is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

from taskloom.core.extraction import ANSWER_FORMAT, DESCRIBED, EXTRACT, shown_answer
from taskloom.interop.graded import (
    Dialogue,
    GradedSplit,
    brevity,
    from_record,
    keeps_form,
    open_split,
    to_record,
)

__all__ = ["RecipeEnv", "RecipeTaskset"]


class RecipeData(vf.TaskData):  # type: ignore[misc]
    """One example: what scoring needs of it, and where it came from."""

    record: dict[str, Any] = Field(default_factory=dict)
    answer: str = ""
    question: str = ""


class RecipeTaskConfig(vf.TaskConfig):  # type: ignore[misc]
    """Settings of scoring."""

    characters: int = Field(2000, ge=1)
    """Characters of a reply from which the reward `short` falls; 0 at twice as many."""


class RecipeConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Which examples: the arguments of `taskloom.interop.graded.open_split`."""

    recipe: str = ""
    """A recipe's name or file, or the folder of a dataset."""
    split: str | None = None
    """Which split; the first with the role by default."""
    n: int | None = None
    """How many examples; all by default."""
    seed: int | None = None
    """Seed of the samples; the recipe's own by default."""
    set: dict[str, Any] = Field(default_factory=dict)
    """Changes of the recipe's fields."""
    described: bool = DESCRIBED
    """Whether prompts begin with the description of their task."""
    extract: str = EXTRACT
    """How answers are cut out of replies."""
    role: str = "train"
    """`train` or `test`: what the split is for, if none is named."""
    answer_format: str = ANSWER_FORMAT
    """The sentence after each input that asks for a form; empty: none."""
    task: RecipeTaskConfig = RecipeTaskConfig()
    """Settings of scoring, and weights of rewards."""

    def source(self) -> str:
        """What is opened; exported packages bring a dataset of their own."""
        return self.recipe

    def open(self) -> GradedSplit:
        """Open the split that the settings name, once for all who ask for the same."""
        values = {**self.model_dump(include=_OPENED), "recipe": self.source()}
        key = repr(values)
        if key not in _opened:
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


class RecipeTask(vf.Task[RecipeData, vf.State, RecipeTaskConfig]):  # type: ignore[misc]
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

    # Recorded only, unless a run gives them a weight: `task.rewards.in_form.weight`.
    @vf.reward(weight=0.0)  # type: ignore[untyped-decorator]
    async def in_form(self, trace: Any) -> float:
        """1 if the last reply ends with the line that the prompt asks for."""
        return float(keeps_form(trace.last_reply))

    @vf.reward(weight=0.0)  # type: ignore[untyped-decorator]
    async def short(self, trace: Any) -> float:
        """1 for a short reply, falling to 0 for a long one."""
        # An empty reply is no short answer.
        return brevity(trace.last_reply, self.config.characters) if trace.last_reply else 0.0

    async def validate(self, runtime: Any) -> bool:
        """True if the reference answer has the full score."""
        assert self.graded is not None
        example = from_record(self.data.record)
        reply = shown_answer(example.target, self.graded.answer_format)
        return self.graded.grade(reply, example).score == 1


class RecipeTaskset(vf.Taskset[RecipeTask, RecipeConfig]):  # type: ignore[misc]
    """The examples of a split as tasks, in order."""

    def load(self) -> Iterator[RecipeTask]:
        """Yield the tasks; rows are made as they are asked for."""
        graded = self.config.open()
        for index, example in enumerate(graded):
            data = RecipeData(
                id=f"{self.config.recipe}/{graded.split}/{graded.seed}/{index}",
                name=example.task or self.config.recipe,
                prompt=graded.prompt(example),
                record=to_record(example),
                answer=example.target,
                question=example.question,
            )
            yield RecipeTask(data, self.config.task, graded)


class RecipeEnvConfig(vf.SingleAgentEnvConfig):  # type: ignore[misc]
    """One agent without tools on this machine, which needs no account and no container."""

    agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})
    ask: bool = False
    """Hide the story: the agent asks for its sentences one by one, then answers."""


class RecipeEnv(vf.Env[RecipeEnvConfig]):  # type: ignore[misc]
    """The examples as questions of one turn, or as stories that the agent asks for."""

    async def run(self, task: RecipeTask, agents: Any) -> None:
        """Let the agent play a task."""
        if not self.config.ask:
            await agents.agent.run(task)
            return
        assert task.graded is not None
        dialogue = Dialogue(task.graded, from_record(task.data.record), task.data.question)
        hidden = RecipeTask(task.data.model_copy(update={"prompt": None}), task.config, task.graded)
        async with agents.agent.interaction(hidden) as agent:
            message: str | None = dialogue.opening
            while message is not None:
                turn = await agent.turn(message)
                message = None if turn.terminated else dialogue.respond(turn.last_reply)
