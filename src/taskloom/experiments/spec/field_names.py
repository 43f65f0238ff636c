"""Names of fields of a run that are neither a recipe's nor a learner's own."""

BEST_OF_FIELD = "learner.best_of"
"""The field of a run that is the best of several tries."""

LIMIT_FIELD = "recipe.limit"
"""The field of a run that answers at most so many examples of each split."""

TASK_FIELD = "recipe.task"
"""The field of a run on one task of a recipe of several."""
