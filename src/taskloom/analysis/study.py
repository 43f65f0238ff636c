"""`@taskloom.study`: a function from runs to findings, registered by name as tasks are.

`quick_costs` are the CPU-seconds of studies at quick scale, measured by `taskloom reproduce NAME`
with a store of its own. They are in quick_costs.json, which has how they were measured; studies
that were not measured are missing.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from taskloom.analysis.settings import StudyError as StudyError
from taskloom.analysis.settings import annotation_of, checked_setting, kind_of_value
from taskloom.core.errors import echo
from taskloom.core.registry import Registry, is_python, name_in_file

if TYPE_CHECKING:
    from taskloom.analysis.finding import Finding
    from taskloom.experiments.table import Runs


SCALES = ("quick", "full")
"""`quick`: minutes on two cores, to see the whole path work; `full`: the paper's conditions."""

Findings: TypeAlias = "Finding | Sequence[Finding]"

A = TypeVar("A", bound=Callable[..., Findings])

Experiments = Callable[[str, str], Mapping[str, Any] | Sequence[Mapping[str, Any]]]
"""From a scale and a model (empty: the study's own) to the experiments that make the runs, each as
its YAML file would have it.
"""

Follow = Callable[["Runs", str, str], Sequence[Mapping[str, Any]]]
"""From the runs of a study's experiments, the scale and the model to experiments that continue
them, e.g. from their models.
"""


@dataclass(frozen=True, slots=True)
class Study:
    """A study.

    Attributes:
        name: What commands call it: `ctlpp/table1`.
        describe: One line for lists.
        analyse: From runs to findings; from a scale, where it needs no runs.
        place: The paper and the place of its table or figure; empty for our own questions.
        experiment: From a scale (`quick`, `full`) and a model (empty: the study's own) to the
            experiment that makes the runs, as its YAML file would have it, or to a list of
            experiments; None for studies of runs that somebody else makes.
        from_recipes: Whether it needs no runs: `analyse` then takes the scale.
        traits: Traits of examples that it looks at: files of scores keep them, with the answers to
            each example.
        follow: From the runs of `experiment` to further experiments that continue them; None where
            there are none.
        needs: What full scale takes, for `taskloom reproduce`: `a pretrained model`; empty where
            any runs do.
    """

    name: str
    describe: str
    analyse: Callable[..., Findings]
    place: str = ""
    experiment: Experiments | None = None
    from_recipes: bool = False
    traits: tuple[str, ...] = ()
    follow: Follow | None = None
    needs: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """Return what may be set, with defaults: the keyword-only parameters of the function."""
        parameters = inspect.signature(self.analyse).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    def setting_rows(self) -> list[tuple[str, Any, str, str]]:
        """Return name, default, kind of value and meaning of each setting; meanings are the `Args`
        of the function's docstring.
        """
        _, _, section = (inspect.getdoc(self.analyse) or "").partition("Args:\n")
        lines = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section, re.MULTILINE)
        meanings = {name: " ".join(text.split()) for name, text in lines}
        kinds = {name: kind_of_value(annotation_of(self.analyse, name)) for name in self.settings}
        return [
            (name, default, kinds[name], meanings.get(name, ""))
            for name, default in self.settings.items()
        ]

    def __call__(self, runs: Runs | str, **settings: Any) -> list[Finding]:
        """Return the findings of runs, or of a scale where the study needs no runs.

        Args:
            runs: The runs; for a study without runs, `quick` or `full`.
            **settings: Of the study.
        """
        from taskloom.analysis.finding import Finding

        checked = self.checked(settings)
        if self.from_recipes != isinstance(runs, str):
            needed = "no runs, only a scale" if self.from_recipes else "runs, not a scale"
            raise StudyError(f"the study '{self.name}' needs {needed}")
        findings: Any = self.analyse(runs, **checked)
        alone = isinstance(findings, Finding) or not isinstance(findings, Iterable)
        several = [findings] if alone else list(findings)
        wrong = [one for one in several if not isinstance(one, Finding)]
        if wrong:
            raise StudyError(
                f"the study '{self.name}' must return a tl.Finding or a list of them, not"
                f" {echo(wrong[0])}"
            )
        return several

    def checked(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings as the types that the function annotates them with; refuse those that it
        does not have.
        """
        for name in settings:
            if name not in self.settings:
                known = ", ".join(self.settings) or "none"
                raise StudyError(f"the study '{self.name}' has no setting '{name}'; it has {known}")
        return {
            name: checked_setting(self.analyse, name, value, self.name)
            for name, value in settings.items()
        }


TAKEN = frozenset(
    {
        "self",
        "name",
        "runs",
        "scale",
        "model",
        "store",
        "out",
        "engine",
        "workers",
        "progress",
        "watch",
    }
)
"""What no setting may be called: `reproduce` takes settings beside its own parameters."""

STUDIES: Registry[Study] = Registry("study", "taskloom.analysis", "taskloom.papers", indexed=True)


def study(
    name: str,
    *,
    describe: str,
    place: str = "",
    experiment: Experiments | None = None,
    from_recipes: bool = False,
    traits: tuple[str, ...] = (),
    follow: Follow | None = None,
    needs: str = "",
) -> Callable[[A], A]:
    """Register a function from runs to findings as a study; the arguments are `Study`'s attributes.

    Its first parameter takes the runs (a `taskloom.experiments.table.Runs`); keyword-only
    parameters with defaults are settings, which `taskloom study NAME runs/ --set KEY=VALUE`
    changes.
    """
    if is_python(name):
        raise StudyError(f"a study's name is a word or a path such as 'mine/errors', not '{name}'")

    def record(analyse: A) -> A:
        registered = Study(
            name, describe, analyse, place, experiment, from_recipes, traits, follow, needs
        )
        if all(
            p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD)
            for p in inspect.signature(analyse).parameters.values()
        ):
            takes = "scale" if from_recipes else "runs"
            raise StudyError(
                f"the study '{name}' takes no {takes}; give its function a first parameter"
                f" '{takes}'"
            )
        for setting, default in registered.settings.items():
            if default is inspect.Parameter.empty:
                raise StudyError(
                    f"the study '{name}' has the setting '{setting}' without a default; give it one"
                )
            if setting in TAKEN:
                raise StudyError(
                    f"the study '{name}' has the setting '{setting}', which reproduce names"
                    " otherwise; rename it"
                )
        STUDIES.add(name, registered, analyse.__module__)
        return analyse

    return record


def find_study(name: str) -> Study:
    """Return a study by name (`ctlpp/table1`), by file (`mine.py`), or by a name in a file
    (`mine.py::mine/errors`).
    """
    return STUDIES.get(name_in_file(name, STUDIES.of, "study") if is_python(name) else name)


FILE = "quick_costs.json"


def quick_costs() -> dict[str, int]:
    """Return the CPU-seconds (user and system, all processes) of each study at quick scale."""
    costs: dict[str, int] = json.loads(
        files("taskloom.analysis").joinpath(FILE).read_text(encoding="utf-8")
    )["studies"]
    return costs


def shown_cost(seconds: int | None) -> str:
    """Return a cost as lists have it.

    >>> shown_cost(3), shown_cost(40), shown_cost(237), shown_cost(None)
    ('seconds', '1 min', '4 min', '')
    """
    if seconds is None:
        return ""
    return "seconds" if seconds < 20 else f"{max(1, round(seconds / 60))} min"
