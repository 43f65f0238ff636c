"""Studies of Dyna-bAbI (docs/papers/dyna-babi.md): its data, and the abilities of models trained on
them.
"""

from taskloom.papers.dyna_babi import (
    composition_map,
    concat_tables,
    data_tables,
    example_tables,
    probe_tables,
    training_sets,
)

__all__ = [
    "composition_map",
    "concat_tables",
    "data_tables",
    "example_tables",
    "probe_tables",
    "training_sets",
]
