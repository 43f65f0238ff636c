"""Fitted learners on disk: a folder with a card that names the learner and its settings, and
weights as safetensors, never as pickles.

A folder is written completely or not at all. Its files are replaced only when all new ones are
written.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from taskloom.core.errors import nearest
from taskloom.core.files import atomic_files, path_of
from taskloom.learners.config import LEARNERS, find_learner, register_learner
from taskloom.learners.interface import Fitted, LearnerError, Pairs, Point, WithoutSteps
from taskloom.learners.training.settings import Training

if TYPE_CHECKING:
    from torch import Tensor

CARD = "learner.json"
"""Name of the file with a folder's learner and settings."""


@contextlib.contextmanager
def saving(
    folder: Path | str, learner: Any, curve: Sequence[Point] = (), **more: Any
) -> Iterator[Path]:
    """Yield a temporary folder for a fitted learner's files. Afterwards its files are moved to the
    learner's folder, the card last.

    This ensures that a folder never has the card of one learner and the weights of another.

    Args:
        folder: Folder of the learner.
        learner: Its settings.
        curve: Its learning curve.
        more: Further entries of its card.
    """
    folder = Path(folder)
    card = {
        "learner": learner.name,
        "settings": asdict(learner),
        "curve": [asdict(p) for p in curve],
        **more,
    }
    try:
        with atomic_files(folder, last=CARD) as temporary:
            yield temporary
            text = json.dumps(card, indent=1, ensure_ascii=False) + "\n"
            (temporary / CARD).write_text(text, encoding="utf-8")
    except OSError as error:
        raise LearnerError(
            f"{folder} cannot be written ({error.strerror or error}); save into another folder"
        ) from error


@contextlib.contextmanager
def disk_faults() -> Iterator[None]:
    """Raise an OSError, as for a full disk, instead of safetensors' own error."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        raise OSError(str(error)) from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write weights by name."""
    from safetensors.torch import save_file

    with disk_faults():
        save_file({n: t.detach().cpu().contiguous() for n, t in tensors.items()}, path)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read weights written by `write_tensors`."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise LearnerError(f"{path} is missing or damaged ({error}); fit and save again") from error
    return tensors


def read_card(folder: Path | str) -> dict[str, Any]:
    """Read the card of a folder."""
    path = Path(folder) / CARD
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise LearnerError(f"{folder} is not a fitted learner: it has no {CARD}") from None
    except OSError as error:
        raise LearnerError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested too deeply
        raise LearnerError(f"{path} is damaged ({error}); fit and save again") from error
    if not isinstance(card, dict) or "learner" not in card:
        raise LearnerError(f"{path} does not name its learner; fit and save again")
    return card


def read_learner(folder: Path | str) -> tuple[dict[str, Any], Any]:
    """Read the card of a folder, and build the learner that it names with its settings."""
    card = read_card(folder)
    settings_class = LEARNERS.get(str(card["learner"])).settings
    settings = _plain(card["settings"])
    if any(one.name == "training" for one in fields(settings_class)):
        settings["training"] = Training(**_plain(settings["training"]))
    return card, settings_class(**settings)


def _plain(block: Mapping[str, Any]) -> dict[str, Any]:
    """Turn lists back into tuples, which JSON cannot represent."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in block.items()
    }


def read_curve(card: Mapping[str, Any]) -> tuple[Point, ...]:
    """Read the learning curve on a card."""
    return tuple(Point(**point) for point in card["curve"])


def load(folder: Path | str, learner: str | None = None) -> Fitted:
    """Load a fitted learner from its folder.

    Args:
        folder: The folder.
        learner: For a learner from a file: `mine.py` or `mine.py::NAME`. Code named in a folder is
            never run.
    """
    folder = path_of(folder)
    name = str(read_card(folder)["learner"])
    if learner is not None and find_learner(learner).name != name:
        raise LearnerError(f"{folder} holds the learner '{name}', not '{learner}'")
    entry = LEARNERS.find(name)
    if entry is None:
        raise LearnerError(
            f"{folder} holds the learner '{name}', which is not known here; if a file defines"
            " it, name that file: load(folder, learner='mine.py');"
            f" {nearest(name, LEARNERS.names())}"
        )
    try:
        return entry.load(folder)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise LearnerError(
            f"{folder} is damaged or of another version ({problem}); fit and save again"
        ) from error


@register_learner(
    "saved", describe="a learner that was fitted and saved before, as it is", load=load
)
@dataclass(frozen=True)
class SavedModel(WithoutSteps[Fitted]):
    """A saved learner, for use on recipes that it was not trained on. It is not trained further.

    Attributes:
        folder: Folder of the saved learner.
        content: Digest of the folder's content, so that experiments do not confuse it with another
            learner.
    """

    folder: str = ""
    content: str = ""

    name: ClassVar[str] = "saved"

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str):
            raise LearnerError(f"saved: folder is {self.folder!r}; it must be a path")

    def learn(self, train: Pairs, seed: int) -> Fitted:
        """Load the saved learner."""
        if not self.folder:
            raise LearnerError(
                "saved: set folder to the folder of a saved learner, e.g. {learner: saved, folder:"
                " DIR}"
            )
        return load(path_of(self.folder))
