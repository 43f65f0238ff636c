"""Any recipe as a dataset with reasoning-gym's interface, so that code written for that library
runs unchanged.

    import taskloom.interop.reasoning_gym as reasoning_gym

    data = reasoning_gym.create_dataset("my-recipe.yaml", size=100, seed=42)
    for entry in data:
        score = data.score_answer(answer=model(entry["question"]), entry=entry)

This does not require the library. If it is installed, `register` adds recipes to its factory, for
composites, and `create_dataset` and `get_score_answer_fn` also accept its datasets. In the other
direction, `library_example` converts its entries to examples for Taskloom tasks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import InitVar, dataclass, field, make_dataclass
from functools import cached_property, lru_cache
from typing import Any

from taskloom.core.errors import InputError, ParameterError, echo, nearest
from taskloom.core.example import Example
from taskloom.core.extraction import ANSWER_FORMAT, DESCRIBED, EXTRACT
from taskloom.core.scoring import scorer
from taskloom.core.seeding import Random
from taskloom.interop import need
from taskloom.interop.graded import GradedSplit, from_record, open_split, to_record
from taskloom.recipe.overrides import Changes, changed_fields, given_changes

__all__ = [
    "GymConfig",
    "GymDataset",
    "create_dataset",
    "get_score_answer_fn",
    "library_example",
    "library_score",
    "register",
]


@dataclass
class GymConfig:
    """Settings of a dataset. The library's helpers copy them and change the seed.

    Attributes:
        recipe: A recipe's name or file.
        split: Name of the split. Default: the first test split.
        seed: Seed of the samples.
        size: Number of entries.
        changes: Changes to the recipe's fields.
        described: True if questions begin with the description of their task.
        extract: How answers are extracted from replies.
        answer_format: Sentence after each question that asks for an answer format; empty: none.
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
        """Accept `set` as another name for `changes`."""
        self.changes = changed_fields(given_changes(self.changes or None, set))

    def validate(self) -> None:
        """Raise `ParameterError` if size or seed is not a whole number. The recipe is not read
        here.
        """
        for name, least in (("size", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ParameterError(
                    name, f"must be a whole number of at least {least}, not {echo(value)}"
                )


class GymDataset:
    """Entries of a recipe, generated on demand: dictionaries with `question`, `answer` and
    `metadata`.
    """

    category = "taskloom"

    def __init__(self, config: GymConfig, seed: int | None = None, size: int | None = None) -> None:
        config.validate()
        self.config = config
        self.seed = config.seed if seed is None else seed
        self.size = config.size if size is None else size

    @cached_property
    def examples(self) -> GradedSplit:
        """The examples with their scorer."""
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
        """Score an answer with the recipe's scorer. Never raises: an answer that is not text gets
        0.
        """
        try:
            example = from_record(entry["metadata"])
        except (KeyError, TypeError) as error:
            raise InputError(
                "an entry has 'question', 'answer' and 'metadata', as this dataset gives it"
            ) from error
        return self.examples.grade(answer, example).score


def create_dataset(name: str, **config: Any) -> Any:
    """Create the dataset of a recipe. If the library is imported, its own names, such as
    `composite`, are passed on to it.

    Args:
        name: A recipe's name or file.
        config: The other attributes of `GymConfig`: `size`, `seed`, `split`, `changes` (or `set`),
            `described`, `extract`.
    """
    factory = _join_the_library()
    if factory is not None and name in factory.DATASETS:
        return factory.create_dataset(name, **config)
    try:
        return GymDataset(GymConfig(name, **config))
    except TypeError as error:
        raise ParameterError(
            "config", f"has a setting that datasets of recipes do not have ({error})"
        ) from error


def get_score_answer_fn(name: str) -> Callable[..., float]:
    """The function that scores an answer for an entry of a recipe, or of the library's dataset."""
    factory = _join_the_library()
    if factory is not None and name in factory.DATASETS:
        scored: Callable[..., float] = factory.get_score_answer_fn(name)
        return scored
    return GymDataset(GymConfig(name, size=1)).score_answer


def register(*recipes: str) -> None:
    """Register recipes with the library's factory, under their names, for use in composites.

    Args:
        recipes: Names or files of recipes. Those already registered are skipped.
    """
    need("reasoning-gym", "reasoning_gym.factory", "DATASETS", "register_dataset")
    factory = _join_the_library()
    for recipe in recipes:
        if recipe in factory.DATASETS:
            continue
        GymDataset(GymConfig(recipe, size=1)).examples  # noqa: B018 - a wrong name is refused here
        # The library builds a configuration only from settings, so each recipe needs a class.
        config = make_dataclass("RecipeConfig", [("recipe", str, recipe)], bases=(GymConfig,))
        factory.register_dataset(recipe, GymDataset, config)


def library_example(rng: Random, name: str, **config: Any) -> Example:
    """Convert an entry of a library dataset to an example, for your own task:

        @tl.task("my/legs", describe="Count the legs.", scorer=library_score)
        def legs(rng: tl.Random, max_animals: int = tl.knob(6)) -> tl.Example:
            return library_example(rng, "leg_counting", max_animals=max_animals)

    Args:
        rng: The task's random generator.
        name: The dataset's name in the library.
        config: The dataset's settings in the library.
    """
    where = json.dumps({"name": name, "seed": rng.randrange(2**31), **config}, sort_keys=True)
    entry = _dataset_of(where)[0]
    if not isinstance(entry["answer"], str):
        raise InputError(f"{name} of reasoning-gym has entries without an answer")
    difficulty = entry["metadata"].get("difficulty") or {}
    traits = {key: v for key, v in difficulty.items() if isinstance(v, int | float | str)}
    return Example(entry["question"], entry["answer"], {**traits, ENTRY: where})


ENTRY = "library_entry"
"""Trait with the settings that regenerate a library entry, because an entry has more than an
example can hold.
"""


@scorer("reasoning-gym", describe="score_answer of the dataset of reasoning-gym.", needs=(ENTRY,))
def library_score(prediction: str, example: Example) -> float:
    """The library's score of an answer."""
    data = _dataset_of(str(example.traits[ENTRY]))
    return float(data.score_answer(answer=prediction, entry=data[0]))


@lru_cache(maxsize=4096)
def _dataset_of(where: str) -> Any:
    """The library dataset of a single entry, from the settings in an `ENTRY` trait."""
    config = json.loads(where)
    name = config.pop("name")
    library = need("reasoning-gym", "reasoning_gym", "create_dataset")
    known = need("reasoning-gym", "reasoning_gym.factory", "DATASETS").DATASETS
    if name not in known:
        raise ParameterError("name", f"is '{name}'; {nearest(name, known)}")
    return library.create_dataset(name, size=1, **config)


def _join_the_library() -> Any:
    """If the library is imported, make `isinstance(data, ProceduralDataset)` true for our datasets,
    and return its factory. Otherwise return None.
    """
    library = sys.modules.get("reasoning_gym.dataset")
    if library is not None:
        library.ProceduralDataset.register(GymDataset)
    return sys.modules.get("reasoning_gym.factory")
