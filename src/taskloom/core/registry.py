"""Finds suites, tasks, learners and studies by name, in this package and in others.

Objects are registered by a decorator where they are defined, so no other file needs to be edited.
Modules are found in three ways: in the folders of this package (`taskloom.suites.*`), through the
entry-point group `taskloom` of installed packages (each entry point names a module to import), and
in a Python file given by path. They are imported only when a name is looked up. A package with many
modules has an index (`index.json`, with the module and description of each name), so that listing
names does not import any of them.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import marshal
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, overload

from taskloom.core.errors import TaskloomError, nearest
from taskloom.core.files import path_of
from taskloom.core.pictures import STORIES

if TYPE_CHECKING:
    from pydantic import BaseModel

    from taskloom.core.example import Answer, Example
    from taskloom.core.offers import (
        Evaluator,
        Exporter,
        Option,
        PlanScorer,
        PredictionReader,
        RunScores,
        Solver,
        TaskForm,
        TraitName,
        View,
    )
    from taskloom.core.pictures import PictureMaker, StoryPicture
    from taskloom.core.plan import Plan
    from taskloom.core.resources import Resource
    from taskloom.core.scoring import Scorer
    from taskloom.core.seeding import Key
    from taskloom.recipe.tasks import Task

S = TypeVar("S", bound="Suite")
W = TypeVar("W", bound=Callable[..., Any])

GROUP = "taskloom"
"""Entry-point group in which other packages name the modules to import."""

PAPERS = "taskloom.papers"
"""Package with one folder per paper."""

INDEX = "index.json"
"""File in a package that lists its registered objects, written by `make index`."""


class Describable(Protocol):
    """Protocol of registered objects, which have a one-line description."""

    @property
    def describe(self) -> str:
        """One-line description."""


T = TypeVar("T", bound=Describable)


class Indexed(NamedTuple):
    """Entry of an index: the module that registers an object, and its one-line description."""

    module: str
    describe: str


class Registry(Generic[T]):
    """Registered objects of one kind, by name.

    Attributes:
        kind: Name of the kind, for error messages.
        packages: Packages to search. Those that are not installed are skipped.
        indexed: True if these packages have an index.
    """

    every: ClassVar[list[Registry[Any]]] = []

    def __init__(self, kind: str, *packages: str, indexed: bool = False) -> None:
        self.kind = kind
        self.packages = packages
        self.indexed = indexed
        self._things: dict[str, T] = {}
        self._origin: dict[str, str] = {}
        Registry.every.append(self)

    def add(self, name: str, thing: T, origin: str) -> None:
        """Register an object. It is an error if two modules register the same name, because either
        choice could be wrong.
        """
        other = self._origin.get(name) or self._indexed_origin(name, origin)
        if other != origin:
            raise TaskloomError(
                f"the {self.kind} '{name}' is defined twice: in {other} and in {origin}; rename one"
            )
        self._things[name] = thing
        self._origin[name] = origin

    def forget(self, origin: str) -> None:
        """Remove everything a module registered, before the module is imported again."""
        for name in self.of(origin):
            del self._things[name], self._origin[name]

    def of(self, origin: str) -> list[str]:
        """Names registered by a module, or by a class in it."""
        return [n for n, o in self._origin.items() if o == origin or o.startswith(f"{origin}.")]

    def origin(self, name: str) -> str:
        """Return the module, or the class in a module, that registered a name."""
        return self._origin[name]

    def get(self, name: str) -> T:
        """Return the object with that name, or raise an error with the nearest names."""
        thing = self.find(name)
        if thing is None:
            raise TaskloomError(f"no {self.kind} is called '{name}'; {nearest(name, self.names())}")
        return thing

    def find(self, name: str) -> T | None:
        """Return the object with that name, or None. Imports as little as possible, trying the
        module with the same name first.
        """
        if name in self._things:
            return self._things[name]
        head = name.split("/")[0]
        if name in self.index:
            importlib.import_module(self.index[name].module)
        elif module := next((m for m in self._submodules if m.rpartition(".")[2] == head), None):
            importlib.import_module(module)
        if name not in self._things:
            self._import_all()
        return self._things.get(name)

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return [name for name, _ in self.descriptions()]

    def descriptions(self) -> list[tuple[str, str]]:
        """Return all names with their descriptions, sorted. Indexed modules are not imported."""
        if self.indexed:
            load_entry_points()
        else:
            self._import_all()
        known = {name: entry.describe for name, entry in self.index.items()}
        return sorted(
            (known | {name: thing.describe for name, thing in self._things.items()}).items()
        )

    @cached_property
    def index(self) -> Mapping[str, Indexed]:
        """Merged indexes of the packages."""
        if not self.indexed:
            return {}
        entries: dict[str, Indexed] = {}
        for _, folder in self.folders():
            listed = json.loads((folder / INDEX).read_text(encoding="utf-8"))
            entries |= {name: Indexed(*entry) for name, entry in listed.items()}
        return entries

    def folders(self) -> list[tuple[str, Path]]:
        """Return the installed packages with their folders."""
        installed = [name for name in self.packages if importlib.util.find_spec(name) is not None]
        return [(name, Path(importlib.import_module(name).__path__[0])) for name in installed]

    def _indexed_origin(self, name: str, origin: str) -> str:
        """Return the module listed in the index for a name, or `origin` if that is the same module
        or a class in it.
        """
        if name not in self.index:
            return origin
        module = self.index[name].module
        return origin if origin.startswith(f"{module}.") else module

    def __contains__(self, name: object) -> bool:
        return name in self._things

    def __iter__(self) -> Iterator[T]:
        self._import_all()
        return iter([self._things[n] for n in sorted(self._things)])

    @cached_property
    def _submodules(self) -> list[str]:
        """Full names of the modules and packages directly inside the packages."""
        found = []
        for package, folder in self.folders():
            names = [module.name for module in pkgutil.iter_modules([str(folder)])]
            found += [f"{package}.{name}" for name in sorted(names) if not name.startswith("_")]
        return found

    def _import_all(self) -> None:
        for module in self._submodules:
            importlib.import_module(module)
        load_entry_points()


class Suite:
    """A family of tasks that share a world. A suite is a subclass decorated with `@tl.suite`.

    A suite must have a `name`, a one-line description (`describe`), the `fields` of its recipes,
    and `weave`. The other attributes and methods are optional. Commands use those that a suite
    defines.

    Attributes:
        name: The first part of its recipes' names.
        describe: One-line description for `taskloom list`.
        fields: The pydantic model of its recipes' fields; unknown keys are errors.
        version: Increase it whenever the same fields would give different data. Part of every
            recipe digest.
        module: The module that defines the suite. Its recipes are in `recipes/` next to the module.
            Set by `@tl.suite`.
        resolve: For suites whose recipe names are expressions: returns the fields for a name
            without a file, or None.
        function: For suites whose tasks are functions: returns the function for checked fields, if
            no plan is needed.
        code: For suites that users extend with functions: returns the digests, by name, of the user
            code that these fields use. They become part of the recipe's digest, like the code of a
            task file.
        exporters: Formats of `taskloom export`, by name.
        solve: Answers every question of a file: `taskloom solve`.
        evaluate: Scores predictions for `taskloom score`. Suites without this attribute are scored
            task by task.
        run_scores: Scores for a whole split, shown next to the mean score of a run.
        plan_scorers: Additional scorers, by name, each built from a recipe's plan: `taskloom runs
            rescore`.
        task_form: Returns a task's form, which omits its constants. The audit reports test tasks
            that have the same form as a training task.
        options: Options that the suite adds to commands.
        resources: External data that it can use: `taskloom data`.
        views: Other formats in which `taskloom show` can print a recipe's tasks, by option name.
        picture: Draws an example for `taskloom view`: a proof, a tree, a chain or a family. Suites
            without this attribute show the derivation.
        story: The story picture of an example, if it needs neither fields nor key. Shown in
            notebooks.
        predictions: Reads files of predictions in the suite's own format, for `taskloom study`.
            Default: lines or records.
        trait_names: Labels and explanations of traits for reports, by trait. If two traits group
            the examples identically, the first is shown.
    """

    name: str
    describe: str
    fields: type[BaseModel]
    version: int = 1
    module: str
    resolve: Callable[[str], dict[str, Any] | None] | None = None
    function: Callable[[Any], Callable[[str], Answer]] | None = None
    code: Callable[[Any], dict[str, str]] | None = None
    exporters: Mapping[str, Exporter] = MappingProxyType({})
    solve: Solver | None = None
    evaluate: Evaluator | None = None
    options: Sequence[Option] = ()
    resources: Sequence[Resource] = ()
    run_scores: RunScores | None = None
    plan_scorers: Mapping[str, PlanScorer] = MappingProxyType({})
    task_form: TaskForm | None = None
    views: Mapping[str, View] = MappingProxyType({})
    picture: PictureMaker | None = None
    story: Callable[[Example], StoryPicture | None] | None = None
    predictions: PredictionReader | None = None
    trait_names: Mapping[str, TraitName] = MappingProxyType({})

    def weave(self, fields: Any, key: Key, /) -> Plan:
        """Plan a recipe's splits, given its checked fields and the key of its random streams."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<Suite {self.name}>"

    def recipe_files(self) -> dict[str, Path]:
        """Return the names of this suite's recipes, with their files."""
        module = sys.modules[self.module]
        folder = Path(str(module.__file__)).parent / "recipes"
        return {f"{self.name}/{p.stem}": p for p in sorted(folder.glob("*.yaml"))}


@dataclass(frozen=True, kw_only=True)
class FunctionSuite(Suite):
    """A suite that consists of a single function: a task of `@tl.task`, or user data. It has no
    optional parts.
    """

    name: str
    describe: str
    fields: type[BaseModel]
    weave: Callable[[Any, Key], Plan]
    version: int
    module: str
    code: Callable[[Any], dict[str, str]] | None = None


SUITES: Registry[Suite] = Registry("suite", "taskloom.suites")
TASKS: Registry[Task] = Registry("task")


@overload
def suite(name: type[S]) -> type[S]: ...


@overload
def suite(name: str, **offers: Any) -> Callable[[W], W]: ...


def suite(name: type[S] | str, **offers: Any) -> type[S] | Callable[[W], W]:
    """Register a subclass of `Suite`.

    Args:
        name: The class, when the decorator is used without parentheses.
        **offers: Deprecated. With the suite's name as `name`: attributes of a suite whose `weave`
            is the decorated function.
    """
    if not isinstance(name, str):
        return _register(name)
    warnings.warn(
        f"@tl.suite({name!r}, ...) before a function is deprecated; write a subclass of tl.Suite"
        " with the method weave",
        DeprecationWarning,
        stacklevel=2,
    )
    for offer in offers:
        if offer not in Suite.__annotations__:
            raise TaskloomError(
                f"the suite '{name}': there is no attribute '{offer}'; "
                f"{nearest(offer, Suite.__annotations__)}"
            )

    def record(weave: W) -> W:
        own = {"name": name, "weave": weave, **offers}
        # Functions that are class attributes would become methods and receive the suite as first
        # argument.
        plain = {
            key: staticmethod(value) if callable(value) and key != "fields" else value
            for key, value in own.items()
        }
        _register(type(name, (Suite,), {**plain, "__module__": weave.__module__}))
        return weave

    return record


def _register(kind: type[S]) -> type[S]:
    """Register the suite that a class defines."""
    missing = [need for need in ("name", "describe", "fields") if not hasattr(kind, need)]
    if missing or kind.weave is Suite.weave:
        raise TaskloomError(
            f"the suite {kind.__name__} needs {', '.join(missing) or 'the method weave'}"
        )
    made = kind()
    made.module = kind.__module__
    SUITES.add(made.name, made, made.module)
    if made.story is not None:
        STORIES[made.name] = made.story
    return kind


def find_suite(name: str) -> Suite | None:
    """Return a suite by name, or by `PATH::NAME` if a Python file or folder defines it. None if
    there is none.
    """
    path, separator, suite = name.rpartition("::")
    if separator:
        load_file(Path(path))
    return SUITES.find(suite)


def trait_name(recipes: Iterable[str], trait: str) -> TraitName:
    """Return the label of a trait for reports, as defined by the suites of the recipes.

    If no suite defines one, or suites disagree, return the trait's name with spaces instead of
    underscores.

    Args:
        recipes: Names such as `babi/mix-T7`.
        trait: The trait.
    """
    from taskloom.core.offers import TraitName

    names = []
    for head in dict.fromkeys(recipe.split("/")[0] for recipe in recipes):
        owner = SUITES.find(head)
        if owner is not None and trait in owner.trait_names:
            names.append(owner.trait_names[trait])
    if names and all(name.label == names[0].label for name in names):
        return names[0]
    return TraitName(trait.replace("_", " "))


def suite_that(offer: str, name: str = "") -> Suite:
    """Return the named suite that has an optional part such as `solve`. Without a name, return the
    only suite that has it.
    """
    if name:
        suite = find_suite(name) or SUITES.get(name)
        if getattr(suite, offer):
            return suite
    offering = [s for s in SUITES if getattr(s, offer)]
    if len(offering) == 1 and not name:
        return offering[0]
    names = ", ".join(s.name for s in offering) or "none"
    problem = f"'{name}' has no '{offer}'" if name else f"several suites have a '{offer}'"
    raise TaskloomError(f"{problem}; name a suite that has one: {names}")


def find_scorer(name: str) -> Scorer:
    """Return a scorer by name (`any-of`, or a suite's scorer), by file (`mine.py`), or by a name in
    a file (`mine.py::half`).
    """
    from taskloom.core.scoring import SCORERS, scorers_of

    if is_python(name):
        return SCORERS[name_in_file(name, scorers_of, "scorer")]
    if name not in SCORERS:
        SUITES.names()  # importing suites registers their scorers
        load_entry_points()
    if name not in SCORERS:
        raise TaskloomError(f"no scorer is called '{name}'; {nearest(name, SCORERS)}")
    return SCORERS[name]


def name_in_file(name: str, names_of: Callable[[str], list[str]], kind: str) -> str:
    """Load the file in `mine.py` or `mine.py::NAME`, and return the name of the selected object.

    Args:
        name: The file or folder, followed by `::` and a name unless the file defines only one such
            object.
        names_of: Returns the names registered by a module, given its name.
        kind: Kind of object, for error messages: `learner`, `scorer`.
    """
    path, _, wanted = name.partition("::")
    names = names_of(load_module(Path(path)))
    if wanted and wanted not in names:
        raise TaskloomError(f"{path} has no {kind} '{wanted}'; {nearest(wanted, names)}")
    if not wanted and len(names) != 1:
        has = ", ".join(names) or f"none (use @tl.{kind})"
        raise TaskloomError(
            f"{path} must define exactly one {kind}, or specify one: {path}::NAME; it defines: "
            f"{has}"
        )
    return wanted or names[0]


_loaded: tuple[EntryPoint, ...] | None = None


def load_entry_points() -> tuple[EntryPoint, ...]:
    """Import the modules of installed packages in the entry-point group, and return their entry
    points. Runs once: looking them up reads the metadata of every installed package.
    """
    global _loaded
    if _loaded is not None:
        return _loaded
    # Set before the imports, because a module that is imported may ask again.
    _loaded = tuple(entry_points(group=GROUP))
    for point in _loaded:
        try:
            point.load()
        except Exception as error:
            package = point.dist.name if point.dist else "an installed package"
            raise TaskloomError(
                f"the entry point '{point.name}' of {package} cannot be loaded "
                f"({type(error).__name__}: {error}); fix or uninstall {package}"
            ) from error
    return _loaded


def paper_folders() -> dict[str, Path]:
    """Return the folders that may contain a paper's data, by package name: those inside
    `taskloom.papers`, and the packages named by entry points.

    Such a folder has any of `published.yaml`, `presets.toml` and `examples/*.yaml`.
    """
    folders = {}
    if importlib.util.find_spec(PAPERS) is not None:
        inside = Path(importlib.import_module(PAPERS).__path__[0])
        for path in sorted(inside.iterdir()):
            if (path / "__init__.py").is_file():
                folders[f"{PAPERS}.{path.name}"] = path
    for point in load_entry_points():
        paths = getattr(sys.modules.get(point.module), "__path__", None)
        if paths:  # a module that is not a package has no folder of its own
            folders[point.module] = Path(next(iter(paths)))
    return folders


def is_python(name: str) -> bool:
    """True if a name refers to Python code by its path: `FILE.py`, `FILE.py::NAME` or
    `FOLDER::NAME`.

    >>> is_python("tasks.py"), is_python("my_suite::mine/small"), is_python("ctl/A")
    (True, True, False)
    """
    return name.endswith(".py") or "::" in name


def load_file(path: Path) -> list[str]:
    """Import a Python file, or a folder with an `__init__.py`, and return the names of the tasks
    that it defines.
    """
    return TASKS.of(load_module(path))


def load_module(path: Path) -> str:
    """Import a Python file or folder. Returns its module name, under which registries list what it
    added.

    Anything registered by an earlier import of the file is dropped first, so that edits take
    effect.
    """
    from taskloom.core import scoring

    path = path_of(path)
    if path.is_dir():
        path = path / "__init__.py"
    if not path.is_file():
        raise TaskloomError(
            f"there is no file {path}; name a Python file that uses @tl.task, @tl.learner,"
            " @tl.scorer or @tl.study"
        )
    whole = path.resolve()
    package = path.name == "__init__.py"
    module_name = (  # two files with the same name are two modules
        f"{whole.parent.name if package else path.stem} ({whole})"
    )
    for registry in Registry.every:
        registry.forget(module_name)
    scoring.forget(module_name)
    module = ModuleType(module_name)
    module.__file__ = str(whole)
    if package:  # so that it can import its own modules
        module.__path__ = [str(whole.parent)]
        module.__package__ = module_name
        for stale in [n for n in sys.modules if n.startswith(f"{module_name}.")]:
            del sys.modules[stale]
    sys.modules[module_name] = module
    try:
        # Compile the file here, because importlib's bytecode cache would miss an edit within the
        # same second. This is the only place that executes code from a file. The file must be named
        # by the user, never by data.
        code = compile(path.read_bytes(), module.__file__, "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102
    except TaskloomError:
        raise
    except (Exception, SystemExit) as error:
        raise TaskloomError(
            f"{path} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    return module_name


def source_of(thing: Callable[..., Any]) -> bytes:
    """Return the source code of a function or class, for digests: its whole file, or its bytecode
    if there is no file.
    """
    thing = inspect.unwrap(thing)
    if isinstance(thing, type):
        file = getattr(sys.modules.get(thing.__module__), "__file__", None)
        methods = [
            code for m in vars(thing).values() if (code := getattr(m, "__code__", None)) is not None
        ]
        return (
            Path(file).read_bytes() if file else b"".join(marshal.dumps(code) for code in methods)
        )
    code = getattr(thing, "__code__", None)
    if code is None:
        return b""
    path = Path(code.co_filename)
    return path.read_bytes() if path.is_file() else marshal.dumps(code)
