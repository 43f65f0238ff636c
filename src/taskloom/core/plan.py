"""The plan: the splits that follow from a recipe and a seed, before anything is written.

A suite turns a recipe into a `Plan`: named splits of known size, each of which can generate any
range of its rows independently. This is the purity contract: `Split.rows(start, stop)` must not
depend on anything but the recipe digest, the seed, the split and the index.

Suites can derive the answer of any item, and so also the answers of its variants: items that differ
from it in exactly one thing. A *simpler* variant lacks something (a distractor, a person, a step).
A *flip* is an edit that changes the answer, and a *keep* is an edit that must not change it.
`Plan.variants` lists the variants of an item. The second solver (`Plan.check`) verifies their
answers like those of any other item.

Plans that take long to build are shared while several recipes are read together (`sharing`). The
experiments for one table of a paper use the same recipe up to five times, and a plan of 265
functions over Wikidata takes seconds. Nothing is shared outside such a block, because files and the
environment may change between two calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from taskloom.core.errors import DataError, InputError, RecipeError, nearest
from taskloom.core.example import Answer, Example, Step
from taskloom.core.scoring import Exact, Scorer

if TYPE_CHECKING:
    import pyarrow as pa


__all__ = ["Answer", "Level", "Plan", "Role", "Source", "Split", "Step", "Tasks", "Withheld"]

Role = Literal["train", "test", "probe"]
"""Role of a split. `train` is used for training. `test` is disjoint from train, which is checked.
`probe` is an exhaustive set for analyses, which may repeat training items.
"""


def role_of(split: str) -> Role:
    """Return the role of a split if only its name is known: `train` and `train-…` are training
    splits, all others are tests.

    >>> role_of("train"), role_of("train-short"), role_of("training"), role_of("ood")
    ('train', 'train', 'test', 'test')
    """
    return "train" if split.partition("-")[0] == "train" else "test"


def apportion(total: int, weights: Sequence[float]) -> list[int]:
    """Divide a total into integers in proportion to weights. The largest remainders are rounded up;
    among equal remainders, the first.

    >>> apportion(10, [1, 1, 1])
    [4, 3, 3]
    """
    whole = sum(Fraction(weight) for weight in weights)
    exact = [total * Fraction(weight) / whole for weight in weights]
    shares = [int(share) for share in exact]
    order = sorted(range(len(weights)), key=lambda i: (shares[i] - exact[i], i))
    for i in order[: total - sum(shares)]:
        shares[i] += 1
    return shares


Level = Literal["instruction", "explicit"]
"""Level of detail of a description. `instruction` states what to do. `explicit` also states what
every name in it means and how to answer.
"""

Withheld = Callable[[str], bool]
"""Predicate: True if a task is withheld from training."""


@dataclass(frozen=True, slots=True)
class Source:
    """External data that the dataset depends on, identified by the digest of its bytes."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class Split:
    """A split: its size and a function that generates rows start..stop.

    `rows` yields examples or, in vectorised suites, returns an Arrow table with the columns of
    `core.shards.schema`. `tasks` names the tasks of its rows if they differ from the plan's
    (`Tasks.names`) and are known in advance. `twin_of` names the split whose items are varied
    (`core/twins.py`). `endless` is True if `rows` can continue beyond `n` with the rows that a
    larger split would have.
    """

    name: str
    n: int
    rows: Callable[[int, int], Iterable[Example] | pa.Table]
    role: Role = "test"
    describe: str = ""
    tasks: tuple[str, ...] | None = None
    twin_of: str = ""
    rounds: float = 1

    @property
    def tested(self) -> bool:
        """True if models are evaluated on it by default."""
        return self.role == "test" or bool(self.twin_of)

    @property
    def endless(self) -> bool:
        """True if rows are drawn without end."""
        return self.rounds == math.inf


def in_rounds(n: int, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield the rounds of n rows that rows start..stop are in: number, first row and end in it.

    >>> list(in_rounds(10, 8, 13))
    [(0, 8, 10), (1, 0, 3)]
    """
    while start < stop:
        number, first = divmod(start, n)
        end = min(n, first + stop - start)
        yield number, first, end
        start += end - first


@dataclass(frozen=True, slots=True)
class Tasks:
    """The task of each row, as used in descriptions and in C@T.

    Attributes:
        by: `task`, or the trait whose value names a row's task more finely (a question type, a
            chain of functions).
        tell: Returns the description of a task. If None, the plan's own description applies to
            every row. An empty description means that the input already states the task.
        names: All tasks, if they can be listed.
        facts: Known properties of each listed task, such as its size and chance scores. All tasks
            have the same properties.
        possible: Returns True for names of tasks. Used if tasks cannot be listed.
        always: Returns True for tasks that are always in training and so are never withheld.
        without: Returns the plan with some tasks removed from training. None if nothing can be
            withheld.
    """

    by: str = "task"
    tell: Callable[[str, Level], str] | None = None
    names: tuple[str, ...] | None = None
    facts: Callable[[str], Mapping[str, str | int | float]] | None = None
    possible: Callable[[str], bool] = lambda task: True
    always: Callable[[str], bool] = lambda task: False
    without: Callable[[Withheld], Plan] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The splits that will be generated, and how their answers are checked.

    Attributes:
        splits: Splits in the order in which they are written.
        traits: Name and type of every trait (`str`, `int`, `float` or `bool`); examples may lack
            some of them.
        describe: Instruction for a person or a model.
        scorer: Scorer of predictions.
        answer: For tasks that are functions: returns the answer to a single input
            (`taskloom apply`).
        check: The independent second solver: acceptable outputs recomputed from the input text
            alone (`taskloom verify`).
        sources: External data, by digest.
        shard_rows: Default number of rows per file. Slow suites choose a smaller number, so that
            work is divided and resumed in smaller pieces.
        left_out: Tasks of the recipe that were left out for having too few examples, with their
            number of examples.
        warnings: Warnings to show to users of the data.
        facts: Measured properties of the generated world, for the manifest.
        show: Formats an example for `taskloom show` (as text or anything that rich prints). None
            for the default format.
        tasks: Task of each row, with its description.
        variants: Lists the variants of an item, simpler ones first. None if the suite has none.
    """

    splits: tuple[Split, ...]
    traits: Mapping[str, type] = field(default_factory=dict)
    describe: str = ""
    scorer: Scorer = field(default_factory=Exact)
    answer: Callable[[str], Answer] | None = None
    check: Callable[[Example], tuple[str, ...]] | None = None
    sources: tuple[Source, ...] = ()
    shard_rows: int = 4_000
    left_out: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    facts: Mapping[str, float] = field(default_factory=dict)
    show: Callable[[Example], Any] | None = None
    tasks: Tasks = field(default_factory=Tasks)
    variants: Callable[[Example], Iterable[Variant]] | None = None

    def split(self, name: str) -> Split:
        """Return the split with that name."""
        for split in self.splits:
            if split.name == name:
                return split
        raise RecipeError(
            f"there is no split '{name}'; {nearest(name, [s.name for s in self.splits])}"
        )


VariantKind = Literal["simpler", "flip", "keep"]

KINDS: tuple[VariantKind, ...] = get_args(VariantKind)


@dataclass(frozen=True, slots=True)
class Variant:
    """An item that differs from another one in exactly one thing.

    Attributes:
        kind: `simpler`, `flip` (the answer changes) or `keep` (the answer stays the same).
        edit: Name of the edit, such as `another room`. It is the same for all items, so that
            failures can be grouped by it.
        example: The edited item, with its derived answer.
        before: Text of the original that the edit replaced; empty for an insertion.
        after: Text that replaced it; empty for a removal.
    """

    kind: VariantKind
    edit: str
    example: Example
    before: str = ""
    after: str = ""


Propose = Callable[[Example], Iterable[Variant]]
"""Function that lists candidate variants with derived answers. `proved` filters them by what each
kind allows.
"""


def proved(propose: Propose, check: Callable[[Example], tuple[str, ...]] | None) -> Propose:
    """Build `Plan.variants` from a suite's candidates.

    A candidate is dropped if its text repeats another candidate of its kind, if it is a flip that
    shares an answer with the original, if it is a keep that changes the answers, or if the second
    solver cannot read it.

    Args:
        propose: Lists the candidate variants of an item, in order.
        check: The second solver, or None if a task has none.
    """

    def variants(example: Example) -> Iterator[Variant]:
        met = {(kind, example.input) for kind in KINDS}
        original = set(example.targets)
        for variant in propose(example):
            varied = variant.example
            answers = set(varied.targets)
            if (variant.kind, varied.input) in met:
                continue
            if variant.kind == "flip" and answers & original:
                continue
            if variant.kind == "keep" and answers != original:
                continue
            met.add((variant.kind, varied.input))
            if check is None or _confirmed(variant, check):
                yield variant

    return variants


def _confirmed(variant: Variant, check: Callable[[Example], tuple[str, ...]]) -> bool:
    """True if the second solver gives the same answers, False if it cannot read the text.

    Raises:
        DataError: If the two solvers disagree, which is a bug in the suite.
    """
    varied = variant.example
    try:
        answers = check(varied)
    except InputError:
        return False
    if set(answers) != set(varied.targets):
        raise DataError(
            f"the solvers disagree about the variant {varied.input!r} ({variant.edit}): "
            f"{', '.join(varied.targets)} or {', '.join(answers)}; this is a bug in the suite"
        )
    return True


Made = TypeVar("Made")

_made: ContextVar[dict[Hashable, Any] | None] = ContextVar("made", default=None)


@contextmanager
def sharing() -> Iterator[None]:
    """Share results of `shared` until the block ends. A nested block belongs to the outer one."""
    if _made.get() is not None:
        yield
        return
    token = _made.set({})
    try:
        yield
    finally:
        _made.reset(token)


def shared(key: Hashable, make: Callable[[], Made]) -> Made:
    """Return the result of `make`, cached by key within a block of `sharing`."""
    made = _made.get()
    if made is None:
        return make()
    if key not in made:
        made[key] = make()
    found: Made = made[key]
    return found
