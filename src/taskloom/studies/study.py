"""`@taskloom.study`: a function from runs to findings, registered by name as tasks are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from taskloom.errors import TaskloomError, nearest
from taskloom.registry import Registry, is_python, name_in_file

if TYPE_CHECKING:
    from taskloom.experiments.runs import Runs
    from taskloom.studies.findings import Finding

SCALES = ("quick", "full")
"""`quick`: minutes on two cores, to see the whole path work; `full`: the paper's conditions."""

Findings: TypeAlias = "Finding | Sequence[Finding]"

A = TypeVar("A", bound=Callable[..., Findings])

Experiments = Callable[[str, str], Mapping[str, Any] | Sequence[Mapping[str, Any]]]
"""From a scale and a model (empty: the study's own) to the experiments that make the runs, each as its YAML file would have it."""

Follow = Callable[["Runs", str, str], Sequence[Mapping[str, Any]]]
"""From the runs of a study's experiments, the scale and the model to experiments that continue them, e.g. from their models."""


class StudyError(TaskloomError):
    """A study that does not exist, or that these runs cannot answer."""


@dataclass(frozen=True, slots=True)
class Study:
    """A study.

    Attributes:
        name: What commands call it: `ctlpp/table1`.
        describe: One line for lists.
        analyse: From runs to findings; from a scale, where it needs no runs.
        place: The paper and the place of its table or figure; empty for our own questions.
        experiment: From a scale (`quick`, `full`) and a model (empty: the study's own) to the experiment that makes the runs, as
            its YAML file would have it, or to a list of experiments; None for studies of runs that somebody else makes.
        from_recipes: Whether it needs no runs: `analyse` then takes the scale.
        traits: Traits of examples that it looks at: files of scores keep them, with the answers to each example.
        follow: From the runs of `experiment` to further experiments that continue them; None where there are none.
    """

    name: str
    describe: str
    analyse: Callable[..., Findings]
    place: str = ""
    experiment: Experiments | None = None
    from_recipes: bool = False
    traits: tuple[str, ...] = ()
    follow: Follow | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Return what may be set, with defaults: the keyword-only parameters of the function."""
        parameters = inspect.signature(self.analyse).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    def __call__(self, runs: Runs | str, **settings: Any) -> list[Finding]:
        """Return the findings of runs, or of a scale where the study needs no runs.

        Args:
            runs: The runs; for a study without runs, `quick` or `full`.
            **settings: Of the study.
        """
        from taskloom.studies.findings import Finding

        for name in settings:
            if name not in self.settings:
                known = nearest(name, self.settings) if self.settings else "it has none"
                raise StudyError(f"the study '{self.name}' has no setting '{name}'; {known}")
        if self.from_recipes != isinstance(runs, str):
            needed = "no runs, only a scale" if self.from_recipes else "runs, not a scale"
            raise StudyError(f"the study '{self.name}' needs {needed}")
        checked = {name: self._checked(name, value) for name, value in settings.items()}
        findings = self.analyse(runs, **checked)
        return [findings] if isinstance(findings, Finding) else list(findings)

    def _checked(self, name: str, value: Any) -> Any:
        """Return a setting as the type that the function annotates it with; as it is where it has no annotation."""
        try:
            hint = get_type_hints(self.analyse).get(name, Any)
        except NameError:  # an annotation that only type checkers can read
            return value
        try:
            return TypeAdapter(hint, config=ConfigDict(coerce_numbers_to_str=True)).validate_python(value)
        except ValidationError as error:
            kind = KINDS.get(hint, str(hint).replace("None", "nothing"))
            raise StudyError(
                f"the setting '{name}' of the study '{self.name}' must be {kind}, not '{value}'"
            ) from error


KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
"""What an error calls the types of settings."""

STUDIES: Registry[Study] = Registry("study", "taskloom.studies", indexed=True)


def study(
    name: str,
    *,
    describe: str,
    place: str = "",
    experiment: Experiments | None = None,
    from_recipes: bool = False,
    traits: tuple[str, ...] = (),
    follow: Follow | None = None,
) -> Callable[[A], A]:
    """Register a function from runs to findings as a study; the arguments are `Study`'s attributes.

    Its first parameter takes the runs (a `taskloom.experiments.runs.Runs`); keyword-only parameters with defaults are settings,
    which `taskloom study NAME runs/ --set KEY=VALUE` changes.
    """
    if is_python(name):
        raise StudyError(f"a study's name is a word or a path such as 'mine/errors', not '{name}'")

    def record(analyse: A) -> A:
        STUDIES.add(
            name, Study(name, describe, analyse, place, experiment, from_recipes, traits, follow), analyse.__module__
        )
        return analyse

    return record


def check_split(runs: Runs, split: str) -> None:
    """Refuse a split that no run answered; empty: any.

    Args:
        runs: The runs.
        split: Its name, with or without its recipe (`mix`, `babi/mix-T7:mix`).
    """
    known = {name for full in runs.splits for name in (full, full.rpartition(":")[2])}
    if split and split not in known:
        raise StudyError(f"no run of {runs.store.path} answered a split '{split}'; {nearest(split, known)}")


def find_study(name: str) -> Study:
    """Return a study by name (`ctlpp/table1`), by file (`mine.py`), or by a name in a file (`mine.py::mine/errors`)."""
    return STUDIES.get(name_in_file(name, STUDIES.of, "study") if is_python(name) else name)
