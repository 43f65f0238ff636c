"""What can be profiled: a language model by folder or hub id, its randomly initialised twin, a saved learner, an endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from taskloom.analysis.profile.panel import PanelRecipe, Way
from taskloom.core.arguments import path_of
from taskloom.core.errors import ParameterError
from taskloom.learners.pretrained.models import check_model_name
from taskloom.learners.saved import CARD, read_card

BATCH = 8
"""Inputs that are answered at once: long few-shot prompts of a small model then need less than 1 GB."""


@dataclass(frozen=True, slots=True)
class ProfiledModel:
    """A model, and the learner that asks it.

    Attributes:
        name: What pages call it.
        settings: The learner and its settings, but for those that differ between ways.
        prompted: Whether it is shown examples; a saved learner answers inputs as they are.
    """

    name: str
    settings: dict[str, Any]
    prompted: bool = True

    def block(self, way: Way, recipe: PanelRecipe) -> dict[str, Any]:
        """Return the learner that asks the model in a way."""
        if not self.prompted:
            return self.settings
        return {**self.settings, "shots": recipe.shots if way == "few-shot" else 0, "longest_answer": recipe.tokens}

    def ways(self, recipe: PanelRecipe) -> Iterator[Way]:
        """Yield the ways in which the model is asked; the examples of a few-shot prompt are nothing to a saved learner."""
        for way in recipe.ways:
            if self.prompted or way != "few-shot" or recipe.ways == ["few-shot"]:
                yield way

    @property
    def twin(self) -> ProfiledModel | None:
        """Return the same architecture with random weights; None for what is not a language model here."""
        if self.settings["learner"] != "in-context" or self.settings.get("pretrained") is False:
            return None
        return ProfiledModel(f"{self.name}, random weights", {**self.settings, "pretrained": False})


def read_model(model: str, *, random: bool = False, endpoint: str = "") -> ProfiledModel:
    """Find out what a model is.

    Args:
        model: `smollm2`, a model's folder, a hub id, the folder of a saved learner; with `endpoint`, its name there.
        random: Take the same architecture with random weights.
        endpoint: The address of an OpenAI-compatible endpoint, up to and including `/v1`.
    """
    if not model:
        raise ParameterError("model", "is empty; name a model's folder, a hub id, 'smollm2' or a saved learner")
    saved = (path_of(model) / CARD).is_file()
    if random and (endpoint or saved):
        raise ParameterError("random", f"is for language models that are opened here, and {model} is not")
    if endpoint:
        return ProfiledModel(model, {"learner": "endpoint", "url": endpoint, "model": model})
    if saved:
        folder = path_of(model).resolve()
        card = read_card(folder)
        content = {"learner": "saved", "folder": str(folder), "content": folder_digest(folder)}
        return ProfiledModel(f"{folder.name} ({card['learner']})", content, prompted=False)
    check_model_name(str(path_of(model)) if model.startswith("~") else model)
    opened = ProfiledModel(
        Path(model).name if Path(model).is_dir() else model,
        {"learner": "in-context", "model": model, "batch": BATCH},
    )
    twin = opened.twin
    return twin if random and twin is not None else opened


def folder_digest(folder: Path) -> str:
    """Return a digest of all files below a folder, so that a learner that is saved there again is another one."""
    hashed = blake2b(digest_size=16)
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        hashed.update(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                hashed.update(block)
    return hashed.hexdigest()
