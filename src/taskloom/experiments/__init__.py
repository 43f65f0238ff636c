"""Experiments: recipes × learners × seeds as a table of runs that fills itself, and the statistics on it."""
