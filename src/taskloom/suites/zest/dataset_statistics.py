"""The summary statistics of a ZEST dataset: the rows of the paper's Table 2, and the mix of types,
domains and formats.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from taskloom.suites.zest.task_files import (
    Answer,
    ZestTask,
    alternatives,
    is_na,
    is_structure,
    parse_structure,
)

PAPER: dict[str, dict[str, float]] = {
    "train": {
        "pairs": 10_766,
        "passage_words": 121,
        "tasks": 538,
        "task_words": 12.3,
        "na": 0.62,
        "classification": 0.46,
    },
    "dev": {
        "pairs": 2_280,
        "passage_words": 122,
        "tasks": 114,
        "task_words": 12.2,
        "na": 0.67,
        "classification": 0.49,
    },
    "test": {
        "pairs": 11_980,
        "passage_words": 122,
        "tasks": 599,
        "task_words": 11.8,
        "na": 0.62,
        "classification": 0.44,
    },
}
"""Table 2 as published."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Table 2 for some tasks, and their mix.

    Attributes:
        pairs: Number of (task, passage) pairs.
        passage_words: Mean words of a passage.
        tasks: Number of tasks.
        task_words: Mean words of a description, over tasks.
        na: Share of pairs whose answer is n/a.
        classification: Share of tasks that are answered by yes or no.
        types: Number of tasks by generalization type.
        domains: By domain.
        formats: By output type.
    """

    pairs: int
    passage_words: float
    tasks: int
    task_words: float
    na: float
    classification: float
    types: dict[str, int]
    domains: dict[str, int]
    formats: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON values."""
        return asdict(self)


def statistics(tasks: Sequence[ZestTask]) -> Statistics:
    """Compute the statistics of tasks with answers."""
    instances = [i for t in tasks for i in t.instances]
    formats = Counter(str(t.format) for t in tasks)
    return Statistics(
        pairs=len(instances),
        passage_words=_mean([len(i.context.split()) for i in instances]),
        tasks=len(tasks),
        task_words=_mean([len(t.question.split()) for t in tasks]),
        na=_mean([says_na(i.answer) for i in instances]),
        classification=formats["classification"] / len(tasks) if tasks else 0.0,
        types=dict(Counter(str(t.kind) for t in tasks)),
        domains=dict(Counter(t.domain for t in tasks)),
        formats=dict(formats),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def says_na(answer: Answer | None) -> bool:
    """True if an answer is n/a: as text, or as a structure whose values are all n/a."""
    for text in alternatives(answer)[:1]:
        objects = parse_structure(text) if is_structure(text) else None
        if objects is not None:
            return all(is_na(json.dumps(v).strip('"')) for d in objects for v in d.values())
        return is_na(text)
    return False
