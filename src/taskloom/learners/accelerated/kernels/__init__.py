"""Layers as Triton kernels: matrix products by the library, everything between two of them in one
pass over memory.

They buy 25 NDRs on `ctl/A` at 13.3 ms a step in bf16 and at most 28.2 in tf32 where compiled layers
take 24.5 and 55.7, and 25 Transformers at 6.6 ms in bf16 where those take 19.1 (one H200, batches
of 512; docs/reference/learners-gpu.md). To do without set `kernels: never`: the layers of
`scratch/nets` are then compiled. They are also the fallback if Triton is missing and, with a
warning, if kernels do not run or their gradients at the first batch are further from fp32's than
rounding explains.

Kernels and the layers that start them are in separate files because Triton's language has no types:
mypy skips the former and checks the latter.
"""
