"""The page of a profile, or of several beside each other: where a model holds, where it breaks, and how certain that is.

`write_page` makes an HTML page. `profile_findings` makes findings, from which pages in Markdown are built.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import taskloom
from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.profile.measures import (
    ABOVE,
    ABSENT,
    BREAKS,
    CLEAN,
    CLOSED,
    HOLDS,
    OPEN,
    SMALL,
    ContrastResult,
    Measurement,
    ScoreDifference,
    paired_difference,
)
from taskloom.analysis.profile.panel import TaskPanel, packaged_panel
from taskloom.analysis.profile.profile import ModelProfile
from taskloom.analysis.report import charts, page
from taskloom.analysis.report.page import Column, Section
from taskloom.analysis.seed_scores import count_range
from taskloom.core.errors import DataError
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import over_tasks

RULE = (
    f"A contrast 'holds' if the 95 % interval of the loss lies below {SMALL:g} and below half of the easy condition's lead over "
    "guessing (the better of chance and the best constant answer). It 'breaks' if the interval lies above 0, is 'not above "
    "guessing' if the easy condition's own interval includes guessing, and is 'inconclusive' otherwise. A control has nothing to "
    "know; it is 'clean' if it is not above guessing. Intervals are over items and draws of examples and are not corrected for "
    "their number: of twenty contrasts that hold, one may be called broken by chance."
)

VERBS = (
    (HOLDS, "holds", "hold"),
    (BREAKS, "breaks", "break"),
    (OPEN, "is inconclusive", "are inconclusive"),
)
HALF = 0.5

SAME = "same answer"
"""The column of the share of items with the same answer, for contrasts that have the same items on both sides."""

CONTRASTS = (
    Column("contrast", lambda r: r.contrast.name),
    Column("asked", attrgetter("way")),
    Column("easy", lambda r: _estimate(r.easy), number=True),
    Column("hard", lambda r: _estimate(r.hard), number=True),
    Column("hard - easy", attrgetter("difference"), number=True),
    Column("guessing", lambda r: f"{r.easy.guessing:.2f}", number=True),
    Column(SAME, lambda r: "" if r.consistency is None else f"{r.consistency:.2f}", number=True),
    Column("verdict", attrgetter("verdict")),
)


def write_page(
    path: Path, profiles: Sequence[ModelProfile], panel: TaskPanel | None = None
) -> Path:
    """Write the page of a profile, with others beside it.

    Args:
        path: The HTML file.
        profiles: The model that the page is about, then those that stand beside it.
        panel: The panel that they were made with.
    """
    chosen = panel or packaged_panel()
    check_comparable(profiles)
    first, *others = profiles
    results = first.contrasts(chosen)
    sections = [
        Section("What was found", RULE, sentences=tuple(sentences(first, results, others))),
        _axes(results),
        *_axis_sections(results),
        *(_beside(first, other) for other in others),
        _conditions(profiles),
        _made(profiles),
    ]
    return page.write(
        path, title(profiles), lead(first), sections, headline=headline(first, results)
    )


def check_comparable(profiles: Sequence[ModelProfile]) -> None:
    """Refuse profiles of two versions of the panel, or of two numbers of items; those of an old version can be compared."""
    for one in profiles:
        if one.version != profiles[0].version:
            raise DataError(
                f"the profile of {one.name} was made with version {one.version} of the panel and that of {profiles[0].name} with "
                f"{profiles[0].version}; make both alike"
            )
        if one.quick != profiles[0].quick:
            raise DataError(
                f"the profile of {one.name} is {'quick' if one.quick else 'full'} and that of {profiles[0].name} is not; make "
                "both alike"
            )


def title(profiles: Sequence[ModelProfile]) -> str:
    """Return the heading."""
    return "Profile of " + " beside ".join(one.name for one in profiles)


def lead(result: ModelProfile) -> str:
    """Return the paragraph below the heading."""
    items = sum(len(m.items) for m in result.measurements)
    small = " Quick: few items of each split, so that intervals are wide." if result.quick else ""
    partial = (
        "" if result.complete else " Some runs of the panel are missing; the last section says why."
    )
    return (
        f"{len(result.measurements)} conditions, {items:,} answered items; panel {result.version}, Taskloom {taskloom.__version__}."
        f"{small}{partial} Intervals are at 95 %."
    )


def headline(result: ModelProfile, results: Sequence[ContrastResult]) -> str:
    """Return the one sentence that a reader should take along."""
    counts = Counter(r.verdict for r in results if not r.contrast.control)
    total = sum(counts.values())
    parts = [_counted(counts[v], one, many) for v, one, many in VERBS]
    absent = _counted(counts[ABSENT], "has", "have")
    return f"{result.name}: of {total} contrasts, {', '.join(parts)}, and {absent} an easy side that is not above guessing."


def sentences(
    result: ModelProfile, results: Sequence[ContrastResult], others: Sequence[ModelProfile]
) -> Iterator[str]:
    """Yield what was found, one sentence for each axis, for controls, and for each profile beside."""
    yield from _axis_sentences([r for r in results if not r.contrast.control])
    yield from _control_sentences(results)
    yield from _form_sentences(result)
    for other in others:
        yield from _other_sentences(result, other)


def _axis_sentences(results: Sequence[ContrastResult]) -> Iterator[str]:
    """Yield how the contrasts of each axis came out, then the axes on which no easy side is above guessing."""
    silent: dict[str, int] = {}
    for axis in dict.fromkeys(r.contrast.axis for r in results):
        own = [r for r in results if r.contrast.axis == axis]
        able = [r for r in own if r.verdict != ABSENT]
        if not able:
            silent[axis] = len(own)
            continue
        worst = min(able, key=lambda r: r.difference.mean)
        counts = Counter(r.verdict for r in able)
        parts = [_counted(counts[v], one, many) for v, one, many in VERBS if counts[v]]
        yield (
            f"{axis.capitalize()}: of {len(own)} contrasts, {_counted(len(able), 'is', 'are')} above guessing, of "
            f"which {' and '.join(parts)}. The largest loss: {worst.difference} ({worst.contrast.name}, {worst.way})."
        )
    if silent:
        yield (
            f"No conclusion about {', '.join(silent)}: none of the {sum(silent.values())} contrasts has an easy side that is above "
            "guessing."
        )


def _control_sentences(results: Sequence[ContrastResult]) -> Iterator[str]:
    """Yield the controls that are above guessing, or that all are clean."""
    for r in results:
        if r.verdict == ABOVE:
            yield (
                f"Control '{r.contrast.name}' ({r.way}) is above guessing: {_estimate(r.hard)} against {r.hard.guessing:.2f}; "
                "look at its answers."
            )
    verdicts = Counter(r.verdict for r in results)
    if any(r.contrast.control for r in results) and not verdicts[ABOVE]:
        yield f"All {verdicts[CLEAN]} controls are clean."


def _form_sentences(result: ModelProfile) -> Iterator[str]:
    """Yield in how many conditions most replies are not in the requested form."""
    closed = [m for m in result.measurements if m.formed is not None]
    loose = [m for m in closed if m.formed is not None and m.formed < HALF]
    if loose:
        yield (
            f"In {len(loose)} of the {len(closed)} conditions with at most {CLOSED} different answers, less than half of the "
            "replies are one of these answers. There, a low score says first of all that the model does not answer in the "
            "requested form ('in form' in the last table)."
        )


def _other_sentences(result: ModelProfile, other: ModelProfile) -> Iterator[str]:
    """Yield on how many conditions a profile is better or worse than another."""
    shared = list(differences(other, result))
    if shared:
        better = sum(d.low > 0 for _, _, d in shared)
        worse = sum(d.high < 0 for _, _, d in shared)
        yield (
            f"Against {other.name}: of {len(shared)} conditions, {result.name} is better on {better} and worse on {worse}; on "
            f"{len(shared) - better - worse} the interval of the difference includes 0."
        )


def differences(
    a: ModelProfile, b: ModelProfile
) -> Iterator[tuple[Measurement, Measurement, ScoreDifference]]:
    """Yield the conditions that two profiles share, and how much better the second is, over the same items."""
    for second in b.measurements:
        first = a.find(second.side, second.way)
        if first is not None and set(first.items) & set(second.items):
            yield first, second, paired_difference(first, second)


def _clear_differences(
    a: ModelProfile, b: ModelProfile
) -> list[tuple[Measurement, Measurement, ScoreDifference]]:
    """The shared conditions in which the interval of the difference excludes 0, largest differences first."""
    clear = [row for row in differences(a, b) if not row[2].low <= 0 <= row[2].high]
    return sorted(clear, key=lambda row: -abs(row[2].mean))


def row_of(result: ContrastResult) -> dict[str, Any]:
    """Return a contrast for JSON."""
    return {
        "axis": result.contrast.axis,
        "contrast": result.contrast.name,
        "way": result.way,
        "easy": result.easy.estimate.mean,
        "hard": result.hard.estimate.mean,
        "difference": result.difference.mean,
        "low": result.difference.low,
        "high": result.difference.high,
        "guessing": result.easy.guessing,
        "consistency": result.consistency,
        "verdict": result.verdict,
    }


def _counted(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def _estimate(measurement: Measurement) -> str:
    e = measurement.estimate
    return f"{e.mean:.2f} [{e.low:.2f}, {e.high:.2f}]"


def _count(verdict: str) -> Any:
    return lambda row: row.get(verdict, "")


def _axes(results: Sequence[ContrastResult]) -> Section:
    """Return the table of axes: how contrasts came out, and the mean loss of those above guessing."""
    rows = []
    for axis in dict.fromkeys(r.contrast.axis for r in results):
        own = [r for r in results if r.contrast.axis == axis]
        counts = Counter(r.verdict for r in own)
        able = [r.difference.mean for r in own if r.verdict in (HOLDS, BREAKS, OPEN)]
        if len(able) > 1:
            mean = over_tasks(able)
            loss = f"{mean.mean:+.2f} [{mean.low:+.2f}, {mean.high:+.2f}]"
        else:
            loss = "".join(f"{value:+.2f}" for value in able)
        rows.append({"axis": axis, "loss": loss, **counts})
    heads = (HOLDS, BREAKS, OPEN, ABSENT, CLEAN, ABOVE)
    columns = (
        Column("axis", lambda row: row["axis"]),
        *(Column(head, _count(head), number=True) for head in heads),
        Column("mean hard - easy", lambda row: row["loss"], number=True),
    )
    text = "The mean is over contrasts whose easy side is above guessing, each counting once; its interval is over contrasts."
    return Section("By axis", text, columns, tuple(rows))


def _axis_sections(results: Sequence[ContrastResult]) -> Iterator[Section]:
    """Yield a section for each axis: a figure of both sides of its contrasts for each way, and their table."""
    colours = {"easy": 0, "hard": 1, "guessing": 7}
    for axis in dict.fromkeys(r.contrast.axis for r in results):
        own = [r for r in results if r.contrast.axis == axis]
        panels = [
            charts.interval_panel(
                way, [mark for r in own if r.way == way for mark in _marks(r)], colours, above=True
            )
            for way in dict.fromkeys(r.way for r in own)
        ]
        paired = any(r.consistency is not None for r in own)
        columns = tuple(column for column in CONTRASTS if paired or column.head != SAME)
        yield Section(
            axis.capitalize(), "", columns, tuple(own), panels=tuple(panels), legend=colours
        )


def _marks(result: ContrastResult) -> Iterator[charts.Mark]:
    for series, measurement in (("easy", result.easy), ("hard", result.hard)):
        e = measurement.estimate
        yield charts.Mark(series, result.contrast.name, e.mean, e.low, e.high)
    yield charts.Mark("guessing", result.contrast.name, result.easy.guessing, None, None)


def _beside(first: ModelProfile, other: ModelProfile) -> Section:
    """Return the section on another profile: conditions in which the two differ."""
    rows = _clear_differences(other, first)
    columns = (
        Column("condition", lambda row: row[0].side),
        Column("asked", lambda row: row[0].way),
        Column(other.name, lambda row: _estimate(row[0]), number=True),
        Column(first.name, lambda row: _estimate(row[1]), number=True),
        Column("difference", lambda row: row[2], number=True),
    )
    text = (
        f"Conditions in which {first.name} and {other.name} differ (the 95 % interval over items excludes 0), largest first."
        if rows
        else f"{first.name} and {other.name} differ on no condition: all intervals of differences include 0."
    )
    return Section(f"Beside {other.name}", text, columns, tuple(rows))


def _conditions(profiles: Sequence[ModelProfile]) -> Section:
    """Return the table of all conditions, with the baselines."""
    first = profiles[0]
    columns = (
        Column("condition", attrgetter("side")),
        Column("asked", attrgetter("way")),
        *(Column(one.name, _of(one), number=True) for one in profiles),
        Column("chance", lambda m: f"{m.chance:.2f}", number=True),
        Column(
            "best constant",
            lambda m: "" if m.constant is None else f"{m.constant:.2f}",
            number=True,
        ),
        Column("in form", lambda m: "" if m.formed is None else f"{m.formed:.2f}", number=True),
        Column("items", lambda m: len(m.items), number=True),
        Column("seeds", lambda m: len(m.scores), number=True),
    )
    text = (
        "Chance: a random answer of the condition. Best constant: the most frequent answer of training. In form: the share of "
        f"replies of {first.name} that are one of the condition's answers, if there are at most {CLOSED}."
    )
    return Section("All conditions", text, columns, first.measurements)


def _of(one: ModelProfile) -> Any:
    def cell(measurement: Measurement) -> str:
        found = one.find(measurement.side, measurement.way)
        return "" if found is None else _estimate(found)

    return cell


def _made(profiles: Sequence[ModelProfile]) -> Section:
    """Return how the profiles were made."""
    blocks = [
        f"{one.name}: panel {one.version}, {'quick' if one.quick else 'full'}; "
        + ", ".join(f"{key}: {value}" for key, value in one.settings.items())
        for one in profiles
    ]
    missing = [
        f"{one.name} could not be asked: {reason}" for one in profiles for reason in one.failures
    ]
    text = "'taskloom profile' with the same settings repeats it."
    return Section("How it was made", text, blocks=(*blocks, *missing))


def profile_findings(
    profiles: Sequence[ModelProfile], panel: TaskPanel | None = None
) -> list[Finding]:
    """Return what profiles say: for each its contrasts above guessing, then how the first differs from the others.

    Args:
        profiles: The model that it is about, then those that stand beside it.
        panel: The panel that they were made with.
    """
    chosen = panel or packaged_panel()
    check_comparable(profiles)
    first, *others = profiles
    found = [_summary(one, [] if one is not first else others, chosen) for one in profiles]
    return [
        *found,
        _contrasts(first, chosen),
        *(_beside_finding(first, other) for other in others),
        _conditions_finding(profiles),
    ]


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
        ResultTable(columns, [_contrast_row(r) for r in able]),
        (StudyFigure("contrasts", caption, data, plot),) if able else (),
    )


def _contrast_row(r: ContrastResult) -> dict[str, Any]:
    return {
        "axis": r.contrast.axis,
        "contrast": r.contrast.name,
        "asked": r.way,
        "easy": _estimate(r.easy),
        "hard": _estimate(r.hard),
        "hard - easy": str(r.difference),
        "guessing": r.easy.guessing,
        "verdict": r.verdict,
    }


def _sides(r: ContrastResult) -> Iterator[dict[str, Any]]:
    for side, measurement in (("easy", r.easy), ("hard", r.hard)):
        e = measurement.estimate
        yield {
            "contrast": f"{r.contrast.name}, {r.way}",
            "side": side,
            "mean": e.mean,
            "low": e.low,
            "high": e.high,
        }
    guess = r.easy.guessing
    yield {
        "contrast": f"{r.contrast.name}, {r.way}",
        "side": "guessing",
        "mean": guess,
        "low": None,
        "high": None,
    }


def _beside_finding(first: ModelProfile, other: ModelProfile) -> Finding:
    """Return the conditions in which two profiles differ: the interval of the difference excludes 0."""
    rows = _clear_differences(other, first)
    table = ResultTable(
        ("condition", "asked", other.name, first.name, "difference"),
        [
            {
                "condition": b.side,
                "asked": b.way,
                other.name: _estimate(a),
                first.name: _estimate(b),
                "difference": str(d),
            }
            for a, b, d in rows
        ],
    )
    return Finding(
        f"{first.name} beside {other.name}",
        "Conditions in which the two differ: the 95 % interval of the difference, over the same items, excludes 0. Largest first.",
        table,
    )


def _conditions_finding(profiles: Sequence[ModelProfile]) -> Finding:
    """Return every condition of all profiles, with the baselines."""
    names = [one.name for one in profiles]
    rows = []
    for m in profiles[0].measurements:
        own = [one.find(m.side, m.way) for one in profiles]
        scores = {
            name: "" if found is None else _estimate(found)
            for name, found in zip(names, own, strict=True)
        }
        baselines = {"chance": m.chance, "best constant": m.constant, "in form": m.formed}
        rows.append(
            {
                "condition": m.side,
                "asked": m.way,
                **scores,
                **baselines,
                "items": len(m.items),
                "seeds": len(m.scores),
            }
        )
    columns = ("condition", "asked", *names, "chance", "best constant", "in form", "items", "seeds")
    text = (
        "Chance: a random answer of the condition. Best constant: the most frequent answer of training. In form: the share of "
        f"replies of {names[0]} that are one of the condition's answers, if these are few. Intervals are at 95 %, over items, and "
        "over items and draws of examples if there are several draws."
    )
    return Finding("All conditions", text, ResultTable(columns, rows))
