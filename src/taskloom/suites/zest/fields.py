"""Fields of a ZEST recipe, and the layouts of the input text: the paper's (appendix B) and the
public code's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from taskloom.core.plan import Level
from taskloom.recipe import Fields, Span
from taskloom.recipe.fields import draw, presentation, world

Layout = Literal["t5", "bart", "reference-t5", "reference-bart"]
"""Layouts of the input. `t5` and `bart` follow the paper. The reference layouts follow the public
code, which uses a different prefix and doubles the question mark for T5.
"""

Parts = Literal["both", "question", "context"]
"""Parts of the input: question and passage, or only one of them, as in the ablations of the paper's
Table 5.
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
    """Extract the passage from an input text in any layout."""
    return text.partition("context: ")[2].strip()


def question(text: str) -> str:
    """Extract the question from an input text in any layout.

    >>> question(layout("Is it open?", "The park is open.", "reference-t5"))
    'Is it open?'
    """
    start = text.partition("context: ")[0].partition("question: ")[2].strip()
    # The text ends with the label of the next part. The public code doubles the question mark.
    words = start.removesuffix("zeroshot").removesuffix("zest").strip()
    return words.removesuffix("?") if words.endswith("??") else words


def described_in_input(task: str, level: Level) -> str:
    """Return an empty description for recipes with `described`, because ZEST inputs already contain
    the description.
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
    """How the generalization types are divided, as detailed as in the paper's tables."""

    model_config = ConfigDict(allow_inf_nan=False)

    normal: float = Field(0.22, gt=0, description="Share of base tasks")
    paraphrase: float = Field(0.235, ge=0, description="Share of paraphrases of base tasks")
    combination: float = Field(0.24, ge=0, description="Share of compositions of base tasks")
    target_semantics: float = Field(
        0.21, ge=0, description="Share of semantic flips, which are minimal changes of meaning"
    )
    structure: float = Field(0.095, ge=0, description="Share of tasks whose answers are structures")


class ZestFields(Fields):
    """Fields of a ZEST recipe. `files` reads published tasks; all other fields control generated
    ones.
    """

    foremost: ClassVar[tuple[str, ...]] = ("tasks", "domains", "passages", "paraphrase", "facts")

    files: dict[str, str] = world(
        default_factory=dict,
        paths="all",
        description="split name to ZEST file; if empty, tasks are generated",
    )
    tasks: TaskCounts = draw(
        TaskCounts(),
        description="number of tasks per split; changing one split does not change the others",
    )
    train_prefix: int | None = draw(
        None,
        ge=1,
        description="use only the first tasks of train; fewer tasks are a prefix of more",
    )
    shares: GeneralizationShares = draw(
        GeneralizationShares(), description="shares of the generalization types"
    )
    domains: list[str] = world(
        default_factory=list,
        paths="marked",
        description="names of domains, or your own domain files; if empty, all built-in domains",
    )
    passages: int = draw(20, ge=1, le=10_000, description="passages per task")
    na_rate: float | None = draw(
        None,
        ge=0,
        le=1,
        description="share of passages without an answer; by default the paper's share for each "
        "split",
    )
    classification: float | None = draw(
        None,
        ge=0,
        le=1,
        description="share of yes/no tasks; by default the paper's share for each split",
    )
    unseen: Literal["form", "program"] = draw(
        "form",
        description=(
            "how splits differ. form: no two splits share a form of program, whatever "
            "its constants; program: they may differ only in constants"
        ),
    )
    facts: Span = draw(
        Span(4, 8),
        description="number of statements about the passage's main entity, as far as 180 words "
        "allow",
    )
    distractors: Span = draw(
        Span(2, 4),
        description="number of statements about other entities, as far as 180 words allow",
    )
    paraphrase: Literal["near", "far", "any"] = draw(
        "any",
        description=(
            "word overlap of paraphrases with the original wording: near (high), far (low) or any"
        ),
    )
    flips: list[Literal["direction", "value", "attribute"]] = draw(
        ["direction", "value", "attribute"], description="allowed kinds of semantic flips"
    )
    composition_depth: Span = draw(
        Span(2, 2), description="number of base tasks per composition, 2..3"
    )
    structure_width: Span = draw(
        Span(1, 3), description="number of columns of output structures in addition to the name"
    )
    layout: Layout = presentation("t5", description="how question and passage are joined")
    parts: Parts = presentation(
        "both", description="both, or only the question or the passage (the paper's Table 5)"
    )

    def key_fields(self) -> dict[str, Any]:
        """Return the fields that key the random streams. Domains are identified by name, regardless
        of the location of their files.
        """
        return {**super().key_fields(), "domains": [Path(name).stem for name in self.domains]}

    @field_validator("facts", "distractors", "composition_depth", "structure_width")
    @classmethod
    def _sensible(cls, span: Span) -> Span:
        if span.low < 0 or span.high > 20:
            raise ValueError(f"{span} is outside 0..20")
        return span

    @model_validator(mode="after")
    def _possible(self) -> ZestFields:
        if self.composition_depth.low < 2 or self.composition_depth.high > 3:
            raise ValueError(
                "composition_depth must be within 2..3, because a composition joins two "
                "or three base tasks"
            )
        if self.structure_width.low < 1:
            raise ValueError(
                "structure_width must be at least 1, because a structure needs a column "
                "besides the name"
            )
        if not self.flips and self.shares.target_semantics:
            raise ValueError(
                "flips: name at least one kind of flip, or set shares.target_semantics to 0"
            )
        if len(set(self.flips)) < len(self.flips):
            raise ValueError("flips must not repeat a name")
        if len(set(self.domains)) < len(self.domains):
            raise ValueError("domains must not repeat a name")
        return self
