"""`@taskloom.study`: a function from runs to findings, registered by name as tasks are.

The keyword-only parameters of the function are the study's settings. Their annotations determine
the values that `--set KEY=VALUE` accepts; some are also checked against the values in the runs.

`quick_costs` are the CPU-seconds of studies at quick scale, measured by `taskloom reproduce NAME`
with an empty store. quick_costs.json records the conditions. Studies that were not measured are not
listed.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError

from taskloom.core.errors import TaskloomError, echo, nearest
from taskloom.core.registry import Registry, is_python, name_in_file

if TYPE_CHECKING:
    from taskloom.analysis.finding import Finding
    from taskloom.experiments.table import Runs

ShareSetting = Annotated[float, Field(ge=0, le=1)]
"""A score, or a share of something."""

CountSetting = Annotated[int, Field(ge=1)]
"""A count, at least 1."""

NumberSetting = Annotated[int, Field(ge=0)]
"""An index counted from 0, or a count that may be 0."""

MOST_CHOICES = 12
"""Maximum choices that an error lists. With more, it names the nearest."""


class StudyError(TaskloomError):
    """Raised if a study does not exist, or if the given runs are insufficient for it."""


def checked_setting(analyse: Callable[..., Any], name: str, value: Any, study: str) -> Any:
    """Convert a setting to the annotated type of its parameter. Without an annotation it is
    unchanged.

    Args:
        analyse: The function that has the parameter.
        name: Name of the parameter.
        value: The given value.
        study: The name of the study, for the error.
    """
    kind = annotation_of(analyse, name)
    reader = _reader(kind)
    problem: ValidationError | None = None
    # `--set split=` is YAML's null and means an empty text.
    for given in (value, "") if value is None else (value,):
        try:
            return reader.validate_python(given)
        except ValidationError as error:
            problem = error
    what = "nothing" if value is None else f"'{value}'"
    raise StudyError(
        f"the setting '{name}' of the study '{study}' must be {kind_of_value(kind)}, not {what}"
    ) from problem


def annotation_of(analyse: Callable[..., Any], name: str) -> Any:
    """Annotation of one parameter, even if other annotations cannot be evaluated. Any if only type
    checkers can read it.
    """
    alone = SimpleNamespace(__annotations__={name: analyse.__annotations__.get(name, Any)})
    try:
        return get_type_hints(alone, getattr(analyse, "__globals__", {}), include_extras=True)[name]
    except (NameError, SyntaxError):
        return Any


def _reader(kind: Any) -> TypeAdapter[Any]:
    """Pydantic adapter for an annotation; an instance check for classes unknown to pydantic."""
    try:
        return TypeAdapter(
            kind, config=ConfigDict(coerce_numbers_to_str=True, arbitrary_types_allowed=True)
        )
    except PydanticUserError:  # a dataclass or a model, which has its own config
        return TypeAdapter(kind)


KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    type(None): "nothing",
    Any: "any value",
}
"""Names of the types of settings in error messages."""

BOUNDS = {"ge": "of at least {:g}", "gt": "above {:g}", "le": "of at most {:g}", "lt": "below {:g}"}


def kind_of_value(kind: Any) -> str:
    """Description of an annotation in error messages.

    >>> kind_of_value(ShareSetting), kind_of_value(Literal["A", "R"]), kind_of_value(int | None)
    ('a number from 0 to 1', "'A' or 'R'", 'a whole number or nothing')
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return joined_choices([f"'{choice}'" for choice in parts if choice != ""])
    if origin in (Union, UnionType):
        return joined_choices([kind_of_value(part) for part in parts])
    if origin is Annotated:
        return " ".join([kind_of_value(parts[0]), *_range(parts[1:])])
    return KINDS.get(kind, str(kind))


def _range(fields: Sequence[Any]) -> list[str]:
    """Bounds of a number in words."""
    bounds: dict[str, float] = {}
    for field in fields:
        for constraint in getattr(field, "metadata", ()):
            bounds |= {n: getattr(constraint, n) for n in BOUNDS if hasattr(constraint, n)}
    if set(bounds) == {"ge", "le"}:
        return [f"from {bounds['ge']:g} to {bounds['le']:g}"]
    return [BOUNDS[name].format(bound) for name, bound in bounds.items()]


def joined_choices(choices: Sequence[str]) -> str:
    """Choices joined by commas and `or`.

    >>> joined_choices(["a", "b", "c"]), joined_choices(["a"])
    ('a, b or c', 'a')
    """
    return " or ".join([", ".join(choices[:-1]), choices[-1]] if len(choices) > 1 else choices)


def check_choice(runs: Runs, name: str, value: str, choices: Iterable[str]) -> None:
    """Raise an error if the runs do not have a setting's value.

    Args:
        runs: The runs, named in the error.
        name: Name of the setting.
        value: The given value.
        choices: Values that the runs have.
    """
    known = sorted(set(choices))
    if value in known:
        return
    path = runs.path
    if not known:
        raise StudyError(f"the setting '{name}' is '{value}', and {path} has none to choose from")
    if len(known) > MOST_CHOICES:
        raise StudyError(
            f"the setting '{name}' is '{value}', which {path} does not have;"
            f" {nearest(value, known)}"
        )
    options = joined_choices([f"'{choice}'" for choice in known])
    raise StudyError(f"the setting '{name}' must be {options} for {path}, not '{value}'")


def check_split(runs: Runs, split: str) -> None:
    """Raise an error if no run answered a split. An empty name means any split.

    Args:
        runs: The runs.
        split: Its name, with or without its recipe (`mix`, `babi/mix-T7:mix`).
    """
    if split and split not in runs.splits:
        check_choice(runs, "split", split, (full.rpartition(":")[2] for full in runs.splits))


SCALES = ("quick", "gpu", "paper")
"""`quick`: minutes on two cores, to try all steps. `gpu`: the conditions of our results pages, for
one GPU. `paper`: the paper's conditions.
"""

FORMER_SCALES = {"full": "paper"}
"""Earlier names of scales. `full` was the paper's conditions for CTL++ and Dyna-bAbI only."""

Findings: TypeAlias = "Finding | Sequence[Finding]"

A = TypeVar("A", bound=Callable[..., Findings])

Experiments = Callable[[str, str], Mapping[str, Any] | Sequence[Mapping[str, Any]]]
"""Maps a scale and a model (empty: the study's own) to the experiments that produce the runs, each
in its YAML form.
"""

Follow = Callable[["Runs", str, str], Sequence[Mapping[str, Any]]]
"""Maps the runs of a study's experiments, the scale and the model to experiments that continue
these runs, e.g. from their models.
"""


@dataclass(frozen=True, slots=True)
class Study:
    """A study.

    Attributes:
        name: Name in commands: `ctlpp/table1`.
        describe: One line for lists.
        analyse: Function from runs to findings, or from a scale if it needs no runs.
        place: The paper and the place of its table or figure; empty for our own questions.
        experiment: Function from a scale (one of `SCALES`) and a model (empty: the study's own) to
            the experiment that makes the runs, as its YAML file would have it, or to a list of
            experiments; None for studies of runs that the user makes.
        from_recipes: True if it needs no runs: `analyse` then takes the scale.
        traits: Traits of examples that it uses. Files of scores keep them, with the answers to each
            example.
        follow: Function from the runs of `experiment` to further experiments that continue them, or
            None.
        needs: Requirements of the scale `paper`, such as `a pretrained model`; empty if any runs
            will do.
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
        """Settings with defaults: the keyword-only parameters of the function."""
        parameters = inspect.signature(self.analyse).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    def setting_rows(self) -> list[tuple[str, Any, str, str]]:
        """Name, default, kind of value and meaning of each setting. Meanings come from the `Args`
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
        """Return the findings for runs, or for a scale if the study needs no runs.

        Args:
            runs: The runs; for a study without runs, a scale.
            **settings: Settings of the study.
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
        """Convert settings to the types in the function's annotations; reject unknown ones."""
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
"""Names that no setting may have, because they are parameters of `reproduce`."""

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


FILE = "quick_costs.json"


def quick_costs() -> dict[str, int]:
    """CPU-seconds (user and system, all processes) of each study at quick scale."""
    costs: dict[str, int] = json.loads(
        files("taskloom.analysis").joinpath(FILE).read_text(encoding="utf-8")
    )["studies"]
    return costs


def shown_cost(seconds: int | None) -> str:
    """Format a cost for lists.

    >>> shown_cost(3), shown_cost(40), shown_cost(237), shown_cost(None)
    ('seconds', '1 min', '4 min', '')
    """
    if seconds is None:
        return ""
    return "seconds" if seconds < 20 else f"{max(1, round(seconds / 60))} min"


def find_study(name: str) -> Study:
    """Find a study by name, by file (`mine.py`), or by a name in a file (`mine.py::mine/gaps`).

    If it is a table or figure of a paper without a study, the error message states this.
    """
    if is_python(name):
        return STUDIES.get(name_in_file(name, STUDIES.of, "study"))
    if STUDIES.find(name) is not None:
        return STUDIES.get(name)
    from taskloom.analysis.published_numbers import paper, paper_names

    if name in paper_names():
        raise StudyError(
            f"'{name}' is a paper; name one of its tables or figures, which 'taskloom reproduce"
            f" {name}' lists"
        )
    for paper_name in paper_names():
        for place in paper(paper_name).places:
            if place.study == name:
                raise StudyError(
                    f"'{name}' is {place.place} of {place.paper}, which has no study yet;"
                    " 'taskloom list studies' lists those that exist"
                )
    raise StudyError(
        f"no study is called '{name}'; {nearest(name, [*paper_names(), *STUDIES.names()])}"
    )


def analyse(
    name: str, runs: str | Path | Runs | None = None, **settings: Any
) -> tuple[Study, Runs | None, list[Finding]]:
    """Apply a study to runs, or to recipes if it needs no runs.

    Args:
        name: The study.
        runs: A run store, a file of scores, or runs.
        **settings: Settings of the study.
    """
    study = find_study(name)
    study.checked(settings)
    if study.from_recipes:
        if runs is not None:
            raise StudyError(
                f"the study '{study.name}' analyses recipes and needs no runs; leave them out"
            )
        return study, None, study("paper", **settings)
    if runs is None:
        raise StudyError(
            f"the study '{study.name}' needs runs: name a run store or a file of scores"
        )
    # Listing studies must not import the readers of runs.
    from taskloom.experiments.sources.score_files import open_runs

    opened = open_runs(runs) if isinstance(runs, str | Path) else runs
    if not len(opened):
        raise StudyError(
            f"{opened.path} has no runs; make some with 'taskloom run', or name another store or"
            " file of scores"
        )
    return study, opened, study(opened, **settings)
