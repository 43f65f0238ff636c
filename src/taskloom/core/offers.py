"""Optional parts of a suite besides examples: file formats, a solver, its own evaluation, command
options.

They are attributes and methods of the suite. The commands `export`, `solve`, `score`, `make` and
`apply` find them through the registry, so suites in other packages can have them too.
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
        command: Command that gets the option. For `make` and `apply` it sets the recipe's field of
            the same name. For `solve` and `score` it is passed to the suite's function as a keyword
            argument, as text.
        name: Name of the option: `tables` is `--tables` on the command line.
        help: One line, which is shown after the suite's name.
        file: True if the option's value is the path of a JSON or YAML file that contains the
            field's value.
    """

    command: Literal["make", "apply", "solve", "score"]
    name: str
    help: str
    file: bool = False


@dataclass(frozen=True, slots=True)
class TraitName:
    """Label and explanation of a trait for reports.

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
        lines: Lines of the file, with line ends.
        left_out: Number of examples that the format cannot represent.
        reason: Why they were left out, as in `their answer is not a word of the story`.
    """

    lines: Iterable[str]
    left_out: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """Another format in which `taskloom show` prints the tasks of a recipe. The view `sparql` adds
    the option `--sparql`.

    Attributes:
        help: One line, which is shown after the suite's name.
        texts: Returns the text of each task, by task name, given the checked fields of a recipe.
    """

    help: str
    texts: Callable[[Any], Mapping[str, str]]


Exporter = Callable[[Sequence["Example"], Any], Export]
"""Function from the examples of a split and the checked fields of their recipe (None for files from
other sources) to the exported text.
"""


class SolveReport(Protocol):
    """Result of a suite's solver for one file."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data."""

    def text(self) -> str:
        """Return the result as readable text."""


class Evaluation(Protocol):
    """Result of a suite's own evaluation of predictions."""

    def to_dict(self, details: bool = False) -> dict[str, Any]:
        """Return the result as JSON data. With `details`, include every task."""

    def text(self) -> str:
        """Return the result as readable text."""


RunScores = Callable[["Plan", Sequence["Example"], Sequence[str]], Mapping[str, float]]
"""Function from a recipe's plan, the examples of a split and their predictions to named scores of
the whole split, such as `{"C@90": 0.25}`.
"""

PlanScorer = Callable[["Plan"], "Scorer"]
"""Function from a recipe's plan to a scorer that depends on the plan, such as one that compares
with the answers at each position.
"""

TaskForm = Callable[[str, Mapping[str, Any]], str]
"""Function from a task's name and the traits of one of its examples to the task's form, which
leaves out its constants. Used by the audit.
"""

Solver = Callable[..., SolveReport]
"""`solve(path, **options)` answers every question of a file. The path `-` means standard input."""

Evaluator = Callable[..., Evaluation]
"""`evaluate(gold, predictions, thresholds=…, **options)`, where `gold` is a file or the examples of
a dataset's split.
"""

PredictionReader = Callable[["Path", int], list[str]]
"""Function from a file of predictions, in the format of the suite's own programs, and the number of
examples of the split to the predicted answers.
"""
