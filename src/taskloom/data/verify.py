"""Verifying a dataset: its bytes against its manifest, and its answers by the task's independent second solver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from taskloom.core import shards
from taskloom.core.arguments import path_of, whole
from taskloom.core.arrow import numbers
from taskloom.core.descriptions import UNSEEN, task_column
from taskloom.core.errors import DataError, TaskloomError
from taskloom.core.example import Example
from taskloom.core.files import digest
from taskloom.core.plan import Plan
from taskloom.core.seeding import Key
from taskloom.data import Dataset, dataset
from taskloom.data.foreign import refuse_unfinished
from taskloom.recipe import Recipe
from taskloom.recipe.recipe import ChangedCodeError, MissingFileError, UnknownCodeError

SAMPLE = 1_000
"""Answers checked per split unless all are asked for."""

TOGETHER = 1_000
"""Neighbouring rows that are made again at once: one by one they take nearly twice as long, and all would fill the memory."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """An answer that the second solver does not confirm."""

    split: str
    index: int
    input: str
    stored: tuple[str, ...]
    solved: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found.

    Attributes:
        digest: The content digest, recomputed from the rows and equal to the manifest's.
        rows: Rows whose bytes were checked.
        answers: Answers that were derived again.
        method: `second solver`, or `regeneration` for tasks that have none; empty where no answer was derived.
        wrong: Answers that came out differently.
        unchecked: Why no answer was derived, where the code that made the dataset is not known.
    """

    digest: str
    rows: int
    answers: int
    method: str
    wrong: tuple[Wrong, ...]
    unchecked: str = ""

    @property
    def ok(self) -> bool:
        """Return whether every answer that was derived again is the stored one."""
        return not self.wrong

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def verify(
    data: str | Path | Dataset,
    *,
    every: bool = False,
    sample: int = SAMPLE,
    task: str | Path | None = None,
) -> Verification:
    """Check a dataset: digests of every row, the recipe's own digest, and a sample of the answers (or all of them).

    Args:
        data: The dataset's folder, or a dataset of `make` or `load`.
        every: Derive every answer again, not a sample.
        sample: Answers of each split that are derived again.
        task: The Python file that defines the dataset's task or suite, or the file of one's own that its recipe names, such as a
            domain. Without it, a dataset of a task that is not known in this process, or of a file that is not found, has only its
            bytes checked: a Python file that a manifest names is never imported.
    """
    sample = whole(sample, "sample")
    folder, data = _opened(data)
    rows = _check_bytes(data, folder)
    try:
        recipe = data.recipe_by(task)
    except UnknownCodeError as error:
        if task is not None:
            raise DataError(
                f"{folder}: {task} does not define what made the dataset; name the file that does"
            ) from error
        return Verification(data.digest, rows, 0, "", (), str(error))
    except ChangedCodeError as error:
        what = str(error).removeprefix("the manifest: ")
        raise DataError(f"{folder}: its bytes are those of the manifest, but {what}") from error
    if recipe.digest != data.manifest["recipe_digest"]:
        raise DataError(
            f"{folder}: the manifest's recipe has digest {recipe.digest}, not {data.manifest['recipe_digest']}: it was edited"
        )
    _check_files(data, recipe, folder)
    try:
        plan = recipe.plan(data.manifest["seed"])
    except DataError as error:
        raise DataError(
            f"{folder}: its bytes are those of the manifest, but its answers cannot be derived again: {error}"
        ) from error
    except TaskloomError:
        if not recipe.missing_files():
            raise
        return Verification(
            data.digest, rows, 0, "", (), str(MissingFileError(recipe.missing_files()[0]))
        )
    _check_plan(data, plan, folder)
    _check_unseen(data, folder)
    wrong: list[Wrong] = []
    answers = 0
    for split in data.splits:
        chosen = _chosen(data, split, every, sample)
        answers += len(chosen)
        wrong += _check_answers(data, plan, split, chosen, folder)
    method = "second solver" if plan.check else "regeneration"
    return Verification(data.digest, rows, answers, method, tuple(wrong))


def _opened(data: str | Path | Dataset) -> tuple[Path, Dataset]:
    """Return a dataset and its folder; of one in memory, its name in the folder's place."""
    if isinstance(data, Dataset):
        if "recipe_digest" not in data.manifest:
            raise DataError(
                f"{data!r} has no manifest; verify checks datasets made by 'taskloom make'"
            )
        name = Path(str(data.manifest["recipe"].get("name", "the dataset")))
        return next(
            (place for place in data.tables.values() if isinstance(place, Path)), name
        ), data
    folder = path_of(data)
    if not folder.exists():
        raise DataError(
            f"there is no folder {folder}; verify checks datasets made by 'taskloom make', and folders of runs"
        )
    if not (folder / dataset.MANIFEST).is_file():
        refuse_unfinished(folder, folder.glob("*/*.parquet"))
        raise DataError(
            f"{folder} has no {dataset.MANIFEST}; verify checks datasets made by 'taskloom make', audit those of anybody"
        )
    return folder, dataset.load(folder)


def _check_files(data: Dataset, recipe: Recipe, folder: Path) -> None:
    """Check that the files that the recipe names are those that made the dataset, before anything is read from them."""
    sources = data.manifest.get("sources", {})
    for name in recipe.file_names():
        path = recipe.find_file(name)
        stated = sources.get(name, sources.get(path.name))
        if stated is not None and path.is_file() and digest(path.read_bytes()) != stated:
            raise _changed(folder, f"the file {path}")


def _changed(folder: Path, source: str) -> DataError:
    """Return the refusal of a dataset of which a source is no longer what it was, so that no answer can be derived again."""
    return DataError(
        f"{folder}: its bytes are those of the manifest, but {source} has changed since the dataset was made; "
        "bring it back as it was, or make the dataset again in another folder"
    )


def _check_plan(data: Dataset, plan: Plan, folder: Path) -> None:
    """Check the manifest's sources, splits and scorer against the recipe."""
    now = {source.name: source.digest for source in plan.sources}
    if changed := [
        name
        for name, digest in data.manifest.get("sources", {}).items()
        if now.get(name, digest) != digest
    ]:
        raise _changed(folder, changed[0])
    stated = {name: (entry["n"], entry["role"]) for name, entry in data.manifest["splits"].items()}
    if stated != {split.name: (split.n, split.role) for split in plan.splits}:
        raise DataError(
            f"{folder}: the manifest's splits are not those of its recipe: it was edited; make it again"
        )
    if data.manifest.get("scorer") != plan.scorer.name:
        raise DataError(
            f"{folder}: the manifest's scorer is not that of its recipe: it was edited; make it again"
        )


def _check_unseen(data: Dataset, folder: Path) -> None:
    """Check that no training row of a described dataset has a task that was to be unseen."""
    for split in data.splits:
        if data.role(split) != "train":
            continue
        for table in _stored_tables(data, split, folder):
            if not _has_trait(table, UNSEEN):
                break  # the columns of one shard are those of all
            if pc.any(task_column(table, UNSEEN)).as_py():
                raise DataError(
                    f"{folder}: split '{split}' has a task that training should lack; make it again"
                )


def _has_trait(table: pa.Table, name: str) -> bool:
    return "traits" in table.column_names and any(
        field.name == name for field in table.column("traits").type
    )


def _check_bytes(data: Dataset, folder: Path) -> int:
    rows = 0
    entries: dict[str, dict[str, Any]] = {}
    for name, entry in data.manifest["splits"].items():
        blocks: list[str] = []
        for table in _stored_tables(data, name, folder):
            try:
                blocks += shards.block_digests(table)
            except DataError as error:
                raise DataError(f"{folder}: split '{name}': {error}") from None
            rows += table.num_rows
        digest = dataset.split_digest(blocks)
        if digest != entry["digest"]:
            raise DataError(
                f"{folder}: the rows of split '{name}' are not those of the manifest (digest {digest}); make it again"
            )
        entries[name] = {"n": entry["n"], "digest": digest}
    if dataset.content_digest(entries) != data.digest:
        raise DataError(
            f"{folder}: the manifest's content digest does not follow from its splits; make it again"
        )
    return rows


def _stored_tables(data: Dataset, split: str, folder: Path) -> Iterator[pa.Table]:
    """Yield the rows of a split: its table in memory, or its shards one by one, each with the number of rows that is stated."""
    if isinstance(data.tables[split], pa.Table):
        yield data.tables[split]
        return
    stated = data.manifest["splits"][split]["shards"]
    extra = {p.name for p in (folder / split).glob("*.parquet")} - {
        Path(s["file"]).name for s in stated
    }
    if extra:
        raise DataError(
            f"{folder / split} holds {sorted(extra)[0]}, which the manifest does not know; remove it"
        )
    for shard in stated:
        table = shards.read(folder / shard["file"])
        if table.num_rows != shard["rows"]:
            raise DataError(
                f"{folder / shard['file']} has {table.num_rows} rows, its manifest says {shard['rows']}; make it again"
            )
        yield table


def _chosen(data: Dataset, split: str, every: bool, sample: int) -> NDArray[np.int64]:
    """Return the rows of a split whose answers are derived again, in order."""
    n = int(data.manifest["splits"][split]["n"])
    if every or n <= sample:
        return np.arange(n)
    order = Key("verify", data.digest).permutation(n, split)
    return np.sort(order(np.arange(sample)).astype(np.int64))


def _check_answers(
    data: Dataset, plan: Plan, split: str, chosen: NDArray[np.int64], folder: Path
) -> Iterator[Wrong]:
    """Yield the wrong answers among the chosen rows; one shard is in memory at a time."""
    start = 0
    for table in _stored_tables(data, split, folder):
        stop = start + table.num_rows
        rows = chosen[slice(*np.searchsorted(chosen, [start, stop]))]
        sampled = table if len(rows) == table.num_rows else table.take(numbers(rows - start))
        examples = shards.to_examples(sampled)
        answers = (
            _made_again(plan, split, rows, examples)
            if plan.check is None
            else _solved(plan, examples)
        )
        for index, (example, solved) in zip(rows.tolist(), answers, strict=True):
            if solved != example.targets and sorted(solved) != sorted(example.targets):
                yield Wrong(split, index, example.input, example.targets, solved)
        start = stop


Answered = tuple[Example, tuple[str, ...]]
"""An example, and its answer derived again, or why there is none."""


def _solved(plan: Plan, examples: Iterable[Example]) -> Iterator[Answered]:
    """Yield examples with their answers by the second solver."""
    assert plan.check is not None
    for example in examples:
        try:
            yield example, tuple(plan.check(example))
        except DataError:
            raise  # A file or a server that is not there proves nothing about the answer.
        except TaskloomError as error:
            yield example, (f"no answer: {error}",)


def _made_again(
    plan: Plan, split: str, rows: NDArray[np.int64], examples: Iterable[Example]
) -> Iterator[Answered]:
    """Yield examples with their answers as the plan makes them again, neighbours together."""
    stored = iter(examples)
    ends = np.flatnonzero((np.diff(rows) != 1) | (np.arange(1, len(rows)) % TOGETHER == 0)) + 1
    for block in np.split(rows, ends) if len(rows) else ():
        start, stop = int(block[0]), int(block[-1]) + 1
        remade: list[Example | str]
        try:
            remade = [*_rows(plan, split, start, stop)]
        except DataError:
            raise
        except TaskloomError:
            remade = [_row(plan, split, index) for index in range(start, stop)]
        for again, example in zip(remade, stored, strict=False):
            if isinstance(again, str):
                yield example, (f"no answer: {again}",)
            else:
                yield (
                    example,
                    again.targets
                    if again.input == example.input
                    else (f"another input: {again.input}",),
                )


def _rows(plan: Plan, split: str, start: int, stop: int) -> list[Example]:
    """Make rows again, as they would be written and read."""
    return list(
        shards.to_examples(shards.to_table(plan.split(split).rows(start, stop), start, plan.traits))
    )


def _row(plan: Plan, split: str, index: int) -> Example | str:
    """Make a row again; where it cannot be made, say why."""
    try:
        return _rows(plan, split, index, index + 1)[0]
    except DataError:
        raise
    except TaskloomError as error:
        return str(error)
