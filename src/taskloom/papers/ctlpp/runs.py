"""Runs on CTL++ for studies: groups of trainings that differ only in the seed, with the settings of
their data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from taskloom.analysis.paper_table import repeated_runs
from taskloom.analysis.published_numbers import Conditions, conditions_of
from taskloom.analysis.study import StudyError, check_choice
from taskloom.experiments.table import Runs
from taskloom.suites.ctl.fields import CtlFields

MODELS = {"bilstm": "bi-LSTM", "transformer": "Transformer", "ndr": "NDR"}
"""The paper's models, by the names of their learners, in the paper's order."""

ModelSetting = Literal["", "bilstm", "transformer", "ndr"]
"""One of the paper's models. Empty: the model of the paper's figure."""

VariantSetting = Literal["A", "R"]

DrawSetting = Literal["published", "chains", "independent"]

PROCESSES = CtlFields.model_fields["processes"].default
"""Number of processes of the published draw in the recipes."""


@dataclass(frozen=True, slots=True)
class Trainings:
    """Runs of one learner on one recipe.

    Attributes:
        model: The learner.
        variant: A, R, S or length.
        conditions: All settings of recipe and learner.
        scores: Scores of each split, by seed.
        runs: The digest of each seed's run.
        environment: Machine and other recorded information.
    """

    model: str
    variant: str
    conditions: Conditions
    scores: Mapping[str, Mapping[int, float]]
    runs: Mapping[int, str]
    environment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seeds(self) -> list[int]:
        """The seeds, sorted."""
        return sorted(self.runs)

    @property
    def draw(self) -> str:
        """How the training data was drawn."""
        return str(self.conditions.get("recipe.draw", ""))

    @property
    def processes(self) -> int | None:
        """Number of processes of the public code that drew the training data. None for other
        draws.
        """
        return self.conditions.get("recipe.processes") if self.draw == "published" else None

    @property
    def table_seed(self) -> int:
        """Seed of the function table. If the recipe lists the tables in full, this is the
        default.
        """
        return int(self.conditions.get("recipe.table_seed", 0))

    @property
    def data_seed(self) -> int:
        """Seed of the training data. Trainings that differ only in this seed use two draws of the
        same type.
        """
        return int(self.conditions.get("recipe.seed", 0))

    @property
    def export(self) -> str:
        """Name of the exported training data without the variant: `chains`, `processes8`,
        `processes8-table1-seed1`.
        """
        draw = self.draw if self.processes in (None, PROCESSES) else f"processes{self.processes}"
        table = f"-table{self.table_seed}" if self.table_seed else ""
        seed = f"-seed{self.data_seed}" if self.data_seed else ""
        return f"{draw}{table}{seed}"

    @property
    def contents(self) -> str:
        """Contents that training always includes: all `pairs` of functions, all `singles`, `both`
        or `neither`.
        """
        singles, pairs = (
            bool(self.conditions.get(f"recipe.include_{what}")) for what in ("singles", "pairs")
        )
        names = {
            (True, True): "both",
            (True, False): "singles",
            (False, True): "pairs",
            (False, False): "neither",
        }
        return names[singles, pairs]

    @property
    def chance(self) -> float:
        """Accuracy of a uniform guess: 1 divided by the number of symbols."""
        return 1 / int(self.conditions.get("recipe.symbols", 8))

    @property
    def label(self) -> str:
        """The model's name as the paper writes it."""
        return MODELS.get(self.model, self.model)

    def of(self, split: str, seeds: list[int] | None = None) -> list[float]:
        """Scores on a split for the given seeds. Default: all seeds."""
        known = self.scores.get(split, {})
        return [known[seed] for seed in (self.seeds if seeds is None else seeds) if seed in known]


def trainings(runs: Runs, variants: str = "AR", maker: str = "run ctlpp-small") -> list[Trainings]:
    """Group the trainings on the given variants by model, variant, draw, table and data seed.
    Raises an error if there are none.

    Args:
        runs: The runs.
        variants: Their letters.
        maker: The `taskloom` command that creates such runs.
    """
    groups = [_group(runs, names) for names in repeated_runs(runs)]
    chosen = [g for g in groups if g.variant and g.variant in variants and g.model != "majority"]
    if not chosen:
        raise StudyError(
            f"{runs.path} has no runs of trained learners on"
            f" {' or '.join(f'ctl/{variant}' for variant in variants)}; this study needs some, e.g."
            f" of 'taskloom {maker}'"
        )
    return sorted(chosen, key=_order)


def of_learner(runs: Runs, groups: list[Trainings], learner: str) -> list[Trainings]:
    """Select the trainings of one learner. Raises an error if there are none."""
    check_choice(runs, "learner", learner, (g.model for g in groups))
    return [g for g in groups if g.model == learner]


def _order(group: Trainings) -> tuple[Any, ...]:
    """Sort key: the paper's order of models, then the data."""
    model, draw = _place(group.model, list(MODELS)), _place(group.draw, ["published", "chains"])
    return (model, group.variant, draw, group.processes or 0, group.table_seed, group.data_seed)


def _place(name: str, order: list[str]) -> tuple[int, str]:
    return (order.index(name) if name in order else len(order), name)


def _group(runs: Runs, names: list[str]) -> Trainings:
    conditions = conditions_of(runs, names[0])
    scores: dict[str, dict[int, float]] = {}
    for run in map(runs.__getitem__, names):
        for split, result in run.splits.items():
            if result.score is not None:
                scores.setdefault(split, {})[run.seed] = result.score
    by_seed = {runs[run].seed: run for run in names}
    variant = str(conditions.get("recipe.variant", ""))
    environment = runs.environment(names[0])
    return Trainings(runs[names[0]].learner, variant, conditions, scores, by_seed, environment)
