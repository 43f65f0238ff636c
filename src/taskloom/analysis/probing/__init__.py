"""Probing a model with items that are chosen by its previous answers: `falsify` and `frontier`."""
