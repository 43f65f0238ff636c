"""Statistics on results: intervals, paired tests, corrections, effect sizes, power. Pure functions on arrays."""

from taskloom.experiments.statistics.correction import benjamini_hochberg, bonferroni, correct, holm
from taskloom.experiments.statistics.distributions import StatisticsError
from taskloom.experiments.statistics.effects import cohens_h, hedges_g, odds_ratio
from taskloom.experiments.statistics.intervals import (
    Estimate,
    clopper_pearson,
    newcombe,
    over_binary_items,
    over_items,
    over_seed_differences,
    over_seeds,
    over_task_differences,
    over_tasks,
    two_way,
    two_way_tables,
    wilson,
)
from taskloom.experiments.statistics.item_kinds import between_kinds, between_kinds_by_stratum
from taskloom.experiments.statistics.paired_tests import (
    Comparison,
    independent_seeds,
    mcnemar,
    paired_bootstrap,
    paired_two_way,
    sign_flip,
    welch,
)
from taskloom.experiments.statistics.power import PowerQuestion, examples_needed, gap_found, power, seeds_needed

__all__ = [
    "Comparison",
    "Estimate",
    "PowerQuestion",
    "StatisticsError",
    "benjamini_hochberg",
    "between_kinds",
    "between_kinds_by_stratum",
    "bonferroni",
    "clopper_pearson",
    "cohens_h",
    "correct",
    "examples_needed",
    "gap_found",
    "hedges_g",
    "holm",
    "independent_seeds",
    "mcnemar",
    "newcombe",
    "odds_ratio",
    "over_binary_items",
    "over_items",
    "over_seed_differences",
    "over_seeds",
    "over_task_differences",
    "over_tasks",
    "paired_bootstrap",
    "paired_two_way",
    "power",
    "seeds_needed",
    "sign_flip",
    "two_way",
    "two_way_tables",
    "welch",
    "wilson",
]
