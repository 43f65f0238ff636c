"""Studies of ZEST (docs/papers/zest.md): its tables about the data, and its tables about models
that learn from task descriptions.
"""

from taskloom.papers.zest import breakdown_tables, competence_tables

__all__ = ["breakdown_tables", "competence_tables"]
