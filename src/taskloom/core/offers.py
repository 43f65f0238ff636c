"""Optional parts of a suite besides examples: other file formats, a solver, an evaluation of its
own, options of commands.

A suite has these as attributes and methods; the commands `export`, `solve`, `score`, `make` and
`apply` find them in the registry, so a suite of another package has them as ours do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from taskloom.core.example import Example
    from taskloom.core.plan import Plan
    from taskloom.core.scoring import Scorer


@dataclass(frozen=True, slots=True)
class Option:
    """An option that a suite adds to a command.

    Attributes:
        command: `make` and `apply`: it sets the recipe's field of the same name. `solve` and
            `score`: it is passed as a keyword argument, as text, to the suite's function.
        name: `tables` is `--tables` on the command line.
        help: One line; the suite's name is put before it.
        file: The option names a JSON or YAML file that holds the value.
    """

    command: Literal["make", "apply", "solve", "score"]
    name: str
    help: str
    file: bool = False


@dataclass(frozen=True, slots=True)
class TraitName:
    """How reports call a trait of a suite's examples.

    Attributes:
        label: A noun for titles and sentences: `supporting facts`.
        explanation: One sentence for readers who don't know the suite.
    """

    label: str
    explanation: str = ""


@dataclass(frozen=True, slots=True)
class Export:
    """A split in another format.

    Attributes:
        lines: The text of the file, with line ends.
        left_out: Examples that the format cannot hold.
        reason: Why they were left out, as in `their answer is not a word of the story`.
    """

    lines: Iterable[str]
    left_out: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """Another form in which `taskloom show` prints the tasks of a recipe: the view `sparql` is the
    option `--sparql`.

    Attributes:
        help: One line; the suite's name is put before it.
        texts: From the checked fields of a recipe to the text of each of its tasks, by the task's
            name.
    """

    help: str
    texts: Callable[[Any], Mapping[str, str]]


Exporter = Callable[[Sequence["Example"], Any], Export]
"""From the examples of a split and the checked fields of their recipe (None for files that somebody
else made).
"""


class SolveReport(Protocol):
    """What a suite's solver says of a file."""

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""

    def text(self) -> str:
        """Return it for people."""


class Evaluation(Protocol):
    """What a suite's own evaluation says of predictions."""

    def to_dict(self, details: bool = False) -> dict[str, Any]:
        """Return it for JSON; `details` adds every task."""

    def text(self) -> str:
        """Return it for people."""


RunScores = Callable[["Plan", Sequence["Example"], Sequence[str]], Mapping[str, float]]
"""From a recipe's plan, the examples of a split and their predictions to named scores of the whole,
such as `{"C@90": 0.25}`.
"""

PlanScorer = Callable[["Plan"], "Scorer"]
"""From a recipe's plan to a scorer of its examples that needs it, such as one that compares with
the answers at each position.
"""

TaskForm = Callable[[str, Mapping[str, Any]], str]
"""From a task's name and the traits of one of its examples to its form, the task without its
constants, for the audit.
"""

Solver = Callable[..., SolveReport]
"""`solve(path, **options)`: answers every question of a file; the path `-` is standard input."""

Evaluator = Callable[..., Evaluation]
"""`evaluate(gold, predictions, thresholds=…, **options)`: gold is a file, or the examples of a
dataset's split.
"""

PredictionReader = Callable[["Path", int], list[str]]
"""From a file of predictions and the number of examples of a split to the predicted answers, as the
suite's programs write them.
"""
