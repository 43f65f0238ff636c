"""Rescoring: scores are recomputed from stored predictions, with another scorer or the suite's own.
No model is called.

The old scores are kept as `scores-OLD.json` and, for each example, `scores-OLD.parquet`, where OLD
is the name of the scorer. Predictions are rescored first, then scores.json. If rescoring is killed
in between, rerun the command to complete it.

Verifying changes nothing. It recomputes sizes, means and means by task from the stored scores, and
the scores from the stored answers with the run's scorer. Code that a run's configuration names by
file is never executed, because it may have come with the runs.

Logs of other evaluation tools are rescored from their whole replies and remain unchanged. The new
scores are written as sample files of lm-evaluation-harness, which `taskloom runs` reads.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from taskloom.core.errors import DataError, TaskloomError
from taskloom.core.example import Example, Trait
from taskloom.core.extraction import Extraction
from taskloom.core.files import atomic
from taskloom.core.registry import SUITES, find_scorer
from taskloom.core.scoring import Scorer, answer_or_none
from taskloom.data.dataset import MANIFEST
from taskloom.experiments import files as run_files
from taskloom.experiments.execute.predictions import (
    SplitPart,
    data_folder,
    read_examples,
    reply_measures,
    scorer_name,
    suite_scores,
    summary,
)
from taskloom.experiments.sources.eval_logs import (
    SPLIT,
    LoggedItem,
    LoggedRun,
    find_logs,
    read_log,
)
from taskloom.experiments.spec.cells import Cell, EvaluatedSplit, expand
from taskloom.experiments.spec.experiment import check
from taskloom.experiments.store import Store
from taskloom.recipe.yaml_files import parse

OWN = "own"
"""Name that means the scorer of each run's own recipe."""

_NOT_IN_NAMES = re.compile(r"[^\w.,=+-]+")


@dataclass(frozen=True, slots=True)
class Change:
    """Effect of rescoring on one split of a run: its mean before and after, and the number of
    changed examples.
    """

    run: str
    recipe: str
    learner: str
    seed: int
    split: str
    n: int
    before: float | None
    after: float | None
    changed: int


def rescore(
    path: str | Path,
    name: str,
    runs: Iterable[str] | None = None,
    finished: Callable[[str], None] | None = None,
) -> list[Change]:
    """Score the stored predictions of a store again.

    Args:
        path: The store.
        name: Name of a scorer, which may be one that the suite builds from the recipe
            (`reference-positions`), or `own` for the scorer of each run's recipe in the installed
            suite.
        runs: Digests. Default: all.
        finished: Called with each finished run.
    """
    store = Store(path)
    if name not in (OWN, *_plan_scorers()):
        find_scorer(name)  # raises an error for a misspelt name before anything is read
    changes: list[Change] = []
    for run in store.names() if runs is None else runs:
        changes += _one(store, run, name)
        if finished is not None:
            finished(run)
    return changes


def _one(store: Store, run: str, name: str) -> list[Change]:
    folder, old = store.folder(run), store.scores(run)
    path = folder / run_files.PREDICTIONS
    if not path.is_file():
        return []  # its predictions were not kept, so its scores are unchanged
    table = run_files.read_parquet(path)
    splits = table["split"].cast(pa.string())
    needs_recipe = name in (OWN, *_plan_scorers())
    data = recipe_data(store.config(run)) if needs_recipe else {}
    by_split = {s: _scorer(name, data.get(s)) for s in old["splits"]}
    examples = stored_examples(store, table, data)
    texts = texts_to_score(store, run, table)
    scores = [
        by_split[s].score(p, e) for s, p, e in zip(splits.to_pylist(), texts, examples, strict=True)
    ]
    column = pa.array(scores, pa.float64())
    new = {**old, "scorer": _label(old, by_split), "splits": {}}
    changes = []
    for split, entry in old["splits"].items():
        mine = pc.equal(splits, split)
        after, before = column.filter(mine.combine_chunks()), table["score"].filter(mine)
        scored = summary(table["task"].filter(mine).to_pylist(), after.to_pylist())
        if name == OWN:
            rows = [i for i, one in enumerate(mine.to_pylist()) if one]
            scored |= suite_scores(
                data[split].data, [examples[i] for i in rows], [texts[i] for i in rows]
            )
        elif "scores" in entry:
            # the suite's own scores, for any scorer of single answers
            scored["scores"] = entry["scores"]
        kept = {key: entry[key] for key in ("items", "replies") if key in entry}
        new["splits"][split] = {**scored, **kept}
        changed = pc.sum(pc.not_equal(pa.chunked_array([after]), before)).as_py() or 0
        head = (run, old["recipe"], old["learner"], old["seed"], split, scored["n"])
        changes.append(Change(*head, entry["score"], scored["score"], changed))
    if new != old or any(c.changed for c in changes):
        _keep(folder, old, table)
        place = table.column_names.index("score")
        changed_table = table.set_column(place, "score", column).cast(run_files.PREDICTION_COLUMNS)
        with atomic(path) as beside:
            beside.write_bytes(run_files.parquet_content(changed_table))
        _write(folder / run_files.SCORES, new)
    return changes


def price_run(store: Store, cell: Cell) -> None:
    """Write the cost of each reply of a finished run at the current prices of its learner.

    Args:
        store: The store.
        cell: The run's cell, whose learner has a `price`.
    """
    folder = store.folder(cell.run)
    path = folder / run_files.REPLIES
    if not path.is_file():
        return
    table = run_files.read_parquet(path)
    learner: Any = cell.learner
    tokens = zip(table["tokens_in"].to_pylist(), table["tokens_out"].to_pylist(), strict=True)
    costs = [learner.cost(*one) for one in tokens]
    if costs == table["cost"].to_pylist():
        return
    place = table.column_names.index("cost")
    priced = table.set_column(place, "cost", pa.array(costs, pa.float64()))
    scores = store.scores(cell.run)
    for split, entry in scores["splits"].items():
        rows = priced.filter(pc.equal(priced["split"].cast(pa.string()), split)).to_pylist()
        entry["replies"] = reply_measures(rows)
        if "asked" in entry and "cost" in entry["replies"]:
            entry["asked"]["cost"] = entry["replies"]["cost"]
    # Replies last: if this is interrupted, their old costs cause another attempt.
    _write(folder / run_files.SCORES, scores)
    with run_files.writing(path), atomic(path) as beside:
        pq.write_table(priced, beside, compression="zstd")


def _plan_scorers() -> set[str]:
    """Names of the scorers that suites make from a recipe's plan."""
    return {name for suite in SUITES for name in suite.plan_scorers}


def _scorer(name: str, split: EvaluatedSplit | None) -> Scorer:
    """Scorer of that name for a split. Some scorers depend on the split's recipe."""
    if split is None:
        return find_scorer(name)
    if name == OWN:
        return split.data.plan.scorer
    suite = split.data.recipe.suite
    if name not in suite.plan_scorers:
        raise TaskloomError(
            f"the scorer '{name}' is not one of {suite.name}, which {split.data.name} is of;"
            " rescore only runs of the suite that has it"
        )
    return suite.plan_scorers[name](split.data.plan)


def _label(old: dict[str, Any], by_split: dict[str, Scorer]) -> str:
    """Names of the scorers of all splits. An unscored run keeps its name."""
    return "+".join(sorted({s.name for s in by_split.values()})) or str(old["scorer"])


def recipe_data(config: str) -> dict[str, EvaluatedSplit]:
    """Data of each split that the run of a config answered."""
    # The data are the recipe's, whichever tasks the run has. Runs of older versions do not record
    # that their tasks are mixed.
    plain = {**parse(config), "tasks": "mixed", "seeds": [0], "learners": ["majority"]}
    return _recipe_data(json.dumps(plain))


@lru_cache(maxsize=64)
def _recipe_data(config: str) -> dict[str, EvaluatedSplit]:
    [cell] = expand(check(json.loads(config), run_files.CONFIG))
    return {test.name: test for test in cell.tests}


def stored_examples(
    store: Store, table: pa.Table, data: Mapping[str, EvaluatedSplit]
) -> list[Example]:
    """Examples of stored predictions. They are complete if the store has their dataset; otherwise
    they have only the stored columns.
    """
    kept = list(_examples(table))
    splits, places = table["split"].to_pylist(), table["index"].to_pylist()
    for split, test in data.items():
        folder = data_folder(store, test.data.key)
        if not (folder / MANIFEST).is_file():
            continue
        whole = read_examples(SplitPart(folder, test.split))
        for i, (name, index) in enumerate(zip(splits, places, strict=True)):
            if name == split and index < len(whole) and whole[index].input == kept[i].input:
                kept[i] = whole[index]
    return kept


def texts_to_score(store: Store, run: str, table: pa.Table) -> list[str]:
    """Stored predictions in the form in which they are scored. A chat model's reply without an
    answer is wrong.
    """
    texts: list[str] = table["prediction"].to_pylist()
    is_chat = store.replies(run, ["index"]) is not None
    return list(map(answer_or_none, texts)) if is_chat else texts


def _examples(table: pa.Table) -> Iterable[Example]:
    for row in table.select(["input", "targets", "traits", "task"]).to_pylist():
        traits = {name: _value(text) for name, text in row["traits"]}
        yield Example(row["input"], row["targets"], traits, task=row["task"])


def _value(text: str) -> Trait:
    """Parse a stored trait. Numbers and booleans are JSON; everything else is text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float | bool) else text


def _keep(folder: Path, scores: dict[str, Any], table: pa.Table) -> None:
    """Keep the current scores under the name of their scorer, unless they are kept already."""
    path = folder / f"scores-{scores['scorer']}.json"
    if path.exists():
        return
    with atomic(path.with_suffix(".parquet")) as beside:
        pq.write_table(table.select(["split", "index", "score"]), beside, compression="zstd")
    _write(path, scores)


def _write(path: Path, scores: dict[str, Any]) -> None:
    with atomic(path) as beside:
        beside.write_text(
            json.dumps(scores, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8"
        )


ROUNDING = 1e-9
"""Maximum difference between equal scores, which may be summed differently on another machine."""


@dataclass(slots=True)
class RunVerification:
    """Result of checking a store.

    Attributes:
        runs: Runs that were checked.
        answers: Answers that were scored again.
        unscored: Runs whose answers could not be scored again, with the reason.
        without: Runs that kept no predictions and cannot be checked.
        wrong: Differences, one sentence each.
    """

    runs: int = 0
    answers: int = 0
    unscored: dict[str, str] = field(default_factory=dict)
    without: int = 0
    wrong: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Fields for JSON."""
        return asdict(self)


def verify_runs(path: str | Path) -> RunVerification:
    """Check every run of a store.

    Args:
        path: The store.
    """
    store, result = Store(path), RunVerification()
    for run in store.names():
        result.runs += 1
        try:
            _check(store, run, result)
        except TaskloomError as error:
            result.wrong.append(f"{run}: {error}")
    return result


def _check(store: Store, run: str, result: RunVerification) -> None:
    scores = store.scores(run)
    table = store.answers(run, run_files.PREDICTION_COLUMNS.names)
    if table is None:
        result.without += 1
        return
    splits = table["split"].cast(pa.string())
    strange = sorted(set(splits.to_pylist()) - set(scores["splits"]))
    if strange:
        result.wrong.append(
            f"{run}: {run_files.SCORES} lacks the split '{strange[0]}', which has predictions"
        )
    for split, entry in scores["splits"].items():
        part = table.filter(pc.equal(splits, split))
        again = summary(part["task"].to_pylist(), part["score"].to_pylist())
        result.wrong += [
            f"{run}: {split}: {what}"
            for what in _differences(entry, again, ("n", "score", "by_task"))
        ]
    _score_again(store, run, scores, table, result)


def _score_again(
    store: Store, run: str, scores: Mapping[str, Any], table: pa.Table, result: RunVerification
) -> None:
    config = store.config(run)
    if ".py" in config:
        result.unscored[run] = "its configuration names a Python file, which is not executed"
        return
    try:
        data = recipe_data(config)
    except TaskloomError as error:
        result.unscored[run] = str(error)
        return
    if scorer_name(one.data for one in data.values()) != scores["scorer"] or set(data) != set(
        scores["splits"]
    ):
        result.unscored[run] = (
            f"it was scored by '{scores['scorer']}', not by the scorer of its recipe"
        )
        return
    examples = stored_examples(store, table, data)
    predictions = texts_to_score(store, run, table)
    rows = zip(
        table["split"].to_pylist(),
        predictions,
        table["score"].to_pylist(),
        strict=True,
    )
    places_of: dict[str, list[int]] = {}
    for place, (split, prediction, score) in enumerate(rows):
        again = data[split].data.plan.scorer.score(prediction, examples[place])
        places_of.setdefault(split, []).append(place)
        if not _same(again, score):
            index = table["index"][place].as_py()
            result.wrong.append(
                f"{run}: {split} {index}: the answer scores {again:g}, and {score} is stored"
            )
    result.answers += table.num_rows
    for split, places in places_of.items():
        own = suite_scores(
            data[split].data, [examples[i] for i in places], [predictions[i] for i in places]
        )
        entry = scores["splits"][split]
        result.wrong += [
            f"{run}: {split}: {what}" for what in _differences(entry, own, ("scores",))
        ]


def _differences(
    stored: Mapping[str, Any], again: Mapping[str, Any], keys: tuple[str, ...]
) -> Iterator[str]:
    for key in keys:
        if not _same(stored.get(key), again.get(key)):
            yield (
                f"'{key}' is {_short(stored.get(key))} in {run_files.SCORES}, and"
                f" {_short(again.get(key))} by the predictions"
            )


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)
    return one is None and other is None


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def rescore_logs(path: Path, name: str, extract: str, out: Path | None = None) -> list[Change]:
    """Score the replies of logs again.

    Args:
        path: A log, or a folder of logs.
        name: A scorer's name.
        extract: Method by which answers are extracted from replies.
        out: New folder for the items with their new scores. None: nothing is written.
    """
    scorer, extraction = find_scorer(name), Extraction.read(extract)
    if out is not None and out.exists():
        raise DataError(f"{out} exists; name a new folder")
    changes = []
    seeds: dict[tuple[str, str], int] = {}
    for file in find_logs(path):
        for run in read_log(file, replies=True):
            seed = seeds.get((run.task, run.model), 0)
            seeds[run.task, run.model] = seed + 1
            answers = [extraction(item.reply) for item in run.items]
            scores = _log_scores(run.items, answers, scorer)
            changes.append(_log_change(file, run, seed, scores))
            if out is not None:
                _write_log(out, run, seed, answers, scores, name)
    return changes


def _log_scores(items: Sequence[LoggedItem], answers: Sequence[str], scorer: Scorer) -> list[float]:
    scores = []
    for item, answer in zip(items, answers, strict=True):
        example = Example(item.input, item.targets, dict(item.traits))
        scores.append(scorer.score(answer_or_none(answer), example))
    return scores


def _log_change(file: Path, run: LoggedRun, seed: int, scores: Sequence[float]) -> Change:
    before = [item.score for item in run.items]
    changed = sum(old != new for old, new in zip(before, scores, strict=True))
    head = (str(file), run.task, run.model, seed, SPLIT, len(scores))
    if not scores:
        return Change(*head, None, None, 0)
    return Change(*head, fmean(before), fmean(scores), changed)


def _write_log(
    out: Path,
    run: LoggedRun,
    seed: int,
    answers: Sequence[str],
    scores: Sequence[float],
    metric: str,
) -> None:
    # lm-evaluation-harness names the folder after the model, with __ for /.
    folder = out / _NOT_IN_NAMES.sub("-", run.model.replace("/", "__"))
    task = _NOT_IN_NAMES.sub("-", run.task)
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for item, answer, score in zip(run.items, answers, scores, strict=True):
        row = {
            "doc_id": item.id,
            "doc": dict(item.traits),
            "target": item.targets[0] if item.targets else "",
            "arguments": [[item.input]],
            "resps": [[item.reply]],
            "filtered_resps": [answer],
            "metrics": [metric],
            metric: score,
        }
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    with atomic(folder / f"samples_{task}_{seed}.jsonl") as beside:
        beside.write_text("".join(lines), encoding="utf-8")
