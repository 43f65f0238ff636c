"""One folder per paper: its studies, published numbers (published.yaml), presets (presets.toml) and
experiments. In each folder, `runs.py` prepares runs for the studies, and `experiments.py` defines
the experiments that produce them. `reinforcement.py` studies a question of our own. The rest of
taskloom does not import this package.
"""
