"""Specification of an experiment: its checked file and the cells that it expands to."""
