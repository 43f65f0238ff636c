"""Procedural ZEST: worlds, programs over their facts, passages that state them, and questions that
describe the programs.
"""
