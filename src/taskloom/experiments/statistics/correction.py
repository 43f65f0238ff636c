"""Many comparisons at once: p-values raised so that the promise holds for all of them together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from taskloom.core.errors import nearest
from taskloom.experiments.statistics.distributions import StatisticsError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def bonferroni(p: ArrayLike) -> NDArray[Any]:
    """Compute p · m: the chance of one false finding among all m stays below alpha. Holm does the same and finds more."""
    import numpy as np

    values = _check(p)
    raised: NDArray[Any] = np.minimum(1.0, values * len(values))
    return raised


def holm(p: ArrayLike) -> NDArray[Any]:
    """Compute Holm's step-down: the chance of one false finding among all stays below alpha under any dependence. The default."""
    import numpy as np

    values = _check(p)
    order = np.argsort(values, kind="stable")
    raised = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    return _back(np.minimum(1.0, raised), order)


def benjamini_hochberg(p: ArrayLike) -> NDArray[Any]:
    """Compute Benjamini and Hochberg's step-up: at most a share alpha of the findings is false on average. For screening many."""
    import numpy as np

    values = _check(p)
    order = np.argsort(values, kind="stable")
    m = len(values)
    raised = values[order] * m / np.arange(1, m + 1)
    return _back(np.minimum(1.0, np.minimum.accumulate(raised[::-1])[::-1]), order)


def uncorrected(p: ArrayLike) -> NDArray[Any]:
    """Return the p-values as they are."""
    return _check(p)


CORRECTIONS: dict[str, Callable[[Any], Any]] = {
    "holm": holm,
    "benjamini-hochberg": benjamini_hochberg,
    "bonferroni": bonferroni,
    "none": uncorrected,
}


def correct(p: ArrayLike, how: str = "holm") -> NDArray[Any]:
    """Return the p-values corrected by the method of that name."""
    if how not in CORRECTIONS:
        raise StatisticsError(f"there is no correction '{how}'; {nearest(how, CORRECTIONS)}")
    corrected: NDArray[Any] = CORRECTIONS[how](p)
    return corrected


def _back(values: NDArray[Any], order: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    restored = np.empty_like(values)
    restored[order] = values
    return restored


def _check(p: ArrayLike) -> NDArray[Any]:
    import numpy as np

    values = np.asarray(p, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise StatisticsError("p-values are a row of numbers between 0 and 1")
    return values
