"""Where runs come from: a store, a score file, or predictions that were made elsewhere."""
