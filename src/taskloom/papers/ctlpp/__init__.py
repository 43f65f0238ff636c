"""Studies of CTL++ (docs/papers/ctlpp.md): its tables and figures, and what its training data decide."""

from taskloom.papers.ctlpp import (
    accuracy_table,
    cluster_accuracy,
    function_tables,
    graph_drawings,
    layers_at_test,
    seed_curves,
    staged_heat_maps,
    symbol_codes,
    symbol_similarity,
    training_contrasts,
)

__all__ = [
    "accuracy_table",
    "cluster_accuracy",
    "function_tables",
    "graph_drawings",
    "layers_at_test",
    "seed_curves",
    "staged_heat_maps",
    "symbol_codes",
    "symbol_similarity",
    "training_contrasts",
]
