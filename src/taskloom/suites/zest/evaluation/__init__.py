"""The evaluation of ZEST: `score(gold, pred, mode)`.

`official` reproduces the public script including its quirks, for comparison with published numbers.
`corrected` follows the paper. Both reports state on how many instances the two modes differ, and
why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import fsum
from pathlib import Path
from random import Random

from taskloom.core.errors import InputError, nearest
from taskloom.core.example import Example
from taskloom.core.predictions import Prediction, predictions_for
from taskloom.suites.zest.evaluation import corrected, official
from taskloom.suites.zest.evaluation.corrected import MISTAKES, mistake
from taskloom.suites.zest.evaluation.flags import FLAGS, differ, flags
from taskloom.suites.zest.evaluation.official import Answer, Judged, Undefined
from taskloom.suites.zest.evaluation.score_report import (
    InstanceScore,
    Mode,
    ScoreReport,
    ZestTaskScore,
    average,
    official_format,
    pair_corrected,
    pair_official,
    table,
    task_score,
)
from taskloom.suites.zest.task_files import (
    ZestTask,
    alternatives,
    is_structure,
    problems,
    read_script_predictions,
    read_tasks,
    task_of,
    with_braces,
)

__all__ = ["FLAGS", "MISTAKES", "ScoreReport", "Undefined", "score", "score_examples"]

SKIPPED = "Are there any buildings named after this president?"
"""The only question that the public script skips. Its predictions are still consumed."""

SUSPICIOUS = 3
"""Minimum number of structured predictions at unexpected positions that triggers a warning about
their order.
"""

MODES: tuple[Mode, ...] = ("official", "corrected")


def score(
    gold: str | Path | Sequence[ZestTask],
    pred: str | Path | Sequence[str],
    mode: str = "official",
    thresholds: Sequence[float] = (75, 90),
) -> ScoreReport:
    """Score predictions for ZEST tasks.

    Args:
        gold: A file of tasks with answers, or the tasks themselves.
        pred: The predictions, or a file with them (`-` for standard input). Plain files have one
            prediction per line in the order tasks x examples. Records may also have ids: the number
            of the example in that order, from 0, or `TASK/NUMBER`.
        mode: `official` or `corrected`.
        thresholds: The T of each C@T, in percent.

    Raises:
        InputError: If the input cannot be scored, or if the public script would crash on it in
            `official` mode.
    """
    tasks = read_tasks(Path(gold)) if isinstance(gold, str | Path) else list(gold)
    names = [f"{task.id}/{i}" for task in tasks for i in range(len(task.instances))]
    return _score(tasks, _predictions(pred, len(names), names), mode, thresholds, gold, pred)


def _score(
    tasks: Sequence[ZestTask],
    predictions: Sequence[Prediction],
    mode: str,
    thresholds: Sequence[float],
    gold: object,
    pred: object,
) -> ScoreReport:
    if mode not in MODES:
        raise InputError(f"there is no mode '{mode}'; {nearest(mode, MODES)}")
    if not thresholds or not all(0 <= t <= 100 for t in thresholds):
        raise InputError(f"thresholds must be percentages from 0 to 100, not {list(thresholds)}")
    _check_gold(tasks, gold)
    wanted = sum(len(t.instances) for t in tasks)
    notes = _check_number(wanted, predictions, _name(gold, "the gold tasks"), pred)
    notes += _encoding_notes(predictions) + _order_notes(tasks, predictions) + _task_notes(tasks)
    if mode == "official":
        _refuse_faults(predictions, pred)
    else:
        tasks = [
            t for t in tasks if t.instances
        ]  # tasks without instances are only mentioned in the notes
    if not tasks:
        raise InputError(f"{_name(gold, 'the gold tasks')} has no examples to score")
    return _report(
        mode, _judge_all(tasks, predictions, mode == "official", pred), thresholds, notes
    )


def score_examples(
    examples: Iterable[Example],
    pred: str | Path | Sequence[str],
    mode: str = "corrected",
    thresholds: Sequence[float] = (75, 90),
) -> ScoreReport:
    """Score predictions for the examples of any dataset, in its order. C@T and consistency are
    available for every suite, because each example has a task. Examples without the traits of ZEST
    count as base tasks.
    """
    rows = list(examples)
    predictions = _predictions(pred, len(rows))
    _check_number(len(rows), predictions, "the dataset", pred)
    extra = predictions[len(rows) :]
    places: dict[str, list[int]] = {}
    for i, e in enumerate(rows):
        places.setdefault(e.task, []).append(i)
    tasks = [
        task_of([rows[i] for i in at], line) for line, at in enumerate(places.values(), start=1)
    ]
    ordered = [predictions[i] for at in places.values() for i in at]
    return _score(tasks, ordered + extra, mode, thresholds, "the dataset", pred)


def _predictions(
    pred: str | Path | Sequence[str], examples: int, names: Sequence[str] = ()
) -> list[Prediction]:
    if isinstance(pred, str | Path):
        rows = predictions_for(
            pred, examples, names=names, objects=True, lines=read_script_predictions
        )
        return [replace(row, text=with_braces(row.text)) for row in rows]
    return [Prediction(text, number) for number, text in enumerate(pred, start=1)]


def _name(source: object, otherwise: str) -> str:
    return str(source) if isinstance(source, str | Path) else otherwise


def _check_gold(tasks: Sequence[ZestTask], gold: object) -> None:
    for task in tasks:
        if task.kind is None or any(i.answer is None for i in task.instances):
            where = _name(gold, "the gold tasks")
            raise InputError(
                f"{where}: task {task.id} has no answers; score with a file that has 'type' and "
                "'answer'"
            )


def _check_number(
    wanted: int, predictions: Sequence[Prediction], gold: str, pred: object
) -> list[str]:
    if len(predictions) < wanted:
        raise InputError(
            f"{_name(pred, 'the predictions')} has {len(predictions)} predictions, but {gold} has "
            f"{wanted} examples; give one line per example, in the order tasks x examples"
        )
    extra = len(predictions) - wanted
    return [f"{extra} predictions after the last example were ignored"] if extra else []


def _refuse_faults(predictions: Iterable[Prediction], pred: object) -> None:
    for p in predictions:
        if p.fault:
            where = f"{_name(pred, 'the predictions')}:{p.line}"
            raise Undefined(
                f"{where}: {p.fault} (the public script stops here; the mode 'corrected' scores it)"
            )


def _encoding_notes(predictions: Sequence[Prediction]) -> list[str]:
    """Warn about UTF-16 without a byte order mark. Such a file is valid UTF-8 with a NUL after each
    letter, so every answer would be wrong for no visible reason.
    """
    odd = sum("\0" in p.text for p in predictions)
    if not odd:
        return []
    return [
        f"{odd} predictions contain NUL characters. Was the file saved as UTF-16? Save it as UTF-8"
    ]


def _order_notes(tasks: Sequence[ZestTask], predictions: Sequence[Prediction]) -> list[str]:
    """Warn about a wrong order of the predictions. It can only be noticed if structured predictions
    meet plain answers.
    """
    answers = [instance.answer for task in tasks for instance in task.instances]
    golds = [any(map(is_structure, alternatives(answer)[:1])) for answer in answers]
    structured = ["}" in p.text for p in predictions]
    strays = sum(s and not g for s, g in zip(structured, golds, strict=False))
    lacking = sum(g and not s for s, g in zip(structured, golds, strict=False))
    if strays < SUSPICIOUS or lacking < SUSPICIOUS or 2 * strays < sum(structured):
        return []
    return [
        f"{strays} structured predictions appear where plain answers are expected, and {lacking} "
        "questions that need a structure got a plain answer: are the predictions in the order of "
        "the gold examples?"
    ]


def _task_notes(tasks: Sequence[ZestTask]) -> list[str]:
    oddities = problems(tasks)
    notes = [f"task {p.task} (line {p.line}): {p.what}" for p in oddities[:3]]
    if len(oddities) > 3:
        notes.append(f"{len(oddities) - 3} more problems in the gold file")
    return notes


_Rows = list[tuple[Judged | None, Judged, InstanceScore]]
"""For each instance: the script's judgement (None if it fails), the paper's judgement, and the
score kept in the report.
"""


def _judge_all(
    tasks: Sequence[ZestTask], predictions: Sequence[Prediction], by_script: bool, pred: object
) -> list[tuple[ZestTask, _Rows]]:
    """Score every instance in both modes. Tasks are processed in file order, because the script
    uses one random stream for the whole file.
    """
    draws = Random(0)  # noqa: S311 - the public script's generator
    upcoming = iter(predictions)
    judged = []
    for task in tasks:
        rows: _Rows = []
        for index, (instance, prediction) in enumerate(zip(task.instances, upcoming, strict=False)):
            if by_script and task.question == SKIPPED:
                continue
            assert instance.answer is not None
            script, fault = _by_script(instance.answer, prediction, draws)
            if by_script and fault:
                where = f"{_name(pred, 'the predictions')}:{prediction.line}"
                raise Undefined(
                    f"{where}: {fault} (the public script stops here; the mode 'corrected'"
                    " scores it)"
                )
            paper = corrected.judge(instance.answer, prediction.text)
            counted = script if by_script and script is not None else paper
            kind = mistake(instance.answer, prediction.text, counted)
            why = flags(instance.answer, prediction.text, script, paper)
            score = InstanceScore(task.id, index, counted.score, counted.entries, kind, why)
            rows.append((script, paper, score))
        if not (by_script and task.question == SKIPPED):
            judged.append((task, rows))
    return judged


def _by_script(answer: Answer, prediction: Prediction, draws: Random) -> tuple[Judged | None, str]:
    """Return the script's judgement and an empty reason, or None and the reason if the script
    fails.
    """
    if prediction.fault:
        return None, prediction.fault
    try:
        return official.judge(answer, prediction.text, draws), ""
    except Undefined as error:
        return None, str(error)


def _report(
    mode: Mode,
    judged: Sequence[tuple[ZestTask, _Rows]],
    thresholds: Sequence[float],
    notes: Sequence[str],
) -> ScoreReport:
    by_script = mode == "official"
    if by_script:
        scores = [_script_score(task, rows) for task, rows in judged]
        paired = pair_official(scores)
    else:
        scores = [_paper_score(task, rows) for task, rows in judged]
        paired = pair_corrected(scores)
    scores = [replace(s, paired=value) for s, value in zip(scores, paired, strict=True)]
    dropped = sum(value is None for value in paired)
    if dropped:
        notes = [
            *notes,
            (
                f"{dropped} paraphrases or flips are left out of C@T, because their base tasks "
                "are not in the gold file"
            ),
        ]
    by_type = table(scores, paired, lambda s: str(s.task.kind), thresholds, by_script)
    if "normal" in by_type:  # the script's order: types in order of appearance, base tasks last
        by_type["normal"] = by_type.pop("normal")
    own: list[float | None] = [s.f1 for s in scores]
    instances = [i for _, rows in judged for *_, i in rows]
    kinds = Counter(i.mistake for i in instances if i.mistake)
    return ScoreReport(
        mode=mode,
        by_type=by_type,
        overall=average(by_type, by_script),
        own={
            "type": table(scores, own, lambda s: str(s.task.kind), thresholds, by_script),
            "domain": table(scores, own, lambda s: s.task.domain, thresholds, by_script),
            "format": table(
                scores,
                own,
                lambda s: official_format(s.task) if by_script else s.task.format,
                thresholds,
                by_script,
            ),
        },
        instance_mean=fsum(i.score for i in instances) / len(instances) if instances else 0.0,
        mistakes={name: kinds[name] for name in MISTAKES},
        differences=_differences(judged),
        tasks=tuple(scores),
        instances=tuple(instances),
        notes=tuple(notes),
    )


def _script_score(task: ZestTask, rows: _Rows) -> ZestTaskScore:
    """Score a task by the script's rules, over the instances that the script can judge."""
    return task_score(task, [script for script, _, _ in rows if script is not None], False)


def _paper_score(task: ZestTask, rows: _Rows) -> ZestTaskScore:
    """Score a task by the paper's rules."""
    return task_score(task, [paper for _, paper, _ in rows], True)


def _differences(
    judged: Sequence[tuple[ZestTask, _Rows]],
) -> dict[str, object]:
    """Count the instances and tasks that the two modes score differently, with the reasons."""
    counts: Counter[str] = Counter()
    tasks = 0
    for task, rows in judged:
        for _, _, instance in rows:
            counts.update(instance.flags)
        gap = _script_score(task, rows).f1 - _paper_score(task, rows).f1
        unjudged = any(script is None for script, _, _ in rows)
        tasks += unjudged or abs(gap) > 1e-9
    return {
        "instances": sum(differ(s, p) for _, rows in judged for s, p, _ in rows),
        "tasks": tasks,
        "flags": {flag: counts[flag] for flag in FLAGS if counts[flag]},
    }
