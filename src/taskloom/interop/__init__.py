"""Taskloom's tasks in other tools: reasoning-gym's interface, Hugging Face, lm-evaluation-harness,
Inspect, verifiers, TRL.

One module per tool. Each imports its tool only when it is used, and scores every prediction by the
recipe's own scorer, so that a prediction has the same score there as here.
"""
