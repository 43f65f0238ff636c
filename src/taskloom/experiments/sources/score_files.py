"""Scores of many runs in one small file. It keeps the results of a large experiment that are worth
committing, or scores from another program.

    {"format": "taskloom scores", "schema": 1, "groups": [
      {"recipe": "ctl/A", "learner": "bilstm",
       "fields": {"recipe.draw": "published", "learner.preset": "ctlpp"},
       "n": {"iid": 1000, "ood": 1000}, "environment": {"gpu": "NVIDIA H200"},
       "seeds": {"0": {"iid": 1.0, "ood": 0.977}, "1": {"iid": 1.0, "ood": 0.929}}}]}

CSV, TSV and Parquet files have a row for each run and split instead:

    recipe,learner,seed,split,n,score,learner.steps
    ctl/A,bilstm,0,iid,1000,1.0,80000
    ctl/A,bilstm,0,ood,1000,0.977,80000

Their columns are those of `tl.runs(...).table`, which can be written to such a file unchanged.
Settings have columns that begin with `recipe.` or `learner.`. A row without a value has the
default. Other scores are in columns called `score.NAME`.

A group is a recipe and a learner with their settings. `n` is the number of items in each split.
Studies accept such a file in place of a run store. It has no models, and it has answers to single
items only if a study needs their traits (`scored_items.py`). Studies that need more raise an error.
`further` may have other scores of a split by seed (`score.NAME` in tables). `curves` may have
learning curves by seed, with step, split and score of each point.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import yaml
from pydantic import Field

from taskloom.core.errors import DataError, echo, nearest
from taskloom.core.files import atomic, json_digest, path_of, read_utf8
from taskloom.experiments.files import (
    CONFIG,
    CURVE_COLUMNS,
    CURVES,
    PREDICTIONS,
    SCHEMA,
    SCORES,
    STORE,
)
from taskloom.experiments.record import (
    BEST_OF_FIELD,
    LAST_SEED,
    LIMIT_FIELD,
    SUITE_SCORE,
    TASK_FIELD,
    LoadedRuns,
    Run,
)
from taskloom.experiments.sources.predicted_runs import PredictedRuns
from taskloom.experiments.sources.scored_items import (
    AnswerFields,
    ItemTableFields,
    items_key,
    pack_answers,
    pack_items,
    unpack,
)
from taskloom.experiments.store import Store
from taskloom.experiments.table import Runs
from taskloom.recipe import Fields
from taskloom.recipe.yaml_files import validated

ENDINGS = (".csv", ".tsv", ".parquet")

NEEDED = ("recipe", "learner", "seed", "split", "n", "score")
"""Required columns of a table."""

SETTINGS = ("recipe.", "learner.")
"""Prefixes of the columns with settings."""

IGNORED = ("run",)
"""Column of run tables that is ignored, because a run's name follows from the other columns."""


SEED = f"a seed is a whole number from 0 to {LAST_SEED}"
"""Description of a valid seed for error messages."""


def read_groups(path: Path) -> list[dict[str, Any]]:
    """Convert the rows of a table of scores to the groups of a score file.

    Args:
        path: The table.

    Raises:
        DataError: If the file cannot be read, has missing or unknown columns, or has rows that
            contradict each other.
    """
    table = _read_table(path)
    _check_columns(path, table.column_names)
    groups: dict[str, dict[str, Any]] = {}
    for number, row in enumerate(table.to_pylist(), start=1):
        where = f"{path}, row {number}"
        fields = {
            name: _setting(row[name])
            for name in row
            if name.startswith(SETTINGS) and row[name] is not None
        }
        missing = [name for name in NEEDED if row[name] is None]
        if missing:
            raise DataError(f"{where} has no '{missing[0]}'; every row needs {', '.join(NEEDED)}")
        key = json.dumps([row["recipe"], row["learner"], fields], sort_keys=True, default=str)
        empty = {
            "recipe": str(row["recipe"]),
            "learner": str(row["learner"]),
            "fields": fields,
            "n": {},
            "seeds": {},
        }
        _add(groups.setdefault(key, empty), row, where)
    return list(groups.values())


def _add(group: dict[str, Any], row: Mapping[str, Any], where: str) -> None:
    """Add the score of a row to its group."""
    split = str(row["split"])
    number, n, score = (_number(row[name]) for name in ("seed", "n", "score"))
    if not is_seed(number):
        raise DataError(f"{where} has the seed {echo(row['seed'])}; {SEED}")
    if not isinstance(n, int) or n < 1:
        raise DataError(
            f"{where} has n {echo(row['n'])}; it is the number of examples of the split, at least 1"
        )
    if not isinstance(score, int | float) or not 0 <= score <= 1:
        raise DataError(
            f"{where} has the score {echo(row['score'])}; a score is a share from 0 to 1, not per"
            " cent"
        )
    if group["n"].setdefault(split, n) != n:
        raise DataError(
            f"{where} has n {echo(n)} for '{split}', where a row of the same learner has"
            f" {group['n'][split]}"
        )
    seed = str(number)
    scores = group["seeds"].setdefault(seed, {})
    if split in scores:
        raise DataError(
            f"{where} has a second score of seed {seed} on '{split}'; tell the rows apart by their"
            " settings"
        )
    scores[split] = score
    further = {
        name.removeprefix(SUITE_SCORE): row[name] for name in row if name.startswith(SUITE_SCORE)
    }
    known = {name: value for name, value in further.items() if value is not None}
    if known:
        group.setdefault("further", {}).setdefault(seed, {})[split] = known


def _read_table(path: Path) -> pa.Table:
    try:
        if path.suffix.lower() == ".parquet":
            return pyarrow.parquet.read_table(path)
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        return pyarrow.csv.read_csv(
            path, parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter)
        )
    except pa.ArrowException as error:
        kind = path.suffix[1:].upper() if path.suffix.lower() != ".parquet" else "Parquet"
        raise DataError(f"{path} cannot be read as {kind}: {str(error).splitlines()[0]}") from error


def _check_columns(path: Path, columns: list[str]) -> None:
    shape = f"a table of scores has a row for each run and split, with {', '.join(NEEDED)}"
    for name in NEEDED:
        if name not in columns:
            raise DataError(f"{path} has no column '{name}'; {shape}")
    for name in columns:
        if name not in (*NEEDED, *IGNORED) and not name.startswith((*SETTINGS, SUITE_SCORE)):
            raise DataError(
                f"{path} has an unknown column '{name}'; {nearest(name, NEEDED)}; settings are"
                f" called recipe.NAME and learner.NAME, further numbers {SUITE_SCORE}NAME"
            )
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{path} has the column '{twice}' twice; remove one")


def is_seed(value: Any) -> bool:
    """True if the value is a valid seed for a run.

    >>> is_seed(0), is_seed(-1), is_seed(1.5), is_seed(10**30)
    (True, False, False, False)
    """
    return isinstance(value, int) and 0 <= value <= LAST_SEED


def _number(value: Any) -> Any:
    """Convert a cell to a number. In a column with a word, all cells are text. Values that are not
    numbers are returned unchanged.
    """
    if isinstance(value, bool):
        return None
    try:
        return _whole(float(value)) if isinstance(value, str) else _whole(value)
    except ValueError:
        return value


def _whole(value: Any) -> Any:
    """Convert a whole number that was written as 1.0 to an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _setting(value: Any) -> Any:
    """Convert a cell to the value of a setting. Tables of runs store lists and mappings as JSON."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return _whole(value)


FORMAT = "taskloom scores"
VERSION = 1
"""Version of the format, increased whenever older files could be misread."""

USED = (TASK_FIELD, LIMIT_FIELD, BEST_OF_FIELD)
"""Fields of runs that the experiment sets, not the recipe or the learner."""


READ = (
    "name a run store, a file of scores (JSON, CSV, Parquet) or a YAML file that names predictions"
)
"""Description of the accepted sources, for error messages."""

Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ScoreGroupFields(Fields):
    """Runs that differ only in the seed."""

    recipe: str
    learner: str
    fields: dict[str, Any] = Field(default_factory=dict)
    n: dict[str, Annotated[int, Field(ge=0)]]
    seeds: dict[str, dict[str, Score]]
    environment: dict[str, Any] = Field(default_factory=dict)
    data: str = ""
    items: dict[str, str] = Field(default_factory=dict)
    texts: list[str] = Field(default_factory=list)
    answers: dict[str, dict[str, AnswerFields]] = Field(default_factory=dict)
    further: dict[str, dict[str, dict[str, float]]] = Field(default_factory=dict)
    curves: dict[str, list[tuple[int, str, Score]]] = Field(default_factory=dict)


class ScoreFileFields(Fields):
    """A score file."""

    format: str
    schema_: int = Field(alias="schema")
    groups: list[ScoreGroupFields]
    items: dict[str, ItemTableFields] = Field(default_factory=dict)


class ScoreFile(LoadedRuns):
    """A single file read like a run store: scores by seed, and the settings behind them.

    Args:
        path: The file.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._groups: dict[str, ScoreGroupFields] = {}
        contents = _read(self.path)
        self._items = contents.items
        self._check_names(contents.groups)
        for group in contents.groups:
            _check_answers(self.path, group, contents.items)
            for seed, splits in group.seeds.items():
                self._add(group, seed, splits)

    def _check_names(self, groups: Iterable[ScoreGroupFields]) -> None:
        """Raise an error for settings that Taskloom's recipes and learners do not have. One group
        is checked on behalf of all groups with the same settings, because many differ only in the
        task.
        """
        preset = "learner.preset"
        different = {
            (g.recipe, g.learner, str(g.fields.get(preset)), *sorted(g.fields)): g for g in groups
        }
        for group in different.values():
            check_names(group.recipe, group.learner, group.fields, str(self.path))

    def _add(self, group: ScoreGroupFields, seed: str, splits: Mapping[str, float]) -> None:
        where = f"{self.path}: seed {echo(seed)} of {group.recipe}, {group.learner}"
        if not (
            seed.isascii()
            and seed.isdigit()
            and len(seed) <= len(str(LAST_SEED))
            and is_seed(int(seed))
        ):
            raise DataError(f"{where}: {SEED}")
        for split in splits:
            if not group.n.get(split):
                raise DataError(
                    f"{where} has a score on '{split}'; 'n' must give the number of examples of"
                    " that split"
                )
        kind = json_digest(["scores", group.recipe, group.learner, group.fields, group.data])
        run = json_digest([kind, int(seed)])
        if run in self._scores:
            raise DataError(
                f"{self.path} has seed {seed} of {group.recipe}, {group.learner} twice; tell the"
                " groups apart by their fields"
            )
        further = group.further.get(seed, {})
        entries = {
            split: {
                "n": group.n[split],
                "score": score,
                **({"scores": further[split]} if split in further else {}),
            }
            for split, score in splits.items()
        }
        self._groups[run] = group
        self._scores[run] = {
            "schema": SCHEMA,
            "run": run,
            "kind": kind,
            "recipe": group.recipe,
            "learner": group.learner,
            "seed": int(seed),
            "fields": group.fields,
            "scorer": "",
            "splits": entries,
            "data": group.data,
        }

    def config(self, run: str) -> str:
        """Return an experiment with only this run, built from the recorded settings."""
        group = self._groups[run]
        own = {name: value for name, value in group.fields.items() if name not in USED}
        fields = {head: {k.partition(".")[2]: v for k, v in own.items() if k.startswith(f"{head}.")}
                  for head in ("recipe", "learner")}  # fmt: skip
        task, limit, tries = (group.fields.get(name) for name in USED)
        config = {
            "recipes": [
                {"recipe": group.recipe, **({"set": fields["recipe"]} if fields["recipe"] else {})}
            ],
            "learners": [{"learner": group.learner, **fields["learner"]}],
            "seeds": [self._scores[run]["seed"]],
            **({"tasks": [task]} if task else {}),
            **({"limit": limit} if limit else {}),
            **({"best_of": {"seeds": tries}} if tries else {}),
        }
        return yaml.safe_dump(config, sort_keys=False)

    def rows(self, run: str, file: str, columns: Sequence[str]) -> pa.Table | None:
        """Return columns of a run's predictions or curves. None if the file has no answers to
        items, or no curves.
        """
        group, seed = self._groups[run], str(self._scores[run]["seed"])
        if file == CURVES and seed in group.curves:
            points = [
                {"step": step, "split": split, "score": score}
                for step, split, score in group.curves[seed]
            ]
            return pa.Table.from_pylist(points, CURVE_COLUMNS).select(list(columns))
        if file != PREDICTIONS or not self.keeps_item_scores(run):
            return None
        answers = group.answers[seed]
        tables = [
            unpack(split, self._items[group.items[split]], one, group.texts)
            for split, one in answers.items()
        ]
        return pa.concat_tables(tables).select(list(columns))

    def keeps_item_scores(self, run: str) -> bool:
        """True if the file has a run's answers to items."""
        return bool(self._groups[run].answers.get(str(self._scores[run]["seed"])))

    def environment(self, run: str) -> dict[str, Any]:
        """Return the machine, versions and other recorded facts about a run."""
        return dict(self._groups[run].environment)


def check_names(recipe: str, learner: str, fields: Mapping[str, Any], where: str) -> None:
    """Raise an error for settings that a Taskloom recipe or learner does not have. Otherwise a run
    with a misspelt setting would look like one without it. Recipes and learners that Taskloom does
    not know may have any settings.

    Args:
        recipe: Name of the recipe.
        learner: Name of the learner.
        fields: The recorded settings.
        where: The file, for error messages.
    """
    # Finding a learner may import all learners, which is not needed to read a run store.
    from taskloom.core.registry import SUITES, TASKS
    from taskloom.learners.config import LEARNERS, presets_of
    from taskloom.learners.config import settings as settings_of
    from taskloom.recipe import read as read_recipe
    from taskloom.recipe.recipe import RESERVED

    known: dict[str, set[str]] = {}
    if LEARNERS.find(learner) is not None:
        known["learner"] = {name for name, _, _ in settings_of(learner)} | {
            "training",
            BEST_OF_FIELD.partition(".")[2],
        }
        preset = fields.get("learner.preset")
        if preset is not None and preset not in presets_of(learner):
            raise DataError(
                f"{where}: {learner} has no preset {echo(preset)};"
                f" {nearest(str(preset), presets_of(learner))}"
            )
    suite = SUITES.find(recipe.partition("/")[0])
    if (suite and recipe in suite.recipe_files()) or TASKS.find(recipe):
        used = {name.partition(".")[2] for name in (TASK_FIELD, LIMIT_FIELD)}.union(RESERVED)
        fields_of_suite = type(read_recipe(recipe).fields).model_fields
        known["recipe"] = {one.alias or name for name, one in fields_of_suite.items()} | used
    for field in fields:
        head, _, name = field.partition(".")
        own = name.partition(".")[0]
        if head in known and own not in known[head]:
            of = recipe if head == "recipe" else learner
            raise DataError(
                f"{where}: {of} has no setting '{own}' (give a {head} of your own another name);"
                f" {nearest(own, known[head])}"
            )


def _read(path: Path) -> ScoreFileFields:
    if path.suffix.lower() in ENDINGS:
        contents = {"format": FORMAT, "schema": VERSION, "groups": read_groups(path)}
        return validated(ScoreFileFields, contents, str(path), DataError)
    try:
        data = json.loads(read_utf8(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON ({error}); {READ}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise DataError(f'{path} is not a file of scores: it lacks "format": "{FORMAT}"; {READ}')
    if data.get("schema") != VERSION:
        raise DataError(f"{path} has schema {data.get('schema')}; this taskloom reads {VERSION}")
    return validated(ScoreFileFields, data, str(path), DataError)


def _check_answers(
    path: Path, group: ScoreGroupFields, items: Mapping[str, ItemTableFields]
) -> None:
    """Raise an error for answers to items that the file does not list."""
    for seed, splits in group.answers.items():
        for split, answers in splits.items():
            known = items.get(group.items.get(split, ""))
            n = -1 if known is None else len(known.of)
            odd = any(not 0 <= place < len(group.texts) for place in answers.predictions)
            if (
                n != len(answers.values())
                or n != group.n.get(split)
                or odd
                or len(answers.predictions) not in (0, n)
            ):
                raise DataError(
                    f"{path}: seed '{seed}' of {group.recipe}, {group.learner} has answers on"
                    f" '{split}' that do not fit 'items' and 'texts'; write the file again with"
                    " scripts/build_results.py"
                )


FILES = (".json", ".yaml", ".yml", *ENDINGS)
"""Extensions of files with runs or scores, as opposed to folders of runs."""

LOGS = (".eval", ".jsonl")
"""Extensions of logs of other tools."""


def open_runs(path: str | Path) -> Runs:
    """Open a run store, a score file (JSON, CSV, TSV, Parquet), or a YAML file that names
    predictions.

    Args:
        path: The folder or file. In a folder that is not a store, such as that of a study's page,
            its score file is opened.
    """
    path = path_of(path)
    if (path / SCORES).is_file() and not any(
        (path / name).exists() for name in (STORE, CONFIG)
    ):  # a run has a config file
        path = path / SCORES
    if path.suffix in LOGS or (path.is_dir() and not (path / STORE).exists()):
        # Reading logs needs more imports than reading scores.
        from taskloom.experiments.sources.eval_logs import LoggedRuns, find_logs

        if logs := find_logs(path):
            return Runs(LoggedRuns(path, logs))
    if path.suffix in FILES and not path.exists():
        raise DataError(f"there is no file {path}; {READ}")
    if path.suffix in (".yaml", ".yml"):
        return Runs(PredictedRuns(path))
    return Runs(ScoreFile(path)) if path.is_file() else Runs(Store(path))


def score_groups(
    runs: Runs, traits: Sequence[str] = (), curves: bool = False
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Convert runs to the groups and items of a score file, which are the part worth committing.

    Args:
        runs: The runs.
        traits: Traits of the examples to keep, with the score and the prediction of each example.
            If empty, neither is kept.
        curves: True to keep learning curves.
    """
    groups: dict[str, dict[str, Any]] = {}
    items: dict[str, Any] = {}
    points = _curve_points(runs) if curves else {}
    for run in runs:
        empty = {
            "recipe": run.recipe,
            "learner": run.learner,
            "fields": run.fields,
            "n": {split: scores.n for split, scores in run.splits.items()},
            "environment": _machine(runs.environment(run.name)),
            "data": run.data,
            "seeds": {},
        }
        group = groups.setdefault(run.kind, empty)
        seed = str(run.seed)
        group["seeds"][seed] = {
            s: scores.score for s, scores in run.splits.items() if scores.score is not None
        }
        further = {split: scores.further for split, scores in run.splits.items() if scores.further}
        if further:
            group.setdefault("further", {})[seed] = further
        if run.name in points:
            group.setdefault("curves", {})[seed] = points[run.name]
        if traits:
            _add_answers(runs, run, group, items, traits)
    return list(groups.values()), items


def _curve_points(runs: Runs) -> dict[str, list[list[Any]]]:
    """Return the points of each run's learning curve that have a score."""
    points: dict[str, list[list[Any]]] = {}
    for point in runs.curves().to_pylist():
        if point["score"] is not None:
            points.setdefault(point["run"], []).append(
                [point["step"], point["split"], point["score"]]
            )
    return points


def _add_answers(
    runs: Runs, run: Run, group: dict[str, Any], items: dict[str, Any], traits: Sequence[str]
) -> None:
    """Add a run's answers to its group, along with the answered items."""
    rows = runs.answers(run.name, ["split", "targets", "traits", "task", "prediction", "score"])
    if rows is None:
        return
    texts = {text: place for place, text in enumerate(group.get("texts", ()))}
    splits = rows["split"].cast(pa.string())
    answers = group.setdefault("answers", {}).setdefault(str(run.seed), {})
    for split in dict.fromkeys(splits.to_pylist()):
        part = rows.filter(pc.equal(splits, split))
        table = pack_items(part, traits)
        key = items_key(table)
        items[key] = table
        group.setdefault("items", {})[split] = key
        answers[split] = pack_answers(part, texts)
    group["texts"] = list(texts)


MACHINE = ("gpu", "versions", "command", "precision")
"""Facts kept from a run's environment: those that a result may depend on, but no machine names or
times.
"""


def _machine(environment: Mapping[str, Any]) -> dict[str, Any]:
    return {key: environment[key] for key in MACHINE if environment.get(key)}


def write_scores(
    groups: Iterable[Mapping[str, Any]], path: Path, items: Mapping[str, Any] | None = None
) -> Path:
    """Write a score file with each score and each list of answers on a separate line."""
    contents = {
        "format": FORMAT,
        "schema": VERSION,
        "groups": list(groups),
        **({"items": dict(items)} if items else {}),
    }
    with atomic(path) as beside:
        beside.write_text(_json(contents) + "\n", encoding="utf-8")
    return path


def _json(contents: Mapping[str, Any]) -> str:
    """Format indented JSON with lists of plain values on one line."""
    text = json.dumps(contents, indent=1, ensure_ascii=False)
    return PLAIN_LIST.sub(lambda match: " ".join(match[0].split()), text)


PLAIN_LIST = re.compile(r"\[\n(?:\s+(?:-?\d[\d.e+-]*|null|\"[^\"\\\\]*\"),?\n)+\s*\]")
"""Matches a list of numbers and plain texts, as written by `json.dumps` with an indent."""
