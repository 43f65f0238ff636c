"""Verify a dataset: its bytes against its manifest, its answers with the task's independent second
solver, and its rows by regeneration.

Rows are a pure function of recipe, seed, split and index, so a regenerated row must equal the
stored one in every column. The second solver shares no code with the generator, so it catches wrong
rules, which regeneration would only repeat.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import taskloom
from taskloom.core import shards
from taskloom.core.arrow import numbers, strings
from taskloom.core.descriptions import UNSEEN, task_column
from taskloom.core.errors import DataError, TaskloomError, whole
from taskloom.core.example import Example
from taskloom.core.files import digest, refuse_special
from taskloom.core.object_store import ObjectPath
from taskloom.core.plan import Plan
from taskloom.core.progress import ShowProgress, WorkCounter, shown
from taskloom.core.seeding import Key
from taskloom.data import Dataset, dataset
from taskloom.data.export import json_lines
from taskloom.data.foreign import refuse_unfinished
from taskloom.data.workers import table_of
from taskloom.recipe import Recipe
from taskloom.recipe.recipe import ChangedCodeError, MissingFileError, UnknownCodeError

SAMPLE = 1_000
"""Default number of rows to prove in each split."""

RUN = 20
"""Length of a run of neighbouring rows in the sample. One row takes 3 ms and 20 hardly longer, so a
sample of single rows would take 20 times as long without finding more scattered alterations.
"""

TOGETHER = 4_000
"""Maximum rows regenerated at once, because all rows of a split could fill the memory."""

NAMED = 20
"""Maximum differing rows that are listed. The others are only counted."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """An answer that the second solver does not confirm."""

    split: str
    index: int
    input: str
    stored: tuple[str, ...]
    solved: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A stored row that differs from the regenerated one.

    Attributes:
        split: The split that has the row.
        index: Index in the split, from 0.
        columns: Columns that differ. Traits are `traits.NAME`.
        stored: Values of these columns in the dataset.
        made: Values in the regenerated row.
        note: Details: which row it is a copy of, whether the correct row is missing from the
            dataset, or why the row cannot be regenerated.
    """

    split: str
    index: int
    columns: tuple[str, ...]
    stored: dict[str, Any]
    made: dict[str, Any]
    note: str = ""

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        if not self.columns:
            return f"{self.split} {self.index}{note}"
        first = self.columns[0]
        values = f"{first} is {_short(self.stored[first])}, made again {_short(self.made[first])}"
        others = f"; also {', '.join(self.columns[1:])}" if len(self.columns) > 1 else ""
        return f"{self.split} {self.index}: {values}{others}{note}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of `verify`.

    Attributes:
        digest: Content digest, recomputed from the rows and equal to the manifest's.
        rows: Number of rows whose bytes were checked.
        answers: Number of answers that were derived again.
        method: `second solver`, or `regeneration` for tasks that have none; empty if no answer was
            derived.
        wrong: Answers that differ from the stored ones.
        unchecked: Why no answer was derived; empty if the code that made the dataset is known.
        remade: Number of rows that were regenerated from recipe and seed, and compared column by
            column.
        differing: Number of rows that differ from the regenerated ones.
        columns: Number of differing rows by column.
        differences: The first differing rows.
        unproved: Why no row was regenerated. Empty if rows were.
        misstated: Statements in the manifest or in JSONL files that contradict the recipe or the
            rows, in sentences. Checked only if every row is proved.
    """

    digest: str
    rows: int
    answers: int
    method: str
    wrong: tuple[Wrong, ...]
    unchecked: str = ""
    remade: int = 0
    differing: int = 0
    columns: dict[str, int] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()
    unproved: str = ""
    misstated: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if everything derived again agrees with the dataset."""
        return not self.wrong and not self.differing and not self.misstated

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        return {"ok": self.ok, **asdict(self)}

    def lines(self) -> Iterator[str]:
        """Yield the result as sentences, one per line."""
        yield f"{self.rows:,} rows have the bytes of the manifest (content digest {self.digest})"
        if self.unchecked:
            yield f"no answer was derived again, and no row was made again: --{self.unchecked}"
            return
        if self.method:
            differ = f"{len(self.wrong)} differ"
            yield f"{self.answers:,} answers derived again by {self.method}: {differ}"
        for wrong in self.wrong[:10]:
            yield (
                f"  {wrong.split} {wrong.index}: {wrong.input!r} has {list(wrong.stored)}, solved"
                f" {list(wrong.solved)}"
            )
        if self.unproved:
            yield f"no row was made again, so only the answers are proved: {self.unproved}"
            return
        what = f"{self.remade:,} rows made again and compared in every column"
        yield f"{what}: {self.differing} differ{self._by_column()}"
        for difference in self.differences:
            yield f"  {difference}"
        if self.differing > len(self.differences):
            yield f"  and {self.differing - len(self.differences):,} more"
        yield from self.misstated

    def _by_column(self) -> str:
        if not self.columns:
            return ""
        return f" ({', '.join(f'{name} in {n:,}' for name, n in self.columns.items())})"


def verify(
    data: str | Path | ObjectPath | Dataset,
    *,
    every: bool = False,
    sample: int = SAMPLE,
    task: str | Path | None = None,
    progress: ShowProgress | bool | None = None,
) -> Verification:
    """Check a dataset: digests of every row, the recipe's own digest, and a sample of the rows (or
    all of them).

    The second solver derives the answers of these rows again. The rows are also regenerated from
    the recipe and the seed, and compared in every column.

    Args:
        data: Folder of the dataset, its address in an object store (`s3://BUCKET/FOLDER`), or a
            dataset from `make` or `load`.
        every: Prove every row instead of a sample.
        sample: Number of rows to prove in each split.
        task: Python file that defines the dataset's task or suite, or a user file that its recipe
            names, such as a domain. Without it, only the bytes are checked if the task is not
            registered in this process or a file is missing: a Python file named by a manifest is
            never imported.
        progress: True to show progress: a bar on a terminal, a line in a notebook or a log.
            Default: only in notebooks. Or a function that is called after each part.
    """
    sample = whole(sample, "sample")
    folder, data = _opened(data)
    sizes = [int(entry["n"]) for entry in data.manifest["splits"].values()]
    proved = sum(sizes) if every else sum(min(size, sample) for size in sizes)
    with shown(progress) as show:
        # Every row is read once for its digest, and the proved ones once more.
        counter = WorkCounter(sum(sizes) + proved, show)
        return _verified(data, folder, every, sample, task, counter)


def _verified(
    data: Dataset,
    folder: Path | ObjectPath,
    every: bool,
    sample: int,
    task: str | Path | None,
    counter: WorkCounter,
) -> Verification:
    rows = _check_bytes(data, folder, counter)
    unproved = ""
    try:
        recipe = data.recipe_by(task)
    except UnknownCodeError as error:
        if task is not None:
            raise DataError(
                f"{folder}: {task} does not define what made the dataset; name the file that does"
            ) from error
        return Verification(data.digest, rows, 0, "", (), str(error))
    except ChangedCodeError as error:
        unproved = str(error).removeprefix("the manifest: ")
        other = _recipe_of_other_version(data, task)
        if other is None:
            raise DataError(
                f"{folder}: its bytes are those of the manifest, but {unproved}"
            ) from error
        recipe = other
    if recipe.digest != data.manifest["recipe_digest"]:
        raise DataError(
            f"{folder}: the manifest's recipe has digest {recipe.digest}, not"
            f" {data.manifest['recipe_digest']}: it was edited"
        )
    _check_files(data, recipe, folder)
    try:
        plan = recipe.plan(data.manifest["seed"])
    except DataError as error:
        raise DataError(
            f"{folder}: its bytes are those of the manifest, but its answers cannot be derived"
            f" again: {error}"
        ) from error
    except TaskloomError:
        if not recipe.missing_files():
            raise
        return Verification(
            data.digest, rows, 0, "", (), str(MissingFileError(recipe.missing_files()[0]))
        )
    _check_plan(data, plan, folder)
    _check_unseen(data, folder)
    proof = _Proof(plan, make_again=not unproved)
    for split in data.splits:
        chosen = _chosen(data, split, every, sample)
        for indexes, table in _chosen_rows(data, split, chosen, folder):
            proof.check(split, indexes, table)
            counter.add(split, len(indexes))
    if proof.differences:
        proof.trace(
            (split, table) for split in data.splits for table in _stored_tables(data, split, folder)
        )
    return Verification(
        data.digest,
        rows,
        proof.answers,
        proof.method,
        tuple(proof.wrong),
        "",
        proof.remade,
        proof.differing,
        dict(proof.columns.most_common()),
        tuple(proof.differences),
        unproved,
        tuple(_misstated(data, plan, folder)) if every and not unproved else (),
    )


def _misstated(data: Dataset, plan: Plan, folder: Path | ObjectPath) -> Iterator[str]:
    """Yield statements in the manifest or in JSONL files that contradict the recipe or the rows.
    Datasheets, scores and other tools read these instead of the rows.
    """
    manifest = data.manifest
    derived: dict[str, Any] = {"tasks_by": plan.tasks.by, "facts": dict(plan.facts)}
    # Another version of Taskloom may word its texts differently.
    same_version = manifest.get("versions", {}).get("taskloom") == taskloom.__version__
    if same_version:
        derived["describe"] = plan.describe
        derived["warnings"] = list(plan.warnings)
        derived["left_out"] = dict(plan.left_out)
    yield from _contradictions("", manifest, derived)
    for split in data.splits:
        counts = shards.merge_counts(map(shards.counts, _stored_tables(data, split, folder)))
        derived = {"counts": counts}
        if same_version:
            derived["describe"] = plan.split(split).describe
        yield from _contradictions(f"splits.{split}.", manifest["splits"][split], derived)
        path = folder / f"{split}.jsonl"
        if not isinstance(path, Path):  # an object store holds no copies of the rows
            continue
        if path.is_file() and not _has_lines(path, _stored_tables(data, split, folder)):
            yield f"{path} does not have the rows of split '{split}'"


def _contradictions(
    where: str, stated: Mapping[str, Any], derived: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the statements of a manifest that are present but wrong."""
    for name, value in json.loads(json.dumps(derived)).items():
        # Facts are measured, and their last digit may depend on the version of NumPy.
        if name in stated and not _close(stated[name], value):
            yield (
                f"the manifest's {where}{name} is {_short(stated[name])}; the recipe and the rows"
                f" give {_short(value)}"
            )


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_close(one[k], other[k]) for k in one)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return _same(one, other)


def _has_lines(path: Path, tables: Iterable[pa.Table]) -> bool:
    """True if a file contains exactly these rows as JSON lines."""
    with path.open("rb") as file:
        for table in tables:
            for lines in json_lines(table):
                if file.read(len(lines)) != lines:
                    return False
        return not file.read(1)


def _recipe_of_other_version(data: Dataset, task: str | Path | None) -> Recipe | None:
    """Return the recipe of a dataset made by another version of one of our suites, under that
    version. None if other code has changed.

    The version is part of the key of random tables, so the second solver needs it.
    """
    stated = dict(data.manifest["recipe"])
    then = stated.pop("version", None)
    try:
        now = replace(data, manifest={**data.manifest, "recipe": stated}).recipe_by(task)
    except ChangedCodeError:
        return None
    if now.suite.module.split(".")[0] != "taskloom":
        return None
    suite = copy(now.suite)
    suite.version = then
    return replace(now, suite=suite)


def _opened(
    data: str | Path | ObjectPath | Dataset,
) -> tuple[Path | ObjectPath, Dataset]:
    """Open a dataset and return it with its folder. For an in-memory dataset, its name replaces the
    folder.
    """
    if isinstance(data, Dataset):
        if "recipe_digest" not in data.manifest:
            raise DataError(
                f"{data!r} has no manifest; verify checks datasets made by 'taskloom make'"
            )
        name = Path(str(data.manifest["recipe"].get("name", "the dataset")))
        return (
            next((p for p in data.tables.values() if not isinstance(p, pa.Table)), name),
            data,
        )
    folder = shards.place_of(data)
    if isinstance(folder, ObjectPath):
        return folder, dataset.load(folder)
    if not folder.exists():
        raise DataError(
            f"there is no folder {folder}; verify checks datasets made by 'taskloom make', and"
            " folders of runs"
        )
    refuse_special(folder / dataset.MANIFEST)
    if not (folder / dataset.MANIFEST).is_file():
        refuse_unfinished(folder, folder.glob("*/*.parquet"))
        raise DataError(
            f"{folder} has no {dataset.MANIFEST}; verify checks datasets made by 'taskloom make',"
            " audit any dataset"
        )
    return folder, dataset.load(folder)


def _check_files(data: Dataset, recipe: Recipe, folder: Path | ObjectPath) -> None:
    """Check that the files named by the recipe are those that made the dataset, before anything is
    read from them.
    """
    sources = data.manifest.get("sources", {})
    for name in recipe.file_names():
        path = recipe.find_file(name)
        stated = sources.get(name, sources.get(path.name))
        if stated is not None and path.is_file() and digest(path.read_bytes()) != stated:
            raise _changed(folder, f"the file {path}")


def _changed(folder: Path | ObjectPath, source: str) -> DataError:
    """Error for a dataset whose sources have changed, so that answers cannot be derived again."""
    return DataError(
        f"{folder}: its bytes are those of the manifest, but {source} has changed since the dataset"
        " was made; bring it back as it was, or make the dataset again in another folder"
    )


def _check_plan(data: Dataset, plan: Plan, folder: Path | ObjectPath) -> None:
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
            f"{folder}: the manifest's splits are not those of its recipe: it was edited; make it"
            " again"
        )
    if data.manifest.get("scorer") != plan.scorer.name:
        raise DataError(
            f"{folder}: the manifest's scorer is not that of its recipe: it was edited; make it"
            " again"
        )


def _check_unseen(data: Dataset, folder: Path | ObjectPath) -> None:
    """Check that no training row of a described dataset belongs to a withheld task."""
    for split in data.splits:
        if data.role(split) != "train":
            continue
        for table in _stored_tables(data, split, folder):
            if not _has_trait(table, UNSEEN):
                break  # all shards have the same columns
            if pc.any(task_column(table, UNSEEN)).as_py():
                raise DataError(
                    f"{folder}: split '{split}' has a task withheld from training; make it again"
                )


def _has_trait(table: pa.Table, name: str) -> bool:
    return "traits" in table.column_names and any(
        field.name == name for field in table.column("traits").type
    )


def _check_bytes(data: Dataset, folder: Path | ObjectPath, counter: WorkCounter) -> int:
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
            counter.add(name, table.num_rows)
        digest = dataset.split_digest(blocks)
        if digest != entry["digest"]:
            raise DataError(
                f"{folder}: the rows of split '{name}' are not those of the manifest (digest"
                f" {digest}); make it again"
            )
        entries[name] = {"n": entry["n"], "digest": digest}
    if dataset.content_digest(entries) != data.digest:
        raise DataError(
            f"{folder}: the manifest's content digest does not follow from its splits; make it"
            " again"
        )
    return rows


def _stored_tables(data: Dataset, split: str, folder: Path | ObjectPath) -> Iterator[pa.Table]:
    """Yield the rows of a split with the expected number of rows: the table in memory, or the
    shards one by one.
    """
    if isinstance(data.tables[split], pa.Table):
        yield shards.check_form(data.tables[split], folder / split)
        return
    stated = data.manifest["splits"][split]["shards"]
    extra = {p.name for p in (folder / split).glob("*.parquet")} - {
        Path(s["file"]).name for s in stated
    }
    if extra:
        raise DataError(
            f"{folder / split} holds {sorted(extra)[0]}, which the manifest does not know;"
            " remove it"
        )
    for shard in stated:
        table = shards.check_form(shards.read(folder / shard["file"]), folder / shard["file"])
        if table.num_rows != shard["rows"]:
            raise DataError(
                f"{folder / shard['file']} has {table.num_rows} rows, its manifest says"
                f" {shard['rows']}; make it again"
            )
        yield table


def _chosen(data: Dataset, split: str, every: bool, sample: int) -> NDArray[np.int64]:
    """Indices of the rows to prove, in order: all rows, or runs of neighbours."""
    n = int(data.manifest["splits"][split]["n"])
    if every or n <= sample:
        return np.arange(n)
    order = Key("verify", data.digest).permutation(-(-n // RUN), split)
    # One run more than needed, because the last run of a split may be short.
    runs = min(-(-n // RUN), -(-sample // RUN) + 1)
    starts = order(np.arange(runs)).astype(np.int64) * RUN
    rows = (starts[:, None] + np.arange(RUN)).ravel()
    return np.sort(rows[rows < n][:sample])


def _chosen_rows(
    data: Dataset, split: str, chosen: NDArray[np.int64], folder: Path | ObjectPath
) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
    """Yield the chosen rows of a split with their indices. One shard is in memory at a time."""
    start = 0
    for table in _stored_tables(data, split, folder):
        stop = start + table.num_rows
        rows = chosen[slice(*np.searchsorted(chosen, [start, stop]))]
        for low in range(0, len(rows), TOGETHER):
            part = rows[low : low + TOGETHER]
            first, last = int(part[0]), int(part[-1])
            if last - first + 1 == len(part):
                yield part, table.slice(first - start, len(part))
            else:
                yield part, table.take(numbers(part - start))
        start = stop


class _Proof:
    """Accumulates the answers solved again, the rows regenerated, and their differences from the
    stored ones.
    """

    def __init__(self, plan: Plan, make_again: bool = True) -> None:
        self.plan = plan
        self.make_again = make_again
        self.wrong: list[Wrong] = []
        self.answers = 0
        self.remade = 0
        self.differing = 0
        self.columns: Counter[str] = Counter()
        self.differences: list[Difference] = []

    @property
    def method(self) -> str:
        """How answers were derived again. Empty if they were not."""
        if self.plan.check is not None:
            return "second solver"
        return "regeneration" if self.make_again else ""

    def check(self, split: str, rows: NDArray[np.int64], table: pa.Table) -> None:
        """Check the stored rows at these indices of a split."""
        if self.plan.check is not None:
            answered = _solved(self.plan, shards.to_examples(table))
            self._count_answers(split, rows, answered)
        if not self.make_again:
            return
        made, lost = _made_again(self.plan, split, rows)
        if self.plan.check is None:
            answered = _answers_made(shards.to_examples(table), made, lost, rows)
            self._count_answers(split, rows, answered)
        self.remade += len(rows)
        for index, reason in lost.items():
            self._differs(Difference(split, index, (), {}, {}, f"cannot be made again: {reason}"))
        if lost:
            kept = np.array([index not in lost for index in rows.tolist()])
            rows, table = rows[kept], table.filter(numbers(kept))
        if not table.equals(made):
            self._compare(split, rows, table, made)

    def _count_answers(
        self, split: str, rows: NDArray[np.int64], answered: Iterable[Answered]
    ) -> None:
        self.answers += len(rows)
        for index, (example, solved) in zip(rows.tolist(), answered, strict=True):
            if solved != example.targets and sorted(solved) != sorted(example.targets):
                self.wrong.append(Wrong(split, index, example.input, example.targets, solved))

    def _differs(self, difference: Difference) -> None:
        self.differing += 1
        self.columns.update(difference.columns or ("row",))
        if len(self.differences) < NAMED:
            self.differences.append(difference)

    def _compare(
        self, split: str, rows: NDArray[np.int64], stored: pa.Table, made: pa.Table
    ) -> None:
        """Count the differing rows of two tables, column by column."""
        ours, theirs = _flat_columns(stored), _flat_columns(made)
        differing: dict[int, list[str]] = {}
        values: dict[str, tuple[list[Any], list[Any]]] = {}
        for name in {**theirs, **ours}:
            nothing = [None] * len(rows)
            # A column that only one side has differs in every row, even if all its values are null.
            both = name in ours and name in theirs
            if both and ours[name].equals(theirs[name]):
                continue
            have = shards.values(ours[name]) if name in ours else nothing
            want = shards.values(theirs[name]) if name in theirs else nothing
            values[name] = (have, want)
            for at, (one, other) in enumerate(zip(have, want, strict=True)):
                if not both or not _same(one, other):
                    differing.setdefault(at, []).append(name)
        for at in sorted(differing):
            names = differing[at]
            self._differs(
                Difference(
                    split,
                    int(rows[at]),
                    tuple(names),
                    {name: values[name][0][at] for name in names},
                    {name: values[name][1][at] for name in names},
                )
            )

    def trace(self, stored: Iterable[tuple[str, pa.Table]]) -> None:
        """Add notes to listed rows with another input: which row each is a copy of, and whether the
        correct row is missing from the whole dataset.
        """
        moved = [d for d in self.differences if "input" in d.columns]
        texts = {text for d in moved for text in (d.stored["input"], d.made["input"])}
        wanted = strings([text for text in texts if text is not None])
        places: dict[str, list[tuple[str, int]]] = {}
        at: Counter[str] = Counter()
        for split, table in stored:
            inputs = table.column("input")
            for place in pc.indices_nonzero(pc.is_in(inputs, wanted)).to_pylist():
                places.setdefault(inputs[place].as_py(), []).append((split, at[split] + place))
            at[split] += table.num_rows
        belongs = {d.made["input"]: (d.split, d.index) for d in moved}
        for number, one in enumerate(self.differences):
            if "input" in one.columns:
                home = belongs.get(one.stored["input"])
                self.differences[number] = replace(one, note=_note(one, places, home))


def _note(
    one: Difference, places: Mapping[str, list[tuple[str, int]]], home: tuple[str, int] | None
) -> str:
    """Describe a row whose input differs.

    Args:
        one: The row.
        places: Locations of its stored input, and of the correct input, in the dataset.
        home: Correct location of its stored input, if that row differs too.
    """
    here = (one.split, one.index)
    copies = [place for place in places.get(one.stored["input"], ()) if place != here]
    origin = home or (copies[0] if copies else None)
    notes = []
    if origin is not None:
        split, index = origin
        notes.append(f"the input is that of {split} {index}")
    if not places.get(one.made["input"]):
        notes.append("the row that belongs here is missing")
    return "; ".join(notes)


def _flat_columns(table: pa.Table) -> dict[str, Any]:
    """Columns of a table as single chunks, with every trait as a column."""
    flat = {}
    for name in table.column_names:
        joined = table.column(name).combine_chunks()
        array = joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined
        if name != "traits" or not pa.types.is_struct(array.type):
            flat[name] = array
            continue
        for trait, values in zip(array.type, array.flatten(), strict=True):
            flat[f"traits.{trait.name}"] = values
    return flat


def _same(one: Any, other: Any) -> bool:
    """True if two values are equal. NaN equals itself here, and 1 does not equal True."""
    if type(one) is not type(other):
        return False
    return bool(one == other) or (one != one and other != other)


Answered = tuple[Example, tuple[str, ...]]
"""An example, and its answer derived again or the reason why there is none."""


def _solved(plan: Plan, examples: Iterable[Example]) -> Iterator[Answered]:
    """Yield examples with their answers from the second solver."""
    assert plan.check is not None
    for example in examples:
        try:
            yield example, tuple(plan.check(example))
        except DataError:
            raise  # A missing file or an unreachable server proves nothing about the answer.
        except TaskloomError as error:
            yield example, (f"no answer: {error}",)


def _answers_made(
    examples: Iterable[Example], made: pa.Table, lost: Mapping[int, str], rows: NDArray[np.int64]
) -> Iterator[Answered]:
    """Yield examples with the answers of regenerated rows, for tasks without a second solver."""
    remade = iter(shards.to_examples(made))
    for index, example in zip(rows.tolist(), examples, strict=True):
        if index in lost:
            yield example, (f"no answer: {lost[index]}",)
            continue
        again = next(remade)
        if again.input == example.input:
            yield example, again.targets
        else:
            yield example, (f"another input: {again.input}",)


def _made_again(plan: Plan, split: str, rows: NDArray[np.int64]) -> tuple[pa.Table, dict[int, str]]:
    """Regenerate rows, neighbours together. Also returns the reasons for rows that cannot be
    regenerated.
    """
    tables: list[pa.Table] = []
    lost: dict[int, str] = {}
    ends = np.flatnonzero(np.diff(rows) != 1) + 1
    for run in np.split(rows, ends) if len(rows) else ():
        start, stop = int(run[0]), int(run[-1]) + 1
        try:
            tables.append(table_of(plan, plan.split(split), start, stop))
            continue
        except DataError:
            raise
        except TaskloomError:
            pass  # One row that fails must not hide its neighbours.
        for index in range(start, stop):
            try:
                tables.append(table_of(plan, plan.split(split), index, index + 1))
            except DataError:
                raise
            except TaskloomError as error:
                lost[index] = str(error)
    if not tables:
        return shards.schema(plan.traits).empty_table(), lost
    return pa.concat_tables(tables), lost
