"""What kind of mistake an instance is: the categories of the paper's Table 6, and malformed JSON apart."""

from __future__ import annotations

from typing import Literal

from taskloom.suites.zest.evaluation import corrected
from taskloom.suites.zest.evaluation.official import Answer, Judged
from taskloom.suites.zest.task_files import is_structure

Mistake = Literal["recall", "precision", "partial", "malformed", "other"]

MISTAKES: dict[Mistake, str] = {
    "recall": "said n/a where there is an answer",
    "precision": "gave an answer where n/a is right",
    "partial": "gave some members of a list or structure and not all",
    "malformed": "no readable JSON where a structure is wanted",
    "other": "gave a wrong answer",
}


def mistake(gold: Answer, prediction: str, judged: Judged) -> Mistake | None:
    """Return the category of a mistake; None when the instance is right in full.

    A partial answer has some member of a gold list (or some value of a structure) right and another one missing or wrong;
    a single span that overlaps in part is "other", as in the paper's table.
    """
    buckets = {bucket for bucket, _ in judged.entries}
    if all(bucket == "tn" or (bucket == "tp" and score >= 1.0) for bucket, score in judged.entries):
        return None
    several = is_structure(gold) if isinstance(gold, str) else False
    if several and not corrected.says_na(prediction) and not isinstance(corrected.parsed(prediction), list | dict):
        return "malformed"
    if several and corrected.says_na(prediction) and buckets & {"tp", "fn"}:
        return "recall"
    if "tp" not in buckets and ("fn" in buckets or "fp" in buckets):
        return "recall" if "fn" in buckets else "precision"
    gained = any(bucket == "tp" and score > 0.0 for bucket, score in judged.entries)
    listed = several or any("|" in a for a in ([gold] if isinstance(gold, str) else gold))
    return "partial" if gained and listed else "other"
