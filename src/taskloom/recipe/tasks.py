"""Tasks defined by a single Python function: the decorator, the knobs and the plan.

The function receives a keyed `rng` and its knobs, and returns one example. A keyed hash of the
example's content decides its split (`splits.py`), so no content is ever in two splits. If there are
few possible contents, examples may repeat within a split; `taskloom audit` counts such repeats.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args, get_type_hints

from taskloom.core.errors import InputError, TaskloomError, nearest, raised_at
from taskloom.core.example import Answer, Example, Step
from taskloom.core.plan import KINDS, Plan, Propose, Split, Variant, proved, role_of
from taskloom.core.registry import TASKS, source_of
from taskloom.core.scoring import Exact, Scorer
from taskloom.core.seeding import Key, Random
from taskloom.recipe.splits import HELD_OUT, HeldOut, TaskRows, is_held_out_split, owners

if TYPE_CHECKING:
    from pydantic import BaseModel

    from taskloom.recipe import Span

WEAVING = b"2"
"""Version of this module's generation, which is part of every task's version. Increase it whenever
the same task file would give different data.
"""

KnobKind = Literal["world", "draw", "presentation"]

K = TypeVar("K", int, float, str, bool)

TAKEN = frozenset(
    [
        "suite",
        "task",
        "extends",
        "describe",
        "described",
        "seed",
        "splits",
        "name",
        "version",
        "code",
        "curriculum",
        "twins",
    ]
)
"""Names with another meaning in a recipe or manifest. A knob with such a name could not be set, or
would hide this meaning.
"""

DEFAULT_SPLITS: dict[str, int] = {"train": 10_000, "dev": 1_000, "test": 1_000}

HELD_OUT_SPLITS: dict[str, int] = {"train": 10_000, "iid": 1_000, "ood": 1_000}
"""Default splits of a task with a held-out rule."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A parameter of a task with its default, range and kind."""

    default: Any
    low: float | None = None
    high: float | None = None
    kind: KnobKind = "world"


def knob(
    default: K, low: float | None = None, high: float | None = None, kind: KnobKind = "world"
) -> K:
    """Declare a parameter that recipes may set: a value within low..high, or a range such as `2..6`
    if it is an integer.

    Args:
        default: Default value.
        low: Minimum.
        high: Maximum.
        kind: `world`: changing the value draws everything again. `draw`: a content stays in its
            split for all values, so training data for one value never share content with test data
            for another. `presentation`: changing the value only changes how the items are written.
    """
    if kind not in get_args(KnobKind):
        raise TaskloomError(
            f"knob: there is no kind {kind!r}; {nearest(str(kind), get_args(KnobKind))}"
        )
    return cast(K, Knob(default, low, high, kind))


@dataclass(frozen=True, slots=True)
class Task:
    """A named generator of examples with a scorer and a description.

    Attributes:
        name: A path such as `words/reverse`.
        make: Generates an example.
        describe: Instruction for a person or a model.
        scorer: Scorer of predictions.
        solve: Independent solver that maps an input to acceptable outputs, used by `verify` and
            `apply`.
        knobs: Parameters of the function after `rng`.
        held_out: Rule for held-out examples, or None if there are none.
        variants: Lists items that differ from a given one in exactly one thing. None if not
            available.
    """

    name: str
    make: Callable[..., Example]
    describe: str
    scorer: Scorer
    solve: Callable[[str], str | tuple[str, ...]] | None
    knobs: dict[str, tuple[type, Knob]]
    held_out: HeldOut | None = None
    variants: Propose | None = None

    def __call__(self, rng: Random, **values: Any) -> Example:
        """Generate an example. Knobs that are not given have their defaults."""
        unknown = set(values) - set(self.knobs)
        if unknown:
            raise TaskloomError(
                f"{self.name} has no knob '{sorted(unknown)[0]}'; it has:"
                f" {', '.join(self.knobs) or 'none'}"
            )
        chosen = {name: values.get(name, k.default) for name, (_, k) in self.knobs.items()}
        try:
            example = self.make(rng, **chosen)
        except TaskloomError:
            raise
        except (Exception, SystemExit) as error:
            raise TaskloomError(
                f"{self.name} raised {type(error).__name__}: {error}{raised_at(error)}"
            ) from error
        _check(self.name, example)
        if self.held_out and HELD_OUT in example.traits:
            raise TaskloomError(f"{self.name}: held_out adds the trait '{HELD_OUT}'; rename yours")
        return replace(example, task=self.name)

    def version(self) -> int:
        """Return a number that changes with the code of the task's module, and so changes the
        digest of its recipes.
        """
        return int.from_bytes(
            blake2b(WEAVING + source_of(self.make), digest_size=6).digest(), "little"
        )

    def fields(self) -> type[BaseModel]:
        """Return the pydantic model of this task's recipe fields: its knobs and the sizes of its
        splits.
        """
        from typing import Annotated

        from pydantic import AfterValidator, create_model

        from taskloom.recipe.fields import Fields, InputParts, Size, Span, declare

        definitions: dict[str, Any] = {}
        for name, (kind, knob) in self.knobs.items():
            text = _describe_knob(self.make, name, knob)
            if kind is int:
                within = AfterValidator(partial(_within, knob.low, knob.high))
                definitions[name] = (
                    Annotated[Span, within],
                    declare(knob.kind, Span.read(knob.default), description=text),
                )
            else:
                definitions[name] = (
                    kind,
                    declare(knob.kind, knob.default, ge=knob.low, le=knob.high, description=text),
                )
        sizes = HELD_OUT_SPLITS if self.held_out else DEFAULT_SPLITS
        splits = {name: Size(n=n) for name, n in sizes.items()}
        definitions["splits"] = (
            dict[str, Size],
            declare("draw", splits, description="The size of each split."),
        )
        # A knob of the author called `parts` takes precedence.
        base = Fields if "parts" in self.knobs else InputParts
        model: type[BaseModel] = create_model(
            f"Fields of {self.name}", __base__=base, **definitions
        )
        return model

    def weave(self, fields: Any, key: Key) -> Plan:
        """Plan this task for checked recipe fields."""
        sizes: dict[str, int] = {name: size.n for name, size in fields.splits.items()}
        rows = self._rows(fields, key, tuple(sizes))
        rows.check_held_out()
        describe = {True: "held-out examples only", False: "no held-out example"}
        check = (lambda example: self._answer(example.input).targets) if self.solve else None
        return Plan(
            splits=tuple(
                Split(
                    name,
                    n,
                    partial(rows.rows, name),
                    role_of(name),
                    describe[is_held_out_split(name)] if self.held_out else "",
                    rounds=math.inf,
                )
                for name, n in sizes.items()
            ),
            traits={name: type(value) for name, value in rows.example().traits.items()},
            describe=self.describe,
            scorer=self.scorer,
            answer=self._answer if self.solve else None,
            check=check,
            variants=proved(self._variants, check) if self.variants else None,
        )

    def _variants(self, example: Example) -> Iterator[Variant]:
        """Yield the variants returned by the author's function, as examples of this task."""
        assert self.variants is not None
        try:
            given = list(self.variants(example))
        except TaskloomError:
            raise
        except (Exception, SystemExit) as error:
            raise TaskloomError(
                f"{self.name}: variants raised {type(error).__name__}: {error}{raised_at(error)}"
                f" (for the input {example.input[:60]!r})"
            ) from error
        for variant in given:
            if not isinstance(variant, Variant) or variant.kind not in KINDS:
                raise TaskloomError(
                    f"{self.name}: variants returned {variant!r:.60}; it must return"
                    ' tl.Variant("simpler", "flip" or "keep", edit, example)'
                )
        for variant in sorted(given, key=lambda variant: KINDS.index(variant.kind)):
            _check(self.name, variant.example)
            varied = replace(variant.example, task=self.name)
            if HELD_OUT in example.traits:
                # Whether a variant is held out depends on the knobs that would have produced it.
                traits = {**varied.traits, HELD_OUT: example.traits[HELD_OUT]}
                varied = replace(varied, traits=traits)
            yield replace(variant, example=varied)

    def _rows(self, fields: Any, key: Key, splits: tuple[str, ...]) -> TaskRows:
        values = {name: getattr(fields, name) for name in self.knobs}
        defaults = type(fields)()
        written = {
            name: value
            for name, value in values.items()
            if self.knobs[name][1].kind == "presentation" and value != getattr(defaults, name)
        }
        drawn = {
            name: getattr(defaults, name) if name in written else value
            for name, value in values.items()
        }
        return TaskRows(
            self.name, self, drawn, written, key, owners(splits, key.child("split")), self.held_out
        )

    def _answer(self, text: str) -> Answer:
        assert self.solve is not None
        try:
            solution = self.solve(text)
        except TaskloomError:
            raise
        except (Exception, SystemExit) as error:
            raise InputError(
                f"{self.name} cannot answer {text!r}: {type(error).__name__}: {error}"
            ) from error
        answers = (solution,) if isinstance(solution, str) else solution
        if (
            not isinstance(answers, tuple | list)
            or not answers
            or not all(isinstance(a, str) for a in answers)
        ):
            raise TaskloomError(
                f"the solver of {self.name} returned {solution!r} for {text!r}; it must return a "
                "text or a tuple of texts"
            )
        return Answer(tuple(answers))


def _check(name: str, example: object) -> None:
    """Check the value returned by a task. Errors are worded for the task's author."""
    if not isinstance(example, Example):
        raise TaskloomError(
            f"{name} returned {type(example).__name__}, not an Example: return tl.Example(input,"
            " target)"
        )
    if not isinstance(example.input, str) or not all(isinstance(t, str) for t in example.targets):
        raise TaskloomError(
            f"{name} returned an example whose input or targets are not text: {example.input!r},"
            f" {example.targets!r}"
        )
    if not example.targets:
        raise TaskloomError(
            f"{name} returned an example without a target (input: {example.input[:60]!r})"
        )
    for trait, value in example.traits.items():
        if (
            not isinstance(trait, str)
            or not isinstance(value, str | int | float)
            or (isinstance(value, int) and abs(value) >> 63)
        ):
            raise TaskloomError(
                f"{name}: the trait {trait!r} is {value!r}; a trait must be a name with a text, a "
                "number or a boolean"
            )
    for at, step in enumerate(example.derivation):
        if not isinstance(step, Step) or any(not 0 <= used < at for used in step.of or ()):
            raise TaskloomError(
                f"{name}: step {at} of the derivation must be a tl.Step that uses only earlier"
                f" steps, not {step!r}"
            )


def _describe_knob(make: Callable[..., Example], name: str, knob: Knob) -> str:
    """Return the description of a knob: its line in the `Args` section of the task's docstring, if
    there is one, and its bounds.
    """
    _, _, section = (inspect.getdoc(make) or "").partition("Args:\n")
    line = re.search(rf"^    {name}: (.+(?:\n        .+)*)", section, re.MULTILINE)
    meaning = " ".join(line[1].split()).removesuffix(".") if line else "A knob of the task"
    if knob.low is not None and knob.high is not None:
        return f"{meaning}; from {knob.low} to {knob.high}."
    bounds = (("at least", knob.low), ("at most", knob.high))
    return (
        "; ".join([meaning, *(f"{words} {bound}" for words, bound in bounds if bound is not None)])
        + "."
    )


def _within(low: float | None, high: float | None, span: Span) -> Span:
    """Check that the ends of a range are within the knob's own range."""
    too_low = low is not None and span.low < low
    too_high = high is not None and span.high > high
    if too_low or too_high:
        least, most = ("" if end is None else end for end in (low, high))
        raise ValueError(f"{span} is outside {least}..{most}")
    return span


def task(
    name: str,
    *,
    describe: str,
    scorer: Scorer | None = None,
    solve: Callable[[str], str | tuple[str, ...]] | None = None,
    held_out: Callable[..., bool] | None = None,
    variants: Propose | None = None,
) -> Callable[[Callable[..., Example]], Task]:
    """Register a function from `rng` and knobs to one example as a task.

    Args:
        name: A path such as `words/reverse`, under which `list`, `show`, `make`, `audit` and all
            learners find the task.
        describe: Instruction for a person or a model.
        scorer: Scorer of predictions. Default: `exact`.
        solve: Independent solver from input text to answer, used by `verify` and `apply`.
        held_out: Predicate for held-out examples. It may accept any of the knobs, `traits`,
            `derivation` and `example` by name (`lambda length: length > 5`). Splits named `ood` and
            `ood-…` then contain only held-out examples, all other splits contain none, and the
            default splits are train, iid and ood.
        variants: Lists items that differ from a given example in exactly one thing, as
            `tl.Variant`.
    """

    def record(function: Callable[..., Example]) -> Task:
        if "/" not in name:
            raise TaskloomError(
                f"a task's name must be a path such as 'words/{name}', not '{name}'"
            )
        parameters = list(inspect.signature(function).parameters.values())
        if not parameters:
            raise TaskloomError(
                f"{name}: the function needs a first parameter for the random generator: def"
                f" {function.__name__}(rng, …)"
            )
        if scorer is not None and not isinstance(scorer, Scorer):
            raise TaskloomError(
                f"{name}: scorer={scorer!r} is not a scorer; use tl.exact, tl.any_of, … or an"
                " object with score and explain"
            )
        hints = get_type_hints(function)
        knobs: dict[str, tuple[type, Knob]] = {}
        for parameter in parameters[1:]:
            if parameter.default is inspect.Parameter.empty:
                raise TaskloomError(
                    f"{name}: the parameter '{parameter.name}' needs a default: {parameter.name}:"
                    " int = tl.knob(4)"
                )
            if parameter.name in TAKEN:
                raise TaskloomError(
                    f"{name}: the parameter '{parameter.name}' has the name of one of the "
                    f"recipe's own fields; rename it, e.g. my_{parameter.name}"
                )
            default = parameter.default
            declared = default if isinstance(default, Knob) else Knob(default)
            knobs[parameter.name] = (hints.get(parameter.name, type(declared.default)), declared)
        withheld = None if held_out is None else HeldOut.read(name, held_out, knobs)
        recorded = Task(
            name, function, describe, scorer or Exact(), solve, knobs, withheld, variants
        )
        TASKS.add(name, recorded, function.__module__)
        return recorded

    return record
