"""Held-out combinations and the paper's compositional rule, checked by code.

The rule (section 3.4): each training sub-task sees some of the test's concepts but not all, and together they see all
of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from taskloom.errors import RecipeError
from taskloom.example import Example
from taskloom.suites.babi.fields import PARTS, BabiFields, StoryGroup
from taskloom.suites.babi.splits import role_of


def training_groups(fields: BabiFields) -> list[StoryGroup]:
    """Every group of the training splits; with concat, that of each task with what is injected."""
    from taskloom.recipe import read
    from taskloom.suites.babi.plan import groups_of

    if fields.concat:
        groups = []
        for task in PARTS[fields.concat]:
            own = read(f"babi/{task}").fields
            assert isinstance(own, BabiFields)
            asked: dict[str, float] = dict(own.groups[0].questions)
            asked.update((kind, 1.0) for kind in fields.inject.get(task, ()))
            groups.append(own.groups[0].model_copy(update={"name": f"qa{task}", "questions": asked}))
        return groups
    return [g for name in fields.splits if role_of(name) == "train" for g in groups_of(fields, name) if g.n]


def check_recipe(fields: BabiFields) -> None:
    """Refuse a recipe whose training groups break its own holdout, or the rule towards its test recipe.

    Raises:
        RecipeError: It names the group and the concepts.
    """
    groups = training_groups(fields)
    for group in groups:
        for together in fields.holdout:
            if set(together) <= group.concepts():
                raise RecipeError(
                    f"holdout: training group '{group.name}' has {' and '.join(together)} together; "
                    "take one of them out of the group, or the combination out of holdout"
                )
    if fields.tested_by:
        compositional([(g.name, g.concepts()) for g in groups], _test_concepts(fields.tested_by), fields.tested_by)


def _test_concepts(recipe: str) -> frozenset[str]:
    from taskloom.recipe import read
    from taskloom.suites.babi.plan import groups_of

    fields = read(recipe).fields
    assert isinstance(fields, BabiFields)
    return frozenset(c for name in fields.splits for g in groups_of(fields, name) for c in g.concepts())


def compositional(train: Sequence[tuple[str, frozenset[str]]], test: frozenset[str], name: str) -> None:
    """The paper's rule; concepts of training that the test does not have are of no concern.

    Raises:
        RecipeError: A training group has every test concept, or some test concept is in none.
    """
    for group, concepts in train:
        if test <= concepts:
            raise RecipeError(
                f"tested_by {name}: training group '{group}' has all of its concepts ({_listed(test)}), so nothing is held out"
            )
    missing = test - frozenset(c for _, concepts in train for c in concepts)
    if missing:
        raise RecipeError(f"tested_by {name}: no training group has {_listed(missing)}; add a group that does")


def _listed(concepts: Iterable[str]) -> str:
    return ", ".join(sorted(concepts))


def check_example(holdout: Sequence[Sequence[str]], example: Example, split: str) -> None:
    """Refuse a training example in which held-out concepts meet; the recipe check makes this impossible, and this proves it.

    Raises:
        RecipeError: It names the concepts.
    """
    if not holdout:
        return
    concepts = {*str(example.traits["concepts"]).split("+"), str(example.traits["question"])}
    for together in holdout:
        if concepts.issuperset(together):
            raise RecipeError(f"split '{split}': an example has {' and '.join(together)} together, which is held out")
