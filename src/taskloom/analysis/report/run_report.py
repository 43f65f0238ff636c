"""`taskloom runs report runs/`: what was run, how well it did and how certain that is, on one page to send to a colleague."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import taskloom
from taskloom.analysis.report import dataset_report, page
from taskloom.analysis.report.answer_data import Explorer
from taskloom.analysis.report.page import Section
from taskloom.analysis.report.report_columns import FAILURES
from taskloom.analysis.report.run_numbers import RunNumbers
from taskloom.analysis.report.run_sections import RunSections
from taskloom.experiments.record import RunsError
from taskloom.experiments.sources import runs
from taskloom.experiments.store import failure, failures
from taskloom.experiments.table import Runs


def report(
    store: str | Path | Runs,
    out: str | Path = "report.html",
    level: float = 0.95,
    *,
    data: Sequence[str | Path] = (),
    figures: str | Path | None = None,
    where: Sequence[str] = (),
    threshold: float | None = None,
    title: str = "",
) -> Path:
    """Write the page.

    Args:
        store: The folder of the runs, a file that `tl.runs` reads, or runs of `tl.run` or `tl.runs`.
        out: The HTML file.
        level: The confidence level of all intervals.
        data: Datasets, or folders of datasets, to show and audit on the same page.
        figures: A folder for the page's figures as SVG files, such as `learning-curves.svg`.
        where: Only these runs: selections of `Runs.where`, such as `iid > 0.5`.
        threshold: Adds the share of seeds whose score is over it to the table of scores.
        title: The heading; the recipes and learners by default.
    """
    table = (store if isinstance(store, Runs) else runs(store)).where(*where)
    failed = failures(table.path)
    if not len(table) and not failed:
        raise RunsError(f"{table.path} holds no finished run yet; fill it with 'taskloom run'")
    parts = RunSections(RunNumbers(table, level, threshold)) if len(table) else None
    sections = [s for s in _sections(table, parts, failed, data) if s is not None]
    shown = parts.explorer() if parts is not None else Explorer()
    if shown.empty:
        sections = [replace(s, explorer=False) for s in sections]
    if figures is not None:
        page.write_figures(Path(figures), sections)
    headline = parts.headline() if parts is not None else ""
    heading = title or (parts.name() if parts is not None else "Runs that failed")
    return page.write(
        Path(out), heading, _lead(table, level, where, parts), sections, headline=headline, data=shown.data
    )


def _lead(table: Runs, level: float, where: Sequence[str], parts: RunSections | None) -> str:
    """Return the paragraph below the title: how many runs, from where and when, and what intervals mean."""
    count = f"{len(table):,} runs" if len(table) != 1 else "1 run"
    finished = parts.finished() if parts is not None else ""
    dated = f", the last finished on {finished}" if finished else ""
    new = "new seeds and new examples" if parts is None or parts.numbers.scored else "new seeds on the same examples"
    lead = (
        f"{count} in {table.path}{dated}; report by Taskloom {taskloom.__version__}. Intervals are at {100 * level:g} %; "
        f"where there are several seeds they hold for {new}."
    )
    return f"{lead} Only runs with {' and '.join(where)}." if where else lead


def _sections(
    table: Runs, parts: RunSections | None, failed: dict[str, str], data: Sequence[str | Path]
) -> Iterator[Section | None]:
    if parts is not None:
        yield parts.findings(failed)
        yield parts.scores()
        yield parts.learning()
        yield from parts.by_trait()
        yield parts.comparisons()
        yield from parts.by_task()
        yield parts.examples()
    yield _failures(table.path, failed)
    yield from dataset_report.sections(data)
    if parts is not None:
        yield parts.overview()
        yield parts.reproduction()


def _failures(store: Path, failed: dict[str, str]) -> Section:
    text = "Rerun the 'taskloom run' command to retry just these." if failed else "None."
    rows = tuple({"cell": _failed_cell(store, run), "run": run, "reason": why} for run, why in failed.items())
    return Section("Failures", text, FAILURES, rows)


def _failed_cell(store: Path, run: str) -> str:
    """Return the name that the driver gave to a failed cell."""
    try:
        return str(json.loads(failure(store, run).read_text(encoding="utf-8")).get("cell", ""))
    except (OSError, ValueError):
        return ""
