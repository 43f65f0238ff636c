"""The function suite: TaskBench500, and any task its language can say."""
