"""The project file, PROJECT/project.yaml, which an owner writes and the server reads at startup."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from taskloom.apps.collect.errors import CollectError, phrase
from taskloom.recipe.yaml_files import explain, load

FILE = "project.yaml"

DATABASE = "collect.sqlite"

TEMPLATE = """\
# A collection project: people write tasks about the documents and annotate passages. Read at each start of `taskloom collect`.
name: Parks of our county
domains:
  - name: parks
    entity: this park            # how a question names the entity: "Can I camp in this park?"
    documents: documents/parks   # a folder of .txt, .md, .jsonl or .parquet files, or one such file
    good: ["Are dogs allowed on the trails of this park?", "What animals live in this park?"]
    bad: ["Is the Blue Lake in this park deep? (about one entity)", "Is this park nice? (not answerable from a passage)"]
annotators: 3          # people who answer each item without seeing each other
passages: 20           # per task
near_misses: 0.3       # share of passages that rank too low to answer the question
entity_share: 0.05     # no entity has more than this share of a domain's passages
splits: {train: 40, dev: 10, test: 50}   # base tasks in every hundred; what derives from a base task follows it
qualification:
  share: 0.8           # of the items below that an annotator must answer right before any work
  items: []            # - {question: ..., passage: ..., format: yes/no, answer: "yes"}
# model: {local: smollm2}   # may suggest where an owner allows it; or url and model of an endpoint, or local: a model's folder
"""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DomainEntry(_Strict):
    """One domain: the subject of the documents."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,40}$", description="in the exported files"
    )
    entity: str = Field(
        min_length=3, max_length=60, description="the place-holder in questions: this park"
    )
    documents: str = Field(description="a folder or a file, from the project folder")
    good: list[str] = Field(default_factory=list, description="examples of good questions")
    bad: list[str] = Field(
        default_factory=list, description="examples of bad questions, each with its reason"
    )

    @field_validator("entity")
    @classmethod
    def _placeholder(cls, entity: str) -> str:
        if not entity.lower().startswith("this "):
            raise ValueError(
                f"a place-holder begins with 'this', such as 'this park', not {entity!r}"
            )
        return entity


class QualificationEntry(_Strict):
    """An item with a known answer."""

    question: str = Field(min_length=3, max_length=500)
    passage: str = Field(min_length=3, max_length=20_000)
    format: Literal["yes/no", "span"] = "yes/no"
    answer: str = Field(
        min_length=1,
        max_length=2_000,
        description="yes, no, n/a, or spans of the passage joined by |",
    )

    @model_validator(mode="after")
    def _answerable(self) -> QualificationEntry:
        if self.format == "yes/no" and self.answer not in ("yes", "no", "n/a"):
            raise ValueError(
                f"the answer to a yes/no question is yes, no or n/a, not {self.answer!r} (quote it"
                " in YAML)"
            )
        if self.format == "span" and self.answer != "n/a":
            for part in self.answer.split("|"):
                if part not in self.passage:
                    raise ValueError(f"the answer {part!r} is not a part of the passage")
        return self


class QualificationRules(_Strict):
    """Requirements on an annotator before any work counts."""

    share: float = Field(0.8, ge=0, le=1)
    items: list[QualificationEntry] = Field(default_factory=list, max_length=200)


class SplitPercent(_Strict):
    """Percentage of base tasks in each split."""

    train: int = Field(40, ge=0, le=100)
    dev: int = Field(10, ge=0, le=100)
    test: int = Field(50, ge=0, le=100)

    @model_validator(mode="after")
    def _whole(self) -> SplitPercent:
        if self.train + self.dev + self.test != 100:
            raise ValueError(
                f"the splits must add up to 100, not {self.train + self.dev + self.test}"
            )
        return self


class ModelEntry(_Strict):
    """A model that may suggest texts once an owner enables it. It is on this machine or behind an
    OpenAI-compatible endpoint.
    """

    url: str | None = Field(
        None, pattern=r"^https?://\S+$", description="an endpoint, up to and including /v1"
    )
    local: str | None = Field(
        None,
        min_length=1,
        description=(
            "smollm2, or a folder from the project folder: a Hugging Face model, or a learner saved"
            " by Taskloom"
        ),
    )
    model: str = Field(
        "",
        max_length=200,
        description="the endpoint's name of the model; for a local one how it is shown",
    )
    key_variable: str = Field("OPENAI_API_KEY", description="the environment variable with the key")
    requests: int = Field(
        1_000, ge=1, description="the most requests to an endpoint while the server runs"
    )

    @model_validator(mode="after")
    def _one_place(self) -> ModelEntry:
        if (self.url is None) == (self.local is None):
            raise ValueError(
                "a model has either 'url' (an endpoint) or 'local' (smollm2 or a folder)"
            )
        if self.url is not None and not self.model:
            raise ValueError("'model' is missing: the name by which the endpoint knows it")
        return self


class ProjectFile(_Strict):
    """A collection project as its owner describes it."""

    name: str = Field(min_length=1, max_length=120)
    domains: list[DomainEntry] = Field(min_length=1, max_length=50)
    instructions: dict[Literal["writer", "annotator", "reviewer"], str] = Field(
        default_factory=dict
    )
    annotators: int = Field(3, ge=1, le=25)
    passages: int = Field(20, ge=1, le=1_000)
    near_misses: float = Field(0.3, ge=0, le=1)
    entity_share: float = Field(0.05, gt=0, le=1)
    longest_passage: int = Field(300, ge=20, le=5_000, description="words")
    splits: SplitPercent = SplitPercent()
    qualification: QualificationRules = QualificationRules()
    model: ModelEntry | None = None
    seed: int = 0

    @model_validator(mode="after")
    def _distinct(self) -> ProjectFile:
        names = [d.name for d in self.domains]
        if len(set(names)) < len(names):
            raise ValueError("domains must not repeat a name")
        return self

    def domain(self, name: str) -> DomainEntry:
        """Domain by name."""
        for entry in self.domains:
            if entry.name == name:
                return entry
        raise CollectError(
            phrase("unknown_domain", name=name[:40], names=", ".join(d.name for d in self.domains))
        )


def read_project(folder: Path) -> ProjectFile:
    """Read and check the project file of a folder."""
    path = folder / FILE
    if not path.is_file():
        raise CollectError(
            f"{folder} has no {FILE}; 'taskloom collect new {folder}' writes one to edit, with its"
            " keys explained"
        )
    given = load(path, CollectError)
    try:
        return ProjectFile.model_validate(given)
    except ValidationError as error:
        raise CollectError(explain(error, ProjectFile, str(path))) from error


def write_template(folder: Path) -> Path:
    """Write a project file to start from. An existing file is never overwritten."""
    path = folder / FILE
    if path.exists():
        raise CollectError(f"{path} is there already; edit it, or choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(TEMPLATE, encoding="utf-8")
    return path
