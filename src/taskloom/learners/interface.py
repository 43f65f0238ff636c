"""The interfaces of learners, and how they report progress.

A learner adapts a model to a training split. The result is a `Fitted`, which answers inputs, gives
log-probabilities of candidate answers and states, and is saved and loaded without pickle. Nothing
here imports torch, so that listing learners is cheap.

Learners take examples, columns or texts in any accepted form. This module checks the arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from taskloom.core.errors import InputError, TaskloomError
from taskloom.core.example import Example

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Pairs(Protocol):
    """Data for learners: a split of a dataset, a list of examples, or a list of bare (input,
    target) pairs.
    """

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Example | tuple[str, str]]: ...


class LearnerError(TaskloomError):
    """Raised if a learner cannot be built, trained or loaded as requested."""


class TrainingError(LearnerError):
    """Raised if training had to stop. The checkpoint is kept and the run can be resumed."""


class Paused(TrainingError):  # noqa: N818 - not an error: the time that was granted is over
    """Raised when the time limit of a run is reached. Repeating the call resumes it."""


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement of a learning curve.

    Attributes:
        step: Number of training steps so far.
        split: The measured split. For `train`, the point is the mean over the training batches
            since the previous point.
        score: Share of right answers.
        loss: Mean cross entropy in nats.
    """

    step: int
    split: str
    score: float
    loss: float


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a training run, as passed to callbacks."""

    step: int
    steps: int
    loss: float
    seconds: float


Report = Callable[[Progress], None]

Answered = Callable[[int, int], None]
"""Called with the number of inputs answered so far, and their total."""

_steps: ContextVar[Report | None] = ContextVar("steps", default=None)
_answers: ContextVar[Answered | None] = ContextVar("answers", default=None)


@contextmanager
def watched(steps: Report, answers: Answered) -> Iterator[None]:
    """Pass the training steps and answers of every call inside the block to the given functions.

    This is for callers that do not call `fit` and `answer` themselves, such as the worker of an
    experiment.
    """
    tokens = _steps.set(steps), _answers.set(answers)
    try:
        yield
    finally:
        _steps.reset(tokens[0])
        _answers.reset(tokens[1])


def report_step(progress: Progress) -> None:
    """Report that a training step is done."""
    report = _steps.get()
    if report is not None:
        report(progress)


def report_answers(done: int, total: int) -> None:
    """Report how many inputs of a call have been answered."""
    report = _answers.get()
    if report is not None:
        report(done, total)


Measured = Callable[[int, Sequence[Point]], None]
"""Called with new points of the learning curve of one member of a stack, all of the same step."""

_measured: ContextVar[Measured | None] = ContextVar("measured", default=None)


@contextmanager
def measured(report: Measured) -> Iterator[None]:
    """Pass the points of the learning curves of every call inside the block to `report`."""
    token = _measured.set(report)
    try:
        yield
    finally:
        _measured.reset(token)


def report_points(member: int, points: Sequence[Point]) -> None:
    """Report new points of a learning curve.

    Args:
        member: Index of the seed or task in its stack; 0 if it is trained alone.
        points: The points, all of the same step.
    """
    report = _measured.get()
    if report is not None:
        report(member, points)


Note = Callable[[str], None]
"""Called with a sentence for the user, such as "the endpoint asks to wait", from any thread."""

_notes: ContextVar[Note | None] = ContextVar("notes", default=None)


@contextmanager
def noted(report: Note) -> Iterator[None]:
    """Pass the notes of every call inside the block to `report`."""
    token = _notes.set(report)
    try:
        yield
    finally:
        _notes.reset(token)


def noting() -> Note:
    """Return the function that reports notes.

    Call it in the thread that runs the learner, and pass the returned function to other threads,
    because they do not inherit the context. Each note is also printed on standard error, which is
    the log of a run.
    """
    report = _notes.get()

    def note(text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        if report is not None:
            report(text)

    return note


@runtime_checkable
class Fitted(Protocol):
    """A trained model."""

    @property
    def curve(self) -> Sequence[Point]:
        """Learning curve; empty for learners that do not train in steps."""

    def answer(self, inputs: Sequence[str]) -> list[str]:
        """Return one answer per input."""

    def logprob(
        self, inputs: Sequence[str], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Return the log-probability of each candidate answer of each input."""

    def represent(self, inputs: Sequence[str], where: str = "readout") -> NDArray[np.float32]:
        """Return one vector per input, the state at a named position in the model."""

    def save(self, folder: Path) -> None:
        """Save the model to a folder, for `load` to read."""


@runtime_checkable
class Learner(Protocol):
    """A learning method with its settings."""

    def fit(
        self,
        train: Pairs,
        evaluate: Mapping[str, Pairs] | None = None,
        seed: int = 0,
        *,
        folder: Path | None = None,
        progress: Report | None = None,
    ) -> Fitted:
        """Train on `train`.

        Args:
            train: The training split.
            evaluate: Splits for the learning curve. Only the one called `dev` may affect training.
            seed: Seed of the initial weights and of dropout.
            folder: Folder of checkpoints; a run found there is resumed.
            progress: Called regularly during training.
        """


D = TypeVar("D")


def evaluation_splits(evaluate: Mapping[str, D] | None) -> Mapping[str, D]:
    """Check that the splits for a learning curve have names, and return them."""
    if evaluate is None:
        return {}
    if not isinstance(evaluate, Mapping) or not all(isinstance(name, str) for name in evaluate):
        raise LearnerError("evaluate must be splits by name, e.g. evaluate={'dev': …, 'test': …}")
    return evaluate


F = TypeVar("F", bound=Fitted)


class WithoutSteps(Generic[F]):
    """Base class of learners that do not train in steps and so have no learning curve, progress or
    resuming.
    """

    def fit(
        self,
        train: Pairs,
        evaluate: Mapping[str, Pairs] | None = None,
        seed: int = 0,
        *,
        folder: Path | None = None,
        progress: Report | None = None,
    ) -> F:
        """Fit in one go; see `Learner.fit`."""
        evaluation_splits(evaluate)
        return self.learn(train, seed)

    def learn(self, train: Pairs, seed: int) -> F:
        """Fit in one go."""
        raise NotImplementedError


def trains(learner: Learner) -> bool:
    """True if the learner has a training loop. Other learners take no training steps, and some
    ignore the training split.
    """
    return hasattr(learner, "training")


def examples(data: Pairs, split: str = "train") -> list[Example]:
    """Convert any accepted form of data to examples. An empty split raises an error that names
    it.
    """
    check_split(data, split)
    items = [_example(item, split) for item in data]
    if not items:
        raise _empty(split)
    return items


def check_split(data: Any, split: str) -> None:
    """Raise an error for a whole dataset, or for anything that is not data."""
    if isinstance(data, Mapping) or hasattr(data, "splits"):
        raise LearnerError(
            f"the split '{split}' is a whole dataset; give one of its splits, e.g. data['{split}']"
        )
    if not isinstance(data, Iterable):
        raise LearnerError(
            f"the split '{split}' is {data!r}; give a split of a dataset, or a list of examples or"
            " of pairs (input, target)"
        )


def _example(item: Any, split: str) -> Example:
    match item:
        case Example(input=str(), targets=(_, *_)):
            example = item
        case (str(text), str() as target) | (str(text), [str(), *_] as target):
            example = Example(text, target)
        case _:
            raise LearnerError(
                f"the split '{split}' has {str(item)[:60]!r} where an example or a pair of texts"
                " (input, target) should be"
            )
    _check_texts((example.input, *example.targets), f"the split '{split}' has")
    return example


def _check_texts(texts: Iterable[Any], where: str) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{where} {str(text)[:60]!r} where a text should be")
        try:
            text.isascii() or text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"{where} the text {text[:60]!r} with half a character ({text[error.start]!r}),"
                " which no file can hold; fix it"
            ) from None


def texts(inputs: Iterable[str], what: str = "the inputs") -> list[str]:
    """Return inputs as a list. A single text is refused, because it would be read character by
    character.
    """
    if isinstance(inputs, str):
        raise InputError(
            f"{what} are the bare text {inputs[:60]!r}; give a list of texts, e.g."
            f" [{inputs[:60]!r}]"
        )
    if not isinstance(inputs, Iterable):
        raise InputError(f"{what} are {inputs!r}; give a list of texts")
    listed = list(inputs)
    _check_texts(listed, f"{what} have")
    return listed


def _empty(split: str) -> LearnerError:
    if split == "train":
        return LearnerError("there is nothing to learn from: the training split is empty")
    return LearnerError(f"the split '{split}' is empty; leave it out, or give it examples")


def columns(data: Pairs, split: str = "train") -> tuple[list[str], list[str]]:
    """Return the inputs and official targets. They are read from the split's table if it has one,
    which is fast for large splits.
    """
    check_split(data, split)
    table: Any = getattr(data, "table", None)
    if table is None:
        items = examples(data, split)
        return [e.input for e in items], [e.target for e in items]
    if len(data) == 0:
        raise _empty(split)
    from taskloom.core.arrow import firsts

    return table["input"].to_pylist(), firsts(table["targets"]).to_pylist()


def check_candidates(inputs: Sequence[str], candidates: Sequence[Sequence[str]]) -> None:
    """Raise an error unless there is a list of candidate texts for each input."""
    if len(inputs) != len(candidates):
        raise InputError(
            f"there are {len(inputs)} inputs and candidates for {len(candidates)}; give each input"
            " a list"
        )
    for row in candidates:
        texts(row, "the candidates of an input")


def check_seed(seed: Any) -> None:
    """Raise an error for seeds that random generators do not accept."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not -(2**63) <= seed < 2**63:
        raise LearnerError(f"the seed is {seed!r}; it must be a whole number of at most 64 bits")
