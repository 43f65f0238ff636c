"""Faster ways through a language model than the library's own."""
