"""Exports: the templates of their files, one folder per tool, with `$name` for values, and what the
exports of all tools share.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

from taskloom import __version__
from taskloom.core.errors import DataError
from taskloom.core.extraction import Extraction
from taskloom.core.files import atomic_folder, path_of
from taskloom.data.dataset import MANIFEST, Dataset, load

LONGEST_NAME = 300
"""Maximum characters of a recipe's name in an export."""


def fill(template: str, values: Mapping[str, Any]) -> str:
    """Fill in a template. A name without a value raises a `KeyError`."""
    text = files(__name__).joinpath(template).read_text(encoding="utf-8")
    return Template(text).substitute(values)


def made_dataset(folder: str | PathLike[str]) -> Dataset:
    """Open a dataset that Taskloom made. Other datasets have no scorer."""
    if not (path_of(folder) / MANIFEST).is_file():
        raise DataError(
            f"{folder} is not a Taskloom dataset; make one with 'taskloom make RECIPE -o {folder}'"
        )
    data = load(path_of(folder))
    _ = data.recipe  # the scorer belongs to the recipe, so the recipe's code must be known
    return data


def dataset_values(data: Dataset, extract: str) -> dict[str, str]:
    """Return the values that templates share, after checking `extract`."""
    Extraction.read(extract)
    manifest = data.manifest
    return {
        "recipe": plain_name(str(manifest["recipe"]["name"])),
        "describe": str(manifest["recipe"].get("describe", "")),
        "digest": data.digest,
        "seed": str(manifest["seed"]),
        "scorer": str(manifest.get("scorer", "")),
        "extract": json.dumps(extract),
    }


def plain_name(name: str) -> str:
    """A recipe's name for code and configurations. The manifest of another author may contain any
    text, even one that ends a string of Python, YAML or Hydra; such characters become question
    marks.

    >>> plain_name("taskbench/union(synonyms[eng], antonyms[eng])"), plain_name('a"b$')
    ('taskbench/union(synonyms[eng], antonyms[eng])', 'a?b?')
    """
    return re.sub(r"[^\w .,:;/|&()\[\]<>=+*-]", "?", name)[:LONGEST_NAME]


@contextmanager
def export_folder(place: Path) -> Iterator[Path]:
    """Yield a folder that is written completely or not at all. It must not exist."""
    if place.exists():
        raise DataError(f"{place} exists already; remove it, or name another folder")
    with atomic_folder(place) as beside:
        beside.mkdir(parents=True, exist_ok=True)
        yield beside


def copy_dataset(folder: str | PathLike[str], place: Path) -> None:
    """Copy a dataset without the files that tools do not read."""
    ignored = shutil.ignore_patterns("*.jsonl", "*.lock", "*.tmp")
    shutil.copytree(path_of(folder), place, ignore=ignored)


def export_package(
    tool: str, folder: str | PathLike[str], out: str | PathLike[str], extract: str
) -> str:
    """Write a dataset as an installable package with the rows in it, and return its name.

    Args:
        tool: The folder of the package's templates.
        folder: A dataset that Taskloom made.
        out: The folder of the package; it must not exist. Its name is that of the package.
        extract: How answers are extracted from replies.
    """
    place = path_of(out)
    name = re.sub(r"[^a-z0-9]+", "-", place.name.lower()).strip("-")
    if not name[:1].isalpha():
        raise DataError(f"{place.name} is the package's name, so it must begin with a letter")
    module = name.replace("-", "_")
    values = {
        **dataset_values(made_dataset(folder), extract),
        "name": name,
        "module": module,
        "class": "".join(word.capitalize() for word in name.split("-")),
        "version": __version__,
    }
    with export_folder(place) as beside:
        copy_dataset(folder, beside / module / "data")
        for template in files(__name__).joinpath(tool).iterdir():
            file = template.name.removesuffix(".txt")
            parent = beside / module if file.endswith(".py") else beside
            text = fill(f"{tool}/{template.name}", values)
            (parent / file).write_text(text, encoding="utf-8")
    return name
