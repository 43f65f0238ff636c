"""Taskloom's tasks in other tools: reasoning-gym's interface, Hugging Face, lm-evaluation-harness,
Inspect, verifiers, TRL.

One module per tool. Each imports its tool only when it is used, and scores every prediction by the
recipe's own scorer, so that a prediction has the same score there as here. A tool that is missing,
or whose interface has changed, is an error of one sentence: see `need`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from taskloom.core.errors import MissingExtra, TaskloomError

TESTED = {
    "datasets": "5.2.0",
    "inspect-ai": "0.3.285",
    "lm-eval": "0.4.13",
    "openenv-core": "0.3.0",
    "reasoning-gym": "0.1.25",
    "trl": "1.16.0",
    "verifiers": "0.4.0",
}
"""The versions that `make test-interop` was last run with, by the name under which a package is
installed.
"""

EXTRAS = {"datasets": "hf", "inspect-ai": "inspect", "openenv-core": "openenv"}
"""Extras that install a package and have another name than it."""


class MovedError(TaskloomError):
    """A version of a package that lacks something that is used of it."""

    def __init__(self, package: str, missing: str) -> None:
        try:
            installed = version(package)
        except PackageNotFoundError:
            installed = "of an unknown version"
        super().__init__(
            f"{package} {installed} has no {missing}; this adapter is tested with {package}"
            f" {TESTED[package]}: pip install '{package}=={TESTED[package]}'"
        )


def need(package: str, module: str, *names: str) -> ModuleType:
    """Import a module of a package, and check that it has what is used of it.

    Args:
        package: The name under which it is installed, as in `TESTED`.
        module: The module, as it is imported.
        names: What is used of the module.

    Raises:
        MissingExtra: It is not installed.
        MovedError: It is installed, and its interface is another one.
    """
    try:
        package_module = import_module(module)
    except ImportError as error:
        try:
            version(package)
        except PackageNotFoundError:
            raise MissingExtra("taskloom.interop", package, EXTRAS.get(package, package)) from None
        raise MovedError(package, f"module {module} that can be imported ({error})") from error
    for name in names:
        if not hasattr(package_module, name):
            raise MovedError(package, f"{module}.{name}")
    return package_module
