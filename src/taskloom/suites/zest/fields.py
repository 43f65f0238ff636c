"""The fields of a ZEST recipe, and the layouts of the input text that one of them chooses: by the
paper (appendix B) and by its public code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from taskloom.core.plan import Level
from taskloom.recipe import Fields, Span
from taskloom.recipe.fields import draw, presentation, world

Layout = Literal["t5", "bart", "reference-t5", "reference-bart"]
"""t5 and bart follow the paper. The reference layouts follow the code, which uses a different
prefix and doubles the question mark for T5.
"""

Parts = Literal["both", "question", "context"]
"""Parts of an input: question and passage, or one of them, as in the ablations of the paper's Table
5.
"""


def layout(question: str, context: str, style: Layout = "t5", parts: Parts = "both") -> str:
    """Join question and passage into the input text. An omitted part is empty.

    >>> layout("Is it open?", "The park is open.", "bart")
    'zeroshot question: Is it open? zeroshot context: The park is open.'
    """
    question, context = (
        question if parts != "context" else "",
        context if parts != "question" else "",
    )
    if style == "t5":
        return f"zeroshot question: {question}\n\nzeroshot context: {context}\n\n"
    if style == "bart":
        return f"zeroshot question: {question} zeroshot context: {context}"
    if style == "reference-t5":
        return f"zest question: {question}?\n\nzest context: {context}\n\n"
    return f" zest question: {question} zest context: {context}".replace("\n", " ")


def context(text: str) -> str:
    """Passage of an input text in any layout."""
    return text.partition("context: ")[2].strip()


def question(text: str) -> str:
    """Question of an input text in any layout.

    >>> question(layout("Is it open?", "The park is open.", "reference-t5"))
    'Is it open?'
    """
    start = text.partition("context: ")[0].partition("question: ")[2].strip()
    # The text ends with the name of the next part. The public code doubles the question mark.
    words = start.removesuffix("zeroshot").removesuffix("zest").strip()
    return words.removesuffix("?") if words.endswith("??") else words


def described_in_input(task: str, level: Level) -> str:
    """Empty description for recipes with `described`, because every ZEST input already contains its
    task's description.
    """
    return ""


MOST_TASKS = 1_000_000
"""Maximum number of tasks of a split."""


class TaskCounts(Fields):
    """Number of tasks in each split (the paper's Table 2)."""

    train: int = Field(538, ge=0, le=MOST_TASKS, description="Tasks of the training split")
    dev: int = Field(114, ge=0, le=MOST_TASKS, description="Tasks of the dev split")
    test: int = Field(599, ge=0, le=MOST_TASKS, description="Tasks of the test split")


class GeneralizationShares(Fields):
    """Subdivisions of the generalization types, at the level of detail of the paper's tables."""

    model_config = ConfigDict(allow_inf_nan=False)

    normal: float = Field(0.22, gt=0, description="Part of base tasks")
    paraphrase: float = Field(0.235, ge=0, description="Part of paraphrases of base tasks")
    combination: float = Field(0.24, ge=0, description="Part of compositions of base tasks")
    target_semantics: float = Field(
        0.21, ge=0, description="Part of flips: smallest changes of meaning"
    )
    structure: float = Field(0.095, ge=0, description="Part of tasks whose answers are structures")


class ZestFields(Fields):
    """Fields of a ZEST recipe: `files` reads published tasks, everything else generates them."""

    foremost: ClassVar[tuple[str, ...]] = ("tasks", "domains", "passages", "paraphrase", "facts")

    files: dict[str, str] = world(
        default_factory=dict,
        paths="all",
        description="split name to ZEST file; empty: generate tasks",
    )
    tasks: TaskCounts = draw(
        TaskCounts(), description="tasks of each split; the size of one moves no other"
    )
    train_prefix: int | None = draw(
        None,
        ge=1,
        description="tasks of train that are kept, the first ones: fewer are a prefix of more",
    )
    shares: GeneralizationShares = draw(
        GeneralizationShares(), description="parts of the generalization types"
    )
    domains: list[str] = world(
        default_factory=list,
        paths="marked",
        description="names, or files of your own; empty: all that there are",
    )
    passages: int = draw(20, ge=1, le=10_000, description="passages per task")
    na_rate: float | None = draw(
        None,
        ge=0,
        le=1,
        description="share of passages that do not answer; by default the paper's for each split",
    )
    classification: float | None = draw(
        None, ge=0, le=1, description="share of yes/no tasks; by default the paper's for each split"
    )
    unseen: Literal["form", "program"] = draw(
        "form",
        description=(
            "form: no split has a program of another one, whatever its constants; program: but for"
            " a constant"
        ),
    )
    facts: Span = draw(
        Span(4, 8),
        description="statements about the entity of a passage, as far as 180 words allow",
    )
    distractors: Span = draw(
        Span(2, 4), description="statements about others, as far as 180 words allow"
    )
    paraphrase: Literal["near", "far", "any"] = draw(
        "any", description="wordings that share many words, few, or any share"
    )
    flips: list[Literal["direction", "value", "attribute"]] = draw(
        ["direction", "value", "attribute"], description="which smallest changes of meaning"
    )
    composition_depth: Span = draw(Span(2, 2), description="base tasks joined, 2..3")
    structure_width: Span = draw(
        Span(1, 3), description="columns of output structures beside the name"
    )
    layout: Layout = presentation("t5", description="how question and passage are joined")
    parts: Parts = presentation(
        "both", description="both, or the question or the passage alone (the paper's Table 5)"
    )

    def key_fields(self) -> dict[str, Any]:
        """Fields that key the random streams. Domains count by name, wherever their files are."""
        return {**super().key_fields(), "domains": [Path(name).stem for name in self.domains]}

    @field_validator("facts", "distractors", "composition_depth", "structure_width")
    @classmethod
    def _sensible(cls, span: Span) -> Span:
        if span.low < 0 or span.high > 20:
            raise ValueError(f"{span} lies outside 0..20")
        return span

    @model_validator(mode="after")
    def _possible(self) -> ZestFields:
        if self.composition_depth.low < 2 or self.composition_depth.high > 3:
            raise ValueError(
                "composition_depth must lie within 2..3: a composition joins two or three base"
                " tasks"
            )
        if self.structure_width.low < 1:
            raise ValueError(
                "structure_width must be at least 1: a structure says something about each of its"
                " items"
            )
        if not self.flips and self.shares.target_semantics:
            raise ValueError(
                "flips: name at least one kind of flip, or set shares.target_semantics to 0"
            )
        if len(set(self.flips)) < len(self.flips):
            raise ValueError("flips must not name one twice")
        if len(set(self.domains)) < len(self.domains):
            raise ValueError("domains must not name one twice")
        return self
