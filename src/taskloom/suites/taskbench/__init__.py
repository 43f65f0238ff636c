"""The function suite."""
