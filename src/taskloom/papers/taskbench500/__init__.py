"""Studies of TaskBench500 (docs/papers/taskbench500.md): its tasks and queries, and how well models
adapt to them.
"""

from taskloom.papers.taskbench500 import (
    adaptability_table,
    catalogue_tables,
    composition_table,
    memorisation_curves,
    side_masses,
)

__all__ = [
    "adaptability_table",
    "catalogue_tables",
    "composition_table",
    "memorisation_curves",
    "side_masses",
]
