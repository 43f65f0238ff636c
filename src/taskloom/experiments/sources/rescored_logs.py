"""Logs of other evaluation tools, scored again from their whole replies. The logs stay as they are:
what comes out is written as sample files of lm-evaluation-harness, which `taskloom runs` reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from taskloom.core.errors import DataError
from taskloom.core.example import Example
from taskloom.core.extraction import Extraction
from taskloom.core.files import atomic
from taskloom.core.registry import find_scorer
from taskloom.core.scoring import Scorer, answer_or_none
from taskloom.experiments.rescore import Change
from taskloom.experiments.sources.eval_logs import (
    SPLIT,
    LoggedItem,
    LoggedRun,
    find_logs,
    is_log,
    read_log,
)

_NOT_IN_NAMES = re.compile(r"[^\w.,=+-]+")


def logs_of(path: Path) -> list[Path]:
    """The logs that a path names: itself, or those in its folder."""
    return [path] if path.is_file() and is_log(path) else find_logs(path)


def rescore_logs(path: Path, name: str, extract: str, out: Path | None = None) -> list[Change]:
    """Score the replies of logs again.

    Args:
        path: A log, or a folder of logs.
        name: A scorer's name.
        extract: How answers are cut out of replies.
        out: A new folder for the items with their new scores; None: nothing is written.
    """
    scorer, extraction = find_scorer(name), Extraction.read(extract)
    if out is not None and out.exists():
        raise DataError(f"{out} exists; name a new folder")
    changes = []
    seeds: dict[tuple[str, str], int] = {}
    for file in logs_of(path):
        for run in read_log(file, replies=True):
            seed = seeds.get((run.task, run.model), 0)
            seeds[run.task, run.model] = seed + 1
            answers = [extraction(item.reply) for item in run.items]
            scores = _scores(run.items, answers, scorer)
            changes.append(_change(file, run, seed, scores))
            if out is not None:
                _write(out, run, seed, answers, scores, name)
    return changes


def _scores(items: Sequence[LoggedItem], answers: Sequence[str], scorer: Scorer) -> list[float]:
    scores = []
    for item, answer in zip(items, answers, strict=True):
        example = Example(item.input, item.targets, dict(item.traits))
        scores.append(scorer.score(answer_or_none(answer), example))
    return scores


def _change(file: Path, run: LoggedRun, seed: int, scores: Sequence[float]) -> Change:
    before = [item.score for item in run.items]
    changed = sum(old != new for old, new in zip(before, scores, strict=True))
    head = (str(file), run.task, run.model, seed, SPLIT, len(scores))
    if not scores:
        return Change(*head, None, None, 0)
    return Change(*head, fmean(before), fmean(scores), changed)


def _write(
    out: Path,
    run: LoggedRun,
    seed: int,
    answers: Sequence[str],
    scores: Sequence[float],
    metric: str,
) -> None:
    # lm-evaluation-harness names the folder by the model, with __ for /.
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
