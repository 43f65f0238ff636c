"""Tasks that are one Python function: the decorator, its knobs, and the plan it comes down to.

The function receives a keyed `rng` and its knobs and returns one example. Which split an example belongs to is
decided by the keyed hash of its content, so no content is ever in two splits; within a split a small space may repeat
itself, and `taskloom audit` counts that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_type_hints

from taskloom.errors import InputError, RecipeError, TaskloomError, raised_at
from taskloom.example import Answer, Example, Step
from taskloom.plan import Plan, Split, role_of
from taskloom.registry import TASKS, source_of
from taskloom.scoring import Exact, Scorer
from taskloom.seeding import Key, Random

if TYPE_CHECKING:
    from pydantic import BaseModel

    from taskloom.recipe import Span

K = TypeVar("K", int, float, str, bool)

TRIES = 10_000
"""Draws for one example before the split counts as exhausted."""

TAKEN = frozenset(["suite", "task", "extends", "describe", "described", "seed", "splits", "name", "version", "code"])
"""Names that mean something else in a recipe or a manifest: a knob of that name could never be set, or would hide it."""

DEFAULT_SPLITS: dict[str, int] = {"train": 10_000, "dev": 1_000, "test": 1_000}


@dataclass(frozen=True, slots=True)
class Knob:
    """A parameter of a task with its default and its range."""

    default: Any
    low: float | None = None
    high: float | None = None


def knob(default: K, low: float | None = None, high: float | None = None) -> K:
    """Declare a parameter that recipes may set: a value within low..high, or for whole numbers a range such as `2..6`."""
    return cast(K, Knob(default, low, high))


@dataclass(frozen=True, slots=True)
class Task:
    """A named generator of examples with a scorer and a description.

    Attributes:
        name: A path such as `words/reverse`.
        make: The function that makes one example.
        describe: The instruction for a person or a model.
        scorer: How a prediction is judged.
        solve: An independent solver from the input text to the acceptable outputs, used by `verify` and `apply`.
        knobs: The function's parameters after `rng`.
    """

    name: str
    make: Callable[..., Example]
    describe: str
    scorer: Scorer
    solve: Callable[[str], str | tuple[str, ...]] | None
    knobs: dict[str, tuple[type, Knob]]

    def __call__(self, rng: Random, **values: Any) -> Example:
        """Make one example; knobs that are not given have their defaults."""
        unknown = set(values) - set(self.knobs)
        if unknown:
            raise TaskloomError(
                f"{self.name} has no knob '{sorted(unknown)[0]}'; it has: {', '.join(self.knobs) or 'none'}"
            )
        chosen = {name: values.get(name, k.default) for name, (_, k) in self.knobs.items()}
        try:
            example = self.make(rng, **chosen)
        except TaskloomError:
            raise
        except (Exception, SystemExit) as error:
            raise TaskloomError(f"{self.name} raised {type(error).__name__}: {error}{raised_at(error)}") from error
        _check(self.name, example)
        return replace_task(example, self.name)

    def version(self) -> int:
        """Return a number that changes with the code of the task's module, and with it the digest of its recipes."""
        return int.from_bytes(blake2b(source_of(self.make), digest_size=6).digest(), "little")

    def fields(self) -> type[BaseModel]:
        """Build the pydantic model of this task's recipe fields: its knobs and the sizes of its splits."""
        from typing import Annotated

        from pydantic import AfterValidator, Field, create_model

        from taskloom.recipe import Fields, Size, Span

        definitions: dict[str, Any] = {}
        for name, (kind, knob) in self.knobs.items():
            if kind is int:
                within = AfterValidator(partial(_within, knob.low, knob.high))
                definitions[name] = (Annotated[Span, within], Span.read(knob.default))
            else:
                definitions[name] = (kind, Field(default=knob.default, ge=knob.low, le=knob.high))
        splits = {name: Size(n=n) for name, n in DEFAULT_SPLITS.items()}
        definitions["splits"] = (dict[str, Size], Field(default=splits))
        model: type[BaseModel] = create_model(f"Fields of {self.name}", __base__=Fields, **definitions)
        return model

    def weave(self, fields: Any, key: Key) -> Plan:
        """Plan this task under checked recipe fields."""
        values = {name: getattr(fields, name) for name in self.knobs}
        sizes: dict[str, int] = {name: size.n for name, size in fields.splits.items()}
        shares = key.child("split").share(sizes)

        def rows(split: str) -> Callable[[int, int], Iterator[Example]]:
            belongs = shares[split]

            def make(start: int, stop: int) -> Iterator[Example]:
                for index in range(start, stop):
                    rng = key.random(split, index)
                    for _ in range(TRIES):
                        example = self(rng, **{k: draw(v, rng) for k, v in values.items()})
                        if belongs(example.content):
                            break
                    else:
                        raise RecipeError(
                            f"{self.name}: {TRIES} draws gave nothing for the split '{split}' that is not in another one; "
                            "the task has too few different examples for these splits: widen a knob or ask for fewer splits"
                        )
                    yield example

            return make

        first = next(iter(sizes), None)
        probe = next(iter(rows(first)(0, 1))) if first and sizes[first] else Example("", "")
        return Plan(
            splits=tuple(Split(name, n, rows(name), role_of(name)) for name, n in sizes.items()),
            traits={name: type(value) for name, value in probe.traits.items()},
            describe=self.describe,
            scorer=self.scorer,
            answer=self._answer if self.solve else None,
            check=(lambda example: self._answer(example.input).targets) if self.solve else None,
        )

    def _answer(self, text: str) -> Answer:
        assert self.solve is not None
        try:
            solution = self.solve(text)
        except TaskloomError:
            raise
        except (Exception, SystemExit) as error:
            raise InputError(f"{self.name} cannot answer {text!r}: {type(error).__name__}: {error}") from error
        answers = (solution,) if isinstance(solution, str) else solution
        if not isinstance(answers, tuple | list) or not answers or not all(isinstance(a, str) for a in answers):
            raise TaskloomError(
                f"the solver of {self.name} gave {solution!r} for {text!r}; it must give a text or a tuple of texts"
            )
        return Answer(tuple(answers))


def _check(name: str, example: object) -> None:
    """Raise what is wrong with what a task returned, in the words of its author."""
    if not isinstance(example, Example):
        raise TaskloomError(
            f"{name} returned {type(example).__name__}, not an Example: return tl.Example(input, target)"
        )
    if not isinstance(example.input, str) or not all(isinstance(t, str) for t in example.targets):
        raise TaskloomError(
            f"{name} returned an example whose input or targets are not text: {example.input!r}, {example.targets!r}"
        )
    if not example.targets:
        raise TaskloomError(f"{name} returned an example without a target (input: {example.input[:60]!r})")
    for trait, value in example.traits.items():
        if (
            not isinstance(trait, str)
            or not isinstance(value, str | int | float)
            or (isinstance(value, int) and abs(value) >> 63)
        ):
            raise TaskloomError(
                f"{name}: the trait {trait!r} is {value!r}; a trait is a name with a text, a number or a truth value"
            )
    for at, step in enumerate(example.derivation):
        if not isinstance(step, Step) or any(not 0 <= used < at for used in step.of or ()):
            raise TaskloomError(
                f"{name}: step {at} of the derivation must be a tl.Step that uses only earlier steps, not {step!r}"
            )


def _within(low: float | None, high: float | None, span: Span) -> Span:
    """Check that the ends of a range lie within a knob's own range."""
    if (low is not None and span.low < low) or (high is not None and span.high > high):
        raise ValueError(f"{span} lies outside {'' if low is None else low}..{'' if high is None else high}")
    return span


def draw(value: Any, rng: Random) -> Any:
    """Draw a knob's value for one example: itself, or a number from its range."""
    return rng.randint(value.low, value.high) if hasattr(value, "low") and hasattr(value, "high") else value


def replace_task(example: Example, task: str) -> Example:
    """Return the example with its task filled in."""
    return Example(
        example.input,
        example.targets,
        example.traits,
        key=example.key,
        question=example.question,
        derivation=example.derivation,
        task=task,
    )


def task(
    name: str,
    *,
    describe: str,
    scorer: Scorer | None = None,
    solve: Callable[[str], str | tuple[str, ...]] | None = None,
) -> Callable[[Callable[..., Example]], Task]:
    """Register a function from `rng` and knobs to one example as a task.

    Args:
        name: A path, e.g. `words/reverse`; `list`, `show`, `make`, `audit` and every learner then know it.
        describe: The instruction for a person or a model.
        scorer: How predictions are judged; `exact` by default.
        solve: An independent solver from input text to answer; `verify` and `apply` use it.
    """

    def record(function: Callable[..., Example]) -> Task:
        if "/" not in name:
            raise TaskloomError(f"a task's name is a path such as 'words/{name}', not '{name}'")
        parameters = list(inspect.signature(function).parameters.values())
        if not parameters:
            raise TaskloomError(
                f"{name}: the function needs a first parameter for the random generator: def {function.__name__}(rng, …)"
            )
        if scorer is not None and not isinstance(scorer, Scorer):
            raise TaskloomError(
                f"{name}: scorer={scorer!r} is not a scorer; use tl.exact, tl.any_of, … or an object with score and explain"
            )
        hints = get_type_hints(function)
        knobs: dict[str, tuple[type, Knob]] = {}
        for parameter in parameters[1:]:
            if parameter.default is inspect.Parameter.empty:
                raise TaskloomError(
                    f"{name}: the parameter '{parameter.name}' needs a default: {parameter.name}: int = tl.knob(4)"
                )
            if parameter.name in TAKEN:
                raise TaskloomError(
                    f"{name}: the parameter '{parameter.name}' has the name of a recipe's own field; rename it, "
                    f"e.g. my_{parameter.name}"
                )
            default = parameter.default
            declared = default if isinstance(default, Knob) else Knob(default)
            knobs[parameter.name] = (hints.get(parameter.name, type(declared.default)), declared)
        recorded = Task(name, function, describe, scorer or Exact(), solve, knobs)
        TASKS.add(name, recorded, function.__module__)
        return recorded

    return record
