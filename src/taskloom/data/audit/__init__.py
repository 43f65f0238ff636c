"""The audit: a report of defects in a dataset, or of their absence.

It covers duplicates and leaks (of inputs and of input-answer pairs), test tasks that differ from a
training task only in a constant, held-out examples, label balance, shortcut baselines, trait values
that only the test has, and the divergence between the compositions of test and training. It needs
only the data, not the generator, so it works on any dataset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from taskloom.core.descriptions import undescribed_table
from taskloom.core.offers import TaskForm
from taskloom.core.progress import ShowProgress, WorkCounter, shown
from taskloom.core.registry import SUITES
from taskloom.core.tables import Table, counted, paragraph, percent, table
from taskloom.data import Dataset, dataset
from taskloom.data.audit.disguises import Alike
from taskloom.data.audit.distribution import (
    Balance,
    Coverage,
    Divergence,
    HeldOutCount,
    balances,
    coverages,
    divergences,
    held_out_counts,
)
from taskloom.data.audit.leaks import (
    ConstantTask,
    Overlap,
    PairLeak,
    Repeats,
    find_constant_tasks,
    find_overlaps,
    find_pair_leaks,
    find_repeats,
    read_texts,
)
from taskloom.data.audit.shortcuts import Shortcut, find_shortcuts, shortcut_count

__all__ = ["Audit", "audit"]


@dataclass(frozen=True, slots=True, repr=False)
class Audit:
    """Results of an audit. It fails on `leaks`, `pairs` and `misplaced`."""

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
    alike: list[Alike] = field(default_factory=list)

    def __repr__(self) -> str:
        verdict = "failed" if self.failed else "passed"
        return f"<Audit of {self.name}: {verdict}; {self.summary}>"

    @property
    def summary(self) -> str:
        """Counts of the findings, in one line."""
        trained = any(info["role"] == "train" for info in self.splits.values())
        leaking = {leak.split for leak in self.leaks} | {pairs.split for pairs in self.pairs}
        parts = [counted(len(leaking), "leak")]
        if not trained:
            parts = ["leaks were not looked for"]
        kinds: Counter[str] = Counter()
        for leak in self.leaks:
            kinds.update(leak.kinds)
        found = [f"{n:,} by {kind}" for kind, n in kinds.most_common()]
        exact = sum(leak.exact for leak in self.leaks)
        if exact:
            found.insert(0, f"{exact:,} exact")
        same_pairs = sum(pairs.same for pairs in self.pairs)
        if same_pairs:
            found.append(f"{same_pairs:,} by the same pair")
        reversed_pairs = sum(pairs.reversed for pairs in self.pairs)
        if reversed_pairs:
            found.append(f"{reversed_pairs:,} by a reversed pair")
        if found:
            parts[0] += f" ({', '.join(found)})"
        if self.held_out:
            misplaced = len(self.misplaced)
            parts.append(f"{counted(misplaced, 'split')} with misplaced held-out examples")
        duplicates = counted(sum(r.exact for r in self.repeats), "duplicate")
        disguised = sum(r.disguised for r in self.repeats)
        if disguised:
            duplicates += f" and {disguised:,} in disguise"
        parts.append(duplicates)
        return ", ".join([*parts, self.shortcut_count])

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
        parts = [paragraph(repr(self), strong=True), table(heads, rows).html()]
        if self.overlaps:
            overlaps = [(o.split, o.other, o.exact, o.verdict) for o in self.overlaps]
            parts.append(table(("rows of", "also in", "exact", "verdict"), overlaps).html())
        if self.shortcuts:
            tried = [
                (s.split, s.baseline, f"{s.accuracy:.3f}", "shortcut" if s.flagged else "")
                for s in self.shortcuts
            ]
            parts.append(table(("split", "without doing the task", "accuracy", ""), tried).html())
        return "".join([*parts, *map(paragraph, self.notes)])

    @property
    def shortcut_count(self) -> str:
        """Number of shortcuts in words, and whether a baseline was not tried."""
        return shortcut_count((s.baseline, s.flagged) for s in self.shortcuts)

    @property
    def leaks(self) -> list[Overlap]:
        """Overlaps between training and test splits."""
        return [o for o in self.overlaps if o.leak]

    @property
    def failed(self) -> bool:
        """True if training leaks into a test, a held-out example is in the wrong split, or a test
        split not drawn by a recipe repeats its rows.
        """
        repeated = any(repeats.unexpected for repeats in self.repeats)
        return bool(self.leaks or self.pairs or self.misplaced or repeated)

    @property
    def misplaced(self) -> list[HeldOutCount]:
        """Splits that have held-out examples but should not, or lack them but should have only such
        examples.
        """
        return [count for count in self.held_out if not count.right]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        leaks = [asdict(o) for o in self.leaks]
        return {**asdict(self), "leaks": leaks, "summary": self.summary}


EXAMPLE = 160
"""Maximum characters of an example that a table shows."""


def certificate_tables(audit: Mapping[str, Any]) -> list[Table]:
    """Tables of an audit's results, most important first: causes of failure come first. Empty
    tables are left out.

    Args:
        audit: Audit in the form of `Audit.to_dict` or of a certificate's JSON.
    """
    tables = (
        _overlap_table(audit["overlaps"]),
        _pair_table(audit["pairs"]),
        _held_out_table(audit["held_out"]),
        _shortcut_table(audit["shortcuts"]),
        _split_table(audit),
        _constant_table(audit["constants"]),
        _coverage_table(audit["coverage"]),
        _divergence_table(audit["divergence"]),
    )
    return [one for one in tables if len(one)]


_Found = Sequence[Mapping[str, Any]]


def _marked(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[Any]], bad: Iterable[bool]
) -> Table:
    """A table that marks rows that are shortcuts or make the audit fail."""
    marks = tuple("bad" if is_bad else "" for is_bad in bad)
    return replace(table(heads, rows, title), marks=marks)


def _example(examples: Sequence[Any]) -> str:
    return str(examples[0])[:EXAMPLE] if examples else ""


def _overlap_table(found: _Found) -> Table:
    rows = []
    for one in found:
        verdict = "by design" if one["by_design"] else "note"
        kinds = ", ".join(f"{kind} {n:,}" for kind, n in one.get("kinds", {}).items())
        rows.append(
            (
                one["split"],
                one["other"],
                one["exact"],
                one["near"],
                percent(one["share"]),
                kinds,
                "LEAK" if one["leak"] else verdict,
                _example(one["examples"]),
            )
        )
    heads = ("rows of", "also in", "exact", "near", "share", "near by", "verdict", "for example")
    return _marked("Overlaps between splits", heads, rows, [one["leak"] for one in found])


def _pair_table(found: _Found) -> Table:
    rows = []
    for one in found:
        share, example = percent(one["share"]), _example(one["examples"])
        rows.append((one["split"], one["same"], one["reversed"], share, "LEAK", example))
    heads = ("rows of", "same pair", "reversed", "share", "verdict", "for example")
    title = "Input-answer pairs that are also in training, as they are or reversed"
    return _marked(title, heads, rows, [True] * len(rows))


def _held_out_table(found: _Found) -> Table:
    right = [one["held_out"] == one["expected"] for one in found]
    rows = []
    for one, is_right in zip(found, right, strict=True):
        verdict = "right" if is_right else "MISPLACED"
        rows.append((one["split"], one["n"], one["held_out"], one["expected"], verdict))
    heads = ("split", "examples", "held out", "should be", "verdict")
    title = "Held-out examples: all of ood, none elsewhere"
    return _marked(title, heads, rows, [not is_right for is_right in right])


def _shortcut_table(found: _Found) -> Table:
    """One row per split, one column per baseline that does not do the task."""
    names = list(dict.fromkeys(one["baseline"] for one in found))
    cells: dict[str, dict[str, str]] = {}
    for one in found:
        mark = " SHORTCUT" if one["flagged"] else ""
        cells.setdefault(one["split"], {})[one["baseline"]] = percent(one["accuracy"]) + mark
    rows = [(split, *(own.get(name, "–") for name in names)) for split, own in cells.items()]
    flagged = {one["split"] for one in found if one["flagged"]}
    title = "Shortcuts: accuracy without doing the task"
    return _marked(title, ("split", *names), rows, [split in flagged for split in cells])


def _split_table(audit: Mapping[str, Any]) -> Table:
    """Duplicates in each split, and the balance of its answers."""
    repeats = {one["split"]: one for one in audit["repeats"]}
    balance = {one["split"]: one for one in audit["balance"]}
    rows = []
    for split, about in audit["splits"].items():
        repeated = repeats.get(split, {})
        counts = [repeated.get(kind, 0) for kind in ("exact", "near", "contradictions")]
        spread: tuple[Any, ...] = ("–", "–", "–")
        if split in balance:
            answers = balance[split]
            evenness = f"{answers['evenness']:.3f}"
            spread = (answers["answers"], percent(answers["majority"]), evenness)
        rows.append((split, about["role"], about["n"], *counts, *spread))
    heads = ("split", "role", "examples", "duplicates", "near", "contradictions", "answers")
    title = "Duplicates within splits, balance of the answers"
    return table((*heads, "majority", "evenness"), rows, title)


def _constant_table(found: _Found) -> Table:
    rows = [(one["split"], one["task"], one["like"], one["n"]) for one in found]
    heads = ("split", "task that training lacks", "training has", "rows")
    return table(heads, rows, "Tasks that equal a training task but for a constant")


def _coverage_table(found: _Found) -> Table:
    rows = []
    for one in found:
        if one["unseen_values"]:
            examples = ", ".join(map(str, one["examples"][:3]))[:EXAMPLE]
            counts = (one["values"], one["unseen_values"], percent(one["unseen_rows"]))
            rows.append((one["split"], one["trait"], *counts, examples))
    heads = ("split", "trait", "values", "not in training", "rows", "for example")
    return table(heads, rows, "Coverage: values of traits that training lacks")


def _divergence_table(found: _Found) -> Table:
    rows = []
    for one in found:
        unseen = percent(one["unseen_compounds"])
        rows.append((one["split"], f"{one['atoms']:.3f}", f"{one['compounds']:.3f}", unseen))
    heads = ("split", "atoms", "compounds", "compounds not in training")
    return table(heads, rows, "Divergence from training: 0 equal, 1 disjoint")


STEPS = 8
"""Number of steps in an audit, for its progress. Each may take minutes for a million rows."""


def audit(data: Dataset | str | Path, *, progress: ShowProgress | bool | None = None) -> Audit:
    """Audit a dataset, or a folder of one.

    Args:
        data: The dataset or its folder. It need not be one of Taskloom's.
        progress: True to show progress: a bar on a terminal, a line in a notebook or a log.
            Default: only in notebooks. Or a function that is called after each step.
    """
    data = data if isinstance(data, Dataset) else dataset.load(data)
    with shown(progress) as show:
        return _audited(data, WorkCounter(STEPS, show, "steps"))


def _audited(data: Dataset, counter: WorkCounter) -> Audit:
    tables = {name: data.table(name) for name in data.splits}
    roles = {name: data.role(name) for name in data.splits}
    notes = list(
        data.manifest.get("warnings", [])
    )  # the suite's notes on its own data, such as repeats by design
    if "train" not in roles.values():
        notes.append(
            "no training split: leaks, shortcuts, coverage and divergence need one (a split called"
            " 'train')"
        )
    # Descriptions are shared by design, so only the text after them is checked for leaks and
    # duplicates.
    described = bool(data.manifest["recipe"].get("described"))
    bare = (
        {name: undescribed_table(table) for name, table in tables.items()} if described else tables
    )
    texts = read_texts(bare)
    counter.add("texts")
    shortcuts, unmeasured = find_shortcuts(tables, roles)
    counter.add("shortcuts")
    drawn = "recipe_digest" in data.manifest
    overlaps, alike = find_overlaps(texts, roles, drawn)
    counter.add("overlaps")
    repeats = find_repeats(bare, texts, roles, drawn)
    counter.add("duplicates")
    pairs = find_pair_leaks(bare, roles)
    counter.add("pairs")
    constants = find_constant_tasks(tables, roles, _task_form(data))
    counter.add("tasks")
    coverage = coverages(tables, roles)
    counter.add("coverage")
    divergence = divergences(tables, roles)
    counter.add("divergence")
    return Audit(
        name=str(data.manifest["recipe"].get("name", "")),
        digest=data.digest,
        splits={name: {"n": tables[name].num_rows, "role": roles[name]} for name in tables},
        repeats=repeats,
        overlaps=overlaps,
        pairs=pairs,
        constants=constants,
        balance=balances(tables),
        shortcuts=shortcuts,
        coverage=coverage,
        divergence=divergence,
        held_out=held_out_counts(tables),
        notes=[*notes, *_natural(alike), *unmeasured],
        alike=alike,
    )


def _natural(alike: list[Alike]) -> list[str]:
    """Notes on test rows that resemble training without being leaks, one for each kind."""
    by_kind: dict[str, list[Alike]] = {}
    for one in alike:
        if not one.leak:
            by_kind.setdefault(one.kind, []).append(one)
    notes = []
    for kind, those in by_kind.items():
        rows = ", ".join(f"{one.rows:,} rows of {one.split}" for one in those)
        notes.append(
            f"{kind}: {rows} equal a training row otherwise, about as often as rows of one split"
            " do, so they are not counted as leaks"
        )
    return notes


def _task_form(data: Dataset) -> TaskForm | None:
    """The suite's `task_form` for a dataset. None for other data."""
    suite = SUITES.find(str(data.manifest["recipe"].get("suite", "")))
    return suite.task_form if suite else None
