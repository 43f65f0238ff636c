"""Studies of CTL++ (docs/papers/ctlpp.md): its tables and figures, and the effects of its training
data.
"""

from taskloom.papers.ctlpp import (
    accuracy_table,
    function_tables,
    graph_drawings,
    own_curves,
    symbol_codes,
    symbol_similarity,
    training_contrasts,
)

__all__ = [
    "accuracy_table",
    "function_tables",
    "graph_drawings",
    "own_curves",
    "symbol_codes",
    "symbol_similarity",
    "training_contrasts",
]
