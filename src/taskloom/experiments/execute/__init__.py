"""Running it: the driver, its workers and engines, and what is written while they run."""
