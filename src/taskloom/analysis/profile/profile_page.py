"""The page of one or several profiles: where a model holds, where it breaks, and how certain that
is.

`write_page` makes an HTML page. `profile_findings` makes findings, from which pages in Markdown are
built. The study `profile` does so for the runs that `taskloom profile` made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import taskloom
from taskloom.analysis import figures
from taskloom.analysis.finding import Finding, StudyFigure
from taskloom.analysis.findings_folder import page_sections
from taskloom.analysis.paper_table import count_range
from taskloom.analysis.profile.panel import (
    ABOVE,
    ABSENT,
    BREAKS,
    CLEAN,
    HOLDS,
    OPEN,
    SMALL,
    VERDICTS,
    ContrastResult,
    Measurement,
    ScoreDifference,
    TaskPanel,
    packaged_panel,
    paired_difference,
)
from taskloom.analysis.profile.profile import ModelProfile, profiles_in
from taskloom.analysis.report import page
from taskloom.analysis.report.page import Sentences
from taskloom.analysis.study import StudyError, study
from taskloom.core.errors import DataError
from taskloom.core.scoring import CLOSED
from taskloom.experiments.result_table import ResultTable
from taskloom.experiments.statistics import over_tasks
from taskloom.experiments.table import Runs

HALF = 0.5

SAME = "same answer"
"""The column of the share of items with the same answer, for contrasts that have the same items on
both sides.
"""


def _estimate(measurement: Measurement) -> str:
    e = measurement.estimate
    return f"{e.mean:.2f} [{e.low:.2f}, {e.high:.2f}]"


say = Sentences("taskloom.analysis.profile", estimate=_estimate)


def write_page(
    path: Path, profiles: Sequence[ModelProfile], panel: TaskPanel | None = None
) -> Path:
    """Write the page of a profile, optionally compared with others.

    Args:
        path: The HTML file.
        profiles: The model that the page is about, then those it is compared with.
        panel: The panel that they were made with.
    """
    chosen = panel or packaged_panel()
    check_comparable(profiles)
    first, *others = profiles
    results = first.contrasts(chosen)
    findings = [
        Finding(
            "What was found",
            say("rule", small=SMALL),
            notes=tuple(sentences(first, results, others)),
        ),
        _axes(results),
        *_axis_findings(results),
        *(_beside(first, other) for other in others),
        _conditions(profiles),
        _made(profiles),
    ]
    return page.write(
        path,
        title(profiles),
        lead(first),
        page_sections(findings),
        headline=headline(first, results),
    )


def check_comparable(profiles: Sequence[ModelProfile]) -> None:
    """Raise an error for profiles with different versions of the panel or different numbers of
    items. Profiles of the same old version can be compared.
    """
    for one in profiles:
        if one.version != profiles[0].version:
            raise DataError(
                f"the profile of {one.name} was made with version {one.version} of the panel and"
                f" that of {profiles[0].name} with {profiles[0].version}; make both alike"
            )
        if one.quick != profiles[0].quick:
            raise DataError(
                f"the profile of {one.name} is {'quick' if one.quick else 'full'} and that of"
                f" {profiles[0].name} is not; make both alike"
            )


def title(profiles: Sequence[ModelProfile]) -> str:
    """Heading of the page."""
    return "Profile of " + " beside ".join(one.name for one in profiles)


def lead(result: ModelProfile) -> str:
    """Paragraph below the heading."""
    items = sum(len(m.items) for m in result.measurements)
    return say("lead", profile=result, items=items, version=taskloom.__version__)


def headline(result: ModelProfile, results: Sequence[ContrastResult]) -> str:
    """The one sentence that a reader should remember."""
    counts = Counter(r.verdict for r in results if not r.contrast.control)
    total = sum(counts.values())
    return say("headline", name=result.name, total=total, counts=counts, absent=counts[ABSENT])


def sentences(
    result: ModelProfile, results: Sequence[ContrastResult], others: Sequence[ModelProfile]
) -> Iterator[str]:
    """Yield the findings: a sentence for each axis, for controls, and for each profile that is
    compared.
    """
    yield from _axis_sentences([r for r in results if not r.contrast.control])
    yield from _control_sentences(results)
    yield from _form_sentences(result)
    for other in others:
        yield from _other_sentences(result, other)


def _axis_sentences(results: Sequence[ContrastResult]) -> Iterator[str]:
    """Yield the result of each axis, then the axes on which no easy side is above guessing."""
    silent: dict[str, int] = {}
    for axis, own in _by_axis(results).items():
        able = [r for r in own if r.verdict != ABSENT]
        if not able:
            silent[axis] = len(own)
            continue
        yield say(
            "axis",
            name=axis.capitalize(),
            total=len(own),
            able=len(able),
            counts=Counter(r.verdict for r in able),
            worst=min(able, key=lambda r: r.difference.mean),
        )
    if silent:
        yield say("silent", axes=list(silent), total=sum(silent.values()))


def _control_sentences(results: Sequence[ContrastResult]) -> Iterator[str]:
    """Yield the controls that are above guessing, or a sentence that all are clean."""
    for result in results:
        if result.verdict == ABOVE:
            yield say("control", result=result)
    verdicts = Counter(r.verdict for r in results)
    if any(r.contrast.control for r in results) and not verdicts[ABOVE]:
        yield say("clean", count=verdicts[CLEAN])


def _form_sentences(result: ModelProfile) -> Iterator[str]:
    """Yield the number of conditions in which most replies are not in the requested form."""
    shares = [m.formed for m in result.measurements if m.formed is not None]
    loose = sum(share < HALF for share in shares)
    if loose:
        yield say("form", loose=loose, closed=len(shares), most=CLOSED)


def _other_sentences(result: ModelProfile, other: ModelProfile) -> Iterator[str]:
    """Yield the number of conditions in which a profile is better or worse than another."""
    shared = list(differences(other, result))
    if shared:
        yield say(
            "against",
            name=result.name,
            other=other.name,
            shared=len(shared),
            better=sum(d.low > 0 for _, _, d in shared),
            worse=sum(d.high < 0 for _, _, d in shared),
        )


def differences(
    a: ModelProfile, b: ModelProfile
) -> Iterator[tuple[Measurement, Measurement, ScoreDifference]]:
    """Yield the conditions that two profiles share, with the second's advantage on the same
    items.
    """
    for second in b.measurements:
        first = a.find(second.side, second.way)
        if first is not None and set(first.items) & set(second.items):
            yield first, second, paired_difference(first, second)


def _clear_differences(
    a: ModelProfile, b: ModelProfile
) -> list[tuple[Measurement, Measurement, ScoreDifference]]:
    """The shared conditions in which the interval of the difference excludes 0, largest differences
    first.
    """
    clear = [row for row in differences(a, b) if not row[2].low <= 0 <= row[2].high]
    return sorted(clear, key=lambda row: -abs(row[2].mean))


def row_of(result: ContrastResult) -> dict[str, Any]:
    """A contrast for JSON."""
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


def _axes(results: Sequence[ContrastResult]) -> Finding:
    """The table of axes: the verdicts on their contrasts, and the mean loss of those above
    guessing.
    """
    rows = []
    for axis, own in _by_axis(results).items():
        counts = Counter(r.verdict for r in own)
        verdicts = {verdict: counts[verdict] or None for verdict in VERDICTS}
        able = [r.difference.mean for r in own if r.verdict in (HOLDS, BREAKS, OPEN)]
        rows.append({"axis": axis, **verdicts, "mean hard - easy": _mean_loss(able)})
    table = ResultTable(("axis", *VERDICTS, "mean hard - easy"), rows)
    return Finding("By axis", say("axes"), table)


def _mean_loss(losses: Sequence[float]) -> str:
    """Format the mean of the losses, with its interval if there are several."""
    if len(losses) > 1:
        mean = over_tasks(losses)
        return f"{mean.mean:+.2f} [{mean.low:+.2f}, {mean.high:+.2f}]"
    return "".join(f"{loss:+.2f}" for loss in losses)


def _by_axis(results: Sequence[ContrastResult]) -> dict[str, list[ContrastResult]]:
    groups: dict[str, list[ContrastResult]] = {}
    for result in results:
        groups.setdefault(result.contrast.axis, []).append(result)
    return groups


def _axis_findings(results: Sequence[ContrastResult]) -> Iterator[Finding]:
    """Yield all contrasts of each axis, with a panel for each way of asking."""
    for axis, own in _by_axis(results).items():
        paired = any(r.consistency is not None for r in own)
        columns = [c for c in CONTRASTS if c != "axis" and (paired or c != SAME)]
        data = ResultTable(
            ("contrast", "asked", "side", "mean", "low", "high"),
            [row for r in own for row in _sides(r)],
        )
        plot = partial(figures.intervals, place="contrast", series="side", panel="asked")
        caption = f"Both sides of each contrast: {_caption(own)}"
        drawn = StudyFigure(axis.replace(" ", "-"), caption, data, plot)
        table = ResultTable(columns, [_contrast_row(r) for r in own])
        yield Finding(axis.capitalize(), "", table, (drawn,))


def _caption(results: Sequence[ContrastResult]) -> str:
    sides = [side for r in results for side in (r.easy, r.hard)]
    draws = count_range(len(side.scores) for side in sides)
    items = count_range(len(side.items) for side in sides)
    return say("caption", draws=draws, items=items)


def _made(profiles: Sequence[ModelProfile]) -> Finding:
    """A sentence on how the profiles were made."""
    lines = [say("made", profile=one) for one in profiles]
    for one in profiles:
        lines += [f"{one.name} could not be asked: {reason}" for reason in one.failures]
    text = "'taskloom profile' with the same settings repeats it."
    return Finding("How it was made", text, notes=tuple(lines))


def profile_findings(
    profiles: Sequence[ModelProfile], panel: TaskPanel | None = None
) -> list[Finding]:
    """Findings of profiles: the contrasts of each profile that are above guessing, then the
    differences between the first profile and the others.

    Args:
        profiles: The model that they are about, then those it is compared with.
        panel: The panel that they were made with.
    """
    chosen = panel or packaged_panel()
    check_comparable(profiles)
    first, *others = profiles
    found = [_summary(one, [] if one is not first else others, chosen) for one in profiles]
    return [
        *found,
        _contrasts(first, chosen),
        *(_beside(first, other) for other in others),
        _conditions(profiles),
    ]


@study(
    "profile",
    describe="Where a model holds and where it breaks, from the runs of 'taskloom profile'",
)
def profile_study(runs: Runs) -> list[Finding]:
    """Findings of the profiles of all models in the given runs. The first is compared with the
    others.
    """
    profiles = profiles_in(runs)
    if not profiles:
        raise StudyError(
            f"{runs.path} has no run of the panel; make them with 'taskloom profile MODEL --store"
            f" {runs.path}'"
        )
    return profile_findings(profiles)


def _summary(one: ModelProfile, others: Sequence[ModelProfile], panel: TaskPanel) -> Finding:
    results = one.contrasts(panel)
    bullets = "\n".join(f"- {sentence}" for sentence in sentences(one, results, others))
    return Finding(one.name, f"{headline(one, results)}\n\n{bullets}")


def _contrasts(one: ModelProfile, panel: TaskPanel) -> Finding:
    """Contrasts whose easy side is above guessing, and the number of the others."""
    results = [r for r in one.contrasts(panel) if not r.contrast.control]
    able = [r for r in results if r.verdict != ABSENT]
    data = ResultTable(
        ("contrast", "side", "mean", "low", "high"),
        [{**row, "contrast": f"{r.contrast.name}, {r.way}"} for r in able for row in _sides(r)],
    )
    plot = partial(figures.intervals, place="contrast", series="side")
    caption = f"Both sides of the contrasts of {one.name} that are above guessing: {_caption(able)}"
    return Finding(
        f"Contrasts of {one.name} above guessing",
        f"{len(able)} of {len(results)}. {say('rule', small=SMALL)}",
        ResultTable([c for c in CONTRASTS if c != SAME], [_contrast_row(r) for r in able]),
        (StudyFigure("contrasts", caption, data, plot),) if able else (),
    )


CONTRASTS = (
    "axis",
    "contrast",
    "asked",
    "easy",
    "hard",
    "hard - easy",
    "guessing",
    SAME,
    "verdict",
)
"""The columns of tables of contrasts."""


def _contrast_row(r: ContrastResult) -> dict[str, Any]:
    return {
        "axis": r.contrast.axis,
        "contrast": r.contrast.name,
        "asked": r.way,
        "easy": _estimate(r.easy),
        "hard": _estimate(r.hard),
        "hard - easy": str(r.difference),
        "guessing": r.easy.guessing,
        SAME: r.consistency,
        "verdict": r.verdict,
    }


def _sides(r: ContrastResult) -> Iterator[dict[str, Any]]:
    of = {"contrast": r.contrast.name, "asked": r.way}
    for side, measurement in (("easy", r.easy), ("hard", r.hard)):
        e = measurement.estimate
        yield {**of, "side": side, "mean": e.mean, "low": e.low, "high": e.high}
    yield {**of, "side": "guessing", "mean": r.easy.guessing, "low": None, "high": None}


def _beside(first: ModelProfile, other: ModelProfile) -> Finding:
    """Conditions in which two profiles differ: those for which the interval of the difference
    excludes 0.
    """
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
    return Finding(f"{first.name} beside {other.name}", say("beside", differ=bool(rows)), table)


def _conditions(profiles: Sequence[ModelProfile]) -> Finding:
    """Every condition of all profiles, with the baselines."""
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
    return Finding("All conditions", say("conditions", name=names[0]), ResultTable(columns, rows))
