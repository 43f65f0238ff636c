"""Faster ways to compute what the plain learners compute: Triton kernels, a fast Llama pass, shared prefixes.

Each can be left out. The tests hold them to the answers of the plain path.
"""
