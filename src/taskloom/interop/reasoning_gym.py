"""Any recipe as a dataset of reasoning-gym: code that was written for that library runs on it
unchanged.

    import taskloom.interop.reasoning_gym as reasoning_gym

    data = reasoning_gym.create_dataset("my-recipe.yaml", size=100, seed=42)
    for entry in data:
        score = data.score_answer(answer=model(entry["question"]), entry=entry)

Nothing of the library is needed or imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any

from taskloom.core.errors import InputError, ParameterError, echo
from taskloom.core.extraction import ANSWER_FORMAT, DESCRIBED, EXTRACT
from taskloom.interop.graded import GradedSplit, from_record, open_split, to_record
from taskloom.recipe.overrides import Changes, changed_fields, given_changes

__all__ = ["GymConfig", "GymDataset", "create_dataset"]


@dataclass
class GymConfig:
    """The settings of a dataset; the library's own helpers copy it and change the seed.

    Attributes:
        recipe: A recipe's name or file.
        split: Which split; the first test split by default.
        seed: Of the samples.
        size: How many entries.
        changes: Changes of the recipe's fields.
        described: Whether questions begin with the description of their task.
        extract: How answers are cut out of replies.
        answer_format: The sentence after each question that asks for a form; empty: none.
    """

    recipe: str
    split: str | None = None
    seed: int = 0
    size: int = 500
    changes: Mapping[str, Any] = field(default_factory=dict)
    described: bool = DESCRIBED
    extract: str = EXTRACT
    answer_format: str = ANSWER_FORMAT
    set: InitVar[Changes] = None

    def __post_init__(self, set: Changes) -> None:
        """Take changes under their other name, `set`."""
        self.changes = changed_fields(given_changes(self.changes or None, set))

    def validate(self) -> None:
        """Raise a `ParameterError` where size or seed is not a whole number, as far as it shows
        without the recipe.
        """
        for name, least in (("size", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ParameterError(
                    name, f"must be a whole number of at least {least}, not {echo(value)}"
                )


class GymDataset:
    """The entries of a recipe, made as they are asked for: dictionaries with `question`, `answer`
    and `metadata`.
    """

    category = "taskloom"

    def __init__(self, config: GymConfig, seed: int | None = None, size: int | None = None) -> None:
        config.validate()
        self.config = config
        self.seed = config.seed if seed is None else seed
        self.size = config.size if size is None else size

    @cached_property
    def examples(self) -> GradedSplit:
        """Return the examples with their scorer."""
        how = self.config
        return open_split(
            how.recipe,
            how.split,
            self.size,
            seed=self.seed,
            changes=how.changes,
            described=how.described,
            extract=how.extract,
            answer_format=how.answer_format,
        )

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(self.size))

    def __getitem__(self, idx: int) -> dict[str, Any]:
        example = self.examples[idx]
        record = to_record(example)
        metadata = {
            "source_dataset": self.examples.name,
            "source_index": idx,
            "split": self.examples.split,
            "seed": self.seed,
            "difficulty": dict(example.traits),
            **record,
        }
        return {
            "question": self.examples.prompt(example),
            "answer": example.target,
            "metadata": metadata,
        }

    def score_answer(self, answer: str | None, entry: Mapping[str, Any]) -> float:
        """Return the score of an answer by the recipe's scorer: 0 for what is not text, never an
        error.
        """
        try:
            example = from_record(entry["metadata"])
        except (KeyError, TypeError) as error:
            raise InputError(
                "an entry has 'question', 'answer' and 'metadata', as this dataset gives it"
            ) from error
        return self.examples.grade(answer, example).score


def create_dataset(name: str, **config: Any) -> GymDataset:
    """Return the dataset of a recipe; the library's function of this name does the same for its own
    datasets.

    Args:
        name: A recipe's name or file.
        config: The other attributes of `GymConfig`: `size`, `seed`, `split`, `changes` (or `set`),
            `described`, `extract`.
    """
    _join_the_library()
    try:
        return GymDataset(GymConfig(name, **config))
    except TypeError as error:
        raise ParameterError(
            "config", f"has a setting that a dataset of a recipe lacks ({error})"
        ) from error


def _join_the_library() -> None:
    """Let datasets count as the library's own where it is imported: `isinstance(data,
    ProceduralDataset)` holds.
    """
    library = sys.modules.get("reasoning_gym.dataset")
    if library is not None:
        library.ProceduralDataset.register(GymDataset)
