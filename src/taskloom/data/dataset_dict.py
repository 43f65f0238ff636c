"""A dataset as a `DatasetDict` of Hugging Face `datasets`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from taskloom.core.errors import MissingExtra

if TYPE_CHECKING:
    from datasets import DatasetDict


def split_names(names: list[str]) -> dict[str, str]:
    """Return the names of splits in other tools: identifiers there, and `all` is a reserved one.

    >>> split_names(["train", "ood-long", "all"])
    {'train': 'train', 'ood-long': 'ood_long', 'all': 'any'}
    """
    return {name: "any" if name == "all" else name.replace("-", "_") for name in names}


def dataset_dict(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> DatasetDict:
    """Build the `DatasetDict` of some splits, with the recipe's description and digest in its info.

    Args:
        tables: The rows by split; empty splits are left out, since the library has none.
        manifest: Of the dataset that they are from.
    """
    try:
        from datasets import Dataset as Table
        from datasets import DatasetDict, DatasetInfo, Features
    except ImportError:
        raise MissingExtra("a Hugging Face dataset", "datasets", "interop") from None
    recipe, digest = manifest["recipe"], manifest["digest"]
    about = f"{recipe.get('name', '')}, seed {manifest.get('seed', '-')}, digest {digest}. {recipe.get('describe', '')}".strip()
    names = split_names(list(tables))
    splits = {}
    for name, table in tables.items():
        if table.num_rows:
            info = DatasetInfo(description=about, features=Features.from_arrow_schema(table.schema))
            splits[names[name]] = Table(table, info=info)
    return DatasetDict(splits)
