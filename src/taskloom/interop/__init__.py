"""Taskloom's tasks in other tools: reasoning-gym's interface, Hugging Face, lm-evaluation-harness,
Inspect, verifiers, TRL.

One module per tool. Each imports its tool only when it is used, and scores every prediction by the
recipe's own scorer, so that a prediction has the same score there as here. If a tool is missing, or
its interface has changed, `need` raises a clear error.
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
"""Versions with which `make test-interop` was last run, by package name."""

EXTRAS = {"datasets": "hf", "inspect-ai": "inspect", "openenv-core": "openenv"}
"""Extras that install a package and have a different name."""


class MovedError(TaskloomError):
    """Raised if an installed package lacks an attribute or module that we use."""

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
    """Import a module of a package, and check that it has the names that we use.

    Args:
        package: Name of the package, as in `TESTED`.
        module: Dotted name of the module.
        names: Names that we use from the module.

    Raises:
        MissingExtra: If the package is not installed.
        MovedError: If the package is installed but its interface has changed.
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
