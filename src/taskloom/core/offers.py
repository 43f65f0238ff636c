"""Optional parts of a suite besides examples: other file formats, a solver, an evaluation of its
own, options of commands, outside resources.

A suite has these as attributes and methods; the commands `export`, `solve`, `score`, `make` and
`apply` find them in the registry, so a suite of another package has them as ours do.

A suite also declares the outside resources that it can use. Nothing is fetched unless it is asked
for by name. A resource is looked for in `TASKLOOM_DATA`, then in the cache
folder (`TASKLOOM_CACHE`, by default `~/.cache/taskloom`), then where its own environment variables
point.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from taskloom.core.errors import DataError, TaskloomError, nearest
from taskloom.core.files import cache_folder
from taskloom.core.registry import SUITES

if TYPE_CHECKING:
    from pathlib import Path

    from taskloom.core.example import Example
    from taskloom.core.plan import Plan


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


TIMEOUT = 60.0
"""Seconds without a byte after which a download counts as broken off."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Something outside the package that a suite can use.

    Attributes:
        name: What `taskloom data get` takes.
        describe: What it is and which suite uses it.
        marks: Paths below a data folder, all of which are there (also as zip files) when the
            resource is.
        variables: Further environment variables that name a folder in which `marks` are looked for,
            less their first part.
        fetch: Puts it into a folder, or None where its owners do not offer a download that needs no
            agreement.
    """

    name: str
    describe: str
    marks: tuple[str, ...]
    variables: tuple[str, ...] = ()
    fetch: Callable[[Path], None] | None = None

    def find(self) -> Path | None:
        """Return the folder that holds the resource, or None."""
        for base in (os.environ.get("TASKLOOM_DATA"), str(cache_folder() / "data")):
            if base and all(_there(Path(base) / mark) for mark in self.marks):
                return Path(base) / self.marks[0].split("/")[0]
        for variable in self.variables:
            for base in filter(None, os.environ.get(variable, "").split(os.pathsep)):
                if all(_there(Path(base) / mark.partition("/")[2]) for mark in self.marks):
                    return Path(base)
        return None


def _there(path: Path) -> bool:
    return path.exists() or path.with_name(path.name + ".zip").exists()


def download(url: str, path: Path) -> None:
    """Download a file; an interrupted download resumes where it stopped."""
    # Importing it takes 15 ms, which only a download should.
    from taskloom.core.http import HttpClient, Refused, TryLater

    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    done = part.stat().st_size if part.exists() else 0
    rest = {"Range": f"bytes={done}-"} if done else {}
    try:
        with HttpClient(TIMEOUT, redirects=True).stream("GET", url, headers=rest) as answer:
            partial = answer.status_code == 206
            with part.open("ab" if partial else "wb") as file:
                for piece in answer.iter_raw():
                    file.write(piece)
    except (TryLater, Refused) as error:
        raise DataError(
            f"{url} cannot be fetched: it {error}; rerun the command to resume"
        ) from error
    part.replace(path)


def resources() -> dict[str, Resource]:
    """Return the resources that suites declare, by name."""
    return {resource.name: resource for suite in SUITES for resource in suite.resources}


def resource(name: str) -> Resource:
    """Return the resource of that name."""
    known = resources()
    if name not in known:
        raise TaskloomError(f"no resource is called '{name}'; {nearest(name, known)}")
    return known[name]


def get_resource(name: str) -> Path:
    """Fetch a resource into the cache, unless it is here already."""
    wanted = resource(name)
    folder = wanted.find()
    if folder is not None:
        return folder
    if wanted.fetch is None:
        raise DataError(
            f"'{name}' has no open download: get it from its owners, put it into a folder as"
            f" {' and '.join(wanted.marks)}, and set TASKLOOM_DATA to that folder"
        )
    wanted.fetch(cache_folder() / "data")
    folder = wanted.find()
    if folder is None:
        raise DataError(
            f"'{name}' was fetched into {cache_folder() / 'data'} but is not complete; remove it"
            " and try again"
        )
    return folder
