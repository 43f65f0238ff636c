"""Checkpoints: one safetensors file that is there or not, never half."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from taskloom.learners.interface import LearnerError

NAME = "checkpoint.safetensors"


def save(folder: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write beside the place, then rename into it."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    target = folder / NAME
    beside = folder / f".{NAME}.{os.getpid()}"
    try:
        save_file({n: t.detach().cpu().contiguous() for n, t in tensors.items()}, beside, {"about": json.dumps(about)})
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def read(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Tensors and description of the checkpoint in a folder, or None."""
    from safetensors import SafetensorError, safe_open

    path = folder / NAME
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            about: dict[str, Any] = json.loads(file.metadata()["about"])
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118 - not a mapping
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise LearnerError(f"{path} is damaged ({error}); delete it to start the run again") from error
