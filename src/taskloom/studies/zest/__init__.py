"""Studies of ZEST (docs/papers/zest.md): the table of the paper that describes its data."""

from taskloom.studies.zest import dataset_table

__all__ = ["dataset_table"]
