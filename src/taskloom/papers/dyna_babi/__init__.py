"""Studies of Dyna-bAbI (docs/papers/dyna-babi.md): its data, and what models that learn from them can do."""

from taskloom.papers.dyna_babi import (
    composition_map,
    concurrence,
    data_tables,
    disjunction_table,
    enriched_table,
    iid_ood_table,
    inoculation,
    phrasing_table,
)

__all__ = [
    "composition_map",
    "concurrence",
    "data_tables",
    "disjunction_table",
    "enriched_table",
    "iid_ood_table",
    "inoculation",
    "phrasing_table",
]
