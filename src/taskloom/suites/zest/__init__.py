"""ZEST: tasks given only by a description (Weller et al. 2020)."""
