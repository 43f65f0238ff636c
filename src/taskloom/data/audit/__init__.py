"""The audit: a certificate of what is wrong, or not wrong, with a dataset.

Duplicates and leaks, of inputs and of pairs with their answers, tests of tasks that training has but for a constant, held-out
examples, label balance, what shortcuts reach, which traits the test has and training lacks, and how far the compositions of
the test are from those of training. It needs the data alone, not the generator, so it audits anybody's data.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from taskloom.core.descriptions import undescribed_table
from taskloom.core.notebook import paragraph, table
from taskloom.core.offers import TaskForm
from taskloom.core.registry import SUITES
from taskloom.data import Dataset, dataset
from taskloom.data.audit.balance import (
    Balance,
    Coverage,
    HeldOutCount,
    balances,
    coverages,
    held_out_counts,
)
from taskloom.data.audit.divergence import Divergence, divergences
from taskloom.data.audit.leaks import Overlap, Repeats, find_overlaps, find_repeats, read_texts
from taskloom.data.audit.pairs import ConstantTask, PairLeak, find_constant_tasks, find_pair_leaks
from taskloom.data.audit.shortcuts import Shortcut, find_shortcuts, shortcut_count

__all__ = ["Audit", "audit"]


@dataclass(frozen=True, slots=True, repr=False)
class Audit:
    """What an audit found; `leaks`, `pairs` and `misplaced` are what make it fail."""

    name: str
    digest: str
    splits: dict[str, dict[str, Any]]
    repeats: list[Repeats]
    overlaps: list[Overlap]
    pairs: list[PairLeak]
    constants: list[ConstantTask]
    balance: list[Balance]
    shortcuts: list[Shortcut]
    coverage: list[Coverage]
    divergence: list[Divergence]
    held_out: list[HeldOutCount]
    notes: list[str]

    def __repr__(self) -> str:
        verdict = "failed" if self.failed else "passed"
        duplicates = sum(r.exact for r in self.repeats)
        counts = f"{len(self.leaks)} leaks, {duplicates:,} duplicates, {self.shortcut_count}"
        return f"<Audit of {self.name}: {verdict}; {counts}>"

    def _repr_html_(self) -> str:
        balance = {b.split: b for b in self.balance}
        rows = []
        for repeats in self.repeats:
            info = self.splits[repeats.split]
            majority = f"{balance[repeats.split].majority:.3f}" if repeats.split in balance else ""
            rows.append(
                (repeats.split, info["role"], info["n"], repeats.exact, repeats.near, majority)
            )
        heads = ("split", "role", "examples", "duplicates", "near duplicates", "majority answer")
        parts = [paragraph(repr(self), strong=True), table(heads, rows)]
        if self.overlaps:
            overlaps = [(o.split, o.other, o.exact, o.verdict) for o in self.overlaps]
            parts.append(table(("rows of", "also in", "exact", "verdict"), overlaps))
        if self.shortcuts:
            tried = [
                (s.split, s.baseline, f"{s.accuracy:.3f}", "shortcut" if s.flagged else "")
                for s in self.shortcuts
            ]
            parts.append(table(("split", "without doing the task", "accuracy", ""), tried))
        return "".join([*parts, *map(paragraph, self.notes)])

    @property
    def shortcut_count(self) -> str:
        """Return in words how many shortcuts there are, and whether a baseline was not tried."""
        return shortcut_count((s.baseline, s.flagged) for s in self.shortcuts)

    @property
    def leaks(self) -> list[Overlap]:
        """Return the overlaps between training and a test split."""
        return [o for o in self.overlaps if o.leak]

    @property
    def failed(self) -> bool:
        """Return whether training gives a test away, or a held-out example is where it should not be."""
        return bool(self.leaks or self.pairs or self.misplaced)

    @property
    def misplaced(self) -> list[HeldOutCount]:
        """Return the splits that have held-out examples where none should be, or lack them where all should be."""
        return [count for count in self.held_out if not count.right]

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {**asdict(self), "leaks": [asdict(o) for o in self.leaks]}


def audit(data: Dataset | str | Path) -> Audit:
    """Audit a dataset, or a folder of one."""
    data = data if isinstance(data, Dataset) else dataset.load(data)
    tables = {name: data.table(name) for name in data.splits}
    roles = {name: data.role(name) for name in data.splits}
    notes = list(
        data.manifest.get("warnings", [])
    )  # what the suite has to say about its own data, such as repeats by design
    if "train" not in roles.values():
        notes.append(
            "no training split: leaks, shortcuts, coverage and divergence need one (a split called 'train')"
        )
    # Descriptions are shared by design; what must not leak or repeat is what comes after them.
    described = bool(data.manifest["recipe"].get("described"))
    bare = (
        {name: undescribed_table(table) for name, table in tables.items()} if described else tables
    )
    texts = read_texts(bare)
    shortcuts, unmeasured = find_shortcuts(tables, roles)
    return Audit(
        name=str(data.manifest["recipe"].get("name", "")),
        digest=data.digest,
        splits={name: {"n": tables[name].num_rows, "role": roles[name]} for name in tables},
        repeats=find_repeats(bare, texts),
        overlaps=find_overlaps(texts, roles),
        pairs=find_pair_leaks(bare, roles),
        constants=find_constant_tasks(tables, roles, _task_form(data)),
        balance=balances(tables),
        shortcuts=shortcuts,
        coverage=coverages(tables, roles),
        divergence=divergences(tables, roles),
        held_out=held_out_counts(tables),
        notes=notes + unmeasured,
    )


def _task_form(data: Dataset) -> TaskForm | None:
    """Return how the suite of a dataset tells constants; None for other data."""
    suite = SUITES.find(str(data.manifest["recipe"].get("suite", "")))
    return suite.task_form if suite else None
