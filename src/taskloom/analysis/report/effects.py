"""Effects in the runs of a report, all on one scale, so that the headline can name the strongest.

An effect is a difference between two scores that is larger than chance: between learners, between
values of a setting, between iid and ood. For a trait it is the difference that two equally large
halves of the examples would need in order to explain as much of the variance as the trait does:
2 √(explained × variance). The largest difference between any two of its values would favour traits
with many rare values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from taskloom.analysis import figures
from taskloom.core.offers import TraitName
from taskloom.core.registry import SUITES, trait_name
from taskloom.experiments.statistics import correct
from taskloom.experiments.table import Runs

if TYPE_CHECKING:
    from taskloom.analysis.traits import ScoredItems

ALPHA = 0.05
"""Significance level, after correction for multiple tests."""

REFERENCES = frozenset({"majority", "solver"})
"""Names of learners that are there for comparison: the most frequent answer, and the recipe's own
solver. Their scores show nothing about learning.
"""

SMALLEST = 0.1
"""Minimum size of an effect in the headline. Smaller ones may be real and are listed in the
findings.
"""

SIMPLER = 0.85
"""A trait with fewer values is preferred if its effect is at least this share of the largest."""


def is_reference(learner: str) -> bool:
    """True if the learner with this label is there for comparison and does not learn."""
    return learner.partition(" ")[0] in REFERENCES


@dataclass(frozen=True, slots=True)
class TraitEffect:
    """Effect of one trait on the scores of one learner on one split.

    Attributes:
        recipe: Label of the recipe.
        owner: The recipe or task whose suite names the trait.
        learner: Label of the learner.
        split: The split.
        trait: The trait's own name.
        name: Its name for people.
        explained: Share of the variance of scores between its values.
        size: Difference between two halves of equal size that would explain the same share.
        p: p-value, corrected (Holm) for all traits and groups.
        means: Mean score of each value, in natural order.
        items: The scored items, with the values of all traits.
    """

    recipe: str
    owner: str
    learner: str
    split: str
    trait: str
    name: TraitName
    explained: float
    size: float
    p: float
    means: Mapping[str, float]
    items: ScoredItems = field(repr=False)

    @property
    def shown(self) -> bool:
        """True if the effect is larger than chance."""
        return self.p < ALPHA

    @property
    def worst(self) -> str:
        """Value with the lowest mean."""
        return min(self.means, key=lambda value: self.means[value])


def trait_effects(
    runs: Runs, cells: Mapping[str, Mapping[str, Sequence[str]]]
) -> list[TraitEffect]:
    """Effects of all traits on all learners and splits, the largest first.

    The p-values are from the F test; `confirmed` runs a permutation test.

    Args:
        runs: Runs that kept their predictions.
        cells: Runs by the labels of recipe and learner.
    """
    cell_of: dict[str, tuple[str, str]] = {}
    labels: dict[str, str] = {}
    for recipe, own in cells.items():
        for learner, names in own.items():
            if is_reference(learner):
                continue
            # `scored_items` needs one text per cell of the report to distinguish the cells.
            label = str(len(cell_of))
            cell_of[label] = (recipe, learner)
            labels |= dict.fromkeys(names, label)
    # A recipe field in which runs differ is a column of the runs, not a trait of their items.
    columns = {*runs.table.column_names, "task"}
    # Imported late: the study of traits needs audits and learners, and an error about a missing
    # store should not wait for them.
    from taskloom.analysis.traits import explained, scored_items

    found: list[tuple[ScoredItems, str, dict[str, Any]]] = []
    for group in scored_items(runs, labels=labels) if labels else ():
        for trait, values in group.traits.items():
            measured = None if trait in columns else explained(group.scores, values, 0)
            if measured is not None:
                found.append((group, trait, measured))
    owners = {
        recipe: named_by(runs, recipe, [name for names in own.values() for name in names])
        for recipe, own in cells.items()
    }
    named: dict[tuple[str, str], TraitName] = {}  # an unknown suite is looked up on disk
    corrected = correct([measured["p"] for _, _, measured in found], "holm")
    effects = []
    for (group, trait, measured), p in zip(found, corrected, strict=True):
        recipe, learner = cell_of[group.trainings]
        place = (owners[recipe], trait)
        if place not in named:
            named[place] = trait_name([owners[recipe]], trait)
        share = max(0.0, measured["explained"])
        means = measured["means"]
        effects.append(
            TraitEffect(
                recipe=recipe,
                owner=owners[recipe],
                learner=learner,
                split=group.split,
                trait=trait,
                name=named[place],
                explained=share,
                size=2 * math.sqrt(share * measured["variance"]),
                p=float(p),
                means={value: means[value] for value in sorted(means, key=figures.natural_order)},
                items=group,
            )
        )
    return sorted(effects, key=lambda effect: -effect.size)


def named_by(runs: Runs, recipe: str, own: Sequence[str]) -> str:
    """Owner of the suite that names a recipe's traits: the recipe, or the task of its examples if
    the recipe is a user's file.

    Args:
        runs: The runs of the page.
        recipe: The recipe.
        own: Its runs.
    """
    if recipe.partition("/")[0] in SUITES.names():
        return recipe
    answers = runs.answers(own[0], ["task"]) if own else None
    return str(answers["task"][0]) if answers is not None and len(answers) else recipe


def strongest_trait(effects: Sequence[TraitEffect]) -> TraitEffect | None:
    """The largest effect of a trait that is larger than chance, or None.

    Traits overlap: a composition determines the number of facts. Among traits with about the same
    effect on the same answers, the one with the fewest values is chosen.
    """
    for largest in effects:
        if not confirmed(largest, len(effects)):
            continue
        group = (largest.recipe, largest.learner, largest.split)
        rivals = []
        for effect in effects:
            same = (effect.recipe, effect.learner, effect.split) == group
            if same and effect.shown and effect.size >= SIMPLER * largest.size:
                rivals.append(effect)
        return min(rivals, key=lambda effect: (len(effect.means), rank(effect.owner, effect.trait)))
    return None


def confirmed(effect: TraitEffect, tests: int) -> bool:
    """True if a permutation test, corrected for all tests, confirms the effect.

    Args:
        effect: The effect.
        tests: Number of effects that were tested.
    """
    if not effect.shown:
        return False
    # With many items, the F test needs no check, and permutations of 20,000 items take a second.
    from taskloom.analysis.traits import PERMUTATIONS, explained

    permutations = min(PERMUTATIONS, 20_000_000 // max(1, len(effect.items.scores)))
    measured = explained(effect.items.scores, effect.items.traits[effect.trait], permutations)
    return measured is not None and measured["p"] * tests < ALPHA


def rank(recipe: str, trait: str) -> tuple[int, str]:
    """Sort key of equivalent traits: the order in which their suite names them."""
    suite = recipe.split("/")[0]
    named = list(SUITES.get(suite).trait_names) if suite in SUITES.names() else []
    return (named.index(trait) if trait in named else len(named), trait)


def by_size(effects: Iterable[TraitEffect]) -> dict[str, TraitEffect]:
    """Largest effect of each trait, with those that are larger than chance first."""
    largest: dict[str, TraitEffect] = {}
    for effect in sorted(effects, key=lambda effect: (not effect.shown, -effect.size)):
        largest.setdefault(effect.trait, effect)
    return largest
