"""Questions to a model that answers without training, each asked once and remembered.

A probe chooses its next question by the answers so far. Every answer is written to a journal at
once, so that an interrupted probe asks only the remaining questions and ends with the same result.
A model that samples is asked the same question several times, until a confidence sequence for the
share of right answers excludes one half.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from taskloom.analysis.profile.profile import read_model
from taskloom.core.errors import ParameterError, TaskloomError, nearest
from taskloom.core.example import Example
from taskloom.core.files import append_journal, json_digest, path_of, read_journal
from taskloom.core.plan import Plan, Split
from taskloom.core.progress import Progress, shown
from taskloom.core.registry import is_python, load_module
from taskloom.core.scoring import Scorer
from taskloom.core.shards import to_examples, to_table
from taskloom.experiments.statistics.sequences import ConfidenceSequence
from taskloom.learners import config
from taskloom.learners.config import LEARNERS, code_digest, find_learner
from taskloom.learners.interface import trains
from taskloom.recipe import Recipe

Answer = Callable[[Sequence[str], int], list[str]]
"""Maps inputs and the number of the repetition to one answer per input."""

Model = str | Mapping[str, Any] | Callable[[str], str]
"""Model in any form that users may give; see `open_model`."""

TRAINING_ROWS = 1_000
"""Maximum training rows from which a learner may choose the examples of its prompt."""

SURE = 0.99
"""Level of the confidence sequence that decides whether an item is answered right. Many items are
asked, so it is higher than the 95 % of a single claim. An item that is always answered wrong is
asked 12 times.
"""

MOST_REPEATS = 60
"""Maximum number of times that one question is asked. An item that is answered right in a quarter
of all cases is decided after 55 answers (median of 100 simulations).
"""

BORDER = 0.5
"""Share of right answers below which an item counts as wrong for a model that samples."""


@dataclass(frozen=True, slots=True)
class AskedModel:
    """A model that answers questions.

    Attributes:
        name: Name on pages.
        identity: Digest of everything known to determine its answers.
        sampling: True if the same question may get different answers.
        answer: Function that asks the model.
    """

    name: str
    identity: str
    sampling: bool
    answer: Answer


def open_model(
    model: Model,
    plan: Plan,
    *,
    endpoint: str = "",
    sampling: bool | None = None,
) -> AskedModel:
    """Open a model for the questions of a plan.

    Args:
        model: A function from an input to an answer; `FILE.py::NAME`, a function or learner in a
            Python file; the settings of a learner (a mapping, or the same as YAML in braces); the
            folder of a saved learner; a language model's folder or hub id; with `endpoint`, a
            model's name there.
        plan: The plan. Its description is the instruction, and its training split provides the
            examples.
        endpoint: Address of an OpenAI-compatible endpoint, up to and including `/v1`.
        sampling: True if the same question may get different answers. Default: endpoints sample
            unless they are sent `temperature: 0`, everything else does not.
    """
    function = _function(model)
    if function is not None:
        if endpoint:
            raise ParameterError("endpoint", f"is for a model's name, and {model} is a function")
        return _of_function(function, bool(sampling))
    name, block = _settings(model, endpoint)
    learner: Any = config.read(block, "the model")
    if trains(learner):
        raise TaskloomError(
            f"the learner '{block['learner']}' has to be trained first; train it by 'taskloom run'"
            " with 'keep: {model: true}' and name the folder of the saved model"
        )
    if hasattr(learner, "describe") and not learner.describe:
        learner = replace(learner, describe=plan.describe)
    if sampling is None:
        request = getattr(learner, "request", None) or {}
        sampling = block["learner"] == "endpoint" and request.get("temperature") != 0
    registered = find_learner(str(block["learner"]))
    # A saved learner's block has a digest of its files; a learner from a file has its code.
    identity = json_digest(registered.identity(learner))
    return AskedModel(name, identity, sampling, _fitted_answers(learner, plan))


def _fitted_answers(learner: Any, plan: Plan) -> Answer:
    """Fit a learner when it is first asked."""
    fitted: dict[int, Any] = {}
    # An endpoint caches its replies, so every repetition needs a new sample.
    remembers = hasattr(learner, "cache")

    def answer(inputs: Sequence[str], repetition: int) -> list[str]:
        own = repetition if remembers else 0
        if own not in fitted:
            once = replace(learner, cache="") if own else learner
            fitted[own] = once.fit(_training_rows(plan))
        return list(fitted[own].answer(inputs))

    return answer


def _training_rows(plan: Plan) -> list[Example]:
    for split in plan.splits:
        if split.role == "train":
            return rows(plan, split, 0, min(split.n, TRAINING_ROWS))
    return []


def _settings(model: Any, endpoint: str) -> tuple[str, dict[str, Any]]:
    """Name and settings of the learner that the user named."""
    if isinstance(model, str) and model.strip().startswith("{"):
        import yaml

        try:
            model = yaml.safe_load(model)
        except yaml.YAMLError as error:
            example = "'{learner: endpoint, model: NAME}'"
            raise ParameterError("model", f"is not YAML in braces; write e.g. {example}") from error
    if isinstance(model, Mapping):
        block = {**model, "url": endpoint} if endpoint else dict(model)
        return str(block.get("model") or block.get("learner")), block
    if endpoint:  # asked with the prompt of `taskloom run`, not with the fixed prompt of profiles
        return model, {"learner": "endpoint", "url": endpoint, "model": model}
    if is_python(model.partition("::")[0]):
        return model, {"learner": model}
    profiled = read_model(model)
    return profiled.name, dict(profiled.settings)


def _function(model: Any) -> Callable[[str], str] | None:
    """The function that the user named. None if the model is not a function."""
    if callable(model):
        function: Callable[[str], str] = model
        return function
    if not isinstance(model, str | Mapping):
        raise ParameterError("model", f"is {type(model).__name__}; give a function or a name")
    if isinstance(model, Mapping) or not is_python(model.partition("::")[0]):
        return None
    path, _, wanted = model.partition("::")
    import sys

    module = load_module(path_of(path))
    learners = LEARNERS.of(module)
    if learners and (not wanted or wanted in learners):
        return None
    own: dict[str, Callable[[str], str]] = {
        name: thing
        for name, thing in vars(sys.modules[module]).items()
        if callable(thing) and getattr(thing, "__module__", "") == module and name[0] != "_"
    }
    if not wanted and len(own) == 1:
        return next(iter(own.values()))
    if wanted not in own:
        known = nearest(wanted, own) if own else "it defines none"
        raise TaskloomError(f"{path}: name a function of the file as {path}::NAME; {known}")
    return own[wanted]


def _of_function(function: Callable[[str], str], sampling: bool) -> AskedModel:
    name = getattr(function, "__name__", type(function).__name__)

    def answer(inputs: Sequence[str], repetition: int) -> list[str]:
        answers = [function(text) for text in inputs]
        for one in answers:
            if not isinstance(one, str):
                raise TaskloomError(f"{name} returned {one!r}; it must return a text")
        return answers

    try:
        code = code_digest(function)
    # defined at a prompt, or a built-in
    except (OSError, TypeError, AttributeError, TaskloomError):
        code = ""
    return AskedModel(name, json_digest([name, code]), sampling, answer)


ShowCount = Callable[[str, int, int], None]
"""Shows the current step in words, and the share of it that is done."""


@contextmanager
def count_display(progress: bool | None, unit: str) -> Iterator[ShowCount]:
    """Yield a function that shows progress, or one that does nothing if progress is off."""
    began = time.monotonic()
    with shown(progress) as show:

        def count(words: str, done: int, total: int) -> None:
            if show is not None:
                show(Progress(words, done, total, time.monotonic() - began, unit))

        yield count


def rows(plan: Plan, split: Split, start: int, stop: int) -> list[Example]:
    """Examples start..stop of a split."""
    made = split.rows(start, stop)
    if isinstance(made, Iterator | Sequence):
        return list(made)
    return list(to_examples(to_table(made, start, plan.traits)))


def asked_split(plan: Plan, name: str = "") -> Split:
    """Return the split of that name. Default: `test`, or else the first test split."""
    if name:
        return plan.split(name)
    tests = [split for split in plan.splits if split.role == "test" and split.n]
    if not tests:
        raise TaskloomError("the recipe has no test split with examples; name a split to ask")
    return next((split for split in tests if split.name == "test"), tests[0])


def drawn(recipe: Recipe, plan: Plan, split: Split, seed: int | None) -> Iterator[Example]:
    """Yield the examples of a split in a keyed random order, without repetition.

    After its `n` rows, a split continues with its further rounds (`Split.rounds`). The order
    depends only on recipe, seed and split, so that every model is asked the same items.
    """
    order = recipe.key(seed).permutation(split.n, "probe", split.name)
    number = 0
    while number < split.rounds:
        for position in range(split.n):
            index = number * split.n + int(order(position))
            yield from rows(plan, split, index, index + 1)
        number += 1


@dataclass
class Questions:
    """A model's answers to items, each question asked once.

    Attributes:
        model: The model.
        scorer: Judges its answers. An answer is right if its score is 1.
        folder: Folder of the result, in which answers are kept. None: in memory only.
        asked: Number of questions put to the model, including those in the journal.
        journal: File of all answers so far.
    """

    model: AskedModel
    scorer: Scorer
    folder: Path | None = None
    asked: int = 0
    journal: Path | None = field(default=None, init=False)
    _answers: dict[tuple[str, int], str] = field(default_factory=dict)
    _used: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.folder is None:
            return
        self.journal = self.folder / "answers" / f"{self.model.identity}.jsonl"
        for text, repetition, answer in read_journal(self.journal, 3):
            self._answers[text, repetition] = answer

    def answers(self, examples: Sequence[Example], repetition: int = 0) -> list[str]:
        """One answer per example."""
        keys = [(example.input, repetition) for example in examples]
        new = [key for key in dict.fromkeys(keys) if key not in self._answers]
        if new:
            given = self.model.answer([text for text, _ in new], repetition)
            self._answers.update(zip(new, given, strict=True))
            if self.journal is not None:
                append_journal(self.journal, [(*key, self._answers[key]) for key in new])
        self.asked += len(set(keys) - self._used)
        self._used.update(keys)
        return [self._answers[key] for key in keys]

    def right(self, examples: Sequence[Example], repetition: int = 0) -> list[bool]:
        """True for each example that is answered right in one repetition."""
        answers = self.answers(examples, repetition)
        scores = [self.scorer.score(a, e) for a, e in zip(answers, examples, strict=True)]
        return [score >= 1.0 for score in scores]

    def first_answer(self, example: Example) -> str:
        """The model's first wrong answer to an example; its first answer if none is wrong."""
        for repetition in range(MOST_REPEATS):
            if (example.input, repetition) not in self._used:
                break
            if not self.right([example], repetition)[0]:
                return self.answers([example], repetition)[0]
        return self.answers([example])[0]

    def wrong(self, examples: Sequence[Example]) -> list[bool]:
        """True for each example whose first answer is wrong and that is certainly answered
        wrong.
        """
        answered_right = self.right(examples)
        suspects = [e for e, right in zip(examples, answered_right, strict=True) if not right]
        certain = iter(self.certainly_wrong(suspects))
        return [not right and next(certain) for right in answered_right]

    def certainly_wrong(self, examples: Sequence[Example]) -> list[bool]:
        """True for each example that is answered wrong in more than half of all cases.

        If the model samples, every question is repeated until that is certain.
        """
        if not self.model.sampling:
            return [not right for right in self.right(examples)]
        sequences = [ConfidenceSequence(level=SURE) for _ in examples]
        open_items = list(range(len(examples)))
        for repetition in range(MOST_REPEATS):
            asked = self.right([examples[i] for i in open_items], repetition)
            for i, right in zip(open_items, asked, strict=True):
                sequences[i].add(float(right))
            open_items = [i for i in open_items if not sequences[i].excludes(BORDER)]
        return [sequence.interval[1] < BORDER for sequence in sequences]
