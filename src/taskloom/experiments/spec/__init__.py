"""The specification of an experiment: its checked file, and the cells that follow from it."""
