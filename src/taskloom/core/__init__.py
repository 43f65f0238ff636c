"""What everything else builds on: examples, seeds, scorers, plans, files, the registry. Knows no
suite, learner or run.
"""
