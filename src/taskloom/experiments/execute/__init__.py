"""Running an experiment: the driver, its workers and engines, progress and trackers."""
