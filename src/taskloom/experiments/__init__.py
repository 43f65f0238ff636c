"""Experiments (recipes × learners × seeds) and the table of their runs.

An experiment (`spec`) expands to cells (`cells`), each with a digest of everything that determines
it. Runs in the store (`store`) are never computed again. Missing ones become jobs (`jobs`), which
are claimed (`driver`), executed by an engine (`engines`, `worker`), written to a temporary folder
and renamed. After a kill at any moment, rerun the command to resume: the table is the same as
without the interruption.
"""

from __future__ import annotations
