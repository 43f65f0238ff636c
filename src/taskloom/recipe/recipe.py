"""Recipes: finds, reads and checks them, and computes their digests.

A recipe is found by its name, its file, or the Python file or folder that defines it. A name is
`suite/recipe`, an expression (in suites whose recipe names are expressions), or a task. Python code
is given by its path, `FILE.py` or `FOLDER`, or by `PATH::NAME` if it defines several recipes.

A recipe is a YAML file that names a suite (or a task) and sets its fields. It is checked by the
suite's pydantic model. The digest covers the checked fields with all defaults filled in, so that
equivalent recipes have the same digest. It also covers the suite's version and any code added by a
file, so that changing the code changes the digest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import InitVar, dataclass, field, fields, replace
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from taskloom.core.errors import ParameterError, RecipeError, TaskloomError, echo, nearest, whole
from taskloom.core.files import json_digest, path_of, plain
from taskloom.core.registry import SUITES, TASKS, FunctionSuite, Suite, is_python, load_file
from taskloom.core.seeding import Key
from taskloom.recipe import yaml_files
from taskloom.recipe.fields import (
    CurriculumFields,
    Described,
    Fields,
    InputParts,
    keep_part,
    texts,
)
from taskloom.recipe.overrides import Changes, changed_fields, given_changes, merge, override
from taskloom.recipe.yaml_files import validated

if TYPE_CHECKING:
    from taskloom.core.plan import Plan
    from taskloom.core.twins import TwinKind
    from taskloom.recipe.tasks import Task

RESERVED = ("suite", "task", "extends", "describe", "seed", "described", "twins", "curriculum")
"""Keys of a recipe file that are not fields of its suite."""


class UnknownCodeError(ParameterError, RecipeError):
    """A recipe read from data whose task or suite is defined in a Python file that the user has not
    named.
    """

    def __init__(self, name: str, where: str) -> None:
        super().__init__(
            "task",
            f"is needed: {where} says that '{name[:200]}' made the data, and code named only by "
            "data is never run; name the file if you trust it",
        )


class MissingFileError(ParameterError, RecipeError):
    """A recipe read from data that names a missing file."""

    def __init__(self, file: str) -> None:
        super().__init__(
            "task",
            f"is needed: the data were made with {file[:200]}, which is not here; name the file",
        )


class ChangedCodeError(RecipeError):
    """A recipe read from data whose code has changed since the data was made."""


@dataclass(frozen=True)
class Recipe:
    """A checked recipe.

    >>> Recipe("ctl/A", changes={"max_length": 4}).fields.max_length
    4

    Attributes:
        name: Name or file of the recipe. If only the name is given, the recipe is read and checked.
        suite: The suite, or the task if it is a single function.
        fields: The checked fields.
        describe: One-line description. Not part of the digest.
        seed: Default seed. Not part of the digest.
        described: Settings for inputs that begin with the description of their task, or None.
        twins: Kinds of twins by test split (`core/twins.py`). Empty for none.
        files: Locations of files named by its fields, if they are not where the text says. Not part
            of the digest.
        curriculum: Curriculum for reinforcement learning, from easy to hard examples. Not part of
            the digest, because it does not change any example.
        changes: Changes to fields as for `tl.make`, if only the name is given.
    """

    name: str
    suite: Suite = None  # type: ignore[assignment]  # never None once the recipe is built
    fields: BaseModel = None  # type: ignore[assignment]
    describe: str = ""
    seed: int = 0
    described: Described | None = None
    twins: Mapping[str, tuple[TwinKind, ...]] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    curriculum: CurriculumFields | None = None
    changes: InitVar[Changes] = None

    def __post_init__(self, changes: Changes) -> None:
        """Read the recipe if only its name is given."""
        if self.suite is None:
            known = read(self.name, changes)
            for attribute in fields(self):
                object.__setattr__(self, attribute.name, getattr(known, attribute.name))
        if isinstance(self.fields, Fields):
            self.fields.place_files(self.files)

    def file_names(self) -> list[str]:
        """Return the files named by its fields, as written there."""
        return self.fields.file_names() if isinstance(self.fields, Fields) else []

    def missing_files(self) -> list[str]:
        """Return the files named by its fields that do not exist."""
        return [name for name in self.file_names() if not self.find_file(name).exists()]

    def find_file(self, name: str) -> Path:
        """Return the path of a file named by a field."""
        return self.fields.find_file(name) if isinstance(self.fields, Fields) else path_of(name)

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits that cover everything that determines the data except the seed."""
        core = self._core()
        if self.described is not None:
            core["described"] = self.described.model_dump(mode="json")
        if self.twins:
            core["twins"] = {split: list(kinds) for split, kinds in self.twins.items()}
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
        """The full recipe as stored in the manifest and read by `from_dict`."""
        core = self._core()
        kind = "task" if "task" in core else "suite"
        return {
            "name": self.name,
            kind: core[kind],
            "version": core["version"],
            **({"code": core["code"]} if "code" in core else {}),
            "describe": self.describe,
            **({"described": self.described.model_dump(mode="json")} if self.described else {}),
            **(
                {"twins": {name: list(kinds) for name, kinds in self.twins.items()}}
                if self.twins
                else {}
            ),
            **({"curriculum": self.curriculum.model_dump(mode="json")} if self.curriculum else {}),
            **core["fields"],
        }

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        where: str = "the manifest",
        files: Mapping[str, str] | None = None,
    ) -> Recipe:
        """Rebuild a recipe from the output of `to_dict`, with the locations of files named by its
        fields.
        """
        rest = {k: v for k, v in data.items() if k not in ("name", "version", "code")}
        name = str(data.get("name", where))
        try:
            recipe = check(rest, name, where)
        except TaskloomError as error:
            if _fields_model(rest) is not None and not data.get("code"):
                raise
            raise UnknownCodeError(name, where) from error
        if "version" in data and data["version"] != recipe.suite.version:
            if recipe.suite.module.split(".")[0] != "taskloom":
                raise ChangedCodeError(
                    f"{where}: the file that defines '{recipe.suite.name}' has changed since then; "
                    "restore the file, or make the dataset again"
                )
            suite, then = recipe.suite, data["version"]
            raise ChangedCodeError(
                f"{where}: it was made by version {then} of '{suite.name}', but this is version"
                f" {suite.version}; make the dataset again, or install the taskloom that made it"
            )
        for part, digest in recipe._core().get("code", {}).items():
            if digest != data.get("code", {}).get(part):
                raise ChangedCodeError(
                    f"{where}: it was made with different code of '{part}' than now; make the "
                    "dataset again"
                )
        return replace(recipe, files=files) if files else recipe

    def key(self, seed: int | None = None) -> Key:
        """Return the key of all random streams for a seed. It depends only on world fields if the
        suite declares kinds.
        """
        core = self._core()
        # Functions added by users change what is true of items, but not which items a split has.
        core.pop("code", None)
        if isinstance(self.fields, Fields):
            core["fields"] = self.fields.key_fields()
        return Key(json_digest(core), self.seed if seed is None else whole(seed, "seed"))

    def plan(self, seed: int | None = None) -> Plan:
        """Plan what this recipe generates for a seed.

        Random streams depend only on the key fields, not on `described`, so that the same examples
        are generated with and without descriptions.
        """
        key = self.key(seed)
        plan = self.suite.weave(self.fields, key)
        if isinstance(self.fields, InputParts):
            plan = keep_part(plan, self.fields)
        if self.described is not None:
            from taskloom.core.descriptions import describe

            plan = describe(
                plan, self.described.level, self.described.unseen, key, alone=self.described.alone
            )
        if self.twins:
            from taskloom.core.twins import with_twins

            plan = with_twins(plan, self.twins)
        return plan


def load_definitions(name: str) -> None:
    """Import the Python file that a recipe's name refers to, which registers its task or suite.

    Worker processes call this before they rebuild a recipe that the user named. It must never be
    called for a name that comes from data.
    """
    if is_python(name):
        find(name)
    elif is_yaml(name):
        # The recipe may extend one in a Python file. If it is already known, its file need no
        # longer exist.
        with suppress(TaskloomError):
            find(name)


class RawRecipe(NamedTuple):
    """Unchecked data of a recipe.

    Attributes:
        data: Its keys and values.
        where: Name or file that defines it.
        folders: Folders of its file and of the files that it extends. Relative paths are resolved
            in them.
    """

    data: dict[str, Any]
    where: str
    folders: tuple[Path, ...] = ()


def find(name: str) -> RawRecipe:
    """Return the unchecked data of a recipe, and where it is defined."""
    if is_yaml(name):
        return _load_yaml(path_of(name))
    if is_python(name):
        return _in_python(name)
    head, _, rest = name.partition("/")
    suite = SUITES.find(head)
    if suite is not None:
        files = suite.recipe_files()
        if name in files:
            return RawRecipe(_load_yaml(files[name]).data, name)
        fields = suite.resolve(rest) if suite.resolve and rest else None
        if fields is not None:
            return RawRecipe({"suite": head, **fields}, name)
    if TASKS.find(name) is not None:
        return RawRecipe({"task": name}, name)
    if name.startswith((".", "/", "~")) or name.endswith("/"):
        exists = path_of(name).exists()
        problem = f"{name} is not a recipe" if exists else f"there is no file or folder {name}"
        raise RecipeError(f"{problem}; a recipe file ends in .yaml, a task file in .py")
    raise RecipeError(
        f"no recipe is called '{name}'; {nearest(name, names())} (Write a file as a path, e.g. "
        "./my-recipe.yaml)"
    )


def is_yaml(name: str) -> bool:
    """True if a name is the path of a recipe file."""
    return name.endswith((".yaml", ".yml"))


def _in_python(name: str) -> RawRecipe:
    path, _, wanted = name.partition("::")
    tasks = load_file(Path(path))
    if wanted not in tasks and SUITES.find(wanted.partition("/")[0]) is not None:
        # The file defines a suite, or extends one (for example with an atom), and the recipe
        # belongs to that suite.
        return RawRecipe(find(wanted).data, name)
    if wanted and wanted not in tasks:
        raise RecipeError(f"{path} has no task '{wanted}'; {nearest(wanted, tasks)}")
    if not wanted and len(tasks) != 1:
        names = ", ".join(tasks) or "none (use @tl.task)"
        raise RecipeError(
            f"{path} must define exactly one task, or specify one: {path}::NAME; it defines: "
            f"{names}"
        )
    return RawRecipe({"task": wanted or tasks[0]}, path)


def names() -> list[str]:
    """Return the names of all recipes."""
    return sorted(
        [*(name for suite in SUITES for name in suite.recipe_files()), *TASKS.names()],
        key=counting_order,
    )


def descriptions() -> list[tuple[str, str]]:
    """Return the names and descriptions of all recipes that have a file. The rest of each recipe is
    not checked.
    """
    files = {name: file for suite in SUITES for name, file in suite.recipe_files().items()}
    rows = []
    for name in sorted(files, key=counting_order):
        data = yaml_files.load(files[name], RecipeError)
        own = isinstance(data, dict) and "describe" in data
        rows.append((name, str((data if own else find(name).data).get("describe", "")).strip()))
    return rows


def counting_order(name: str) -> list[tuple[int, str]]:
    """Sort key for natural order: 2 before 10.

    >>> sorted(["babi/10", "babi/2", "babi/mix"], key=counting_order)
    ['babi/2', 'babi/10', 'babi/mix']
    """
    parts = re.split(r"([0-9]+)", name)
    return [(int(part), part) if part.isdecimal() else (-1, part) for part in parts if part]


def _load_yaml(path: Path, within: tuple[Path, ...] = ()) -> RawRecipe:
    if not path.exists():
        raise RecipeError(f"there is no recipe file {path}")
    if path.resolve() in within:
        raise RecipeError(
            f"{path} extends itself through {' and '.join(p.name for p in within)}; remove one "
            "'extends'"
        )
    data = yaml_files.load(path, RecipeError)
    if not isinstance(data, dict):
        raise RecipeError(
            f"{path} must be a mapping with 'suite:' and its fields, not {type(data).__name__}"
        )
    data, folders = _extended(data, path.parent, (*within, path.resolve()))
    return RawRecipe(data, str(path), (path.parent, *folders))


def _extended(
    data: dict[str, Any], folder: Path, within: tuple[Path, ...]
) -> tuple[dict[str, Any], tuple[Path, ...]]:
    """Merge a recipe's data with the recipe that it extends. Also return the folders of the
    extended files.
    """
    if "extends" not in data:
        return data, ()
    parent = str(data.pop("extends"))
    file, separator, wanted = parent.partition("::")
    beside = folder / path_of(file)
    if is_yaml(parent) and beside.is_file():
        base = _load_yaml(beside, within)
    elif is_python(parent) and beside.exists():
        base = find(f"{beside}{separator}{wanted}")
    else:
        base = find(parent)
    return merge(base.data, data), base.folders


def from_mapping(recipe: Mapping[str, Any]) -> RawRecipe:
    """Return the data of a recipe given as a mapping, with the keys of a YAML file."""
    for key in recipe:
        if not isinstance(key, str):
            raise RecipeError(
                f"a recipe's keys must be names, as in {{'suite': …}}, not {echo(key)}"
            )
    data, folders = _extended({key: plain(value) for key, value in recipe.items()}, Path(), ())
    return RawRecipe(data, "the recipe", folders)


Source = str | PathLike[str] | Mapping[str, Any]
"""A recipe's name or file, or its keys and values."""


def read(source: Source | Task, changes: Changes = None, *, set: Changes = None) -> Recipe:
    """Find and check a recipe by name or file, with optional changes of its fields.

    Args:
        source: `suite/recipe`, `my-recipe.yaml`, a task's name, or `tasks.py` (`tasks.py::NAME` if
            it defines several); a mapping with the keys of a YAML file, `{"suite": NAME, FIELD:
            VALUE}`; or a task decorated with `@tl.task`.
        changes: Fields and values, `{"max_length": 8, "splits.train.n": 1000}`, or the same as
            text, `["max_length=8"]`.
        set: Another name for `changes`.
    """
    if isinstance(source, Mapping):
        data, where, folders = from_mapping(source)
        name = str(
            source.get("name")
            or source.get("extends")
            or source.get("suite")
            or source.get("task")
            or where
        )
        data.pop("name", None)
    else:
        name = task_name(source) or _path(source)
        data, where, folders = find(name)
    changes = changed_fields(given_changes(changes, set))
    override(data, changes, _fields_model(data))
    recipe = check(data, name, where)
    # Paths typed by the user are relative to the working folder. Paths in a file are first resolved
    # relative to that file's folder.
    files = located(recipe.file_names(), folders, typed=texts(plain(changes)))
    return replace(recipe, files=files) if files else recipe


def task_name(thing: object) -> str:
    """Return the name of a task of `@tl.task`, or an empty text for anything else."""
    name = getattr(thing, "name", None)
    return name if isinstance(name, str) and name in TASKS and TASKS.find(name) is thing else ""


def _path(source: object) -> str:
    if not isinstance(source, str | PathLike):
        raise RecipeError(
            "a recipe must be a name, a file, a mapping with 'suite' or 'task', or a task of "
            f"@tl.task, not {echo(source)}"
        )
    return fspath(source)


def located(names: Iterable[str], folders: Iterable[Path], typed: Iterable[str]) -> dict[str, str]:
    """Return the paths of files next to a recipe, by the texts that name them in the recipe."""
    folders, own = list(folders), frozenset(typed)
    places: dict[str, str] = {}
    for name in names:
        beside = next((folder / name for folder in folders if (folder / name).exists()), None)
        if beside is not None and name not in own and not name.startswith(("/", "~")):
            places[name] = str(beside.resolve())
    return places


def check(data: Mapping[str, Any], name: str, where: str) -> Recipe:
    """Check a recipe's data against the fields of its suite."""
    if ("suite" in data) == ("task" in data):
        raise RecipeError(
            f"{where}: a recipe must name one 'suite:' or one 'task:'; "
            f"{nearest('', SUITES.names())}"
        )
    try:
        suite = (
            SUITES.get(str(data["suite"]))
            if "suite" in data
            else task_suite(TASKS.get(str(data["task"])))
        )
    except TaskloomError as error:
        raise RecipeError(f"{where}: {error}") from error
    try:
        seed = whole(data.get("seed", 0), "seed")
    except ParameterError as error:
        raise RecipeError(f"{where}: {error}") from error
    given = {key: value for key, value in data.items() if key not in RESERVED}
    fields = validated(suite.fields, given, where, RecipeError)
    described = _described(data.get("described", False), where)
    twins = _twins(data.get("twins"), where)
    curriculum = _curriculum(data.get("curriculum"), where)
    return Recipe(
        name,
        suite,
        fields,
        str(data.get("describe", "")).strip(),
        seed,
        described,
        twins,
        curriculum=curriculum,
    )


def _fields_model(data: Mapping[str, Any]) -> type[BaseModel] | None:
    """Return the model of a recipe's fields, or None for a recipe that `check` will reject."""
    if "task" in data:
        task = TASKS.find(str(data["task"]))
        return task.fields() if task else None
    suite = SUITES.find(str(data.get("suite", "")))
    return suite.fields if suite else None


def _described(given: Any, where: str) -> Described | None:
    if given is None or given is False:
        return None
    if given is not True and not isinstance(given, Mapping):
        raise RecipeError(
            f"{where}: described: write true, or {{level: explicit, unseen: 0.3}}, not"
            f" {echo(given)}"
        )
    return validated(
        Described, {} if given is True else dict(given), f"{where}: described", RecipeError
    )


def _twins(given: Any, where: str) -> dict[str, tuple[TwinKind, ...]]:
    """Parse `twins: [flip, keep]` for all test splits, or `twins: {ood: [flip, keep]}`."""
    if not given:
        return {}
    if isinstance(given, Mapping):
        return {str(split): _twin_kinds(kinds, where) for split, kinds in given.items()}
    return {"*": _twin_kinds(given, where)}


def _twin_kinds(given: Any, where: str) -> tuple[TwinKind, ...]:
    kinds = [given] if isinstance(given, str) else given
    known = isinstance(kinds, list | tuple) and all(kind in ("flip", "keep") for kind in kinds)
    if not known or not kinds:
        raise RecipeError(
            f"{where}: twins: write [flip, keep], one of them, or {{SPLIT: [flip, keep]}}, not"
            f" {echo(given)}"
        )
    return tuple(dict.fromkeys(kinds))


def _curriculum(given: Any, where: str) -> CurriculumFields | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise RecipeError(
            f"{where}: curriculum: write {{trait: length, bounds: [3, 4, 5]}}, not {echo(given)}"
        )
    return validated(CurriculumFields, dict(given), f"{where}: curriculum", RecipeError)


def task_suite(task: Task) -> Suite:
    """Wrap a task that is a single function in a suite of its own."""
    return FunctionSuite(
        name=task.name,
        describe=task.describe,
        fields=task.fields(),
        weave=task.weave,
        version=task.version(),
        module=task.make.__module__,
    )
