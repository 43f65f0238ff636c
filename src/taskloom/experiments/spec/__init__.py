"""What shall be run: an experiment file, checked, and the cells that it comes down to."""
