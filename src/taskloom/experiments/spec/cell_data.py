"""The data of cells: recipes with a data seed, the user's own files, and mixes of both.

The user's own data can be a folder, a JSONL, CSV or Parquet file, SQuAD's JSON, or a Hugging Face
dataset on disk. Every file is a split (`train.jsonl`, `test/*.parquet`, `test/*.arrow`,
`dev-v1.1.json`). Columns are named `input` and `targets` (or `target`), or are renamed by
`columns`. A column `task` distinguishes tasks, and all other columns of plain values become traits.
The digest covers the rows, not their path.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
from pydantic import Field

from taskloom.core import shards
from taskloom.core.descriptions import task_column
from taskloom.core.errors import DataError, echo, nearest
from taskloom.core.files import json_digest, path_of, refuse_special
from taskloom.core.plan import Level, Plan, Split, Tasks, apportion, role_of, shared
from taskloom.core.registry import FunctionSuite
from taskloom.core.scoring import AnyOf, squad_em
from taskloom.core.seeding import Key
from taskloom.data import dataset
from taskloom.data.foreign import adapt, is_squad, read_jsonl, read_squad, split_name
from taskloom.experiments.spec.experiment import ExperimentError
from taskloom.recipe import Fields, Recipe, check
from taskloom.recipe import read as read_recipe
from taskloom.recipe.fields import Described
from taskloom.recipe.overrides import parse_changes


@dataclass(frozen=True)
class CellData:
    """A recipe with a data seed, as used in cells.

    Attributes:
        recipe: The checked recipe.
        seed: Data seed of the samples.
        block: The recipe and seed as the user wrote them, which `config.yaml` repeats.
        fields: Fields that were set or searched, by name.
    """

    recipe: Recipe
    seed: int
    block: Mapping[str, Any]
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the data in tables: that of the recipe or task, or a file's stem."""
        file = self.recipe.name.partition("::")[0]
        if file.endswith(".py"):
            return self.recipe.suite.name
        return Path(file).stem if file.endswith((".yaml", ".yml")) else self.recipe.name

    @cached_property
    def plan(self) -> Plan:
        """The plan for the recipe and seed."""
        files = tuple(sorted(self.recipe.files.items()))
        key = ("plan", self.recipe.digest, self.seed, files)
        return shared(key, lambda: self.recipe.plan(self.seed))

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks, if they can be listed."""
        return self.plan.tasks.names or ()

    @property
    def states_task(self) -> bool:
        """True if every input states its task, in a description or in the input itself."""
        tasks = self.plan.tasks
        if self.recipe.described is not None:
            return True
        if tasks.by != "task" or tasks.tell is None:
            return False
        # An empty description means that the input already states the task.
        first = self.tasks[0] if self.tasks else ""
        return not tasks.tell(first, "instruction")

    @property
    def unlabelled(self) -> bool:
        """True if the data has several tasks and the inputs do not state which one they belong
        to.
        """
        return self.plan.tasks.by == "task" and len(self.tasks) > 1 and not self.states_task

    def evaluated_tasks(self, train: str, tests: Sequence[str]) -> dict[str, bool]:
        """Tasks in the given test splits, with True for those that also occur in the training
        split.
        """
        listed = self.plan.tasks.names or ()
        taught = self._tasks_in(train) if train else frozenset()
        tested: set[str] = set()
        for split in tests:
            tested |= self._tasks_in(split)
        if not tests:
            tested.update(listed)
        in_order = listed or sorted(tested)
        return {name: not train or name in taught for name in in_order if name in tested}

    def _tasks_in(self, split: str) -> frozenset[str]:
        """Tasks in a split, as listed by the plan or, if it lists none, as found in the rows."""
        planned, by = self.plan.split(split), self.plan.tasks.by
        names = self.plan.tasks.names if planned.tasks is None else planned.tasks
        if names is None:
            rows = planned.rows(0, planned.n)
            if isinstance(rows, pa.Table):
                names = task_column(rows, by).to_pylist()
            elif by == "task":
                names = tuple(example.task for example in rows)
            else:
                names = tuple(str(example.traits.get(by) or "") for example in rows)
        return frozenset(name for name in names if name)

    @property
    def parts(self) -> tuple[CellData, ...]:
        """The data to learn from, here a single part."""
        return (self,)

    def described(self) -> CellData:
        """Return the same data with a description of the task before every input."""
        block = dict(self.block)
        if "recipe" in block:
            block["set"] = {**block.get("set", {}), "described": True}
        else:
            block["described"] = True
        recipe = dataclasses.replace(self.recipe, described=Described())
        return CellData(recipe, self.seed, block, {**self.fields, "described": True})

    def plainly(self) -> CellData:
        """Return the same items in their default form, without descriptions and with presentation
        fields at their defaults.
        """
        recipe, described = self.recipe, self.recipe.described
        fields = recipe.fields.plainly() if isinstance(recipe.fields, Fields) else recipe.fields
        if described is not None and not described.unseen:
            described = None
        if fields is recipe.fields and described is recipe.described:
            return self
        return dataclasses.replace(
            self, recipe=dataclasses.replace(recipe, fields=fields, described=described)
        )

    @cached_property
    def key(self) -> str:
        """Identifier of the data. Data with equal keys have equal rows, because recipes are
        pure.
        """
        sources = {s.name: s.digest for s in self.plan.sources}
        return json_digest([self.recipe.digest, self.seed, sources])


@dataclass(frozen=True)
class RecipeMix:
    """Several recipes, or the user's own data, on which one model is trained and evaluated.

    Attributes:
        parts: The recipes or data to mix.
        rates: Relative share of each part among the training rows. Empty: use every row of every
            part once.
        rows: Total training rows; 0: the sum over the parts.
        given: Name given by the user. Empty: the names of its parts.
    """

    parts: tuple[CellData, ...]
    rates: tuple[float, ...] = ()
    rows: int = 0
    given: str = ""

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the parts. Repeated names get a number."""
        labels = []
        met: Counter[str] = Counter()
        for part in self.parts:
            met[part.name] += 1
            count = met[part.name]
            labels.append(f"{part.name} {count}" if count > 1 else part.name)
        return tuple(labels)

    @property
    def name(self) -> str:
        """Name of the mix in tables."""
        return self.given or "+".join(self.labels)

    @property
    def block(self) -> dict[str, Any]:
        """The mix as written in `config.yaml`."""
        options = {"rates": list(self.rates), "rows": self.rows, "name": self.given}
        return {
            "mix": [dict(part.block) for part in self.parts],
            **{k: v for k, v in options.items() if v},
        }

    @property
    def fields(self) -> dict[str, Any]:
        """Settings that were set or searched: fields of each part, rates and rows."""
        fields = {}
        for label, part in zip(self.labels, self.parts, strict=True):
            for name, value in part.fields.items():
                fields[f"{label}.{name}"] = value
        options: dict[str, Any] = {"rates": list(self.rates), "rows": self.rows}
        return fields | {k: v for k, v in options.items() if v}

    @property
    def unlabelled(self) -> bool:
        """True if a part has several tasks and its inputs do not state which one they belong to."""
        return any(part.unlabelled for part in self.parts)

    def described(self) -> RecipeMix:
        """Return the mix with a description before the inputs of every part that lacks one."""
        return dataclasses.replace(
            self, parts=tuple(p if p.states_task else p.described() for p in self.parts)
        )

    @cached_property
    def key(self) -> str:
        """Identifier of the mix. Mixes with equal keys have equal training rows."""
        return json_digest(["mix", [part.key for part in self.parts], list(self.rates), self.rows])

    def order(self, sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the part and row index of every training row, shuffled with the key of the mix.

        A part with fewer rows than its rate requires is repeated from its first row. A part with
        more rows contributes its first ones.

        Args:
            sizes: Number of training rows of each part.
        """
        counts = list(sizes)
        if self.rates or self.rows:
            counts = apportion(self.rows or sum(sizes), self.rates or sizes)
        places = [
            (part, row % sizes[part]) for part, count in enumerate(counts) for row in range(count)
        ]
        shuffle = Key("mix", self.key).permutation(len(places))
        return (places[int(shuffle(index))] for index in range(len(places)))


def products(grid: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Yield every combination of the values in a grid."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def read_data(
    block: str | dict[str, Any], grid: Mapping[str, list[Any]]
) -> Iterator[CellData | RecipeMix]:
    """Yield the data for a block under `recipes`, one for each combination of the grid's values."""
    if isinstance(block, dict) and "mix" in block:
        yield from _mixes(block, grid)
    else:
        yield from read_recipes(block, grid)


def read_recipes(block: str | dict[str, Any], grid: Mapping[str, list[Any]]) -> Iterator[CellData]:
    """Yield the data for a block that is not a mix."""
    data = {"recipe": block} if isinstance(block, str) else _spelled(dict(block))
    grid = {**grid, **own_grid(data)}
    if is_own_data(str(data.get("recipe", ""))):
        yield _own(data, grid)
        return
    for tried in products(grid):
        if "recipe" in data:
            yield _named_recipe(data, tried)
        else:
            yield _inline_recipe(data, tried)


MIX_KEYS = ("mix", "rates", "rows", "name", "grid")
"""Keys of a block that mixes recipes."""


def _mixes(block: dict[str, Any], grid: Mapping[str, list[Any]]) -> Iterator[RecipeMix]:
    """Yield a mix for each combination of the grid's values. The grid may have `rates`, `rows` and
    fields of all parts.
    """
    for key in block:
        if key not in MIX_KEYS:
            raise ExperimentError(f"recipes: a mix has no key '{key}'; {nearest(key, MIX_KEYS)}")
    data = dict(block)
    whole = {**grid, **own_grid(data)}
    options = {k: v for k, v in whole.items() if k in ("rates", "rows")}
    fields = {k: v for k, v in whole.items() if k not in options}
    members = data["mix"]
    are_named = isinstance(members, list) and all(isinstance(m, str | dict) for m in members)
    if not are_named or len(members) < 2:
        raise ExperimentError(
            "recipes: a mix names at least two recipes or data, e.g. mix: [a-recipe.yaml, ./mine]"
        )
    choices = [list(read_recipes(member, fields)) for member in members]
    for choice in itertools.product(*choices):
        for tried in products(options):
            yield _mix(choice, {**data, **tried})


def _mix(parts: tuple[CellData, ...], block: Mapping[str, Any]) -> RecipeMix:
    rates, rows = block.get("rates") or [], block.get("rows", 0)
    if rates and not _are_rates(rates, len(parts)):
        raise ExperimentError(
            f"recipes: rates must be a number above 0 for each of the {len(parts)} parts of the"
            f" mix, e.g. rates: {[1] * len(parts)}, not {rates!r}"
        )
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 0:
        raise ExperimentError(
            f"recipes: rows of a mix must be a whole number, 0 for all, not {rows!r}"
        )
    return RecipeMix(parts, tuple(float(r) for r in rates), rows, str(block.get("name") or ""))


def _are_rates(rates: Any, parts: int) -> bool:
    """True if the value is a list with a finite number above 0 for each part of a mix."""
    if not isinstance(rates, list) or len(rates) != parts:
        return False
    for rate in rates:
        if isinstance(rate, bool) or not isinstance(rate, int | float):
            return False
        if not 0 < rate < math.inf:
            return False
    return True


def _own(block: dict[str, Any], grid: Mapping[str, list[Any]]) -> CellData:
    """Build cell data from files that are given instead of a recipe."""
    described = block.get("set") == {"described": True}
    allowed = ("recipe", "columns", "seed", *(["set"] if described else []))
    unknown = [key for key in block if key not in allowed]
    if unknown or grid:
        raise ExperimentError(
            f"recipes: {block['recipe']} is data, which has no '{(unknown or list(grid))[0]}'; a"
            " block of data has 'columns', e.g. columns: {input: question, target: answer}"
        )
    columns = _mapping(block.get("columns"), f"recipes: {block['recipe']}: columns")
    recipe = own_recipe(str(block["recipe"]), {k: str(v) for k, v in columns.items()})
    spelling: dict[str, Any] = {"recipe": str(block["recipe"])}
    if columns:
        spelling["columns"] = columns
    data = CellData(recipe, 0, spelling)
    return data.described() if described else data


def _spelled(block: dict[str, Any]) -> dict[str, Any]:
    """Rename the key `changes` to `set`, the name under which runs record it."""
    if "changes" not in block:
        return block
    if "set" in block:
        raise ExperimentError("recipes: changes and set are two names of one key; give one of them")
    return {("set" if key == "changes" else key): value for key, value in block.items()}


def _named_recipe(block: dict[str, Any], tried: dict[str, Any]) -> CellData:
    unknown = [k for k in block if k not in ("recipe", "set", "seed", "grid")]
    if unknown:
        raise ExperimentError(
            f"recipes: {block['recipe']}: unknown key '{unknown[0]}'; fields of the recipe stand"
            f" under 'changes', e.g. changes: {{{unknown[0]}: …}}"
        )
    given = parse_changes(block["set"]) if isinstance(block.get("set"), list) else block.get("set")
    fields = {**_mapping(given, f"recipes: {block['recipe']}: set"), **tried}
    recipe = read_recipe(
        str(block["recipe"]), [f"{k}={json.dumps(v, default=str)}" for k, v in fields.items()]
    )
    seed = block.get("seed", recipe.seed)
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise ExperimentError(
            f"recipes: {block['recipe']}: seed must be a whole number, not {seed!r}"
        )
    block_read: dict[str, Any] = {"recipe": str(block["recipe"]), "seed": seed}
    return CellData(recipe, seed, {**block_read, "set": fields} if fields else block_read, fields)


def _inline_recipe(block: dict[str, Any], tried: dict[str, Any]) -> CellData:
    """Build the data for a recipe that is defined in the experiment itself. `name` is its name in
    tables.
    """
    body = {k: v for k, v in block.items() if k not in ("name", "grid")}
    if not {"suite", "task"} & set(body):
        named = str(block.get("extends") or block.get("name") or "NAME")
        raise ExperimentError(
            f"recipes: a block with the keys {echo(list(block))} names no recipe; write {{recipe:"
            f" {named}, set: {{…}}}}, or a recipe with its 'suite' or 'task'"
        )
    for path, value in tried.items():
        here = body
        *parents, last = path.split(".")
        for parent in parents:
            here[parent] = dict(_mapping(here.get(parent), f"recipes: {path}"))
            here = here[parent]
        here[last] = value
    name = str(block.get("name", block.get("suite", block.get("task", "a recipe"))))
    recipe = check(body, name, f"recipes: {name}")
    return CellData(recipe, recipe.seed, {"name": name, **body}, tried)


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise ExperimentError(
            f"{where} must be fields with values, e.g. {{max_length: 8}}, not {value!r}"
        )
    return value or {}


def own_grid(block: dict[str, Any]) -> dict[str, list[Any]]:
    """Take the grid out of a block and check it."""
    grid = _mapping(block.pop("grid", None), "grid")
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ExperimentError(f"grid: '{key}' needs a list of values to try, not {values!r}")
    return grid


FILES = (".jsonl", ".csv", ".parquet")
COLUMNS = ("input", "targets", "target", "task", "question", "key", "derivation", "traits", "index")
"""Columns that are not traits."""


class OwnFields(Fields):
    """Fields of a recipe that describes the user's own data.

    Attributes:
        path: Path of the data. Not part of the digest.
        columns: Maps Taskloom's column names to those in the data:
            `{input: question, target: answer}`.
    """

    path: str = Field(exclude=True)
    columns: dict[str, str] = Field(default_factory=dict)


def is_own_data(name: str) -> bool:
    """True if a name is the path of the user's own data: a file of rows, or a folder written with
    `./`, `../`, `/` or `~`.
    """
    path = path_of(name)
    return (
        (path.suffix in FILES and path.is_file())
        or (path.suffix == ".json" and is_squad(path))
        or (name.startswith(("./", "../", "/", "~")) and path.is_dir())
    )


def own_recipe(path: str, columns: dict[str, str]) -> Recipe:
    """Build a recipe whose plan reads the rows of the files."""
    tables = {
        name: _adapted(table, name, columns) for name, table in _tables(path_of(path)).items()
    }
    traits = _traits(tables)
    rows = {name: _with_traits(table, traits) for name, table in tables.items()}
    digests = {name: json_digest(table.to_pylist()) for name, table in rows.items()}
    name = Path(path).stem or Path(path).resolve().name
    scorer = squad_em if _is_squad_data(path_of(path)) else AnyOf()

    def weave(fields: OwnFields, key: Key) -> Plan:
        splits = tuple(_split(split, table) for split, table in rows.items())
        names = tuple(sorted({task for split in splits for task in split.tasks or ()}))
        return Plan(splits, traits, scorer=scorer, tasks=Tasks(tell=_name, names=names))

    suite = FunctionSuite(
        name="own-data",
        describe="your own data",
        fields=OwnFields,
        weave=weave,
        version=1,
        module=__name__,
        code=lambda fields: digests,
    )
    return Recipe(name, suite, OwnFields(path=path, columns=columns))


def _is_squad_data(path: Path) -> bool:
    """True if all rows come from SQuAD files, so that SQuAD's official score applies."""
    files = [path] if path.is_file() else sorted(path.iterdir())
    rows = [file for file in files if file.suffix in FILES or is_squad(file) or file.is_dir()]
    return bool(rows) and all(is_squad(file) for file in rows)


def _name(task: str, level: Level) -> str:
    """Describe a task by its name, because nothing else is known about it."""
    return task


def _split(name: str, table: pa.Table) -> Split:
    tasks = tuple(sorted({task for task in table["task"].to_pylist() if task}))
    return Split(
        name,
        table.num_rows,
        lambda start, stop: table.slice(start, stop - start),
        role_of(name),
        tasks=tasks,
    )


def _tables(path: Path) -> dict[str, pa.Table]:
    if path.is_file():
        return {split_name(path) if is_squad(path) else path.stem: _read([path])}
    if (path / dataset.MANIFEST).is_file():
        loaded = dataset.load(path)
        return {split: loaded.table(split) for split in loaded.splits}
    if list(path.glob("*.arrow")):
        return {path.name: _read(sorted(path.glob("*.arrow")))}
    tables: dict[str, pa.Table] = {}
    for entry in sorted(path.iterdir()):
        files = (
            sorted([*entry.glob("*.parquet"), *entry.glob("*.arrow")])
            if entry.is_dir()
            else [entry]
        )
        squad = is_squad(entry)
        if not files or (entry.is_file() and entry.suffix not in FILES and not squad):
            continue
        name = entry.name if entry.is_dir() else entry.stem
        if squad:
            name = split_name(entry)
        if name in tables:
            raise DataError(
                f"{path} has two sources for the split '{name}' ({entry.name} is the second);"
                " keep one"
            )
        tables[name] = _read(files)
    if not tables:
        raise DataError(
            f"{path} holds no JSONL, CSV, Parquet or Arrow file; name each by its split, e.g."
            " train.jsonl"
        )
    return tables


def _read(files: list[Path]) -> pa.Table:
    try:
        return pa.concat_tables([_read_one(file) for file in files], promote_options="default")
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{files[0]} cannot be read ({str(error).splitlines()[0]})") from error


def _read_one(file: Path) -> pa.Table:
    refuse_special(file)
    if file.suffix == ".jsonl":
        return read_jsonl(file)
    if file.suffix == ".json":
        return read_squad(file)
    if file.suffix == ".csv":
        return pyarrow.csv.read_csv(file)
    if file.suffix == ".arrow":
        with pa.memory_map(str(file)) as source:
            return pa.ipc.open_stream(source).read_all()
    return shards.read(file)


def _adapted(table: pa.Table, split: str, columns: dict[str, str]) -> pa.Table:
    """Return a split with its columns renamed to ours. Other columns of plain values are
    unchanged.
    """
    for ours, theirs in columns.items():
        if ours not in COLUMNS:
            raise DataError(
                f"columns: '{ours}' is not a column of a dataset; {nearest(ours, COLUMNS)}"
            )
        if theirs not in table.column_names:
            raise DataError(
                f"columns: {split} has no column '{theirs}'; {nearest(theirs, table.column_names)}"
            )
        place = table.column_names.index(theirs)
        table = table.rename_columns(
            [ours if i == place else c for i, c in enumerate(table.column_names)]
        )
    adapted = adapt(table, Path(split))
    for name in table.column_names:
        if name not in COLUMNS and _kind(table.schema.field(name).type) is not None:
            adapted = adapted.append_column(name, table.column(name))
    return adapted


def _kind(arrow: pa.DataType) -> type | None:
    if pa.types.is_boolean(arrow):
        return bool
    if pa.types.is_integer(arrow):
        return int
    if pa.types.is_floating(arrow):
        return float
    return str if pa.types.is_string(arrow) or pa.types.is_large_string(arrow) else None


def _traits(tables: dict[str, pa.Table]) -> dict[str, type]:
    """Types of the traits in all splits. A trait whose type differs between splits is text."""
    kinds: dict[str, set[type]] = {}
    for table in tables.values():
        own = [(f.name, f.type) for f in table.schema if f.name not in COLUMNS]
        if "traits" in table.column_names:
            own += [(f.name, f.type) for f in table.schema.field("traits").type]
        for name, arrow in own:
            kind = _kind(arrow)
            if kind is not None:
                kinds.setdefault(name, set()).add(kind)
    return {
        name: next(iter(types)) if len(types) == 1 else str for name, types in sorted(kinds.items())
    }


def _with_traits(table: pa.Table, traits: dict[str, type]) -> pa.Table:
    plain = table.select([c for c in table.column_names if c in COLUMNS and c != "traits"])
    if not traits:
        return shards.to_table(plain, 0, {})
    given = (
        table.column("traits").to_pylist()
        if "traits" in table.column_names
        else [{}] * table.num_rows
    )
    values: dict[str, Any] = {}
    for name, kind in traits.items():
        column = (
            table.column(name).to_pylist()
            if name in table.column_names
            else [(t or {}).get(name) for t in given]
        )
        values[name] = [None if v is None else kind(v) for v in column]
    wanted = shards.schema(traits)
    struct = [dict(zip(traits, row, strict=True)) for row in zip(*values.values(), strict=True)]
    return shards.to_table(
        plain.append_column("traits", pa.array(struct, wanted.field("traits").type)), 0, traits
    )
