"""Baselines as ordinary learners: what is possible without understanding, and the suite's own
solver as an upper bound.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from taskloom.core.errors import InputError, MissingExtra
from taskloom.core.example import Example
from taskloom.learners.config import check_settings, register_learner
from taskloom.learners.interface import (
    Fitted,
    LearnerError,
    Pairs,
    Point,
    WithoutSteps,
    check_candidates,
    check_split,
    columns,
    examples,
    texts,
)
from taskloom.learners.saved import read_learner, saving

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from taskloom.core.plan import Plan

MEMORY = "memory.json"
"""Name of the file with a baseline's memory: JSON, because it holds words and counts."""


class _Remembering:
    """Base class of fitted baselines, which have no learning curve, no states, and a memory of
    plain values.
    """

    curve: tuple[Point, ...] = ()

    def __init__(self, learner: Any, memory: dict[str, Any]) -> None:
        self.learner = learner
        self.memory = memory

    def represent(self, inputs: Sequence[str], where: str = "readout") -> NDArray[np.float32]:
        """Raise an error: a baseline has no states."""
        raise LearnerError(
            f"the baseline '{self.learner.name}' has no states to represent inputs by"
        )

    def save(self, folder: Path) -> None:
        """Write the card and the memory."""
        with saving(folder, self.learner) as temporary:
            text = json.dumps(self.memory, ensure_ascii=False)
            (temporary / MEMORY).write_text(text, encoding="utf-8")


def _remembered(folder: Path, *keys: str) -> tuple[Any, dict[str, Any]]:
    """Read a baseline and its memory, and check that the memory has these keys."""
    _, learner = read_learner(folder)
    path = Path(folder) / MEMORY
    try:
        memory: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise LearnerError(f"{path} is missing or damaged ({error}); fit and save again") from error
    if not isinstance(memory, dict) or not set(keys) <= set(memory):
        raise LearnerError(
            f"{path} is damaged (it should have {', '.join(keys) or 'names'}); fit and save again"
        )
    return learner, memory


def _certain(answers: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[list[float]]:
    """Log-probabilities of a model that is certain of its answer."""
    check_candidates(answers, candidates)
    return [
        [0.0 if c == a else -math.inf for c in row]
        for a, row in zip(answers, candidates, strict=True)
    ]


class FittedMajority(_Remembering):
    """Gives the most frequent answer to every input."""

    def answer(self, inputs: Sequence[str]) -> list[str]:
        """Return the same answer for every input."""
        return [next(iter(self.memory))] * len(texts(inputs))

    def logprob(
        self, inputs: Sequence[str], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Relative frequencies in training."""
        check_candidates(texts(inputs), candidates)
        total = sum(self.memory.values())
        return [
            [math.log(self.memory[c] / total) if c in self.memory else -math.inf for c in row]
            for row in candidates
        ]


def load_majority(folder: Path) -> Fitted:
    """Load a saved majority baseline."""
    learner, memory = _remembered(folder)
    if not memory:
        raise LearnerError(
            f"{folder} is damaged (there is no answer in its {MEMORY}); fit and save again"
        )
    return FittedMajority(learner, memory)


@register_learner(
    "majority",
    describe="baseline: the best constant answer of training",
    load=load_majority,
    version=2,
)
@dataclass(frozen=True)
class Majority(WithoutSteps[FittedMajority]):
    """Gives the answer that is acceptable for the most training examples. Ties go to the answer
    that occurs first.
    """

    name: ClassVar[str] = "majority"

    def learn(self, train: Pairs, seed: int) -> FittedMajority:
        """Count each acceptable answer of an example once."""
        check_split(train, "train")
        table: Any = getattr(train, "table", None)
        if table is None:
            targets = [e.targets for e in examples(train, "train")]
        else:
            targets = table["targets"].to_pylist()  # without building examples
        once_each = map(dict.fromkeys, targets)
        counted = Counter(itertools.chain.from_iterable(once_each))
        if not counted:
            columns(train)  # raises the error for an empty split
        return FittedMajority(self, dict(counted.most_common()))


def _features(text: str) -> Counter[str]:
    """Words and pairs of neighbouring words, so that word order has some influence."""
    words = text.split()
    return Counter(words) + Counter(f"{a} {b}" for a, b in itertools.pairwise(words))


class FittedNearest(_Remembering):
    """Gives the answer of the most similar training input."""

    @cached_property
    def _index(
        self,
    ) -> tuple[dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]], NDArray[np.float64]]:
        import numpy as np

        # An inverted index: for each feature the inputs that have it, and how often.
        postings: dict[str, list[tuple[int, int]]] = {}
        sizes = []
        for i, text in enumerate(self.memory["inputs"]):
            features = _features(text)
            sizes.append(sum(features.values()))
            for feature, times in features.items():
                postings.setdefault(feature, []).append((i, times))
        index = {}
        for feature, pairs in postings.items():
            inputs, times_there = np.array(pairs, dtype=np.int64).T
            index[feature] = (inputs, times_there.astype(np.float64))
        return index, np.array(sizes, dtype=np.float64)

    def answer(self, inputs: Sequence[str]) -> list[str]:
        """Return the answer of the most similar training input; ties go to the earlier one."""
        import numpy as np

        index, sizes = self._index
        answers = []
        for text in texts(inputs):
            features = _features(text)
            shared = np.zeros(len(sizes))
            for feature, times in features.items():
                if feature in index:
                    where, there = index[feature]
                    shared[where] += np.minimum(there, times)
            # Dice's coefficient of the two bags of features, 2 |A & B| / (|A| + |B|).
            best = int(np.argmax(2 * shared / np.maximum(1, sizes + sum(features.values()))))
            answers.append(str(self.memory["targets"][best]))
        return answers

    def logprob(
        self, inputs: Sequence[str], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Return 0 for the chosen answer and minus infinity for all others."""
        return _certain(self.answer(inputs), candidates)


def load_nearest(folder: Path) -> Fitted:
    """Load a saved nearest-neighbour baseline."""
    return FittedNearest(*_remembered(folder, "inputs", "targets"))


@register_learner(
    "nearest-neighbour",
    describe="baseline: the answer of the most similar training input",
    load=load_nearest,
)
@dataclass(frozen=True)
class Nearest(WithoutSteps[FittedNearest]):
    """Nearest neighbour by overlap of words and pairs of neighbouring words."""

    name: ClassVar[str] = "nearest-neighbour"

    def learn(self, train: Pairs, seed: int) -> FittedNearest:
        """Store the training examples."""
        inputs, targets = columns(train)
        return FittedNearest(self, {"inputs": inputs, "targets": targets})


class FittedBag(_Remembering):
    """A linear classifier over the words of the input, in any order."""

    def _scores(self, inputs: Sequence[str]) -> NDArray[np.float64]:
        import numpy as np

        weights = np.array(self.memory["weights"])
        column = {word: i for i, word in enumerate(self.memory["words"])}
        scores = np.tile(np.array(self.memory["bias"]), (len(inputs), 1))
        for row, text in enumerate(inputs):
            for word, times in Counter(text.split()).items():
                if word in column:
                    scores[row] += times * weights[:, column[word]]
        # Log-softmax. The largest score is subtracted first, so that exp does not overflow.
        shifted = scores - scores.max(1, keepdims=True)
        logprobs: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        return logprobs

    def answer(self, inputs: Sequence[str]) -> list[str]:
        """Return the likeliest answer of each input."""
        inputs = texts(inputs)
        if not inputs:
            return []
        return [str(self.memory["classes"][i]) for i in self._scores(inputs).argmax(1)]

    def logprob(
        self, inputs: Sequence[str], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Return the classifier's log-probabilities."""
        inputs = texts(inputs)
        check_candidates(inputs, candidates)
        column = {c: i for i, c in enumerate(self.memory["classes"])}
        logprobs = []
        for row, answers in zip(self._scores(inputs), candidates, strict=True):
            logprobs.append([float(row[column[a]]) if a in column else -math.inf for a in answers])
        return logprobs


def load_bag(folder: Path) -> Fitted:
    """Load a saved bag-of-words baseline."""
    return FittedBag(*_remembered(folder, "words", "classes", "weights", "bias"))


@register_learner(
    "bag-of-words",
    describe="baseline: logistic regression on the words of the input",
    load=load_bag,
)
@dataclass(frozen=True)
class BagOfWords(WithoutSteps[FittedBag]):
    """Logistic regression on word counts.

    Attributes:
        strength: Inverse strength of the L2 penalty, as in scikit-learn.
        most: Maximum number of training examples to use. More would take long and hardly change a
            linear model with few words.
    """

    strength: float = 1.0
    most: int = 20_000

    name: ClassVar[str] = "bag-of-words"

    def __post_init__(self) -> None:
        check_settings(self)
        if not self.strength > 0:
            raise LearnerError(f"{self.name}: strength is {self.strength}; it must be above 0")

    def learn(self, train: Pairs, seed: int) -> FittedBag:
        """Fit with scikit-learn, which is not needed afterwards."""
        try:
            from sklearn.feature_extraction.text import CountVectorizer
            from sklearn.linear_model import LogisticRegression
        except ImportError:
            raise MissingExtra("the baseline 'bag-of-words'", "scikit-learn", "audit") from None
        inputs, targets = columns(train)
        inputs, targets = inputs[: self.most], targets[: self.most]
        if not any(text.split() for text in inputs):
            raise LearnerError(
                f"{self.name} counts words and the training inputs have none; use 'majority'"
            )
        counter = CountVectorizer(tokenizer=str.split, token_pattern=None, lowercase=False)
        counts = counter.fit_transform(inputs)
        classes = sorted(set(targets))
        words = [str(w) for w in counter.get_feature_names_out()]
        if len(classes) == 1:  # nothing to separate; scikit-learn would refuse it
            nothing = {"weights": [[0.0] * len(words)], "bias": [0.0]}
            return FittedBag(self, {"words": words, "classes": classes, **nothing})
        model = LogisticRegression(C=self.strength, max_iter=1000).fit(counts, targets)
        weights, bias = model.coef_, model.intercept_
        if len(classes) == 2:  # scikit-learn keeps one row for two classes
            weights, bias = [0 * weights[0], weights[0]], [0.0, float(bias[0])]
        memory = {
            "words": words,
            "classes": [str(c) for c in model.classes_],
            "weights": [[float(x) for x in row] for row in weights],
            "bias": [float(b) for b in bias],
        }
        return FittedBag(self, memory)


class FittedSolver(_Remembering):
    """Answers with the suite's solver."""

    @cached_property
    def _plan(self) -> Plan:
        from taskloom.data import Dataset
        from taskloom.recipe import read

        if self.memory:
            recipe, seed = Dataset(self.memory, {}).recipe, int(self.memory["seed"])
        else:
            recipe, seed = read(self.learner.recipe, self.learner.set), self.learner.seed
        plan = recipe.plan(seed)
        if plan.answer is None:
            raise LearnerError(
                f"'{recipe.name}' has no solver that answers a bare input; use a recipe whose "
                "tasks are functions"
            )
        return plan

    def answer(self, inputs: Sequence[str]) -> list[str]:
        """Return the official answer, or an empty answer if the solver finds none."""
        ask = self._plan.answer
        assert ask is not None
        answers = []
        for text in texts(inputs):
            try:
                answers.append(ask(text).targets[0])
            except InputError:
                answers.append("")
        return answers

    def logprob(
        self, inputs: Sequence[str], candidates: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        """Return 0 for the chosen answer and minus infinity for all others."""
        return _certain(self.answer(inputs), candidates)


def load_solver(folder: Path) -> Fitted:
    """Load a saved solver."""
    return FittedSolver(*_remembered(folder))


CHECKED = 100
"""Number of training examples that a solver must answer correctly before it is used. This reveals a
solver built with other settings than the data.
"""


@register_learner(
    "solver", describe="upper bound: the suite's own solver", load=load_solver, version=2
)
@dataclass(frozen=True)
class Solver(WithoutSteps[FittedSolver]):
    """Answers by the suite's rules, without learning.

    Attributes:
        recipe: Recipe whose solver to use. If empty: the recipe and seed of the training split, or
            the task named by the examples if the split does not come from a dataset.
        set: Overrides of the recipe, as `taskloom.make` takes them.
        seed: Seed of the recipe's world, if the world depends on one.
    """

    recipe: str = ""
    set: tuple[str, ...] = ()
    seed: int = 0

    name: ClassVar[str] = "solver"

    def learn(self, train: Pairs, seed: int) -> FittedSolver:
        """Find the solver, and check that the training examples follow its rules."""
        check_split(train, "train")
        items = train if hasattr(train, "table") else list(train)
        recipe, memory = self.recipe, {}
        made_by: Mapping[str, Any] = getattr(train, "manifest", {})
        if not recipe and not self.set and made_by.get("recipe", {}).get("suite"):
            memory = {"recipe": made_by["recipe"], "seed": made_by["seed"]}
        elif not recipe:
            named = sorted({e.task for e in items if isinstance(e, Example) and e.task})
            if len(named) != 1:
                raise LearnerError(
                    "the solver must know whose rules to follow: set recipe, e.g. {learner:"
                    " solver, recipe: NAME} (the training examples name"
                    f" {', '.join(named) or 'no task'})"
                )
            recipe = named[0]
        fitted = FittedSolver(Solver(recipe, self.set, self.seed), memory)
        first = list(itertools.islice(items, CHECKED))
        some = examples(first) if first else []
        for answer, example in zip(fitted.answer([e.input for e in some]), some, strict=True):
            if answer not in example.targets:
                raise LearnerError(
                    f"the solver answers {example.input[:60]!r} with {answer!r}, but the"
                    f" training split has {example.target!r}: it was made with other settings; give"
                    " them as set and seed"
                )
        return fitted
