"""Experiments (recipes × learners × seeds) and the table of their runs.

An experiment (`spec`) comes down to cells (`cells`), each with a digest of everything that
determines it. What is in the run store (`store`) is never computed again; what is missing becomes
jobs (`jobs`), is claimed (`driver`), run by an engine (`engines`, `worker`), written beside its
place and renamed into it. Rerun the command to resume after a kill at any moment: the table is the
same as if nothing had happened.
"""

from __future__ import annotations
