"""The interfaces of learners, their registry, and how they report progress.

A learner adapts a model to a training split. The result is a `Fitted`: it answers inputs, gives
log-probabilities of candidate answers and states, and is saved and loaded without pickle. Nothing
here imports torch, so that listing learners is cheap.

Learners take examples, columns or texts in any accepted form. Arguments of callers are checked
here.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from taskloom.core.errors import InputError, TaskloomError
from taskloom.core.example import Example
from taskloom.core.files import LATER, later_defaults
from taskloom.core.registry import Registry, is_python, name_in_file, source_of

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
        split: Split that was measured; `train` is the mean over the training batches since the
            previous point.
        score: Share of right answers.
        loss: Mean cross entropy in nats.
    """

    step: int
    split: str
    score: float
    loss: float


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a training run, as callbacks get it."""

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
    """Report the training steps and answers of every call inside the block.

    For callers that do not call `fit` and `answer` themselves, such as the worker of an experiment.
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
    """Report how many inputs of a call are answered."""
    report = _answers.get()
    if report is not None:
        report(done, total)


Note = Callable[[str], None]
"""Called with a sentence for the user, such as "the endpoint asks to wait", from any thread."""

_notes: ContextVar[Note | None] = ContextVar("notes", default=None)


@contextmanager
def noted(report: Note) -> Iterator[None]:
    """Report the notes of every call inside the block."""
    token = _notes.set(report)
    try:
        yield
    finally:
        _notes.reset(token)


def noting() -> Note:
    """Return the function that reports notes.

    Call it in the thread that runs the learner and pass its result on, because other threads do not
    inherit the context. Each note is also printed on standard error, which is the log of a run.
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
        """Return one vector per input: the state at a named position in the model."""

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
        """Train on `train`.

        Args:
            train: The training split.
            evaluate: Splits of the learning curve. Only the one called `dev` may affect training.
            seed: Seed of the initial weights and of dropout.
            folder: Folder of checkpoints; a run found there is resumed.
            progress: Called regularly with the progress.
        """


@dataclass(frozen=True, slots=True)
class Entry:
    """A learner in the registry.

    Attributes:
        name: Name in experiments and commands.
        describe: One line for `taskloom list learners`.
        settings: Dataclass of its settings, whose instances are learners.
        load: Loads a fitted learner from a folder.
        defaults: Settings under this name that differ from the dataclass's.
        version: Increased when the same settings and seed would learn something else; part of every
            run's digest.
        code: Digest of the file that defines it, which is part of every run's digest; empty for
            learners of this package, which have versions instead.
    """

    name: str
    describe: str
    settings: type[Any]
    load: Callable[[Path], Fitted]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    code: str = ""

    def __call__(self, **settings: Any) -> Learner:
        """Build the learner without checking values, which `taskloom.learners.config.read` does for
        files.
        """
        learner: Learner = self.settings(**{**self.defaults, **settings})
        return learner

    def identity(self, learner: Learner) -> list[Any]:
        """Values that identify runs of this learner: name, version, settings, and the code if it
        comes from a file.
        """
        identity: list[Any] = [self.name, self.version, digest_settings(learner)]
        if self.code:
            identity.append(self.code)
        return identity


D = TypeVar("D")


def evaluation_splits(evaluate: Mapping[str, D] | None) -> Mapping[str, D]:
    """Check that the splits of a learning curve have names, and return them."""
    if evaluate is None:
        return {}
    if not isinstance(evaluate, Mapping) or not all(isinstance(name, str) for name in evaluate):
        raise LearnerError("evaluate must be splits by name, e.g. evaluate={'dev': …, 'test': …}")
    return evaluate


F = TypeVar("F", bound=Fitted)


class WithoutSteps(Generic[F]):
    """Base class of learners that do not train in steps: no learning curve, no resuming, no
    progress.
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
        """Fit at once; see `Learner.fit`."""
        evaluation_splits(evaluate)
        return self.learn(train, seed)

    def learn(self, train: Pairs, seed: int) -> F:
        """Fit at once."""
        raise NotImplementedError


def trains(learner: Learner) -> bool:
    """True if a learner has a training loop. The others only look at training examples, if at all."""
    return hasattr(learner, "training")


LEARNERS: Registry[Entry] = Registry("learner", "taskloom.learners", indexed=True)


def find_learner(name: str) -> Entry:
    """Return a learner by name (`bilstm`), by file (`mine.py`), or by a name in a file
    (`mine.py::mine/gru`).
    """
    return LEARNERS.get(name_in_file(name, LEARNERS.of, "learner") if is_python(name) else name)


C = TypeVar("C", bound=type[Any])


def register_learner(
    name: str,
    *,
    describe: str,
    load: Callable[[Path], Fitted] | None = None,
    version: int = 1,
    code: str | None = None,
    **defaults: Any,
) -> Callable[[C], C]:
    """Register a frozen dataclass that has `fit` as a learner; keywords change its defaults under
    this name.
    """

    def record(settings: C) -> C:
        digest = code_digest(settings) if code is None else code
        entry = Entry(
            name, describe, settings, load or _not_loaded(name), defaults, version, digest
        )
        LEARNERS.add(name, entry, f"{settings.__module__}.{settings.__name__}")
        return settings

    return record


def code_digest(thing: Callable[..., Any]) -> str:
    """Digest of the file that defines a class or function. Empty for this package, whose learners
    have versions instead.
    """
    if thing.__module__.startswith("taskloom."):
        return ""
    return blake2b(source_of(thing), digest_size=16).hexdigest()


def _not_loaded(name: str) -> Callable[[Path], Fitted]:
    def load(folder: Path) -> Fitted:
        raise LearnerError(
            f"{name} cannot be loaded from {folder}: it was registered without load="
        )

    return load


def later_setting(default: Any) -> Any:
    """Declare a setting that was added later, with the default that preserves the earlier
    behaviour.

    If left at its default, the setting is not part of a run's digest, so that the digests of older
    runs and checkpoints do not change.
    """
    return field(default=default, metadata={LATER: True})


ASIDE = "aside"
"""Marks a setting that does not affect answers, such as a price: `field(metadata={ASIDE: True})`.
It is not part of a run's digest.
"""


def aside_settings(settings: Any) -> set[str]:
    """Names of the settings that are marked `ASIDE`."""
    return {one.name for one in fields(settings) if ASIDE in one.metadata}


def digest_settings(settings: Any) -> dict[str, Any]:
    """The settings that are part of a run's digest, as JSON values: all except a `later_setting`
    left at its default, and those marked `ASIDE`.
    """
    values = {}
    left_out = later_defaults(settings) | aside_settings(settings)
    for one in fields(settings):
        value = getattr(settings, one.name)
        if one.name not in left_out:
            values[one.name] = digest_settings(value) if is_dataclass(value) else value
    plain: dict[str, Any] = json.loads(json.dumps(values, default=asdict))
    return plain


MAY_BE_ZERO = frozenset({"shots", "filters", "layers_answering", "longest_input"})
"""Integer settings that may be 0, which means none."""


def check_settings(settings: Any) -> None:
    """Raise an error for sizes below 1, dropout rates outside 0..1, and infinite or NaN values in a
    learner's settings.
    """
    for one in fields(settings):
        value = getattr(settings, one.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise LearnerError(f"{settings.name}: {one.name} is {value}; it must be a number")
        least = int(one.name not in MAY_BE_ZERO)
        if isinstance(value, int) and not isinstance(value, bool) and value < least:
            raise LearnerError(
                f"{settings.name}: {one.name} is {value}; it must be at least {least}"
            )
        if one.name.endswith("dropout") and not 0 <= value < 1:
            raise LearnerError(
                f"{settings.name}: {one.name} is {value}; it must be at least 0 and below 1"
            )


def examples(data: Pairs, split: str = "train") -> list[Example]:
    """Convert any accepted form of data to examples; an empty split is an error that names it."""
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
    """Return inputs as a list. A single text is refused, because it would be read letter by letter."""
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
    """Inputs and official targets only, read from the split's table if it has one, which is fast
    for large splits.
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
