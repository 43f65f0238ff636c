"""The suites: each a folder with its code and its recipes."""
