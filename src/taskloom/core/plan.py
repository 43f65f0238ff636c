"""The plan: the splits that follow from a recipe and a seed, before anything is written.

A suite turns a recipe into a `Plan`: named splits of known size, each of which can make any range
of its rows alone. That is the purity contract in code: `Split.rows(start, stop)` may depend on
nothing but the recipe digest, the seed, the split and the index.

Suites derive the answer of any item, so they can also derive the answer of its variants: items that
differ from it in exactly one thing. A *simpler* variant has something less (a distractor, a person,
a step). A *flip* is one edit that changes the answer, a *keep* one that must not. `Plan.variants`
lists the variants of an item; the second solver (`Plan.check`) proves their answers like those of
any other item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, get_args

from taskloom.core.errors import DataError, InputError, RecipeError, nearest
from taskloom.core.example import Answer, Example, Step
from taskloom.core.scoring import Exact, Scorer

if TYPE_CHECKING:
    import pyarrow as pa


__all__ = ["Answer", "Level", "Plan", "Role", "Source", "Split", "Step", "Tasks", "Withheld"]

Role = Literal["train", "test", "probe"]
"""train: learned from. test: disjoint from train, and checked so.
probe: an exhaustive set for analyses that may repeat training items."""


def role_of(split: str) -> Role:
    """Return the role of a split that is known by its name alone: `train` and `train-…` are learned
    from, all others test.

    >>> role_of("train"), role_of("train-short"), role_of("training"), role_of("ood")
    ('train', 'train', 'test', 'test')
    """
    return "train" if split.partition("-")[0] == "train" else "test"


def apportion(total: int, weights: Sequence[float]) -> list[int]:
    """Divide a total into whole numbers in proportion to weights; the largest remainders are
    rounded up, the first of equals.

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
"""How much a description tells. instruction: what to do. explicit: also what every name in it means
and how to answer.
"""

Withheld = Callable[[str], bool]
"""Whether a task is withheld from training."""


@dataclass(frozen=True, slots=True)
class Source:
    """An outside resource that the data depends on, by digest of its bytes."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class Split:
    """One split: its size and how to make rows start..stop of it.

    `rows` yields examples, or returns an Arrow table with the columns of `dataset.shards.schema`
    where a suite is vectorised. `tasks` names the tasks of its rows where they are others than
    those of the plan (`Tasks.names`) and known before any row. `twin_of` names the split whose
    items its rows vary (`core/twins.py`). `endless` is True if `rows` goes on beyond `n` with
    further rows of the same draw: the rows that a larger split would have.
    """

    name: str
    n: int
    rows: Callable[[int, int], Iterable[Example] | pa.Table]
    role: Role = "test"
    describe: str = ""
    tasks: tuple[str, ...] | None = None
    twin_of: str = ""
    endless: bool = False

    @property
    def tested(self) -> bool:
        """True if models are evaluated on it by default."""
        return self.role == "test" or bool(self.twin_of)


@dataclass(frozen=True, slots=True)
class Tasks:
    """Which task each row belongs to: what descriptions tell and what C@T counts.

    Attributes:
        by: `task`, or the trait whose value names a row's task more finely (a question type, a
            chain of functions).
        tell: The description of a task; None: the plan's own description says it for every row.
            Empty: the input tells it already.
        names: All tasks, where they can be listed.
        facts: What is known of a task of that list, such as its size and the scores of guessing;
            the same facts of every task.
        possible: Whether a name is a task, where they cannot be listed.
        always: Whether training has a task in any case, so that it is never withheld.
        without: The same plan with some tasks taken out of training; None where there is nothing to
            withhold.
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
    """What will be made, and how its answers are known.

    Attributes:
        splits: In the order in which they are written.
        traits: Name and type of every trait (`str`, `int`, `float` or `bool`); an example may lack
            some.
        describe: The instruction for a person or a model.
        scorer: How a prediction is judged.
        answer: For tasks that are functions: the answer to one input (`taskloom apply`).
        check: The independent second solver: acceptable outputs recomputed from the input text
            alone (`taskloom verify`).
        sources: Outside resources by digest.
        shard_rows: Rows per file unless asked otherwise; slow suites choose fewer, so that work
            divides and resumes finely.
        left_out: Tasks that the recipe names but that have too few examples, with how many they
            have.
        warnings: What a person should know before using the data.
        facts: Measured properties of the world that the fields do not state, for the manifest.
        show: An example as a person reads it, for `taskloom show` (text or anything that rich
            prints); None for the plain way.
        tasks: Which task each row belongs to, with its description.
        variants: Items that differ from a given one in one thing, simpler ones first; None if the
            suite has none.
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
        """Return the split of that name."""
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
    """An item that differs from another one in one thing.

    Attributes:
        kind: `simpler`, `flip` (the answer changes) or `keep` (it stays).
        edit: Name of the edit, such as `another room`. It is the same for all items, so that
            failures can be grouped by it.
        example: The varied item, with its derived answer.
        before: Text of the original that the edit replaced; empty for an insertion.
        after: Text that replaced it; empty for a removal.
    """

    kind: VariantKind
    edit: str
    example: Example
    before: str = ""
    after: str = ""


Propose = Callable[[Example], Iterable[Variant]]
"""Lists candidates: variants with derived answers, of which `proved` keeps what the kind allows."""


def proved(propose: Propose, check: Callable[[Example], tuple[str, ...]] | None) -> Propose:
    """Build `Plan.variants` from a suite's candidates.

    A candidate is dropped if its text repeats another one of its kind, if it is a flip that shares an answer
    with the original or a keep that changes the answers, or if the second solver cannot read it.

    Args:
        propose: The candidates of an item, in order.
        check: The second solver; None if a task has none.
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
    """True if the second solver gives the same answers; False if it refuses the text.

    Raises:
        DataError: The two solvers disagree, which is a bug in the suite.
    """
    varied = variant.example
    try:
        answers = check(varied)
    except InputError:
        return False
    if set(answers) != set(varied.targets):
        raise DataError(
            f"the solvers disagree about the variant {varied.input!r} ({variant.edit}):"
            f" {', '.join(varied.targets)} or {', '.join(answers)}: a bug in the suite"
        )
    return True
