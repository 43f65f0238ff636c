"""The example: one input with its acceptable outputs, and the traits that analyses group by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Trait = str | int | float | bool
"""Type of a trait: a scalar, so that any table tool can group by it."""


QUESTION_MARK = "\n\nQuestion: "
"""Separator between a passage and its question in one input, because a question may have several
sentences.
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a derivation: a rule and the value that it produced.

    A derivation is an ordered list of steps that forms a graph: `of` lists the indices of the steps
    whose values this step uses. `of=None` means the previous step, so a chain does not need `of`.
    """

    rule: str
    value: str
    of: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, init=False)
class Example:
    """One input with its acceptable outputs.

    Attributes:
        input: Text shown to the model.
        targets: Every acceptable output; the first is the official one.
        traits: Named scalars that analyses group by.
        key: The content that decides the split, such as a word, a story signature or a function
            sequence. Empty means the input.
        question: The question, if the rest of the input is context. Empty means the whole input.
        derivation: Steps that lead to the answer.
        task: The name of the task, filled in by the task itself.
    """

    input: str
    targets: tuple[str, ...]
    traits: Mapping[str, Trait]
    key: str
    question: str
    derivation: tuple[Step, ...]
    task: str

    def __init__(
        self,
        input: str,
        targets: str | Sequence[str],
        traits: Mapping[str, Trait] | None = None,
        *,
        key: str = "",
        question: str = "",
        derivation: Sequence[Step] = (),
        task: str = "",
    ) -> None:
        # Task authors may write `Example("a b", "b a")`. All other code can rely on tuples.
        put = object.__setattr__
        put(self, "input", input)
        put(self, "targets", (targets,) if isinstance(targets, str) else tuple(targets))
        # Use a plain dict, because a read-only view could neither be pickled for workers nor
        # written as JSON.
        put(self, "traits", {} if traits is None else traits)
        put(self, "key", key)
        put(self, "question", question)
        put(self, "derivation", tuple(derivation))
        put(self, "task", task)

    def _repr_html_(self) -> str:
        from taskloom.core.pictures import STORIES, story_html
        from taskloom.core.tables import table

        draw = STORIES.get(self.task.partition("/")[0])
        picture = draw(self) if draw is not None else None
        if picture is not None:
            return story_html(picture)
        rows = [("input", self.input), ("answer", " | ".join(self.targets[:20]))]
        if self.derivation:
            rows.append(
                ("because", ", ".join(f"{step.rule} → {step.value}" for step in self.derivation))
            )
        if self.traits:
            rows.append(
                (
                    "traits",
                    ", ".join(
                        f"{name}={value}" for name, value in self.traits.items() if value != ""
                    ),
                )
            )
        return table((self.task or "example", ""), rows).html()

    @property
    def target(self) -> str:
        """The official output."""
        return self.targets[0]

    @property
    def content(self) -> str:
        """The content that identifies this example: its key, or its input if it has no key."""
        return self.key or self.input


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a single input of a function task: the acceptable outputs and their
    derivation.
    """

    targets: tuple[str, ...]
    derivation: tuple[Step, ...] = ()
