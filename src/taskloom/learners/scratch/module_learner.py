"""Learners that users write as a torch module: `@tl.learner` on a module class, or on a function
that builds a module.

As with tasks, the parameters after the first two are settings, in addition to those of the training
loop.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

from taskloom.learners.interface import LearnerError, Pairs, code_digest, digest_settings
from taskloom.learners.scratch.classifiers import Classifier, Prepared, Scratch
from taskloom.learners.training.settings import Training

if TYPE_CHECKING:
    from taskloom.learners.scratch.nets.ops import Net

TRAINING = tuple(one.name for one in fields(Training))

LOOP = frozenset({"training", "start_from"})
"""Settings of every classifier that are not parameters of the module."""

EAGER: Mapping[str, Any] = {"compile": False, "graphs": False}
"""Defaults for user modules, which may branch on data. Compilers and captured graphs do not support
that. Both can be switched on.
"""


@dataclass(frozen=True)
class ModuleLearner(Scratch):
    """A classifier whose network is a user's torch module."""

    build: ClassVar[Callable[..., Any]]
    code: ClassVar[str]
    file: ClassVar[str]

    def __post_init__(self) -> None:
        """Skip the checks of sizes: the module's constructor knows which ones it accepts."""

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
        """Prepare as other classifiers do, and try the module on two examples."""
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
    """Resolve the types of the parameters only. The return type may be known only to type checkers."""

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
    from taskloom.core.errors import nearest

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
