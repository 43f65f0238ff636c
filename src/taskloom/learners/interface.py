"""What a learner is, and how learners are found by name.

A learner adapts a model to a training split; what it gives back is `Fitted`: it answers inputs, weighs candidates, shows its
states, and is saved and loaded without pickle. Nothing here imports torch, so that listing learners costs nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from taskloom.errors import InputError, TaskloomError
from taskloom.example import Example
from taskloom.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Pairs(Protocol):
    """What learners take: a split of a dataset, a list of examples, or a list of bare (input, target) pairs."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Example | tuple[str, str]]: ...


class LearnerError(TaskloomError):
    """A learner that cannot be built, trained or loaded as asked."""


class TrainingError(LearnerError):
    """A training run that had to stop; its checkpoint stays and the run can be resumed."""


class Paused(TrainingError):  # noqa: N818 - not a fault: the time that was granted is over
    """The time granted to a run is over; the same call resumes it."""


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement of a learning curve.

    Attributes:
        step: After how many training steps.
        split: What was measured; `train` is the mean over the training batches since the point before.
        score: The share of right answers.
        loss: Mean cross entropy in nats.
    """

    step: int
    split: str
    score: float
    loss: float


@dataclass(frozen=True, slots=True)
class Progress:
    """What a progress callback is told: where a run stands."""

    step: int
    steps: int
    loss: float
    seconds: float


Report = Callable[[Progress], None]


@runtime_checkable
class Fitted(Protocol):
    """A model that has learned."""

    @property
    def curve(self) -> Sequence[Point]:
        """The learning curve, empty for what does not learn in steps."""

    def answer(self, inputs: Sequence[str]) -> list[str]:
        """One answer per input."""

    def logprob(self, inputs: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[list[float]]:
        """The log-probability of each candidate answer of each input."""

    def represent(self, inputs: Sequence[str], where: str = "readout") -> NDArray[np.float32]:
        """One vector per input: the state at a named place of the model."""

    def save(self, folder: Path) -> None:
        """Write everything that `load` needs."""


@runtime_checkable
class Learner(Protocol):
    """A way to learn, with its settings."""

    def fit(
        self,
        train: Pairs,
        evaluate: Mapping[str, Pairs] | None = None,
        seed: int = 0,
        *,
        folder: Path | None = None,
        progress: Report | None = None,
    ) -> Fitted:
        """Learn from `train`.

        Args:
            train: The training split.
            evaluate: Splits whose scores the learning curve shows. Only the one called `dev` may decide anything.
            seed: Of the initial weights and of dropout.
            folder: Where checkpoints go; a run that is found there is resumed.
            progress: Called now and then.
        """


F = TypeVar("F", bound=Fitted)


class Untrained(Generic[F]):
    """A learner that does not learn in steps: there is no curve, nothing to resume and no progress to tell."""

    def fit(
        self,
        train: Pairs,
        evaluate: Mapping[str, Pairs] | None = None,
        seed: int = 0,
        *,
        folder: Path | None = None,
        progress: Report | None = None,
    ) -> F:
        """See `Learner.fit`."""
        held_out(evaluate)
        return self.learn(train, seed)

    def learn(self, train: Pairs, seed: int) -> F:
        """Learn at once."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Entry:
    """A learner as the registry knows it.

    Attributes:
        name: What recipes and commands call it.
        describe: One line for `taskloom list learners`.
        settings: The dataclass of its settings, whose instances are learners.
        load: From a folder to a fitted learner.
        defaults: Settings under this name that differ from the dataclass's.
        version: Raised whenever the same settings and seed would learn something else; part of every run's digest.
    """

    name: str
    describe: str
    settings: type[Any]
    load: Callable[[Path], Fitted]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1

    def __call__(self, **settings: Any) -> Learner:
        """The learner with these settings; values are taken as they are (`taskloom.learners.config.read` checks a file's)."""
        made: Learner = self.settings(**{**self.defaults, **settings})
        return made


LEARNERS: Registry[Entry] = Registry("learner", "taskloom.learners")

C = TypeVar("C", bound=type[Any])


def learner(
    name: str, *, describe: str, load: Callable[[Path], Fitted], version: int = 1, **defaults: Any
) -> Callable[[C], C]:
    """Register a frozen dataclass that has `fit` as a learner; keywords change its defaults under this name."""

    def record(settings: C) -> C:
        made = Entry(name, describe, settings, load, defaults, version)
        LEARNERS.add(name, made, f"{settings.__module__}.{settings.__name__}")
        return settings

    return record


def added(default: Any) -> Any:
    """The default of a setting that a learner got later, with which it learns as it did before there was the setting.

    Left at that default the setting is no part of a run's digest, so that runs and checkpoints of before stay what they are.
    """
    return field(default=default, metadata={"added": True})


def telling(settings: Any) -> dict[str, Any]:
    """The settings that tell runs apart, by name, as JSON keeps them: all but those `added` later and left alone."""
    found = {}
    for one in fields(settings):
        value = getattr(settings, one.name)
        if not (one.metadata.get("added") and value == one.default):
            found[one.name] = telling(value) if is_dataclass(value) else value
    plain: dict[str, Any] = json.loads(json.dumps(found, default=asdict))
    return plain


MAY_BE_ZERO = frozenset({"shots", "filters"})
"""Whole numbers among settings that may be 0, which means: none."""


def check_settings(settings: Any) -> None:
    """Refuse sizes below 1, dropout rates outside 0..1 and numbers that are none among a learner's own settings."""
    for one in fields(settings):
        value = getattr(settings, one.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise LearnerError(f"{settings.name}: {one.name} is {value}; it must be a number")
        least = int(one.name not in MAY_BE_ZERO)
        if isinstance(value, int) and not isinstance(value, bool) and value < least:
            raise LearnerError(f"{settings.name}: {one.name} is {value}; it must be at least {least}")
        if one.name.endswith("dropout") and not 0 <= value < 1:
            raise LearnerError(f"{settings.name}: {one.name} is {value}; it must be at least 0 and below 1")


def examples(data: Pairs, split: str = "train") -> list[Example]:
    """Any accepted form of data as examples; an empty split is an error that names it."""
    check_split(data, split)
    found = [_example(item, split) for item in data]
    if not found:
        raise _empty(split)
    return found


def check_split(data: Any, split: str) -> None:
    """Refuse a whole dataset, and what is no data."""
    if isinstance(data, Mapping) or hasattr(data, "splits"):
        raise LearnerError(f"the split '{split}' is a whole dataset; give one of its splits, e.g. data['{split}']")
    if not isinstance(data, Iterable):
        raise LearnerError(
            f"the split '{split}' is {data!r}; give a split of a dataset, or a list of examples or of pairs (input, target)"
        )


def _example(item: Any, split: str) -> Example:
    match item:
        case Example(input=str(), targets=(_, *_)):
            made = item
        case (str(text), str() as target) | (str(text), [str(), *_] as target):
            made = Example(text, target)
        case _:
            raise LearnerError(
                f"the split '{split}' has {str(item)[:60]!r} where an example or a pair of texts (input, target) should be"
            )
    _check_texts((made.input, *made.targets), f"the split '{split}' has")
    return made


def _check_texts(found: Iterable[Any], where: str) -> None:
    for text in found:
        if not isinstance(text, str):
            raise InputError(f"{where} {str(text)[:60]!r} where a text should be")
        try:
            text.isascii() or text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"{where} the text {text[:60]!r} with half a character ({text[error.start]!r}), which no file can hold; mend it"
            ) from None


def texts(inputs: Iterable[str], what: str = "the inputs") -> list[str]:
    """Inputs as a list; a bare text, which would else be read letter by letter, is refused."""
    if isinstance(inputs, str):
        raise InputError(f"{what} are the bare text {inputs[:60]!r}; give a list of texts, e.g. [{inputs[:60]!r}]")
    if not isinstance(inputs, Iterable):
        raise InputError(f"{what} are {inputs!r}; give a list of texts")
    found = list(inputs)
    _check_texts(found, f"{what} have")
    return found


D = TypeVar("D")


def held_out(evaluate: Mapping[str, D] | None) -> Mapping[str, D]:
    """The splits of a learning curve; without names they could not be told apart."""
    if evaluate is None:
        return {}
    if not isinstance(evaluate, Mapping) or not all(isinstance(name, str) for name in evaluate):
        raise LearnerError("evaluate must be splits by name, e.g. evaluate={'dev': …, 'test': …}")
    return evaluate


def _empty(split: str) -> LearnerError:
    if split == "train":
        return LearnerError("there is nothing to learn from: the training split is empty")
    return LearnerError(f"the split '{split}' is empty; leave it out, or give it examples")


def columns(data: Pairs, split: str = "train") -> tuple[list[str], list[str]]:
    """Inputs and official targets alone, read straight from the table where a split is one: a large split is fast that way."""
    check_split(data, split)
    table: Any = getattr(data, "table", None)
    if table is None:
        found = examples(data, split)
        return [e.input for e in found], [e.target for e in found]
    if len(data) == 0:
        raise _empty(split)
    import pyarrow.compute as pc

    return table["input"].to_pylist(), pc.list_element(table["targets"], 0).to_pylist()


def check_candidates(inputs: Sequence[str], candidates: Sequence[Sequence[str]]) -> None:
    """Refuse candidates that are not one list of texts for each input."""
    if len(inputs) != len(candidates):
        raise InputError(f"there are {len(inputs)} inputs and candidates for {len(candidates)}; give each input a list")
    for row in candidates:
        texts(row, "the candidates of an input")


def check_seed(seed: Any) -> None:
    """Refuse what random generators cannot take."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not -(2**63) <= seed < 2**63:
        raise LearnerError(f"the seed is {seed!r}; it must be a whole number of at most 64 bits")
