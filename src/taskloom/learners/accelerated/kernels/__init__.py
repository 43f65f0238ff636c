"""Layers as Triton kernels. Matrix products use the library; everything between two of them takes
one pass over memory.

Gain: a step of 25 NDRs on `ctl/A` takes 13.3 ms in bf16 and at most 28.2 ms in tf32, and 24.5 and
55.7 ms with compiled layers. A step of 25 Transformers takes 6.6 ms in bf16, and 19.1 ms with
compiled layers (one H200, batches of 512; docs/reference/learners-gpu.md). Switch kernels off with
`kernels: never`: the layers of `scratch/nets` are then compiled. This is also the fallback if
Triton is missing and, with a warning, if kernels do not run or if their gradients at the first
batch differ from fp32's by more than rounding explains.

Kernels and the layers that launch them are in separate files because Triton's language has no
types: mypy skips the kernels and checks the layers.
"""
