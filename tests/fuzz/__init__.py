"""The fuzzer: `make fuzz`. Random inputs of every kind that Taskloom reads; each must be refused in
one sentence or be right.

A target (`targets_*.py`) is a Hypothesis strategy and a function; `engine` runs it under limits and
a sentinel, counts, and shrinks a failure to a file in `tests/regressions/`, which the ordinary
tests replay.
"""
