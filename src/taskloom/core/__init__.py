"""Foundations: examples, seeds, scorers, plans, files and the registry. Independent of any suite,
learner or run.
"""
