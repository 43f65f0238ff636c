"""What the studies cost at quick scale: CPU-seconds, measured by `taskloom reproduce NAME` with a store of its own.

They are in quick_costs.json, which says how they were measured; a study that was not measured is not there.
"""

from __future__ import annotations

import json
from importlib.resources import files

FILE = "quick_costs.json"


def quick_costs() -> dict[str, int]:
    """Return the CPU-seconds (user and system, all processes) of each study at quick scale."""
    costs: dict[str, int] = json.loads(files("taskloom.analysis").joinpath(FILE).read_text(encoding="utf-8"))["studies"]
    return costs


def shown_cost(seconds: int | None) -> str:
    """Return a cost as lists have it.

    >>> shown_cost(3), shown_cost(40), shown_cost(237), shown_cost(None)
    ('seconds', '1 min', '4 min', '')
    """
    if seconds is None:
        return ""
    return "seconds" if seconds < 20 else f"{max(1, round(seconds / 60))} min"
