"""Datasets on the page of a report: their sizes and digests, one example of each, and what an audit says."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from taskloom.analysis.report.page import Column, Section
from taskloom.core.errors import DataError
from taskloom.data import Dataset, dataset

LONGEST = 900
"""Characters of an example's input: about fifteen lines."""

DATASETS = (
    Column("recipe", itemgetter("recipe")),
    Column("examples", itemgetter("examples")),
    Column("content digest", itemgetter("digest")),
)

AUDITS = (
    Column("recipe", itemgetter("recipe")),
    Column("leaks", itemgetter("leaks"), number=True),
    Column("duplicates", itemgetter("duplicates"), number=True),
    Column("best shortcut's accuracy", itemgetter("shortcut"), number=True),
    Column("compound divergence from training", itemgetter("divergence"), number=True),
)


def sections(folders: Sequence[str | Path]) -> list[Section]:
    """Build the sections about datasets; none where there is no folder.

    Args:
        folders: Datasets, or folders of datasets.
    """
    loaded = [data for folder in folders for data in _datasets(Path(folder))]
    if not loaded:
        return []
    named = sorted(((_name(data), data) for data in loaded), key=itemgetter(0))
    shown = "One command with the same recipe and seed gives the same digests on every machine."
    return [
        Section("Datasets", shown, DATASETS, tuple(_row(name, data) for name, data in named)),
        Section("Audit", "What `taskloom audit` finds.", AUDITS, tuple(_audited(name, data) for name, data in named)),
        Section("An example of each dataset", blocks=tuple(_example(name, data) for name, data in named)),
    ]


def _datasets(folder: Path) -> list[Dataset]:
    if (folder / dataset.MANIFEST).is_file():
        return [dataset.load(folder)]
    inside = sorted(path.parent for path in folder.glob(f"*/{dataset.MANIFEST}"))
    if not inside:
        raise DataError(f"{folder} is neither a dataset nor a folder of datasets; make one with 'taskloom make'")
    return [dataset.load(path) for path in inside]


def _name(data: Dataset) -> str:
    recipe = data.manifest.get("recipe", {})
    return str(recipe.get("name") or recipe.get("suite") or recipe.get("task") or data.digest[:16])


def _row(name: str, data: Dataset) -> dict[str, Any]:
    sizes = ", ".join(f"{split} {data.manifest['splits'][split]['n']:,}" for split in data.splits)
    return {"recipe": name, "examples": sizes, "digest": data.digest[:16]}


def _audited(name: str, data: Dataset) -> dict[str, Any]:
    from taskloom.data.audit import audit  # most reports have no dataset to audit

    certificate = audit(data)
    shortcuts = [s.accuracy for s in certificate.shortcuts]
    apart = [f"{d.split} {d.compounds:.2f}" for d in certificate.divergence]
    return {
        "recipe": name,
        "leaks": len(certificate.leaks) + len(certificate.pairs),
        "duplicates": sum(r.exact for r in certificate.repeats),
        "shortcut": f"{max(shortcuts):.2f}" if shortcuts else "",
        "divergence": ", ".join(apart),
    }


def _example(name: str, data: Dataset) -> str:
    filled = [s for s in data.splits if data.manifest["splits"][s]["n"]]
    split = next((s for s in filled if data.role(s) == "test"), filled[0])
    example = data[split][0]
    steps = ", ".join(f"{s.rule} → {s.value}" for s in example.derivation[:8])
    text = f"{name}, {split}\n\n{example.input[:LONGEST]}\n\n→ {example.target}"
    return f"{text}    ({steps})" if steps else text
