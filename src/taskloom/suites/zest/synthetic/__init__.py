"""Procedural ZEST: worlds, programs over their facts, passages that state the facts, and questions
that describe the programs.
"""
