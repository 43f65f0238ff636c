"""Recipes: reading, checking, and their digest.

A recipe is a YAML file that names a suite (or a task) and sets its fields. It is checked by the suite's pydantic
model; the digest is taken over the checked fields with all defaults filled in, so that two spellings of one recipe
have one digest, the suite's version and the code that a file adds to it, so that changed code never passes for the same
data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import core_schema

from taskloom.errors import RecipeError, TaskloomError, nearest
from taskloom.files import json_digest
from taskloom.plan import Level
from taskloom.recipe import yaml_files
from taskloom.recipe.overrides import merge, override
from taskloom.recipe.validation_errors import explain
from taskloom.registry import SUITES, TASKS, Suite, load_file
from taskloom.seeding import Key

if TYPE_CHECKING:
    from taskloom.plan import Plan
    from taskloom.tasks import Task

RESERVED = ("suite", "task", "extends", "describe", "seed", "described")
"""Keys of a recipe file that are not fields of its suite."""


_NUMBERS = (int, float, int | None, float | None)


class Fields(BaseModel):
    """What every suite's recipe fields derive from: unknown keys are errors, values are never silently changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _numbers_are_numbers(cls, given: Any) -> Any:
        """Pydantic takes true for 1."""
        for name, value in given.items() if isinstance(given, dict) else ():
            field = cls.model_fields.get(name)
            if isinstance(value, bool) and field is not None and field.annotation in _NUMBERS:
                raise ValueError(f"{name}: write a number, not {str(value).lower()}")
        return given


class Size(Fields):
    """The size of a split."""

    n: int = Field(ge=0, strict=True)


class Described(Fields):
    """Inputs that begin with the description of their task: `described: true`, or how."""

    level: Level = Field("instruction", description="instruction: what to do; explicit: also what its words mean")
    unseen: Annotated[float, Field(ge=0, lt=1)] | tuple[str, ...] = Field(
        0.0, description="Share of the tasks that training lacks, or their names"
    )

    @field_validator("unseen", mode="wrap")
    @classmethod
    def _share_or_names(cls, value: Any, read: Callable[[Any], Any]) -> Any:
        """One sentence instead of one for each kind that it might have been."""
        try:
            if not isinstance(value, bool):
                return read(value)
        except ValueError:
            pass
        raise ValueError(f"write a share from 0 to below 1, or a list of task names, not {value!r}")


class Span:
    """A range of whole numbers, written `2..6`, or one number; both ends belong to it."""

    __slots__ = ("high", "low")

    def __init__(self, low: int, high: int) -> None:
        if low > high:
            raise ValueError(f"the range {low}..{high} is empty: its first number is the larger one")
        self.low = low
        self.high = high

    @classmethod
    def read(cls, value: Any) -> Span:
        """From `3`, `"2..6"` or another span."""
        if isinstance(value, Span):
            return value
        if isinstance(value, bool):
            raise ValueError("expected a whole number or a range such as 2..6")
        if isinstance(value, int):
            return cls(value, value)
        low, dots, high = str(value).partition("..")
        try:
            return cls(int(low), int(high if dots else low))
        except ValueError as error:
            if "empty" in str(error):
                raise
            raise ValueError(f"expected a whole number or a range such as 2..6, not {value!r}") from None

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high

    def __iter__(self) -> Any:
        return iter(range(self.low, self.high + 1))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Span) and (self.low, self.high) == (other.low, other.high)

    def __hash__(self) -> int:
        return hash((self.low, self.high))

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}..{self.high}"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.read,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda s: s.low if s.low == s.high else str(s)
            ),
        )


@dataclass(frozen=True)
class Recipe:
    """A checked recipe.

    Attributes:
        name: Its path or file.
        suite: The suite (or, for a task that is one function, the task) that weaves it.
        fields: The checked fields.
        describe: One line for people; not part of the digest.
        seed: The default seed; not part of the digest.
        described: Whether and how inputs begin with the description of their task.
    """

    name: str
    suite: Suite
    fields: BaseModel
    describe: str = ""
    seed: int = 0
    described: Described | None = None

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits that stand for everything that determines the data, but the seed."""
        core = self._core()
        if self.described is not None:
            core["described"] = self.described.model_dump(mode="json")
        return json_digest(core)

    def _core(self) -> dict[str, Any]:
        kind = "task" if self.suite.name in TASKS else "suite"
        code = self.suite.code(self.fields) if self.suite.code else {}
        return {
            kind: self.suite.name,
            "version": self.suite.version,
            "fields": self.fields.model_dump(mode="json"),
            **({"code": code} if code else {}),
        }

    def to_dict(self) -> dict[str, Any]:
        """The full recipe, as the manifest keeps it and as `from_dict` reads it."""
        core = self._core()
        kind = "task" if "task" in core else "suite"
        return {
            "name": self.name,
            kind: core[kind],
            "version": core["version"],
            **({"code": core["code"]} if "code" in core else {}),
            "describe": self.describe,
            **({"described": self.described.model_dump(mode="json")} if self.described else {}),
            **core["fields"],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "the manifest") -> Recipe:
        """Rebuild a recipe that `to_dict` wrote."""
        rest = {k: v for k, v in data.items() if k not in ("name", "version", "code")}
        recipe = check(rest, str(data.get("name", where)), where)
        if "version" in data and data["version"] != recipe.suite.version:
            raise RecipeError(
                f"{where}: made by version {data['version']} of '{recipe.suite.name}', this is version {recipe.suite.version}; "
                "make the dataset again, or install the taskloom that made it"
            )
        for name, digest in recipe._core().get("code", {}).items():
            if digest != data.get("code", {}).get(name):
                raise RecipeError(f"{where}: made with other code of '{name}' than now; make the dataset again")
        return recipe

    def plan(self, seed: int | None = None) -> Plan:
        """What this recipe makes under a seed.

        Random streams hang on the recipe without `described`, so that descriptions come before the very same examples.
        """
        key = Key(json_digest(self._core()), self.seed if seed is None else seed)
        plan = self.suite.weave(self.fields, key)
        if self.described is None:
            return plan
        from taskloom.descriptions import describe

        return describe(plan, self.described.level, self.described.unseen, key)


def read(name: str, overrides: Iterable[str] = ()) -> Recipe:
    """Find and check a recipe by name, file, or task file, with `key=value` overrides.

    Args:
        name: `ctl/A`, `my-recipe.yaml`, `words/reverse`, or `tasks.py` (`tasks.py::words/reverse` when it has several;
            `atoms.py::taskbench/vowels[eng]` where a file adds to a suite).
        overrides: `max_length=8`, `splits.train.n=1000`; values are YAML, `@FILE` reads a JSON or YAML file.
    """
    data, where = _find(name)
    for change in overrides:
        override(data, change)
    return check(data, name, where)


def find_task(name: str) -> None:
    """Make the task of a task file known: what a worker process or a later `verify` does before it rebuilds a recipe."""
    if name.endswith(".py") or ".py::" in name:
        _find(name)
    elif name.endswith((".yaml", ".yml")):
        # It may extend a recipe of a Python file. The recipe itself is known already: its file need not be there any more.
        with suppress(TaskloomError):
            _find(name)


def _find(name: str) -> tuple[dict[str, Any], str]:
    if name.endswith((".yaml", ".yml")):
        return _load_yaml(Path(name))
    if name.endswith(".py") or ".py::" in name:
        path, _, wanted = name.partition("::")
        tasks = load_file(Path(path))
        if wanted not in tasks and SUITES.find(wanted.partition("/")[0]) is not None:
            # The file adds something to a suite, such as an atom, and the recipe is one of that suite.
            return _find(wanted)[0], name
        if wanted and wanted not in tasks:
            raise RecipeError(f"{path} has no task '{wanted}'; {nearest(wanted, tasks)}")
        if not wanted and len(tasks) != 1:
            has = ", ".join(tasks) or "none (use @tl.task)"
            raise RecipeError(f"{path} must define one task, or say which: {path}::NAME; it defines: {has}")
        return {"task": wanted or tasks[0]}, path
    head, _, rest = name.partition("/")
    suite = SUITES.find(head)
    if suite is not None:
        files = suite.recipe_files()
        if name in files:
            return _load_yaml(files[name])[0], name
        fields = suite.resolve(rest) if suite.resolve and rest else None
        if fields is not None:
            return {"suite": head, **fields}, name
    if TASKS.find(name) is not None:
        return {"task": name}, name
    raise RecipeError(
        f"no recipe is called '{name}'; {nearest(name, names())}; a file is given by its path, e.g. ./my-recipe.yaml"
    )


def names() -> list[str]:
    """Every recipe that can be made by name."""
    found = [name for suite in SUITES for name in suite.recipe_files()]
    return sorted(found + TASKS.names())


def _load_yaml(path: Path, within: tuple[Path, ...] = ()) -> tuple[dict[str, Any], str]:
    if not path.is_file():
        raise RecipeError(f"there is no recipe file {path}")
    if path.resolve() in within:
        raise RecipeError(f"{path} extends itself, by way of {' and '.join(p.name for p in within)}; break the circle")
    data = yaml_files.load(path, RecipeError)
    if not isinstance(data, dict):
        raise RecipeError(f"{path} must be a mapping with 'suite:' and its fields, not {type(data).__name__}")
    if "extends" in data:
        parent = str(data.pop("extends"))
        beside = path.parent / parent
        if parent.endswith((".yaml", ".yml")) and beside.is_file():
            base, _ = _load_yaml(beside, (*within, path.resolve()))
        else:
            base, _ = _find(parent)
        data = merge(base, data)
    return data, str(path)


def check(data: Mapping[str, Any], name: str, where: str) -> Recipe:
    """Check raw recipe data against its suite's fields."""
    if ("suite" in data) == ("task" in data):
        raise RecipeError(f"{where}: a recipe names one 'suite:' or one 'task:'; {nearest('', SUITES.names())}")
    try:
        suite = SUITES.get(str(data["suite"])) if "suite" in data else task_suite(TASKS.get(str(data["task"])))
    except TaskloomError as error:
        raise RecipeError(f"{where}: {error}") from error
    seed = data.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise RecipeError(f"{where}: seed must be a whole number, not {seed!r}")
    given = {key: value for key, value in data.items() if key not in RESERVED}
    try:
        fields = suite.fields.model_validate(given)
    except ValidationError as error:
        raise RecipeError(explain(error, suite.fields, where)) from error
    described = _described(data.get("described", False), where)
    return Recipe(name, suite, fields, str(data.get("describe", "")).strip(), seed, described)


def _described(given: Any, where: str) -> Described | None:
    if given is None or given is False:
        return None
    if given is not True and not isinstance(given, Mapping):
        raise RecipeError(f"{where}: described: write true, or {{level: explicit, unseen: 0.3}}, not {given!r}")
    try:
        return Described.model_validate({} if given is True else dict(given))
    except ValidationError as error:
        raise RecipeError(explain(error, Described, f"{where}: described")) from error


def task_suite(task: Task) -> Suite:
    """A task that is one function, seen as a suite of its own."""
    return Suite(task.name, task.describe, task.fields(), task.weave, task.version(), task.make.__module__)
