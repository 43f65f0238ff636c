"""The training loop of from-scratch networks: settings, batches, optimiser, checkpoints, one seed
or many at once.
"""
