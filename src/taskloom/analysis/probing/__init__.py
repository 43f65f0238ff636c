"""Probing a model with items that are made as its answers come in: `falsify` and `frontier`."""
