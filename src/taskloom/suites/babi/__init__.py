"""The story suite: bAbI 1.0 and Dyna-bAbI."""
