"""Presets: settings by name, such as those of a published model.

`preset: NAME` in a learner's block is only a shorter way to write settings: the settings beside it
count more, and runs record the settings, not the name.

Presets come from a `presets.toml` in a folder of `taskloom.papers`, or from `register_preset` in a
module that an installed package names as its entry point. The files are TOML because Python reads
it without a library: a machine with a GPU may have torch and little else.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskloom.core.errors import nearest
from taskloom.core.registry import Registry, load_entry_points
from taskloom.learners.interface import LearnerError

FILE = "presets.toml"


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings of one or more learners under one name.

    Attributes:
        name: What `preset:` calls it.
        describe: One line about it.
        settings: The settings of each learner, by its name.
    """

    name: str
    describe: str
    settings: Mapping[str, Mapping[str, Any]]


class PresetRegistry(Registry[Preset]):
    """Presets by name; those of a package are in files, so that finding one imports no study."""

    def _submodules(self) -> list[str]:
        return []

    def _import_all(self) -> None:
        for package, folder in self.folders():
            for path in sorted(folder.glob(f"*/{FILE}")):
                origin = f"{package}.{path.parent.name}"
                if not self.of(origin):
                    self._read(path, origin)
        load_entry_points()

    def _read(self, path: Path, origin: str) -> None:
        """Register the presets of a file; one that `extends` another changes some settings of it."""
        for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
            describe = table.pop("describe")
            extended = table.pop("extends", None)
            settings: dict[str, Mapping[str, Any]] = {}
            if extended is not None:
                settings.update(self._things[extended].settings)
            for learner, changes in table.items():
                settings[learner] = {**settings.get(learner, {}), **changes}
            self.add(name, Preset(name, describe, settings), origin)


PRESETS = PresetRegistry("preset", "taskloom.papers")

_ONE_OF = (("steps", "epochs"), ("evaluate_every", "evaluate_epochs"))
"""Settings that are two ways to say the same."""


def register_preset(
    name: str, settings: Mapping[str, Mapping[str, Any]], *, describe: str, origin: str
) -> None:
    """Register a preset of another package.

    Args:
        name: What `preset:` calls it.
        settings: The settings of each learner, by its name: `{"bilstm": {"state": 128}}`.
        describe: One line about it.
        origin: The module that registers it, `__name__`. Two modules cannot share a name.
    """
    PRESETS.add(name, Preset(name, describe, settings), origin)


def presets_of(learner: str) -> list[str]:
    """Names of the presets that a learner has."""
    return [preset.name for preset in PRESETS if learner in preset.settings]


def with_preset(name: Any, learner: str, block: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a block of settings on top of those of a preset."""
    known = presets_of(learner)
    if name not in known:
        if not known:
            raise LearnerError(f"{where} has no presets; leave out 'preset: {name}'")
        raise LearnerError(f"{where} has no preset '{name}'; {nearest(str(name), known)}")
    inner = block.get("training")
    given = {*block, *(inner if isinstance(inner, Mapping) else ())}
    for one, other in _ONE_OF:
        if one in given or other in given:
            given |= {one, other}
    settings = PRESETS.get(name).settings[learner]
    preset = {key: value for key, value in settings.items() if key not in given}
    return {**preset, **block}
