"""Faster ways through a language model than the library's own.

Each module's head states what it buys, measured, and how to do without.
"""
