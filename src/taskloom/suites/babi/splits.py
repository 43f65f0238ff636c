"""Splits: which stories and groups each may contain, and what must not be in training.

A keyed hash of a story's content decides its split, so any row can be generated without the others.
The structure of its beginning (the first sentences, with names and places numbered) belongs to
training or to test by a hash that is the same for every recipe. So no test story of one recipe has
the structure of a training story of another. Dev has one half of the test side and other tests the
other half; `mix` has the whole side. Stories with several questions are too short at their first
question: two MOVE sentences have only three structures. They are divided by what happens in their
opening, and by structure once they are long enough.

The paper's compositional rule (section 3.4) is that each training sub-task has some of the test's
concepts but not all, and together they have all of them. This rule and held-out combinations are
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
"""Predicate: True if the story with this identifying text belongs to the split."""

SIDES = Key("babi", "signatures")
"""Key for dividing structures into training and test. It is constant, so that the division is the
same for all recipes and seeds.
"""

DEV = ("dev", "valid", "validation")
"""Names of splits that use the third quarter of the hashes."""

BEGINNING = 10
"""Number of sentences in the beginning whose structure decides. The paper's test stories are at
least this long.
"""


@dataclass(frozen=True, slots=True)
class SplitRule:
    """Decides which stories belong to a split.

    Attributes:
        opening: Returns True if the events in a growing story's first sentences belong to the
            split.
        structure: Returns True if the structure of a beginning belongs to the split.
    """

    opening: Belongs
    structure: Belongs

    def has(self, events: Sequence[Event], structure: Structure | None = None) -> bool:
        """True if the structure of a story with these events belongs to the split.

        If `structure` is given, it is left at the end of the beginning, so that the caller can
        continue reading.
        """
        return self.structure((structure or Structure()).read(events[:BEGINNING]))


def structures(names: Iterable[str], key: Key = SIDES) -> dict[str, Belongs]:
    """Build the test for each split: training has the lower half of the hashes, dev the third
    quarter, other tests the fourth.

    The division does not depend on sizes or on other splits. A small test next to a large training
    set has as many structures as a large test. Two tests use the same quarter, each with its own
    random stream.
    """
    return {name: _between(key, *_slot(name)) for name in names}


def _slot(name: str) -> tuple[float, float]:
    if role_of(name) == "train":
        return 0.0, 0.5
    if name == "mix":
        # The paper's tests have no dev split. With only half of the side, each story would take
        # twice as many draws.
        return 0.5, 1.0
    return (0.5, 0.75) if name in DEV else (0.75, 1.0)


def _between(key: Key, low: float, high: float) -> Belongs:
    return lambda content: low <= key.unit(content) < high


def split_rules(names: Iterable[str], key: Key) -> dict[str, SplitRule]:
    """Build the rules for all splits."""
    names = list(names)
    opening, structure = structures(names, key.child("openings")), structures(names)
    return {name: SplitRule(opening[name], structure[name]) for name in names}


# Groups


def share_out(total: int, weights: Sequence[int]) -> list[int]:
    """Divide a total into integers in proportion to weights. The largest remainders are rounded up.

    >>> share_out(10, [1, 1, 1])
    [4, 3, 3]
    """
    if not any(weights):
        raise RecipeError("groups: at least one group needs n above 0")
    return apportion(total, weights)


def groups_of(fields: BabiFields, split: str) -> list[StoryGroup]:
    """Return the groups of a split, with their numbers of examples."""
    value = fields.splits[split]
    groups = []
    if not isinstance(value, Size):
        for i, group in enumerate(value):
            name = group.name or f"{split}-{i}"
            groups.append(group.model_copy(update={"name": name}))
        return groups
    shares = share_out(value.n, [group.n for group in fields.groups])
    for i, (group, n) in enumerate(zip(fields.groups, shares, strict=True)):
        number = str(i) if len(fields.groups) > 1 else ""
        groups.append(group.model_copy(update={"n": n, "name": group.name or number}))
    return groups


def training_groups(fields: BabiFields) -> list[StoryGroup]:
    """Return all groups of the training splits. With concat, return the group of each task with the
    injected question types.
    """
    if fields.concat:
        groups = []
        for task in PARTS[fields.concat]:
            group = _story_fields(f"babi/{task}").groups[0]
            questions: dict[str, float] = dict(group.questions)
            for kind in fields.inject.get(task, ()):
                questions[kind] = 1.0
            groups.append(group.model_copy(update={"name": f"qa{task}", "questions": questions}))
        return groups
    training = [name for name in fields.splits if role_of(name) == "train"]
    return [group for name in training for group in _in_use(fields, name)]


def _in_use(fields: BabiFields, split: str) -> list[StoryGroup]:
    """Return the groups that a split uses at any size.

    A group whose own `n` is above 0 counts even if a small split has no example of it.
    """
    own = fields.groups if isinstance(fields.splits[split], Size) else groups_of(fields, split)
    return [group for group, given in zip(groups_of(fields, split), own, strict=True) if given.n]


# Held-out combinations


def check_recipe(fields: BabiFields) -> None:
    """Check that a recipe's training groups respect its own holdout, and the paper's rule with
    respect to its test recipe.

    Raises:
        RecipeError: If they do not. The error names the group and the concepts.
    """
    groups = training_groups(fields)
    for group in groups:
        for together in fields.holdout:
            if set(together) <= group.concepts():
                raise RecipeError(
                    f"holdout: training group '{group.name}' has {' and '.join(together)} "
                    "together; remove one of them from the group, or the combination from holdout"
                )
    if fields.tested_by:
        check_compositional(
            [(g.name, g.concepts()) for g in groups],
            _test_concepts(fields.tested_by),
            fields.tested_by,
        )


def _test_concepts(recipe: str) -> frozenset[str]:
    fields = _story_fields(recipe)
    concepts: set[str] = set()
    for split in fields.splits:
        for group in groups_of(fields, split):
            concepts |= group.concepts()
    return frozenset(concepts)


def _story_fields(recipe: str) -> BabiFields:
    fields = read(recipe).fields
    assert isinstance(fields, BabiFields)
    return fields


def check_compositional(
    train: Sequence[tuple[str, frozenset[str]]], test: frozenset[str], name: str
) -> None:
    """Check the paper's rule (section 3.4). Concepts that occur only in training are ignored.

    Raises:
        RecipeError: If a training group has all test concepts, or a test concept is in no group.
    """
    for group, concepts in train:
        if test <= concepts:
            raise RecipeError(
                f"tested_by {name}: training group '{group}' has all of its concepts"
                f" ({_listed(test)}), so nothing is held out"
            )
    missing = test.difference(*[concepts for _, concepts in train])
    if missing:
        raise RecipeError(
            f"tested_by {name}: no training group has {_listed(missing)}; add a group that does"
        )


def _listed(concepts: Iterable[str]) -> str:
    return ", ".join(sorted(concepts))


def check_example(holdout: Sequence[Sequence[str]], example: Example, split: str) -> None:
    """Raise an error if a training example combines held-out concepts. `check_recipe` already rules
    this out, but this check verifies it for every example.

    Raises:
        RecipeError: If it does. The error names the concepts.
    """
    if not holdout:
        return
    concepts = {*str(example.traits["concepts"]).split("+"), str(example.traits["question"])}
    for together in holdout:
        if concepts.issuperset(together):
            raise RecipeError(
                f"split '{split}': an example combines {' and '.join(together)}, which is held out"
            )


# The trial before the first row


class Trial:
    """Tests everything that a recipe requests before the first row of any split is generated.

    Impossible requests fail here rather than after hours of generating other rows.
    """

    def __init__(self, trials: Iterable[Callable[[], object]]) -> None:
        self._trials = list(trials)

    def rows(
        self, rows: Callable[[int, int], Iterable[Example]], start: int, stop: int
    ) -> Iterator[Example]:
        """Yield the rows of a split. The trial runs first if necessary."""
        while self._trials and start < stop:
            self._trials[0]()
            del self._trials[0]
        yield from rows(start, stop)
