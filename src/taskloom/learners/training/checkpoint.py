"""Checkpoints: one safetensors file, written completely or not at all, with the identity of its
run.

A run that stops because its loss is not a number leaves a note next to its checkpoint. The settings
that can fix this may then be changed, and the run resumes from the checkpoint.

In addition to its regular checkpoints, a run is saved on Ctrl-C and after some minutes without a
checkpoint. Its folder is locked during training.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from taskloom.core.files import atomic, locked
from taskloom.learners.config import digest_settings
from taskloom.learners.interface import LearnerError, TrainingError
from taskloom.learners.training.settings import Training

NAME = "checkpoint.safetensors"
FAULT = "fault.json"

WITHOUT_EFFECT = frozenset(
    {"threads", "device", "compile", "kernels", "graphs", "checkpoint_every"}
)
"""Settings that may change when a run is resumed, because they change no result beyond rounding."""

REMEDIES = frozenset({"rate", "warmup", "halve_every", "decay", "clip", "precision"})
"""Settings that a run may change when it resumes after a loss that is not a number."""


def save(folder: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write to a temporary file, then rename it."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    target = folder / NAME
    try:
        with atomic(target, TrainingError) as beside:
            plain = {n: t.detach().cpu().contiguous() for n, t in tensors.items()}
            save_file(plain, beside, {"about": json.dumps(about)})
        (folder / FAULT).unlink(missing_ok=True)
    except (OSError, TrainingError, SafetensorError) as error:
        raise TrainingError(
            f"the checkpoint {target} cannot be written ({error}); free some space and repeat the"
            " call to resume from the one before"
        ) from error


def prepare(folder: Path) -> None:
    """Create the folder, and check before the first step that it is writable."""
    probe = folder / f".probe.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
        if (folder / NAME).is_dir():
            raise IsADirectoryError(errno.EISDIR, f"{NAME} is a folder there")
    except OSError as error:
        raise LearnerError(
            f"the folder {folder} cannot be written to ({error.strerror}), and checkpoints go"
            " there; choose another"
        ) from error


def clear(folder: Path) -> None:
    """Remove files that were half-written when a run was killed. They may be gigabytes."""
    for half in folder.glob(f".{NAME}.*"):
        with contextlib.suppress(OSError):
            half.unlink()


def sound(weights: Iterable[Tensor]) -> bool:
    """True if all weights are finite. A step may make them infinite or NaN although its loss,
    computed before the update, is finite.
    """
    return all(bool(w.isfinite().all()) for w in weights)


@contextlib.contextmanager
def restoring(folder: Path) -> Iterator[None]:
    """Raise an error if a checkpoint lacks an entry, because it is damaged or from another
    version.
    """
    try:
        yield
    except (KeyError, TypeError, RuntimeError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise _damaged(folder / NAME, error) from error


def _damaged(path: Path, error: Exception) -> LearnerError:
    problem = f"{type(error).__name__}: {error}"
    return LearnerError(
        f"{path} is damaged or of another version ({problem}); delete it to start the run again"
    )


def read(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Read tensors and metadata of the checkpoint in a folder. Return None if it has no
    checkpoint.
    """
    from safetensors import SafetensorError, safe_open

    path = folder / NAME
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            about: dict[str, Any] = json.loads(file.metadata()["about"])
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from error


def lasting(how: Training) -> dict[str, Any]:
    """Settings that define a run and cannot change when it resumes, as JSON values."""
    return {
        name: value for name, value in digest_settings(how).items() if name not in WITHOUT_EFFECT
    }


def note_fault(folder: Path | None, step: int) -> str:
    """Record that the run stopped with a loss that is not a number. Return the remedy for the error
    message.
    """
    remedy = "use a lower rate, a smaller clip or fp32"
    if folder is None:
        return remedy
    with contextlib.suppress(OSError):  # on a full disk, still report the error about the loss
        (folder / FAULT).write_text(json.dumps({"step": step}) + "\n", encoding="utf-8")
    if not (folder / NAME).is_file():
        return remedy
    return (
        f"{remedy}: with these changed, the same call resumes from the checkpoint in {folder},"
        " which is from before"
    )


def same_run(folder: Path, saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise an error if a checkpoint belongs to another run."""
    if (folder / FAULT).is_file():
        saved, now = _without_remedies(saved), _without_remedies(now)
    changed = _differences(saved, now)
    if changed:
        raise LearnerError(
            f"{folder} holds the checkpoint of another run (different: {', '.join(changed)}); "
            "use another folder, or delete it to start again"
        )


def _differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the names of the entries that differ, listing settings one by one. Entries that an
    older version did not record count as equal.
    """
    names = []
    for key in (k for k in now if k in saved and saved[k] != now[k]):
        before, here = saved[key], now[key]
        if key in ("settings", "own"):
            names += [
                f"settings.{name}"
                for name in {**before, **here}
                if before.get(name) != here.get(name)
            ]
        else:
            names.append(key)
    return names


def _without_remedies(identity: Mapping[str, Any]) -> dict[str, Any]:
    settings = {k: v for k, v in identity["settings"].items() if k not in REMEDIES}
    return {**identity, "settings": settings}


MOST_LOST = 120.0
"""Maximum seconds of work that are lost if the run is killed. If steps are slow, regular
checkpoints are too far apart for this.
"""

COST = 0.05
"""Maximum share of a run's time spent on these additional checkpoints."""

PATIENCE = 5.0
"""Seconds to wait for another process to release the folder, because the worker of a killed
experiment takes a moment to end.
"""


class Watch:
    """Decides when a training loop saves its state."""

    def __init__(self, pressed: Callable[[], bool] = lambda: False) -> None:
        self._pressed = pressed
        self._last, self._cost = time.monotonic(), 0.0

    def due(self) -> bool:
        """True if the run should be saved now."""
        return self._pressed() or time.monotonic() - self._last > max(MOST_LOST, self._cost / COST)

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Measure the duration of a save, and restart the interval."""
        began = time.monotonic()
        yield
        self._last = time.monotonic()
        self._cost = self._last - began

    def end(self, done: int, steps: int) -> None:
        """Stop the run after a save if Ctrl-C was pressed."""
        if self._pressed():
            raise KeyboardInterrupt(
                f"the run is saved after step {done} of {steps}; repeat the call to resume it"
            )


@contextlib.contextmanager
def watching(folder: Path | None) -> Iterator[Watch]:
    """Lock the folder for this run, and delay Ctrl-C to the end of a step. Without a folder nothing
    is saved.
    """
    if folder is None:
        yield Watch()
        return
    prepare(folder)
    with _held(folder) as alone, _interrupts() as pressed:
        if alone:
            clear(folder)
        yield Watch(pressed)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Lock a folder if the file system supports it. Otherwise a second run in the folder is not
    detected.
    """
    with contextlib.ExitStack() as stack:
        try:
            alone = stack.enter_context(locked(folder, PATIENCE))
        except TimeoutError:
            raise LearnerError(
                f"another process is training in the folder {folder}; wait until it ends, or use"
                " another folder"
            ) from None
        yield alone


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns True after Ctrl-C. The current step is finished first, because
    nothing can be saved in the middle of it. A second Ctrl-C ends the run at once.
    """
    seen = False

    def note(*_: object) -> None:
        nonlocal seen
        if seen:
            raise KeyboardInterrupt
        seen = True

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: seen
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if seen:  # pressed in the very last step, so the run is finished, but the caller should stop
        raise KeyboardInterrupt
