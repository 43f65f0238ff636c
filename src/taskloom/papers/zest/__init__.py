"""Studies of ZEST (docs/papers/zest.md): its tables on the data, and on models that learn from task
descriptions.
"""

from taskloom.papers.zest import breakdown_tables, competence_tables

__all__ = ["breakdown_tables", "competence_tables"]
