"""`@tl.learner`: learners that users write, as a torch module, as a function that builds one, or as
a dataclass with `fit`.

As with tasks, the parameters of a module after the first two are settings, in addition to those for
training.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_type_hints

from taskloom.core.errors import nearest
from taskloom.core.registry import is_python
from taskloom.learners.config import code_digest, digest_settings, register_learner
from taskloom.learners.interface import Fitted, LearnerError, Pairs
from taskloom.learners.scratch.classifiers import Classifier, Prepared, Scratch, load_scratch
from taskloom.learners.training.settings import Training

if TYPE_CHECKING:
    from taskloom.learners.scratch.nets.ops import Net

TRAINING = tuple(one.name for one in fields(Training))

LOOP = frozenset({"training", "start_from"})
"""Settings of every classifier that are not parameters of the module."""

EAGER: Mapping[str, Any] = {"compile": False, "graphs": False}
"""Defaults for user modules. Both options are off because compilers and captured graphs do not
support modules that branch on data; a module can switch them on.
"""


@dataclass(frozen=True)
class ModuleLearner(Scratch):
    """A classifier whose network is a user's torch module."""

    build: ClassVar[Callable[..., Any]]
    code: ClassVar[str]
    file: ClassVar[str]

    def __post_init__(self) -> None:
        """Skip the checks of sizes, because the module's constructor checks them."""

    def network(self, vocabulary: int, classes: int) -> Net:
        """Wrap the module. Its vocabulary has one more token, for the end of the input."""
        from taskloom.learners.scratch.nets.module_adapter import ModuleNet

        arguments = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in LOOP}
        settings = {k: v for k, v in digest_settings(self).items() if k not in LOOP}
        sizes = {"vocabulary": vocabulary + 1, "answers": classes}
        described = json.dumps(
            {"learner": self.name, **sizes, **settings, "code": self.code}, sort_keys=True
        )
        return ModuleNet(
            self.name,
            lambda: type(self).build(vocabulary + 1, classes, **arguments),
            classes,
            described,
            self.file,
        )

    def prepare(self, train: Pairs, evaluate: Mapping[str, Pairs]) -> Prepared[Classifier]:
        """Prepare as other classifiers do, and test the module on two examples."""
        from taskloom.learners.scratch.nets.module_adapter import ModuleNet

        ready = super().prepare(train, evaluate)
        assert isinstance(ready.net, ModuleNet)
        ready.net.check(ready.train)
        return ready


def module_settings(
    name: str, build: Callable[..., Any], defaults: Mapping[str, Any]
) -> type[ModuleLearner]:
    """Build the settings dataclass for a module class, or for a function that builds a module."""
    parameters = list(inspect.signature(build).parameters.values())
    if len(parameters) < 2:
        raise LearnerError(
            f"{name}: {build.__name__} needs two first parameters, the numbers of words and of"
            f" answers: {build.__name__}(vocabulary, answers, …)"
        )
    hints = _hints(build, parameters)
    settings = [
        _setting(name, parameter, hints, defaults)
        for parameter in parameters[2:]
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    _check_names(name, [setting for setting, _, _ in settings], defaults)
    loop = {key: value for key, value in defaults.items() if key in TRAINING}
    training = Training(**{**EAGER, **loop})
    block = [("training", Training, field(default_factory=lambda: training)), *settings]
    try:
        return dataclasses.make_dataclass(
            build.__name__,
            block,
            bases=(ModuleLearner,),
            frozen=True,
            namespace={
                "name": name,
                "build": staticmethod(build),
                "code": code_digest(build),
                "file": getattr(sys.modules.get(build.__module__), "__file__", None) or "",
                "__module__": build.__module__,
                "__doc__": build.__doc__,
            },
        )
    except (TypeError, ValueError) as error:
        raise LearnerError(f"{name}: {error}") from error


def _hints(build: Callable[..., Any], parameters: Iterable[inspect.Parameter]) -> dict[str, Any]:
    """Resolve the types of parameters only, because the return type may be known only to type
    checkers.
    """

    def stub() -> None: ...

    empty = inspect.Parameter.empty
    stub.__annotations__ = {
        one.name: one.annotation for one in parameters if one.annotation is not empty
    }
    return get_type_hints(stub, vars(sys.modules[build.__module__]))


def _setting(
    name: str, one: inspect.Parameter, hints: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[str, Any, Any]:
    default = defaults.get(one.name, one.default)
    if default is inspect.Parameter.empty or one.kind is inspect.Parameter.VAR_POSITIONAL:
        raise LearnerError(
            f"{name}: the parameter '{one.name}' needs a default: {one.name}: int = 64"
        )
    return one.name, hints.get(one.name, type(default)), field(default=default)


def _check_names(name: str, settings: Sequence[str], defaults: Mapping[str, Any]) -> None:
    taken = {*TRAINING, *LOOP, "name", "build", "code", "file"}
    for setting in settings:
        if setting in taken:
            raise LearnerError(
                f"{name}: the parameter '{setting}' is the name of a training setting; rename it"
            )
    for setting in defaults:
        if setting not in (*settings, *TRAINING):
            raise LearnerError(
                f"{name} has no setting '{setting}'; {nearest(setting, [*settings, *TRAINING])}"
            )


L = TypeVar("L", bound=Callable[..., Any])


def learner(
    name: str,
    *,
    describe: str,
    load: Callable[[Path], Fitted] | None = None,
    version: int = 1,
    **defaults: Any,
) -> Callable[[L], L]:
    """Register a torch module, or a dataclass with `fit`, as a learner.

    A module class (or a function that returns a module) is called as
    `build(vocabulary, answers, **settings)`. Its first two parameters are the numbers of distinct
    tokens and of distinct answers. Further parameters are settings and need defaults. Its
    `forward(tokens, lengths)` gets token ids [batch, time] and lengths [batch] and returns logits
    [batch, answers]. All settings for training (`steps`, `batch`, `rate`, …), checkpoints, curves
    and saving come with it.

    A frozen dataclass with `fit` can learn in any other way; see `taskloom.learners.Learner`.

    Args:
        name: Name in experiments and commands, e.g. `mine/gru`.
        describe: One line for `taskloom list learners`.
        load: For a dataclass with `fit`: function that loads the fitted learner from a folder.
        version: Increase it if a change makes the same settings and seed give another result. A
            run's digest also covers the code of the file.
        **defaults: New defaults of settings, including those for training: `steps=2000, rate=1e-3`.
    """
    if is_python(name) or "::" in name:
        raise LearnerError(f"a learner's name is a word or a path such as 'mine/gru', not '{name}'")

    def record(thing: L) -> L:
        if isinstance(thing, type) and hasattr(thing, "fit"):
            if not dataclasses.is_dataclass(thing):
                raise LearnerError(
                    f"{name}: {thing.__name__} has fit but is not a dataclass; add"
                    " @dataclass(frozen=True)"
                )
            if not hasattr(thing, "name"):
                thing.name = name  # type: ignore[attr-defined]
            record_class = register_learner(
                name, describe=describe, load=load, version=version, **defaults
            )
            record_class(thing)  # type: ignore[type-var]
            return thing
        settings = module_settings(name, thing, defaults)
        register_learner(
            name, describe=describe, load=load_scratch, version=version, code=code_digest(thing)
        )(settings)
        return thing

    return record
