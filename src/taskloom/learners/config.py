"""Learners by name: their registry, their settings as users write them (a YAML block, a mapping or
flags), and presets.

`preset: NAME` in a learner's block stands for settings under one name, such as those of a published
model. Settings next to it override the preset's, and runs record the settings, not the name.
Presets come from a `presets.toml` in a folder of `taskloom.papers` or of a package that an entry
point names, or from `register_preset` in such a package.

This is the only module of the learners that needs pydantic, and only to read a block, so that a GPU
machine can do without it.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from taskloom.core.errors import nearest
from taskloom.core.files import LATER, later_defaults
from taskloom.core.registry import Registry, is_python, name_in_file, paper_folders, source_of
from taskloom.learners.interface import (
    Fitted,
    Learner,
    LearnerError,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A learner in the registry.

    Attributes:
        name: Name in experiments and commands.
        describe: One line for `taskloom list learners`.
        settings: Dataclass of its settings, whose instances are learners.
        load: Loads a fitted learner from a folder.
        defaults: Settings that differ from the dataclass's defaults under this name.
        version: Increased when the same settings and seed would learn something different. Part of
            every run's digest.
        code: Digest of the file that defines it, which is part of every run's digest. Empty for
            learners of this package, which have versions instead.
    """

    name: str
    describe: str
    settings: type[Any]
    load: Callable[[Path], Fitted]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    code: str = ""

    def __call__(self, **settings: Any) -> Learner:
        """Build the learner without checking values, which `taskloom.learners.config.read` does for
        files.
        """
        learner: Learner = self.settings(**{**self.defaults, **settings})
        return learner

    def identity(self, learner: Learner) -> list[Any]:
        """Values that identify runs of this learner: name, version, settings, and the code if it
        comes from a file.
        """
        identity: list[Any] = [self.name, self.version, digest_settings(learner)]
        if self.code:
            identity.append(self.code)
        return identity


LEARNERS: Registry[Entry] = Registry("learner", "taskloom.learners", indexed=True)


def find_learner(name: str) -> Entry:
    """Return a learner by name (`bilstm`), by file (`mine.py`), or by a name in a file
    (`mine.py::mine/gru`).
    """
    return LEARNERS.get(name_in_file(name, LEARNERS.of, "learner") if is_python(name) else name)


C = TypeVar("C", bound=type[Any])


def register_learner(
    name: str,
    *,
    describe: str,
    load: Callable[[Path], Fitted] | None = None,
    version: int = 1,
    code: str | None = None,
    **defaults: Any,
) -> Callable[[C], C]:
    """Register a frozen dataclass that has `fit` as a learner; keywords change its defaults under
    this name.
    """

    def record(settings: C) -> C:
        digest = code_digest(settings) if code is None else code
        entry = Entry(
            name, describe, settings, load or _not_loaded(name), defaults, version, digest
        )
        LEARNERS.add(name, entry, f"{settings.__module__}.{settings.__name__}")
        return settings

    return record


def code_digest(thing: Callable[..., Any]) -> str:
    """Digest of the file that defines a class or function. Empty for this package, whose learners
    have versions instead.
    """
    if thing.__module__.startswith("taskloom."):
        return ""
    return blake2b(source_of(thing), digest_size=16).hexdigest()


def _not_loaded(name: str) -> Callable[[Path], Fitted]:
    def load(folder: Path) -> Fitted:
        raise LearnerError(
            f"{name} cannot be loaded from {folder}: it was registered without load="
        )

    return load


def later_setting(default: Any) -> Any:
    """Declare a setting that was added later, with the default that preserves the earlier
    behaviour.

    If left at its default, the setting is not part of a run's digest, so that the digests of older
    runs and checkpoints do not change.
    """
    return field(default=default, metadata={LATER: True})


ASIDE = "aside"
"""Metadata key of settings that do not affect answers, such as a price: `field(metadata={ASIDE:
True})`. Such settings are not part of a run's digest.
"""


def aside_settings(settings: Any) -> set[str]:
    """Names of the settings that are marked `ASIDE`."""
    return {one.name for one in fields(settings) if ASIDE in one.metadata}


def digest_settings(settings: Any) -> dict[str, Any]:
    """The settings that are part of a run's digest, as JSON values: all except a `later_setting`
    left at its default, and those marked `ASIDE`.
    """
    values = {}
    left_out = later_defaults(settings) | aside_settings(settings)
    for one in fields(settings):
        value = getattr(settings, one.name)
        if one.name not in left_out:
            values[one.name] = digest_settings(value) if is_dataclass(value) else value
    plain: dict[str, Any] = json.loads(json.dumps(values, default=asdict))
    return plain


MAY_BE_ZERO = frozenset({"shots", "filters", "layers_answering", "longest_input"})
"""Integer settings that may be 0."""


def check_settings(settings: Any) -> None:
    """Raise an error for sizes below 1, dropout rates outside 0..1, and infinite or NaN values in a
    learner's settings.
    """
    for one in fields(settings):
        value = getattr(settings, one.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise LearnerError(f"{settings.name}: {one.name} is {value}; it must be a number")
        least = int(one.name not in MAY_BE_ZERO)
        if isinstance(value, int) and not isinstance(value, bool) and value < least:
            raise LearnerError(
                f"{settings.name}: {one.name} is {value}; it must be at least {least}"
            )
        if one.name.endswith("dropout") and not 0 <= value < 1:
            raise LearnerError(
                f"{settings.name}: {one.name} is {value}; it must be at least 0 and below 1"
            )


FILE = "presets.toml"
"""File name of presets. TOML, because the standard library reads it: a GPU machine may have torch
and little else.
"""


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings of one or more learners under one name.

    Attributes:
        name: Value of `preset:`.
        describe: One-line description.
        settings: The settings of each learner, by its name.
    """

    name: str
    describe: str
    settings: Mapping[str, Mapping[str, Any]]


class PresetRegistry(Registry[Preset]):
    """Presets by name. The presets of a package are in files, so that finding one does not import
    the package.
    """

    def __init__(self) -> None:
        super().__init__("preset")
        self._known_files: set[Path] = set()

    @cached_property
    def _submodules(self) -> list[str]:
        return []

    def _import_all(self) -> None:
        for package, folder in paper_folders().items():
            file = folder / FILE
            if file.is_file() and file not in self._known_files:
                self._read(file, package)
                self._known_files.add(file)

    def _read(self, path: Path, origin: str) -> None:
        """Register the presets of a file. A preset with `extends` changes some settings of another
        one.
        """
        for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
            describe = table.pop("describe")
            extended = table.pop("extends", None)
            settings: dict[str, Mapping[str, Any]] = {}
            if extended is not None:
                settings.update(self._things[extended].settings)
            for learner, changes in table.items():
                settings[learner] = {**settings.get(learner, {}), **changes}
            self.add(name, Preset(name, describe, settings), origin)


PRESETS = PresetRegistry()

_EITHER = (("steps", "epochs"), ("evaluate_every", "evaluate_epochs"))
"""Pairs of settings for the same quantity in different units. At most one of a pair may be set."""


def register_preset(
    name: str, settings: Mapping[str, Mapping[str, Any]], *, describe: str, origin: str
) -> None:
    """Register a preset of another package.

    Args:
        name: Value of `preset:`.
        settings: The settings of each learner, by its name: `{"bilstm": {"state": 128}}`.
        describe: One-line description.
        origin: The module that registers it, `__name__`. Two modules cannot share a name.
    """
    PRESETS.add(name, Preset(name, describe, settings), origin)


def presets_of(learner: str) -> list[str]:
    """Names of the presets that a learner has."""
    return [preset.name for preset in PRESETS if learner in preset.settings]


def with_preset(name: Any, learner: str, block: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a block of settings on top of those of a preset."""
    presets = presets_of(learner)
    if name not in presets:
        if not presets:
            raise LearnerError(f"{where} has no presets; leave out 'preset: {name}'")
        raise LearnerError(f"{where} has no preset '{name}'; {nearest(str(name), presets)}")
    given = set(block)
    if isinstance(block.get("training"), Mapping):
        given |= set(block["training"])
    # `epochs` in the block must also replace the preset's `steps`, and the other way round.
    for one, other in _EITHER:
        if one in given or other in given:
            given |= {one, other}
    settings = PRESETS.get(name).settings[learner]
    preset = {key: value for key, value in settings.items() if key not in given}
    return {**preset, **block}


def read(block: str | Mapping[str, Any], where: str = "the learner") -> Learner:
    """Build a learner from its name, or from a block such as `{learner: bilstm, state: 128,
    training: {steps: 2000}}`.

    Settings of the training loop may be given at the top level too: `{learner: bilstm, steps:
    2000}`. `preset: ctlpp` stands for the settings of a paper; settings next to it override them.
    """
    data = {"learner": block} if isinstance(block, str) else _mapping(block, where)
    if "learner" not in data:
        raise LearnerError(
            f"{where}: name a learner, e.g. 'learner: bilstm'; {nearest('', LEARNERS.names())}"
        )
    entry = find_learner(str(data.pop("learner")))
    if data.get("preset") is not None:
        data = with_preset(data.pop("preset"), entry.name, data, f"{where} '{entry.name}'")
    data.pop("preset", None)
    default: Any = entry()
    values = _flat(default, data, f"{where} '{entry.name}'")
    return _build(entry.settings, values, f"{where} '{entry.name}'")


def settings(name: str) -> list[tuple[str, Any, str]]:
    """List every setting of a learner with its default and meaning, those of the training loop
    last.
    """
    default: Any = find_learner(name)()
    loop = getattr(default, "training", None)
    rows: list[tuple[str, Any, str]] = []
    presets = presets_of(find_learner(name).name)
    if presets:
        meaning_of_preset = (
            f"The settings of a paper, below those that are set: {', '.join(presets)}."
        )
        rows.append(("preset", None, meaning_of_preset))
    blocks = [default] if loop is None else [default, loop]
    for block in blocks:
        meaning = _meaning(type(block))
        for one in dataclasses.fields(block):
            if one.name != "training":
                rows.append((one.name, getattr(block, one.name), meaning.get(one.name, "")))
    return rows


SAMPLE = (40, 8)
"""Numbers of words and answers for which `size` states the size of a network. They are those of
CTL++.
"""


def size(name: str) -> int | None:
    """Number of trainable parameters of a classifier for 40 words and 8 answers. None for other
    learners, or without torch.

    The words come in sentences of eight, which matters for networks with position weights.
    """
    learner: Any = find_learner(name)()
    if not hasattr(learner, "network_for") or not type(learner).__module__.startswith("taskloom."):
        # a user's module may be slow to build, or need other numbers of words and answers
        return None
    try:
        from taskloom.learners.scratch.nets.ops import count
    except ImportError:
        return None
    words, answers = SAMPLE
    sentences = [" ".join(f"w{i}" for i in range(first, first + 8)) for first in range(0, words, 8)]
    return count(learner.network_for(learner.reader(sentences), answers))


def _meaning(kind: type[Any]) -> dict[str, str]:
    """The meaning of each attribute of a class and its bases, from the `Attributes` sections of
    their docstrings.
    """
    meanings: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        _, _, section = inspect.cleandoc(one.__doc__ or "").partition("Attributes:\n")
        for name, text in re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section, re.MULTILINE):
            meanings[name] = " ".join(text.split())
    return meanings


def _mapping(block: Any, where: str) -> dict[str, Any]:
    if isinstance(block, Mapping) and all(isinstance(key, str) for key in block):
        return dict(block)
    raise LearnerError(
        f"{where}: {str(block)[:60]!r} is not a block of settings; write 'name: value' lines"
    )


def _flat(default: Any, data: dict[str, Any], where: str) -> dict[str, Any]:
    """Put the settings of the training loop into `training`, on top of the learner's defaults."""
    learner_names = {f.name for f in dataclasses.fields(default)}
    values = {name: getattr(default, name) for name in learner_names}
    training = values.get("training")
    loop: dict[str, Any] = {}
    given: dict[str, Any] = {}
    if training is not None:
        loop = dataclasses.asdict(training)
        given = _mapping(data.pop("training", None) or {}, f"{where}: training")
    loop_names = set(loop)
    for key, value in data.items():
        if key in learner_names:
            values[key] = value
        elif key in loop_names:
            given[key] = value
        else:
            names = (learner_names | loop_names) - {"training"}
            raise LearnerError(f"{where} has no setting '{key}'; {nearest(key, names)}")
    for key in given:
        if key not in loop_names:
            raise LearnerError(
                f"{where}: the training loop has no setting '{key}'; {nearest(key, loop_names)}"
            )
    for counted, other in _EITHER:
        if counted in given and given.get(other):
            raise LearnerError(f"{where}: {counted} and {other} are both set; set one of the two")
    if training is not None:
        values["training"] = {**loop, **given}
    return values


def _build(settings: type[Any], values: dict[str, Any], where: str) -> Learner:
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    # Only pydantic reads this attribute. With it, a misspelt key inside a block is an error as
    # well.
    settings.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    adapter: TypeAdapter[Any] = TypeAdapter(settings)
    try:
        learner: Learner = adapter.validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        setting = ".".join(str(p) for p in first["loc"] if p != "training")
        raise LearnerError(
            f"{where}: {setting}: {first['msg']} (given: {first.get('input')!r})"
        ) from error
    return learner
