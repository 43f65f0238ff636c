"""The certificate of an audit as tables: the verdict first, then what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taskloom.apps.view.page_templates import number, percent, shown
from taskloom.core.tables import Table, cell_text
from taskloom.data.audit.shortcuts import shortcut_count

Rows = Sequence[Mapping[str, Any]]

EXAMPLE = 160
"""Maximum characters of an example that a table shows."""

LONGEST = 200
"""Maximum characters of any cell."""


@dataclass(frozen=True, slots=True)
class CertificatePage:
    """A certificate for people.

    Attributes:
        passed: Whether nothing of training was found in a test, and held-out parts are where they
            should be.
        verdict: One sentence.
        tables: What was found, table by table.
        notes: What a person should know besides.
    """

    passed: bool
    verdict: str
    tables: list[Table]
    notes: list[str]


def certificate_page(audit: Mapping[str, Any]) -> CertificatePage:
    """Return the certificate that `Audit.to_dict` describes."""
    leaks, pairs, misplaced = audit["leaks"], audit["pairs"], audit["misplaced"]
    trained = any(split["role"] == "train" for split in audit["splits"].values())
    repeats = sum(one["exact"] for one in audit["repeats"])
    parts = [
        f"{len(leaks)} leaks" if trained else "leaks were not looked for, without a training split",
        *([f"{len(pairs)} splits with pairs of training"] if pairs else []),
        *([f"{len(misplaced)} splits with misplaced held-out examples"] if misplaced else []),
        f"{repeats:,} duplicates",
        shortcut_count((one["baseline"], bool(one["flagged"])) for one in audit["shortcuts"]),
    ]
    tables = [table for make in TABLES if (table := make(audit)) is not None]
    return CertificatePage(
        not audit["failed"], ", ".join(parts), tables, [str(note) for note in audit["notes"]]
    )


def _table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[Any]],
    bad: Sequence[bool] = (),
) -> Table | None:
    """A table whose cells show hidden characters; None without rows.

    Args:
        title: The line that unfolds it.
        heads: The heads of its columns.
        rows: The values of each row.
        bad: True for each row that makes the audit fail; none by default.
    """
    if not rows:
        return None
    cells = tuple(tuple(shown(cell_text(cell), LONGEST) for cell in row) for row in rows)
    marks = tuple("bad" if is_bad else "" for is_bad in bad)
    return Table(tuple(heads), cells, (False,) * len(heads), title, marks=marks)


def _splits(audit: Mapping[str, Any]) -> Table | None:
    repeats = {one["split"]: one for one in audit["repeats"]}
    balance = {one["split"]: one for one in audit["balance"]}
    rows = []
    for split, about in audit["splits"].items():
        r, b = repeats.get(split, {}), balance.get(split)
        spread = (
            (b["answers"], percent(b["majority"]), number(b["evenness"])) if b else ("–", "–", "–")
        )
        within = [r.get(key, 0) for key in ("exact", "near", "contradictions")]
        rows.append((split, about["role"], about["n"], *within, *spread))
    heads = (
        "split",
        "role",
        "examples",
        "duplicates",
        "near",
        "contradictions",
        "answers",
        "majority",
        "evenness",
    )
    return _table("Duplicates within splits, balance of the answers", heads, rows)


def _overlaps(audit: Mapping[str, Any]) -> Table | None:
    rows = [
        (
            one["split"],
            one["other"],
            one["exact"],
            one["near"],
            percent(one["share"]),
            _overlap_verdict(one),
            "; ".join(one["examples"][:1])[:EXAMPLE],
        )
        for one in audit["overlaps"]
    ]
    heads = ("rows of", "also in", "exact", "near", "share", "verdict", "for example")
    return _table(
        "Overlaps between splits", heads, rows, [one["leak"] for one in audit["overlaps"]]
    )


def _overlap_verdict(overlap: Mapping[str, Any]) -> str:
    if overlap["leak"]:
        return "LEAK"
    return "by design" if overlap["by_design"] else "note"


def _pairs(audit: Mapping[str, Any]) -> Table | None:
    rows = [
        (
            one["split"],
            one["same"],
            one["reversed"],
            percent(one["share"]),
            "; ".join(one["examples"][:1])[:EXAMPLE],
        )
        for one in audit["pairs"]
    ]
    heads = ("rows of", "same pair", "reversed", "share", "for example")
    return _table("Pairs of input and answer that training has", heads, rows, [True] * len(rows))


def _constants(audit: Mapping[str, Any]) -> Table | None:
    rows = [(one["split"], one["task"], one["like"], one["n"]) for one in audit["constants"]]
    return _table(
        "Tasks that equal a training task but for a constant",
        ("split", "task", "training has", "rows"),
        rows,
    )


def _held_out(audit: Mapping[str, Any]) -> Table | None:
    bad = [one["split"] in audit["misplaced"] for one in audit["held_out"]]
    rows = [
        (
            one["split"],
            one["n"],
            one["held_out"],
            one["expected"],
            "MISPLACED" if wrong else "right",
        )
        for one, wrong in zip(audit["held_out"], bad, strict=True)
    ]
    return _table(
        "Held-out examples", ("split", "examples", "held out", "should be", "verdict"), rows, bad
    )


def _shortcuts(audit: Mapping[str, Any]) -> Table | None:
    shortcuts: Rows = audit["shortcuts"]
    rows = [
        (
            one["split"],
            one["baseline"],
            percent(one["accuracy"]),
            percent(one["majority"]),
            "SHORTCUT" if one["flagged"] else "",
        )
        for one in shortcuts
    ]
    heads = ("split", "without doing the task", "accuracy", "majority answer", "verdict")
    return _table("Shortcuts", heads, rows, [bool(one["flagged"]) for one in shortcuts])


def _coverage(audit: Mapping[str, Any]) -> Table | None:
    rows = [
        (
            one["split"],
            one["trait"],
            one["values"],
            one["unseen_values"],
            percent(one["unseen_rows"]),
            ", ".join(map(str, one["examples"][:3]))[:EXAMPLE],
        )
        for one in audit["coverage"]
        if one["unseen_values"]
    ]
    heads = ("split", "trait", "values", "not in training", "rows", "for example")
    return _table("Coverage: values of traits that training lacks", heads, rows)


def _divergence(audit: Mapping[str, Any]) -> Table | None:
    rows = [
        (
            one["split"],
            number(one["atoms"]),
            number(one["compounds"]),
            percent(one["unseen_compounds"]),
        )
        for one in audit["divergence"]
    ]
    heads = ("split", "atoms", "compounds", "compounds not in training")
    return _table("Divergence from training: 0 equal, 1 disjoint", heads, rows)


TABLES: tuple[Callable[[Mapping[str, Any]], Table | None], ...] = (
    _overlaps,
    _pairs,
    _held_out,
    _shortcuts,
    _splits,
    _constants,
    _coverage,
    _divergence,
)
"""In the order in which a reader wants them: what makes an audit fail comes first."""
