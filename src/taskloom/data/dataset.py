"""Dataset: splits of examples and a manifest, on disk or in memory, with reading and saving.

On disk a dataset is a folder with `manifest.json` and one folder of Parquet shards per split,
readable by pyarrow, pandas, polars and Hugging Face `datasets` without Taskloom. The dataset card
and optional JSONL files are next to them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from taskloom.core import shards
from taskloom.core.errors import DataError, MissingExtra, ParameterError, echo, nearest
from taskloom.core.files import digest, json_digest, path_of, refuse_special
from taskloom.core.object_store import ObjectPath
from taskloom.core.plan import Role, role_of
from taskloom.core.shards import MANIFEST as MANIFEST
from taskloom.data.example_sequence import Examples as Examples
from taskloom.data.foreign import read_foreign

if TYPE_CHECKING:
    from datasets import DatasetDict

    from taskloom.recipe import Recipe


from taskloom.core.files import atomic

FORMAT = 1


@dataclass(frozen=True)
class Dataset:
    """Splits of examples and their manifest.

    >>> import taskloom as tl
    >>> data = tl.make("ctl/A-independent", set=["splits.train.n=1000"])
    >>> len(data["train"])
    1000
    """

    manifest: Mapping[str, Any]
    tables: Mapping[str, pa.Table | Path | ObjectPath]

    @property
    def splits(self) -> list[str]:
        """Names of the splits, in the recipe's order."""
        return list(self.manifest["splits"])

    @property
    def digest(self) -> str:
        """Content digest. Datasets with equal digests have equal rows."""
        return str(self.manifest["digest"])

    def role(self, split: str) -> Role:
        """Role of a split: train, test or probe."""
        role: Role = self.manifest["splits"][split]["role"]
        return role

    def table(self, split: str) -> pa.Table:
        """A split as an Arrow table."""
        if not isinstance(split, str):
            raise DataError(
                f"a dataset's splits are looked up by name, e.g. data['{self.splits[0]}'], not"
                f" {echo(split)}"
            )
        if split not in self.manifest["splits"]:
            raise DataError(f"the dataset has no split '{split}'; {nearest(split, self.splits)}")
        if split in self._read:
            return self._read[split].table
        place = self.tables[split]
        if isinstance(place, pa.Table):
            return place
        parts = list(self.parts(split))
        return pa.concat_tables(parts) if parts else shards.schema({}).empty_table()

    def parts(self, split: str) -> Iterator[pa.Table]:
        """Yield the files of a split as tables, so that only one must fit into memory."""
        place = self.tables[split]
        if isinstance(place, pa.Table):
            yield place
            return
        entry = self.manifest["splits"][split]
        stamps = []
        rows = 0
        first: pa.Schema | None = None
        for shard in entry["shards"]:
            path = place / shard["file"]
            part, stamp = shards.read_stamped(path)
            shards.check_form(part, path)
            first = first or part.schema
            if part.schema != first:
                raise DataError(
                    f"{path} and the first file of split '{split}' differ in columns; make it again"
                )
            stamps.append(stamp)
            rows += part.num_rows
            yield part
        if rows != entry["n"]:
            raise DataError(
                f"{place}: split '{split}' has {rows} rows, its manifest says {entry['n']}; make it"
                " again"
            )
        _check_stamps(stamps, entry["digest"], f"{place}: the files of split '{split}'")

    def __repr__(self) -> str:
        sizes = ", ".join(
            f"{name} {entry['n']:,}" for name, entry in self.manifest["splits"].items()
        )
        return f"<Dataset {self.manifest['recipe'].get('name', '')}: {sizes}>"

    def _repr_html_(self) -> str:
        from taskloom.core.tables import paragraph, table

        recipe = self.manifest["recipe"].get("name", "")
        seed = f", seed {self.manifest['seed']}" if "seed" in self.manifest else ""
        entries = self.manifest["splits"].items()
        # Descriptions mark names with backticks, which a table would show literally.
        rows = [
            (name, e["n"], e["role"], e.get("describe", "").replace("`", "")) for name, e in entries
        ]
        digests = f"content digest {self.digest}" if self.digest else "made elsewhere"
        head = paragraph(f"{recipe}{seed}", strong=True)
        return head + table(("split", "examples", "role", "what"), rows).html() + paragraph(digests)

    def __getitem__(self, split: str) -> Examples:
        if split not in self._read:
            self._read[split] = Examples(self.table(split), self.manifest, split)
        return self._read[split]

    @cached_property
    def _read(self) -> dict[str, Examples]:
        """Splits that have been read. They stay in memory with this object."""
        return {}

    def __iter__(self) -> Iterator[str]:
        return iter(self.splits)

    def __len__(self) -> int:
        return len(self.splits)

    def items(self) -> Iterator[tuple[str, Examples]]:
        """Yield the splits with their names, as a mapping does."""
        return ((split, self[split]) for split in self.splits)

    def to_pandas(self) -> Any:
        """All rows as one pandas frame, with the name of the split in the first column."""
        import pandas

        frames = []
        for name, examples in self.items():
            frame = examples.to_pandas()
            frame.insert(0, "split", name)
            frames.append(frame)
        return pandas.concat(frames, ignore_index=True)

    def __contains__(self, split: object) -> bool:
        return split in self.manifest["splits"]

    def to_hf(self) -> DatasetDict:
        """Convert the splits to a `DatasetDict` of Hugging Face `datasets`. `-` in their names
        becomes `_`.
        """
        return dataset_dict({name: self.table(name) for name in self.splits}, self.manifest)

    def save(self, path: str | Path) -> Dataset:
        """Save the dataset to a new folder, as `make` does, and return it loaded from there."""
        folder = path_of(path)
        write_tables(folder, self.manifest, {name: self.table(name) for name in self.splits})
        return load(folder)

    @cached_property
    def recipe(self) -> Recipe:
        """Recipe that made this dataset. Its task or suite must be registered in this process."""
        return self.recipe_by()

    def recipe_by(self, task: str | Path | None = None) -> Recipe:
        """Return the recipe that made this dataset, given the file that defines its task or that
        its fields name.

        Args:
            task: Path of the file. It must come from the user: a Python file named only by the
                manifest is never imported, because it may have come with the data. None if the task
                or suite is part of an installed package or already registered. A file that is not
                Python replaces the file of the same name in the recipe's fields, such as a domain.
        """
        from taskloom.core.registry import is_python, load_file
        from taskloom.recipe import Recipe
        from taskloom.recipe.recipe import is_yaml

        given = path_of(str(task).partition("::")[0]) if task is not None else None
        code = given is not None and (is_python(str(given)) or (given / "__init__.py").is_file())
        if given is not None and code:
            load_file(given)
        recipe = Recipe.from_dict(self.manifest["recipe"])
        if given is not None and not code:
            recipe = replace(recipe, files=_placed(recipe, given))
        elif not is_python(recipe.name):
            # Look next to the recipe's own file, or next to the dataset if both were made or moved
            # together.
            folders = [path_of(recipe.name).parent] if is_yaml(recipe.name) else []
            folders += [
                folder.parent for folder in self.tables.values() if isinstance(folder, Path)
            ][:1]
            recipe = replace(
                recipe, files=_beside(recipe, self.manifest.get("sources", {}), folders)
            )
        # Worker processes import the module that a recipe's name refers to.
        return (
            replace(recipe, name=recipe.suite.name)
            if is_python(recipe.name) or is_yaml(recipe.name)
            else recipe
        )


def _check_stamps(stamps: Sequence[shards.Stamp | None], stated: str, files: str) -> None:
    """Reject shards whose own digests differ from the manifest's. Files rewritten by other tools
    have no digests.
    """
    blocks: list[str] = []
    for stamp in stamps:
        if stamp is None:
            return
        blocks += stamp.blocks
    if split_digest(blocks) != stated:
        raise DataError(
            f"{files} are of another dataset than the manifest; load it again, or make it again"
        )


def _beside(recipe: Recipe, sources: Mapping[str, str], folders: Sequence[Path]) -> dict[str, str]:
    """Files found in one of the folders, if those found from the working folder are not the ones
    that made the dataset.
    """
    places = {}
    for name in recipe.file_names():
        here = recipe.find_file(name)
        stated = sources.get(name, sources.get(here.name))
        if here.exists() and (stated is None or _is_file_of(here, stated)):
            continue
        beside = [folder / name for folder in folders if (folder / name).exists()]
        same = [path for path in beside if stated is not None and _is_file_of(path, stated)]
        if beside:
            places[name] = str((same or beside)[0].resolve())
    return places


def _is_file_of(path: Path, stated: str) -> bool:
    return path.is_file() and digest(path.read_bytes()) == stated


def _placed(recipe: Recipe, file: Path) -> dict[str, str]:
    """Location of a file named in a recipe's fields: the user's file, if the names agree."""
    if not file.exists():
        raise ParameterError("task", f"names {file}, which is not there")
    names = recipe.file_names()
    matching = [name for name in names if Path(name).name == file.name]
    if not matching:
        known = f"; the dataset was made with {', '.join(names)}" if names else ""
        raise ParameterError("task", f"names {file}, which the dataset was not made with{known}")
    return dict.fromkeys(matching, str(file.resolve()))


def load(folder: str | Path | ObjectPath) -> Dataset:
    """Load a dataset written by `make`, also from an object store (`s3://BUCKET/FOLDER`), or a
    folder without a manifest: `SPLIT/*.parquet`, `SPLIT.parquet`, `.jsonl`, `.csv`.
    """
    folder = shards.place_of(folder)
    if isinstance(folder, ObjectPath):
        manifest = read_manifest(folder / MANIFEST)
        return Dataset(manifest, dict.fromkeys(manifest["splits"], folder))
    path = folder / MANIFEST
    refuse_special(path)
    if not path.is_file():
        tables = read_foreign(folder)
        entries = {
            name: {"n": table.num_rows, "role": role_of(name)} for name, table in tables.items()
        }
        return Dataset(
            {"format": FORMAT, "recipe": {"name": str(folder)}, "digest": "", "splits": entries},
            tables,
        )
    manifest = read_manifest(path)
    return Dataset(manifest, dict.fromkeys(manifest["splits"], folder))


def read_manifest(path: Path | ObjectPath) -> dict[str, Any]:
    """Read and validate a manifest."""
    try:
        manifest = json.loads(path.read_bytes().decode("utf-8"))
        if (known := manifest["format"]) != FORMAT:
            raise DataError(
                f"{path} has format {echo(known)}, this taskloom reads format {FORMAT}; make the"
                " dataset again"
            )
        for key, kind in {
            "recipe": dict,
            "recipe_digest": str,
            "seed": int,
            "digest": str,
            "splits": dict,
        }.items():
            if not isinstance(manifest[key], kind) or isinstance(manifest[key], bool):
                raise TypeError(f"'{key}' is {echo(manifest[key])}")
        for key, kind in {"sources": dict, "describe": str, "scorer": str, "tasks_by": str}.items():
            if not isinstance(manifest.get(key, kind()), kind):
                raise TypeError(f"'{key}' is {echo(manifest[key])}")
        if not manifest["splits"]:
            raise ValueError("it has no splits")
        if isinstance(path, ObjectPath):
            _list_shards(manifest["splits"])
        for name, split in manifest["splits"].items():
            _check_entry(name, split)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path} is not a Taskloom manifest ({type(error).__name__}: {error}); make the dataset"
            " again"
        ) from error
    return dict(manifest)


def _check_entry(name: str, split: Any) -> None:
    """Check the manifest's entry for one split: its role, its size, and that its files are in the
    split's own folder.
    """
    if split["role"] not in ("train", "test", "probe") or not _is_count(split["n"]):
        raise ValueError(f"a split with the role {echo(split['role'])} and {echo(split['n'])} rows")
    if not isinstance(split["digest"], str):
        raise TypeError(f"the digest of split {echo(name)} is {echo(split['digest'])}")
    for shard in split["shards"]:
        if not isinstance(shard["file"], str) or not _is_count(shard["rows"]):
            raise TypeError(f"a shard {echo(shard['file'])} with {echo(shard['rows'])} rows")
        folder, _, file = shard["file"].partition("/")
        if folder != name or name in (".", "..") or "/" in file or not file.endswith(".parquet"):
            raise ValueError(
                f"a shard {echo(shard['file'])} that is not a file of split {echo(name)}"
            )


def _list_shards(splits: Mapping[str, Any]) -> None:
    """List the shards of splits in an object store. The manifest states only their size, so that it
    stays small for any number of shards.
    """
    total = 0
    for name, split in splits.items():
        n, rows = split["n"], split["shards"]
        if not _is_count(rows):
            continue
        if not _is_count(n) or rows < 1:
            raise ValueError(f"split {echo(name)} has {echo(n)} rows in shards of {rows}")
        total += -(-n // rows)
        if total > MOST_SHARDS:
            raise ValueError(f"it has more than {MOST_SHARDS:,} shards")
        split["shards"] = [
            {"file": shard_file(name, number), "rows": min(rows, n - start)}
            for number, start in enumerate(range(0, n, rows))
        ]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def split_digest(blocks: list[str]) -> str:
    """Digest of a split, given the digests of its blocks."""
    return digest("\n".join(blocks))


def content_digest(splits: Mapping[str, Mapping[str, Any]]) -> str:
    """Digest of a dataset, given names, sizes and digests of its splits."""
    return json_digest([[name, entry["n"], entry["digest"]] for name, entry in splits.items()])


def split_names(names: list[str]) -> dict[str, str]:
    """Names of splits for other tools, which need identifiers and reserve `all`.

    >>> split_names(["train", "ood-long", "all"])
    {'train': 'train', 'ood-long': 'ood_long', 'all': 'any'}
    """
    return {name: "any" if name == "all" else name.replace("-", "_") for name in names}


def dataset_dict(tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> DatasetDict:
    """Build a `DatasetDict` of some splits, with the recipe's description and digest in its info.

    Args:
        tables: Rows by split. Empty splits are left out, because the library does not support them.
        manifest: Manifest of the dataset.
    """
    try:
        from datasets import Dataset as Table
        from datasets import DatasetDict, DatasetInfo, Features
    except ImportError:
        raise MissingExtra("a Hugging Face dataset", "datasets", "hf") from None
    recipe, digest = manifest["recipe"], manifest["digest"]
    about = (
        f"{recipe.get('name', '')}, seed {manifest.get('seed', '-')}, digest {digest}."
        f" {recipe.get('describe', '')}".strip()
    )
    names = split_names(list(tables))
    splits = {}
    for name, table in tables.items():
        if table.num_rows:
            info = DatasetInfo(description=about, features=Features.from_arrow_schema(table.schema))
            splits[names[name]] = Table(table, info=info)
    return DatasetDict(splits)


MOST_SHARDS = 1_000_000
"""Maximum number of shards of a dataset, which fit into memory as a list."""

SHARD_ROWS = 4_000
"""Default number of rows in a shard, unless the plan sets one."""


def origin_of(recipe: str, sources: Mapping[str, str]) -> str:
    """Origin stamped into shards: the recipe's digest, and the digests of external resources when
    they were made.
    """
    if not sources:
        return recipe
    return json_digest([recipe, dict(sources)])


def shard_file(split: str, number: int) -> str:
    """Path of a shard inside a dataset's folder."""
    return f"{split}/{number:05d}.parquet"


def write_tables(folder: Path, manifest: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
    """Write an in-memory dataset to a new folder: the same files as `make`, or plain Parquet for
    data from elsewhere.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} already exists; a dataset is saved to a new or empty folder")
    if "recipe_digest" not in manifest:
        write_foreign(folder, tables)
        return
    origin = origin_of(manifest["recipe_digest"], manifest["sources"])
    entries = {}
    for split, table in tables.items():
        written = []
        for number, start in enumerate(range(0, table.num_rows, SHARD_ROWS)):
            file = shard_file(split, number)
            part = table.slice(start, SHARD_ROWS)
            shards.write(folder / file, part, origin, manifest["seed"], split, start)
            written.append(
                {"file": file, "rows": part.num_rows, "bytes": (folder / file).stat().st_size}
            )
        entries[split] = {**manifest["splits"][split], "shards": written}
    write_beside(folder, {**manifest, "splits": entries})


def write_foreign(folder: Path, tables: Mapping[str, pa.Table]) -> None:
    """Write splits from elsewhere, which have no recipe and so no manifest."""
    import pyarrow.parquet as pq

    for split, table in tables.items():
        with atomic(folder / f"{split}.parquet") as beside:
            pq.write_table(table, beside)


def write_beside(folder: Path | ObjectPath, manifest: dict[str, Any]) -> None:
    """Write the dataset card and then the manifest, which marks the dataset as complete."""
    _write_text(folder / "README.md", _card(manifest))
    _write_text(folder / shards.MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")


def _write_text(path: Path | ObjectPath, text: str) -> None:
    if isinstance(path, ObjectPath):
        path.write_bytes(text.encode())
        return
    with atomic(path) as beside:
        beside.write_text(text, encoding="utf-8")


def _card(manifest: dict[str, Any]) -> str:
    """Write a dataset card. Its header lets `datasets.load_dataset(FOLDER)` find the splits; the
    rest is documentation.
    """
    lines = ["---", "configs:", "- config_name: default", "  data_files:"]
    for name, entry in manifest["splits"].items():
        if entry["n"]:
            # Hugging Face split names must be identifiers, and 'all' is reserved.
            lines += [
                f"  - split: {'any' if name == 'all' else name.replace('-', '_')}",
                f"    path: {name}/*.parquet",
            ]
    recipe, seed = manifest["recipe"], manifest["seed"]
    name = recipe.get("task") or recipe["name"]
    describe = recipe.get("describe") or manifest.get("describe", "")
    lines += ["---", "", f"# {name}, seed {seed}", "", describe, ""]
    lines += ["| split | examples | role | what |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {n} | {e['n']:,} | {e['role']} | {e['describe']} |"
        for n, e in manifest["splits"].items()
    ]
    if sources := manifest["sources"]:
        lines += [
            "",
            "Made from:",
            *(f"- {source}, digest `{digest}`" for source, digest in sources.items()),
        ]
    lines += [
        "",
        (
            f"Content digest `{manifest['digest']}`. `manifest.json` holds the full recipe; made by"
            " Taskloom."
        ),
        "",
    ]
    return "\n".join(lines)
