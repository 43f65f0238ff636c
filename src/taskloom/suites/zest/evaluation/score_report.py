"""The report of an evaluation: for machines a dictionary, for people a few tables of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from taskloom.suites.zest.evaluation.flags import FLAGS
from taskloom.suites.zest.evaluation.official import Entry
from taskloom.suites.zest.evaluation.totals import Row, ZestTaskScore, printed
from taskloom.suites.zest.task_files import PAPER_NAMES

Mode = Literal["official", "corrected"]


@dataclass(frozen=True, slots=True)
class InstanceScore:
    """One judged instance: its task, its place in it, score, entries, kind of mistake and the flags
    of a difference.
    """

    task: str
    index: int
    score: float
    entries: tuple[Entry, ...]
    mistake: str | None
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """What predictions are worth.

    Attributes:
        mode: `official` or `corrected`.
        by_type: Mean, C@T by generalization type; for paraphrases and flips of the paired values
            (consistency).
        overall: The unweighted mean over the types.
        own: The same without pairing, by `type`, `domain` and `format`.
        instance_mean: The mean over instances, regardless of tasks (the paper's Table 3).
        mistakes: Number of instances in each category of Table 6.
        differences: Instances on which the two modes differ, by flag, and tasks whose F1 differs.
        tasks: Every task with its F1.
        instances: Every instance.
        notes: What a person should know about the input.
    """

    mode: Mode
    by_type: dict[str, Row]
    overall: Row
    own: dict[str, dict[str, Row]]
    instance_mean: float
    mistakes: dict[str, int]
    differences: dict[str, Any]
    tasks: tuple[ZestTaskScore, ...] = field(repr=False)
    instances: tuple[InstanceScore, ...] = field(repr=False)
    notes: tuple[str, ...] = ()

    def official_json(self) -> dict[str, Any]:
        """Build what the public script writes: a row for each type and the whole percent of the
        overall C@90.
        """
        return {**self.by_type, "overall": printed(self.overall.get("90", 0.0))}

    def official_csv(self) -> str:
        """Format the script's table of whole percents, cut and not rounded."""
        rows = [*self.by_type.items(), ("average", self.overall)]
        head = "," + ",".join(self.overall)
        return (
            "\n".join(
                [
                    head,
                    *(
                        f"{name}," + ",".join(str(printed(v)) for v in r.values())
                        for name, r in rows
                    ),
                ]
            )
            + "\n"
        )

    def to_dict(self, details: bool = False) -> dict[str, Any]:
        """Convert to JSON values; `details` adds every task and every instance."""
        payload: dict[str, Any] = {
            "mode": self.mode,
            "n_tasks": len(self.tasks),
            "n_instances": len(self.instances),
            "by_type": self.by_type,
            "overall": self.overall,
            "own": self.own,
            "instance_mean": self.instance_mean,
            "mistakes": self.mistakes,
            "differences": self.differences,
            "notes": list(self.notes),
        }
        if self.mode == "official":
            payload["official"] = self.official_json()
        if details:
            payload["tasks"] = [_task(s) for s in self.tasks]
            payload["instances"] = [_instance(i) for i in self.instances]
        return payload

    def text(self) -> str:
        """Format for people: the paper's tables, the mistakes, and where the two modes differ."""
        columns = list(next(iter(self.own["type"].values()), {}))
        heads = ["mean", *(f"C@{c}" for c in columns[1:])]
        names = {**PAPER_NAMES}
        rows = [
            (names.get(k, k), self.by_type[k]) for k in [*names, *self.by_type] if k in self.by_type
        ]
        rows = list(dict(rows).items())
        out = [
            (
                f"ZEST, {self.mode} evaluation: {len(self.tasks)} tasks, {len(self.instances)}"
                " instances"
            ),
            "",
        ]
        out += _grid("generalization", heads, [*rows, ("overall", self.overall)] if rows else [])
        for by in ("domain", "format"):
            out += ["", *_grid(f"by {by}, unpaired", heads, list(self.own[by].items()))]
        wrong = sum(self.mistakes.values())
        out += ["", f"mistakes: {wrong} of {len(self.instances)} instances"]
        out += [
            f"  {name:<10} {n:>6}  {_percent(n, wrong)}" for name, n in self.mistakes.items() if n
        ]
        d = self.differences
        out += [
            "",
            f"official and corrected differ on {d['instances']} instances and {d['tasks']} tasks",
        ]
        out += [f"  {flag:<20} {n:>6}  {FLAGS[flag]}" for flag, n in d["flags"].items()]
        return "\n".join([*out, *(f"note: {n}" for n in self.notes)])


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:5.1f} %" if whole else ""


def _grid(title: str, heads: Sequence[str], rows: Sequence[tuple[str, Row]]) -> list[str]:
    width = max([len(title), *(len(name) for name, _ in rows)])
    lines = [f"{title:<{width}}  " + "  ".join(f"{h:>6}" for h in heads)]
    return lines + [
        f"{name:<{width}}  " + "  ".join(f"{100 * v:6.1f}" for v in r.values()) for name, r in rows
    ]


def _task(score: ZestTaskScore) -> dict[str, Any]:
    task = score.task
    return {
        "id": task.id,
        "type": task.kind,
        "domain": task.domain,
        "format": task.format,
        "f1": score.f1,
        "paired": score.paired,
        "tp": score.tp,
        "fp": score.fp,
        "fn": score.fn,
        "tn": score.tn,
        "gained": score.gained,
    }


def _instance(instance: InstanceScore) -> dict[str, Any]:
    return {
        "task": instance.task,
        "index": instance.index,
        "score": instance.score,
        "entries": [list(e) for e in instance.entries],
        "mistake": instance.mistake,
        "flags": list(instance.flags),
    }
