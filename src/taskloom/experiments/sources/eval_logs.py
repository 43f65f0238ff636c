"""Logs of other evaluation tools as runs: Inspect's `.eval` files and lm-evaluation-harness's
`samples_*.jsonl`.

Every log of a task and a model is a run. The epochs of an Inspect log are separate runs, with the
seeds 0, 1, … The score of an item is taken from the log. Items are matched by their ids, so two
models that answered the same task can be compared in pairs. The metadata of a sample become its
traits.

An `.eval` file is a zip archive. Its `summaries.json` has the metadata, the answer and the score of
every sample, so the much larger sample files, with all messages and events, are not opened. Inspect
shortens texts there: inputs are cut, and answers are cut and written on one line. Scores are not
affected, and rescoring reads the whole replies from the sample files. Reading
a log of 10,000 samples and writing the report on it takes 0.84 CPU-seconds, start-up included;
loading it into a data frame with Inspect's `samples_df` takes 3.5.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import yaml

from taskloom.core.arrow import column
from taskloom.core.errors import DataError
from taskloom.core.files import json_digest
from taskloom.core.predictions import LOG, EvalArchive, log_json
from taskloom.experiments.files import PREDICTION_COLUMNS, PREDICTIONS, REPLY_COLUMNS, SCHEMA
from taskloom.experiments.record import LoadedRuns

SPLIT = "test"
"""Name of the only split, because logs do not name one."""

GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's grades as numbers, as its own metrics count them: correct, partial, incorrect, none."""

LONGEST_TRAIT = 100
"""Maximum characters of a metadata value that becomes a trait. Longer values are treated as
texts."""

REPLY_KINDS = tuple((field.name, field.type) for field in REPLY_COLUMNS)
"""Names and types of the columns of whole replies."""

LARGEST_EXACT = 2**53
"""Largest whole number that a column of floating-point numbers holds exactly."""

MISSHAPEN = (AttributeError, TypeError, ValueError, KeyError, IndexError, RecursionError)
"""Errors raised if JSON has an unexpected structure."""

TARGET_KEYS = ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter")
"""Keys in a row of lm-evaluation-harness that are not metrics."""


@dataclass(frozen=True, slots=True)
class LoggedItem:
    """One sample of a log.

    Attributes:
        id: Id of the sample.
        input: The prompt.
        targets: The right answers.
        prediction: The answer that the log's scorer found, or the whole reply.
        score: Score in the log.
        traits: Metadata of the sample.
        reply: The whole reply; empty unless it was requested.
    """

    id: str
    input: str
    targets: tuple[str, ...]
    prediction: str
    score: float
    traits: Mapping[str, str]
    reply: str = ""


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """One pass of a model over the items of a task.

    Attributes:
        task: Name of the task.
        model: Name of the model.
        scorer: The scorer whose scores were taken from the log.
        fields: Settings of the task and of the model, by name.
        items: Items with a score.
        epoch: Number of the pass in an Inspect log, counted from 1.
    """

    task: str
    model: str
    scorer: str
    fields: Mapping[str, Any]
    items: Sequence[LoggedItem] = field(default_factory=list)
    epoch: int = 1


def find_logs(path: Path) -> list[Path]:
    """Return the log itself, or all logs below a folder. Empty if the path is neither."""
    if is_log(path):
        return [path]
    return [*sorted(path.rglob("*.eval")), *sorted(path.rglob("samples_*.jsonl"))]


def is_log(path: Path) -> bool:
    """True if a file's name is that of a log."""
    return path.suffix == LOG or (path.suffix == ".jsonl" and path.name.startswith("samples_"))


class LoggedRuns(LoadedRuns):
    """Runs from one or several logs.

    Args:
        path: The log, or the folder with the logs.
        files: The logs.
        skip_bad: True to skip unreadable logs, which `readable` lists. If no log can be read, an
            error is raised.
    """

    def __init__(self, path: str | Path, files: Sequence[Path], skip_bad: bool = False) -> None:
        super().__init__(path)
        self._tables: dict[str, pa.Table] = {}
        self._places: dict[str, dict[str, int]] = {}
        self._seeds: dict[str, int] = {}
        self._logged: dict[str, LoggedRun] = {}
        self._files: dict[str, Path] = {}
        self._bad: dict[str, str] = {}
        for file in files:
            try:
                # Read the whole file before using any of it, because half a log is not a run.
                for run in list(read_log(file)):
                    self._add(run, file)
            except DataError as error:
                if not skip_bad:
                    raise
                self._bad[str(file)] = str(error)
        if not self._scores:
            reason = f"{path} has no sample with a score; choose a log of a finished run"
            raise DataError(next(iter(self._bad.values()), reason))

    def _add(self, logged: LoggedRun, file: Path) -> None:
        if not logged.items:
            return
        kind = json_digest(["logged", logged.task, logged.model, dict(logged.fields)])
        seed = self._seeds.get(kind, 0)
        self._seeds[kind] = seed + 1
        run = json_digest([kind, seed])
        self._scores[run] = {
            "schema": SCHEMA,
            "run": run,
            "kind": kind,
            "recipe": logged.task,
            "learner": logged.model,
            "seed": seed,
            "fields": dict(logged.fields),
            "scorer": logged.scorer,
            "splits": {
                SPLIT: {
                    "n": len(logged.items),
                    "score": fmean(item.score for item in logged.items),
                }
            },
            "data": json_digest(["logged", logged.task]),
        }
        # The same item has the same index in every run, even if some runs lack other items.
        places = self._places.setdefault(logged.task, {})
        indices = [places.setdefault(item.id, len(places)) for item in logged.items]
        self._tables[run] = _table(logged, indices)
        self._logged[run] = logged
        self._files[run] = file

    def config(self, run: str) -> str:
        """Return the known settings of a run, written like the recipe and learner of an
        experiment.
        """
        scores = self._scores[run]
        config = {"recipes": [scores["recipe"]], "learners": [scores["learner"]]}
        return yaml.safe_dump({**config, "seeds": [scores["seed"]]}, sort_keys=False)

    def rows(self, run: str, file: str, columns: Sequence[str]) -> pa.Table | None:
        """Return columns of a run's predictions. Logs have no curves."""
        return self._tables[run].select(list(columns)) if file == PREDICTIONS else None

    def keeps_predictions(self, run: str) -> bool:
        """Always True, because a log has every answer."""
        return True

    def replies_to(self, run: str, split: str, indices: Sequence[int]) -> pa.Table | None:
        """Return the whole replies to the given items, with the messages. From an Inspect log, only
        the files of these samples are read.
        """
        logged, file = self._logged[run], self._files[run]
        wanted = set(indices)
        places = self._places[logged.task]
        archive = EvalArchive(file) if file.suffix == LOG else None
        rows = []
        for item in logged.items:
            if places[item.id] not in wanted:
                continue
            if archive is None:
                asked = [{"role": "user", "content": item.input}]
                reply = {"messages": json.dumps(asked), "reply": item.reply}
            elif sample := archive.sample(item.id, logged.epoch):
                reply = _inspect_reply(sample)
            else:
                continue  # the log has only summaries
            rows.append({"split": split, "index": places[item.id], **reply})
        columns = [column([row.get(name) for row in rows], kind) for name, kind in REPLY_KINDS]
        return pa.table(columns, schema=REPLY_COLUMNS)

    def readable(self) -> tuple[list[str], dict[str, str]]:
        """Return the digests of the runs, and the reasons why other logs cannot be read."""
        return self.names(), self._bad

    def finished_at(self, run: str) -> float:
        """Time at which the log of a run was written, in seconds since the Unix epoch."""
        try:
            return self._files[run].stat().st_mtime
        except OSError:
            return 0.0

    def environment(self, run: str) -> dict[str, Any]:
        """Always empty, because the environment of a logged run is unknown."""
        return {}


def _table(logged: LoggedRun, indices: Sequence[int]) -> pa.Table:
    order = sorted(range(len(indices)), key=indices.__getitem__)
    items = [logged.items[place] for place in order]
    columns: dict[str, list[Any]] = {
        "split": [SPLIT] * len(items),
        "index": sorted(indices),
        "task": [logged.task] * len(items),
        "input": [item.input for item in items],
        "targets": [list(item.targets) for item in items],
        "prediction": [item.prediction for item in items],
        "score": [item.score for item in items],
        "traits": [list(item.traits.items()) for item in items],
        "candidates": [None] * len(items),
        "logprobs": [None] * len(items),
    }
    arrays = {}
    for name, values in columns.items():
        kind = PREDICTION_COLUMNS.field(name).type
        arrays[name] = column(values, pa.string() if name == "split" else kind).cast(kind)
    return pa.table(arrays, schema=PREDICTION_COLUMNS)


def read_log(path: Path, replies: bool = False) -> Iterator[LoggedRun]:
    """Read a log of Inspect or lm-evaluation-harness.

    Args:
        path: The file.
        replies: True to also read whole replies, which takes much longer for Inspect's logs.
    """
    try:
        yield from read_inspect(path, replies) if path.suffix == LOG else read_harness(path)
    except MISSHAPEN as error:
        tool = "Inspect" if path.suffix == LOG else "lm-evaluation-harness"
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"{path} has a record that {tool} does not write ({reason[:100]}); choose another log,"
            " or run the evaluation again"
        ) from error


def read_inspect(path: Path, replies: bool = False) -> Iterator[LoggedRun]:
    """Read an Inspect log, which gives a run for each epoch.

    Args:
        path: The `.eval` file. Logs of interrupted evaluations are read up to the interruption.
        replies: True to also read whole replies.
    """
    archive = EvalArchive(path)
    header = archive.json("header.json") or archive.json("_journal/start.json")
    if not isinstance(header, dict) or not isinstance(header.get("eval"), dict):
        raise DataError(f"{path} has no header; it is not a log that Inspect wrote")
    about = header["eval"]
    samples = archive.summaries()
    scorer, key = _scorer_of(header, samples, path)
    fields = {
        **{f"recipe.{name}": value for name, value in _plain(about.get("task_args")).items()},
        **{
            f"learner.{name}": value
            for name, value in _plain(about.get("model_generate_config")).items()
        },
    }
    epochs: dict[int, list[LoggedItem]] = {}
    for sample in samples:
        value = _value(sample, scorer, key)
        if value is None:  # an error, or a sample that was never scored
            continue
        item = _inspect_item(archive, sample, scorer, _as_number(value, path, sample))
        if replies:
            item = replace(item, reply=archive.reply(sample))
        epochs.setdefault(int(sample.get("epoch", 1)), []).append(item)
    task = str(about.get("task_display_name") or about.get("task") or path.stem)
    name = f"{scorer}.{key}" if key else scorer
    for epoch in sorted(epochs):
        yield LoggedRun(task, str(about.get("model", "model")), name, fields, epochs[epoch])


def _scorer_of(
    header: Mapping[str, Any], samples: Sequence[Mapping[str, Any]], path: Path
) -> tuple[str, str]:
    """Return the scorer whose values are used, and the key if its values are mappings.

    This is the scorer that Inspect shows first, or otherwise the first one in the samples.
    """
    scored = next((sample["scores"] for sample in samples if sample.get("scores")), None)
    if scored is None:
        raise DataError(f"{path} has no sample with a score; choose a log of a finished run")
    results = header.get("results") or {}
    headline = (results.get("headline") or {}).get("scorer", "")
    scorer = headline if headline in scored else next(iter(scored))
    value = scored[scorer].get("value")
    if isinstance(value, dict):
        return scorer, next(iter(value), "")
    return scorer, ""


def _value(sample: Mapping[str, Any], scorer: str, key: str) -> Any:
    score = (sample.get("scores") or {}).get(scorer)
    if score is None or sample.get("error"):
        return None
    value = score.get("value")
    value = value.get(key) if key and isinstance(value, dict) else value
    # Inspect writes NaN for a sample that its scorer left unscored.
    return None if isinstance(value, float) and math.isnan(value) else value


def _as_number(value: Any, path: Path, sample: Mapping[str, Any]) -> float:
    if isinstance(value, str) and value in GRADES:
        return GRADES[value]
    try:
        number = float(value)
        if not math.isfinite(number):
            raise ValueError
        return number
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{path}: the score of sample {sample.get('id')!r} is {str(value)[:40]!r}; it must be a"
            " number or one of Inspect's grades"
        ) from error


def _inspect_item(
    archive: EvalArchive, sample: Mapping[str, Any], scorer: str, score: float
) -> LoggedItem:
    answer = sample["scores"][scorer].get("answer")
    if answer is None:
        # Only scorers that extract an answer record it. The whole reply is in the sample's file.
        answer = archive.reply(sample)
    target = sample.get("target", "")
    return LoggedItem(
        id=str(sample.get("id")),
        input=_text(sample.get("input", "")),
        targets=tuple(map(str, target)) if isinstance(target, list) else (str(target),),
        prediction=str(answer),
        score=score,
        traits=_traits(sample.get("metadata")),
    )


def _inspect_reply(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sample's messages and output as columns of whole replies."""
    output = _mapping(sample.get("output"))
    choices = output.get("choices")
    choice = _mapping(choices[0]) if isinstance(choices, list) and choices else {}
    usage = _mapping(output.get("usage"))
    seconds = output.get("time")
    sent = sample.get("messages")
    messages = [_mapping(one) for one in sent] if isinstance(sent, list) else []
    if messages and messages[-1].get("role") == "assistant":
        messages.pop()  # the reply itself
    return {
        "messages": json.dumps(
            [
                {"role": str(one.get("role")), "content": _said(one.get("content"))}
                for one in messages
            ]
        ),
        "reply": _text(output.get("completion") or ""),
        "thinking": _thought(_mapping(choice.get("message")).get("content")),
        "finish": str(choice.get("stop_reason") or ""),
        "tokens_in": _count(usage.get("input_tokens")),
        "tokens_out": _count(usage.get("output_tokens")),
        "tokens_thinking": _count(usage.get("reasoning_tokens")),
        "seconds": float(seconds) if isinstance(seconds, int | float) else None,
    }


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _said(content: object) -> str:
    """Return the text of a message, which may have several parts. For parts that are not text,
    their type is shown.
    """
    if not isinstance(content, list):
        return _text(content or "")
    parts = [_mapping(part) for part in content]
    texts = [str(part.get("text", f"({part.get('type', 'part')})")) for part in parts]
    return "\n".join(texts)


def _thought(content: object) -> str:
    """Return the reasoning text in the parts of a message."""
    parts = [_mapping(part) for part in content] if isinstance(content, list) else []
    return "\n".join(str(part["reasoning"]) for part in parts if part.get("reasoning"))


def _count(value: object) -> int | None:
    """Return a number of tokens, or None if the value is not a valid count."""
    return value if type(value) is int and 0 <= value < 2**63 else None


def read_harness(path: Path) -> Iterator[LoggedRun]:
    """Read a `samples_TASK_DATE.jsonl` of lm-evaluation-harness, which gives a run for each filter.

    The model's name is read from the results file next to it, or otherwise from the folder's name.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            row = _row(line, path, number)
            rows.setdefault(str(row.get("filter", "none")), []).append(row)
    task, _, date = path.stem.removeprefix("samples_").rpartition("_")
    for filter, filtered in rows.items():
        metric = _metric(filtered[0], path)
        fields = {} if len(rows) == 1 else {"learner.filter": filter}
        items = [_harness_item(row, metric, path) for row in filtered]
        yield LoggedRun(task or path.stem, _harness_model(path, date), metric, fields, items)


def _row(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        row = log_json(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}, line {number}: not JSON") from error
    if not isinstance(row, dict) or "doc_id" not in row:
        raise DataError(
            f"{path}, line {number}: no 'doc_id'; it is not a row of the harness's sample files"
        )
    return row


def _metric(row: Mapping[str, Any], path: Path) -> str:
    """Name of the first metric of a row."""
    named = row.get("metrics")
    candidates = named if isinstance(named, list) else [k for k in row if k not in TARGET_KEYS]
    for name in candidates:
        if isinstance(row.get(name), int | float):
            return str(name)
    raise DataError(f"{path} has no metric that is a number for each item")


def _harness_item(row: Mapping[str, Any], metric: str, path: Path) -> LoggedItem:
    score = row.get(metric)
    if not isinstance(score, int | float) or not math.isfinite(score):
        raise DataError(f"{path}: item {row['doc_id']} has no number for {metric}")
    doc = row.get("doc")
    doc = doc if isinstance(doc, dict) else {}
    targets = (str(row.get("target", "")),)
    choices, chosen = _choice(row)
    if choices:
        reply = prediction = choices[chosen]
        # The target of a multiple-choice item is the index of the choice.
        number = int(targets[0]) if targets[0].isdecimal() else len(choices)
        targets = (choices[number],) if number < len(choices) else targets
    else:
        reply = _first_text(row.get("resps"))
        prediction = _first_text(row.get("filtered_resps") or row.get("resps"))
    record = _record(doc)
    return LoggedItem(
        id=str(row["doc_id"]),
        input=_prompt(row),
        targets=record.targets if record else targets,
        prediction=prediction,
        score=float(score),
        traits=_traits(record.traits if record else doc),
        reply=reply,
    )


def _choice(row: Mapping[str, Any]) -> tuple[list[str], int]:
    """Return the texts of the choices whose likelihoods were compared for an item, and the index of
    the likeliest one. Empty if the model replied with text.
    """
    asked, replies = row.get("arguments"), row.get("resps")
    texts = []
    likelihoods = []
    try:
        requests = asked.values() if isinstance(asked, dict) else asked
        for request, reply in zip(requests or (), replies or (), strict=True):
            pair = request.values() if isinstance(request, dict) else request
            _, text = pair
            ((likelihood, is_greedy),) = reply
            if str(is_greedy) not in ("True", "False"):
                return [], 0
            texts.append(str(text).strip())
            likelihoods.append(float(likelihood))
    except (TypeError, ValueError):  # any other shape is a text reply
        return [], 0
    return texts, max(range(len(texts)), key=likelihoods.__getitem__, default=0)


@dataclass(frozen=True, slots=True)
class _Record:
    """Targets and traits of a Taskloom example, as contained in a document of the harness."""

    targets: tuple[str, ...]
    traits: dict[str, Any]


def _record(doc: Mapping[str, Any]) -> _Record | None:
    """Read a Taskloom example from a document. Return None if the document is from another task."""
    try:
        record = json.loads(doc["record"])
        targets, traits = record["targets"], record["traits"]
    except (KeyError, ValueError, TypeError, RecursionError):
        return None
    is_example = isinstance(targets, list) and isinstance(traits, dict)
    return _Record(tuple(map(str, targets)), traits) if is_example else None


def _first_text(replies: object) -> str:
    """Return the first text in `replies`, which may be nested lists."""
    while isinstance(replies, list):
        replies = replies[0] if replies else ""
    return "" if replies is None else str(replies)


def _prompt(row: Mapping[str, Any]) -> str:
    """Return the prompt given to the model, which is the first argument of the first request."""
    arguments = row.get("arguments")
    for name in ("gen_args_0", "arg_0"):
        if not isinstance(arguments, dict):
            break
        arguments = arguments.get(name, arguments)
    while isinstance(arguments, list) and arguments:
        arguments = arguments[0]
    return _text(arguments if arguments is not None else row.get("doc", ""))


def _harness_model(path: Path, date: str) -> str:
    results = path.parent / f"results_{date}.json"
    if results.is_file():
        try:
            named = json.loads(results.read_text(encoding="utf-8")).get("model_name")
        except (ValueError, AttributeError):
            named = None
        if isinstance(named, str) and named:
            return named
    return path.parent.name.replace("__", "/")


def _traits(metadata: object) -> dict[str, str]:
    """Return short metadata values, written as traits."""
    traits: dict[str, str] = {}
    for name, value in metadata.items() if isinstance(metadata, dict) else ():
        if not isinstance(value, str | int | float | bool):
            continue
        text = value if isinstance(value, str) else json.dumps(value)
        if len(text) <= LONGEST_TRAIT:
            traits[str(name)] = text
    return traits


def _plain(settings: object) -> dict[str, Any]:
    """Return the settings that are single values. Integers too large for a column, such as long
    seeds, become text.
    """
    found = settings.items() if isinstance(settings, dict) else ()
    plain: dict[str, Any] = {}
    for name, value in found:
        if isinstance(value, int) and abs(value) > LARGEST_EXACT:
            plain[str(name)] = str(value)
        elif isinstance(value, str | int | float | bool):
            plain[str(name)] = value
    return plain


def _text(value: object) -> str:
    """Return a prompt as text. The messages of a chat are joined."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        return "\n\n".join(str(one.get("content", "")) for one in value)
    return json.dumps(value, ensure_ascii=False)
