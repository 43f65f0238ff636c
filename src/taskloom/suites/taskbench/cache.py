"""The cache: arrays that were computed once from other data and can be computed again at any time.

A cached thing is a folder of `.npy` files and one text file, named by a digest of everything it was computed from. It is written
beside its place and renamed into it, so two processes may compute the same thing and a killed one leaves no half of it. Where
nothing can be written, the things are computed anew in each process.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskloom.files import cache_folder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.generic]]


def load(name: str) -> tuple[Arrays, str] | None:
    """The arrays (mapped, not read) and the text of a cached thing, or None where it is not there or damaged."""
    import numpy as np

    place = cache_folder() / "taskbench" / name
    try:
        text = (place / "text").read_text(encoding="utf-8")
        return {p.stem: np.load(p, mmap_mode="r") for p in sorted(place.glob("*.npy"))}, text
    except (OSError, ValueError):
        return None


def store(name: str, arrays: Mapping[str, NDArray[Any]], text: str) -> bool:
    """Keep arrays and a text under a name; False where the cache cannot be written."""
    import numpy as np

    place = cache_folder() / "taskbench" / name
    beside: Path | None = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
        for key, array in arrays.items():
            np.save(beside / f"{key}.npy", array)
        (beside / "text").write_text(text, encoding="utf-8")
        if place.exists() and load(name) is None:
            shutil.rmtree(place, ignore_errors=True)
        beside.replace(place)
    except OSError:
        # Another process was faster, or the folder is read-only: either way the arrays in memory are right.
        if beside is not None:
            shutil.rmtree(beside, ignore_errors=True)
        return load(name) is not None
    return True
