"""The worlds in which functions are evaluated: words, facts and random relations."""
