"""Costly things that are made once while several recipes are read together.

The experiments of one paper's table name the same recipe up to five times, and a plan of 265
functions over Wikidata takes seconds. Nothing is shared outside a block of `sharing`: files and
environment may change between two calls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Made = TypeVar("Made")

_made: ContextVar[dict[Hashable, Any] | None] = ContextVar("made", default=None)


@contextmanager
def sharing() -> Iterator[None]:
    """Share what `shared` makes until the block ends; a block inside another one is part of it."""
    if _made.get() is not None:
        yield
        return
    token = _made.set({})
    try:
        yield
    finally:
        _made.reset(token)


def shared(key: Hashable, make: Callable[[], Made]) -> Made:
    """Make something, or return what this block has made under the same key."""
    made = _made.get()
    if made is None:
        return make()
    if key not in made:
        made[key] = make()
    found: Made = made[key]
    return found
