"""Prints one suite, recipe, task, learner, scorer or study, with its fields or settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskloom.core.errors import TaskloomError, nearest
from taskloom.core.tables import console, emit, plain_text, table

if TYPE_CHECKING:
    from pydantic import BaseModel

    from taskloom.analysis.study import Study
    from taskloom.core.plan import Plan
    from taskloom.core.registry import Suite
    from taskloom.recipe import Recipe
    from taskloom.recipe.field_table import FieldRow

KINDS = ("suites", "recipes", "tasks", "learners", "scorers", "studies")
"""Kinds of things that `taskloom list` lists, in order."""


def listing(what: str, as_json: bool) -> None:
    """Print all things of one kind, or all kinds."""
    chosen = [what] if what else list(KINDS)
    listed = {kind: _listed(kind) for kind in chosen}
    if as_json:
        emit({kind: [{"name": n, "describe": d} for n, d in rows] for kind, rows in listed.items()})
        return
    out = console()
    for kind, rows in listed.items():
        if rows:
            out.print(table(("name", "what it is"), rows, kind), "")
        elif what:
            out.print(
                f"no {kind} of one function are installed; name the file of one (taskloom list "
                "my_task.py), or a recipe whose tasks to list (taskloom list RECIPE)"
            )
    if not what:
        out.print("taskloom list NAME shows any of them: fields or settings, defaults, meanings")


def _listed(kind: str) -> list[tuple[str, str]]:
    from taskloom.core import registry, scoring
    from taskloom.learners import LEARNERS
    from taskloom.recipe.recipe import counting_order, descriptions

    if kind == "suites":
        return registry.SUITES.descriptions()
    if kind == "recipes":
        return descriptions()
    if kind == "tasks":
        return registry.TASKS.descriptions()
    if kind == "learners":
        return LEARNERS.descriptions()
    if kind == "studies":
        from taskloom.analysis import STUDIES

        return sorted(STUDIES.descriptions(), key=lambda row: counting_order(row[0]))
    registry.SUITES.names()  # suites register their scorers on import
    return [(name, describe_scorer(scorer)) for name, scorer in scoring.SCORERS.items()]


HEADS = ("field", "kind", "default", "what it is")


def thing(name: str, changes: Iterable[str] | None, as_json: bool, schema: bool) -> None:
    """Print the thing that a name denotes. Raise an error if there is none.

    Args:
        name: Name of a suite, recipe, task, learner, scorer or study, or a file.
        changes: Changes of a recipe's fields; None for no changes.
        as_json: Print JSON.
        schema: Print the JSON schema of recipe files instead.
    """
    from taskloom.recipe import read

    if schema:
        _schema(name)
    elif changes is None and is_learner(method := _method(name)):
        learner_settings(method, as_json)
    elif changes is None and (suite := _suite(name)) is not None:
        _suite_card(suite, as_json)
    elif changes is None and (scorer := _scorer(name)) is not None:
        _scorer_card(name, scorer, as_json)
    elif changes is None and (study := _study(name)) is not None:
        _study_card(study, name, as_json)
    elif "/" in name or "." in name:
        recipe_card(read(name, changes or ()), as_json)
    else:
        raise TaskloomError(
            f"there is no list of '{name}', and nothing has that name;"
            f" {nearest(name, known_names())}"
        )


def known_names() -> list[str]:
    """All names that `taskloom list` knows."""
    from taskloom.analysis import STUDIES
    from taskloom.core import scoring
    from taskloom.core.registry import SUITES
    from taskloom.learners import LEARNERS
    from taskloom.recipe.recipe import names

    return [
        *KINDS,
        *SUITES.names(),
        *LEARNERS.names(),
        *scoring.SCORERS,
        *names(),
        *STUDIES.names(),
    ]


def _suite(name: str) -> Suite | None:
    from taskloom.core.registry import SUITES, is_python

    return None if is_python(name) or "/" in name or "." in name else SUITES.find(name)


def _scorer(name: str) -> Any:
    from taskloom.core import scoring
    from taskloom.core.registry import SUITES

    if "/" in name or "." in name:
        return None
    SUITES.names()  # suites register their scorers on import
    return scoring.SCORERS.get(name)


def _study(name: str) -> Study | None:
    """Find a study by name. None if the name may be something else. Raises an error if only a study
    can have such a name and there is none.
    """
    from taskloom.analysis import STUDIES
    from taskloom.core.registry import SUITES, TASKS, is_python

    if is_python(name):
        return _study_in_file(name)
    study = STUDIES.find(name)
    if study is not None:
        return study
    family = name.partition("/")[0]
    if "/" in name and SUITES.find(family) is None and TASKS.find(name) is None:
        known = [study for study in STUDIES.names() if study.startswith(f"{family}/")]
        if known:
            raise TaskloomError(f"no study is called '{name}'; {nearest(name, known)}")
    return None


def _study_in_file(name: str) -> Study | None:
    """Study in `mine.py` or `mine.py::NAME`. None for a file that defines a task, unless NAME is
    one of its studies.
    """
    from taskloom.analysis import STUDIES
    from taskloom.analysis.study import find_study
    from taskloom.core.registry import TASKS, load_module

    path, _, wanted = name.partition("::")
    home = load_module(Path(path))
    tasks, studies = TASKS.of(home), STUDIES.of(home)
    return find_study(name) if (studies and not tasks) or wanted in studies else None


def describe_scorer(scorer: Any) -> str:
    """One line that describes a scorer."""
    return str(getattr(scorer, "describe", "") or (type(scorer).__doc__ or "").split("\n")[0])


def _schema(name: str) -> None:
    from taskloom.core.registry import TASKS
    from taskloom.experiments.spec.experiment import Experiment
    from taskloom.recipe import read
    from taskloom.recipe.field_table import recipe_schema

    if name == "experiment":
        emit(
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                **Experiment.model_json_schema(),
            }
        )
        return
    suite = _suite(name) or (read(name).suite if "/" in name or "." in name else None)
    if suite is None:
        raise TaskloomError(
            f"there is no schema of '{name}'; name a suite, a recipe, a task, or experiment"
        )
    emit(recipe_schema("task" if suite.name in TASKS else "suite", suite.name, suite.fields))


def _suite_card(suite: Suite, as_json: bool) -> None:
    from taskloom.recipe import read
    from taskloom.recipe.recipe import counting_order

    recipes = {
        name: read(name).describe for name in sorted(suite.recipe_files(), key=counting_order)
    }
    if as_json:
        emit(
            {
                "suite": suite.name,
                "describe": suite.describe,
                "version": suite.version,
                "recipes": [{"name": name, "describe": text} for name, text in recipes.items()],
                "formats": list(suite.exporters),
                "fields": _fields_json(suite.fields),
            }
        )
        return
    out = console()
    out.print(f"[bold]{plain_text(suite.name)}[/bold]  {plain_text(suite.describe)}\n")
    out.print(table(("name", "what it is"), recipes.items(), "recipes"), "")
    out.print(_field_grid("fields of its recipes", suite.fields), "")
    first = next(iter(recipes), f"{suite.name}/…")
    out.print(
        f"your own recipe: extends: {plain_text(first)}, then the fields; taskloom list"
        f" {plain_text(suite.name)} --schema"
    )


def _fields_json(
    model: type[BaseModel], values: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    from taskloom.recipe.field_table import field_rows

    rows = []
    for row in field_rows(model):
        known = {} if values is None or "*" in row.name else {"value": _reach(values, row)}
        rows.append(
            {
                "name": row.name,
                "kind": row.kind,
                "default": row.default,
                "required": row.required,
                **known,
            }
            | {"describe": row.meaning}
        )
    return rows


def _field_grid(title: str, model: type[BaseModel]) -> Any:
    from taskloom.recipe.field_table import field_rows

    return table(
        HEADS, [(r.name, r.kind, r.shown_default, r.meaning) for r in field_rows(model)], title
    )


def _reach(values: Any, row: FieldRow) -> Any:
    """Value of a dotted field, or its default if the field or a parent of it is not set."""
    for part in row.name.split("."):
        if not isinstance(values, Mapping) or part not in values:
            return row.default
        values = values[part]
    return values


def _scorer_card(name: str, scorer: Any, as_json: bool) -> None:
    if as_json:
        emit({"scorer": name, "describe": describe_scorer(scorer)})
    else:
        console().print(
            f"[bold]{plain_text(name)}[/bold], a scorer: {plain_text(describe_scorer(scorer))}"
        )


def _study_card(study: Study, name: str, as_json: bool) -> None:
    """Print a study.

    Args:
        study: The study.
        name: Name as typed: a study in a file is named by its file.
        as_json: Print JSON.
    """
    settings = study.setting_rows()
    needs = "no runs" if study.from_recipes else "runs"
    if as_json:
        rows = [
            {"name": n, "default": d, "value": kind, "describe": text}
            for n, d, kind, text in settings
        ]
        emit(
            {
                "study": study.name,
                "describe": study.describe,
                "place": study.place,
                "needs": needs,
                "settings": rows,
            }
        )
        return
    out = console()
    out.print(f"[bold]{plain_text(study.name)}[/bold]  {plain_text(study.describe)}\n")
    if study.place:
        out.print(f"in the paper: {plain_text(study.place)}\n")
    if settings:
        lines = [
            (n, "none" if d in (None, "") else str(d), kind, text) for n, d, kind, text in settings
        ]
        out.print(table(("name", "default", "value", "what it is"), lines, "settings"), "")
    else:
        out.print("It has no settings.\n")
    runs = "" if study.from_recipes else " RUNS"
    example = f" --set {settings[0][0]}=VALUE" if settings else ""
    reproduce = (
        f"; taskloom reproduce {plain_text(name)}" if study.from_recipes or study.experiment else ""
    )
    out.print(f"taskloom study {plain_text(name)}{runs}{example}{reproduce}", soft_wrap=True)


def _method(name: str) -> str:
    """Learner in a combined name such as `smollm2/prompt-tune`, as experiments write it. Other
    names are returned unchanged.
    """
    from taskloom.core.registry import is_python
    from taskloom.learners import LEARNERS
    from taskloom.learners.config import settings

    method = name.rpartition("/")[2]
    if method == name or is_python(name) or LEARNERS.find(method) is None:
        return name
    return method if "model" in (setting for setting, _, _ in settings(method)) else name


def is_learner(name: str) -> bool:
    """True if the name is a learner's. False for a file that defines a task."""
    from taskloom.core.registry import TASKS, is_python, load_module
    from taskloom.learners import LEARNERS

    if not is_python(name):
        return LEARNERS.find(name) is not None
    path, _, wanted = name.partition("::")
    home = load_module(Path(path))
    learners = LEARNERS.of(home)
    return wanted in learners if wanted else bool(learners) and not TASKS.of(home)


def learner_settings(learner: str, as_json: bool) -> None:
    """Print the settings of a learner, with defaults and meanings."""
    from taskloom.learners.config import SAMPLE, settings, size

    values, numbers = settings(learner), size(learner)
    sizes = (
        {}
        if numbers is None
        else {"parameters": {"trained": numbers, "words": SAMPLE[0], "answers": SAMPLE[1]}}
    )
    if as_json:
        emit({learner: [{"name": n, "default": d, "describe": m} for n, d, m in values], **sizes})
    elif not values:
        console().print(f"{learner} has no settings")
    else:
        rows = [(n, repr(d) if isinstance(d, str) else str(d), m) for n, d, m in values]
        console().print(table(("name", "default", "what it is"), rows, f"settings of {learner}"))
        if numbers is not None:
            console().print(
                f"{numbers:,} trainable parameters with {SAMPLE[0]} words and {SAMPLE[1]} answers"
            )


def recipe_card(recipe: Recipe, as_json: bool) -> None:
    """Print a recipe: its tasks with their descriptions, its splits, and its fields with their
    values.
    """
    plan = recipe.plan()
    tasks = plan.tasks
    own: dict[str, str] | None = None
    if tasks.names is not None or tasks.tell is None:
        own = {
            n: tasks.tell(n, "instruction") if tasks.tell else plan.describe
            for n in tasks.names or [recipe.name]
        }
    facts = {name: tasks.facts(name) if tasks.facts else {} for name in own or ()}
    values = recipe.fields.model_dump(mode="json")
    if as_json:
        rows = (
            None
            if own is None
            else [{"name": name, "describe": text, **facts[name]} for name, text in own.items()]
        )
        emit(
            {
                "recipe": recipe.name,
                "describe": recipe.describe,
                "tasks": rows,
                "splits": [
                    {"name": s.name, "n": s.n, "role": s.role, "describe": s.describe}
                    for s in plan.splits
                ],
                "fields": _fields_json(recipe.suite.fields, values),
                "left_out": dict(plan.left_out),
                "sources": {source.name: source.digest for source in plan.sources},
            }
        )
        return
    out = console()
    about = recipe.describe or plan.describe
    out.print(f"[bold]{plain_text(recipe.name)}[/bold]  {plain_text(about)}\n")
    out.print(_task_grid(recipe.name, plan, own, facts), "")
    out.print(
        table(
            ("name", "examples", "role", "what"),
            [(s.name, s.n, s.role, s.describe) for s in plan.splits],
            "splits",
        )
    )
    out.print("", _value_grid(recipe, values), "")
    for source in plan.sources:
        out.print(f"made from: {plain_text(source.name)}, digest {source.digest[:12]}")
    for warning in plan.warnings:
        out.print(f"note: {plain_text(warning)}")
    out.print(
        f"recipe digest {recipe.digest}; change a field with --set, e.g. taskloom make"
        f" {plain_text(recipe.name)} --set FIELD=VALUE"
    )


def _task_grid(
    name: str, plan: Plan, own: Mapping[str, str] | None, facts: Mapping[str, Mapping[str, Any]]
) -> Any:
    if own is None:
        place = "task" if plan.tasks.by == "task" else f"trait '{plan.tasks.by}'"
        return (
            f"The tasks are not listed. Each example names its own, in its {place}; see taskloom"
            f" show {plain_text(name)}"
        )
    if plan.tasks.facts is None:
        return table(("name", "what it asks"), own.items(), f"tasks of {name}")
    heads = ("name", *next(iter(facts.values())))
    lines = [
        (task, *(f"{v:.3g}" if isinstance(v, float) else v for v in known.values()))
        for task, known in facts.items()
    ]
    return table(heads, lines, f"tasks of {name}")


def _value_grid(recipe: Recipe, values: Mapping[str, Any]) -> Any:
    """Build the table of a recipe's fields, those that differ from their default first."""
    import json

    from taskloom.recipe.field_table import SHOWN, field_rows

    rows = []
    for row in field_rows(recipe.suite.fields):
        value = None if "*" in row.name else _reach(values, row)
        # Compare as text, because an integer field that may be a range is printed like one.
        differs = (
            "*" not in row.name and str(value) != str(row.default) and not isinstance(value, dict)
        )
        text = ""
        if differs:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        short = text if len(text) <= SHOWN else f"{text[: SHOWN - 2]} …"
        rows.append((not differs, (row.name, row.kind, short, row.shown_default, row.meaning)))
    rows.sort(key=lambda pair: pair[0])
    return table(
        ("field", "kind", "value", "default", "what it is"),
        [r for _, r in rows],
        "fields; values that differ from the default",
    )
