"""Splits: which story belongs to which, the groups of each, and what training must not contain.

Membership is decided by keyed hashes of what a story tells, so that any row can be made without the
others. The structure of how a story begins (its first sentences, with names and places numbered)
belongs to training or to test by a hash which is the same for every recipe: no test story of one
recipe has the structure of a training story of another. On the test side dev has a half to itself,
unless the other test is `mix`, which has the whole side. Stories with several questions begin too
short for that (two sentences of going somewhere have three structures), so they are divided by what
happens in their opening, and by structure once they are long enough.

The paper's compositional rule (section 3.4): each training sub-task sees some of the test's
concepts but not all, and together they see all of them. Both the rule and held-out combinations are
checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from taskloom.core.errors import RecipeError
from taskloom.core.example import Example
from taskloom.core.plan import apportion, role_of
from taskloom.core.seeding import Key
from taskloom.recipe import Size, read
from taskloom.suites.babi.fields import PARTS, BabiFields, StoryGroup
from taskloom.suites.babi.generator.examples import Structure
from taskloom.suites.babi.story.events import Event

Belongs = Callable[[str], bool]
"""Whether a text that stands for a story belongs to a split."""

SIDES = Key("babi", "signatures")
"""The key of the division into training and test structures; a constant, so that it holds across
recipes and seeds.
"""

DEV = ("dev", "valid", "validation")
"""The splits that own the third quarter of the hashes."""

BEGINNING = 10
"""How many sentences decide by their structure; the paper's test stories are no shorter."""


@dataclass(frozen=True, slots=True)
class SplitRule:
    """What makes a story one of a split.

    Attributes:
        opening: Whether what happens in a growing story's first sentences belongs there.
        structure: Whether the structure of a beginning does.
    """

    opening: Belongs
    structure: Belongs

    def has(self, events: Sequence[Event], structure: Structure | None = None) -> bool:
        """Return whether a story with these events belongs to the split by its structure, which
        reads how they begin.
        """
        return self.structure((structure or Structure()).read(events[:BEGINNING]))


def structures(names: Iterable[str], key: Key = SIDES) -> dict[str, Belongs]:
    """Build the test of each split: training has the lower half of the hashes, dev the third
    quarter, other tests the fourth.

    Neither sizes nor other splits matter, so that none moves another: a small test beside a large
    training set has as much to draw from as a large one. Two tests draw from the same quarter, each
    by its own stream.
    """
    return {name: _between(key, *_slot(name)) for name in names}


def _slot(name: str) -> tuple[float, float]:
    if role_of(name) == "train":
        return 0.0, 0.5
    if name == "mix":
        return (
            0.5,
            1.0,
            # the paper's tests have no dev split: the whole half, or each story would take twice
            # the draws
        )
    return (0.5, 0.75) if name in DEV else (0.75, 1.0)


def _between(key: Key, low: float, high: float) -> Belongs:
    return lambda content: low <= key.unit(content) < high


def split_rules(names: Iterable[str], key: Key) -> dict[str, SplitRule]:
    """Build the rule of each split."""
    names = list(names)
    opening, structure = structures(names, key.child("openings")), structures(names)
    return {name: SplitRule(opening[name], structure[name]) for name in names}


# Groups


def share_out(total: int, weights: Sequence[int]) -> list[int]:
    """Divide a total into whole numbers in proportion to weights; the largest remainders are
    rounded up.

    >>> share_out(10, [1, 1, 1])
    [4, 3, 3]
    """
    if not any(weights):
        raise RecipeError("groups: at least one group needs n above 0")
    return apportion(total, weights)


def groups_of(fields: BabiFields, split: str) -> list[StoryGroup]:
    """Return the groups of a split, with their numbers of examples."""
    value = fields.splits[split]
    if not isinstance(value, Size):
        return [
            g.model_copy(update={"name": g.name or f"{split}-{i}"}) for i, g in enumerate(value)
        ]
    shares = share_out(value.n, [g.n for g in fields.groups])
    return [
        g.model_copy(update={"n": n, "name": g.name or (str(i) if len(fields.groups) > 1 else "")})
        for i, (g, n) in enumerate(zip(fields.groups, shares, strict=True))
    ]


def training_groups(fields: BabiFields) -> list[StoryGroup]:
    """Return every group of the training splits; with concat, that of each task with what is
    injected.
    """
    if fields.concat:
        groups = []
        for task in PARTS[fields.concat]:
            own = _story_fields(f"babi/{task}")
            questions: dict[str, float] = dict(own.groups[0].questions)
            questions.update((kind, 1.0) for kind in fields.inject.get(task, ()))
            groups.append(
                own.groups[0].model_copy(update={"name": f"qa{task}", "questions": questions})
            )
        return groups
    training = [name for name in fields.splits if role_of(name) == "train"]
    return [group for name in training for group in _in_use(fields, name)]


def _in_use(fields: BabiFields, split: str) -> list[StoryGroup]:
    """Return the groups of a split that it has, at some size."""
    own = fields.groups if isinstance(fields.splits[split], Size) else groups_of(fields, split)
    return [group for group, given in zip(groups_of(fields, split), own, strict=True) if given.n]


# Held-out combinations


def check_recipe(fields: BabiFields) -> None:
    """Refuse a recipe whose training groups break its own holdout, or the paper's rule towards its
    test recipe.

    Raises:
        RecipeError: It names the group and the concepts.
    """
    groups = training_groups(fields)
    for group in groups:
        for together in fields.holdout:
            if set(together) <= group.concepts():
                raise RecipeError(
                    f"holdout: training group '{group.name}' has {' and '.join(together)} together;"
                    " take one of them out of the group, or the combination out of holdout"
                )
    if fields.tested_by:
        check_compositional(
            [(g.name, g.concepts()) for g in groups],
            _test_concepts(fields.tested_by),
            fields.tested_by,
        )


def _test_concepts(recipe: str) -> frozenset[str]:
    fields = _story_fields(recipe)
    return frozenset(
        c for name in fields.splits for g in groups_of(fields, name) for c in g.concepts()
    )


def _story_fields(recipe: str) -> BabiFields:
    fields = read(recipe).fields
    assert isinstance(fields, BabiFields)
    return fields


def check_compositional(
    train: Sequence[tuple[str, frozenset[str]]], test: frozenset[str], name: str
) -> None:
    """Check the paper's rule; concepts of training that the test does not have are of no concern.

    Raises:
        RecipeError: A training group has every test concept, or some test concept is in none.
    """
    for group, concepts in train:
        if test <= concepts:
            raise RecipeError(
                f"tested_by {name}: training group '{group}' has all of its concepts"
                f" ({_listed(test)}), so nothing is held out"
            )
    missing = test - frozenset(c for _, concepts in train for c in concepts)
    if missing:
        raise RecipeError(
            f"tested_by {name}: no training group has {_listed(missing)}; add a group that does"
        )


def _listed(concepts: Iterable[str]) -> str:
    return ", ".join(sorted(concepts))


def check_example(holdout: Sequence[Sequence[str]], example: Example, split: str) -> None:
    """Refuse a training example in which held-out concepts meet; the recipe check makes this
    impossible, and this proves it.

    Raises:
        RecipeError: It names the concepts.
    """
    if not holdout:
        return
    concepts = {*str(example.traits["concepts"]).split("+"), str(example.traits["question"])}
    for together in holdout:
        if concepts.issuperset(together):
            raise RecipeError(
                f"split '{split}': an example has {' and '.join(together)} together, which is"
                " held out"
            )


# The trial before the first row


class Trial:
    """A trial of all that a recipe asks for, in every split, before the first row of any: what
    cannot be met is refused then.
    """

    def __init__(self, trials: Iterable[Callable[[], object]]) -> None:
        self._trials = list(trials)

    def rows(
        self, rows: Callable[[int, int], Iterable[Example]], start: int, stop: int
    ) -> Iterator[Example]:
        """Yield the rows of a split after the trial, which is held once."""
        while self._trials and start < stop:
            self._trials[0]()
            del self._trials[0]
        yield from rows(start, stop)
