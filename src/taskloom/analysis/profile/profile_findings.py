"""Profiles as findings: tables and figures of a page in Markdown, made again from the files of the profiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.profile.measures import ABSENT, ContrastResult, Measurement
from taskloom.analysis.profile.panel import TaskPanel, packaged_panel
from taskloom.analysis.profile.profile import ModelProfile
from taskloom.analysis.profile.profile_page import RULE, check_comparable, differences, headline, sentences
from taskloom.analysis.seed_scores import count_range
from taskloom.experiments.result_table import ResultTable


def profile_findings(profiles: Sequence[ModelProfile], panel: TaskPanel | None = None) -> list[Finding]:
    """Return what profiles say: for each its contrasts above guessing, then how the first differs from the others.

    Args:
        profiles: The model that it is about, then those that stand beside it.
        panel: The panel that they were made with.
    """
    chosen = panel or packaged_panel()
    check_comparable(profiles)
    first, *others = profiles
    found = [_summary(one, [] if one is not first else others, chosen) for one in profiles]
    return [*found, _contrasts(first, chosen), *(_beside(first, other) for other in others), _conditions(profiles)]


def _summary(one: ModelProfile, others: Sequence[ModelProfile], panel: TaskPanel) -> Finding:
    results = one.contrasts(panel)
    bullets = "\n".join(f"- {sentence}" for sentence in sentences(one, results, others))
    return Finding(one.name, f"{headline(one, results)}\n\n{bullets}")


def _contrasts(one: ModelProfile, panel: TaskPanel) -> Finding:
    """Return all contrasts whose easy side is above guessing, and how many are not."""
    results = [r for r in one.contrasts(panel) if not r.contrast.control]
    able = [r for r in results if r.verdict != ABSENT]
    columns = ("axis", "contrast", "asked", "easy", "hard", "hard - easy", "guessing", "verdict")
    data = ResultTable(
        ("contrast", "side", "mean", "low", "high"),
        [row for r in able for row in _sides(r)],
    )
    plot = partial(figures.intervals, place="contrast", series="side")
    sides = [side for r in able for side in (r.easy, r.hard)]
    caption = (
        f"Both sides of the contrasts of {one.name} that are above guessing: means over "
        f"{count_range(len(side.scores) for side in sides)} draws and {count_range(len(side.items) for side in sides)} items, "
        "with 95 % intervals over both."
    )
    return Finding(
        f"Contrasts of {one.name} above guessing",
        f"{len(able)} of {len(results)}. {RULE}",
        ResultTable(columns, [_row(r) for r in able]),
        (StudyFigure("contrasts", caption, data, plot),) if able else (),
    )


def _row(r: ContrastResult) -> dict[str, Any]:
    return {"axis": r.contrast.axis, "contrast": r.contrast.name, "asked": r.way, "easy": _text(r.easy), "hard": _text(r.hard),
            "hard - easy": str(r.difference), "guessing": r.easy.guessing, "verdict": r.verdict}  # fmt: skip


def _sides(r: ContrastResult) -> Iterator[dict[str, Any]]:
    for side, measurement in (("easy", r.easy), ("hard", r.hard)):
        e = measurement.estimate
        yield {"contrast": f"{r.contrast.name}, {r.way}", "side": side, "mean": e.mean, "low": e.low, "high": e.high}
    guess = r.easy.guessing
    yield {"contrast": f"{r.contrast.name}, {r.way}", "side": "guessing", "mean": guess, "low": None, "high": None}


def _beside(first: ModelProfile, other: ModelProfile) -> Finding:
    """Return the conditions in which two profiles differ: the interval of the difference excludes 0."""
    rows = sorted(
        (row for row in differences(other, first) if not row[2].low <= 0 <= row[2].high),
        key=lambda row: -abs(row[2].mean),
    )
    table = ResultTable(
        ("condition", "asked", other.name, first.name, "difference"),
        [
            {"condition": b.side, "asked": b.way, other.name: _text(a), first.name: _text(b), "difference": str(d)}
            for a, b, d in rows
        ],
    )
    return Finding(
        f"{first.name} beside {other.name}",
        "Conditions in which the two differ: the 95 % interval of the difference, over the same items, excludes 0. Largest first.",
        table,
    )


def _conditions(profiles: Sequence[ModelProfile]) -> Finding:
    """Return every condition of all profiles, with the baselines."""
    names = [one.name for one in profiles]
    rows = []
    for m in profiles[0].measurements:
        own = [one.find(m.side, m.way) for one in profiles]
        scores = {name: "" if found is None else _text(found) for name, found in zip(names, own, strict=True)}
        baselines = {"chance": m.chance, "best constant": m.constant, "in form": m.formed}
        rows.append(
            {"condition": m.side, "asked": m.way, **scores, **baselines, "items": len(m.items), "seeds": len(m.scores)}
        )
    columns = ("condition", "asked", *names, "chance", "best constant", "in form", "items", "seeds")
    text = (
        "Chance: a random answer of the condition. Best constant: the most frequent answer of training. In form: the share of "
        f"replies of {names[0]} that are one of the condition's answers, if these are few. Intervals are at 95 %, over items, and "
        "over items and draws of examples if there are several draws."
    )
    return Finding("All conditions", text, ResultTable(columns, rows))


def _text(measurement: Measurement) -> str:
    e = measurement.estimate
    return f"{e.mean:.2f} [{e.low:.2f}, {e.high:.2f}]"
