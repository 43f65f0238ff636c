"""Studies of TaskBench500 (docs/papers/taskbench500.md): the tables of the paper that list its tasks and their queries."""

from taskloom.studies.taskbench500 import catalogue_tables, query_table

__all__ = ["catalogue_tables", "query_table"]
