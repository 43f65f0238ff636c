"""`tl.learner`: a learner of one's own, from a torch module or from a dataclass with `fit`, in any
Python file.

Apart from `interface.py`, which the networks import: modules import in one direction only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from taskloom.core.registry import is_python
from taskloom.learners.interface import Fitted, LearnerError, code_digest, register_learner

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

    A module class (or a function that returns a module) is called as `build(vocabulary, answers,
    **settings)`: its first two parameters are the numbers of different tokens and of different
    answers, further ones need defaults and are settings. Its `forward(tokens, lengths)` gets token
    ids [batch, time] and lengths [batch] and returns logits [batch, answers]. All settings of
    training (`steps`, `batch`, `rate`, …), checkpoints, curves and saving come with it.

    A frozen dataclass with `fit` is any other way to learn; see `taskloom.learners.Learner`.

    Args:
        name: What experiments and commands call it, e.g. `mine/gru`.
        describe: One line for `taskloom list learners`.
        load: For a dataclass with `fit`: from a folder to what was saved there.
        version: Raised whenever the same settings and seed would learn something else. The code of
            the file is part of a run's digest by itself.
        **defaults: Settings, also of training, that differ from their defaults: `steps=2000,
            rate=1e-3`.
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
        from taskloom.learners.scratch.classifiers import load_scratch
        from taskloom.learners.scratch.module_learner import module_settings

        settings = module_settings(name, thing, defaults)
        register_learner(
            name, describe=describe, load=load_scratch, version=version, code=code_digest(thing)
        )(settings)
        return thing

    return record
