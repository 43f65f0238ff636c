"""Foundations: examples, seeds, scorers, plans, files and the registry. They do not depend on any
suite, learner or run.
"""
