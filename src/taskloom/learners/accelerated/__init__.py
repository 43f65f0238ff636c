"""Faster ways to compute what the plain learners compute: Triton kernels, Llama's pass, CUDA
graphs, shared prefixes.

Each module's head states what it buys and how to do without. Times are of one H200, unless a row
says otherwise, and stand with their commands and commits in docs/reference/learners-gpu.md. The
tests hold every module to the answers of the plain path.

| part | with | plain | do without |
| --- | --- | --- | --- |
| `kernels`, 25 NDRs on `ctl/A` in tf32 | at most 28.2 ms a step | 55.7 ms | `kernels: never` |
| `kernels`, 25 Transformers on `ctl/A` in bf16 | 6.6 ms a step | 19.1 ms | `kernels: never` |
| `cuda_graphs`, fine-tuning, 512 × 16 tokens | 52.2 ms a step | 132.1 ms | `graphs: false` |
| `llama` compiled, the same work | 27.4 ms a step | 52.2 ms | `compile: false` |
| `shared_prefix` and `greedy`, 32 shots, 64 inputs | 0.041 s | 1.070 s | another model than Llama, or an endpoint |
| `multi_lora`, eight tasks on one core | 4.4 s | 9.2 s | `fit` for each task |
"""
