"""Studies of CTL++ (docs/papers/ctlpp.md): its tables and figures, and what its training data decide."""

from taskloom.studies.ctlpp import accuracy_table, graph_drawings, parameter_table

__all__ = ["accuracy_table", "graph_drawings", "parameter_table"]
