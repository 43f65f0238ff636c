"""ZEST: tasks described only in words (Weller et al. 2020), read from files or generated from
worlds of facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from taskloom.core.errors import TaskloomError
from taskloom.core.offers import Export, Option, TraitName
from taskloom.core.registry import Suite, suite
from taskloom.core.resources import Resource
from taskloom.suites.zest.fields import ZestFields
from taskloom.suites.zest.scorer import zest as zest

if TYPE_CHECKING:
    from taskloom.core.example import Example
    from taskloom.core.pictures import FamilyPicture
    from taskloom.core.plan import Plan
    from taskloom.core.seeding import Key
    from taskloom.suites.zest.evaluation.score_report import ScoreReport
    from taskloom.suites.zest.task_files import problems as problems
    from taskloom.suites.zest.task_files import read_tasks as read_tasks
    from taskloom.suites.zest.task_files import statistics as statistics

_HOME = {"problems": "task_files", "read_tasks": "task_files", "statistics": "task_files"}
"""Public names defined in other modules than the package `evaluation`, with their modules."""

__all__ = ["ZestFields", "ZestSuite", "zest", *_HOME]


def __getattr__(name: str) -> Any:
    # Import lazily, so that listing the suites stays fast.
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


TRAIT_NAMES = {
    "generalization_type": TraitName(
        "kind of generalization", "How a test task differs from training tasks."
    ),
    "domain": TraitName("domain", "Topic of the passages."),
    "format": TraitName("answer format", "Form of the answer that the description asks for."),
    "answer_type": TraitName("answer type", "Type of the answer's value."),
    "evidence": TraitName("evidence", "How the passage supports the answer."),
    "operation": TraitName("operation", "Operation on the facts of the passage."),
    "program": TraitName("program", "Program that computes the answer."),
    "passage_words": TraitName("passage length", "Number of words in the passage."),
    "question_words": TraitName("question length", "Number of words in the question."),
    "derives_from": TraitName("base task", "Task that this one was derived from."),
    "instance": TraitName("passage", "Number of the passage."),
    "line": TraitName("line of the file", "Line in the published file."),
}


def export_zest(examples: Sequence[Example], fields: ZestFields | None) -> Export:
    """Write a split as a ZEST file with one task per line, in the format of the public script."""
    from taskloom.suites.zest.fields import context, question
    from taskloom.suites.zest.task_files import task_lines, task_of

    if fields is not None and fields.parts != "both":
        raise TaskloomError(
            "a ZEST file needs questions and passages, but these inputs contain only the "
            f"{fields.parts}; export data made with parts=both"
        )
    tasks: dict[str, list[Example]] = {}
    for example in examples:
        passage = replace(
            example,
            input=context(example.input),
            question=example.question or question(example.input),
        )
        tasks.setdefault(example.task, []).append(passage)
    return Export(task_lines(task_of(rows) for rows in tasks.values()))


@suite
class ZestSuite(Suite):
    """Tasks with descriptions, from files or generated."""

    name = "zest"
    fields = ZestFields
    describe = "Tasks described only in words, varied in four controlled ways"
    version = 9
    trait_names = TRAIT_NAMES
    exporters = MappingProxyType({"zest": export_zest})
    options = (Option("score", "mode", "official (like the public script) or corrected."),)
    resources = (
        Resource(
            "zest", "the ZEST files (zest: its own tasks)", ("zest/train.jsonl", "zest/dev.jsonl")
        ),
    )

    def weave(self, fields: ZestFields, key: Key) -> Plan:
        """Plan a ZEST recipe: from published files if it names any, else from generated tasks."""
        if fields.files:
            from taskloom.suites.zest import published_tasks

            return published_tasks.plan(fields)
        from taskloom.suites.zest.synthetic.plan import plan

        return plan(fields, key)

    def evaluate(
        self,
        gold: Path | Iterable[Example],
        predictions: Path,
        thresholds: Sequence[float],
        mode: str = "official",
    ) -> ScoreReport:
        """Score predictions with the public script's method, or as the paper defines the score."""
        from taskloom.suites.zest import evaluation

        if isinstance(gold, Path):
            return evaluation.score(gold, predictions, mode, thresholds)
        return evaluation.score_examples(gold, predictions, mode, thresholds)

    def run_scores(
        self, plan: Plan, examples: Sequence[Example], predictions: Sequence[str]
    ) -> dict[str, float]:
        """Score a whole split like `taskloom score zest`: with the paper's method, and with the
        public script's method if it can score the split.
        """
        from taskloom.suites.zest import evaluation

        scores: dict[str, float] = {}
        for mode, head in (("corrected", ""), ("official", "official ")):
            try:
                report = evaluation.score_examples(examples, predictions, mode)
            except evaluation.Undefined:
                continue
            scores |= {
                head + (name if name == "mean" else f"C@{name}"): value
                for name, value in report.overall.items()
            }
            if "paraphrase" in report.by_type:
                scores[f"{head}consistency"] = report.by_type["paraphrase"]["mean"]
        return scores

    def picture(self, example: Example, fields: ZestFields, key: Key) -> FamilyPicture | None:
        """Return the family of a generated example, or None for published tasks."""
        if fields.files or fields.parts != "both":
            return None
        from taskloom.suites.zest.synthetic.plan import family_picture

        return family_picture(fields, key, example)

    def predictions(self, file: Path, examples: int) -> list[str]:
        """Read predictions like the public script: T5's substitutes for braces become braces again,
        even in JSON records.
        """
        from taskloom.core.predictions import predictions_for
        from taskloom.suites.zest.task_files import read_script_predictions, with_braces

        rows = predictions_for(file, examples, objects=True, lines=read_script_predictions)
        return [with_braces(row.text) for row in rows]
