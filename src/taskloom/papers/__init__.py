"""One folder per paper: its studies, published numbers (published.yaml), presets (presets.toml) and
experiments. `runs.py` prepares runs for the paper's studies, and `experiments.py` defines the
experiments that produce them. `reinforcement.py` studies a question of our own. This package builds
on the rest of taskloom, which does not import it.
"""
