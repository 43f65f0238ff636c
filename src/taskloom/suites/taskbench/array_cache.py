"""The array cache: arrays that were computed from other data and can be computed again at any time.

An entry is a folder of `.npy` files, a list of them and one text file, named by a digest of
everything it was computed from. It is written beside its place and renamed into it, so two
processes may compute the same entry and a killed one leaves no half of it. Where nothing can be
written, the arrays are computed anew in each process.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

from taskloom.core.files import atomic_folder, cache_folder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.generic]]


LIST = "arrays"
"""Name of the file that lists the arrays of an entry, so that a missing one is noticed."""


def load(name: str) -> tuple[Arrays, str] | None:
    """Arrays (memory-mapped, not read) and text of an entry, or None if it is absent or damaged."""
    import numpy as np

    place = cache_folder("taskbench", name)
    try:
        text, names = ((place / file).read_text(encoding="utf-8") for file in ("text", LIST))
        return {key: np.load(place / f"{key}.npy", mmap_mode="r") for key in names.split()}, text
    except (
        OSError,
        ValueError,
        EOFError,
        TokenError,
    ):  # the last two: an empty file, a header without its end
        return None


def load_or_compute(
    name: str, compute: Callable[[], Mapping[str, NDArray[Any]]]
) -> Mapping[str, NDArray[Any]]:
    """Arrays of an entry, which are computed and stored if it is absent."""
    entry = load(name)
    if entry is not None:
        return entry[0]
    arrays = compute()
    store(name, arrays, "")
    return arrays


def store(name: str, arrays: Mapping[str, NDArray[Any]], text: str) -> bool:
    """Store arrays and a text under a name. Return False if the cache cannot be written."""
    import numpy as np

    place = cache_folder("taskbench", name)
    try:
        if place.exists() and load(name) is None:
            shutil.rmtree(place, ignore_errors=True)
        with atomic_folder(place) as beside:
            for key, array in arrays.items():
                np.save(beside / f"{key}.npy", array)
            (beside / LIST).write_text("\n".join(arrays), encoding="utf-8")
            (beside / "text").write_text(text, encoding="utf-8")
    except OSError:
        # The folder is read-only or full: the arrays in memory are right all the same.
        return load(name) is not None
    return True
