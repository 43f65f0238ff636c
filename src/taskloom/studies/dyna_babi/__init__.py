"""Studies of Dyna-bAbI (docs/papers/dyna-babi.md): the tables of the paper that describe its data."""

from taskloom.studies.dyna_babi import concept_tables, data_tables, gift_table

__all__ = ["concept_tables", "data_tables", "gift_table"]
