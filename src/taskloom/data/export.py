"""Writing a split in a format that its suite offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from taskloom.core import shards
from taskloom.core.arguments import path_of
from taskloom.core.descriptions import undescribed_table
from taskloom.core.errors import TaskloomError, nearest
from taskloom.core.files import atomic
from taskloom.core.offers import Exporter
from taskloom.core.registry import SUITES
from taskloom.data.dataset import Dataset, load


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A file that was written.

    Attributes:
        path: Where it is.
        examples: How many it holds.
        left_out: How many the format cannot hold.
        reason: Why these were left out.
    """

    path: Path
    examples: int
    left_out: int
    reason: str


def export(
    folder: str | Path, split: str, kind: str, path: str | Path, *, task: str | Path | None = None
) -> ExportedFile:
    """Write a split of a dataset into one file.

    Args:
        folder: The dataset's folder; a folder of `SPLIT.jsonl` or Parquet files that somebody else wrote may have any format.
        split: Which split.
        kind: A format that the dataset's suite offers.
        path: The file; it is whole or absent.
        task: The Python file that defines the dataset's suite, where it is not one of an installed package.
    """
    data = load(folder)
    if task is not None:
        data.recipe_by(task)
    exporter = _exporter(data, folder, kind)
    table = data.table(split)
    if data.manifest["recipe"].get("described"):
        table = undescribed_table(table)
    examples = list(shards.to_examples(table))
    result = exporter(examples, data.recipe.fields if "seed" in data.manifest else None)
    path = path_of(path)
    with atomic(path) as beside, beside.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(result.lines)
    return ExportedFile(path, len(examples) - result.left_out, result.left_out, result.reason)


def check_format(
    folder: str | Path, kind: str, also: Sequence[str] = (), *, task: str | Path | None = None
) -> None:
    """Raise an error with all known formats where a dataset has no format of that name.

    Args:
        folder: The dataset's folder.
        kind: The name of the format.
        also: Formats that no suite offers and that the caller knows.
        task: The Python file that defines the dataset's suite, where it is not one of an installed package.
    """
    data = load(folder)
    if task is not None:
        data.recipe_by(task)
    formats = _formats(data)
    if kind in formats or kind in also:
        return
    if not formats:
        raise _no_format(data, folder, f"there is no format '{kind}' but {', '.join(also)}: ")
    listed, hint = (
        f"known: {', '.join(sorted({*formats, *also}))}",
        nearest(kind, {*formats, *also}),
    )
    raise TaskloomError(
        f"there is no format '{kind}'; {hint if hint == listed else f'{hint} {listed}'}"
    )


def _no_format(data: Dataset, folder: str | Path, first: str = "") -> TaskloomError:
    """Return the refusal of a dataset whose suite offers no format."""
    return TaskloomError(
        f"{first}{folder} is of {data.recipe.suite.name}, which offers no format of its own; make it with `jsonl` for one JSON "
        "object per line"
    )


def _formats(data: Dataset) -> dict[str, Exporter]:
    if "seed" not in data.manifest:  # somebody else's files: the first suite that knows the format
        return {name: exporter for suite in SUITES for name, exporter in suite.exporters.items()}
    return dict(data.recipe.suite.exporters)


def _exporter(data: Dataset, folder: str | Path, kind: str) -> Exporter:
    formats = _formats(data)
    if not formats:
        raise _no_format(data, folder)
    if kind not in formats:
        raise TaskloomError(f"there is no format '{kind}'; {nearest(kind, formats)}")
    return formats[kind]
