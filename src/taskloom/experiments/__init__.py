"""Experiments: recipes x learners x seeds, as a table that fills itself.

An experiment (`spec`) comes down to cells (`cells`), each with a digest of everything that determines it. What is in
the run store (`store`) is never computed again; what is missing is planned (`planning`), claimed (`claims`), run by
an engine (`engines/`, `running`) and written beside its place and renamed into it. Killed at any moment, the same
command goes on and ends with the same table.
"""

from __future__ import annotations
