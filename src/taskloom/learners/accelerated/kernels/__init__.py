"""Layers as Triton kernels: matrix products by the library, everything between two of them in one pass over memory."""
