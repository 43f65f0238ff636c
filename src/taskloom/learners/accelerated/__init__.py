"""Faster implementations of the plain learners: Triton kernels, Llama's forward pass, CUDA graphs,
shared prefixes.

The head of each module states its gain and how to switch it off. Times were measured on one H200
unless a row states otherwise; docs/reference/learners-gpu.md lists them with their commands and
commits.

Tests in tests/learners compare every part with the plain path on a CPU: `test_fused_layers.py`
(kernels, in Triton's interpreter: `pip install triton`), `test_captured_steps.py`, `test_llama.py`,
`test_shared_prefix.py` (also `greedy`), and `test_language.py` for many tasks at once.

| part | with | plain | switch off with |
| --- | --- | --- | --- |
| `kernels`, 25 NDRs on `ctl/A` in tf32 | at most 28.2 ms a step | 55.7 ms | `kernels: never` |
| `kernels`, 25 Transformers on `ctl/A` in bf16 | 6.6 ms a step | 19.1 ms | `kernels: never` |
| `cuda_graphs`, fine-tuning, 512 × 16 tokens | 52.2 ms a step | 132.1 ms | `graphs: false` |
| `llama` compiled, the same work | 27.4 ms a step | 52.2 ms | `compile: false` |
| `shared_prefix` and `greedy`, 32 shots, 64 inputs | 0.041 s | 1.070 s | another model than Llama, or an endpoint |
| `multi_lora`, eight tasks on one core | 4.4 s | 9.2 s | `fit` for each task |
"""
