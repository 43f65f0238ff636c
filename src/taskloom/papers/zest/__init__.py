"""Studies of ZEST (docs/papers/zest.md): its tables, of data and of models that learn from task descriptions."""

from taskloom.papers.zest import competence_tables, dataset_table, error_table, input_ablation

__all__ = ["competence_tables", "dataset_table", "error_table", "input_ablation"]
