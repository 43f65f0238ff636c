"""One folder per paper: its studies, published numbers (published.yaml), presets (presets.toml) and
experiments. `runs.py` has the paper's runs as its studies see them, `experiments.py` the experiments
that make them. `reinforcement.py` is a question of our own.

Built on the rest of the package, and imported by nothing below it.
"""
