"""A dataset as files for trainers: verl, OpenRLHF and NeMo Gym.

Each export has the rows with their prompts, one file that scores replies by the recipe's scorer,
and the dataset's manifest, which names the scorer. Taskloom must be installed where the trainer
runs.

    taskloom export my-data --format verl -o verl-data
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from taskloom.core.errors import ParameterError
from taskloom.core.extraction import DESCRIBED, EXTRACT
from taskloom.core.files import path_of
from taskloom.data.dataset import MANIFEST, split_names
from taskloom.interop.graded import (
    GradedSplit,
    brevity,
    from_record,
    keeps_form,
    open_split,
    to_record,
)
from taskloom.interop.templates import dataset_values, export_folder, fill, made_dataset

BATCH = 1000
"""Rows per written batch."""


@dataclass(frozen=True, slots=True)
class Trainer:
    """Export format of a trainer.

    Attributes:
        row: Function that builds a row from an example's prompt, record, split and index.
        suffix: `parquet` or `jsonl`.
        files: Files to write, with their templates.
        command: Command that uses the files.
    """

    row: Callable[[str, Mapping[str, Any], str, int], dict[str, Any]]
    suffix: str
    files: Mapping[str, str]
    command: str


def _verl_row(prompt: str, record: Mapping[str, Any], split: str, index: int) -> dict[str, Any]:
    # The record is text, because nested columns would give every row the traits of all examples.
    extra = {"split": split, "index": index, "record": _text(record)}
    return {
        "data_source": "taskloom",
        "prompt": _messages(prompt),
        "ability": record["task"],
        "reward_model": {"style": "rule", "ground_truth": record["targets"][0]},
        "extra_info": extra,
    }


def _openrlhf_row(prompt: str, record: Mapping[str, Any], split: str, index: int) -> dict[str, Any]:
    return {"input": _messages(prompt), "label": _text(record)}


def _nemo_row(prompt: str, record: Mapping[str, Any], split: str, index: int) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": _messages(prompt)},
        "record": dict(record),
        "split": split,
        "index": index,
    }


def _messages(prompt: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}]


def _text(record: Mapping[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False)


TRAINERS = {
    "verl": Trainer(
        _verl_row,
        "parquet",
        {"reward.py": "trainers/verl.py.txt"},
        "python -m verl.trainer.main_ppo data.train_files=$out/$train.parquet"
        " data.val_files=$out/$test.parquet reward.custom_reward_function.path=$out/reward.py …",
    ),
    "openrlhf": Trainer(
        _openrlhf_row,
        "jsonl",
        {"reward.py": "trainers/openrlhf.py.txt"},
        "python -m openrlhf.cli.train_ppo_ray --data.prompt_dataset $out/$train.jsonl"
        " --data.input_key input --data.label_key label --data.apply_chat_template"
        " --reward.remote_url $out/reward.py …",
    ),
    "nemo-gym": Trainer(
        _nemo_row,
        "jsonl",
        {
            "app.py": "trainers/nemo_gym.py.txt",
            "configs/taskloom_recipe.yaml": "trainers/nemo_gym_config.txt",
            "requirements.txt": "trainers/nemo_gym_requirements.txt",
        },
        "cp -r $out resources_servers/taskloom_recipe; ng_run"
        " '+config_paths=[resources_servers/taskloom_recipe/configs/taskloom_recipe.yaml, …]'",
    ),
}
"""Trainers by the name of their format."""


def export_for_trainer(
    folder: str | PathLike[str], out: str | PathLike[str], format: str, *, extract: str = EXTRACT
) -> str:
    """Write a dataset for a trainer, and return the beginning of the command that uses it.

    Args:
        folder: A dataset that Taskloom made.
        out: The new folder to write.
        format: A name in `TRAINERS`.
        extract: How answers are extracted from replies.
    """
    trainer, place = TRAINERS[format], path_of(out)
    data = made_dataset(folder)
    full = [name for name in data.splits if data.manifest["splits"][name]["n"]]
    names = split_names(full)
    train = next((names[s] for s in full if data.role(s) == "train"), names[full[0]])
    test = next((names[s] for s in full if data.role(s) == "test"), train)
    values = {**dataset_values(data, extract), "train": train, "test": test}
    with export_folder(place) as beside:
        for split in full:
            graded = open_split(folder, split, described=DESCRIBED, extract=extract)
            # NeMo Gym looks for rows in `data` next to the server.
            rows = (
                beside / "data"
                if trainer.suffix == "jsonl" and "app.py" in trainer.files
                else beside
            )
            rows.mkdir(exist_ok=True)
            _write_rows(graded, trainer, rows / f"{names[split]}.{trainer.suffix}")
        # The scorer needs only the manifest. The rows are in the trainer's files.
        (beside / "recipe").mkdir()
        shutil.copy(path_of(folder) / MANIFEST, beside / "recipe" / MANIFEST)
        for file, template in trainer.files.items():
            (beside / file).parent.mkdir(exist_ok=True)
            (beside / file).write_text(fill(template, values), encoding="utf-8")
    command = trainer.command.replace("$out", str(place))
    return command.replace("$train", train).replace("$test", test)


def _write_rows(graded: GradedSplit, trainer: Trainer, file: Path) -> None:
    """Write the rows of a split, one batch at a time."""
    if trainer.suffix == "jsonl":
        with file.open("w", encoding="utf-8") as lines:
            for row in _rows(graded, trainer):
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")
        return
    writer: pq.ParquetWriter | None = None
    batch: list[dict[str, Any]] = []
    for row in _rows(graded, trainer):
        batch.append(row)
        if len(batch) == BATCH:
            writer = _write_batch(batch, writer, file)
            batch = []
    if batch:
        writer = _write_batch(batch, writer, file)
    if writer is not None:
        writer.close()


def _write_batch(
    batch: list[dict[str, Any]], writer: pq.ParquetWriter | None, file: Path
) -> pq.ParquetWriter:
    table = pa.Table.from_pylist(batch)
    writer = writer or pq.ParquetWriter(file, table.schema)
    writer.write_table(table)
    return writer


def _rows(graded: GradedSplit, trainer: Trainer) -> Iterator[dict[str, Any]]:
    for index, example in enumerate(graded):
        yield trainer.row(graded.prompt(example), to_record(example), graded.split, index)


@lru_cache(maxsize=32)
def _opened(folder: Path, extract: str) -> GradedSplit:
    return open_split(folder, extract=extract)


def rewards(
    folder: Path,
    reply: object,
    record: str | Mapping[str, Any],
    *,
    extract: str = EXTRACT,
    form: float = 0.0,
    short: float = 0.0,
    characters: int = 2000,
) -> dict[str, float]:
    """Score a reply: the reward as `score`, and its parts.

    Args:
        folder: The folder with the manifest.
        reply: The model's reply.
        record: The example in the form of `to_record`, or as JSON text.
        extract: How the answer is extracted from the reply.
        form: Reward for a reply that ends with the line that the prompt asks for.
        short: Reward for a short reply, falling to 0 for a long one.
        characters: Length from which the reward `short` falls. It is 0 at twice this length.
    """
    if characters < 1:
        raise ParameterError("characters", f"must be at least 1, not {characters}")
    example = from_record(json.loads(record) if isinstance(record, str) else record)
    right = _opened(folder, extract).grade(reply, example).score
    in_form = float(keeps_form(reply))
    brief = brevity(reply, characters) if reply else 0.0
    total = right + form * in_form + short * brief
    return {"score": total, "recipe_score": right, "in_form": in_form, "short": brief}
